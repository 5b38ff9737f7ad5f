use serde_json::json;

use super::tests::{closed, limits, opened, secs};
use super::*;

/// `count` equal calls, each `apart` seconds after the other; the answers to all but the last are passed over.
fn last_of(count: u32, apart: u64, change: impl Fn(u32) -> (String, String)) -> Action {
    let mut dog = Watchdog::new(limits());
    let mut last = dog.step(secs(0), Input::Spawned);
    for number in 1..=count {
        let (command, answer) = change(number);
        let at = secs(u64::from(number) * apart);
        let id = format!("call-{number}");
        let _ = dog.step(at, opened(&id, &command));
        last = dog.step(at, closed(&id, &answer));
    }
    last
}

#[test]
fn the_same_call_again_and_again() {
    let same = |_| ("ls".to_owned(), "a b".to_owned());
    let table = [
        ("two are nothing", last_of(2, 20, same), Action::Nothing),
        ("three are suspect", last_of(3, 20, same), Action::Warn(Warning::Repeats { count: 3 })),
        ("which is said once", last_of(4, 20, same), Action::Nothing),
        ("six are thrash", last_of(6, 20, same), Action::Stop(Rule::Loop)),
        ("three fast ones are thrash", last_of(3, 5, same), Action::Stop(Rule::Loop)),
        (
            "another result breaks the row",
            last_of(6, 1, |n| ("ls".to_owned(), n.to_string())),
            Action::Nothing,
        ),
        (
            "another call breaks the row",
            last_of(6, 1, |n| ((n % 2).to_string(), String::new())),
            Action::Nothing,
        ),
    ];
    for (name, got, want) in table {
        assert_eq!(got, want, "{name}");
    }
}

#[test]
fn a_fast_row_is_found_wherever_it_begins() {
    let mut dog = Watchdog::new(limits());
    let _ = dog.step(secs(0), Input::Spawned);
    let mut last = Action::Nothing;
    for at in [10, 30, 50, 53, 56] {
        let _ = dog.step(secs(at), opened("a", "ls"));
        last = dog.step(secs(at), closed("a", ""));
    }
    assert_eq!(last, Action::Stop(Rule::Loop));
}

#[test]
fn an_end_without_a_start_breaks_the_row() {
    let mut dog = Watchdog::new(limits());
    let _ = dog.step(secs(0), Input::Spawned);
    for at in 1..=9 {
        let _ = dog.step(secs(at), opened("a", "ls"));
        assert_eq!(dog.step(secs(at), closed("a", "")), Action::Nothing);
        assert_eq!(dog.step(secs(at), closed("unknown", "")), Action::Nothing);
    }
}

#[test]
fn signatures_see_the_call_and_not_how_it_is_written() {
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let one = read(r#"{"b": [1, {"z": null, "y": "\"q\""}], "a": 1.5}"#);
    let two = read(r#"{"a":1.5,"b":[1,{"y":"\"q\"","z":null}]}"#);
    assert_eq!(canonical(&one), r#"{"a":1.5,"b":[1,{"y":"\"q\"","z":null}]}"#);
    assert_eq!(canonical(&one), canonical(&two));
    assert_eq!(Signature::of("Bash", &one), Signature::of("Bash", &two));
    assert_ne!(Signature::of("Bash", &one), Signature::of("Read", &one));
    assert_ne!(Signature::of("Bash", &one), Signature::of("Bash", &json!({})));
}
