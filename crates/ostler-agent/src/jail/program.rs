//! What of an agent's installation its program needs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The outermost `node_modules` that the program is in, where its package and what that depends on are; else the program
/// alone.
pub(super) fn tree(program: &Path) -> PathBuf {
    let modules = program.ancestors().filter(|folder| folder.file_name() == Some(OsStr::new("node_modules")));
    modules.last().unwrap_or(program).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_a_package_brings_its_package_and_another_one_itself() {
        let table = [
            ("/o/agents/claude/2/node_modules/@a/b-linux/claude", "/o/agents/claude/2/node_modules"),
            ("/h/.npm-global/lib/node_modules/x/node_modules/y/bin/codex", "/h/.npm-global/lib/node_modules"),
            ("/h/.local/share/claude/versions/2.1.197", "/h/.local/share/claude/versions/2.1.197"),
        ];
        for (program, want) in table {
            assert_eq!(tree(Path::new(program)), Path::new(want));
        }
    }
}
