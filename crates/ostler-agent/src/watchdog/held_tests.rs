//! A person has the agent's terminal: no rule about quiet holds, and the ceiling does.

use super::tests::{SAID, limits, opened, secs};
use super::*;

/// Tells it, and passes over samples.
fn tell(dog: &mut Watchdog, at: u64, input: Input) -> Action {
    let mut action = dog.step(secs(at), input);
    while action == Action::Sample {
        action = dog.step(secs(at), Input::Tick);
    }
    action
}

#[test]
fn a_person_may_take_their_time_in_every_state() {
    // What happened before they came, and the rule that holds once they have left, after so many seconds.
    let table: [(&str, Vec<Input>, Rule, u64); 4] = [
        ("it starts", vec![], Rule::Start, 20),
        ("it works", vec![SAID], Rule::Silence, 100),
        ("it waits for a call", vec![opened("a", "make")], Rule::OpenCall, 1_000),
        ("its turn is over", vec![SAID, Input::ResultSeen], Rule::AfterResult, 10),
    ];
    for (name, before, rule, limit) in table {
        let mut dog = Watchdog::new(limits());
        let _ = dog.step(secs(0), Input::Spawned);
        for input in before {
            assert_eq!(tell(&mut dog, 1, input), Action::Nothing, "{name}");
        }
        assert_eq!(tell(&mut dog, 2, Input::Held), Action::Nothing, "{name}");
        assert_eq!(dog.state(), State::Held, "{name}");
        assert_eq!(dog.why(secs(3)).next.map(|next| next.rule), Some(Rule::Ceiling), "{name}");
        assert_eq!(tell(&mut dog, 5_000, Input::Tick), Action::Nothing, "{name}");
        assert_eq!(tell(&mut dog, 5_000, Input::Released), Action::Nothing, "{name}");
        assert_eq!(dog.why(secs(5_000)).next, Some(Next { rule, at: secs(5_000 + limit) }), "{name}");
        let mut stopped = tell(&mut dog, 5_000 + limit, Input::Tick);
        while matches!(stopped, Action::Warn(_)) {
            stopped = tell(&mut dog, 5_000 + limit, Input::Tick);
        }
        assert_eq!(stopped, Action::Stop(rule), "{name}");
    }
}

#[test]
fn the_ceiling_does_not_wait_for_a_person() {
    let mut dog = Watchdog::new(limits());
    let _ = dog.step(secs(0), Input::Spawned);
    let _ = dog.step(secs(1), Input::Held);
    assert_eq!(dog.wake_at(), Some(secs(9_000)), "nine tenths of it are told");
    assert_eq!(tell(&mut dog, 9_000, Input::Tick), Action::Warn(Warning::Ceiling { left: secs(1_000) }));
    assert_eq!(tell(&mut dog, 10_000, Input::Released), Action::Stop(Rule::Ceiling));
}

#[test]
fn nobody_holds_the_terminal_of_a_new_process_or_of_none() {
    let mut dog = Watchdog::new(limits());
    let _ = dog.step(secs(0), Input::Spawned);
    let _ = dog.step(secs(1), Input::Held);
    let _ = dog.step(secs(2), Input::Exited);
    assert_eq!(dog.state(), State::Exited);
    assert_eq!(tell(&mut dog, 4, Input::Tick), Action::Stop(Rule::AfterExit));
    let _ = dog.step(secs(5), Input::Spawned);
    assert_eq!(dog.state(), State::Starting);
    assert_eq!(tell(&mut dog, 6, Input::Released), Action::Nothing, "it is harmless");
    assert_eq!(dog.why(secs(6)).next, Some(Next { rule: Rule::Start, at: secs(25) }));
}
