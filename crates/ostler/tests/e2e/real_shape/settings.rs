//! Settings that users give OpenCode in its variables hold, beside those that Ostler gives it.

use serde_json::{Value, json};

use super::provider::Provider;
use super::{DECLARES, RealShape, opencode};
use crate::player::Player;
use crate::tap::Tap;
use crate::yard::{Ended, ended};

const USERS: &str = "Answer in rhymes.";
const OSTLERS: &str = "Be brief.";

/// The user has no settings but those that `set` puts into the environment. They name the provider, a file with
/// instructions, and an MCP server.
async fn hold(set: impl FnOnce(RealShape, String) -> RealShape) {
    let Some(shape) = RealShape::of(Player::OpenCode) else { return };
    let provider = Provider::start(DECLARES);
    let tap = Tap::before(&provider.url).await;
    std::fs::write(shape.at("own.md"), USERS).unwrap();
    std::fs::write(shape.at("ostlers.md"), OSTLERS).unwrap();
    let mut settings: Value = serde_json::from_str(&opencode(&tap.url)).unwrap();
    settings["instructions"] = json!([shape.at("own.md")]);
    settings["mcp"] = json!({"own": {"type": "local", "command": ["/bin/true"], "enabled": false}});
    // The instructions are a file of the user's own, which the jail shows only if the user says so.
    let own = shape.at("own.md").display().to_string();
    let shape = set(shape.with_bridge(), settings.to_string()).variable("OSTLER_CFG__JAIL__READ", own);
    let run = tokio::task::spawn_blocking(move || {
        let file = shape.at("ostlers.md").display().to_string();
        let ended =
            Ended::of(ended(shape.start(&["--ceiling", "3m", "--system-prompt-file", &file, "Declare it."])));
        ended.ends("completed", 0);
        shape.is_empty();
    });
    run.await.unwrap();
    let request = tap.conversation()[0].to_string();
    assert!(request.contains(USERS) && request.contains(OSTLERS), "{request}");
}

/// Ostler's own settings replaced them: OpenCode knew neither the provider nor the instructions.
#[tokio::test]
async fn of_the_variable_that_ostler_sets_too_hold() {
    hold(|shape, settings| {
        let commented = settings.replacen('{', "{ // The user's own.\n", 1);
        shape.variable("OPENCODE_CONFIG_CONTENT", commented)
    })
    .await;
}

#[tokio::test]
async fn of_a_file_that_a_variable_names_hold() {
    hold(|shape, settings| {
        let path = shape.at("own.json");
        std::fs::write(&path, settings).unwrap();
        shape.variable("OPENCODE_CONFIG", path.display().to_string())
    })
    .await;
}
