use proptest::prelude::*;

use super::*;
use crate::event::Part;

fn asked() -> AgentEvent {
    AgentEvent::Asked { text: "do it".to_owned() }
}

fn said() -> AgentEvent {
    AgentEvent::Said { text: "done".to_owned(), part: Part::Whole, within: None }
}

fn called() -> AgentEvent {
    AgentEvent::ToolStarted {
        call: "c".to_owned(),
        tool: "Bash".to_owned(),
        input: serde_json::Value::Null,
        within: None,
    }
}

fn done() -> AgentEvent {
    AgentEvent::TurnEnded(TurnOutcome::Done { text: "done".to_owned() })
}

fn waiting() -> Status {
    Status::Waiting { what: "permission prompt".to_owned() }
}

/// One thing that happens, as a word: a table of them reads like what was seen.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Typed,
    Untaken,
    Asked,
    Said,
    Called,
    Done,
    Broken,
    Stands,
    Unfinished,
    Idle,
    Busy,
    Waiting,
    Shell,
    NoState,
    ScreenIdle,
    ScreenBusy,
    Esc,
    Tick,
}

fn take(turning: &mut Turning, at: Duration, step: Step) -> Verdict {
    let event = match step {
        Step::Asked => Some(asked()),
        Step::Said => Some(said()),
        Step::Called => Some(called()),
        Step::Done => Some(done()),
        Step::Broken => Some(AgentEvent::TurnEnded(TurnOutcome::Interrupted)),
        _ => None,
    };
    let waiting = waiting();
    let input = match step {
        Step::Typed => Input::Typed,
        Step::Untaken => Input::Untaken,
        Step::Asked | Step::Said | Step::Called | Step::Done | Step::Broken => {
            event.as_ref().map_or(Input::Tick, Input::Event)
        }
        Step::Stands => Input::Grew { stands: true },
        Step::Unfinished => Input::Grew { stands: false },
        Step::Idle => Input::Status(Some(&Status::Idle)),
        Step::Busy => Input::Status(Some(&Status::Busy)),
        Step::Waiting => Input::Status(Some(&waiting)),
        Step::Shell => Input::Status(Some(&Status::Shell)),
        Step::NoState => Input::Status(None),
        Step::ScreenIdle => Input::Screen { idle: true },
        Step::ScreenBusy => Input::Screen { idle: false },
        Step::Esc => Input::Interrupting,
        Step::Tick => Input::Tick,
    };
    turning.step(at, &input)
}

/// What was seen when, in milliseconds, and what was said to it.
type Seen<'a> = &'a [(u64, Step, Verdict)];

const fn ended(by: Evidence, interrupted: bool) -> Verdict {
    Verdict::Ended { by, interrupted }
}

#[test]
fn the_end_of_a_turn() {
    use Evidence::{Answer, Record, Screen, State};
    use Step::{
        Asked, Broken, Busy, Called, Done, Esc, Idle, NoState, Said, ScreenIdle, Shell, Stands, Tick, Typed,
        Unfinished, Untaken, Waiting,
    };
    use Verdict::Open;
    let table: &[(&str, Seen<'_>)] = &[
        (
            "a record ends it, at once and once",
            &[
                (0, Typed, Open),
                (100, Asked, Open),
                (300, Said, Open),
                (310, Done, ended(Record, false)),
                (311, Done, Open),
            ],
        ),
        (
            "idle before the last records are written does not cut them",
            &[
                (0, Busy, Open),
                (0, Typed, Open),
                (100, Asked, Open),
                (200, Idle, Open),
                (1_900, Said, Open),
                (1_900, Stands, Open),
                (2_300, Said, Open),
                (2_300, Stands, Open),
                (2_310, Done, ended(Record, false)),
            ],
        ),
        (
            "the end of another turn is not the end of this one",
            &[(0, Typed, Open), (50, Done, Open), (100, Asked, Open), (310, Done, ended(Record, false))],
        ),
        (
            "an answer that stands, and a state file that is idle",
            &[
                (0, Typed, Open),
                (10, Busy, Open),
                (20, Asked, Open),
                (500, Said, Open),
                (500, Stands, Open),
                (600, Idle, Open),
                (2_599, Tick, Open),
                (2_600, Tick, ended(State, false)),
            ],
        ),
        (
            "Esc before any output: no record at all",
            &[
                (0, Typed, Open),
                (10, Busy, Open),
                (20, Asked, Open),
                (1_000, Esc, Open),
                (1_200, Idle, Open),
                (2_199, Tick, Open),
                (2_200, Tick, ended(State, true)),
            ],
        ),
        (
            "Esc before the prompt was recorded",
            &[
                (0, Typed, Open),
                (10, Busy, Open),
                (20, Esc, Open),
                (30, Asked, Open),
                (40, Idle, Open),
                (1_039, Tick, Open),
                (1_040, Tick, ended(State, true)),
            ],
        ),
        (
            "Esc by a person who held the terminal",
            &[
                (0, Typed, Open),
                (10, Busy, Open),
                (20, Asked, Open),
                (1_200, Idle, Open),
                (6_199, Tick, Open),
                (6_200, Tick, ended(State, true)),
            ],
        ),
        (
            "an interruption is a record",
            &[
                (0, Typed, Open),
                (20, Asked, Open),
                (1_000, Esc, Open),
                (1_200, Idle, Open),
                (1_300, Broken, ended(Record, true)),
            ],
        ),
        (
            "busy, and a dialog, outrank an answer that stands",
            &[
                (0, Typed, Open),
                (10, Busy, Open),
                (20, Asked, Open),
                (30, Said, Open),
                (30, Stands, Open),
                (60_000, Tick, Open),
                (60_001, Waiting, Open),
                (90_000, Tick, Open),
            ],
        ),
        (
            "a command in the background leaves the prompt",
            &[
                (0, Typed, Open),
                (20, Asked, Open),
                (30, Said, Open),
                (30, Stands, Open),
                (40, Shell, Open),
                (2_040, Tick, ended(State, false)),
            ],
        ),
        (
            "a flicker is no end",
            &[
                (0, Typed, Open),
                (20, Asked, Open),
                (1_000, Idle, Open),
                (5_900, Busy, Open),
                (7_000, Tick, Open),
            ],
        ),
        (
            "no state file: nothing follows the answer",
            &[
                (0, Typed, Open),
                (20, Asked, Open),
                (500, Said, Open),
                (500, Stands, Open),
                (1_249, Tick, Open),
                (1_250, Tick, ended(Answer, false)),
            ],
        ),
        (
            "no state file: a block that follows starts the wait anew",
            &[
                (0, Typed, Open),
                (20, Asked, Open),
                (500, Said, Open),
                (500, Stands, Open),
                (1_200, Said, Open),
                (1_200, Stands, Open),
                (1_949, Tick, Open),
                (1_950, Tick, ended(Answer, false)),
            ],
        ),
        (
            "no state file, no reason to stop: the screen",
            &[
                (0, Typed, Open),
                (20, Asked, Open),
                (500, Said, Open),
                (500, Unfinished, Open),
                (600, ScreenIdle, Open),
                (5_599, Tick, Open),
                (5_600, Tick, ended(Screen, false)),
            ],
        ),
        (
            "no state file, a call that is open: the screen says that it was given up",
            &[
                (0, Typed, Open),
                (20, Asked, Open),
                (500, Called, Open),
                (600, ScreenIdle, Open),
                (5_600, Tick, ended(Screen, true)),
            ],
        ),
        (
            "a state file that goes away no longer counts",
            &[
                (0, Typed, Open),
                (10, Busy, Open),
                (20, Asked, Open),
                (30, NoState, Open),
                (40, Said, Open),
                (40, Stands, Open),
                (790, Tick, ended(Answer, false)),
            ],
        ),
        (
            "what was not taken has no end",
            &[(0, Typed, Open), (100, Untaken, Open), (200, Idle, Open), (90_000, Tick, Open)],
        ),
        ("a turn that nobody asked for", &[(0, Said, Open), (10, Done, ended(Record, false))]),
    ];
    for (name, steps) in table {
        let mut turning = Turning::new();
        for (at, step, want) in *steps {
            assert_eq!(
                take(&mut turning, Duration::from_millis(*at), *step),
                *want,
                "{name}, {step:?} at {at}"
            );
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let all = [
        Step::Typed,
        Step::Untaken,
        Step::Asked,
        Step::Said,
        Step::Called,
        Step::Done,
        Step::Broken,
        Step::Stands,
        Step::Unfinished,
        Step::Idle,
        Step::Busy,
        Step::Waiting,
        Step::Shell,
        Step::NoState,
        Step::ScreenIdle,
        Step::ScreenBusy,
        Step::Esc,
        Step::Tick,
    ];
    proptest::collection::vec((0..3_000_u64, proptest::sample::select(all.to_vec())), 0..60)
}

proptest! {
    #[test]
    fn a_turn_ends_once_and_never_while_it_works(steps in steps()) {
        let (mut turning, mut now, mut works) = (Turning::new(), 0, false);
        for (later, step) in steps {
            now += later;
            let was_open = turning.is_open();
            let verdict = take(&mut turning, Duration::from_millis(now), step);
            works = match step {
                Step::Busy | Step::Waiting => true,
                Step::Idle | Step::Shell | Step::NoState => false,
                _ => works,
            };
            match verdict {
                Verdict::Open => {}
                Verdict::Ended { by: Evidence::Record, .. } => {
                    prop_assert!(was_open && matches!(step, Step::Done | Step::Broken));
                    prop_assert!(!turning.is_open());
                }
                Verdict::Ended { .. } => {
                    prop_assert!(was_open && !works && !turning.is_open(), "{:?}", step);
                }
            }
            prop_assert!(turning.wake_at().is_none() || turning.is_open());
        }
    }

    /// Whatever came before: a terminal that is idle and a file that no longer grows end the turn.
    #[test]
    fn every_turn_ends(steps in steps()) {
        let (mut turning, mut now) = (Turning::new(), 0);
        for (later, step) in steps {
            now += later;
            let _ = take(&mut turning, Duration::from_millis(now), step);
        }
        let _ = take(&mut turning, Duration::from_millis(now), Step::Idle);
        if let Some(wake_at) = turning.wake_at() {
            prop_assert!(wake_at <= Duration::from_millis(now) + IDLE_UNANSWERED);
            let verdict = turning.step(wake_at, &Input::Tick);
            prop_assert_ne!(verdict, Verdict::Open);
        }
        prop_assert!(!turning.is_open());
    }
}
