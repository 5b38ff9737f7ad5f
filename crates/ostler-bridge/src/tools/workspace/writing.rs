//! `write_file` and `edit_file`: whole or not at all.
//!
//! What is written stands beside its place first, and is then put in it. Nobody sees half of a file, and what goes wrong
//! leaves the old one as it was.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fchmod, fchown, fstat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use super::arguments::{Edit, Write};
use super::beneath::{Beneath, Fault, Place, fault};
use crate::event::Barred;
use crate::secret::Token;

/// What a file that is written may have.
pub(super) const MOST_BYTES: usize = 4 * 1024 * 1024;

/// One change at a time, in all workspaces: two edits of one file must not undo each other, whoever makes them. Each
/// takes milliseconds.
static WRITING: Mutex<()> = Mutex::new(());

/// What was done.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) bytes: usize,
    pub(super) words: String,
}

pub(super) fn write(beneath: &Beneath, given: &Write) -> Result<Written, Fault> {
    let Write { path, content } = given;
    let bytes = bounded(path, content.len())?;
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let place = beneath.place(path)?;
    let before = standing(&place, path)?;
    put(&place, content.as_bytes(), before.as_ref()).map_err(|errno| fault(path, errno))?;
    let what = if before.is_some() { "Replaced" } else { "Made" };
    Ok(Written { bytes, words: format!("{what} `{path}`, {bytes} bytes.") })
}

pub(super) fn edit(beneath: &Beneath, given: &Edit) -> Result<Written, Fault> {
    let Edit { path, old, new, all } = given;
    if old.is_empty() {
        return Err(Fault::Failed("`old` is empty. Give the text to replace.".to_owned()));
    }
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    // Looked at first, so that no folder is made for a file that is not there.
    beneath.file(path)?;
    let place = beneath.place(path)?;
    let Some(before) = standing(&place, path)? else { return Err(fault(path, Errno::NOENT)) };
    let text = contents(&place, path)?;
    let times = text.matches(old.as_str()).count();
    match (times, all) {
        (0, _) => {
            return Err(Fault::Failed(format!(
                "`old` is not in `{path}`, which is unchanged. Copy it exactly as `read_file` shows it, with its \
                 spaces and line ends."
            )));
        }
        (1, _) | (_, true) => {}
        (_, false) => {
            return Err(Fault::Failed(format!(
                "`old` is {times} times in `{path}`, which is unchanged. Take more of the text around it, or set \
                 `all`."
            )));
        }
    }
    let text = text.replace(old.as_str(), new);
    let bytes = bounded(path, text.len())?;
    put(&place, text.as_bytes(), Some(&before)).map_err(|errno| fault(path, errno))?;
    let places = if times == 1 { "1 place".to_owned() } else { format!("{times} places") };
    Ok(Written { bytes, words: format!("Changed `{path}` in {places}. It has {bytes} bytes now.") })
}

fn bounded(path: &str, bytes: usize) -> Result<usize, Fault> {
    if bytes <= MOST_BYTES {
        return Ok(bytes);
    }
    let words = format!("`{path}` would have {bytes} bytes; at most {MOST_BYTES} are written. Write less.");
    Err(Fault::Failed(words))
}

/// What is in the place now. Only a regular file is replaced.
fn standing(place: &Place, path: &str) -> Result<Option<Stat>, Fault> {
    let barred = |why| Err(Fault::Barred { path: path.to_owned(), why });
    let stat = match statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(fault(path, errno)),
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(Some(stat)),
        FileType::Directory => Err(Fault::Failed(format!("`{path}` is a folder. Name a file in it."))),
        FileType::Symlink => barred(Barred::Link),
        _ => barred(Barred::Special),
    }
}

fn contents(place: &Place, path: &str) -> Result<String, Fault> {
    let opened = Beneath::entry(&place.folder, &place.name).map_err(|errno| fault(path, errno))?;
    let Some((file, stat)) = opened else {
        return Err(Fault::Barred { path: path.to_owned(), why: Barred::Special });
    };
    bounded(path, usize::try_from(stat.st_size).unwrap_or(usize::MAX))?;
    let mut bytes = Vec::new();
    let read = file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| Fault::Failed(format!("`{path}` cannot be read: {error}. Try once more.")))?;
    bounded(path, bytes.len())?;
    String::from_utf8(bytes).map_err(|_| {
        Fault::Failed(format!(
            "`{path}` is not text in UTF-8, and is not edited. Write it anew, or leave it."
        ))
    })
}

/// Puts the bytes in the place: beside it first, with the mode of what is there, then in it.
fn put(place: &Place, bytes: &[u8], before: Option<&Stat>) -> Result<(), Errno> {
    let Place { folder, name } = place;
    let random = Token::random().map_err(|_| Errno::AGAIN)?;
    let beside = format!(".ostler-new-{}", &random.reveal()[..16]);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = openat(folder, &beside, flags, Mode::from_raw_mode(0o666))?;
    let mut file = File::from(made);
    let written = file.write_all(bytes).map_err(|error| error_number(&error)).and_then(|()| {
        if let Some(before) = before {
            resemble(&file, before)?;
        }
        renameat(folder, &beside, folder, name)
    });
    if written.is_err() {
        // What went wrong is told; that the rest of it stays is not worse.
        let _ = unlinkat(folder, &beside, AtFlags::empty());
    }
    written
}

/// Gives a new file the mode of the old one, and its owner if we may.
fn resemble(file: &File, before: &Stat) -> Result<(), Errno> {
    let now = fstat(file)?;
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid) {
        let owner = (Uid::from_raw(before.st_uid), Gid::from_raw(before.st_gid));
        if let Err(error) = fchown(file.as_fd(), Some(owner.0), Some(owner.1)) {
            tracing::debug!(target: "ostler::mcp", %error, "a file that was replaced has another owner now");
        }
    }
    fchmod(file, Mode::from_raw_mode(before.st_mode & 0o777))
}

fn error_number(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
