//! `ostler agents install`, with an npm that is a script, and with the real one where there is no network.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::ground::{self, Ground};

/// How long a test waits for what must happen.
const DEADLINE: Duration = Duration::from_secs(30);

/// What a good npm does: a lock, a manifest, and native programs for every platform that print their version.
const GOOD: &str = r#"
version=$(sed -n 's/.*"@openai\/codex": "\(.*\)".*/\1/p' package.json 2> /dev/null)
hash=sha512-$(printf %086d 0)==
case " $* " in
    *' view '*) echo '"0.200.0"'; exit;;
    *' --package-lock-only '*)
        entry="{\"version\": \"$version\", \"integrity\": \"$hash\"}"
        echo "{\"packages\": {\"node_modules/@openai/codex\": $entry}}" > package-lock.json
        exit;;
esac
mkdir -p node_modules/@openai/codex
echo "{\"version\": \"$version\"}" > node_modules/@openai/codex/package.json
for place in linux-x64/vendor/x86_64-unknown-linux-musl linux-arm64/vendor/aarch64-unknown-linux-musl \
             darwin-x64/vendor/x86_64-apple-darwin darwin-arm64/vendor/aarch64-apple-darwin; do
    mkdir -p node_modules/@openai/codex-$place/bin
    printf '#!/bin/sh\necho codex-cli %s\n' "$version" > node_modules/@openai/codex-$place/bin/codex
    chmod 755 node_modules/@openai/codex-$place/bin/codex
done
"#;

#[test]
fn an_install_is_found_by_every_command_and_done_once() {
    let ground = Ground::new();
    ground.program("npm", GOOD);
    let ended = ground.run(&["agents", "install", "codex"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("Codex 0.166.0 is installed:\n"), "{}", ended.stdout);
    assert!(ended.stderr.contains("Codex 0.166.0: fetching with npm\n"), "{}", ended.stderr);
    ground.program("npm", "exit 1");
    let again = ground.run(&["agents", "install", "codex"]);
    assert!(again.stdout.starts_with("Codex 0.166.0 is installed already:\n"), "{}", again.stdout);
    assert_eq!((again.code, again.stderr.as_str()), (Some(0), ""));
    let listed = ground.run(&["agents"]).stdout;
    assert!(listed.contains("codex            stream    0.166.0  0.166.0   ostler  "), "{listed}");
    assert_eq!(ground.run(&["agents", "check", "codex"]).code, Some(0));
}

#[test]
fn programs_are_told_what_an_install_did() {
    let ground = Ground::new();
    ground.program("npm", GOOD);
    let done = |ground: &Ground| {
        let ended = ground.run(&["agents", "install", "codex", "--json"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        serde_json::from_str::<serde_json::Value>(&ended.stdout).unwrap()
    };
    let first = done(&ground);
    let want = serde_json::json!({
        "v": 1, "name": "codex", "version": "0.166.0", "last_verified_version": "0.166.0",
        "path": first["path"], "change": "installed", "in_use": true, "integrity": first["integrity"],
    });
    assert_eq!(first, want);
    let lock: serde_json::Value =
        serde_json::from_str(include_str!("../../../../agents/package-lock.json")).unwrap();
    let (integrity, name) = (&first["integrity"], "@openai/codex");
    assert_eq!((&integrity["source"], &integrity["record"]), (&"pinned".into(), &serde_json::Value::Null));
    assert_eq!(integrity["packages"][name], lock["packages"][format!("node_modules/{name}")]["integrity"]);
    assert_eq!(integrity["packages"].as_object().unwrap().len(), 2, "and its native package: {integrity}");
    assert!(PathBuf::from(first["path"].as_str().unwrap()).is_file());
    ground.put("ostler/config.toml", "[agents.codex]\nprogram = \"/x\"\n");
    let again = done(&ground);
    assert_eq!((&again["change"], &again["in_use"]), (&"none".into(), &false.into()));
    assert_eq!(again["integrity"], serde_json::Value::Null, "nothing was fetched");
}

/// An npm that has Codex and nothing else.
fn only_codex() -> String {
    let refuse = "grep -q '\"@openai/codex\"' package.json || \
                  { echo '{\"error\": {\"code\": \"ENOTFOUND\", \"summary\": \"words\"}}'; exit 1; }\n";
    format!("{refuse}{GOOD}")
}

#[test]
fn install_takes_several_names_and_continues_past_a_failing_one() {
    let ground = Ground::new();
    ground.program("npm", &only_codex());
    // Claude Code is one program under two names: it is tried once.
    let names = ["agents", "install", "claude", "claude-headless", "codex", "opencode"];
    let ended = ground.run(&names);
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.starts_with("Codex 0.166.0 is installed:\n"), "{}", ended.stdout);
    let summary = "\n1 agent installed: codex; failed: claude, opencode\n";
    assert!(ended.stdout.ends_with(summary), "{}", ended.stdout);
    for name in ["claude", "opencode"] {
        let error = format!("error: {name}: npm cannot reach its registry\n");
        assert!(ended.stderr.contains(&error), "{}", ended.stderr);
    }
    assert_eq!(ended.stderr.matches("error: ").count(), 2, "{}", ended.stderr);
    let json = ground.run(&[&names[..], &["--json"]].concat());
    let summary_json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        (json.code, &summary_json["installed"][0]["change"]),
        (Some(1), &"none".into()),
        "{summary_json}"
    );
    assert_eq!(
        (&summary_json["failed"][0]["name"], &summary_json["failed"][1]["name"]),
        (&"claude".into(), &"opencode".into())
    );
    assert_eq!(summary_json["failed"][1]["error"]["message"], "npm cannot reach its registry");
    // All of them well, and a name twice is once.
    let fine = ground.run(&["agents", "install", "codex", "codex", "codex@0.165.0"]);
    assert_eq!(fine.code, Some(0), "{}", fine.stderr);
    assert!(fine.stdout.ends_with("\n2 agents installed: codex, codex\n"), "{}", fine.stdout);
}

#[test]
fn a_mistake_in_one_of_several_names_is_told_before_anything_is_installed() {
    let ground = Ground::new();
    ground.program("npm", GOOD);
    for wrong in ["codx", "opencode@file:/tmp/x"] {
        let ended = ground.run(&["agents", "install", "codex", wrong]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{wrong}");
    }
    assert!(!ground.at("ostler").exists());
}

#[test]
fn another_version_is_taken_by_tag_and_said_not_to_be_verified() {
    let ground = Ground::new();
    ground.program("npm", GOOD);
    let ended = ground.run(&["agents", "install", "codex@latest"]);
    assert!(ended.stdout.starts_with("Codex 0.200.0 is installed:\n"), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("\nOstler was last verified with 0.166.0.\n"), "{}", ended.stdout);
    let record = ground.at("ostler/agents/codex/0.200.0.lock.json");
    let hash = format!("sha512-{}==", "0".repeat(86));
    let want = format!(
        "\nIts hashes are recorded in {}, and required from now on:\n  @openai/codex {hash}\n",
        record.display()
    );
    assert!(ended.stdout.ends_with(&want), "{}", ended.stdout);
    assert!(fs::read_to_string(record).unwrap().contains(&hash));
}

#[test]
fn failures_of_npm_are_told_apart_and_leave_nothing() {
    let says = |code: &str| {
        format!(
            "mkdir -p node_modules/half; echo '{{\"error\": {{\"code\": \"{code}\", \"summary\": \"words\"}}}}'; exit 1"
        )
    };
    let table = [
        ("install_offline", says("ENOTFOUND"), "codex", 1),
        ("install_certificate", says("SELF_SIGNED_CERT_IN_CHAIN"), "codex", 1),
        ("install_no_such_version", says("ETARGET"), "codex@9.9.9", 2),
        ("install_no_space", says("ENOSPC"), "codex", 1),
        ("install_denied", says("EACCES"), "codex", 1),
        ("install_other", says("EUSAGE"), "codex", 1),
        ("install_no_node", "exit 127".to_owned(), "codex", 1),
        ("install_does_not_start", GOOD.replace("echo codex-cli", "exit 9; :"), "codex", 1),
    ];
    for (name, script, agent, code) in table {
        let ground = Ground::new();
        ground.program("npm", &script);
        let ended = ground.check(name, &["agents", "install", agent]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{name}");
        assert_eq!(ground.left(), ["agents"], "{name}");
    }
}

#[test]
fn without_npm_it_says_how_to_get_it() {
    let ground = Ground::new();
    ground.check("install_no_npm", &["agents", "install", "codex"]);
    ground.put("ostler/config.toml", "[install]\nnpm = \"/nonexistent/npm\"\n");
    ground.check("install_no_configured_npm", &["agents", "install", "codex"]);
    assert_eq!(ground.left(), ["config.toml"]);
}

/// The real npm, if this machine has one: its code for a refused connection must be understood, and soon.
#[test]
fn without_a_network_the_real_npm_fails_in_seconds() {
    let path = std::env::var("PATH").unwrap();
    if !std::env::split_paths(&path).any(|folder| folder.join("npm").exists()) {
        let required = std::env::var_os("OSTLER_E2E").is_some_and(|value| value == "require");
        assert!(!required, "npm is required: install Node.js");
        // Past the test harness, which keeps what a passing test prints to itself.
        writeln!(std::io::stderr(), "SKIPPED: this machine has no npm").unwrap();
        return;
    }
    let ground = Ground::new().with("PATH", path).with("npm_config_registry", "http://127.0.0.1:9/");
    let begun = Instant::now();
    let ended = ground.run(&["agents", "install", "codex"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("error: npm cannot reach its registry\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("  because npm says ECONNREFUSED: "), "{}", ended.stderr);
    assert!(begun.elapsed() < DEADLINE, "{:?}", begun.elapsed());
    assert_eq!(ground.left(), ["agents"]);
}

/// An npm that tells its number and then never ends; and an install that waits for it.
fn hanging(ground: &Ground) -> (Child, Pid) {
    let told = ground.at("npm.pid");
    ground.program(
        "npm",
        &format!("mkdir half; echo $$ > {0}.new; mv {0}.new {0}; sleep 600 & wait", told.display()),
    );
    let mut command = ground.command(&["agents", "install", "codex"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let npm = wait_for("npm to begin", || fs::read_to_string(&told).ok());
    (child, Pid::from_raw(npm.trim().parse().unwrap()).unwrap())
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < DEADLINE, "waited for {what}");
        std::thread::yield_now();
    }
}

fn is_gone(pid: Pid) -> Option<()> {
    let line = PathBuf::from(format!("/proc/{}/cmdline", pid.as_raw_pid()));
    fs::read(line).unwrap_or_default().is_empty().then_some(())
}

#[test]
fn ctrl_c_ends_npm_and_leaves_nothing() {
    let ground = Ground::new();
    let (child, npm) = hanging(&ground);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = ground::ended(child);
    assert_eq!(ended.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&ended.stderr).ends_with("error: cancelled by Ctrl-C\n"));
    assert_eq!(ground.left(), ["agents"]);
    wait_for("npm to be gone", || is_gone(npm));
}

#[test]
fn what_a_killed_install_leaves_is_removed_by_the_next_but_not_while_its_npm_lives() {
    let ground = Ground::new();
    let (mut child, npm) = hanging(&ground);
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    let half = |ground: &Ground| ground.left().iter().any(|path| path.ends_with("/tree/half"));
    ground.program("npm", GOOD);
    assert_eq!(ground.run(&["agents", "install", "codex@0.1.0"]).code, Some(0));
    assert!(half(&ground));
    kill_process_group(npm, Signal::KILL).unwrap();
    wait_for("npm to be gone", || is_gone(npm));
    // The lock goes with the last process that holds it, a moment after its command line.
    wait_for("the next install to remove it", || {
        assert_eq!(ground.run(&["agents", "install", "codex@0.2.0"]).code, Some(0));
        fs::remove_dir_all(ground.at("ostler/agents/codex/0.2.0")).unwrap();
        (!half(&ground)).then_some(())
    });
}
