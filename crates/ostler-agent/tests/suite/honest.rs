//! Long, quiet and honest: what agents do that looks like a hang and is none, with the limits that hold unless others are
//! set, on a clock of ours. None of it is ever stopped.

use std::time::Duration;

use ostler_agent::event::{AgentEvent, Part, ToolResult, TurnOutcome};
use ostler_agent::watchdog::{Action, Input, Limits, State, Watchdog};
use serde_json::json;

use crate::liveness::{tell, wait};

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

/// Pauses, and what comes after each.
type Story = Vec<(Duration, Input)>;

fn started() -> Input {
    Input::of(&AgentEvent::Started { session: "s".to_owned(), model: None })
}

fn said(text: &str, within: Option<&str>) -> Input {
    let within = within.map(str::to_owned);
    Input::of(&AgentEvent::Said { text: text.to_owned(), part: Part::Delta, within })
}

fn thought() -> Input {
    Input::of(&AgentEvent::Thought { text: "hm".to_owned() })
}

fn opened(call: &str, tool: &str, input: &str, within: Option<&str>) -> Input {
    let (tool, input, within) = (tool.to_owned(), json!({ "what": input }), within.map(str::to_owned));
    Input::of(&AgentEvent::ToolStarted { call: call.to_owned(), tool, input, within })
}

fn closed(call: &str, text: &str) -> Input {
    let result = ToolResult { failed: false, exit_code: Some(0), text: text.to_owned() };
    Input::of(&AgentEvent::ToolEnded { call: call.to_owned(), result })
}

fn ended() -> Input {
    Input::of(&AgentEvent::TurnEnded(TurnOutcome::Done { text: "done".to_owned() }))
}

fn repeated(count: usize, pause: Duration, input: &Input) -> Story {
    (0..count).map(|_| (pause, input.clone())).collect()
}

/// All begin with a session and end with a turn that is done.
fn told(story: Vec<Story>) -> Story {
    let begin = vec![(secs(2), started())];
    let end = vec![(secs(3), ended()), (secs(1), Input::Exited), (Duration::ZERO, Input::Eof)];
    [vec![begin], story, vec![end]].concat().concat()
}

/// What there is of them, and the limits that hold: those of a run that nobody configured.
fn stories() -> Vec<(&'static str, Story)> {
    let task = |task: &str| task.to_owned();
    let working = || vec![(secs(1), opened("t", "Task", "look into it", None))];
    vec![
        ("slow to begin", [vec![(secs(119), started())], vec![(secs(1), ended())]].concat()),
        ("a first token after 100 s", told(vec![vec![(secs(100), said("At last", None))]])),
        ("a first token after nearly six minutes", told(vec![vec![(secs(359), said("At last", None))]])),
        ("nothing but thoughts, for 50 minutes", told(vec![repeated(10, minutes(5), &thought())])),
        ("a word every five minutes", told(vec![repeated(10, minutes(5), &said("and", None))])),
        (
            "a silent build of 29 minutes",
            told(vec![vec![
                (secs(1), opened("a", "Bash", "make", None)),
                (minutes(29), closed("a", "built")),
            ]]),
        ),
        (
            "two silent builds, one in the other",
            told(vec![vec![
                (secs(1), opened("a", "Bash", "make", None)),
                (minutes(10), opened("b", "Bash", "make test", None)),
                (minutes(29), closed("a", "built")),
                (minutes(5), closed("b", "tested")),
            ]]),
        ),
        (
            "a build of 55 minutes whose processes work",
            told(vec![
                vec![(secs(1), opened("a", "Bash", "make world", None))],
                repeated(5, minutes(10), &Input::TreeBusy),
                vec![(minutes(5), closed("a", "built"))],
            ]),
        ),
        (
            "a download of 55 minutes that only writes a file",
            told(vec![
                vec![(secs(1), opened("a", "Bash", "fetch", None))],
                repeated(2, minutes(25), &Input::WorkspaceChanged),
                vec![(minutes(5), closed("a", "there"))],
            ]),
        ),
        (
            "a sub-agent of 55 minutes that is only seen in its own record",
            told(vec![
                working(),
                repeated(2, minutes(25), &Input::TranscriptGrew),
                vec![(minutes(5), closed("t", "found"))],
            ]),
        ),
        (
            "a sub-agent that talks and calls",
            told(vec![
                working(),
                vec![
                    (minutes(20), said("I look", Some("t"))),
                    (secs(1), opened("u", "Bash", "grep", Some("t"))),
                    (minutes(25), closed("u", "nothing")),
                    (minutes(5), closed("t", "found")),
                ],
            ]),
        ),
        (
            "work beside a turn that is over",
            [
                vec![
                    (secs(2), started()),
                    (secs(1), Input::of(&AgentEvent::TaskOpened { task: task("bg") })),
                    (secs(1), ended()),
                    (minutes(5), Input::of(&AgentEvent::TaskClosed { task: task("bg") })),
                    (secs(1), said("It is there.", None)),
                ],
                vec![(secs(3), ended()), (secs(1), Input::Exited), (Duration::ZERO, Input::Eof)],
            ]
            .concat(),
        ),
        (
            "a poll that finds something else each time",
            told(vec![
                (0..60)
                    .flat_map(|round| {
                        let call = format!("c{round}");
                        [
                            (secs(2), opened(&call, "Bash", "ls", None)),
                            (secs(1), closed(&call, &format!("{round} files"))),
                        ]
                    })
                    .collect(),
            ]),
        ),
        (
            "the same look four times, then something else, all day",
            told(vec![
                (0..50)
                    .flat_map(|round| {
                        let (call, what) =
                            (format!("c{round}"), if round % 5 == 4 { "edit" } else { "test" });
                        [(secs(20), opened(&call, "Bash", what, None)), (secs(1), closed(&call, "red"))]
                    })
                    .collect(),
            ]),
        ),
        (
            "a quota that is waited for, and a person who answers the next morning",
            told(vec![vec![
                (secs(1), Input::Parked),
                (minutes(5 * 60), Input::Unparked),
                (secs(5), said("So", None)),
                (secs(1), opened("q", "ask_human", "which?", None)),
                (secs(1), Input::Parked),
                (minutes(6 * 60), Input::Unparked),
                (secs(1), closed("q", "the second")),
            ]]),
        ),
        (
            "a person who holds its terminal for half an hour",
            told(vec![vec![
                (secs(1), Input::Held),
                (minutes(30), Input::Released),
                (secs(5), said("So", None)),
            ]]),
        ),
    ]
}

#[test]
fn what_is_long_and_quiet_and_honest_is_never_stopped() {
    for (name, story) in stories() {
        let mut dog = Watchdog::new(Limits::default());
        let mut now = Duration::ZERO;
        tell(&mut dog, now, Input::Spawned, name);
        for (pause, input) in story {
            now += pause;
            wait(&mut dog, now, name);
            tell(&mut dog, now, input, name);
        }
        assert_ne!(dog.state(), State::Stopped, "{name}");
    }
}

/// The other side of it: a hang that looks like that is found.
#[test]
fn what_only_looks_like_it_is_stopped() {
    let hangs: [(&str, Story); 4] = [
        ("a model that says nothing more", vec![(secs(2), started())]),
        ("no first word at all", Vec::new()),
        ("a command that hangs", vec![(secs(2), started()), (secs(1), opened("a", "Bash", "cat", None))]),
        (
            "a result, and no end",
            vec![(secs(2), started()), (secs(1), said("It is done.", None)), (secs(1), ended())],
        ),
    ];
    for (name, story) in hangs {
        let mut dog = Watchdog::new(Limits::default());
        let mut now = Duration::ZERO;
        tell(&mut dog, now, Input::Spawned, name);
        for (pause, input) in story {
            now += pause;
            wait(&mut dog, now, name);
            tell(&mut dog, now, input, name);
        }
        let mut is_stopped = false;
        while let Some(wake) = dog.wake_at().filter(|wake| !is_stopped && *wake < minutes(59)) {
            let idle = || Input::TreeSample { cpu: Duration::ZERO, io: 0, received: 0 };
            let action = match dog.step(wake, Input::Tick) {
                Action::Sample => dog.step(wake, idle()),
                action => action,
            };
            is_stopped = matches!(action, Action::Stop(_));
        }
        assert!(is_stopped, "{name} was not stopped");
    }
}
