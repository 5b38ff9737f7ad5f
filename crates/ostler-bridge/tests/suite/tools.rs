//! What an agent can do at the bridge, and what it is told.

use std::sync::Arc;

use ostler_bridge::capability::{Capabilities, parse};
use ostler_bridge::event::{BridgeEvent, Ended};
use ostler_bridge::route::Terms;
use serde_json::{Value, json};

use super::ground::{Events, Ground, Guest, PLAN, RUN};

#[tokio::test]
async fn an_agent_submits_repairs_and_declares() {
    let ground = Ground::new().await;
    let (route, mut events, guest) = ground.run();
    let refused = guest.says("declare_complete", json!({ "summary": "Done." })).await;
    assert_eq!(
        refused,
        "failed: Not complete. Still missing:\n- the artifact `plan`, which was not submitted\n\
         Submit what is missing, then call `declare_complete` again."
    );
    let draft = PLAN.replace("## Steps", "## Step");
    let rejected = guest.says("submit_artifact", json!({ "type": "plan", "content": draft })).await;
    insta::assert_snapshot!("rejected", rejected);
    assert_eq!(ground.read("artifacts/drafts/plan.md"), draft);
    assert!(!ground.has("artifacts/plan.md"));
    let edit = |old: &str| json!({ "type": "plan", "old": old, "new": "## Steps" });
    assert!(
        guest.says("edit_artifact", edit("## Stage")).await.starts_with("failed: `old` is not in the draft")
    );
    assert!(guest.says("edit_artifact", edit("## ")).await.starts_with("failed: `old` is 3 times"));
    let accepted = guest.says("edit_artifact", edit("## Step")).await;
    assert!(accepted.starts_with("ok: Accepted: `plan`, 66 bytes, receipt 2-"), "{accepted}");
    assert_eq!(ground.read("artifacts/plan.md"), PLAN);
    assert_eq!(ground.read("artifacts/history/0002-plan.md"), PLAN);
    assert!(!ground.has("artifacts/drafts/plan.md"));
    let taken = guest.says("declare_complete", json!({ "summary": "Done." })).await;
    assert!(taken.starts_with("ok: Recorded: the task is declared complete, receipt 3-"), "{taken}");
    assert_eq!(route.standing().missing_to_complete(), Vec::<String>::new());
    assert_eq!(route.audit().unwrap().unwrap().seals, 3);
    let told: Vec<String> = events.all().iter().map(name).collect();
    insta::assert_snapshot!("told", told.join("\n"));
}

/// An event in a few words.
fn name(event: &BridgeEvent) -> String {
    match event {
        BridgeEvent::Called { tool } => format!("called {tool}"),
        BridgeEvent::Answered { tool, ended } => format!("answered {tool}: {ended:?}"),
        BridgeEvent::Accepted { kind, bytes, .. } => format!("accepted {kind}, {bytes} bytes"),
        BridgeEvent::Rejected { kind, faults } => format!("rejected {kind}, {} faults", faults.len()),
        BridgeEvent::Completed { summary, .. } => format!("completed: {summary}"),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn every_bad_argument_is_a_sentence_and_not_an_error_of_the_protocol() {
    let ground = Ground::new().await;
    let (_route, _events, guest) = ground.run();
    let long = "x".repeat(70_000);
    let table = [
        ("submit_artifact", json!({}), "`submit_artifact` was not called: missing key `type`."),
        (
            "submit_artifact",
            json!({ "type": 3, "content": "" }),
            "`submit_artifact` was not called: expected text in quotes, found the number 3 in `type`.",
        ),
        (
            "submit_artifact",
            json!({ "type": "plan", "text": "" }),
            "`submit_artifact` was not called: unknown key `text`.",
        ),
        (
            "submit_artifact",
            json!({ "type": "plans", "content": "x" }),
            "There is no kind of artifact called `plans`. Did you mean `plan`?",
        ),
        (
            "submit_artifact",
            json!({ "type": "../../etc/passwd", "content": "x" }),
            "There is no kind of artifact called `../../etc/passwd`.",
        ),
        (
            "edit_artifact",
            json!({ "type": "plan", "old": "a", "new": "b" }),
            "There is no draft of `plan` to edit.",
        ),
        ("report_progress", json!({ "text": "x", "percent": 101 }), "101 percent is too much."),
        (
            "report_progress",
            json!({ "text": "x", "percent": -1 }),
            "`report_progress` was not called: expected a whole number from 0 to 255, found the number -1",
        ),
        (
            "ask_human",
            json!({ "question": "?", "options": ["a"], "default": "b" }),
            "The default `b` is not among the options.",
        ),
        (
            "declare_complete",
            json!({ "summary": long }),
            "The text has 70000 bytes; at most 65536 are taken.",
        ),
        (
            "declare_completed",
            json!({}),
            "There is no tool called `declare_completed` in this run. Did you mean `declare_complete`?",
        ),
        (
            "rm",
            json!({}),
            "There is no tool called `rm` in this run. There are: read_instructions, submit_artifact,",
        ),
        ("read_instructions", json!({ "x": 1 }), "`read_instructions` was not called: unknown key `x`."),
    ];
    for (tool, arguments, want) in table {
        let said = guest.says(tool, arguments).await;
        assert!(said.starts_with(&format!("failed: {want}")), "{said}");
    }
}

#[tokio::test]
async fn ten_megabytes_are_refused_in_words_and_more_is_not_read() {
    let ground = Ground::new().await;
    let (route, mut events, guest) = ground.run();
    let content = "x".repeat(10_000_000);
    let said = guest.says("submit_artifact", json!({ "type": "plan", "content": content })).await;
    let want = "failed: Not accepted: `plan` has 1 fault. Your text is too long to be kept as a draft: submit a \
                shorter one.\n- line 1 [too_long]: the document has 10000000 bytes; at most 1048576 are allowed";
    assert!(said.starts_with(want), "{}", &said[..300]);
    let reply = guest.call("submit_artifact", json!({ "type": "plan", "content": content.repeat(2) })).await;
    assert_eq!(reply.status, 413);
    assert_eq!(reply.message()["error"]["message"], "the message has more than 16777216 bytes: send less");
    events.find(|event| matches!(event, BridgeEvent::Refused { .. }).then_some(())).await;
    // Neither did any harm.
    let said = guest.says("submit_artifact", json!({ "type": "plan", "content": PLAN })).await;
    assert!(said.starts_with("ok: Accepted"), "{said}");
    assert_eq!(route.standing().missing(), Vec::<String>::new());
}

#[tokio::test]
async fn files_that_a_document_names_are_looked_for_inside_the_workspace_only() {
    let ground = Ground::new().await;
    let (_route, _events, guest) = ground.run();
    let workspace = ground.folder.path().join("workspace");
    std::fs::write(workspace.join("here.rs"), "").unwrap();
    std::fs::write(ground.folder.path().join("secret"), "").unwrap();
    std::os::unix::fs::symlink(ground.folder.path().join("secret"), workspace.join("link")).unwrap();
    let table = [
        ("here.rs", "ok"),
        ("gone.rs", "there is no file `gone.rs` in the workspace"),
        ("link", "there is no file `link` in the workspace"),
        ("../secret", "`../secret` lies outside the workspace"),
        ("/proc/self/environ", "`/proc/self/environ` lies outside the workspace"),
    ];
    for (path, want) in table {
        let content = PLAN.replace("Less.", &format!("[It]({path})."));
        let said = guest.says("submit_artifact", json!({ "type": "plan", "content": content })).await;
        assert!(said.contains(want), "{said}");
    }
}

async fn route_with(
    ground: &Ground,
    capabilities: Capabilities,
) -> (ostler_bridge::route::Route, Events, Guest) {
    let (route, events) = ground.keeper.admit(Terms { capabilities, ..ground.terms(RUN) }).unwrap();
    let guest = Guest::of(&route);
    (route, Events(events), guest)
}

#[tokio::test]
async fn a_tool_that_is_not_granted_is_neither_listed_nor_called() {
    let ground = Ground::new().await;
    let (route, _events, guest) = route_with(&ground, parse("progress").unwrap()).await;
    let offered = ["read_instructions", "report_progress", "declare_complete"];
    assert_eq!(guest.tools().await, offered);
    assert_eq!(route.preflight().await.unwrap(), offered);
    let said = guest.says("submit_artifact", json!({ "type": "plan", "content": PLAN })).await;
    assert!(said.starts_with("failed: There is no tool called `submit_artifact` in this run."), "{said}");
    assert!(!ground.has("artifacts/plan.md"));
}

#[tokio::test]
async fn tools_are_listed_with_their_schemas() {
    let ground = Ground::new().await;
    let (_route, _events, guest) = ground.run();
    let message = guest.send("tools/list", json!({})).await.message();
    let tools = serde_json::to_string_pretty::<Value>(&message["result"]["tools"]).unwrap();
    insta::assert_snapshot!("tools", tools);
}

#[tokio::test]
async fn the_task_and_the_state_of_the_artifacts_can_be_read_again() {
    let ground = Ground::new().await;
    let (route, _events, guest) = ground.run();
    guest.says("submit_artifact", json!({ "type": "issues", "content": "Nothing." })).await;
    insta::assert_snapshot!("instructions", guest.says("read_instructions", json!({})).await);
    route.set_notice(Some("Five minutes are left: wrap up.".to_owned()));
    let said = guest.says("report_progress", json!({ "text": "half\u{1b}[1m\nway", "percent": 50 })).await;
    assert_eq!(said, "ok: Noted. | Five minutes are left: wrap up.");
}

#[tokio::test]
async fn progress_is_one_line_without_control_characters() {
    let ground = Ground::new().await;
    let (_route, mut events, guest) = ground.run();
    guest.says("report_progress", json!({ "text": "half\u{1b}[1m\nway", "percent": 50 })).await;
    let found = events.find(|event| match event {
        BridgeEvent::Progressed { text, percent } => Some((text, percent)),
        _ => None,
    });
    assert_eq!(found.await, ("half[1m way".to_owned(), Some(50)));
    let ended = events.find(|event| match event {
        BridgeEvent::Answered { ended, .. } => Some(ended),
        _ => None,
    });
    assert_eq!(ended.await, Ended::Done);
}

#[tokio::test]
async fn what_cannot_be_recorded_is_not_accepted() {
    let ground = Ground::new().await;
    let (route, _events, guest) = ground.run();
    let artifacts = ground.folder.path().join(RUN).join("artifacts");
    std::fs::remove_dir_all(&artifacts).unwrap();
    let said = guest.says("submit_artifact", json!({ "type": "plan", "content": PLAN })).await;
    assert!(said.starts_with("failed: `plan` could not be recorded"), "{said}");
    assert_eq!(route.standing().missing().len(), 1);
}

#[tokio::test]
async fn memory_is_offered_where_it_is_granted() {
    let ground = Ground::new().await;
    let place = ostler_memory::place::Place::new(ground.terms(RUN).folder.join("memory"));
    let server = Arc::new(ostler_bridge::memory::MemoryServer::new(place, &ground.terms(RUN).workspace));
    let with = |list: &str| Terms {
        capabilities: parse(list).unwrap(),
        memory: Some(Arc::clone(&server)),
        ..ground.terms(RUN)
    };
    let (route, _events) = ground.keeper.admit(with("progress")).unwrap();
    assert!(!Guest::of(&route).tools().await.iter().any(|tool| tool.starts_with("memory_")));
    let said = Guest::of(&route).says("memory_search", json!({"query": "port"})).await;
    assert!(said.starts_with("failed: There is no tool called `memory_search` in this run."), "{said}");
    drop(route);
    let (route, _events) = ground.keeper.admit(with("memory")).unwrap();
    let guest = Guest::of(&route);
    let tools = guest.tools().await;
    assert_eq!(tools.iter().filter(|tool| tool.starts_with("memory_")).count(), 9, "{tools:?}");
    assert_eq!(route.preflight().await.unwrap(), tools);
    let said = guest.says("memory_remember", json!({"text": "The port is 8080"})).await;
    assert_eq!(said, r#"ok: {"id":"m1"}"#);
    let said = guest.says("memory_search", json!({"query": "which port"})).await;
    assert!(
        said.starts_with("ok: ") && said.contains("The port is 8080") && said.contains("\"m1\""),
        "{said}"
    );
    let said = guest.says("memory_get", json!({"id": "m9"})).await;
    assert_eq!(said, "failed: there is no message m9");
}
