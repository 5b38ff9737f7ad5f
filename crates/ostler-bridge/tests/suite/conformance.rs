//! The bridge as clients of others find it: the SDK that most agents are built with, and a newer one.
//!
//! They are installed by `./test clients`. Without them these tests have nothing to say, and fail where they must not.

use std::path::PathBuf;
use std::process::Stdio;

use ostler_bridge::event::{BridgeEvent, Settled};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

use super::ground::{DEADLINE, Ground};

/// Where the clients are. `None`, told, if they need not be there.
fn clients() -> Option<PathBuf> {
    let folder = std::env::var_os("OSTLER_TEST_CLIENTS").map(PathBuf::from);
    let found = folder.filter(|folder| folder.join("node_modules").is_dir());
    if found.is_none() {
        let must = std::env::var_os("OSTLER_E2E").is_some_and(|value| value == "require");
        assert!(!must, "no clients in OSTLER_TEST_CLIENTS: `./test clients` installs them");
        eprintln!("left out: no clients in OSTLER_TEST_CLIENTS");
    }
    found
}

/// Has a client talk to a run's bridge, and returns what it found and what the run was told.
async fn talked(kind: &str) -> Option<(Value, Vec<BridgeEvent>)> {
    let clients = clients()?;
    let ground = Ground::new().await;
    let (route, mut events, _) = ground.run();
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../clients/client.mjs");
    let mut child = Command::new("node")
        .arg(script)
        .args([kind, route.url()])
        .env("OSTLER_TEST_CLIENTS", clients)
        .env("OSTLER_TEST_TOKEN", route.token().reveal())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("node starts");
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut told = Vec::new();
    let talking = async {
        loop {
            tokio::select! {
                line = lines.next_line() => {
                    let line = line.unwrap().expect("the client says what it found");
                    break serde_json::from_str::<Value>(&line).unwrap_or_else(|_| panic!("{line}"));
                }
                event = events.0.recv() => {
                    let event = event.expect("the route is open");
                    if matches!(&event, BridgeEvent::Asked(question) if question.text == "take back") {
                        stdin.write_all(b"now\n").await.unwrap();
                    }
                    told.push(event);
                }
            }
        }
    };
    let found = tokio::time::timeout(DEADLINE, talking).await.expect("the client is done in time");
    told.extend(events.all());
    assert!(child.wait().await.unwrap().success());
    Some((found, told))
}

/// What every client that is served finds.
fn check(found: &Value, told: &[BridgeEvent], protocol: &str) {
    assert_eq!(found["failed"], Value::Null, "{found}");
    assert_eq!((&found["server"], &found["protocol"]), (&json!("ostler"), &json!(protocol)), "{found}");
    assert_eq!(found["tools"].as_array().map(Vec::len), Some(6), "{found}");
    assert_eq!(found["noted"], json!({ "isError": false, "text": "Noted." }));
    for (what, begins) in [
        ("refused", "Not accepted: `plan` has "),
        ("mistaken", "`submit_artifact` was not called: "),
        ("unknownTool", "There is no tool called `no_such_tool` in this run."),
    ] {
        assert_eq!(found[what]["isError"], true, "{what}: {found}");
        assert!(found[what]["text"].as_str().unwrap().starts_with(begins), "{what}: {found}");
    }
    assert_eq!(found["unknownMethod"], -32601, "{found}");
    assert_eq!(found["slow"], json!({ "isError": false, "text": "later" }));
    assert_eq!(found["takenBack"], "taken back");
    assert_eq!(found["after"], json!({ "isError": false, "text": "Noted." }));
    assert_eq!(found["batch"], json!({ "status": 400, "code": -32600 }));
    let settled: Vec<&Settled> = told
        .iter()
        .filter_map(|event| match event {
            BridgeEvent::Settled { how, .. } => Some(how),
            _ => None,
        })
        .collect();
    assert_eq!(settled, [&Settled::TimedOut, &Settled::Withdrawn]);
    assert!(told.contains(&BridgeEvent::ToolsListed), "{told:?}");
}

fn greeted(kind: &str, protocol: &str) -> BridgeEvent {
    BridgeEvent::Greeted { client: format!("conformance-{kind} 1"), protocol: protocol.to_owned() }
}

#[tokio::test]
async fn the_sdk_that_agents_are_built_with_is_served() {
    let Some((found, told)) = talked("sdk").await else { return };
    assert_eq!(found["progress"], true, "{found}");
    check(&found, &told, "2025-11-25");
    assert_eq!(found["ping"], "answered");
    assert!(told.contains(&greeted("sdk", "2025-11-25")), "{told:?}");
}

#[tokio::test]
async fn a_client_that_knows_one_older_revision_is_served_in_it() {
    let Some((found, told)) = talked("old").await else { return };
    check(&found, &told, "2025-06-18");
    assert_eq!(found["ping"], "answered");
    assert!(told.contains(&greeted("old", "2025-06-18")), "{told:?}");
}

#[tokio::test]
async fn a_client_that_insists_on_the_newest_revision_is_served_without_a_greeting() {
    let Some((found, told)) = talked("pinned").await else { return };
    assert_eq!(found["progress"], true, "{found}");
    check(&found, &told, "2026-07-28");
    assert!(!told.iter().any(|event| matches!(event, BridgeEvent::Greeted { .. })), "{told:?}");
    // There is none in it, and the client knows.
    assert_eq!(found["ping"], "METHOD_NOT_SUPPORTED_BY_PROTOCOL_VERSION");
}

#[tokio::test]
async fn a_client_whose_revision_is_not_served_is_offered_another_and_leaves() {
    let Some((found, told)) = talked("ancient").await else { return };
    let why = found["failed"].as_str().unwrap_or_else(|| panic!("{found}"));
    assert!(why.contains("2025-11-25"), "{why}");
    assert_eq!(found["tools"], Value::Null, "{found}");
    assert!(told.contains(&greeted("ancient", "2025-11-25")), "{told:?}");
    assert!(!told.contains(&BridgeEvent::ToolsListed), "{told:?}");
}
