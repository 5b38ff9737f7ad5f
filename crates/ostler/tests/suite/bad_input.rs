//! What is wrong is told with what to do, with the right exit code, and changes nothing.

use std::process::Stdio;

use crate::ground::{self, Ground};

#[test]
fn names_that_are_not_known() {
    let ground = Ground::new();
    ground.check("unknown_command", &["agnets"]);
    ground.check("unknown_agent", &["agents", "install", "codx"]);
    ground.check("unknown_agent_far", &["agents", "check", "zzz"]);
    ground.check("not_a_version", &["agents", "install", "codex@file:/tmp/x"]);
    assert!(!ground.at("ostler").exists());
}

#[test]
fn config_mistakes_name_file_line_key_and_what_was_meant() {
    let table = [
        ("config_unknown_key", "\n[display]\ncolour = \"auto\"\n"),
        ("config_unknown_agent", "[agents.codx]\nprogram = \"/x\"\n"),
        ("config_broken_toml", "[display]\ncolor = \"auto\n"),
        ("config_wrong_type", "[log]\nfilter = 3\n"),
    ];
    for (name, text) in table {
        let ground = Ground::new();
        ground.put("ostler/config.toml", text);
        let ended = ground.check(name, &["agents"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{name}");
        assert_eq!(ground.run(&["config", "check"]).code, Some(2), "{name}");
        assert_eq!(ground.left(), ["config.toml"], "{name}");
    }
}

#[test]
fn a_variable_that_sets_nothing_is_named() {
    let ground = Ground::new().with("OSTLER_CFG__DISPLAY__COLR", "never");
    ground.check("variable_unknown_key", &["config", "show"]);
}

#[test]
fn a_log_filter_that_is_none() {
    Ground::new().with("OSTLER_LOG", "debgu").check("log_level", &["agents"]);
    Ground::new().with("OSTLER_LOG", "ostler=loud").check("log_filter", &["agents"]);
    Ground::new().with("OSTLER_LOG", "debgu").check("log_level_checked", &["config", "check"]);
}

#[test]
fn a_log_filter_that_is_none_does_not_keep_from_repairing_it() {
    let ground = Ground::new();
    ground.put("ostler/config.toml", "[log]\nfilter = \"debgu\"\n");
    for args in
        [&["config", "schema"][..], &["config", "show"], &["config", "trust", "."], &["completions", "bash"]]
    {
        let ended = ground.run(args);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{args:?}");
    }
    let ended = ground.run(&["doctor"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), ""));
    assert!(
        ended.stdout.contains("broken   log              `debgu` is not a log level ("),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("try: did you mean `debug`?\n"), "{}", ended.stdout);
}

#[test]
fn a_project_that_is_not_trusted_may_not_choose_programs() {
    let ground = Ground::new();
    ground.put("project/.ostler/config.toml", "[agents.codex]\nprogram = \"/tmp/evil\"\n");
    ground.check("untrusted", &["agents"]);
    ground.check("trust", &["config", "trust", "."]);
    ground.check("trusted", &["config", "show", "--origin"]);
    ground.check("revoke", &["config", "trust", "--revoke", "."]);
    assert!(ground.run(&["agents"]).stderr.contains("is ignored"));
    ground.check("trust_nothing", &["config", "trust", "nowhere"]);
    let mode = std::fs::metadata(ground.at("ostler/trusted-repositories.json")).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
}

#[test]
fn a_home_that_cannot_be_written() {
    let ground = Ground::new();
    let file = ground.put("file", "");
    ground.program("npm", "exit 1");
    ground.put("project/.mcp.json", "{}");
    let ground = ground.with("OSTLER_HOME", file.join("below"));
    ground.check("home_not_writable_install", &["agents", "install", "codex"]);
    ground.check("home_not_writable_trust", &["config", "trust", "."]);
    ground.check("home_not_writable_list", &["agents", "--json"]);
    let broken = ground.run(&["doctor"]);
    assert_eq!(broken.code, Some(1));
    assert!(broken.stdout.contains("broken   home"), "{}", broken.stdout);
    // Permissions do not bind root; a file system that takes no files does.
    let ground = ground.with("OSTLER_HOME", "/proc/nope");
    assert_eq!(ground.run(&["agents", "install", "codex"]).code, Some(1));
    assert_eq!(ground.run(&["doctor"]).code, Some(1));
}

#[test]
fn a_reader_that_went_away_is_not_an_error() {
    let ground = Ground::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child =
        ground.command(&["completions", "bash"]).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let ended = ground::ended(child);
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &b""[..]));
}
