//! Who is let in, and what the others learn.

use ostler_bridge::event::{BridgeEvent, Refusal};
use ostler_bridge::route::{Contact, RouteError, Terms};
use serde_json::json;

use super::ground::{Ground, Guest, RUN, Reply};

fn told(reply: &Reply) -> (u16, &str) {
    (reply.status, reply.text.trim_end())
}

#[tokio::test]
async fn strangers_are_refused_with_words_that_tell_nothing_of_the_run() {
    let ground = Ground::new().await;
    let (route, mut events, guest) = ground.run();
    let wrong = Guest { token: "0".repeat(64), ..guest.clone() };
    let none = Guest { token: String::new(), ..guest.clone() };
    let other_run = Guest { url: guest.url.replace(RUN, "0199-other"), ..guest.clone() };
    let query = Guest { url: format!("{}?token={}", guest.url, guest.token), ..guest.clone() };
    let query_only = Guest { token: String::new(), ..query.clone() };
    let elsewhere = Guest { url: guest.url.replace("/mcp/", "/other/"), ..guest.clone() };
    let no_query = "no query here: the token goes into the header `Authorization: Bearer TOKEN`";
    let table = [
        (wrong.clone(), 401, "unauthorized"),
        (none, 401, "unauthorized"),
        (other_run, 401, "unauthorized"),
        (guest.with("host", "evil.example"), 403, "forbidden"),
        (guest.with("host", "127.0.0.1"), 403, "forbidden"),
        (guest.with("host", "127.0.0.1:1"), 403, "forbidden"),
        (wrong.with("host", "evil.example"), 403, "forbidden"),
        (guest.with("origin", "https://evil.example"), 403, "forbidden"),
        (guest.with("origin", "null"), 403, "forbidden"),
        (query, 400, no_query),
        (query_only, 400, no_query),
        (elsewhere, 404, "not found"),
    ];
    for (guest, status, words) in table {
        let reply = guest.send("tools/list", json!({})).await;
        assert_eq!(told(&reply), (status, words), "{} {:?}", guest.url, guest.headers);
        assert!(
            !reply.text.contains(RUN) && !reply.text.contains(&guest.token[..guest.token.len().min(8)])
                || guest.token.is_empty()
        );
    }
    let refusals: Vec<Refusal> = events
        .all()
        .into_iter()
        .map(|event| match event {
            BridgeEvent::Refused { why } => why,
            other => panic!("{other:?}"),
        })
        .collect();
    use Refusal::{Host, Origin, Query, Token};
    assert_eq!(refusals, [Token, Token, Host, Host, Host, Host, Origin, Origin, Query, Query]);
    assert_eq!(route.contact(), Contact::None);
}

#[tokio::test]
async fn the_name_localhost_is_as_good_as_the_address() {
    let ground = Ground::new().await;
    let (_route, _events, guest) = ground.run();
    let guest = guest.with("host", &format!("localhost:{}", ground.port));
    assert_eq!(guest.send("tools/list", json!({})).await.status, 200);
}

#[tokio::test]
async fn the_agents_first_request_and_its_look_at_the_tools_are_noted() {
    let ground = Ground::new().await;
    let (route, mut events, guest) = ground.run();
    // Our own look is not the agent's.
    route.preflight().await.unwrap();
    assert_eq!((route.contact(), events.all()), (Contact::None, Vec::new()));
    let guest = guest.with("user-agent", "agent/1");
    guest.greet("2025-06-18").await;
    assert_eq!(route.contact(), Contact::Connected);
    guest.tools().await;
    assert_eq!(route.contact(), Contact::ToolsListed);
    let greeted = BridgeEvent::Greeted { client: "guest 1".to_owned(), protocol: "2025-06-18".to_owned() };
    let connected = BridgeEvent::Connected { client: "agent/1".to_owned() };
    assert_eq!(events.all(), [connected, greeted, BridgeEvent::ToolsListed]);
}

#[tokio::test]
async fn many_runs_share_the_door_and_no_token_fits_another() {
    let ground = Ground::new().await;
    let routes: Vec<_> =
        (0..100).map(|number| ground.keeper.admit(ground.terms(&format!("run-{number}"))).unwrap()).collect();
    for (at, (route, _events)) in routes.iter().enumerate() {
        let guest = Guest::of(route);
        assert_eq!(guest.send("tools/list", json!({})).await.status, 200);
        let stranger = Guest { token: routes[(at + 1) % 100].0.token().reveal().to_owned(), ..guest };
        assert_eq!(stranger.send("tools/list", json!({})).await.status, 401);
    }
}

#[tokio::test]
async fn a_closed_route_is_like_one_that_never_was() {
    let ground = Ground::new().await;
    let (route, _events, guest) = ground.run();
    assert_eq!(guest.send("tools/list", json!({})).await.status, 200);
    let taken = ground.keeper.admit(ground.terms(RUN)).map(|_| ()).unwrap_err();
    assert!(matches!(taken, RouteError::Taken { .. }));
    drop(route);
    let reply = guest.send("tools/list", json!({})).await;
    assert_eq!(told(&reply), (401, "unauthorized"));
    assert!(ground.keeper.admit(ground.terms(RUN)).is_ok());
}

#[tokio::test]
async fn terms_that_cannot_be_kept_are_refused() {
    let ground = Ground::new().await;
    let required = |kind: &str| Terms { required: vec![kind.to_owned()], ..ground.terms("x") };
    let table = [
        (Terms { run: "../x".to_owned(), ..ground.terms("x") }, "`../x` cannot be part of an address", None),
        (required("plans"), "there is no kind of artifact called `plans`", Some("did you mean `plan`?")),
        (
            required("zzz"),
            "there is no kind of artifact called `zzz`",
            Some("write its rules into `.ostler/artifacts/zzz.toml`"),
        ),
    ];
    for (terms, words, hint) in table {
        let error = ground.keeper.admit(terms).map(|_| ()).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.hint().as_deref()), (words, hint));
    }
}
