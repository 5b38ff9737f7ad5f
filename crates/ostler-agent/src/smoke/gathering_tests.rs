use std::time::Duration;

use serde_json::json;

use super::*;
use crate::event::ToolResult;

fn event(ms: u64, kind: RunEventKind) -> RunEvent {
    RunEvent { seq: 1, ms, kind }
}

fn agent(event: AgentEvent) -> RunEventKind {
    RunEventKind::Agent(event)
}

fn said(text: &str, within: Option<&str>) -> RunEventKind {
    agent(AgentEvent::Said { text: text.to_owned(), part: Part::Whole, within: within.map(str::to_owned) })
}

fn gathered(kinds: impl IntoIterator<Item = (u64, RunEventKind)>) -> Gathered {
    let mut gathered = Gathered::of("smoke_test_result");
    for (ms, kind) in kinds {
        gathered.note(&event(ms, kind));
    }
    gathered
}

fn spawned() -> RunEventKind {
    RunEventKind::Spawned { pid: 1, attempt: 1, containment: String::new(), command: String::new() }
}

#[test]
fn a_run_is_folded_as_it_happens() {
    let started = |call: &str| AgentEvent::ToolStarted {
        call: call.to_owned(),
        tool: "Write".to_owned(),
        input: json!({}),
        within: None,
    };
    let result = ToolResult { failed: false, exit_code: None, text: String::new() };
    let closed = |call: &str| AgentEvent::ToolEnded { call: call.to_owned(), result: result.clone() };
    let done = TurnOutcome::Done { text: "done".to_owned() };
    let outcome = json!({
        "outcome": "incomplete", "exit_code": 11, "session": "s", "turns": 2, "resumes": 1, "survivors": 0,
        "missing": ["the call of `declare_complete`"], "detail": null,
    });
    let seen = gathered([
        (100, spawned()),
        (350, agent(AgentEvent::Started { session: "s".to_owned(), model: None })),
        (400, said("One.\n\n  Two.  \n", None)),
        (410, said("Of a sub-agent.", Some("c"))),
        (420, agent(started("a"))),
        (430, agent(started("b"))),
        (440, agent(closed("a"))),
        (450, agent(closed("never opened"))),
        (460, RunEventKind::Seen { channel: Channel::Workspace }),
        (470, agent(AgentEvent::TurnEnded(done))),
        (480, RunEventKind::Outcome(outcome)),
    ])
    .observed(String::new(), None);
    assert_eq!((seen.first_event, seen.events), (Some(Duration::from_millis(250)), 8));
    assert_eq!((seen.lines, seen.quoted), (2, vec!["One.".to_owned(), "  Two.".to_owned()]));
    assert_eq!(seen.calls, Calls { opened: 2, closed: 1, answered: 0 });
    assert_eq!(seen.channels, BTreeSet::from([Channel::Stdout, Channel::Workspace]));
    assert_eq!((seen.claim, seen.turns, seen.resumes, seen.survivors), (Claim::Word, 2, 1, Some(0)));
    let missing = vec!["the call of `declare_complete`".to_owned()];
    assert_eq!(
        seen.ended,
        Ended::Outcome { outcome: "incomplete".to_owned(), code: 11, detail: None, missing }
    );
}

#[test]
fn what_it_asked_a_person_is_kept_and_a_retry_is_not() {
    let asked = Blocked::Permission { request: "r".to_owned(), tool: "Bash".to_owned(), input: json!({}) };
    let denied = Blocked::Denied { tool: "bash".to_owned(), reason: "rules".to_owned() };
    let retrying = Blocked::Retrying {
        attempt: 1,
        limit: None,
        delay: None,
        reason: String::new(),
        class: crate::event::FailureClass::Overloaded,
    };
    let all = [asked, denied, retrying].map(|blocked| (1, agent(AgentEvent::Blocked(blocked))));
    let seen = gathered(all).observed(String::new(), None);
    assert_eq!(seen.prompts, ["whether it may use Bash", "it was refused bash: rules"]);
}

#[test]
fn however_much_is_said_little_is_kept() {
    let text = "word ".repeat(100) + "\n";
    let seen = gathered([(1, said(&text.repeat(10_000), None))]).observed(String::new(), None);
    assert_eq!((seen.lines, seen.quoted.len()), (10_000, QUOTED));
    assert!(seen.quoted.iter().all(|line| line.chars().count() == QUOTED_CHARS));
    let kinds = (0..1_000).map(|kind| (1, agent(AgentEvent::Unknown { kind: kind.to_string() })));
    assert_eq!(gathered(kinds).observed(String::new(), None).unknown.len(), MOST);
}

#[test]
fn without_an_outcome_what_was_said_instead_is_told() {
    let seen = gathered([]).observed("error: no such agent".to_owned(), Some("install it".to_owned()));
    let try_this = Some("install it".to_owned());
    assert_eq!(seen.ended, Ended::Nothing { said: "error: no such agent".to_owned(), try_this });
    assert!(!seen.ran());
    assert_eq!((seen.survivors, seen.claim), (None, Claim::Nobody));
}

fn bridged(events: impl IntoIterator<Item = BridgeEvent>) -> Observed {
    gathered(events.into_iter().map(|event| (1, RunEventKind::Bridge(event)))).observed(String::new(), None)
}

fn accepted(kind: &str) -> BridgeEvent {
    BridgeEvent::Accepted { kind: kind.to_owned(), receipt: "2-aa".to_owned(), bytes: 9 }
}

#[test]
fn what_the_bridge_recorded_is_told_by_its_receipts() {
    let answered = BridgeEvent::Answered { tool: "submit_artifact".to_owned(), ended: bridge::Ended::Done };
    let rejected = BridgeEvent::Rejected { kind: "smoke_test_result".to_owned(), faults: Vec::new() };
    let completed = BridgeEvent::Completed { summary: String::new(), receipt: "3-bb".to_owned() };
    let seen = bridged([rejected.clone(), accepted("smoke_test_result"), answered, completed]);
    assert_eq!((seen.bridge, seen.calls.answered), (AtBridge::Came, 1));
    assert_eq!(seen.claim, Claim::Receipt("3-bb".to_owned()));
    let stored = Handed::Accepted { receipt: "2-aa".to_owned(), document: Document::Gone };
    assert_eq!((seen.artifact, seen.channels), (stored, BTreeSet::from([Channel::Bridge])));
    let newest = bridged([accepted("smoke_test_result"), rejected]).artifact;
    assert_eq!(newest, Handed::Rejected { faults: Vec::new() }, "the newest draft counts");
    assert_eq!(bridged([accepted("plan")]).artifact, Handed::Nothing, "another kind");
}

#[test]
fn whoever_was_not_let_in_did_not_come() {
    let refused = BridgeEvent::Refused { why: Refusal::Token };
    let seen = bridged([refused.clone()]);
    assert_eq!(seen.bridge, AtBridge::TurnedAway { why: "the token was missing or wrong".to_owned() });
    assert_eq!((seen.channels, seen.claim), (BTreeSet::new(), Claim::Nobody));
    assert_eq!(bridged([refused, BridgeEvent::ToolsListed]).bridge, AtBridge::Came);
    assert_eq!(bridged([]).bridge, AtBridge::Nobody);
}
