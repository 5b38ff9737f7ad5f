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
#[derive(Debug, Clone)]
pub(super) struct Lines {
    path: PathBuf,
    offset: u64,
    /// Where a line tells what it is.
    kind: &'static str,
    /// The number of the last one that was told.
    seen: u64,
}

/// What came of reading on.
#[derive(Debug, PartialEq)]
pub(super) struct News {
    /// The events; empty, if all that was read was seen.
    pub(super) text: String,
    /// Whether there may be more to read.
    pub(super) is_more: bool,
}

impl Lines {
    /// All after the one with this number.
    pub(super) fn of(path: &Path, kind: &'static str, seen: u64) -> Self {
        Self { path: path.to_owned(), offset: 0, kind, seen }
    }

    /// Reads on, where it keeps nobody else waiting: who was away begins with the first line. Cancel safe.
    pub(super) async fn news(&mut self) -> io::Result<News> {
        let mut lines = self.clone();
        let read = tokio::task::spawn_blocking(move || {
            let read = lines.read()?;
            let text = lines.told(&read);
            Ok((lines, News { text, is_more: !read.is_empty() }))
        });
        let (lines, news) = read.await.unwrap_or_else(|error| Err(io::Error::other(error)))?;
        *self = lines;
        Ok(news)
    }

    /// Some whole lines, at most about [`CHUNK`] bytes unless one is longer. None if there is no further one yet.
    fn read(&mut self) -> io::Result<Vec<Vec<u8>>> {
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

    /// Lines as events, but those that were seen.
    fn told(&mut self, lines: &[Vec<u8>]) -> String {
        let (mut text, before) = (String::new(), self.seen);
        for line in lines {
            let Ok(value) = serde_json::from_slice::<Value>(line) else { continue };
            let Some(seq) = value["seq"].as_u64().filter(|seq| *seq > before) else { continue };
            let name = value.pointer(self.kind).and_then(Value::as_str).unwrap_or("event");
            text.push_str(&format!("id: {seq}\nevent: {name}\ndata: {value}\n\n"));
            self.seen = self.seen.max(seq);
        }
        text
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elsewhere::done_elsewhere;

    #[tokio::test]
    async fn lines_are_read_whole_and_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        std::fs::write(&path, "{\"seq\":1,\"kind\":\"a\"}\n{\"seq\":2,\"ki").unwrap();
        let mut lines = Lines::of(&path, "/kind", 0);
        let first = "id: 1\nevent: a\ndata: {\"kind\":\"a\",\"seq\":1}\n\n";
        assert_eq!(lines.news().await.unwrap(), News { text: first.to_owned(), is_more: true });
        let nothing = |is_more| News { text: String::new(), is_more };
        assert_eq!(lines.news().await.unwrap(), nothing(false), "the second is not whole");
        let long = "x".repeat(2 * CHUNK);
        let both = format!("{{\"seq\":1,\"kind\":\"a\"}}\n{{\"seq\":2,\"kind\":\"{long}\"}}\n");
        std::fs::write(&path, both).unwrap();
        let second = lines.news().await.unwrap();
        assert!(second.is_more && second.text.starts_with("id: 2\n"));
        assert_eq!(lines.news().await.unwrap(), nothing(false));
        let mut seen = Lines::of(&path, "/kind", 2);
        assert_eq!(seen.news().await.unwrap(), nothing(true), "they were seen");
    }

    #[test]
    fn what_was_missed_is_not_read_on_the_runtimes_own_thread() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        std::fs::write(&path, "{\"seq\":1,\"kind\":\"a\"}\n").unwrap();
        let mut lines = Lines::of(&path, "/kind", 0);
        let news = done_elsewhere(lines.news(), || {});
        assert!(news.is_ok_and(|news| news.text.starts_with("id: 1\n")));
    }
}
