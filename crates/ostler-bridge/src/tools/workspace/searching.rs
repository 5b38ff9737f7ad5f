//! `search_files`: lines that match, with their places.

use std::fs::File;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::Path;

use regex::bytes::{Regex, RegexBuilder};
use rustix::fs::FileType;
use tokio_util::sync::CancellationToken;

use super::MOST_ANSWER_BYTES;
use super::arguments::Search;
use super::beneath::{Beneath, Fault};
use super::reading::is_binary;
use super::walking::{Extent, Glob, Walk, brief, shown};

/// How many lines are told.
const MOST_LINES: usize = 500;

/// How much of a line is told, and how much of that before what was found.
const MOST_LINE_BYTES: usize = 400;
const BEFORE_BYTES: usize = 100;

/// Longer files are not source: they are passed over, and counted.
const MOST_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// What a compiled pattern may hold.
const MOST_COMPILED_BYTES: usize = 1024 * 1024;

/// What was found so far.
#[derive(Default)]
struct Haul {
    text: String,
    lines: usize,
    binary: usize,
    long: usize,
    unread: usize,
}

pub(super) fn search(
    beneath: &Beneath,
    given: &Search,
    cancelled: &CancellationToken,
) -> Result<String, Fault> {
    brief("pattern", &given.pattern)?;
    let pattern = RegexBuilder::new(&given.pattern)
        .case_insensitive(given.ignore_case)
        .size_limit(MOST_COMPILED_BYTES)
        .build()
        .map_err(|error| Fault::Failed(format!("`pattern` cannot be used. {error}")))?;
    let mut haul = Haul::default();
    let found = beneath.find(&given.path)?;
    let extent = if found.kind() == FileType::Directory {
        let glob = Glob::new(beneath, given.glob.as_deref())?;
        let ignored = given.ignored.into();
        let walk = Walk { beneath, start: &given.path, depth: usize::MAX, ignored, cancelled };
        walk.go(|entry| {
            if entry.kind != FileType::RegularFile || !glob.takes(beneath, entry.path) {
                return ControlFlow::Continue(());
            }
            match Beneath::entry(entry.folder, entry.name) {
                Ok(Some((file, stat))) => haul.search(&file, size(stat.st_size), entry.path, &pattern),
                Ok(None) => ControlFlow::Continue(()),
                Err(_) => {
                    haul.unread += 1;
                    ControlFlow::Continue(())
                }
            }
        })?
    } else {
        let (file, stat) = beneath.file(&given.path)?;
        match haul.search(&file, size(stat.st_size), Path::new(&given.path), &pattern) {
            ControlFlow::Continue(()) => Extent::Whole { unread: 0 },
            ControlFlow::Break(()) => Extent::Enough,
        }
    };
    Ok(haul.told(extent))
}

fn size(bytes: i64) -> u64 {
    u64::try_from(bytes).unwrap_or(0)
}

impl Haul {
    fn search(&mut self, file: &File, size: u64, path: &Path, pattern: &Regex) -> ControlFlow<()> {
        if size > MOST_FILE_BYTES {
            self.long += 1;
            return ControlFlow::Continue(());
        }
        match is_binary(file) {
            Ok(false) => {}
            Ok(true) => {
                self.binary += 1;
                return ControlFlow::Continue(());
            }
            Err(_) => {
                self.unread += 1;
                return ControlFlow::Continue(());
            }
        }
        let mut bytes = Vec::new();
        if file.take(MOST_FILE_BYTES).read_to_end(&mut bytes).is_err() {
            self.unread += 1;
            return ControlFlow::Continue(());
        }
        let ends_in_a_line = bytes.last() == Some(&b'\n');
        let text = if ends_in_a_line { &bytes[..bytes.len() - 1] } else { &bytes[..] };
        for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let Some(found) = pattern.find(line) else { continue };
            let told = format!("{}:{}: {}\n", shown(path), at + 1, excerpt(line, found.start()));
            if self.lines == MOST_LINES || self.text.len() + told.len() > MOST_ANSWER_BYTES {
                return ControlFlow::Break(());
            }
            self.lines += 1;
            self.text.push_str(&told);
        }
        ControlFlow::Continue(())
    }

    fn told(mut self, extent: Extent) -> String {
        if self.lines == 0 {
            self.text.push_str("Nothing was found.\n");
        }
        let mut note = |words: String| self.text.push_str(&format!("[{words}]\n"));
        match extent {
            Extent::Whole { unread } => self.unread += unread,
            Extent::Enough => {
                note(format!(
                    "Cut after {} lines. Name a folder, a `glob` or a narrower `pattern`.",
                    self.lines
                ));
            }
            Extent::TooMuch => {
                note("Cut: there is too much to search. Name a folder or a `glob`.".to_owned());
            }
        }
        if self.binary > 0 {
            note(format!("Passed over: {} binary files.", self.binary));
        }
        if self.long > 0 {
            note(format!("Passed over: {} files of more than {MOST_FILE_BYTES} bytes.", self.long));
        }
        if self.unread > 0 {
            note(format!("Passed over: {} that could not be read.", self.unread));
        }
        self.text
    }
}

/// A line, or the part of it around what was found.
fn excerpt(line: &[u8], found: usize) -> String {
    if line.len() <= MOST_LINE_BYTES {
        return String::from_utf8_lossy(line).into_owned();
    }
    let from = found.saturating_sub(BEFORE_BYTES).min(line.len() - MOST_LINE_BYTES);
    let part = String::from_utf8_lossy(&line[from..from + MOST_LINE_BYTES]).into_owned();
    format!("…{}…", part.trim_matches('\u{fffd}'))
}
