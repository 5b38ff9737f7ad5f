use proptest::prelude::*;

use super::*;
use crate::terminal::Status;

const PASTE: &str = "<paste>";

fn prepared() -> Prepared {
    Prepared { bytes: PASTE.as_bytes().to_vec(), recorded: "do it".to_owned() }
}

fn write(text: &str) -> Action {
    Action::Write(text.as_bytes().to_vec())
}

fn seen(text: &str) -> Input<'static> {
    Input::Seen(match text {
        "" => Sight::Empty,
        "dialog" => Sight::Dialog,
        "nothing" => Sight::NoBox,
        text => Sight::Holds(text.to_owned()),
    })
}

fn waiting() -> Input<'static> {
    Input::Status(Status::Waiting { what: "permission prompt".to_owned() })
}

const IDLE: Input<'static> = Input::Status(Status::Idle);
const BUSY: Input<'static> = Input::Status(Status::Busy);
const NOTHING: Action = Action::Nothing;

/// Milliseconds, what is told, what is done.
type Step = (u64, Input<'static>, Action);

fn play(name: &str, steps: Vec<Step>) {
    let mut typing = Typing::new(prepared(), Pace::default());
    for (at, input, want) in steps {
        let told = format!("{name}, at {at} ms: {input:?}");
        assert_eq!(typing.step(Duration::from_millis(at), input), want, "{told}");
    }
}

#[test]
fn a_prompt_is_pasted_entered_and_believed_when_it_is_recorded() {
    play(
        "with a state file",
        vec![
            (0, Input::Tick, NOTHING),
            (900, seen(""), NOTHING),
            (950, IDLE, write(PASTE)),
            (960, seen("do it"), NOTHING),
            (1_069, Input::Tick, NOTHING),
            (1_070, Input::Tick, write("\r")),
            (1_080, seen(""), NOTHING),
            (1_190, BUSY, NOTHING),
            (1_250, Input::Recorded("do it"), Action::Submitted),
            (1_260, seen("do it"), NOTHING),
            (99_000, Input::Tick, NOTHING),
        ],
    );
    play(
        "without one the box must have been there for a while",
        vec![
            (0, seen(""), NOTHING),
            (399, Input::Tick, NOTHING),
            (400, Input::Tick, write(PASTE)),
            (410, seen("do it"), NOTHING),
            (520, Input::Tick, write("\r")),
            (600, Input::Recorded("do it"), Action::Submitted),
        ],
    );
}

#[test]
fn a_lost_enter_is_pressed_once_more_and_only_if_the_text_is_still_there() {
    let begin = || vec![(0, IDLE, NOTHING), (0, seen(""), write(PASTE)), (120, seen("do it"), write("\r"))];
    let with = |more: Vec<Step>| begin().into_iter().chain(more).collect::<Vec<_>>();
    play(
        "it helps",
        with(vec![
            (3_119, Input::Tick, NOTHING),
            (3_120, Input::Tick, write("\r")),
            (3_300, seen(""), NOTHING),
            (3_400, Input::Recorded("do it"), Action::Submitted),
        ]),
    );
    play(
        "it does not: the box is emptied",
        with(vec![
            (3_120, Input::Tick, write("\r")),
            (9_000, Input::Tick, NOTHING),
            (20_120, Input::Tick, write("\x03")),
            (20_200, seen(""), Action::Failed(Cause::NotSubmitted)),
        ]),
    );
    play(
        "nor can it be emptied",
        with(vec![
            (3_120, Input::Tick, write("\r")),
            (20_120, Input::Tick, write("\x03")),
            (23_120, Input::Tick, Action::Failed(Cause::Stuck)),
        ]),
    );
    play(
        "the box is empty: Enter would be too much",
        with(vec![
            (200, seen(""), NOTHING),
            (3_120, Input::Tick, NOTHING),
            (20_120, Input::Tick, Action::Failed(Cause::NotSubmitted)),
        ]),
    );
    play(
        "the agent works: it has the prompt, which waits for its turn",
        with(vec![
            (200, seen(""), NOTHING),
            (210, BUSY, NOTHING),
            (20_120, Input::Tick, NOTHING),
            (300_000, Input::Recorded("do it"), Action::Submitted),
        ]),
    );
    play(
        "another prompt came out of it",
        with(vec![
            (200, seen(""), NOTHING),
            (300, Input::Recorded("do something else"), NOTHING),
            (20_120, Input::Tick, Action::Failed(Cause::Changed)),
        ]),
    );
}

#[test]
fn nothing_is_pressed_over_a_dialog_or_a_persons_hands() {
    play(
        "before the paste",
        vec![
            (0, IDLE, NOTHING),
            (10, seen("dialog"), NOTHING),
            (5_000, Input::Tick, NOTHING),
            (5_100, seen(""), write(PASTE)),
        ],
    );
    play(
        "between paste and Enter",
        vec![
            (0, IDLE, NOTHING),
            (0, seen(""), write(PASTE)),
            (50, seen("dialog"), NOTHING),
            (200, Input::Tick, NOTHING),
            (900, seen("do it"), write("\r")),
        ],
    );
    play(
        "after Enter",
        vec![
            (0, IDLE, NOTHING),
            (0, seen(""), write(PASTE)),
            (200, seen("do it"), write("\r")),
            (300, seen("dialog"), NOTHING),
            (400, waiting(), NOTHING),
            (9_000, Input::Tick, NOTHING),
            (9_100, Input::Recorded("do it"), Action::Submitted),
        ],
    );
    play(
        "a dialog that never goes",
        vec![(0, seen("dialog"), NOTHING), (60_000, Input::Tick, Action::Failed(Cause::NotReady))],
    );
    play(
        "a person's time is not ours",
        vec![
            (0, IDLE, NOTHING),
            (0, Input::Held, NOTHING),
            (100, seen(""), NOTHING),
            (500_000, Input::Tick, NOTHING),
            (500_000, Input::Released, NOTHING),
            (500_399, Input::Tick, NOTHING),
            (500_400, Input::Tick, write(PASTE)),
        ],
    );
    play(
        "what they left is seen first",
        vec![
            (0, IDLE, NOTHING),
            (0, Input::Held, NOTHING),
            (100, seen(""), NOTHING),
            (9_000, Input::Released, NOTHING),
            (9_030, seen("their words"), NOTHING),
            (9_400, Input::Tick, NOTHING),
            (9_430, Input::Tick, write("\x03")),
            (9_500, seen(""), write(PASTE)),
        ],
    );
}

#[test]
fn until_something_is_typed_a_person_may_have_the_keys() {
    let table: [(&str, Vec<Input<'static>>, bool, bool); 5] = [
        ("nothing is known", vec![], false, false),
        ("it waits for the box", vec![BUSY, seen("")], false, false),
        ("a person was quicker", vec![Input::Held, IDLE, seen("")], false, true),
        ("it is pasted", vec![IDLE, seen("")], true, false),
        ("it is over", vec![IDLE, seen(""), Input::Recorded("do it")], true, false),
    ];
    for (name, inputs, has_begun, is_held) in table {
        let mut typing = Typing::new(prepared(), Pace::default());
        for input in inputs {
            let _ = typing.step(Duration::ZERO, input);
        }
        assert_eq!((typing.has_begun(), typing.is_held()), (has_begun, is_held), "{name}");
    }
}

#[test]
fn what_others_left_in_the_box_is_taken_out_first() {
    play(
        "once",
        vec![
            (0, IDLE, NOTHING),
            (0, seen("old words"), NOTHING),
            (400, Input::Tick, write("\x03")),
            (900, Input::Tick, NOTHING),
            (1_000, seen(""), write(PASTE)),
        ],
    );
    play(
        "in vain",
        vec![
            (0, IDLE, NOTHING),
            (0, seen("old words"), NOTHING),
            (400, Input::Tick, write("\x03")),
            (60_000, Input::Tick, Action::Failed(Cause::NotReady)),
        ],
    );
}

#[test]
fn a_paste_that_never_shows_is_not_entered() {
    play(
        "empty",
        vec![
            (0, IDLE, NOTHING),
            (0, seen(""), write(PASTE)),
            (14_999, Input::Tick, NOTHING),
            (15_000, Input::Tick, Action::Failed(Cause::NotPasted)),
        ],
    );
    play(
        "no box any more",
        vec![
            (0, IDLE, NOTHING),
            (0, seen(""), write(PASTE)),
            (10, seen("nothing"), NOTHING),
            (15_000, Input::Tick, Action::Failed(Cause::Stuck)),
        ],
    );
}

fn inputs() -> impl Strategy<Value = Input<'static>> {
    prop_oneof![
        Just(seen("")),
        Just(seen("do it")),
        Just(seen("other words")),
        Just(seen("dialog")),
        Just(seen("nothing")),
        Just(IDLE),
        Just(BUSY),
        Just(waiting()),
        Just(Input::Status(Status::Shell)),
        Just(Input::Recorded("do it")),
        Just(Input::Recorded("other words")),
        Just(Input::Held),
        Just(Input::Released),
        Just(Input::Tick),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Whatever happens, in whatever order: the text is written at most once and Enter at most twice, only after it;
    /// nothing is written over a dialog or a person's hands; the end is told once, and comes.
    #[test]
    fn a_prompt_is_typed_at_most_once(steps in prop::collection::vec((0_u64..30_000, inputs()), 0..60)) {
        let mut typing = Typing::new(prepared(), Pace::default());
        let (mut now, mut pastes, mut enters, mut ends) = (Duration::ZERO, 0, 0, 0);
        let (mut dialog, mut held) = (false, false);
        let ticks = std::iter::repeat_n((60_000, Input::Tick), 20);
        let end = std::iter::once((0, Input::Released)).chain(ticks);
        for (later, input) in steps.into_iter().chain(end) {
            now += Duration::from_millis(later);
            match &input {
                Input::Seen(sight) => dialog = *sight == Sight::Dialog,
                Input::Held => held = true,
                Input::Released => held = false,
                Input::Status(_) | Input::Recorded(_) | Input::Tick => {}
            }
            match typing.step(now, input) {
                Action::Nothing => {}
                Action::Write(bytes) => {
                    prop_assert!(!dialog && !held && ends == 0);
                    match bytes.as_slice() {
                        b"\r" => {
                            prop_assert_eq!(pastes, 1);
                            enters += 1;
                        }
                        b"\x03" => {}
                        _ => pastes += 1,
                    }
                }
                Action::Submitted => {
                    prop_assert_eq!(pastes, 1);
                    ends += 1;
                }
                Action::Failed(_) => ends += 1,
            }
            prop_assert!(pastes <= 1 && enters <= 2 && ends <= 1);
        }
        prop_assert_eq!(ends, 1, "it came to no end");
    }

    /// Who only ticks when it is asked for comes to the end too.
    #[test]
    fn it_says_when_it_wants_to_be_woken(steps in prop::collection::vec((0_u64..5_000, inputs()), 0..30)) {
        let mut typing = Typing::new(prepared(), Pace::default());
        let mut now = Duration::ZERO;
        let mut over = false;
        let is_end = |action: &Action| matches!(action, Action::Submitted | Action::Failed(_));
        for (later, input) in steps.into_iter().chain([(0, Input::Released)]) {
            now += Duration::from_millis(later);
            over |= is_end(&typing.step(now, input));
        }
        for _ in 0..200 {
            let Some(at) = typing.wake_at() else { break };
            prop_assert!(at > now || now == Duration::ZERO, "it was woken for nothing");
            now = at;
            over |= is_end(&typing.step(now, Input::Tick));
        }
        prop_assert!(over);
        prop_assert_eq!(typing.wake_at(), None);
    }
}
