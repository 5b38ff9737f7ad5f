//! Real agents at the bridge: what they hand over and declare there is what counts, and nothing else.

mod behind_tls;
mod handed_out;
mod remembering;
mod wrapping_up;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::for_every_agent;
use crate::player::Player;
use crate::yard::{Ended, Yard};

const PLAN: &str = "# Plan\n\n## Goal\nLess.\n\n## Steps\n1. One.\n\n## Checks\n- It is quiet.\n";

/// A step that calls a tool of the bridge. Its arguments are TOML.
fn call(tool: &str, arguments: &str) -> String {
    format!(
        "[[conversation.step]]\nreply = [{{ tool_by_role = \"mcp:ostler/{tool}\", arguments = {{ {arguments} }} }}]\n"
    )
}

/// The same, after a result with these words.
fn after(words: &str, step: &str) -> String {
    step.replacen("reply", &format!("expect = {{ result_contains = {words:?} }}\nreply"), 1)
}

fn says(text: &str) -> String {
    format!("[[conversation.step]]\nreply = [{{ text = {text:?} }}]\n")
}

fn declare() -> String {
    call("declare_complete", "summary = \"Done.\"")
}

fn submit(content: &str) -> String {
    call("submit_artifact", &format!("type = \"plan\", content = {content:?}"))
}

/// Events of the bridge, by their names.
fn bridged(ended: &Ended) -> Vec<&str> {
    ended.with("kind", "bridge").filter_map(|line| line["event"].as_str()).collect()
}

fn evidence(ended: &Ended) -> Vec<(&str, &str)> {
    let all = ended.outcome()["evidence"].as_array().unwrap().iter();
    all.map(|one| (one["fact"].as_str().unwrap(), one["grade"].as_str().unwrap())).collect()
}

fn journal(ended: &Ended) -> &Path {
    Path::new(ended.outcome()["journal"].as_str().unwrap())
}

/// An MCP server over HTTP, which is there for as long as this is.
struct Served {
    child: Child,
    port: String,
}

impl Served {
    fn start(yard: &Yard) -> Self {
        Self::over(yard, "http")
    }

    fn over(yard: &Yard, way: &str) -> Self {
        let place = yard.at("port");
        let mut command = Command::new("node");
        command.arg(SERVER).arg(way).arg(&place).stdin(Stdio::null());
        let mut served = Self { child: command.spawn().unwrap(), port: String::new() };
        let until = Instant::now() + Duration::from_secs(60);
        while !served.port.ends_with('\n') {
            served.port = std::fs::read_to_string(&place).unwrap_or_default();
            assert!(Instant::now() < until, "the server does not listen");
            std::thread::yield_now();
        }
        served.port.pop();
        served
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/bridge/server.mjs");

/// All that an agent can do there, at the level of permissions that allows nothing else.
fn hands_over_repairs_asks_and_declares(player: Player) {
    let Some(yard) = Yard::bridged(player) else { return };
    let served = Served::start(&yard);
    yard.configure_also(&format!(
        "[mcp.docs]\nurl = \"http://127.0.0.1:{}/mcp\"\nheaders = {{ x-key = \"${{DOCS_KEY}}\" }}\n",
        served.port
    ));
    let wrong = PLAN.replace("## Goal", "## Gaol");
    let script = yard.script(&format!(
        "[[conversation]]\n{}{}{}{}{}{}{}",
        submit(&wrong),
        after(
            "missing_heading",
            &call("edit_artifact", "type = \"plan\", old = \"## Gaol\", new = \"## Goal\"")
        ),
        after("Accepted: `plan`", &call("upstream__clock__say", "text = \"tick\"")),
        after("stdio without a key heard tick", &call("upstream__docs__say", "text = \"page\"")),
        after(
            "http with a-key-for-docs heard page",
            &call("ask_human", "question = \"Which?\", default = \"blue\", timeout = 1")
        ),
        after("blue", &declare()),
        after("receipt 3-", &says("All is done.")),
    ));
    let (clock, folder) = (format!("clock=node {SERVER} stdio"), yard.at("exported").display().to_string());
    let mut command = yard.ostler(&["run", "-a", player.agent().name(), "--json", &script]);
    command.args(["--permissions", "deny", "--require-artifact", "plan", "--export-artifacts", &folder]);
    command.args(["--capabilities", "artifacts,ask,upstream:docs", "--mcp", &clock, "Plan it."]);
    // The server is a file of the user's own, which the jail shows only if the user says so.
    command.env("OSTLER_CFG__JAIL__READ", SERVER);
    let ended = Ended::of(command.env("DOCS_KEY", "a-key-for-docs").output().unwrap());
    ended.ends("completed", 0);
    assert_eq!(ended.outcome()["resumes"], 0);
    let wire = [("the agent declared completion", "wire"), ("artifact `plan` accepted", "wire")];
    assert_eq!(evidence(&ended)[..2], wire);
    let told = bridged(&ended);
    for event in ["connected", "tools_listed", "rejected", "accepted", "asked", "settled", "completed"] {
        assert_eq!(told.iter().filter(|told| **told == event).count(), 1, "{event}: {told:?}");
    }
    // A question to a person is a wait, and the agent's clock stands still.
    assert_eq!((ended.with("kind", "parked").count(), ended.with("kind", "unparked").count()), (1, 1));
    // What was submitted is what is kept, byte for byte.
    for kept in [journal(&ended).join("artifacts/plan.md"), yard.at("exported/plan.md")] {
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), PLAN, "{}", kept.display());
    }
    let side = std::fs::read_to_string(journal(&ended).join("raw/mcp-clock")).unwrap();
    assert_eq!(side, "the server begins\n");
    is_secret(&yard, &ended);
    let shown = yard.shown();
    assert!(shown.contains("the chain is whole") && shown.contains("artifact plan ("), "{shown}");
    drop(served);
    yard.is_empty();
}

/// The token is in no argument, in no event, and in no file once the run is over. Nor is a key.
fn is_secret(yard: &Yard, ended: &Ended) {
    let spawned = ended.with("kind", "spawned").next().unwrap();
    assert!(!spawned["command"].as_str().unwrap().contains("Bearer"), "{spawned}");
    assert!(!journal(ended).join("private").exists());
    let run = std::fs::read_to_string(journal(ended).join("run.json")).unwrap();
    assert!(!run.contains("a-key-for-docs"), "{run}");
    let config = yard.ostler(&["config", "show"]).output().unwrap().stdout;
    assert!(!String::from_utf8(config).unwrap().contains("DOCS_KEY"));
}

/// It says that it is done, in all words but the one that counts. So it is told what is missing, in its own names.
fn is_resumed_with_what_is_missing_and_then_incomplete(player: Player) {
    let Some(yard) = Yard::bridged(player) else { return };
    let said = says("The task is complete: declare_complete, receipt 2-abcdef12.");
    let script = yard.script(&format!("[[conversation]]\n{said}"));
    let ended = yard.run(&[&script, "--require-artifact", "plan", "Plan it."]);
    ended.ends("incomplete", 11);
    let missing = ["the artifact `plan`, which was not submitted", "the call of `declare_complete`"];
    assert_eq!(ended.outcome()["missing"], serde_json::json!(missing));
    assert_eq!(evidence(&ended), [("the agent ended its turn as done", "reported")]);
    assert_eq!(ended.outcome()["resumes"], 2);
    let asked = yard.requests(&ended);
    let asked: Vec<&str> = asked.iter().filter_map(|request| request["last_message"].as_str()).collect();
    // The log has the beginning of a message.
    let named = format!("- the call of the tool `{}`", player.agent().tool_name("declare_complete").unwrap());
    let is_told = |text: &&&str| text.contains(&named) && text.contains("- the artifact `plan`");
    assert_eq!(asked.iter().filter(is_told).count(), 2, "{asked:#?}");
    yard.is_empty();
}

/// Told what is missing, it does it.
fn is_completed_in_a_second_turn(player: Player) {
    let Some(yard) = Yard::bridged(player) else { return };
    let script = yard.script(&format!(
        "[[conversation]]\n{}{}{}[[conversation]]\n{}",
        submit(PLAN).replacen("reply", "expect = { contains = \"Still missing\" }\nreply", 1),
        after("Accepted", &declare()),
        says("Now it is done."),
        says("I think it is done."),
    ));
    let ended = yard.run(&[&script, "--require-artifact", "plan", "Plan it."]);
    ended.ends("completed", 0);
    assert_eq!(ended.outcome()["resumes"], 1);
    assert_eq!(evidence(&ended)[0].1, "wire");
    yard.is_empty();
}

/// Once it is recorded that the task is done, it is done, however the agent ends.
fn is_completed_although_it_was_killed(player: Player) {
    let Some(yard) = Yard::bridged(player) else { return };
    let stall = "[[conversation.step]]\nreply = [{ text = \"And\" }, { stall = \"mid_text\" }]\n";
    let script = yard.script(&format!("[[conversation]]\n{}{stall}", declare()));
    let mut child = yard.start(&[&script, "Do it."]);
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let pid = lines.iter().find_map(|line: &Value| line["pid"].as_i64());
        if line["event"] == "completed" {
            let pid = i32::try_from(pid.unwrap()).unwrap();
            kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        }
        lines.push(line);
    }
    let ended = Ended { code: child.wait().unwrap().code(), lines };
    ended.ends("completed", 0);
    assert_eq!(evidence(&ended), [("the agent declared completion", "wire")]);
    assert_eq!(ended.with("kind", "exited").next().unwrap()["signal"], 9);
    yard.is_empty();
}

for_every_agent!(
    hands_over_repairs_asks_and_declares,
    is_resumed_with_what_is_missing_and_then_incomplete,
    is_completed_in_a_second_turn,
    is_completed_although_it_was_killed
);

/// An agent that has declared completion and does not end is stopped, and the task is done all the same.
#[test]
fn an_agent_that_goes_on_after_its_claim_is_stopped() {
    let Some(yard) = Yard::bridged(Player::Codex) else { return };
    let stall = "[[conversation.step]]\nreply = [{ stall = \"mid_text\" }]\n";
    let script = yard.script(&format!("[[conversation]]\n{}{stall}", declare()));
    let ended = yard.run(&[&script, "Do it."]);
    ended.ends("completed", 0);
    assert_eq!(ended.with("kind", "stopping").next().unwrap()["reason"], "completed");
    yard.is_empty();
}

#[test]
fn a_person_answers_a_question_from_elsewhere() {
    let Some(yard) = Yard::bridged(Player::Codex) else { return };
    let none = yard.ostler(&["answer", "last", "yes"]).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    let ask = call("ask_human", "question = \"Which?\", options = [\"red\", \"blue\"], timeout = 3000");
    let script =
        yard.script(&format!("[[conversation]]\n{ask}{}{}", after("blue", &declare()), says("Blue.")));
    let mut child = yard.start(&[&script, "--silence", "2s", "--open-call", "2s", "Paint it."]);
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if line["event"] == "asked" && line["kind"] == "bridge" {
            let wrong =
                yard.ostler(&["answer", "last", "--question", "9", "x"]).stderr(Stdio::piped()).output();
            assert!(String::from_utf8(wrong.unwrap().stderr).unwrap().contains("that question is not open"));
            assert!(yard.why().contains("asks     1: Which? [red, blue], since Ns\n"), "{}", yard.why());
            // An answer outside the offered options is refused, and the question stays open.
            for wrong in ["green", "3"] {
                let refused =
                    yard.ostler(&["answer", "last", wrong]).stderr(Stdio::piped()).output().unwrap();
                assert_eq!(refused.status.code(), Some(2), "{refused:?}");
                let why = format!("`{wrong}` is not one of the options: (1) red, (2) blue\n");
                assert!(String::from_utf8(refused.stderr).unwrap().contains(&why), "{why}");
            }
            let answered = yard.ostler(&["answer", "last", "2"]).output().unwrap();
            assert_eq!(answered.status.code(), Some(0), "{answered:?}");
        }
        lines.push(line);
    }
    let ended = Ended { code: child.wait().unwrap().code(), lines };
    ended.ends("completed", 0);
    let settled = ended.with("event", "settled").next().unwrap();
    assert_eq!(settled["how"], serde_json::json!({"answered": "blue"}));
}

/// A file with the right name, in a folder of ours, from a run that went well: nothing of it counts for another.
#[test]
fn an_artifact_of_an_earlier_run_does_not_count() {
    let Some(yard) = Yard::bridged(Player::Codex) else { return };
    let both = yard.script(&format!("[[conversation]]\n{}{}{}", submit(PLAN), declare(), says("Done.")));
    yard.run(&[&both, "--require-artifact", "plan", "Plan it."]).ends("completed", 0);
    let only = yard.script(&format!("[[conversation]]\n{}{}", declare(), says("Done.")));
    let ended = yard.run(&[&only, "--require-artifact", "plan", "--max-resumes", "0", "Plan it."]);
    ended.ends("incomplete", 11);
    assert_eq!(ended.with("event", "claim_refused").count(), 1);
}

/// What was accepted before a run was cut off counts when it goes on; the claim has to be made again.
#[test]
fn a_run_that_goes_on_keeps_its_artifacts() {
    let Some(yard) = Yard::bridged(Player::Codex) else { return };
    let script = yard.script(&format!(
        "[[conversation]]\n{}{}[[conversation]]\n{}{}",
        declare().replacen("reply", "expect = { contains = \"declare\" }\nreply", 1),
        says("Done."),
        submit(PLAN),
        says("The plan is in."),
    ));
    let ended = yard.run(&[&script, "--require-artifact", "plan", "--max-resumes", "0", "Plan it."]);
    ended.ends("incomplete", 11);
    assert_eq!(evidence(&ended)[0], ("artifact `plan` accepted", "wire"));
    let again = yard.ostler(&["run", "--resume", "last", "--json", "Now declare it."]).output().unwrap();
    let ended = Ended::of(again);
    ended.ends("completed", 0);
    assert_eq!(evidence(&ended).len(), 3, "the claim, the plan of before, its own word");
    let shown = yard.shown();
    assert!(shown.contains("the chain is whole") && shown.contains("declared complete: Done."), "{shown}");
}

/// The agent can write the files of its own run. What it changes there changes nothing, and is told.
#[test]
fn receipts_that_the_agent_changes_change_nothing_and_are_told() {
    let Some(yard) = Yard::bridged(Player::Codex) else { return };
    let forge = format!(
        "[[conversation.step]]\nreply = [{{ tool_by_role = \"shell\", command = \"sed -i s/plan/clan/ {}/runs/*/receipts.ndjson\" }}]\n",
        yard.at("ostler").display()
    );
    let script =
        yard.script(&format!("[[conversation]]\n{}{forge}{}{}", submit(PLAN), declare(), says("Done.")));
    let ended = yard.run(&[&script, "--permissions", "all", "--require-artifact", "plan", "Plan it."]);
    ended.ends("completed", 0);
    let broken = ended.outcome()["bridge"]["broken"].as_str().unwrap();
    assert!(broken.contains("the chain of receipts is broken at line 2"), "{broken}");
    let warned = ended.with("kind", "warn").filter_map(|line| line["text"].as_str());
    assert_eq!(warned.filter(|text| text.contains("is broken")).count(), 1);
    assert!(yard.shown().contains("BROKEN: the chain of receipts is broken"), "{}", yard.shown());
}

#[test]
fn receipts_that_somebody_edits_later_are_told_and_do_not_count() {
    let Some(yard) = Yard::bridged(Player::Codex) else { return };
    let script = yard.script(&format!("[[conversation]]\n{}{}{}", submit(PLAN), declare(), says("Done.")));
    let ended = yard.run(&[&script, "--require-artifact", "plan", "Plan it."]);
    ended.ends("completed", 0);
    assert!(yard.shown().contains("the chain is whole"), "{}", yard.shown());
    let artifact = journal(&ended).join("artifacts/plan.md");
    std::fs::write(&artifact, "another").unwrap();
    assert!(yard.shown().contains("plan.md is not what was accepted"), "{}", yard.shown());
    let path = journal(&ended).join("receipts.ndjson");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"Done.\"", "\"Gone.\"")).unwrap();
    let shown = yard.shown();
    assert!(shown.contains("BROKEN: the chain of receipts is broken at line 3"), "{shown}");
    let again =
        yard.ostler(&["run", "--resume", "last", "--json", "--max-resumes", "0", "Go on."]).output().unwrap();
    let ended = Ended::of(again);
    let mut warned = ended.with("kind", "warn").filter_map(|line| line["text"].as_str());
    assert!(warned.any(|text| text.contains("it does not count, and was put aside")), "{:#?}", ended.lines);
}

/// An agent that knows nothing of MCP: said so, not guessed.
#[test]
fn an_agent_that_never_connects_is_told() {
    let yard = Yard::of_fake(Player::Codex, "[[step]]\ndo = [{ say = \"I am done.\" }]").with_bridge();
    let ended = yard.run(&["--max-resumes", "0", "Do it."]);
    ended.ends("incomplete", 11);
    assert_eq!(ended.outcome()["bridge"]["contact"], "none");
    let why = yard.why();
    assert!(why.contains("bridge   the agent never connected to it"), "{why}");
}

/// The server does not start: an outcome that says so, and nothing is left.
#[test]
fn a_server_that_cannot_be_used_is_told_before_the_agent_starts() {
    let Some(yard) = Yard::bridged(Player::Codex) else { return };
    for (server, want) in [
        ("gone=/nowhere/at-all", "could not start the MCP server `gone`"),
        ("mute=true", "MCP server `mute` could not be greeted"),
        ("far=http://127.0.0.1:1/mcp", "MCP server `far` could not be reached: "),
    ] {
        let ended = yard.run(&["--rehearse=hello", "--mcp", server, "Say hello."]);
        ended.ends("never_started", 14);
        let detail = ended.outcome()["detail"].as_str().unwrap();
        assert!(detail.contains("its bridge could not be opened") && detail.contains(want), "{detail}");
        assert_eq!(ended.with("kind", "spawned").count(), 0);
        yard.is_empty();
    }
}

/// A server that does not answer is waited for, but not against the will of whoever wants to stop.
#[test]
fn a_run_is_stopped_from_elsewhere_while_a_server_starts() {
    let Some(yard) = Yard::bridged(Player::Codex) else { return };
    let script = yard.script(&format!("[[conversation]]\n{}", declare()));
    let child = yard.start(&[&script, "--mcp", "hang=sleep 98117", "Do it."]);
    let until = Instant::now() + Duration::from_secs(60);
    while yard.ostler(&["stop", "last"]).stderr(Stdio::null()).output().unwrap().status.code() != Some(0) {
        assert!(Instant::now() < until, "nobody can stop it");
    }
    let ended = Ended::of(child.wait_with_output().unwrap());
    ended.ends("cancelled", 143);
    yard.is_empty();
}
