//! What real agents said, as files below `recordings/<agent>/<source>/`: `.ndjson` from the standard output, `.jsonl`
//! from a transcript, `.stderr` beside them. Long strings in them are trimmed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ostler_agent::agent::{Agent, Exit, Source};
use ostler_agent::agents::{Claude, Codex, OpenCode};
use ostler_agent::event::AgentEvent;
use ostler_agent::framer::{Frame, Framer};
use ostler_agent::record::Record;

pub(crate) struct Recording {
    pub(crate) name: String,
    pub(crate) source: Source,
    pub(crate) bytes: Vec<u8>,
    pub(crate) stderr: String,
    pub(crate) exit: Exit,
}

/// A folder of recordings, and whose they are.
pub(crate) const FOLDERS: [(&str, &dyn Agent, Source); 5] = [
    ("claude/stdout", &Claude, Source::Stdout),
    ("claude/transcript", &Claude, Source::Transcript),
    ("codex/stdout", &Codex, Source::Stdout),
    ("codex/transcript", &Codex, Source::Transcript),
    ("opencode/stdout", &OpenCode, Source::Stdout),
];

#[expect(clippy::disallowed_methods, reason = "the recordings are files; only tests read them")]
pub(crate) fn of(folder: &str, source: Source) -> Vec<Recording> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings").join(folder);
    let mut found: BTreeMap<String, BTreeMap<String, PathBuf>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let part = |part: Option<&std::ffi::OsStr>| part.unwrap().to_str().unwrap().to_owned();
        found.entry(part(path.file_stem())).or_default().insert(part(path.extension()), path);
    }
    let read = |path: Option<&PathBuf>| path.map(|path| std::fs::read(path).unwrap()).unwrap_or_default();
    let recording = |(name, parts): (String, BTreeMap<String, PathBuf>)| {
        let bytes = read(parts.get("ndjson").or(parts.get("jsonl")));
        let stderr = String::from_utf8(read(parts.get("stderr"))).unwrap();
        let exit = exit(&name, &bytes);
        Recording { name, source, bytes, stderr, exit }
    };
    found.into_iter().map(recording).collect()
}

/// How the recorded process ended: by what its name says, or by its own word that it failed.
fn exit(name: &str, bytes: &[u8]) -> Exit {
    let text = String::from_utf8_lossy(bytes);
    let has = |mark: &str| text.contains(mark);
    let last_result = text.lines().rev().find(|line| line.contains("\"type\":\"result\""));
    if name.contains("sigterm") {
        Exit::Code(143)
    } else if name.contains("SIGTERM") || name == "sig_SIGINT" {
        Exit::Signal(if name.contains("TERM") { 15 } else { 2 })
    } else if name == "connrefused" || name == "stall_chunktimeout" {
        Exit::Signal(9)
    } else if bytes.is_empty()
        || name.contains("SIGINT")
        || has("\"turn.failed\"")
        || has("\"type\": \"error\", \"timestamp\"")
    {
        Exit::Code(1)
    } else {
        Exit::Code(i32::from(last_result.is_some_and(|line| line.contains("\"is_error\":true"))))
    }
}

/// All events of a recording, cut into chunks of these sizes, over and over.
pub(crate) fn events(agent: &dyn Agent, recording: &Recording, cuts: &[usize]) -> Vec<AgentEvent> {
    let (mut framer, mut decoder, mut events) = (Framer::default(), agent.decoder(None), Vec::new());
    let mut take = |frame: Frame<'_>| {
        let Frame::Line(line) = frame else { panic!("no recording has a line as long as that") };
        events.extend(match Record::read(line) {
            Record::Json(record) => decoder.events(recording.source, &record),
            Record::Noise(text) => decoder.noise(&text),
            Record::Garbled(text) => panic!("{}: {text}", recording.name),
            Record::Blank => Vec::new(),
        });
    };
    let (mut rest, mut cuts) = (recording.bytes.as_slice(), cuts.iter().cycle());
    while !rest.is_empty() {
        let size = cuts.next().map_or(rest.len(), |size| (*size).clamp(1, rest.len()));
        let (chunk, after) = rest.split_at(size);
        framer.feed(chunk, &mut take);
        rest = after;
    }
    framer.finish(&mut take);
    if recording.source == Source::Stdout {
        events.extend(decoder.exited(recording.exit, &recording.stderr));
    }
    events
}
