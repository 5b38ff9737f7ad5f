//! The words of a turn whose text is not whole yet, as they are on disk: beside the journal, and gone with the turn. The
//! journal has whole texts only; without this a server that is killed would lose words that its client has.
//!
//! The first line says after which line of the journal they came; the rest is the text.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::quota::Room;

/// How the file is called, behind the conversation's id.
const PARTIAL: &str = "partial";

/// The file of the turn under way.
#[derive(Debug)]
pub(super) struct Partial {
    path: PathBuf,
    file: File,
    is_empty: bool,
    /// What the words take.
    room: Option<Room>,
}

impl Partial {
    /// The one beside this journal. What an earlier turn left is gone.
    pub(super) fn open(journal: &Path) -> io::Result<Self> {
        let path = journal.with_extension(PARTIAL);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        Ok(Self { path, file, is_empty: true, room: None })
    }

    /// More words, after the line with this number, which take this room.
    pub(super) fn append(&mut self, after: u64, text: &str, room: Room) -> io::Result<()> {
        match &mut self.room {
            Some(taken) => taken.absorb(room),
            None => self.room = Some(room),
        }
        if self.is_empty {
            self.is_empty = false;
            return self.file.write_all(format!("{after}\n{text}").as_bytes());
        }
        self.file.write_all(text.as_bytes())
    }

    /// The text is whole, and in the journal.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        if !self.is_empty {
            (self.is_empty, self.room) = (true, None);
            self.file.set_len(0)?;
            self.file.seek(SeekFrom::Start(0))?;
        }
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // The next turn of the conversation overwrites it, and the next start of a server ignores it.
        let _ = fs::remove_file(&self.path);
    }
}

/// What is there beside a journal: the line after which it came, and the words. A letter that was cut is left out.
pub(super) fn read(journal: &Path) -> Option<(u64, String)> {
    let bytes = fs::read(journal.with_extension(PARTIAL)).ok()?;
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let after = std::str::from_utf8(&bytes[..end]).ok()?.parse().ok()?;
    let text = bytes[end + 1..].utf8_chunks().next().map(|chunk| chunk.valid().to_owned());
    Some((after, text.unwrap_or_default()))
}

pub(super) fn remove(journal: &Path) {
    let _ = fs::remove_file(journal.with_extension(PARTIAL));
}

#[cfg(test)]
mod tests {
    use super::super::eviction::Bounds;
    use super::super::quota::Quota;
    use super::*;

    #[test]
    fn words_are_there_until_they_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("c.ndjson");
        let mut partial = Partial::open(&journal).unwrap();
        assert_eq!(read(&journal), None);
        let quota = Quota::new(&Bounds::default());
        let append = |partial: &mut Partial, after, text: &str| {
            let mut room = quota.room("one");
            room.grow(text.len() as u64);
            partial.append(after, text, room).unwrap();
        };
        append(&mut partial, 7, "hal");
        append(&mut partial, 8, "f é");
        assert_eq!(quota.by_tenant()["one"], 7);
        assert_eq!(read(&journal), Some((7, "half é".to_owned())));
        let path = journal.with_extension(PARTIAL);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(read(&journal), Some((7, "half ".to_owned())));
        partial.clear().unwrap();
        assert_eq!(read(&journal), None);
        assert!(quota.by_tenant().is_empty());
        append(&mut partial, 9, "more");
        assert_eq!(read(&journal), Some((9, "more".to_owned())));
        drop(partial);
        assert!(!path.exists() && quota.by_tenant().is_empty());
    }
}
