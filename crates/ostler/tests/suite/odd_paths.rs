//! Paths that are not UTF-8: errors name the real cause, and what to do about it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::ground::{Ended, Ground, ended};

/// A name that is no text.
fn odd_name(start: &str) -> OsString {
    let mut name = start.as_bytes().to_vec();
    name.push(0xff);
    OsStr::from_bytes(&name).to_owned()
}

fn odd_folder(ground: &Ground, start: &str) -> PathBuf {
    let folder = ground.at("").join(odd_name(start));
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn run(command: &mut Command) -> Ended {
    let output = ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    // What is printed of such a path is not exact, but it is text.
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

const TRUE: [&str; 5] = ["run", "-a", "command:true", "--permissions", "all"];

fn ground() -> Ground {
    Ground::new().with("PATH", "/usr/bin:/bin")
}

fn assert_refused(ended: &Ended, what: &str) {
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{what}: {}", ended.stderr);
    assert!(ended.stderr.contains(" is not UTF-8\n"), "{what}: {}", ended.stderr);
    assert!(ended.stderr.contains("  try: rename it"), "{what}: {}", ended.stderr);
    assert!(!ended.stderr.contains("OSTLER_HOME"), "{what}: {}", ended.stderr);
}

/// The hint was to set OSTLER_HOME, which has nothing to do with it.
#[test]
fn a_path_that_is_not_utf_8_is_named_as_the_cause() {
    let ground = ground();
    let folder = odd_folder(&ground, "folder");
    let named = run(ground.command(&TRUE).arg("--cwd").arg(&folder).arg("x"));
    assert_refused(&named, "--cwd");
    let within = run(ground.command(&[&TRUE[..], &["x"]].concat()).current_dir(&folder));
    assert_refused(&within, "the current directory");
    let export = run(ground.command(&["run", "-a", "codex", "x", "--export-artifacts"]).arg(&folder));
    assert_refused(&export, "--export-artifacts");
    let allowed = run(ground.command(&["keys", "new", "--folder"]).arg(&folder));
    assert_refused(&allowed, "keys new --folder");
    let trusted = run(ground.command(&["config", "trust"]).arg(&folder));
    assert_refused(&trusted, "config trust");
    assert_eq!(ground.left(), [""; 0], "nothing was written");
    // A program on PATH.
    let program = ground.script("codex", "echo codex-cli 0.166.0");
    fs::rename(program, folder.join("codex")).unwrap();
    let path = std::env::join_paths([folder, "/usr/bin".into(), "/bin".into()]).unwrap();
    let program = run(ground.command(&["run", "-a", "codex", "x"]).env("PATH", path));
    assert_refused(&program, "a program");
}

/// `ostler runs --json` panicked.
#[test]
fn a_home_that_is_not_utf_8_works() {
    let ground = ground();
    let home = odd_folder(&ground, "home");
    let run = |args: &[&str]| run(ground.command(args).env("OSTLER_HOME", &home));
    assert_eq!(run(&[&TRUE[..], &["x"]].concat()).code, Some(0));
    for args in
        [&["runs", "--json"][..], &["runs", "since", "1h", "--json"], &["runs", "show", "last", "--json"]]
    {
        let ended = run(args);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{args:?}");
        serde_json::from_str::<serde_json::Value>(&ended.stdout).unwrap();
    }
    // And so did these.
    for args in [
        &["memory", "status", "--json"][..],
        &["memory", "key", "status", "--json"],
        &["memory", "hooks", "status", "--json"],
        &["memory", "model", "status", "--json"],
        &["keys", "--json"],
        &["sessions", "--json"],
        &["agents", "--json"],
        &["config", "show", "--json"],
        &["doctor", "--json"],
    ] {
        let ended = self::run(ground.command(args).env("OSTLER_HOME", &home).env("HOME", &home));
        assert!(ended.code.is_some_and(|code| code < 100), "{args:?}: {}", ended.stderr);
        serde_json::from_str::<serde_json::Value>(&ended.stdout).unwrap_or_else(|error| {
            panic!("{args:?}: {error}: {} {}", ended.stdout, ended.stderr);
        });
    }
    // And so did the capture of a transcript that waits to be stored.
    let line = r#"{"type":"user","uuid":"u","sessionId":"s","timestamp":"2026-11-17T20:00:00.000Z","message":{"role":"user","content":"hello"}}"#;
    let transcript = ground.put("transcript.jsonl", &format!("{line}\n")).display().to_string();
    let captured = run(&["memory", "capture-transcript", "--no-spawn", "--source", "claude", &transcript]);
    let printed: serde_json::Value = serde_json::from_str(&captured.stdout).unwrap();
    assert_eq!((captured.code, &printed["status"]), (Some(0), &"deferred".into()), "{printed}");
    assert!(printed["path"].is_string(), "{printed}");
}
