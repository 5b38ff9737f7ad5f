//! A journal that cannot be written any more says so, for whoever looks later: on a disk that is full, in room that was
//! kept for it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Room for a note and for an outcome.
const SPARE: &str = "spare";
const SPARE_BYTES: usize = 8 * 1024;

/// The note.
const TROUBLE: &str = "trouble";

/// How much of a note is read: it is a sentence of ours.
const MOST_LETTERS: usize = 400;

/// Takes the room. A disk that has not even that is full.
pub(super) fn reserve(folder: &Path) -> io::Result<()> {
    // Not nothing, which a file system need not keep.
    write(&folder.join(SPARE), &[b'.'; SPARE_BYTES])
}

/// Gives the room back.
pub(super) fn release(folder: &Path) {
    // It may be gone already.
    let _ = fs::remove_file(folder.join(SPARE));
}

/// Notes why nothing more can be written. Where that cannot be written either, it is only told.
pub(super) fn note(folder: &Path, error: &io::Error) {
    release(folder);
    if let Err(error) = write(&folder.join(TROUBLE), error.to_string().as_bytes()) {
        tracing::warn!(target: "ostler::run", %error, "not even a note could be left");
    }
}

/// Takes a note away: it is gone on with.
pub(super) fn forget(folder: &Path) {
    let _ = fs::remove_file(folder.join(TROUBLE));
}

/// What was noted.
pub(super) fn noted(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join(TROUBLE)).ok()?;
    Some(text.trim().chars().take(MOST_LETTERS).collect()).filter(|text: &String| !text.is_empty())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    made.and_then(|mut file| file.write_all(bytes)).inspect_err(|_| drop(fs::remove_file(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_takes_the_place_of_what_was_kept_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let names = || {
            let all = fs::read_dir(folder.path()).unwrap();
            all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        reserve(folder.path()).unwrap();
        assert_eq!((names(), noted(folder.path())), (vec![SPARE.to_owned()], None));
        note(folder.path(), &io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(names(), [TROUBLE]);
        assert_eq!(noted(folder.path()).as_deref(), Some("no storage space"));
        forget(folder.path());
        release(folder.path());
        assert_eq!(names(), [""; 0]);
    }
}
