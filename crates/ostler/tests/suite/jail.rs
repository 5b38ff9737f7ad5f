//! What a jailed process can reach: tried by a shell in the place of an agent, as root and as a plain user. And machines on
//! which a wall is missing, and directories that no wall fits around.

mod entries;
mod escapes;
mod missing_walls;
mod odd_directories;
mod yard;

use std::ffi::OsStr;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::ground::{Ended, Ground, ended};

/// With the programs of the system, and a secret in the home directory.
fn ground() -> Ground {
    let ground = Ground::new().with("PATH", "/usr/bin:/bin");
    ground.put("home/.ssh/id", "secret of the home\n");
    ground
}

/// A script in the workspace, as an agent.
fn script(ground: &Ground, text: &str) -> String {
    ground.put("project/agent.sh", text);
    format!("command:sh {}", ground.at("project/agent.sh").display())
}

fn run(command: &mut Command) -> Ended {
    let output = ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// The same command, started by another program, whose last argument it is.
fn behind(wrapper: &[&OsStr], command: &Command) -> Command {
    let mut outer = Command::new(wrapper[0]);
    outer.args(&wrapper[1..]).arg(command.get_program()).args(command.get_args());
    outer.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null());
    outer
}

/// The last line of a run with `--json`.
fn outcome(ended: &Ended) -> Value {
    let last = ended.stdout.lines().last();
    assert!(last.is_some(), "no outcome: {}", ended.stderr);
    serde_json::from_str(last.unwrap()).unwrap()
}

/// The warnings of a run with `--json`.
fn warnings(ended: &Ended) -> Vec<String> {
    let events = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let warnings = events.filter(|event| event["kind"] == "warn");
    warnings.map(|event| event["text"].as_str().unwrap().to_owned()).collect()
}

/// What the agent of a run wrote to its standard output.
fn printed(ground: &Ground, outcome: &Value) -> String {
    let folder = ground.at("ostler/runs").join(outcome["run"].as_str().unwrap());
    fs::read_to_string(folder.join("raw/stdout")).unwrap()
}

/// Asserts that a run was refused as invalid usage, and that nothing of it is left.
fn assert_refused(ground: &Ground, ended: &Ended, message: &str, hints: &[&str]) {
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("error: ") && ended.stderr.contains(message), "{}", ended.stderr);
    let hint = ended.stderr.split("\n  try: ").nth(1).unwrap_or_default();
    for want in hints {
        assert!(hint.contains(want), "{want}\n---\n{}", ended.stderr);
    }
    let left = ground.left();
    assert!(left.iter().all(|path| !path.starts_with("runs/")), "{left:?}");
}
