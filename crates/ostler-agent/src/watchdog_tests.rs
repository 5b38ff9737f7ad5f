use serde_json::json;

use super::*;
use crate::event::ToolResult;

pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn opened(call: &str, command: &str) -> Input {
    let tool = "Bash".to_owned();
    let signature = Signature::of(&tool, &json!({ "command": command }));
    Input::CallOpened { call: call.to_owned(), tool, signature, by: Speaker::Agent }
}

pub(super) fn closed(call: &str, text: &str) -> Input {
    let result = ToolResult { failed: false, exit_code: Some(0), text: text.to_owned() };
    Input::CallClosed { call: call.to_owned(), result: ResultHash::of(&result) }
}

pub(super) fn task_opened(task: &str) -> Input {
    Input::TaskOpened { task: task.to_owned() }
}

pub(super) fn task_closed(task: &str) -> Input {
    Input::TaskClosed { task: task.to_owned() }
}

pub(super) const SAID: Input = Input::Event(EventKind::Said);
const UNKNOWN: Input = Input::Event(EventKind::Unknown);
pub(super) const BUSY: Input = Input::TreeSample { cpu: Duration::from_secs(30), io: 0, received: 0 };
const COPYING: Input = Input::TreeSample { cpu: Duration::ZERO, io: 1 << 20, received: 0 };
pub(super) const IDLE: Input = Input::TreeSample { cpu: Duration::ZERO, io: 17, received: 0 };

fn quiet(rule: Rule, seconds: u64) -> Action {
    Action::Warn(Warning::Quiet { rule, quiet: secs(seconds) })
}

fn spared(seconds: u64) -> Action {
    Action::Warn(Warning::Spared { rule: Rule::Silence, quiet: secs(seconds) })
}

/// Round numbers, so that a case can be read: samples every 10 s in a turn, every 100 s in a call.
pub(super) fn limits() -> Limits {
    Limits {
        start: secs(20),
        silence: secs(100),
        open_call: secs(1000),
        repeats: Repeats { warn: 3, stop: 6, fast: secs(10) },
        after_result: secs(10),
        after_exit: secs(2),
        ceiling: secs(10_000),
        max_wait: secs(50_000),
    }
}

type Case<'a> = (&'a str, Vec<(u64, Input, Action)>);

/// Runs each case; the first step starts the process at 0 s. Samples that a case does not ask for are passed over.
fn check(limits: Limits, table: Vec<Case<'_>>) {
    for (name, steps) in table {
        let mut dog = Watchdog::new(limits);
        assert_eq!(dog.step(secs(0), Input::Spawned), Action::Nothing, "{name}");
        for (at, input, want) in steps {
            let shown = format!("{input:?}");
            let mut got = dog.step(secs(at), input);
            while got == Action::Sample && want != Action::Sample {
                got = dog.step(secs(at), Input::Tick);
            }
            assert_eq!(got, want, "{name}, at {at}s, {shown}");
        }
    }
}

#[test]
fn the_limits_are_those_of_the_specification() {
    let minutes = |minutes: u64| secs(minutes * 60);
    let want = Limits {
        start: secs(120),
        silence: minutes(6),
        open_call: minutes(30),
        repeats: Repeats { warn: 5, stop: 20, fast: secs(60) },
        after_result: secs(10),
        after_exit: secs(2),
        ceiling: minutes(60),
        max_wait: minutes(12 * 60),
    };
    assert_eq!(Limits::default(), want);
}

/// A resumed session is opened before anything is said: that must not cost an agent the time that it has to start.
#[test]
fn a_transcript_that_grows_does_not_shorten_the_start() {
    use Action::{Nothing, Stop};
    use Input::{Tick, TranscriptGrew};
    check(
        Limits { start: secs(120), silence: secs(3), ..limits() },
        vec![
            (
                "it is given its time to start, from there on",
                vec![
                    (2, TranscriptGrew, Nothing),
                    (10, Tick, Nothing),
                    (62, Tick, quiet(Rule::Start, 60)),
                    (121, Tick, Nothing),
                    (122, Tick, Stop(Rule::Start)),
                ],
            ),
            (
                "what it says is the start",
                vec![(2, TranscriptGrew, Nothing), (10, SAID, Nothing), (13, Tick, Stop(Rule::Silence))],
            ),
        ],
    );
}

/// The agent says that it tries again later: that is no stall, and not a minute more under the ceiling.
#[test]
fn an_announced_retry_suspends_silence_and_not_the_ceiling() {
    use Action::{Nothing, Stop, Warn};
    use Input::Tick;
    let retrying = |delay| Input::Retrying { delay: secs(delay) };
    check(
        limits(),
        vec![
            (
                "silence is counted from the announced try on",
                vec![
                    (1, retrying(400), Nothing),
                    (450, Tick, Nothing),
                    (451, Tick, quiet(Rule::Silence, 450)),
                    (500, Tick, Nothing),
                    (501, Tick, Stop(Rule::Silence)),
                ],
            ),
            (
                "what is only noted meanwhile does not end the wait",
                vec![
                    (1, retrying(400), Nothing),
                    (2, Input::TranscriptGrew, Nothing),
                    (3, UNKNOWN, Nothing),
                    (451, Tick, quiet(Rule::Silence, 448)),
                    (501, Tick, Stop(Rule::Silence)),
                ],
            ),
            (
                "work ends the wait",
                vec![
                    (1, retrying(400), Nothing),
                    (2, SAID, Nothing),
                    (52, Tick, quiet(Rule::Silence, 50)),
                    (102, Tick, Stop(Rule::Silence)),
                ],
            ),
            (
                "the ceiling holds, however often and for how long it announces",
                vec![
                    (1, retrying(9_500), Nothing),
                    (8_999, retrying(90_000), Nothing),
                    (9_000, retrying(90_000), Warn(Warning::Ceiling { left: secs(1_000) })),
                    (9_999, retrying(90_000), Nothing),
                    (10_000, retrying(90_000), Stop(Rule::Ceiling)),
                ],
            ),
        ],
    );
}

/// An answer that streams for minutes leaves nothing in the transcript before it is complete.
#[test]
fn an_answer_that_streams_on_the_screen_is_not_silence() {
    use Action::{Nothing, Stop};
    use Input::{ResultSeen, ScreenSpinner, ScreenText, Tick};
    check(
        limits(),
        vec![
            (
                "text is life, whatever the transcript says",
                vec![
                    (1, SAID, Nothing),
                    (49, ScreenText, Nothing),
                    (98, ScreenText, Nothing),
                    (148, Tick, quiet(Rule::Silence, 50)),
                    (198, Tick, Stop(Rule::Silence)),
                ],
            ),
            (
                "a spinner is life while it turns",
                vec![
                    (1, SAID, Nothing),
                    (50, ScreenSpinner, Nothing),
                    (99, ScreenSpinner, Nothing),
                    (149, Tick, quiet(Rule::Silence, 148)),
                    (198, Tick, Nothing),
                    (199, Tick, Stop(Rule::Silence)),
                ],
            ),
            (
                "a spinner alone is life no longer than a call may be open",
                (0..20)
                    .map(|turn| (1 + turn * 45, if turn == 0 { SAID } else { ScreenSpinner }, Nothing))
                    .chain([
                        (901, ScreenSpinner, Nothing),
                        (951, ScreenSpinner, quiet(Rule::Silence, 950)),
                        (1_000, ScreenSpinner, Nothing),
                        (1_001, ScreenSpinner, Stop(Rule::Silence)),
                    ])
                    .collect(),
            ),
            (
                "text begins a new stretch",
                vec![
                    (1, SAID, Nothing),
                    (50, ScreenSpinner, Nothing),
                    (60, ScreenText, Nothing),
                    (110, Tick, quiet(Rule::Silence, 50)),
                    (160, Tick, Stop(Rule::Silence)),
                ],
            ),
            (
                "a spinner does not keep an open call alive, text does",
                vec![
                    (1, opened("a", "make"), Nothing),
                    (400, ScreenText, Nothing),
                    (899, ScreenSpinner, Nothing),
                    (900, ScreenSpinner, quiet(Rule::OpenCall, 500)),
                    (1_399, ScreenSpinner, Nothing),
                    (1_400, ScreenSpinner, Stop(Rule::OpenCall)),
                ],
            ),
            (
                "what is drawn at the start is no record",
                vec![
                    (10, ScreenText, quiet(Rule::Start, 10)),
                    (15, ScreenSpinner, Nothing),
                    (20, ScreenText, Stop(Rule::Start)),
                ],
            ),
            (
                "what is drawn after the result does not keep the process",
                vec![
                    (1, SAID, Nothing),
                    (2, ResultSeen, Nothing),
                    (8, ScreenText, Nothing),
                    (11, ScreenSpinner, Nothing),
                    (12, ScreenText, Stop(Rule::AfterResult)),
                ],
            ),
        ],
    );
    let shorter = Limits { open_call: secs(30), ..limits() };
    let never_sooner = vec![
        (1, SAID, Nothing),
        (50, ScreenSpinner, Nothing),
        (51, Tick, quiet(Rule::Silence, 50)),
        (100, ScreenSpinner, Nothing),
        (101, ScreenSpinner, Stop(Rule::Silence)),
    ];
    check(shorter, vec![("a shorter limit on calls does not make silence shorter", never_sooner)]);
}

fn received(bytes: u64) -> Input {
    Input::TreeSample { cpu: Duration::ZERO, io: 0, received: bytes }
}

/// Agents that report whole messages only are silent while the model's answer streams.
#[test]
fn an_answer_that_the_agent_receives_is_not_silence() {
    use Action::{Nothing, Sample, Stop};
    use Input::{AnswerReceived, KeepAliveReceived, ResultSeen, Tick};
    check(
        limits(),
        vec![
            (
                "bytes of an answer are life",
                vec![
                    (1, SAID, Nothing),
                    (11, received(40_000), Nothing),
                    (61, received(5_000), Nothing),
                    (110, received(4_900), Nothing),
                    (160, Tick, quiet(Rule::Silence, 50)),
                    (210, Tick, Stop(Rule::Silence)),
                ],
            ),
            (
                "what came before the quiet began is not",
                vec![
                    (1, SAID, Nothing),
                    (11, received(40_000), Nothing),
                    (51, Tick, quiet(Rule::Silence, 50)),
                    (101, Tick, Stop(Rule::Silence)),
                ],
            ),
            (
                "the last moment is looked at before it is stopped",
                vec![
                    (1, SAID, Nothing),
                    (11, received(0), Nothing),
                    (51, Tick, quiet(Rule::Silence, 50)),
                    (99, received(0), Nothing),
                    (101, Tick, Sample),
                    (101, received(300), Nothing),
                    (200, Tick, quiet(Rule::Silence, 99)),
                    (201, Tick, Stop(Rule::Silence)),
                ],
            ),
            (
                "an unanswered look is an idle one",
                vec![
                    (1, SAID, Nothing),
                    (51, Tick, quiet(Rule::Silence, 50)),
                    (101, Tick, Sample),
                    (102, Tick, Stop(Rule::Silence)),
                ],
            ),
            (
                "keep-alives are life, no longer than a call may be open",
                [(1, SAID, Nothing), (2, received(0), Nothing)]
                    .into_iter()
                    .chain((1..=20).map(|turn| (1 + turn * 45, received(100), Nothing)))
                    .chain([
                        (951, received(100), quiet(Rule::Silence, 950)),
                        (1_000, received(100), Nothing),
                        (1_001, received(200), Stop(Rule::Silence)),
                    ])
                    .collect(),
            ),
            (
                "an answer during a call is life, a keep-alive is not",
                vec![
                    (1, opened("a", "task"), Nothing),
                    (101, received(0), Nothing),
                    (401, received(40_000), Nothing),
                    (900, received(100), Nothing),
                    (901, received(10), quiet(Rule::OpenCall, 500)),
                    (1_401, received(10), Stop(Rule::OpenCall)),
                ],
            ),
            (
                "no start, and after the result none of the turn",
                vec![
                    (5, AnswerReceived, Nothing),
                    (6, KeepAliveReceived, Nothing),
                    (10, Tick, quiet(Rule::Start, 10)),
                    (12, ResultSeen, Nothing),
                    (20, AnswerReceived, Nothing),
                    (22, KeepAliveReceived, Stop(Rule::AfterResult)),
                ],
            ),
        ],
    );
}

/// A server has one limit on silence.
#[test]
fn a_turn_without_a_run_has_the_same_signs_of_life() {
    use Action::{Nothing, Stop};
    use Input::{ScreenSpinner, ScreenText, Tick};
    check(
        Limits::of_turn(secs(100), secs(1000)),
        vec![
            (
                "silence",
                vec![
                    (0, SAID, Nothing),
                    (50, Tick, quiet(Rule::Silence, 50)),
                    (99, Tick, Nothing),
                    (100, Tick, Stop(Rule::Silence)),
                ],
            ),
            (
                "text on the screen, and an answer that is received",
                vec![
                    (0, SAID, Nothing),
                    (40, ScreenText, Nothing),
                    (50, received(9_000), Nothing),
                    (80, received(9_000), Nothing),
                    (129, Tick, Nothing),
                    (130, Tick, quiet(Rule::Silence, 50)),
                    (180, Tick, Stop(Rule::Silence)),
                ],
            ),
            (
                "a spinner alone doubles it, and so does an open call",
                vec![
                    (0, SAID, Nothing),
                    (40, ScreenSpinner, Nothing),
                    (80, ScreenSpinner, Nothing),
                    (120, ScreenSpinner, Nothing),
                    (160, ScreenSpinner, quiet(Rule::Silence, 160)),
                    (199, ScreenSpinner, Nothing),
                    (200, ScreenSpinner, Stop(Rule::Silence)),
                ],
            ),
            (
                "the whole turn",
                (0..20)
                    .map(|turn| (turn * 49, SAID, Nothing))
                    .filter(|(at, ..)| *at < 900)
                    .chain([
                        (901, SAID, Action::Warn(Warning::Ceiling { left: secs(99) })),
                        (1_000, SAID, Stop(Rule::Ceiling)),
                    ])
                    .collect(),
            ),
        ],
    );
}

#[test]
fn silence() {
    use Action::{Nothing, Sample, Stop};
    use Input::{BridgeCall, Eof, Tick, TranscriptGrew, WorkspaceChanged};
    check(
        limits(),
        vec![
            (
                "nothing since the start",
                vec![
                    (10, Tick, quiet(Rule::Start, 10)),
                    (19, Tick, Nothing),
                    (20, Tick, Stop(Rule::Start)),
                    (21, Tick, Nothing),
                ],
            ),
            (
                "work of the tree is no start",
                vec![(10, BUSY, quiet(Rule::Start, 10)), (20, BUSY, Stop(Rule::Start))],
            ),
            ("a transcript is a start", vec![(9, TranscriptGrew, Nothing), (58, Tick, Nothing)]),
            ("a bridge call is a start", vec![(9, BridgeCall, Nothing), (58, Tick, Nothing)]),
            (
                "warns at half, stops at the limit, once",
                vec![
                    (5, SAID, Nothing),
                    (55, Tick, quiet(Rule::Silence, 50)),
                    (104, Tick, Nothing),
                    (105, Tick, Stop(Rule::Silence)),
                    (106, Tick, Nothing),
                    (99_999, SAID, Nothing),
                ],
            ),
            (
                "whatever is heard resets the clock, the unknown too",
                vec![
                    (5, SAID, Nothing),
                    (90, UNKNOWN, Nothing),
                    (180, TranscriptGrew, Nothing),
                    (270, BridgeCall, Nothing),
                    (369, Tick, quiet(Rule::Silence, 99)),
                    (370, Tick, Stop(Rule::Silence)),
                ],
            ),
            (
                "a closed stdout is not an end while the transcript grows",
                vec![
                    (5, SAID, Nothing),
                    (6, Eof, Nothing),
                    (90, TranscriptGrew, Nothing),
                    (139, Tick, Nothing),
                ],
            ),
            (
                "a call gets the long limit, and its end the short one again",
                vec![
                    (5, opened("a", "make"), Nothing),
                    (505, Tick, quiet(Rule::OpenCall, 500)),
                    (900, closed("a", ""), Nothing),
                    (950, Tick, quiet(Rule::Silence, 50)),
                    (1000, Tick, Stop(Rule::Silence)),
                ],
            ),
            (
                "nothing during a call",
                vec![
                    (5, opened("a", "make"), Nothing),
                    (505, Tick, quiet(Rule::OpenCall, 500)),
                    (1004, Tick, Nothing),
                    (1005, Tick, Stop(Rule::OpenCall)),
                ],
            ),
            (
                "one of two calls is still open",
                vec![
                    (5, opened("a", "make"), Nothing),
                    (6, opened("b", "test"), Nothing),
                    (7, closed("a", ""), Nothing),
                    (506, Tick, Nothing),
                    (507, Tick, quiet(Rule::OpenCall, 500)),
                    (1007, Tick, Stop(Rule::OpenCall)),
                ],
            ),
            (
                "an end without a start is harmless",
                vec![
                    (5, closed("x", ""), Nothing),
                    (6, opened("a", "make"), Nothing),
                    (7, closed("y", ""), Nothing),
                    (506, Tick, Nothing),
                ],
            ),
            (
                "a change in the workspace counts during a call only",
                vec![
                    (5, opened("a", "make"), Nothing),
                    (490, WorkspaceChanged, Nothing),
                    (980, WorkspaceChanged, Nothing),
                    (981, closed("a", ""), Nothing),
                    (1031, WorkspaceChanged, quiet(Rule::Silence, 50)),
                    (1081, WorkspaceChanged, Stop(Rule::Silence)),
                ],
            ),
            (
                "samples are asked for once a period, when it is quiet",
                vec![
                    (5, SAID, Nothing),
                    (14, SAID, Nothing),
                    (23, Tick, Nothing),
                    (24, Tick, Sample),
                    (33, Tick, Nothing),
                    (34, Tick, Sample),
                ],
            ),
        ],
    );
}

#[test]
fn work_of_the_tree() {
    use Action::{Nothing, Sample, Stop};
    use Input::Tick;
    check(
        limits(),
        vec![
            (
                "counts during a call, once a sample lies wholly within the quiet",
                vec![
                    (5, opened("a", "make"), Nothing),
                    (105, Tick, Sample),
                    (105, BUSY, Nothing),
                    (205, BUSY, Nothing),
                    (704, Tick, Nothing),
                    (705, Tick, quiet(Rule::OpenCall, 500)),
                    (1205, IDLE, Stop(Rule::OpenCall)),
                ],
            ),
            (
                "reading and writing counts too, and a few bytes do not",
                vec![
                    (5, opened("a", "cp"), Nothing),
                    (105, COPYING, Nothing),
                    (205, COPYING, Nothing),
                    (305, IDLE, Nothing),
                    (704, Tick, Nothing),
                    (705, Tick, quiet(Rule::OpenCall, 500)),
                ],
            ),
            (
                "little processor time is no work: 1 s in 100 s",
                vec![
                    (5, opened("a", "cp"), Nothing),
                    (105, IDLE, Nothing),
                    (205, Input::TreeSample { cpu: secs(1), io: 0, received: 0 }, Nothing),
                    (504, Tick, Nothing),
                    (505, Tick, quiet(Rule::OpenCall, 500)),
                ],
            ),
            (
                "outside a call it is worth one extra period, once",
                vec![
                    (5, SAID, Nothing),
                    (15, BUSY, Nothing),
                    (55, BUSY, quiet(Rule::Silence, 50)),
                    (104, BUSY, Nothing),
                    (105, BUSY, spared(100)),
                    (204, BUSY, Nothing),
                    (205, BUSY, Stop(Rule::Silence)),
                ],
            ),
            (
                "an idle tree is worth nothing",
                vec![
                    (5, SAID, Nothing),
                    (15, BUSY, Nothing),
                    (55, BUSY, quiet(Rule::Silence, 50)),
                    (104, IDLE, Nothing),
                    (105, Tick, Stop(Rule::Silence)),
                ],
            ),
            (
                "what was done before the quiet is worth nothing",
                vec![
                    (5, SAID, Nothing),
                    (15, IDLE, Nothing),
                    (40, SAID, Nothing),
                    (50, BUSY, Nothing),
                    (90, Tick, quiet(Rule::Silence, 50)),
                    (140, Tick, Stop(Rule::Silence)),
                ],
            ),
            (
                "after a sign of life there is another extra period",
                vec![
                    (5, SAID, Nothing),
                    (15, BUSY, Nothing),
                    (60, BUSY, quiet(Rule::Silence, 55)),
                    (105, Tick, spared(100)),
                    (200, SAID, Nothing),
                    (210, BUSY, Nothing),
                    (251, BUSY, quiet(Rule::Silence, 51)),
                    (300, Tick, spared(100)),
                    (400, Tick, Stop(Rule::Silence)),
                ],
            ),
        ],
    );
}

#[test]
fn after_the_result() {
    use Action::{Nothing, Stop};
    use Input::{Eof, Exited, Prompted, ResultSeen, Tick};
    check(
        limits(),
        vec![
            (
                "the process stays",
                vec![
                    (5, SAID, Nothing),
                    (6, ResultSeen, Nothing),
                    (15, Tick, Nothing),
                    (16, Tick, Stop(Rule::AfterResult)),
                ],
            ),
            (
                "a result may be the first word",
                vec![(6, ResultSeen, Nothing), (16, Tick, Stop(Rule::AfterResult))],
            ),
            (
                "the process goes",
                vec![
                    (6, ResultSeen, Nothing),
                    (7, Exited, Nothing),
                    (7, Eof, Nothing),
                    (9_999_999, Tick, Nothing),
                ],
            ),
            (
                "a task is open, then closed",
                vec![
                    (5, task_opened("t"), Nothing),
                    (6, ResultSeen, Nothing),
                    (400, Tick, Nothing),
                    (405, task_closed("t"), Nothing),
                    (414, Tick, Nothing),
                    (415, Tick, Stop(Rule::AfterResult)),
                ],
            ),
            (
                "a task is open for ever",
                vec![
                    (5, task_opened("t"), Nothing),
                    (6, ResultSeen, Nothing),
                    (506, Tick, quiet(Rule::OpenCall, 500)),
                    (1006, Tick, Stop(Rule::OpenCall)),
                ],
            ),
            (
                "calls of the turn end with it",
                vec![
                    (5, opened("a", "make"), Nothing),
                    (6, ResultSeen, Nothing),
                    (16, Tick, Stop(Rule::AfterResult)),
                ],
            ),
            (
                "a further turn begins by itself",
                vec![
                    (6, ResultSeen, Nothing),
                    (12, Input::Event(EventKind::Started), Nothing),
                    (61, Tick, Nothing),
                    (62, ResultSeen, Nothing),
                    (72, Tick, Stop(Rule::AfterResult)),
                ],
            ),
            (
                "a further prompt is given",
                vec![(6, ResultSeen, Nothing), (12, Prompted, Nothing), (61, Tick, Nothing)],
            ),
            (
                "remarks and words of sub-agents are no further turn",
                vec![
                    (6, ResultSeen, Nothing),
                    (12, UNKNOWN, Nothing),
                    (13, Input::Event(EventKind::SubAgent), Nothing),
                    (14, Input::Event(EventKind::Spent), Nothing),
                    (23, Tick, Nothing),
                    (24, Tick, Stop(Rule::AfterResult)),
                ],
            ),
        ],
    );
}

#[test]
fn after_the_exit() {
    use Action::{Nothing, Stop};
    use Input::{Eof, Exited, Spawned, Tick};
    check(
        limits(),
        vec![
            (
                "descendants hold the pipe",
                vec![
                    (5, SAID, Nothing),
                    (6, Exited, Nothing),
                    (7, SAID, Nothing),
                    (8, Tick, Stop(Rule::AfterExit)),
                    (9, Tick, Nothing),
                ],
            ),
            (
                "the pipe was closed before",
                vec![(5, Eof, Nothing), (6, Exited, Nothing), (9_999, Tick, Nothing)],
            ),
            (
                "the pipe is closed in time",
                vec![(5, Exited, Nothing), (6, Eof, Nothing), (9_999, Tick, Nothing)],
            ),
            (
                "what comes after the end is harmless",
                vec![
                    (5, Exited, Nothing),
                    (5, Eof, Nothing),
                    (6, opened("a", ""), Nothing),
                    (9_999, Tick, Nothing),
                ],
            ),
            (
                "the next process has open calls no more, and is stopped anew",
                vec![
                    (5, opened("a", "make"), Nothing),
                    (505, Tick, quiet(Rule::OpenCall, 500)),
                    (1005, Tick, Stop(Rule::OpenCall)),
                    (1006, Exited, Nothing),
                    (1006, Eof, Nothing),
                    (2000, Spawned, Nothing),
                    (2001, closed("a", ""), Nothing),
                    (2051, Tick, quiet(Rule::Silence, 50)),
                    (2101, Tick, Stop(Rule::Silence)),
                    (2102, Tick, Nothing),
                ],
            ),
        ],
    );
}

#[test]
fn the_ceiling() {
    use Action::{Nothing, Stop};
    use Input::{Eof, Exited, Parked, Spawned, Tick, Unparked};
    let notice = |left: u64| Action::Warn(Warning::Ceiling { left: secs(left) });
    let low = Limits { ceiling: secs(60), max_wait: secs(500), ..limits() };
    check(
        low,
        vec![
            (
                "nothing that is heard defers it",
                vec![
                    (5, SAID, Nothing),
                    (53, SAID, Nothing),
                    (54, SAID, notice(6)),
                    (59, opened("a", "make"), Nothing),
                    (60, closed("a", ""), Stop(Rule::Ceiling)),
                    (61, SAID, Nothing),
                ],
            ),
            ("it comes before all else", vec![(5, SAID, Nothing), (9_000, Exited, Stop(Rule::Ceiling))]),
            (
                "parking too late does not defer it",
                vec![(5, SAID, Nothing), (60, Parked, Stop(Rule::Ceiling))],
            ),
            (
                "parked time is not the agent's",
                vec![
                    (5, SAID, Nothing),
                    (10, Parked, Nothing),
                    (400, Tick, Nothing),
                    (400, Unparked, Nothing),
                    (444, SAID, notice(6)),
                    (449, SAID, Nothing),
                    (450, Tick, Stop(Rule::Ceiling)),
                ],
            ),
            (
                "it is one for all processes",
                vec![
                    (5, SAID, Nothing),
                    (30, Exited, Nothing),
                    (30, Eof, Nothing),
                    (100, Spawned, Nothing),
                    (105, SAID, Nothing),
                    (124, SAID, notice(6)),
                    (130, SAID, Stop(Rule::Ceiling)),
                    (131, Exited, Nothing),
                    (132, Spawned, Stop(Rule::Ceiling)),
                ],
            ),
            (
                "what waits has its own limit, over all waits",
                vec![
                    (5, SAID, Nothing),
                    (10, Parked, Nothing),
                    (310, Unparked, Nothing),
                    (320, Parked, Nothing),
                    (519, Tick, Nothing),
                    (520, Tick, Stop(Rule::MaxWait)),
                    (521, Tick, Nothing),
                ],
            ),
            (
                "a wait after a stop is limited too",
                vec![
                    (5, Input::ResultSeen, Nothing),
                    (15, Tick, Stop(Rule::AfterResult)),
                    (16, Exited, Nothing),
                    (16, Eof, Nothing),
                    (20, Parked, Nothing),
                    (519, Tick, Nothing),
                    (520, Tick, Stop(Rule::MaxWait)),
                    (521, Parked, Nothing),
                    (9_999, Tick, Nothing),
                ],
            ),
            (
                "after a wait there is a whole period again",
                vec![
                    (5, Parked, Nothing),
                    (400, Unparked, Nothing),
                    (410, Tick, quiet(Rule::Start, 10)),
                    (420, Tick, Stop(Rule::Start)),
                ],
            ),
        ],
    );
}
