//! Copies of accepted artifacts, for whoever wants them elsewhere.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::Bridged;
use crate::display;

impl Bridged {
    /// Copies what was accepted into a folder. What cannot be copied, or is no longer what was accepted, is told; it
    /// changes nothing about how the run ended.
    pub(in crate::commands::run) fn export(&self, folder: &Path) {
        for artifact in self.route.artifacts() {
            match artifact.content {
                Ok(content) => {
                    let copied = std::fs::create_dir_all(folder)
                        .and_then(|()| write(&folder.join(format!("{}.md", artifact.kind)), &content));
                    if let Err(error) = copied {
                        tell(folder, &format!("{}: {error}", artifact.kind));
                    }
                }
                Err(changed) => tell(folder, &changed.to_string()),
            }
        }
    }
}

/// Whole or not at all.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let permissions = Permissions::from_mode(0o644);
    let mut fresh = tempfile::Builder::new().permissions(permissions).tempfile_in(folder)?;
    io::Write::write_all(&mut fresh, content)?;
    fresh.persist(path).map(drop).map_err(|error| error.error)
}

fn tell(folder: &Path, why: &str) {
    display::tell(&format!("warning: not everything was exported to {}: {why}", display::short(folder)));
}
