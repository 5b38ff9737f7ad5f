//! How fast an agent's bytes become events, against how fast they become `serde_json::Value` and nothing more.
//!
//! Prints figures, gates nothing. The bytes are the recordings of each agent, over and over. Both sides are measured in
//! turns, and each takes its best round: what a busy machine adds is not the decoder's.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement that cannot go on may say so")]
#![expect(clippy::disallowed_methods, reason = "what measures needs a clock, and the recordings are files")]

use std::path::Path;
use std::time::{Duration, Instant};

use ostler_agent::agent::{Agent, Source};
use ostler_agent::agents::{Claude, Codex, Command, OpenCode};
use ostler_agent::framer::{Frame, Framer};
use ostler_agent::record::Record;
use serde_json::Value;

/// So many bytes are decoded in a round.
const ROUND_BYTES: usize = 32 * 1024 * 1024;
const ROUNDS: usize = 7;
/// As a run reads: as much as a pipe holds.
const CHUNK: usize = 64 * 1024;

fn main() {
    let command = Command::parse("any").unwrap();
    let subjects: [(&str, &str, &dyn Agent, Source); 6] = [
        ("claude, stdout", "claude/stdout", &Claude, Source::Stdout),
        ("claude, transcript", "claude/transcript", &Claude, Source::Transcript),
        ("codex, stdout", "codex/stdout", &Codex, Source::Stdout),
        ("codex, rollout", "codex/transcript", &Codex, Source::Transcript),
        ("opencode, stdout", "opencode/stdout", &OpenCode, Source::Stdout),
        ("command, the lines of codex", "codex/stdout", &command, Source::Stdout),
    ];
    println!("{} MB a round, best of {ROUNDS}, in turns", ROUND_BYTES / 1024 / 1024);
    for (name, folder, agent, source) in subjects {
        let recordings = recordings(folder);
        let bytes: usize = recordings.iter().map(Vec::len).sum();
        let times = ROUND_BYTES.div_ceil(bytes);
        let (mut values, mut framed, mut whole) = (Duration::MAX, Duration::MAX, Duration::MAX);
        let (mut lines, mut events) = (0, 0);
        for _ in 0..ROUNDS {
            let (took, count) = timed(|| repeated(times, &recordings, parse_alone));
            (values, lines) = (values.min(took), count);
            framed = framed.min(timed(|| repeated(times, &recordings, frame_and_read)).0);
            let (took, count) = timed(|| repeated(times, &recordings, |bytes| decode(agent, source, bytes)));
            (whole, events) = (whole.min(took), count);
        }
        let rate = |time: Duration| (bytes * times) as f64 / time.as_secs_f64() / 1e6;
        println!("{name}: {lines} lines, {events} events");
        println!("  serde_json::Value alone: {:.0} MB/s", rate(values));
        println!("  framer and record: {:.0} MB/s", rate(framed));
        println!(
            "  framer, record and decoder: {:.0} MB/s, so {:.2} times the time of parsing alone",
            rate(whole),
            whole.as_secs_f64() / values.as_secs_f64()
        );
    }
}

fn recordings(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings").join(folder);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let is_said = |path: &&std::path::PathBuf| path.extension().is_some_and(|ending| ending != "stderr");
    paths.iter().filter(is_said).map(|path| std::fs::read(path).unwrap()).collect()
}

fn timed(work: impl FnOnce() -> usize) -> (Duration, usize) {
    let began = Instant::now();
    let count = std::hint::black_box(work());
    (began.elapsed(), count)
}

/// Each recording is a process of its own, with a decoder of its own.
fn repeated(times: usize, recordings: &[Vec<u8>], mut work: impl FnMut(&[u8]) -> usize) -> usize {
    (0..times).map(|_| recordings.iter().map(|bytes| work(bytes)).sum::<usize>()).sum()
}

fn parse_alone(bytes: &[u8]) -> usize {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.filter(|line| std::hint::black_box(serde_json::from_slice::<Value>(line)).is_ok()).count()
}

fn frame_and_read(bytes: &[u8]) -> usize {
    let (mut framer, mut count) = (Framer::default(), 0);
    let mut take = |frame: Frame<'_>| {
        if let Frame::Line(line) = frame {
            std::hint::black_box(Record::read(line));
            count += 1;
        }
    };
    for chunk in bytes.chunks(CHUNK) {
        framer.feed(chunk, &mut take);
    }
    framer.finish(&mut take);
    count
}

fn decode(agent: &dyn Agent, source: Source, bytes: &[u8]) -> usize {
    let (mut framer, mut decoder, mut count) = (Framer::default(), agent.decoder(None), 0);
    let mut take = |frame: Frame<'_>| {
        let Frame::Line(line) = frame else { return };
        let events = match Record::read(line) {
            Record::Json(record) => decoder.events(source, &record),
            Record::Noise(text) => decoder.noise(&text),
            Record::Garbled(_) | Record::Blank => Vec::new(),
        };
        count += std::hint::black_box(events).len();
    };
    for chunk in bytes.chunks(CHUNK) {
        framer.feed(chunk, &mut take);
    }
    framer.finish(&mut take);
    count
}
