//! Errors for programs: with `--json`, one line of JSON on stdout, beside the words for people on stderr.

use serde_json::Value;

use crate::ground::{Ended, Ground};

/// The only line of stdout.
fn only_line(ended: &Ended, args: &[&str]) -> Value {
    let mut lines = ended.stdout.lines();
    let line = lines.next().unwrap_or_default();
    assert_eq!(lines.next(), None, "{args:?}: {}", ended.stdout);
    let parsed = serde_json::from_str(line);
    assert!(parsed.is_ok(), "{args:?}: {line:?} {}", ended.stderr);
    parsed.unwrap()
}

fn assert_usage_error(ground: &Ground, args: &[&str]) {
    let ended = ground.run(args);
    assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.stderr);
    let line = only_line(&ended, args);
    assert_eq!((&line["v"], &line["kind"], &line["exit_code"]), (&1.into(), &"error".into(), &2.into()));
    let message = line["error"]["message"].as_str().unwrap();
    let start: String = message.chars().take(20).collect();
    assert!(ended.stderr.starts_with(&format!("error: {start}")), "{message}: {}", ended.stderr);
    assert!(line["error"]["because"].is_array(), "{line}");
    assert!(line["error"]["try"].is_string(), "{args:?}: {line}");
}

#[test]
fn usage_errors_are_json_under_json() {
    let ground = Ground::new();
    let table: [&[&str]; 14] = [
        &["agnets", "--json"],
        &["agents", "--json", "--bogus"],
        &["agents", "check", "codx", "--json"],
        &["agents", "install", "codx", "--json"],
        &["run", "--json"],
        &["run", "--json", "--max-cost", "much", "x"],
        &["run", "--json", "-a", "codx", "x"],
        &["run", "--json", "-a", "codex", "--cwd", "nowhere", "x"],
        &["run", "--json", "--resume", "nothing"],
        &["runs", "show", "nothing", "--json"],
        &["runs", "why", "last", "--json"],
        &["smoke", "--json", "codx"],
        &["rehearse", "--json", "--listen", "nowhere"],
        &["memory", "recall", "--json", "--bogus", "x"],
    ];
    for args in table {
        assert_usage_error(&ground, args);
    }
    // A mistake in the configuration is the same to every command that reads it.
    ground.put("ostler/config.toml", "[display]\ncolour = \"auto\"\n");
    for args in [&["agents", "--json"][..], &["run", "--json", "x"], &["config", "show", "--json"]] {
        assert_usage_error(&ground, args);
    }
}

#[test]
fn without_json_nothing_of_an_error_is_on_stdout() {
    let ground = Ground::new();
    for args in [&["agnets"][..], &["run", "-a", "codx", "x"], &["run", "--bogus", "--", "--json"]] {
        let ended = ground.run(args);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{args:?}");
    }
}

/// What a command printed is not followed by a second document.
#[test]
fn an_outcome_stays_the_last_line() {
    let ground = Ground::new();
    let args = ["run", "--json", "-a", "codex", "x"];
    let ended = ground.run(&args);
    let line = only_line(&ended, &args);
    assert_eq!((ended.code, &line["kind"]), (Some(14), &"outcome".into()), "{line}");
    let help = ground.run(&["run", "--json", "--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    assert!(help.stdout.contains("Usage: ostler run"), "{}", help.stdout);
}
