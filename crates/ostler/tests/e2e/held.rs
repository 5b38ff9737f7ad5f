//! A person has the terminal before the run's task could be typed, and does something of their own there.

use std::io::{BufRead as _, BufReader};
use std::time::Instant;

use serde_json::Value;

use crate::attach::{DETACH, PATIENCE, Run, attach, has, terminal};
use crate::player::Player;
use crate::screen::Size;
use crate::yard::{Ended, Yard};

/// The program starts when it is let in: until then nothing can be typed.
const GATE: &str = r#"case " $* " in
    *" --version "*) ;;
    *) while ! [ -e "$PWD/../gate" ]; do sleep 0.1; done ;;
esac"#;

const TWO: &str = r#"
[[conversation]]
[[conversation.step]]
expect = { contains = "The task of the run." }
reply = [{ text = "The task is done." }]

[[conversation]]
[[conversation.step]]
expect = { contains = "Mine first." }
reply = [{ text = "Yours was first." }]
"#;

/// Longer than an agent that has ended its turn is left alone, if nobody has its terminal: 10 s.
const LONGER_THAN_THE_RULE: u64 = 11_000;

#[test]
fn nothing_is_typed_or_ended_under_a_persons_hands_pinned() {
    is_theirs(Player::ClaudeTerminal, LONGER_THAN_THE_RULE);
}

/// The rule is the same for every version: here the person leaves at once.
#[test]
fn nothing_is_typed_or_ended_under_a_persons_hands_newer() {
    is_theirs(Player::ClaudeTerminalNewer, 0);
}

/// Each look starts a process, which is pause enough.
fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited for {what}");
    }
}

fn verdict(yard: &Yard) -> Value {
    let output = yard.ostler(&["runs", "why", "last", "--json"]).output().unwrap();
    let why: Value = serde_json::from_slice(&output.stdout).unwrap();
    why["verdict"].clone()
}

fn is_theirs(player: Player, quiet: u64) {
    let Some(yard) = Yard::behind(player, GATE) else { return };
    let script = yard.script(TWO);
    let mut run = Run(yard.start(&[&script, "The task of the run."]));
    let mut lines = BufReader::new(run.0.stdout.take().unwrap()).lines();
    let mut lines = lines.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let mut seen = Vec::new();
    let mut read = |seen: &mut Vec<Value>, is_last: &dyn Fn(&Value) -> bool| {
        while !seen.last().is_some_and(is_last) {
            seen.push(lines.next().unwrap_or_else(|| panic!("it ended: {seen:#?}")));
        }
    };
    read(&mut seen, &|line| line["kind"] == "spawned");

    // They have it before it could be typed.
    until("a terminal", || terminal(&yard).is_object());
    let mut person = attach(&yard, &[], Size(40, 120));
    until("a person at it", || terminal(&yard)["held"] == true);
    read(&mut seen, &|line| line["kind"] == "held");
    std::fs::write(yard.at("gate"), "").unwrap();
    person.until("the box", |rows| rows.iter().any(|row| row.contains('❯')));

    // What they ask is answered, and the end of that turn is not the end of anything.
    person.press("Mine first.");
    person.until("what was typed", |rows| has(rows, "Mine first."));
    person.press("\r");
    person.until("the answer", |rows| has(rows, "Yours was first."));
    read(&mut seen, &|line| line["event"] == "turn_ended");
    until("a quiet while", || verdict(&yard)["quiet_ms"].as_u64() >= Some(quiet));
    assert_eq!(verdict(&yard)["state"], "held");
    assert!(!has(&person.rows(), "The task of the run."), "{:#?}", person.rows());

    // They leave, and the task is typed: once.
    person.press(DETACH);
    assert_eq!(person.end().0, Some(0));
    read(&mut seen, &|line| line["kind"] == "outcome");
    let ended = Ended { code: run.0.wait().unwrap().code(), lines: seen };
    ended.ends("completed", 0);
    let asked: Vec<_> = ended.with("event", "asked").filter_map(|line| line["text"].as_str()).collect();
    assert_eq!(asked, ["Mine first.", "The task of the run."]);
    assert_eq!(ended.said(), ["Yours was first.", "The task is done."]);
    let at = |field: &str, value: &str| ended.lines.iter().position(|line| line[field] == value).unwrap();
    assert!(at("kind", "released") < ended.lines.iter().rposition(|line| line["event"] == "asked").unwrap());
    assert!(at("kind", "held") < at("event", "asked"));
    yard.is_empty();
}
