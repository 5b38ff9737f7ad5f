use proptest::prelude::*;

use super::*;
use crate::dialogs::{Choice, DialogKind, Role, Wish};

const NOTHING: Action = Action::Nothing;

fn write(text: &str) -> Action {
    Action::Write(text.as_bytes().to_vec())
}

fn menu(kind: DialogKind, options: &[(Option<u8>, Role)], at: usize) -> Dialog {
    let choice = |(digit, role): &(Option<u8>, Role)| Choice {
        digit: *digit,
        label: format!("{role:?}"),
        mark: None,
        role: *role,
    };
    Dialog {
        kind,
        title: String::new(),
        question: "Well?".to_owned(),
        options: options.iter().map(choice).collect(),
        at,
    }
}

fn trust(at: usize) -> Dialog {
    menu(DialogKind::Trust, &[(None, Role::No), (None, Role::Yes)], at)
}

fn permission() -> Dialog {
    menu(DialogKind::Permission(Wish::Other), &[(Some(1), Role::Yes), (Some(2), Role::No)], 0)
}

fn seen(dialog: Dialog) -> Input {
    Input::Seen(Some(dialog))
}

const GONE: Input = Input::Seen(None);

/// Milliseconds, what is told, what is done.
type Step = (u64, Input, Action);

fn play(name: &str, permissions: Permissions, steps: Vec<Step>) {
    let mut machine = Answering::new(permissions);
    for (at, input, want) in steps {
        let told = format!("{name}, at {at} ms: {input:?}");
        assert_eq!(machine.step(Duration::from_millis(at), input), want, "{told}");
    }
}

#[test]
fn one_key_and_then_a_look() {
    play(
        "Enter is pressed when the pointer is seen there",
        Permissions::Deny,
        vec![
            (0, seen(trust(0)), write("\x1b[B")),
            (50, seen(trust(0)), NOTHING),
            (60, seen(trust(1)), NOTHING),
            (249, Input::Tick, NOTHING),
            (250, Input::Tick, write("\r")),
            (300, seen(trust(1)), NOTHING),
            (400, GONE, NOTHING),
            (9_000, Input::Tick, NOTHING),
        ],
    );
    play(
        "a key that does nothing is lost after a while",
        Permissions::All,
        vec![
            (0, seen(permission()), write("1")),
            (2_999, seen(permission()), NOTHING),
            (3_000, Input::Tick, write("1")),
            (3_100, GONE, NOTHING),
            (3_200, seen(permission()), write("1")),
        ],
    );
    play(
        "the next dialog is another one",
        Permissions::All,
        vec![
            (0, seen(trust(1)), write("\r")),
            (10, seen(permission()), NOTHING),
            (250, Input::Tick, write("1")),
        ],
    );
}

#[test]
fn what_nobody_may_answer_stops_the_run_once_it_has_stayed() {
    let login = menu(DialogKind::Login, &[(Some(1), Role::Other)], 0);
    let blocked = || Action::Blocked { reason: "somebody has to sign in: Well?".to_owned() };
    play(
        "it stays",
        Permissions::All,
        vec![
            (0, seen(login.clone()), NOTHING),
            (999, seen(login.clone()), NOTHING),
            (1_000, Input::Tick, blocked()),
            (1_100, seen(login.clone()), NOTHING),
        ],
    );
    play(
        "it goes",
        Permissions::All,
        vec![(0, seen(login), NOTHING), (500, GONE, NOTHING), (1_000, Input::Tick, NOTHING)],
    );
}

#[test]
fn a_dialog_that_does_not_react_is_given_up() {
    let mut machine = Answering::new(Permissions::All);
    let mut now = Duration::ZERO;
    let mut action = machine.step(now, seen(permission()));
    let mut presses = 0;
    while let Action::Write(_) = action {
        presses += 1;
        now = machine.wake_at().expect("it waits");
        action = machine.step(now, Input::Tick);
    }
    assert_eq!(presses, MOST_PRESSES);
    assert!(matches!(action, Action::Blocked { .. }));
}

proptest! {
    /// Nothing is pressed while no dialog is up, and a dialog that stays ends in a bounded number of keys.
    #[test]
    fn keys_are_for_dialogs_only(
        steps in prop::collection::vec((0_u64..4_000, prop_oneof![
            Just(GONE),
            Just(Input::Tick),
            (0_usize..2).prop_map(|at| seen(trust(at))),
            Just(seen(permission())),
        ]), 0..60)
    ) {
        let mut machine = Answering::new(Permissions::Deny);
        let mut now = Duration::ZERO;
        let mut up = false;
        for (later, input) in steps {
            now += Duration::from_millis(later);
            if let Input::Seen(dialog) = &input {
                up = dialog.is_some();
            }
            let action = machine.step(now, input);
            prop_assert!(up || action == Action::Nothing);
            prop_assert!(up || !machine.is_at_work());
        }
    }
}
