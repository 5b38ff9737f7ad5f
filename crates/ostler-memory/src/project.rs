//! Which project a directory belongs to: the repository that it is in, else the directory itself.

use std::path::Path;

/// The top of the repository, or the directory; empty for none.
pub fn of(cwd: &str) -> String {
    if cwd.is_empty() {
        return String::new();
    }
    let top = Path::new(cwd).ancestors().find(|folder| folder.join(".git").exists());
    top.map_or_else(|| cwd.to_owned(), |top| top.display().to_string())
}
