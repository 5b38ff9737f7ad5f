//! `command:` agents: any program.

use ostler_agent::agent::{Agent as _, Exit, Source};
use ostler_agent::agents::Command;
use ostler_agent::event::{AgentEvent, FailureClass, Part, TurnOutcome};
use serde_json::json;

fn said(text: &str) -> AgentEvent {
    AgentEvent::Said { text: text.to_owned(), part: Part::Whole, within: None }
}

#[test]
fn every_line_is_its_text_and_exit_code_0_its_end() {
    let mut decoder = Command::parse("my-agent").unwrap().decoder(None);
    assert_eq!(decoder.noise("Working…"), [said("Working…")]);
    assert_eq!(decoder.events(Source::Stdout, &json!({"a": 1})), [said("{\"a\":1}")]);
    let done = TurnOutcome::Done { text: "Working…\n{\"a\":1}".to_owned() };
    assert_eq!(decoder.exited(Exit::Code(0), "chatter"), [AgentEvent::TurnEnded(done)]);
}

#[test]
fn any_other_end_is_a_failure() {
    for (exit, stderr, want) in [
        (Exit::Code(3), "", "exited with 3"),
        (Exit::Code(3), "boom\n", "boom"),
        (Exit::Signal(9), "", "was ended by signal 9 before it was done"),
    ] {
        let events = Command::parse("x").unwrap().decoder(None).exited(exit, stderr);
        let [AgentEvent::TurnEnded(TurnOutcome::Failed(failure))] = &events[..] else { panic!("{events:?}") };
        assert_eq!((failure.class, failure.detail.as_str()), (FailureClass::Crashed, want));
    }
}

#[test]
fn the_words_are_split_as_by_a_shell_and_no_shell_is_started() {
    let command = Command::parse("run 'two words' $HOME | tee").unwrap();
    assert_eq!(
        (command.program(), command.by_hand("").args),
        (Some("run"), ["two words", "$HOME", "|", "tee"].map(str::to_owned).to_vec())
    );
    for broken in ["", "  ", "'open", "''"] {
        assert!(Command::parse(broken).is_err(), "{broken}");
    }
}

#[test]
fn its_last_words_are_bounded() {
    let mut decoder = Command::parse("x").unwrap().decoder(None);
    for _ in 0..200 {
        decoder.noise(&"é".repeat(1_000));
    }
    let events = decoder.exited(Exit::Code(0), "");
    let [AgentEvent::TurnEnded(TurnOutcome::Done { text })] = &events[..] else { panic!("{events:?}") };
    assert!(text.len() <= 128 * 1024 && text.len() > 32 * 1024, "{}", text.len());
}
