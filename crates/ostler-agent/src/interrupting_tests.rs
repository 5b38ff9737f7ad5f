use proptest::prelude::*;

use super::*;

const IDLE: Input = Input::Status(Status::Idle);
const BUSY: Input = Input::Status(Status::Busy);
const NOTHING: Action = Action::Nothing;

fn write(text: &str) -> Action {
    Action::Write(text.as_bytes().to_vec())
}

fn holds() -> Input {
    Input::Seen(Sight::Holds("the prompt".to_owned()))
}

fn empty() -> Input {
    Input::Seen(Sight::Empty)
}

/// Milliseconds, what is told, what is done. A turn is under way, with an empty box.
type Step = (u64, Input, Action);

fn play(name: &str, steps: Vec<Step>) {
    let mut machine = Interrupting::new(Pace::default(), Sight::Empty, Some(Status::Busy));
    for (at, input, want) in steps {
        let told = format!("{name}, at {at} ms: {input:?}");
        assert_eq!(machine.step(Duration::from_millis(at), input), want, "{told}");
    }
}

#[test]
fn a_turn_is_broken_off() {
    play(
        "in its text, or in a tool",
        vec![
            (0, Input::Tick, write("\x1b")),
            (40, Input::TurnEnded, NOTHING),
            (60, IDLE, NOTHING),
            (359, Input::Tick, NOTHING),
            (360, Input::Tick, Action::Settled(Left::Record)),
            (9_000, Input::Tick, NOTHING),
        ],
    );
    play(
        "before any output: the prompt comes back and is taken out",
        vec![
            (0, Input::Tick, write("\x1b")),
            (50, holds(), NOTHING),
            (60, IDLE, write("\x03")),
            (90, Input::Tick, NOTHING),
            (100, empty(), NOTHING),
            (400, Input::Tick, Action::Settled(Left::Nothing)),
        ],
    );
    play(
        "a lost Esc is pressed again",
        vec![
            (0, Input::Tick, write("\x1b")),
            (1_499, BUSY, NOTHING),
            (1_500, Input::Tick, write("\x1b")),
            (1_600, Input::TurnEnded, NOTHING),
            (1_600, IDLE, NOTHING),
            (1_900, Input::Tick, Action::Settled(Left::Record)),
        ],
    );
    play(
        "an agent that does not listen is given up",
        vec![
            (0, Input::Tick, write("\x1b")),
            (1_500, Input::Tick, write("\x1b")),
            (3_000, Input::Tick, write("\x1b")),
            (4_500, Input::Tick, NOTHING),
            (8_000, Input::Tick, Action::Unsettled),
            (9_000, IDLE, NOTHING),
        ],
    );
    play(
        "a prompt that stays in the box is glued to nothing: the session is given up",
        vec![
            (0, Input::Tick, write("\x1b")),
            (50, holds(), NOTHING),
            (60, IDLE, write("\x03")),
            (8_000, Input::Tick, Action::Unsettled),
        ],
    );
}

#[test]
fn a_turn_that_ended_by_itself_needs_no_key() {
    let mut machine = Interrupting::new(Pace::default(), Sight::Empty, Some(Status::Idle));
    assert_eq!(machine.step(Duration::ZERO, Input::TurnEnded), NOTHING);
    assert_eq!(machine.step(Duration::from_millis(300), Input::Tick), Action::Settled(Left::Record));
}

fn inputs() -> impl Strategy<Value = Input> {
    prop_oneof![
        Just(holds()),
        Just(empty()),
        Just(Input::Seen(Sight::Dialog)),
        Just(Input::Seen(Sight::NoBox)),
        Just(IDLE),
        Just(BUSY),
        Just(Input::TurnEnded),
        Just(Input::Tick),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// It presses Esc three times at most and Ctrl-C once, and its end is told once, and comes.
    #[test]
    fn it_comes_to_an_end(steps in prop::collection::vec((0_u64..3_000, inputs()), 0..40)) {
        let mut machine = Interrupting::new(Pace::default(), Sight::Empty, Some(Status::Busy));
        let (mut now, mut escapes, mut clears, mut ends) = (Duration::ZERO, 0, 0, 0);
        let ticks = std::iter::once((0, Input::Tick)).chain(std::iter::repeat_n((8_000, Input::Tick), 3));
        for (later, input) in steps.into_iter().chain(ticks) {
            now += Duration::from_millis(later);
            match machine.step(now, input) {
                Action::Nothing => {}
                Action::Write(bytes) => {
                    prop_assert_eq!(ends, 0);
                    if bytes == CLEAR { clears += 1 } else { escapes += 1 }
                }
                Action::Settled(_) | Action::Unsettled => ends += 1,
            }
            prop_assert!(escapes <= 3 && clears <= 1 && ends <= 1);
        }
        prop_assert_eq!(ends, 1);
        prop_assert_eq!(machine.wake_at(), None);
    }
}
