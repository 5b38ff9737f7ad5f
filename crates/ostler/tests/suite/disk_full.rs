//! A full disk is named as the cause, whatever was to be written; for the journal of a run see `run/full_disk.rs`.

use std::process::{Command, Stdio};

use crate::ground::{Ended, Ground, ended};

/// Runs Ostler where no file may grow: each write fails as on a full disk, and it needs no rights.
fn where_nothing_fits(ground: &Ground, args: &str) -> Ended {
    let ostler = env!("CARGO_BIN_EXE_ostler");
    let script = format!("trap '' XFSZ; ulimit -f 0; exec {ostler} {args}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", ground.at("home"));
    shell.env("OSTLER_HOME", ground.at("ostler")).current_dir(ground.at("project")).stdin(Stdio::null());
    let output = ended(shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn a_full_disk_is_named_as_the_cause() {
    let ground = Ground::new();
    ground.put("project/.mcp.json", "{}");
    let table = [
        ("run -a command:true --permissions all x", "or move OSTLER_HOME"),
        ("config trust .", "or move OSTLER_HOME"),
        ("keys new", "or move OSTLER_HOME"),
        ("memory remember x", "or move OSTLER_HOME"),
        ("smoke codex --report report.md", "or name a file on another disk"),
        ("runs --json > /dev/full", "or write the output elsewhere"),
    ];
    for (args, elsewhere) in table {
        let ended = where_nothing_fits(&ground, args);
        assert_eq!(ended.code, Some(1), "{args}: {}{}", ended.stdout, ended.stderr);
        let hint = format!("  try: the disk is full: free some space, {elsewhere}");
        assert!(ended.stderr.contains(&hint), "{args}: {}", ended.stderr);
    }
}
