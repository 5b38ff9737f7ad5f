use serde_json::json;

use super::*;
use crate::event::{Failure, FailureClass, Part};

/// What happens to a log.
enum Step {
    Spawn,
    Said,
    Start(&'static str),
    /// In a sub-agent.
    StartWithin(&'static str, &'static str),
    End(&'static str),
    Done,
    Failed,
}

use Step::{Done, End, Failed, Said, Spawn, Start, StartWithin};

fn started(call: &str, within: Option<&str>) -> AgentEvent {
    AgentEvent::ToolStarted {
        call: call.to_owned(),
        tool: "shell".to_owned(),
        input: json!({"command": format!("do {call}")}),
        within: within.map(str::to_owned),
    }
}

fn ended(call: &str, text: &str) -> AgentEvent {
    let result = ToolResult { failed: false, exit_code: Some(0), text: text.to_owned() };
    AgentEvent::ToolEnded { call: call.to_owned(), result }
}

fn log(steps: &[Step]) -> CallLog {
    let mut log = CallLog::default();
    for step in steps {
        let event = match step {
            Spawn => {
                log.on_spawn();
                continue;
            }
            Said => AgentEvent::Said { text: "on".to_owned(), part: Part::Whole, within: None },
            Start(call) => started(call, None),
            StartWithin(call, parent) => started(call, Some(parent)),
            End(call) => ended(call, "ok\n"),
            Done => AgentEvent::TurnEnded(TurnOutcome::Done { text: "done".to_owned() }),
            Failed => AgentEvent::TurnEnded(TurnOutcome::Failed(Failure {
                class: FailureClass::Provider,
                detail: "gone".to_owned(),
                resets_at: None,
                cut_short: None,
            })),
        };
        log.on_event(&event);
    }
    log
}

/// A record in which these calls ended, under the ids that the agent reported.
fn record(ids: &[&str]) -> RecordedCalls {
    let mut record = RecordedCalls::new(Twins::Named);
    for id in ids {
        record.on_event(&started(id, None));
        record.on_event(&ended(id, "ok"));
    }
    record
}

/// The calls that are reported, as `finished` and `interrupted`; `check` for the general remark.
fn reported(log: &CallLog, known: KnownCalls) -> Vec<String> {
    let report = log.report(known).unwrap_or_default();
    let word = |line: &str| {
        let name = line.split('"').nth(3).unwrap_or_default().to_owned();
        match line {
            HEADING => None,
            CHECK => Some("check".to_owned()),
            _ if line.contains("was interrupted") => Some(format!("interrupted {name}")),
            _ if line.contains("do not repeat it") => Some(format!("finished {name}")),
            other => panic!("{other}"),
        }
    };
    report.lines().filter_map(word).collect()
}

#[test]
fn a_resumed_agent_is_told_which_calls_finished_and_which_were_interrupted() {
    type Case = (&'static str, Vec<Step>, Option<&'static [&'static str]>, &'static [&'static str]);
    let table: Vec<Case> = vec![
        ("nothing was ever started", vec![], None, &[]),
        ("killed before it did anything", vec![Spawn], None, &["check"]),
        ("killed while a call ran", vec![Spawn, Said, Start("a")], Some(&[]), &["interrupted do a"]),
        (
            "killed before its record had the result",
            vec![Spawn, Start("a"), End("a"), Said, Start("b"), End("b")],
            Some(&["a"]),
            &["finished do b", "check"],
        ),
        (
            "its record was several calls late",
            vec![Spawn, Start("a"), End("a"), Said, Start("b"), End("b"), Said],
            Some(&[]),
            &["finished do a", "finished do b", "check"],
        ),
        (
            "its record has all",
            vec![Spawn, Start("a"), End("a"), Start("b"), End("b")],
            Some(&["a", "b"]),
            &["check"],
        ),
        (
            "a record that cannot be compared: what the model has not answered yet",
            vec![Spawn, Start("a"), End("a"), Said, Start("b"), End("b")],
            None,
            &["finished do b", "check"],
        ),
        (
            "parallel calls, one finished",
            vec![Spawn, Start("a"), Start("b"), End("b")],
            None,
            &["interrupted do a", "finished do b"],
        ),
        (
            "a turn that ended well leaves nothing to check",
            vec![Spawn, Start("a"), End("a"), Done],
            None,
            &[],
        ),
        (
            "the result of a turn that ended well may be missing too",
            vec![Spawn, Start("a"), End("a"), Done],
            Some(&[]),
            &["finished do a"],
        ),
        ("a turn that failed by itself", vec![Spawn, Said, Failed], None, &[]),
        (
            "killed again before the resumed agent did anything",
            vec![Spawn, Start("a"), Spawn],
            Some(&[]),
            &["interrupted do a"],
        ),
        (
            "a resumed agent that works was told",
            vec![Spawn, Start("a"), Spawn, Said, Start("b")],
            Some(&[]),
            &["interrupted do b"],
        ),
        (
            "ids begin again with every process",
            vec![Spawn, Start("a"), Spawn, Said, Start("a"), End("a"), Said],
            None,
            &["check"],
        ),
        (
            "what a sub-agent had done when its own call was interrupted",
            vec![Spawn, Start("p"), StartWithin("x", "p"), End("x"), StartWithin("y", "p")],
            Some(&[]),
            &["interrupted do p", "finished do x", "interrupted do y"],
        ),
        (
            "a sub-agent that is done is known by its own call",
            vec![Spawn, Start("p"), StartWithin("x", "p"), End("x"), End("p"), Start("b")],
            Some(&["p"]),
            &["interrupted do b"],
        ),
    ];
    for (name, steps, recorded, want) in table {
        let known = recorded.map_or(KnownCalls::Unreadable, |ids| KnownCalls::Recorded(record(ids)));
        assert_eq!(reported(&log(&steps), known), want, "{name}");
    }
}

#[test]
fn an_agent_that_begins_anew_is_told_of_all_calls_and_of_nothing_else() {
    let anew = |steps: &[Step]| reported(&log(steps), KnownCalls::None);
    assert_eq!(anew(&[Spawn]), Vec::<String>::new());
    assert_eq!(anew(&[Spawn, Start("a"), End("a"), Said]), ["finished do a"]);
    assert_eq!(anew(&[Spawn, Start("a"), End("a"), Start("b")]), ["finished do a", "interrupted do b"]);
}

#[test]
fn a_report_says_what_was_called_and_what_came_of_it() {
    let mut log = log(&[Spawn, Start("a")]);
    log.on_event(&ended("a", "one\ntwo\n"));
    log.on_event(&started("b", None));
    let want = "These are your last tool calls, because your own record of them may be incomplete:\n\
        - The call shell {\"command\":\"do a\"} finished with exit code 0: do not repeat it. \
        Its output: \"one\\ntwo\"\n\
        - The call shell {\"command\":\"do b\"} was interrupted: it may have run completely, in part or not at \
        all. Check what it did before you repeat it.";
    assert_eq!(log.report(KnownCalls::Unreadable).as_deref(), Some(want));
}

#[test]
fn a_report_is_short_whatever_the_calls_were() {
    let mut log = CallLog::default();
    log.on_spawn();
    for number in 0..100 {
        let call = number.to_string();
        let input = json!({"command": "é\u{200b}\u{1b}[31m".repeat(10_000)});
        let tool = "t".repeat(10_000);
        log.on_event(&AgentEvent::ToolStarted { call: call.clone(), tool, input, within: None });
        if number % 2 == 0 {
            log.on_event(&ended(&call, &"out\n\u{202e}".repeat(10_000)));
        }
    }
    let report = log.report(KnownCalls::Unreadable).unwrap();
    assert_eq!(report.lines().filter(|line| line.starts_with("- ")).count(), MOST_REPORTED);
    assert!(report.len() < 20_000, "{}", report.len());
    // What a terminal program would not take.
    let is_seen = |char: char| char == '\n' || !(char.is_control() || "\u{200b}\u{202e}".contains(char));
    assert!(report.chars().all(is_seen), "{report:?}");
}

/// A sub-agent makes many calls while the call that started it is open.
#[test]
fn an_open_call_is_not_forgotten_for_later_ones() {
    let mut log = log(&[Spawn, Start("parent")]);
    for number in 0..100 {
        log.on_event(&started(&number.to_string(), Some("parent")));
        log.on_event(&ended(&number.to_string(), "ok"));
    }
    let reported = reported(&log, KnownCalls::Unreadable);
    assert!(reported.contains(&"finished do 99".to_owned()), "{reported:?}");
}

/// As Codex does it: other ids, and the command as the shell gets it.
#[test]
fn a_record_with_other_ids_is_compared_by_what_was_called() {
    let command = |id: &str, name: &str, text: &str| AgentEvent::ToolStarted {
        call: id.to_owned(),
        tool: "shell".to_owned(),
        input: json!({ name: text }),
        within: None,
    };
    let recorded = |id: &str, text: &str| command(id, "cmd", text);
    let reported_as = |id: &str, text: &str| {
        command(id, "command", &format!("/bin/bash -lc '{}'", text.replace('\'', r"'\''")))
    };
    let asked = AgentEvent::Asked { text: "do it".to_owned() };
    type Case = (&'static str, Vec<AgentEvent>, Vec<AgentEvent>, &'static [&'static str]);
    let table: Vec<Case> = vec![
        (
            "in the record, and not reported yet",
            vec![],
            vec![asked.clone(), recorded("x", "echo 'a b' >> f")],
            &["interrupted echo 'a b' >> f"],
        ),
        (
            "running: reported once",
            vec![reported_as("item_1", "echo 'a b' >> f")],
            vec![asked.clone(), recorded("x", "echo 'a b' >> f")],
            &["interrupted /bin/bash -lc 'echo '\\\\''a b'\\\\'' >> f'"],
        ),
        (
            "reported as finished, and its result is not in the record",
            vec![reported_as("item_1", "echo a"), ended("item_1", "a")],
            vec![asked.clone(), recorded("x", "echo a")],
            &["finished /bin/bash -lc 'echo a'", "check"],
        ),
        (
            "in the record with its result",
            vec![reported_as("item_1", "echo a"), ended("item_1", "a")],
            vec![asked.clone(), recorded("x", "echo a"), ended("x", "a")],
            &["check"],
        ),
        (
            "interrupted before the last prompt",
            vec![],
            vec![asked.clone(), recorded("x", "echo a"), asked.clone()],
            &["check"],
        ),
        (
            "the same command twice, the second one interrupted",
            vec![reported_as("item_1", "echo a"), ended("item_1", "a")],
            vec![asked, recorded("x", "echo a"), ended("x", "a"), recorded("y", "echo a")],
            &["interrupted echo a"],
        ),
    ];
    for (name, events, record, want) in table {
        let (mut log, mut recorded) = (log(&[Spawn]), RecordedCalls::new(Twins::Unnamed));
        log.on_event(&AgentEvent::Said { text: "on".to_owned(), part: Part::Whole, within: None });
        events.iter().for_each(|event| log.on_event(event));
        record.iter().for_each(|event| recorded.on_event(event));
        assert_eq!(reported(&log, KnownCalls::Recorded(recorded)), want, "{name}");
    }
}
