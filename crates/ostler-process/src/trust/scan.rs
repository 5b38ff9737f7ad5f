//! The files that one directory brings, each with a digest of its kind, its link's target, its executable bit and its bytes.
//!
//! Links are followed: what they lead to is what an agent would load, wherever it is. Whatever cannot be read to the end,
//! is no regular file, or changes meanwhile is a [`Problem`]: the directory cannot be trusted then.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ostler_agent::repository_config::{Content, Loader, content, effect, roots};
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

/// A repository that brings more is not one whose configuration a person has read.
const MOST_FILES: usize = 10_000;
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// Directories within each other, links included.
const DEEPEST: usize = 32;

/// What may still be read.
#[derive(Debug)]
pub struct Budget {
    entries: usize,
    bytes: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { entries: MOST_FILES, bytes: MOST_BYTES }
    }
}

/// Why a directory cannot be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where, relative to the directory.
    pub path: String,
    /// Where, as it is shown.
    pub shown: String,
    /// What is wrong with it.
    pub(super) why: Why,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Why {
    Unreadable(String),
    NotUtf8,
    NotRegular,
    Changing,
    Deep,
    ManyFiles,
    ManyBytes,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.shown;
        match &self.why {
            Why::Unreadable(why) => write!(out, "`{path}` cannot be read: {why}"),
            Why::NotUtf8 => write!(out, "the name of `{path}` is not UTF-8"),
            Why::NotRegular => write!(out, "`{path}` is not a regular file"),
            Why::Changing => write!(out, "`{path}` changed while it was read"),
            Why::Deep => write!(out, "`{path}` is more than {DEEPEST} directories deep"),
            Why::ManyFiles => write!(out, "it brings more than {MOST_FILES} files (at `{path}`)"),
            Why::ManyBytes => {
                write!(out, "it brings more than {} MiB (at `{path}`)", MOST_BYTES / (1024 * 1024))
            }
        }
    }
}

impl Problem {
    /// Whether what could not be read may be something that a program loads.
    pub(super) fn concerns(&self, loader: &Loader) -> bool {
        let is_bound = matches!(self.why, Why::ManyFiles | Why::ManyBytes);
        is_bound || effect(loader, &self.path).is_some()
    }
}

/// What one directory brings.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Digests by path.
    pub files: BTreeMap<String, String>,
    /// Why that is not all.
    pub problem: Option<Problem>,
}

/// Looks for every entry of the lists in a directory.
pub fn scan(directory: &Path, budget: &mut Budget) -> Found {
    let mut found = Found::default();
    for entry in roots() {
        let mut walk =
            Walk { directory, budget, files: &mut found.files, except: entry.except, above: Vec::new() };
        let walked = walk.visit(entry.path, Position::Entry);
        if let Err((path, why)) = walked {
            found.problem = Some(Problem { shown: path.clone(), path, why });
            break;
        }
    }
    found
}

/// The digest that a file has with this content, which was read from it.
pub(super) fn digest_of(directory: &Path, path: &str, bytes: &[u8]) -> io::Result<String> {
    let full = directory.join(path);
    let link = link_target(&full, &full.symlink_metadata()?)?;
    Ok(digest(link.as_deref(), is_executable(&full.metadata()?), bytes))
}

/// Whether something may be absent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// An entry of the lists.
    Entry,
    /// A name that was read from a directory.
    Below,
}

struct Walk<'a> {
    directory: &'a Path,
    budget: &'a mut Budget,
    files: &'a mut BTreeMap<String, String>,
    except: &'static [&'static str],
    /// The directories that are being read, with links resolved.
    above: Vec<PathBuf>,
}

type Failed = (String, Why);

impl Walk<'_> {
    fn visit(&mut self, path: &str, position: Position) -> Result<(), Failed> {
        let full = self.directory.join(path);
        let failed = |error: io::Error| (path.to_owned(), Why::Unreadable(error.to_string()));
        let about = match full.symlink_metadata() {
            Ok(about) => about,
            // Also if a directory on the way is a file. What vanished from a directory meanwhile is a change.
            Err(error) if position == Position::Entry && is_absent(&error) => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        self.budget.entries =
            self.budget.entries.checked_sub(1).ok_or_else(|| (path.to_owned(), Why::ManyFiles))?;
        let link = link_target(&full, &about).map_err(failed)?;
        let about = match (&link, full.metadata()) {
            (_, Ok(about)) => about,
            (Some(target), Err(error)) if is_absent(&error) => {
                self.files.insert(path.to_owned(), digest(Some(target), false, b""));
                return Ok(());
            }
            (_, Err(error)) => return Err(failed(error)),
        };
        if about.is_dir() {
            if let Some(target) = &link {
                self.files.insert(path.to_owned(), digest(Some(target), false, b""));
            }
            return self.visit_directory(path, &full);
        }
        let bytes = self.read(path, &full, link.is_some())?;
        let kept = match content(path, &bytes) {
            Content::Whole => bytes,
            Content::Before(bytes) => bytes,
            Content::None => return Ok(()),
        };
        self.files.insert(path.to_owned(), digest(link.as_deref(), is_executable(&about), &kept));
        Ok(())
    }

    fn visit_directory(&mut self, path: &str, full: &Path) -> Result<(), Failed> {
        let failed = |error: io::Error| (path.to_owned(), Why::Unreadable(error.to_string()));
        let real = full.canonicalize().map_err(failed)?;
        if self.above.contains(&real) {
            // A link to a directory above it brings nothing new.
            return Ok(());
        }
        if self.above.len() >= DEEPEST {
            return Err((path.to_owned(), Why::Deep));
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(full).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(name) = name.to_str() else {
                return Err((format!("{path}/{}", name.to_string_lossy()), Why::NotUtf8));
            };
            if self.above.is_empty() && self.except.contains(&name) {
                continue;
            }
            if names.len() >= self.budget.entries {
                return Err((path.to_owned(), Why::ManyFiles));
            }
            names.push(format!("{path}/{name}"));
        }
        names.sort();
        self.above.push(real);
        let visited = names.iter().try_for_each(|name| self.visit(name, Position::Below));
        self.above.pop();
        visited
    }

    /// The whole file, if it did not change meanwhile.
    fn read(&mut self, path: &str, full: &Path, is_link: bool) -> Result<Vec<u8>, Failed> {
        let failed = |error: io::Error| (path.to_owned(), Why::Unreadable(error.to_string()));
        let file = open(full, is_link).map_err(failed)?;
        let before = file.metadata().map_err(failed)?;
        if !before.is_file() {
            return Err((path.to_owned(), Why::NotRegular));
        }
        let mut bytes = Vec::new();
        (&file).take(self.budget.bytes + 1).read_to_end(&mut bytes).map_err(failed)?;
        let length = bytes.len() as u64;
        self.budget.bytes =
            self.budget.bytes.checked_sub(length).ok_or_else(|| (path.to_owned(), Why::ManyBytes))?;
        let after = file.metadata().map_err(failed)?;
        let by_name = full.metadata().map_err(failed)?;
        if state(&before) != state(&after) || state(&after) != state(&by_name) || after.len() != length {
            return Err((path.to_owned(), Why::Changing));
        }
        Ok(bytes)
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Opens a file without waiting for anyone: a pipe would wait for its writer.
fn open(path: &Path, is_link: bool) -> io::Result<File> {
    let flags = if is_link { OFlags::NONBLOCK } else { OFlags::NONBLOCK | OFlags::NOFOLLOW };
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// What changes with a file.
fn state(about: &Metadata) -> (u64, u64, u64, i64, i64, i64, i64) {
    (
        about.dev(),
        about.ino(),
        about.len(),
        about.mtime(),
        about.mtime_nsec(),
        about.ctime(),
        about.ctime_nsec(),
    )
}

fn link_target(path: &Path, about: &Metadata) -> io::Result<Option<Vec<u8>>> {
    match about.file_type().is_symlink() {
        true => Ok(Some(fs::read_link(path)?.as_os_str().as_bytes().to_vec())),
        false => Ok(None),
    }
}

fn is_executable(about: &Metadata) -> bool {
    about.permissions().mode() & 0o111 != 0
}

/// Each part with its length, so that no two files have the same parts in another order.
fn digest(link: Option<&[u8]>, is_executable: bool, bytes: &[u8]) -> String {
    let mut hash = Sha256::new();
    let kind: &[u8] = if link.is_some() { b"link" } else { b"file" };
    for part in [kind, link.unwrap_or_default(), &[u8::from(is_executable)], bytes] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

/// One digest of all files.
pub(super) fn digest_all(files: &BTreeMap<String, String>) -> String {
    let mut hash = Sha256::new();
    for (path, digest) in files {
        for part in [path, digest] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
    }
    format!("sha256:{}", hex(&hash.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    /// A directory with an agent's settings.
    fn directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join(".claude/hooks")).unwrap();
        fs::write(directory.path().join(".claude/settings.json"), "{}").unwrap();
        fs::write(directory.path().join(".claude/hooks/start.sh"), "true").unwrap();
        directory
    }

    fn found(directory: &Path) -> Found {
        scan(directory, &mut Budget::default())
    }

    fn hash(directory: &Path) -> String {
        let found = found(directory);
        assert_eq!(found.problem, None);
        digest_all(&found.files)
    }

    #[test]
    fn the_hash_is_of_paths_kinds_targets_executable_bits_and_bytes() {
        type Edit = fn(&Path);
        let table: [(&str, Edit); 9] = [
            ("a byte", |at| fs::write(at.join(".claude/settings.json"), "[]").unwrap()),
            ("a new file", |at| fs::write(at.join(".claude/x"), "").unwrap()),
            ("a removed file", |at| fs::remove_file(at.join(".claude/hooks/start.sh")).unwrap()),
            ("another name", |at| {
                fs::rename(at.join(".claude/hooks/start.sh"), at.join(".claude/hooks/stop.sh")).unwrap();
            }),
            ("an executable bit", |at| {
                let path = at.join(".claude/hooks/start.sh");
                fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
            }),
            ("a link instead of a file", |at| {
                fs::rename(at.join(".claude/settings.json"), at.join("s.json")).unwrap();
                symlink("../s.json", at.join(".claude/settings.json")).unwrap();
            }),
            ("another entry", |at| fs::write(at.join(".mcp.json"), "{}").unwrap()),
            ("a link to nowhere", |at| symlink("/nowhere", at.join(".mcp.json")).unwrap()),
            ("a link to a directory", |at| symlink(".claude", at.join(".codex")).unwrap()),
        ];
        let mut seen = vec![hash(directory().path())];
        assert_eq!(seen[0], hash(directory().path()), "the same files have the same hash");
        for (name, edit) in table {
            let directory = directory();
            edit(directory.path());
            let hash = hash(directory.path());
            assert!(!seen.contains(&hash), "{name}");
            seen.push(hash);
        }
    }

    #[test]
    fn text_and_other_files_do_not_count() {
        let directory = directory();
        let before = hash(directory.path());
        fs::create_dir(directory.path().join(".claude/rules")).unwrap();
        for path in
            [".claude/rules/r.md", ".claude/CLAUDE.md", "CLAUDE.md", "AGENTS.md", "src.rs", "mcp.json"]
        {
            fs::write(directory.path().join(path), "x").unwrap();
        }
        assert_eq!(hash(directory.path()), before);
    }

    #[test]
    fn what_a_link_leads_to_outside_counts() {
        let (directory, outside) = (directory(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("plugin.js"), "one").unwrap();
        symlink(outside.path(), directory.path().join(".opencode")).unwrap();
        symlink(outside.path().join("plugin.js"), directory.path().join(".mcp.json")).unwrap();
        let before = found(directory.path());
        assert!(before.files.contains_key(".opencode/plugin.js"), "{:?}", before.files);
        fs::write(outside.path().join("plugin.js"), "two").unwrap();
        let after = found(directory.path());
        for path in [".opencode/plugin.js", ".mcp.json"] {
            assert_ne!(before.files[path], after.files[path], "{path}");
        }
        // A link to a directory above it is not followed for ever.
        symlink("..", directory.path().join(".claude/up")).unwrap();
        symlink(".", directory.path().join(".claude/self")).unwrap();
        let circular = found(directory.path());
        assert_eq!(circular.problem, None);
        assert!(circular.files.contains_key(".claude/up/.mcp.json"), "{:?}", circular.files);
    }

    #[test]
    fn what_cannot_be_read_is_a_problem_and_waits_for_nobody() {
        let told = |edit: &dyn Fn(&Path)| {
            let directory = directory();
            edit(directory.path());
            found(directory.path()).problem.map(|problem| problem.to_string())
        };
        let pipe = told(&|at| {
            assert!(Command::new("mkfifo").arg(at.join(".claude/pipe")).status().unwrap().success());
        });
        assert_eq!(pipe.as_deref(), Some("`.claude/pipe` is not a regular file"));
        let device = told(&|at| symlink("/dev/zero", at.join(".mcp.json")).unwrap());
        assert_eq!(device.as_deref(), Some("`.mcp.json` is not a regular file"));
        let circle = told(&|at| symlink(".mcp.json", at.join(".mcp.json")).unwrap());
        assert!(circle.unwrap().starts_with("`.mcp.json` cannot be read: "));
        let name = told(&|at| {
            let name = std::ffi::OsStr::from_bytes(b"\xff");
            fs::write(at.join(".claude").join(name), "").unwrap();
        });
        assert_eq!(name.as_deref(), Some("the name of `.claude/\u{fffd}` is not UTF-8"));
        let deep = told(&|at| fs::create_dir_all(at.join(".codex").join("d/".repeat(40))).unwrap());
        assert!(deep.unwrap().ends_with("is more than 32 directories deep"));
    }

    #[test]
    fn more_than_a_person_reads_is_a_problem() {
        let directory = directory();
        let with = |entries: usize, bytes: u64| {
            let found = scan(directory.path(), &mut Budget { entries, bytes });
            found.problem.map(|problem| problem.to_string())
        };
        assert_eq!(with(4, 6), None);
        assert_eq!(
            with(3, 6).as_deref(),
            Some("it brings more than 10000 files (at `.claude/settings.json`)")
        );
        assert_eq!(with(4, 5).as_deref(), Some("it brings more than 64 MiB (at `.claude/settings.json`)"));
    }

    #[test]
    fn an_edit_of_opencode_itself_changes_nothing() {
        let directory = directory();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at(".opencode/plugins")).unwrap();
        fs::write(at(".opencode/plugins/x.js"), "x").unwrap();
        fs::write(at("opencode.json"), "{\"mcp\":{}}").unwrap();
        let before = hash(directory.path());
        fs::write(at("opencode.json"), "{\n  \"$schema\": \"https://opencode.ai/config.json\",\"mcp\":{}}")
            .unwrap();
        fs::write(at(".opencode/.gitignore"), "node_modules").unwrap();
        fs::write(at(".opencode/package.json"), "{\"dependencies\":{\"@opencode-ai/plugin\":\"1\"}}")
            .unwrap();
        fs::create_dir_all(at(".opencode/node_modules/zod")).unwrap();
        fs::write(at(".opencode/node_modules/zod/index.js"), "x").unwrap();
        assert_eq!(hash(directory.path()), before);
    }

    #[test]
    fn the_digest_of_content_that_was_read_is_that_of_the_file() {
        let directory = directory();
        fs::create_dir(directory.path().join(".ostler")).unwrap();
        let path = ".ostler/config.toml";
        fs::write(directory.path().join(path), "a = 1").unwrap();
        let found = found(directory.path());
        assert_eq!(digest_of(directory.path(), path, b"a = 1").unwrap(), found.files[path]);
        assert_ne!(digest_of(directory.path(), path, b"a = 2").unwrap(), found.files[path]);
    }
}
