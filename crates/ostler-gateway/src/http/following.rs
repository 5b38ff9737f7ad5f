//! Lines of a file that grows, as server-sent events: those that were missed first, then what comes. An event's id is
//! the number of its line, so that whoever was away says which one he has (`Last-Event-ID`).

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use axum::http::HeaderMap;
use serde_json::Value;

use super::reading::query;
use crate::wire::Problem;

/// Read at once. One line may be longer; then it is read whole.
const CHUNK: usize = 256 * 1024;

/// Longest line.
const LONGEST_LINE: usize = 48 << 20;

/// How often a sign of life is sent while nothing happens.
pub(super) const ALIVE_EVERY: std::time::Duration = std::time::Duration::from_secs(15);

/// The sign of life.
pub(super) const ALIVE: &str = ": alive\n\n";

/// A file that is read line by line, from where it was read last.
#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    offset: u64,
}

impl Lines {
    pub(super) fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), offset: 0 }
    }

    /// Some whole lines, at most about [`CHUNK`] bytes unless one is longer. None if there is no further one yet.
    pub(super) fn read(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = Vec::new();
        let mut wanted = CHUNK;
        let whole = loop {
            let room = wanted - bytes.len();
            let count = (&mut file).take(room as u64).read_to_end(&mut bytes)?;
            if let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') {
                break end + 1;
            }
            if count < room || wanted >= LONGEST_LINE {
                return Ok(Vec::new());
            }
            wanted *= 2;
        };
        self.offset += whole as u64;
        let lines = bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.map(<[u8]>::to_vec).collect())
    }
}

/// The number of the last event that whoever asks has: in the header that a browser sends by itself, or as `after`.
pub(super) fn last_seen(headers: &HeaderMap, uri: &axum::http::Uri) -> Result<u64, Problem> {
    let named = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?").to_owned());
    match named.or_else(|| query(uri, "after")) {
        None => Ok(0),
        Some(text) if text.is_empty() => Ok(0),
        Some(text) => text
            .parse()
            .map_err(|_| Problem::invalid("this must be the number of an event").about("last-event-id")),
    }
}

/// Lines as events, but those that were seen; also the number of the last.
pub(super) fn told(lines: &[Vec<u8>], kind: &str, seen: u64) -> (String, u64) {
    let (mut text, mut last) = (String::new(), seen);
    for line in lines {
        let Ok(value) = serde_json::from_slice::<Value>(line) else { continue };
        let Some(seq) = value["seq"].as_u64().filter(|seq| *seq > seen) else { continue };
        let name = value.pointer(kind).and_then(Value::as_str).unwrap_or("event");
        text.push_str(&format!("id: {seq}\nevent: {name}\ndata: {value}\n\n"));
        last = last.max(seq);
    }
    (text, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_whole_and_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        std::fs::write(&path, "{\"seq\":1,\"kind\":\"a\"}\n{\"seq\":2,\"ki").unwrap();
        let mut lines = Lines::of(&path);
        let first = lines.read().unwrap();
        assert_eq!(told(&first, "/kind", 0).0, "id: 1\nevent: a\ndata: {\"kind\":\"a\",\"seq\":1}\n\n");
        assert!(lines.read().unwrap().is_empty(), "the second is not whole");
        let long = "x".repeat(2 * CHUNK);
        std::fs::write(&path, format!("{{\"seq\":1,\"kind\":\"a\"}}\n{{\"seq\":2,\"kind\":\"{long}\"}}\n"))
            .unwrap();
        let second = lines.read().unwrap();
        assert_eq!(told(&second, "/kind", 1).1, 2);
        assert_eq!(told(&second, "/kind", 2), (String::new(), 2), "it was seen");
    }
}
