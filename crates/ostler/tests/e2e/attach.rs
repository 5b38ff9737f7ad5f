//! `ostler attach` from a second real terminal, while the real terminal program of two versions works.

use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::player::Player;
use crate::screen::{Screen, Size};
use crate::yard::Yard;

#[test]
fn a_terminal_is_watched_and_taken_over_pinned() {
    is_watched_and_taken_over(Player::ClaudeTerminal);
}

#[test]
fn a_terminal_is_watched_and_taken_over_newer() {
    is_watched_and_taken_over(Player::ClaudeTerminalNewer);
}

/// Only a failure waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Ctrl-].
pub(crate) const DETACH: &str = "\u{1d}";

pub(crate) fn attach(yard: &Yard, more: &[&str], size: Size) -> Screen {
    Screen::start(&yard.ostler(&[&["attach", "last"], more].concat()), size)
}

/// What is told of the terminal of the only session.
pub(crate) fn terminal(yard: &Yard) -> Value {
    let listed = yard.ostler(&["sessions", "--json"]).output().unwrap().stdout;
    let listed: Value = serde_json::from_slice(&listed).unwrap();
    listed[0]["terminal"].clone()
}

/// Waits until the terminal is so wide. Each look starts a process, which is pause enough.
fn until_wide(yard: &Yard, columns: u16) {
    let deadline = Instant::now() + PATIENCE;
    while terminal(yard)["columns"] != columns {
        assert!(Instant::now() < deadline, "{}", terminal(yard));
    }
}

pub(crate) fn has(rows: &[String], text: &str) -> bool {
    rows.iter().any(|row| row.contains(text))
}

/// Ended also when the test fails.
pub(crate) struct Run(pub(crate) Child);

impl Drop for Run {
    fn drop(&mut self) {
        // It has ended in most tests.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

fn is_watched_and_taken_over(player: Player) {
    let Some(yard) = Yard::of(player) else { return };
    let (child, _, _lines) = crate::terminal::stalled(&yard);
    let run = Run(child);

    // Somebody watches, in a window of another size.
    let mut viewer = attach(&yard, &["--view"], Size(50, 130));
    viewer.until("the prompt", |rows| has(rows, "Say something."));
    viewer.press("not heard");

    // Somebody takes it over, and it has the size of their window.
    let mut person = attach(&yard, &[], Size(30, 100));
    person.until("the prompt", |rows| has(rows, "Say something."));
    let held = terminal(&yard);
    assert_eq!((&held["columns"], &held["rows"], &held["held"]), (&100.into(), &30.into(), &true.into()));
    assert_eq!(held["viewers"], 2);
    person.press("by hand");
    person.until("what was typed", |rows| has(rows, "by hand"));
    let rows = viewer.until("what was typed", |rows| has(rows, "by hand"));
    assert!(!has(&rows, "not heard"), "{rows:#?}");

    // Nobody else can meanwhile.
    let (code, rows) = attach(&yard, &[], Size(24, 80)).end();
    assert!(code == Some(2) && has(&rows, "somebody else holds"), "{code:?} {rows:#?}");

    // The window changes, and so does the terminal.
    person.resize(Size(36, 110));
    until_wide(&yard, 110);
    person.until("what was typed", |rows| has(rows, "by hand"));

    // They leave: all is as it was, and the run goes on.
    person.press(DETACH);
    let (code, rows) = person.end();
    assert!(code == Some(0) && has(&rows, "which goes on"), "{code:?} {rows:#?}");
    until_wide(&yard, 120);
    assert_eq!(terminal(&yard)["held"], false);
    viewer.until("what was left there", |rows| has(rows, "by hand"));
    let shown = yard.ostler(&["sessions", "show", "last"]).output().unwrap().stdout;
    assert!(String::from_utf8(shown).unwrap().contains("by hand"));

    // Who is told to end leaves the window as it was too.
    let mut ended = attach(&yard, &["--view"], Size(24, 80));
    ended.until("the terminal", |rows| has(rows, "by hand"));
    ended.signal(Signal::TERM);
    assert_eq!(ended.end().0, Some(143));

    // The run ends, and whoever watches is told.
    let killed = yard.ostler(&["sessions", "kill", "last"]).output().unwrap();
    assert!(String::from_utf8(killed.stdout).unwrap().contains("has ended"));
    let (code, rows) = viewer.end();
    assert!(code == Some(0) && has(&rows, "is closed"), "{code:?} {rows:#?}");
    drop(run);
    yard.is_empty();
}
