//! The ends of turns in whole terminal sessions, as they were recorded: each line is what was seen and when, in
//! milliseconds. A record, a sub-agent's record, the state file, a prompt that was typed, Esc.

use std::path::Path;
use std::time::Duration;

use ostler_agent::agent::{Agent as _, Source};
use ostler_agent::agents::ClaudeTerminal;
use ostler_agent::event::AgentEvent;
use ostler_agent::terminal::StateFile;
use ostler_agent::turning::{Evidence, Input, Turning, Verdict};
use serde_json::{Value, json};

use crate::shown::line;

/// Turns of all kinds; failures, a compaction, prompts that were queued, a command of a person.
const SESSIONS: [&str; 4] = ["turns-2.1.197", "turns-2.1.325", "failures-2.1.197", "failures-2.1.325"];

#[expect(clippy::disallowed_methods, reason = "the recordings are files; only tests read them")]
fn session(name: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings/claude/terminal");
    let text = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn state(seen: &Value) -> StateFile {
    let file = json!({"status": seen["status"], "sessionId": seen["session"]}).to_string();
    ClaudeTerminal.interactive().unwrap().state(file.as_bytes()).unwrap()
}

/// What a session comes to: its events and the ends of its turns, with the records of each batch in this order.
fn played(session: &[Value], is_reversed: bool) -> Vec<String> {
    let (mut turning, mut decoder, mut shown) = (Turning::new(), ClaudeTerminal.decoder(None), Vec::new());
    let mut at = 0;
    while at < session.len() {
        let seen = &session[at];
        let now = Duration::from_millis(seen["ms"].as_u64().unwrap());
        while let Some(wake_at) = turning.wake_at().filter(|wake_at| *wake_at <= now) {
            end(turning.step(wake_at, &Input::Tick), decoder.as_mut(), &mut shown);
        }
        let batch =
            session[at..].iter().take_while(|next| !next["record"].is_null() && next["ms"] == seen["ms"]);
        let mut batch: Vec<&Value> = batch.map(|next| &next["record"]).collect();
        at += batch.len().max(1);
        if is_reversed {
            batch.reverse();
        }
        let mut events: Vec<AgentEvent> = Vec::new();
        for record in &batch {
            events.extend(decoder.events(Source::Transcript, record));
        }
        for event in &events {
            shown.push(line(event));
            let verdict = turning.step(now, &Input::Event(event));
            end(verdict, decoder.as_mut(), &mut shown);
        }
        let input = match seen {
            _ if !batch.is_empty() => Input::Grew { stands: decoder.stands() },
            seen if seen["typed"].is_string() => Input::Typed,
            seen if seen["esc"] == true => Input::Interrupting,
            _ => Input::Tick,
        };
        end(turning.step(now, &input), decoder.as_mut(), &mut shown);
        if seen["status"].is_string() {
            let state = state(seen);
            end(turning.step(now, &Input::Status(state.status.as_ref())), decoder.as_mut(), &mut shown);
        }
    }
    while let Some(wake_at) = turning.wake_at() {
        end(turning.step(wake_at, &Input::Tick), decoder.as_mut(), &mut shown);
    }
    shown
}

fn end(verdict: Verdict, decoder: &mut dyn ostler_agent::agent::Decoder, shown: &mut Vec<String>) {
    let Verdict::Ended { by, interrupted } = verdict else { return };
    if by != Evidence::Record {
        shown.extend(decoder.over(interrupted).iter().map(line));
    }
    shown.push(format!("== ended by {by:?}{}", if interrupted { ", interrupted" } else { "" }));
}

#[test]
fn a_recorded_session_has_these_turns() {
    for name in SESSIONS {
        insta::assert_snapshot!(name, played(&session(name), false).join("\n"));
    }
}

/// The order within a batch means nothing.
#[test]
fn a_batch_that_is_written_backwards_tells_the_same() {
    for name in SESSIONS {
        let session = session(name);
        assert_eq!(turns(&played(&session, true)), turns(&played(&session, false)), "{name}");
    }
}

fn turns(shown: &[String]) -> Vec<&String> {
    shown
        .iter()
        .filter(|line| line.starts_with("==") || line.contains("said") || line.contains("asked"))
        .collect()
}
