//! What cannot be run, or should not be: told with what to do, with the right exit code, and with nothing left that was
//! not asked for.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::hostile::{stage, wait_until};
use super::{ground, living, long_sleep, outcome, script};
use crate::contain::watched::marked;
use crate::ground::{Ended, Ground, ended};

const COMMAND: [&str; 6] = ["run", "-a", "command:cat", "--permissions", "all", "--quiet"];

fn with_stdin(ground: &Ground, bytes: &[u8]) -> Ended {
    let mut command = ground.command(&COMMAND);
    let mut child =
        command.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that refuses early does not read all of it.
    let _ = child.stdin.take().unwrap().write_all(bytes);
    let output = ended(child);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn a_prompt_that_is_none_is_refused_wherever_it_comes_from() {
    let ground = ground();
    ground.put("project/empty.txt", " \n");
    ground.put("project/nul.txt", "do\0it");
    fs::write(ground.at("project/latin1.txt"), b"caf\xe9").unwrap();
    let by_file = |name: &'static str| [&COMMAND[..], &["--prompt-file", name]].concat();
    ground.check("run_prompt_empty", &[&COMMAND[..], &[""]].concat());
    ground.check("run_prompt_empty_file", &by_file("empty.txt"));
    ground.check("run_prompt_nul", &by_file("nul.txt"));
    ground.check("run_prompt_not_utf8", &by_file("latin1.txt"));
    ground.check("run_prompt_no_file", &by_file("nowhere.txt"));
    ground.check("run_prompt_folder", &by_file("."));
    let table: [(&[u8], &str); 3] =
        [(b"", "the prompt is empty"), (b"do\0it", "NUL character, at byte 2"), (b"caf\xe9", "in UTF-8")];
    for (bytes, want) in table {
        let ended = with_stdin(&ground, bytes);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(want), "{}", ended.stderr);
    }
    let mut command = ground.command(&COMMAND);
    command.arg(OsStr::from_bytes(b"caf\xe9")).stderr(Stdio::piped());
    let output = ended(command.spawn().unwrap());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("invalid UTF-8"));
    assert_eq!(ground.left(), [""; 0]);
}

#[test]
fn a_prompt_of_five_megabytes_arrives_whole() {
    let ground = ground();
    let prompt = "do it now\n".repeat(500_000);
    ground.put("project/long.txt", &prompt);
    let agent = script(&ground, "wc -c");
    let by_file = ["run", "-a", &agent, "--permissions", "all", "--json", "--prompt-file", "long.txt"];
    let ended = ground.run(&by_file);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ground.run(&["runs", "raw", "last"]).stdout.trim(), "5000000");
    assert_eq!(with_stdin(&ground, prompt.as_bytes()).code, Some(0));
    let shown: Value = serde_json::from_str(&ground.run(&["runs", "show", "last", "--json"]).stdout).unwrap();
    assert_eq!(shown["prompt"].as_str().unwrap().len(), prompt.len());
    // A list of such runs is still a list.
    assert!(ground.run(&["runs"]).stdout.lines().all(|line| line.len() < 400));
}

/// Before an agent is looked for, and before anything is written.
#[test]
fn what_a_bridge_cannot_give_is_refused() {
    let ground = ground();
    ground.put("project/.ostler/artifacts/review.toml", "headigns = []\n");
    ground.check("run_bridge_kind_broken", &["run", "-a", "codex", "--require-artifact", "plan", "x"]);
    ground.put("project/.ostler/artifacts/review.toml", "headings = [\"## Findings\"]\n");
    let table: [(&str, &[&str]); 8] = [
        ("run_bridge_no_kind", &["--require-artifact", "reviw"]),
        ("run_bridge_no_capability", &["--capabilities", "artifact"]),
        ("run_bridge_not_granted", &["--capabilities", "ask", "--require-artifact", "review"]),
        ("run_bridge_no_server", &["--capabilities", "upstream:docs"]),
        ("run_bridge_server_twice", &["--mcp", "a=x", "--mcp", "a=y"]),
        ("run_bridge_server_quote", &["--mcp", "a='x"]),
        ("run_bridge_server_no_place", &["--mcp", "a"]),
        ("run_bridge_and_none", &["--no-bridge", "--require-artifact", "review"]),
    ];
    for (name, flags) in table {
        let ended = ground.check(name, &[&["run", "-a", "codex"], flags, &["x"]].concat());
        assert_eq!(ended.code, Some(2), "{name}");
    }
    let command = [&COMMAND[..], &["--require-artifact", "plan", "x"]].concat();
    ground.check("run_bridge_of_a_command", &command);
    assert_eq!(ground.left(), [""; 0]);
}

/// A project that is not trusted may not have programs started.
#[test]
fn a_project_may_not_choose_mcp_servers_unless_it_is_trusted() {
    let ground = ground();
    ground.put("project/.ostler/config.toml", "[mcp.docs]\ncommand = \"touch pwned\"\n");
    ground.check("run_mcp_of_a_project", &["run", "-a", "codex", "--capabilities", "upstream:docs", "x"]);
    assert_eq!(ground.left(), [""; 0]);
}

#[test]
fn a_folder_that_is_none_is_refused() {
    let ground = ground();
    ground.put("project/file", "");
    ground.check("run_cwd_missing", &[&COMMAND[..], &["--cwd", "nowhere", "x"]].concat());
    ground.check("run_cwd_file", &[&COMMAND[..], &["--cwd", "file", "x"]].concat());
    assert_eq!(ground.left(), [""; 0]);
}

/// Runs Ostler with the ground's folder `closed` as one that cannot be written to. Permissions do not bind root, for
/// whom a read-only mount is made, in a namespace of its own. `None` where that is not allowed either.
fn in_closed_folder(ground: &Ground, args: &str) -> Option<Ended> {
    let folder = ground.at("closed");
    fs::create_dir_all(&folder).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
    }
    let mount = r#"mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 99"#;
    let ostler = format!(r#"cd "$1/../project" && exec "$0" {args}"#);
    let (program, first, script) =
        if is_root { ("unshare", "-m", format!("{mount}\n{ostler}")) } else { ("env", "--", ostler) };
    let mut command = Command::new(program);
    command.args([first, "sh", "-c", &script, env!("CARGO_BIN_EXE_ostler")]).arg(&folder);
    command.env("OSTLER_HOME", ground.at("ostler")).stdin(Stdio::null());
    let output = ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    if is_root && (output.status.code() == Some(99) || output.stderr.starts_with(b"unshare:")) {
        eprintln!("left out: no read-only folder can be made here");
        return None;
    }
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Some(Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) })
}

#[test]
fn a_folder_that_cannot_be_changed_is_refused_to_who_is_to_change_it() {
    let ground = stage("exit 0", "");
    let Some(refused) = in_closed_folder(&ground, r#"run -a claude-headless --cwd "$1" x"#) else { return };
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("nothing can be changed in"), "{}", refused.stderr);
    assert!(refused.stderr.contains("`--permissions deny` only reads"), "{}", refused.stderr);
    assert_eq!(ground.left(), ["config.toml"]);
    let allowed = r#"run -a "command:ls" --permissions all --quiet --cwd "$1" x"#;
    let allowed = in_closed_folder(&ground, allowed).unwrap();
    assert_eq!(allowed.code, Some(0), "{}", allowed.stderr);
}

#[test]
fn an_agent_that_is_no_program_is_refused_or_never_starts() {
    let ground = ground();
    let file = ground.put("plain", "#!/bin/sh\n");
    let folder = ground.at("project").display().to_string();
    for (program, want) in [(folder.as_str(), "is a folder"), (file.to_str().unwrap(), "may not be executed")]
    {
        let agent = format!("command:{program}");
        let ended = ground.run(&["run", "-a", &agent, "--permissions", "all", "--json", "x"]);
        let last = outcome(&ended.stdout);
        assert_eq!((ended.code, &last["outcome"]), (Some(14), &"never_started".into()), "{last}");
        let detail = last["detail"].as_str().unwrap();
        assert!(detail.contains(program) && detail.contains(want), "{detail}");
        // A known agent is asked for its version first.
        ground.put("ostler/config.toml", &format!("[agents.codex]\nprogram = {program:?}\n"));
        let ended = ground.run(&["run", "-a", "codex", "x"]);
        assert_eq!(ended.code, Some(14), "{}", ended.stderr);
        assert!(ended.stderr.contains(program), "{}", ended.stderr);
        fs::remove_file(ground.at("ostler/config.toml")).unwrap();
        let listed: Value = serde_json::from_str(&ground.run(&["runs", "--json"]).stdout).unwrap();
        assert!(
            ["not_installed", "never_started"].contains(&listed[0]["state"].as_str().unwrap()),
            "{listed}"
        );
    }
}

/// A run of `claude-headless` that is this script.
fn odd(script: &str, args: &[&str]) -> (Ground, Value) {
    let version = "case \"$1\" in --version) echo '2.1.197 (Claude Code)'; exit;; esac\n";
    let ground = stage(&format!("{version}{script}"), "");
    let mut all = vec!["run", "-a", "claude-headless", "--json"];
    all.extend_from_slice(args);
    all.push("x");
    let ended = ground.run(&all);
    let last = outcome(&ended.stdout);
    assert_eq!(ended.code.map(Value::from), Some(last["exit_code"].clone()));
    assert_eq!(last["survivors"], 0);
    assert_eq!(marked(last["run"].as_str().unwrap()), [""; 0]);
    (ground, last)
}

#[test]
fn a_wrapper_that_forks_and_exits_is_not_taken_for_success() {
    let sleep = long_sleep(98_765);
    let (_ground, last) = odd(&format!("{sleep} & exit 0"), &[]);
    assert_eq!((&last["outcome"], &last["exit_code"]), (&"agent_failed".into(), &10.into()));
    assert!(last["detail"].as_str().unwrap().contains("exited with 0 without a result"), "{last}");
    wait_until("what it left is gone", || living(&sleep).is_empty());
    // Of a program that is not known, the exit code is all there is.
    let ground = ground();
    let sleep = long_sleep(98_766);
    let agent = script(&ground, &format!("{sleep} & exit 0"));
    let ended = ground.run(&["run", "-a", &agent, "--permissions", "all", "--json", "x"]);
    let last = outcome(&ended.stdout);
    assert_eq!((&last["outcome"], &last["survivors"]), (&"completed".into(), &0.into()));
    assert_eq!(last["evidence"][0]["grade"], "reported");
    assert_eq!(living(&sleep), [""; 0]);
}

#[test]
fn an_agent_that_exits_at_once_is_not_taken_for_success() {
    let (ground, last) = odd("exit 0", &[]);
    assert_eq!((&last["outcome"], &last["turns"]), (&"agent_failed".into(), &1.into()), "{last}");
    let why = ground.run(&["runs", "why", "last"]).stdout;
    assert!(why.contains("exited with 0 without a result"), "{why}");
}

#[test]
fn an_agent_that_prints_garbage_is_kept_to_the_byte_and_is_no_success() {
    let garbage = "printf 'hello\\n\\377\\376\\n{\"type\":\\n{\"type\":\"new\",\"x\":1}\\n\\0\\n'";
    let (ground, last) = odd(garbage, &[]);
    assert_eq!(last["outcome"], "agent_failed", "{last}");
    let folder = ground.at("ostler/runs").join(last["run"].as_str().unwrap());
    let raw = fs::read(folder.join("raw/stdout")).unwrap();
    assert_eq!(raw, b"hello\n\xff\xfe\n{\"type\":\n{\"type\":\"new\",\"x\":1}\n\0\n");
    let events = fs::read_to_string(folder.join("events.ndjson")).unwrap();
    let count = |kind: &str| events.matches(&format!("\"kind\":\"{kind}\"")).count();
    assert_eq!((count("noise"), count("garbled")), (3, 1), "{events}");
}

#[test]
fn an_agent_that_prints_garbage_for_ever_is_stopped() {
    let (ground, last) = odd("trap '' INT; while :; do echo nonsense; sleep 0.01; done", &["--start", "2s"]);
    assert_eq!((&last["outcome"], &last["rule"]), (&"stalled".into(), &"start".into()), "{last}");
    let why = ground.run(&["runs", "why", "last"]).stdout;
    assert!(why.contains("fired    rule `start`"), "{why}");
}
