//! Programs for tests: shell scripts, written so that they can be started at once.

use std::path::Path;
use std::process::{Command, Stdio};

/// Writes an executable script. Another process writes it: were it us, a child that another test starts meanwhile
/// would inherit the open file, and while that one has not come to its own `exec`, the kernel refuses ours
/// (`ETXTBSY`).
pub(crate) fn write_script(path: &Path, script: &str) {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", r#"printf %s "$2" > "$1" && chmod 700 "$1""#, "sh"]).arg(path).arg(script);
    assert!(shell.stdin(Stdio::null()).status().unwrap().success(), "{}", path.display());
}
