use serde_json::json;

use super::tests::{BUSY, IDLE, SAID, closed, limits, opened, secs, task_opened};
use super::*;
use crate::event::{AgentEvent, Part, ToolResult};

#[test]
fn events_become_inputs() {
    let said = |within: Option<&str>| AgentEvent::Said {
        text: "hi".to_owned(),
        part: Part::Delta,
        within: within.map(str::to_owned),
    };
    assert_eq!(Input::of(&said(None)), SAID);
    assert_eq!(Input::of(&said(Some("a"))), Input::Event(EventKind::SubAgent));
    let started = |within: Option<&str>| AgentEvent::ToolStarted {
        call: "a".to_owned(),
        tool: "Bash".to_owned(),
        input: json!({ "command": "ls" }),
        within: within.map(str::to_owned),
    };
    assert_eq!(Input::of(&started(None)), opened("a", "ls"));
    assert_ne!(Input::of(&started(Some("b"))), opened("a", "ls"));
    let ended = AgentEvent::ToolEnded {
        call: "a".to_owned(),
        result: ToolResult { failed: false, exit_code: Some(0), text: "x".to_owned() },
    };
    assert_eq!(Input::of(&ended), closed("a", "x"));
    let over = AgentEvent::TurnEnded(crate::event::TurnOutcome::Interrupted);
    assert_eq!(Input::of(&over), Input::ResultSeen);
}

#[test]
fn a_verdict_says_what_was_seen_and_what_comes_next() {
    let mut dog = Watchdog::new(limits());
    let _ = dog.step(secs(0), Input::Spawned);
    assert_eq!(dog.why(secs(3)).next, Some(Next { rule: Rule::Start, at: secs(20) }));
    let _ = dog.step(secs(5), SAID);
    let _ = dog.step(secs(7), Input::WorkspaceChanged);
    let _ = dog.step(secs(8), opened("a", "make"));
    let _ = dog.step(secs(9), task_opened("t"));
    let want = Verdict {
        at: secs(30),
        state: State::Waiting,
        quiet: secs(21),
        agent_time: secs(30),
        parked_time: secs(0),
        seen: vec![
            Seen { channel: Channel::Record, at: secs(9) },
            Seen { channel: Channel::Workspace, at: secs(7) },
        ],
        open_calls: vec![OpenCall { call: "a".to_owned(), tool: "Bash".to_owned(), since: secs(8) }],
        open_tasks: vec!["t".to_owned()],
        repeats: 0,
        fired: None,
        next: Some(Next { rule: Rule::OpenCall, at: secs(1009) }),
    };
    assert_eq!(dog.why(secs(30)), want);
    let text = serde_json::to_string(&want).unwrap();
    assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), want);

    let _ = dog.step(secs(100), Input::Parked);
    let parked = dog.why(secs(200));
    assert_eq!((parked.state, parked.agent_time, parked.parked_time), (State::Parked, secs(100), secs(100)));
    assert_eq!(parked.next, Some(Next { rule: Rule::MaxWait, at: secs(50_100) }));
    let _ = dog.step(secs(200), Input::Unparked);
    let _ = dog.step(secs(5_000), IDLE);
    let stopped = dog.why(secs(6_000));
    assert_eq!((stopped.state, stopped.fired, stopped.next), (State::Stopped, Some(Rule::OpenCall), None));
}

#[test]
fn a_busy_tree_shows_in_the_verdict() {
    let mut dog = Watchdog::new(limits());
    let _ = dog.step(secs(0), Input::Spawned);
    let _ = dog.step(secs(5), SAID);
    let _ = dog.step(secs(15), IDLE);
    assert_eq!(dog.why(secs(40)).next, Some(Next { rule: Rule::Silence, at: secs(105) }));
    let _ = dog.step(secs(25), BUSY);
    assert_eq!(dog.why(secs(40)).next, Some(Next { rule: Rule::Silence, at: secs(205) }));
}
