//! A rehearsal fetches the agent it lacks, and says so; real work installs nothing unasked. npm is a script, and what it
//! brings speaks as Codex or Claude Code do.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::ground::{self, Ground};

/// An npm that brings agents which say one thing and are done.
const NPM: &str = r#"
package=$(sed -n 's/^ *"\(@[^"]*\)": ".*/\1/p' package.json)
version=$(sed -n 's/^ *"@[^"]*": "\(.*\)".*/\1/p' package.json)
echo "$package $version" >> "$HOME/npm.log"
mkdir -p node_modules/$package
echo "{\"version\": \"$version\"}" > node_modules/$package/package.json
put() {
    mkdir -p "$(dirname "node_modules/$1")"
    printf '%s\n' '#!/bin/sh' "$2" > "node_modules/$1"
    chmod 755 "node_modules/$1"
}
claude='case $1 in --version) echo "'$version' (Claude Code)"; exit;; esac
echo "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\",\"model\":\"m\"}"
echo "{\"type\":\"assistant\",\"message\":{\"id\":\"i\",\"content\":[{\"type\":\"text\",\"text\":\"I am Claude.\"}]},\"session_id\":\"s\"}"
echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"I am Claude.\",\"session_id\":\"s\"}"'
codex='case $1 in --version) echo codex-cli '$version'; exit;; esac
echo "{\"type\":\"thread.started\",\"thread_id\":\"t\"}"
echo "{\"type\":\"item.completed\",\"item\":{\"id\":\"m\",\"type\":\"agent_message\",\"text\":\"I am Codex.\"}}"
echo "{\"type\":\"turn.completed\",\"usage\":{}}"'
for place in linux-x64 linux-x64-musl linux-arm64 linux-arm64-musl darwin-x64 darwin-arm64; do
    put @anthropic-ai/claude-code-$place/claude "$claude"
done
for place in linux-x64/vendor/x86_64-unknown-linux-musl linux-arm64/vendor/aarch64-unknown-linux-musl \
             darwin-x64/vendor/x86_64-apple-darwin darwin-arm64/vendor/aarch64-apple-darwin; do
    put @openai/codex-$place/bin/codex "$codex"
done
"#;

const RUN: [&str; 3] = ["run", "--rehearse=todo", "Write a tiny todo list"];

fn asked(ground: &Ground) -> String {
    std::fs::read_to_string(ground.at("home/npm.log")).unwrap_or_default()
}

#[test]
fn a_rehearsal_on_a_fresh_machine_fetches_an_agent_and_runs() {
    let ground = Ground::new();
    ground.program("npm", NPM);
    let ended = ground.run(&RUN);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let told: Vec<&str> = ended.stderr.lines().collect();
    assert!(
        told[0].starts_with("Claude Code 2.1.197 is not here: fetching it for this rehearsal, into "),
        "{told:?}"
    );
    assert!(told.contains(&"Claude Code 2.1.197: fetching with npm"), "{told:?}");
    assert!(
        told.contains(&"Claude Code 2.1.197 is installed; `ostler agents` lists what is here"),
        "{told:?}"
    );
    assert!(ended.stdout.contains("\nI am Claude.\n"), "{}", ended.stdout);
    assert!(ended.stdout.contains("✓ completed: the task is done ("), "{}", ended.stdout);
    assert_eq!(asked(&ground), "@anthropic-ai/claude-code 2.1.197\n");
    let again = ground.run(&RUN);
    assert_eq!((again.code, again.stderr.as_str()), (Some(0), ""), "it is there now");
    assert_eq!(asked(&ground).lines().count(), 1);
}

#[test]
fn the_agent_that_was_named_is_fetched_and_programs_are_not_disturbed() {
    let ground = Ground::new();
    ground.program("npm", NPM);
    let ended = ground.run(&["run", "-a", "codex", "--rehearse", "--json", "go"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(asked(&ground), "@openai/codex 0.166.0\n");
    for line in ended.stdout.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    // Another that is here is taken before one is fetched.
    let ended = ground.run(&RUN);
    assert!(ended.stdout.contains("I am Codex."), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(asked(&ground).lines().count(), 1);
}

#[test]
fn real_work_installs_nothing_unasked() {
    let ground = Ground::new();
    ground.program("npm", NPM);
    for args in [&["run", "go"][..], &["run", "-a", "codex", "go"]] {
        let ended = ground.run(args);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(14), ""), "{args:?}");
        assert!(ended.stderr.contains("ostler agents install "), "{}", ended.stderr);
    }
    // Where the configuration says that it is, it is not fetched either.
    ground.put("ostler/config.toml", "[agents.codex]\nprogram = \"/nonexistent/codex\"\n");
    let ended = ground.run(&["run", "-a", "codex", "--rehearse", "go"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(14), ""));
    assert!(ended.stderr.contains("/nonexistent/codex"), "{}", ended.stderr);
    assert_eq!(asked(&ground), "");
    let strange: Vec<String> =
        ground.left().into_iter().filter(|path| path != "config.toml" && !path.starts_with("runs")).collect();
    assert_eq!(strange, Vec::<String>::new(), "that it could not be run is kept, and nothing else");
}

/// An install that was damaged is reported, not fetched again: 165 MB, unasked, in the case of Codex.
#[test]
fn a_damaged_install_is_not_refetched_unasked() {
    let ground = Ground::new();
    ground.program("npm", NPM);
    assert_eq!(ground.run(&["agents", "install", "codex"]).code, Some(0));
    let link = ground.at("ostler/agents/codex/current/program");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&link, mode).unwrap();
    let rehearse = ["run", "-a", "codex", "--rehearse", "go"];
    for args in
        [&["agents", "check", "codex"][..], &["agents", "check"], &["run", "-a", "codex", "go"], &rehearse]
    {
        let ended = ground.run(args);
        assert_eq!(ended.code, Some(14), "{args:?}: {}{}", ended.stdout, ended.stderr);
        let printed = format!("{}{}", ended.stdout, ended.stderr);
        assert!(printed.contains("is a script that may not be executed"), "{args:?}: {printed}");
    }
    assert_eq!(ground.run(&["agents", "list"]).code, Some(0));
    assert_eq!(asked(&ground).lines().count(), 1, "fetched once, by the install that was asked for");
    let again = ground.run(&["agents", "install", "codex"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert_eq!(asked(&ground).lines().count(), 2, "and again when asked");
    assert_eq!(ground.run(&["agents", "check", "codex"]).code, Some(0));
}

#[test]
fn without_npm_a_rehearsal_says_how_to_get_it() {
    let ground = Ground::new();
    ground.check("rehearsal_no_npm", &RUN);
    assert_eq!(ground.left(), Vec::<String>::new());
}

#[test]
fn ctrl_c_while_fetching_leaves_nothing() {
    let ground = Ground::new();
    let told = ground.at("npm.pid");
    ground.program(
        "npm",
        &format!("mkdir half; echo $$ > {0}.new; mv {0}.new {0}; sleep 600 & wait", told.display()),
    );
    let child = ground.command(&RUN).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !told.exists() {
        assert!(Instant::now() < deadline, "npm did not begin");
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = ground::ended(child);
    assert_eq!(ended.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&ended.stderr).ends_with("error: cancelled by Ctrl-C\n"));
    let left: Vec<String> = ground.left().into_iter().filter(|path| !path.starts_with("runs")).collect();
    assert_eq!(left, ["agents"]);
    assert!(ground.run(&["runs"]).stdout.contains("cancelled"), "the run is kept, with its outcome");
}
