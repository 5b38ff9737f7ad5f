//! The lines of one file that grows.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use ostler_agent::framer::{Frame, Framer, LONGEST_LINE};

use crate::file_scope::FileScope;

/// How much one call reads: from the cache that takes a fraction of a millisecond, so a loop may do it between two
/// events.
const READ_AT_MOST: usize = 1024 * 1024;

/// How much is read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// How many bytes before the current place are compared, to notice a file that was rewritten in place. Records end in
/// ids and times, so that two different files hardly agree here.
const REMEMBERED_BYTES: usize = 64;

/// Reads the lines that are added to a file. Holds no descriptor between calls.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    files: FileScope,
    /// What was handed to the framer so far.
    read_to: u64,
    /// Where the line begins that is not complete yet.
    line_at: u64,
    framer: Framer,
    /// The last bytes that were read.
    remembered: Vec<u8>,
    /// Which file that was; none before it was first seen.
    id: Option<(u64, u64)>,
}

/// How far a call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// To the end of the file, as it is now.
    CaughtUp,
    /// To the bound of one call: call again.
    More,
    /// The file is another one than before, or was cut: it is read from its beginning. Call again.
    StartedOver,
}

impl Lines {
    /// Begins at an offset. Should it be within a line, then that line is not left out: it was not complete when the
    /// offset was taken. The file need not be there yet.
    pub fn at(path: impl Into<PathBuf>, offset: u64) -> Self {
        Self::within(FileScope::Anywhere, path, offset)
    }

    /// The same, for a file that is opened only within `files`.
    pub fn within(files: FileScope, path: impl Into<PathBuf>, offset: u64) -> Self {
        Self {
            path: path.into(),
            files,
            read_to: offset,
            line_at: offset,
            framer: Framer::default(),
            remembered: Vec::new(),
            id: None,
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The end of the last complete line: to go on from here another time, begin here.
    pub fn offset(&self) -> u64 {
        self.line_at
    }

    /// Hands every line that is complete by now to `sink`, in order, each once; at most 1 MiB is read. A file that is
    /// not there has no lines. After an error, what was handed on is not handed on again.
    pub fn read(&mut self, mut sink: impl FnMut(Frame<'_>)) -> io::Result<Progress> {
        let file = match self.files.open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(self.lost()),
            Err(error) => return Err(error),
        };
        let found = file.metadata()?;
        let id = (found.dev(), found.ino());
        let is_another = self.id.is_some_and(|known| known != id);
        if is_another || found.len() < self.read_to || !self.is_continued(&file)? {
            self.start_over();
            return Ok(Progress::StartedOver);
        }
        if self.id.is_none() {
            self.read_to = line_start(&file, self.read_to)?;
            self.line_at = self.read_to;
            self.id = Some(id);
        }
        self.read_on(&file, &mut sink)
    }

    fn read_on(&mut self, file: &File, sink: &mut impl FnMut(Frame<'_>)) -> io::Result<Progress> {
        let mut chunk = vec![0_u8; CHUNK_BYTES];
        for _ in 0..READ_AT_MOST / CHUNK_BYTES {
            let count = match file.read_at(&mut chunk, self.read_to) {
                Ok(0) => return Ok(Progress::CaughtUp),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let bytes = &chunk[..count];
            self.framer.feed(bytes, &mut *sink);
            if let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') {
                self.line_at = self.read_to + last as u64 + 1;
            }
            self.read_to += count as u64;
            self.remembered.extend_from_slice(&bytes[count.saturating_sub(REMEMBERED_BYTES)..]);
            self.remembered.drain(..self.remembered.len().saturating_sub(REMEMBERED_BYTES));
        }
        Ok(Progress::More)
    }

    /// Whether the file still has what was read last.
    fn is_continued(&self, file: &File) -> io::Result<bool> {
        let mut there = [0_u8; REMEMBERED_BYTES];
        let there = &mut there[..self.remembered.len()];
        let at = self.read_to - there.len() as u64;
        match file.read_exact_at(there, at) {
            Ok(()) => Ok(there == self.remembered),
            // It was cut just now.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A file that was there and is not any more: whatever comes is another one.
    fn lost(&mut self) -> Progress {
        if self.id.is_none() {
            return Progress::CaughtUp;
        }
        self.start_over();
        Progress::StartedOver
    }

    fn start_over(&mut self) {
        *self = Self::within(std::mem::take(&mut self.files), std::mem::take(&mut self.path), 0);
    }
}

/// Where the line begins that the offset is in. Within a line that is too long to be read there is nothing to lose.
fn line_start(file: &File, offset: u64) -> io::Result<u64> {
    let mut chunk = vec![0_u8; CHUNK_BYTES];
    let mut end = offset;
    while end > 0 && offset - end <= LONGEST_LINE as u64 {
        let count = end.min(CHUNK_BYTES as u64);
        let bytes = &mut chunk[..usize::try_from(count).unwrap_or(CHUNK_BYTES)];
        file.read_exact_at(bytes, end - count)?;
        if let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(end - count + last as u64 + 1);
        }
        end -= count;
    }
    Ok(end)
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
