//! Conversations that were removed, by their ids: one who goes on with a name whose conversation is gone must not get an
//! empty one. One small file for each tenant. Ids that Ostler made need no note: they differ from names by themselves.

use std::collections::{HashMap, HashSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The name of the file.
const FILE: &str = "gone";

/// Most ids that are remembered for one tenant: 3 MB. Then the older half is forgotten.
const MOST: usize = 100_000;

/// All of them, by the folder of their tenant.
#[derive(Debug, Default)]
pub(super) struct Gone(Mutex<HashMap<PathBuf, HashSet<String>>>);

impl Gone {
    fn inner(&self) -> MutexGuard<'_, HashMap<PathBuf, HashSet<String>>> {
        // Nothing under the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes those of a tenant from disk.
    pub(super) fn read(&self, folder: &Path) {
        if let Ok(text) = fs::read_to_string(folder.join(FILE)) {
            self.inner().insert(folder.to_owned(), text.lines().map(str::to_owned).collect());
        }
    }

    pub(super) fn has(&self, folder: &Path, id: &str) -> bool {
        self.inner().get(folder).is_some_and(|ids| ids.contains(id))
    }

    /// Remembers one, also after a restart.
    pub(super) fn note(&self, folder: &Path, id: &str) {
        let mut inner = self.inner();
        let ids = inner.entry(folder.to_owned()).or_default();
        if !ids.insert(id.to_owned()) {
            return;
        }
        let path = folder.join(FILE);
        let written = append(&path, id).and_then(|()| match ids.len() > MOST {
            true => forget_older(&path).map(|left| *ids = left),
            false => Ok(()),
        });
        if let Err(error) = written {
            tracing::warn!(target: "ostler::http", %error, "that a conversation is gone could not be written");
        }
    }
}

fn append(path: &Path, id: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(format!("{id}\n").as_bytes())
}

/// Those that are left.
fn forget_older(path: &Path) -> io::Result<HashSet<String>> {
    let text = fs::read_to_string(path)?;
    let lines: Vec<&str> = text.lines().collect();
    let left = &lines[lines.len() / 2..];
    let fresh = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all((left.join("\n") + "\n").as_bytes())?;
    fs::rename(&fresh, path)?;
    Ok(left.iter().map(|id| (*id).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_remembered_over_a_restart_and_only_so_much() {
        let folder = tempfile::tempdir().unwrap();
        let (path, gone) = (folder.path(), Gone::default());
        gone.note(path, "one");
        gone.note(path, "one");
        assert_eq!(fs::read_to_string(path.join(FILE)).unwrap(), "one\n");
        let again = Gone::default();
        again.read(path);
        assert!(again.has(path, "one") && !again.has(path, "two") && !again.has(Path::new("/"), "one"));
        let many: String = (0..MOST).map(|number| format!("{number:032x}\n")).collect();
        fs::write(path.join(FILE), many).unwrap();
        again.read(path);
        again.note(path, "two");
        let first = format!("{:032x}", 0);
        assert!(again.has(path, "two") && !again.has(path, &first));
        assert_eq!(again.inner()[path].len(), MOST / 2 + 1);
    }
}
