//! Folders and files for their owner alone. A folder is opened once, never through a link, and files in it are reached
//! through that handle: nobody can put another folder in its place meanwhile.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, fchmod, fdatasync, flock, fstat, fsync, openat,
    renameat, statat, unlinkat,
};
use rustix::process::geteuid;

use crate::kill_point;

/// Whether what was written outlasts a power failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lasting {
    Safe,
    Light,
}

/// A folder that only its owner can look into.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
    handle: OwnedFd,
}

impl PrivateFolder {
    /// Makes sure that it exists, 0700, ours, and no link.
    pub fn create(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Self::open(path)
    }

    /// The folder, if it is there. One that others may look into is closed to them.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let handle = rustix::fs::open(path, flags, Mode::empty())?;
        let found = fstat(&handle)?;
        if found.st_uid != geteuid().as_raw() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the folder is somebody else's"));
        }
        if found.st_mode & 0o077 != 0 {
            fchmod(&handle, Mode::from_raw_mode(0o700))?;
        }
        Ok(Self { path: path.to_owned(), handle })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file whole or not at all: temporary name, data on disk, rename, name on disk. 0600. `step` names the
    /// kill points.
    pub fn write(&self, name: &str, content: &[u8], step: &str) -> io::Result<()> {
        self.put(name, content, step, Lasting::Safe)
    }

    /// The same for what may be lost when the power fails: a reader finds it whole, or broken, or not at all.
    pub fn write_lightly(&self, name: &str, content: &[u8], step: &str) -> io::Result<()> {
        self.put(name, content, step, Lasting::Light)
    }

    fn put(&self, name: &str, content: &[u8], step: &str, lasting: Lasting) -> io::Result<()> {
        let temporary = format!(".{name}.{}", random_word());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.handle, &temporary, flags, Mode::from_raw_mode(0o600))?);
        // As long as we live nobody takes it for one that was left behind. Where there are no locks, its age has to do.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        kill_point::reached(&format!("{step}.created"));
        let written = file.write_all(content).and_then(|()| {
            kill_point::reached(&format!("{step}.written"));
            if lasting == Lasting::Safe {
                fdatasync(&file)?;
            }
            Ok(())
        });
        let renamed = written.and_then(|()| {
            kill_point::reached(&format!("{step}.synced"));
            Ok(renameat(&self.handle, &temporary, &self.handle, name)?)
        });
        if let Err(error) = renamed {
            let _ = unlinkat(&self.handle, &temporary, AtFlags::empty());
            return Err(error);
        }
        // Who drains takes the same lock.
        drop(file);
        kill_point::reached(&format!("{step}.renamed"));
        if lasting == Lasting::Safe {
            fsync(&self.handle)?;
        }
        kill_point::reached(&format!("{step}.named"));
        Ok(())
    }

    /// An empty file that was not there before. 0600.
    pub fn create_empty(&self, name: &str) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.handle, name, flags, Mode::from_raw_mode(0o600))?;
        Ok(())
    }

    /// A file to be locked, made if it is not there. 0600.
    pub fn lockable(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.handle, name, flags, Mode::from_raw_mode(0o600))?))
    }

    /// Gives a file another name, in place of what had it.
    pub fn rename(&self, name: &str, new_name: &str) -> io::Result<()> {
        Ok(renameat(&self.handle, name, &self.handle, new_name)?)
    }

    /// Names as they are now outlast a power failure.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.handle)?)
    }

    /// A file in it, for reading; never a link, a pipe, or somebody else's.
    pub fn file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.handle, name, flags, Mode::empty())?;
        let found = fstat(&file)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
        }
        if found.st_uid != geteuid().as_raw() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is somebody else's"));
        }
        Ok(File::from(file))
    }

    /// When a file was last written to, without opening it.
    pub fn changed(&self, name: &str) -> io::Result<SystemTime> {
        let found = statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let since = Duration::from_secs(u64::try_from(found.st_mtime).unwrap_or(0));
        Ok(SystemTime::UNIX_EPOCH + since)
    }

    /// All of a small file, at most `most` bytes of it.
    pub fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file(name)?.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Removes a file. That it is not there is no failure.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves a file to another private folder.
    pub fn hand_over(&self, name: &str, to: &Self, new_name: &str) -> io::Result<()> {
        Ok(renameat(&self.handle, name, &to.handle, new_name)?)
    }

    /// Names of what is in it, sorted; what begins with a dot is being written and not told.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = self.all()?;
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        Ok(names)
    }

    fn all(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Removes what [`Self::write`] left behind when it was killed: drafts that nobody has touched for so long and no
    /// living process writes. Gives how many. A clock that went backwards makes them younger, and they stay.
    pub fn clear_drafts(&self, untouched: Duration) -> io::Result<u64> {
        let now = SystemTime::now();
        let mut cleared = 0;
        for name in self.all()?.into_iter().filter(|name| is_draft(name)) {
            // Not a file of ours.
            let Ok(file) = self.file(&name) else { continue };
            let age = file.metadata()?.modified()?;
            let is_old = now.duration_since(age).is_ok_and(|age| age >= untouched);
            if is_old && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                self.remove(&name)?;
                cleared += 1;
            }
        }
        Ok(cleared)
    }
}

/// Whether a name is one that a file has until it is whole: `.<name>.<eight letters>`.
fn is_draft(name: &str) -> bool {
    let parts = name.strip_prefix('.').and_then(|name| name.rsplit_once('.'));
    parts.is_some_and(|(name, random)| {
        !name.is_empty() && random.len() == 8 && random.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Eight letters that nobody guesses; the process id where the system has no randomness.
pub fn random_word() -> String {
    let mut bytes = [0_u8; 4];
    if getrandom::fill(&mut bytes).is_err() {
        bytes = std::process::id().to_le_bytes();
    }
    format!("{:08x}", u32::from_le_bytes(bytes))
}

/// A text as part of a file's name: letters, digits and `-_.`, no leading dot, at most 80.
pub fn plain_name(text: &str) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '_' };
    let name: String = text.chars().take(80).map(plain).collect();
    let name = match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => name,
    };
    if name.is_empty() { "unknown".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_name_leads_nowhere_else() {
        let table = [
            ("01a1-b.c_d", "01a1-b.c_d"),
            ("../../etc/passwd", "_._.._etc_passwd"),
            ("", "unknown"),
            ("a\0b\nc", "a_b_c"),
        ];
        for (text, want) in table {
            assert_eq!(plain_name(text), want);
        }
        assert_eq!(plain_name(&"x".repeat(500)).len(), 80);
    }

    #[test]
    fn a_folder_is_closed_to_others_and_never_a_link() {
        let ground = tempfile::tempdir().unwrap();
        let open = ground.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        let folder = PrivateFolder::create(&open).unwrap();
        assert_eq!(std::fs::metadata(&open).unwrap().mode() & 0o777, 0o700);
        folder.write("a", b"x", "test").unwrap();
        assert_eq!(std::fs::metadata(open.join("a")).unwrap().mode() & 0o777, 0o600);
        symlink("a", open.join("b")).unwrap();
        assert!(folder.file("b").is_err());
        symlink(&open, ground.path().join("link")).unwrap();
        assert!(PrivateFolder::create(&ground.path().join("link")).is_err());
        assert_eq!(folder.names().unwrap(), ["a", "b"]);
    }
    #[test]
    fn a_draft_goes_if_it_is_old_and_nobody_writes_it() {
        const HOUR: Duration = Duration::from_secs(60 * 60);
        let ground = tempfile::tempdir().unwrap();
        let folder = PrivateFolder::create(&ground.path().join("spool")).unwrap();
        let names =
            [".s-1-00000000.jsonl.0a1b2c3d", ".young.jsonl.0a1b2c3d", ".being-written.jsonl.0a1b2c3d"];
        let others = [".lock", ".s.jsonl", ".s.jsonl.nothexed", "whole.jsonl", "whole.jsonl.0a1b2c3d"];
        for name in names.iter().chain(&others) {
            folder.create_empty(name).unwrap();
            let age = if name.starts_with(".young") { HOUR } else { 7 * HOUR };
            let file = File::options().write(true).open(folder.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        symlink("whole.jsonl", folder.path().join(".link.0a1b2c3d")).unwrap();
        // A process that was stopped in the middle, and goes on some day.
        let writer = folder.file(names[2]).unwrap();
        flock(&writer, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(folder.clear_drafts(6 * HOUR).unwrap(), 1);
        let mut want: Vec<&str> = names[1..].iter().chain(&others).copied().collect();
        want.push(".link.0a1b2c3d");
        want.sort_unstable();
        let mut left = folder.all().unwrap();
        left.sort();
        assert_eq!(left, want);
        drop(writer);
        assert_eq!(folder.clear_drafts(6 * HOUR).unwrap(), 1);
        // What is written is found whole, and is no draft.
        folder.write("a", b"x", "test").unwrap();
        assert_eq!(folder.clear_drafts(Duration::ZERO).unwrap(), 1);
        assert!(folder.names().unwrap().contains(&"a".to_owned()));
    }
}
