//! Where tenants are refused, and what of them survives an upgrade.

use std::fs;

use serde_json::{Value, json};

use super::Tenancy;
use crate::player::Player;
use crate::real_shape::RealShape;

/// A tenant's request, and the owner's.
fn ask_both(tenancy: &Tenancy) -> [(u16, String); 2] {
    let body = json!({"model": tenancy.model(), "messages": [{"role": "user", "content": "Hello."}]});
    [&tenancy.keys[0], &tenancy.owner]
        .map(|key| tenancy.served.client(key).post("/v1/chat/completions", "", &body))
}

async fn is_refused(tenancy: Option<Tenancy>, reason: &str, helps: &str) {
    let Some(tenancy) = tenancy else { return };
    let asked = tokio::task::spawn_blocking(move || {
        let asked = ask_both(&tenancy);
        (asked, tenancy.served.interrupt())
    });
    let ([(status, body), (owners, owners_body)], exit) = asked.await.unwrap();
    assert_eq!((status, owners, exit), (403, 200, Some(0)), "{body} {owners_body}");
    assert!(body.contains(reason) && body.contains(helps), "{body}");
}

/// The owner's agent needs no key of the provider's here: the scripted one asks for none.
#[tokio::test]
async fn tenants_are_refused_where_only_a_sign_in_exists() {
    let tenancy = Tenancy::with(Player::ClaudeStream, "deny", |shape| {
        let settings = shape.at("home/.claude/settings.json");
        let text = fs::read_to_string(&settings).unwrap().replace("ANTHROPIC_AUTH_TOKEN", "NO_TOKEN");
        fs::write(settings, text).unwrap();
        let token = json!({"claudeAiOauth": {
            "accessToken": "a", "refreshToken": "r", "expiresAt": 99_999_999_999_999_u64,
            "scopes": ["user:inference"], "subscriptionType": "max",
        }});
        fs::write(shape.at("home/.claude/.credentials.json"), token.to_string()).unwrap();
        shape
    });
    is_refused(tenancy.await, "a sign-in cannot be shared", "ANTHROPIC_API_KEY").await;
}

#[tokio::test]
async fn tenants_are_refused_without_namespaces() {
    let landlock = |shape: RealShape| shape.variable("OSTLER_FORCE_JAIL", "landlock");
    let tenancy = Tenancy::with(Player::ClaudeStream, "deny", landlock).await;
    is_refused(tenancy, "need a jail by namespaces", "try: ").await;
}

/// What a version without kinds left: keys without one, and sessions that are the owner's.
fn remove_kinds(shape: &RealShape) {
    let rewrite = |path: &std::path::Path, change: &dyn Fn(&mut Value)| {
        let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        change(&mut value);
        fs::write(path, value.to_string()).unwrap();
    };
    rewrite(&shape.at("ostler/keys.json"), &|keys| {
        keys["v"] = json!(2);
        for key in keys["keys"].as_array_mut().unwrap() {
            key.as_object_mut().unwrap().remove("kind");
        }
    });
    for parked in fs::read_dir(shape.at("ostler/serve/parked")).unwrap().flatten() {
        if parked.path().extension().is_some_and(|kind| kind == "json") {
            rewrite(&parked.path(), &|parked| {
                let terms = parked["terms"].as_object_mut().unwrap();
                assert!(terms.remove("kind").is_some() && terms.remove("memory").is_some());
            });
        }
    }
}

#[tokio::test]
async fn a_session_parked_before_the_upgrade_goes_on() {
    let Some(tenancy) = Tenancy::start(Player::ClaudeStream, "deny").await else { return };
    let tap = tokio::task::spawn_blocking(move || {
        let path = tenancy.open(tenancy.served.client(&tenancy.owner), "stream");
        tenancy.ask(tenancy.served.client(&tenancy.owner), &path, "Remember quartz-1.");
        let Tenancy { shape, tap, served, keys, owner, _provider } = tenancy;
        assert_eq!(served.interrupt(), Some(0));
        remove_kinds(&shape);
        // Without `admin` it is a tenant's now.
        let served = shape.serve_again(&owner);
        let tenancy = Tenancy { shape, tap, served, keys, owner, _provider };
        tenancy.ask(tenancy.served.client(&tenancy.owner), &path, "What was it?");
        let homes = tenancy.shape.names("ostler/serve/tenants");
        assert_eq!(homes.len(), 1, "{homes:?}");
        let Tenancy { tap, served, .. } = tenancy;
        assert_eq!(served.interrupt(), Some(0));
        tap
    });
    let last = tap.await.unwrap().conversation().pop().unwrap().to_string();
    assert!(last.contains("quartz-1") && last.contains("What was it?"), "{last}");
}
