//! What holds for any bytes that an agent may write: nothing panics, where the pipe breaks them apart means nothing, and
//! what they mean can be written down and read again.

use ostler_agent::agent::{Agent, Exit, Source};
use ostler_agent::budget::{Budget, Ledger};
use ostler_agent::event::AgentEvent;
use ostler_agent::framer::{self, Frame, Framer};
use ostler_agent::record::Record;
use ostler_agent::run_event::{RunEvent, RunEventKind};
use ostler_agent::watchdog::{Input, Limits, Watchdog};

/// Longest line in the fuzzer: short enough to be reached. A recording's lines are longer.
const SHORT: usize = 48;

/// Any chunking gives the frames of one piece.
pub fn framed(bytes: &[u8]) {
    for longest in [SHORT, usize::MAX] {
        let whole = framer::framed([bytes], longest);
        assert_eq!(framer::framed(chunks(bytes), longest), whole);
        assert_eq!(framer::framed(bytes.chunks(1), longest), whole);
    }
}

/// Cuts of sizes that the bytes themselves choose, so that an input is nothing but what an agent wrote.
fn chunks(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let sizes: Vec<usize> = bytes.iter().rev().take(64).map(|byte| usize::from(*byte) + 1).collect();
    let mut turn = 0;
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let size = sizes[turn % sizes.len()].min(bytes.len());
        turn += 1;
        let (chunk, rest) = bytes.split_at(size);
        bytes = rest;
        Some(chunk)
    })
}

/// What an agent wrote, read as a run reads it. What follows the last NUL was on its standard error.
pub fn decoded(agent: &dyn Agent, source: Source, bytes: &[u8]) {
    let (said, muttered) = match bytes.iter().rposition(|byte| *byte == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[][..]),
    };
    let stderr = String::from_utf8_lossy(muttered);
    let exit = match bytes.len() % 4 {
        0 => Exit::Code(0),
        1 => Exit::Code(1),
        2 => Exit::Code(143),
        _ => Exit::Signal(9),
    };
    let whole = events(agent, source, [said].into_iter(), exit, &stderr);
    assert_eq!(events(agent, source, chunks(said), exit, &stderr), whole);
    let (mut dog, mut ledger) = (Watchdog::new(Limits::default()), Ledger::new(Budget::default()));
    for (event, number) in whole.into_iter().zip(1..) {
        let _ = dog.step(std::time::Duration::from_millis(number), Input::of(&event));
        ledger.enter(&event);
        kept(&RunEvent { seq: number, ms: number, kind: RunEventKind::Agent(event) });
    }
}

fn events<'a>(
    agent: &dyn Agent,
    source: Source,
    chunks: impl Iterator<Item = &'a [u8]>,
    exit: Exit,
    stderr: &str,
) -> Vec<AgentEvent> {
    let (mut framer, mut decoder, mut events) = (Framer::default(), agent.decoder(None), Vec::new());
    let mut take = |frame: Frame<'_>| {
        let Frame::Line(line) = frame else { return };
        events.extend(match Record::read(line) {
            Record::Json(record) => decoder.events(source, &record),
            Record::Noise(text) => decoder.noise(&text),
            Record::Garbled(_) | Record::Blank => Vec::new(),
        });
    };
    for chunk in chunks {
        framer.feed(chunk, &mut take);
    }
    framer.finish(&mut take);
    events.extend(decoder.exited(exit, stderr));
    events
}

/// A line of the journal, if it is one, is read as it is written.
pub fn journal_line(bytes: &[u8]) {
    if let Some(event) = RunEvent::read(bytes) {
        kept(&event);
    }
}

fn kept(event: &RunEvent) {
    let line = event.line().expect("an event has a line");
    assert!(!line.contains('\n'), "one line: {line}");
    let read = RunEvent::read(line.as_bytes()).unwrap_or_else(|| panic!("not read again: {line}"));
    assert_eq!((read.seq, read.ms), (event.seq, event.ms));
    assert_eq!(std::mem::discriminant(&read.kind), std::mem::discriminant(&event.kind), "{line}");
    assert_eq!(read.line().expect("an event has a line"), line);
}
