//! `ostler agents list` and `check`, with agents that are scripts.

use serde_json::Value;

use crate::ground::Ground;

fn with_agents() -> Ground {
    let ground = Ground::new();
    ground.program("codex", "echo codex-cli 0.166.0");
    ground.program("opencode", "echo 9.0.0");
    ground.program("claude", "echo 'no AVX here' >&2; exit 4");
    ground
}

#[test]
fn nothing_is_installed_and_nothing_is_created() {
    let ground = Ground::new();
    ground.check("list_nothing", &["agents"]);
    ground.check("list_nothing_json", &["agents", "list", "--json"]);
    assert!(!ground.at("ostler").exists());
}

#[test]
fn the_list_tells_versions_origins_and_troubles() {
    let ground = with_agents();
    ground.check("list", &["agents", "list"]);
    ground.check("list_json", &["agents", "--json"]);
}

#[test]
fn a_path_is_cut_only_for_a_terminal() {
    let ground = Ground::new();
    let folder = "a-folder-with-a-name-that-is-longer-than-any-line-should-be/".repeat(3);
    let program = ground.script(&format!("{folder}codex"), "echo codex-cli 0.166.0");
    ground.put("ostler/config.toml", &format!("[agents.codex]\nprogram = \"{}\"\n", program.display()));
    let listed = ground.run(&["agents"]).stdout;
    assert!(listed.contains(program.to_str().unwrap()), "{listed}");
}

#[test]
fn the_fields_of_the_list_are_a_promise() {
    let rows: Vec<Value> =
        serde_json::from_str(&with_agents().run(&["agents", "list", "--json"]).stdout).unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["claude", "claude-headless", "codex", "opencode"]);
    let mut fields = ["name", "engine", "installed", "version", "path", "last_verified_version", "notes"];
    fields.sort_unstable();
    for row in rows {
        let mut found: Vec<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, fields);
    }
}

#[test]
fn a_configured_program_outranks_path_for_both_names_of_one_binary() {
    let ground = with_agents();
    let program = ground.script("mine/claude", "echo 2.1.197");
    ground.put("ostler/config.toml", &format!("[agents.claude]\nprogram = \"{}\"\n", program.display()));
    let rows: Vec<Value> = serde_json::from_str(&ground.run(&["agents", "--json"]).stdout).unwrap();
    for row in &rows[..2] {
        assert_eq!((row["version"].as_str(), row["path"].as_str()), (Some("2.1.197"), program.to_str()));
    }
}

#[test]
fn check_compares_and_its_exit_code_tells_what_does_not_start() {
    let ground = with_agents();
    ground.check("check_all", &["agents", "check"]);
    ground.check("check_verified", &["agents", "check", "codex"]);
    ground.check("check_newer", &["agents", "check", "opencode", "--json"]);
    ground.check("check_does_not_start", &["agents", "check", "claude"]);
    let empty = Ground::new();
    empty.check("check_not_installed", &["agents", "check", "codex"]);
    empty.check("check_not_installed_json", &["agents", "check", "codex", "--json"]);
    assert_eq!(empty.run(&["agents", "check"]).code, Some(0));
}

#[test]
fn a_probe_sees_none_of_our_variables_and_leaves_no_home_behind() {
    let ground = Ground::new().with("SECRET", "x");
    std::fs::create_dir(ground.at("tmp")).unwrap();
    let ground = {
        let tmp = ground.at("tmp");
        ground.with("TMPDIR", tmp)
    };
    ground.program("codex", "touch $HOME/trace; [ -z \"$SECRET\" ] && echo codex-cli 0.166.0");
    assert_eq!(ground.run(&["agents", "check", "codex"]).code, Some(0));
    assert_eq!(std::fs::read_dir(ground.at("tmp")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(ground.at("home")).unwrap().count(), 0);
}

/// Writes a file without permission to execute.
fn plain_file(ground: &Ground, path: &str, text: &str) -> String {
    ground.put(path, text).display().to_string()
}

#[test]
fn check_of_a_non_executable_binary_says_what_it_is_and_exits_non_zero() {
    let ground = Ground::new();
    let file = plain_file(&ground, "mine/codex", "#!/bin/sh\necho codex-cli 0.166.0\n");
    let folder = ground.at("project").display().to_string();
    std::os::unix::fs::symlink("/no/such/program", ground.at("dangling")).unwrap();
    let dangling = ground.at("dangling").display().to_string();
    let text = ground.script("mine/text", "").display().to_string();
    std::fs::write(&text, "no program at all\n").unwrap();
    let table = [
        (file.as_str(), "is a script that may not be executed", "does_not_start"),
        (&folder, "is a folder, not a program", "does_not_start"),
        (&dangling, "is a symbolic link to /no/such/program, which does not exist", "does_not_start"),
        (&text, "a text file without a `#!` line, does not start", "does_not_start"),
        ("/no/such/program", "does not exist", "not_installed"),
    ];
    for (program, want, verdict) in table {
        ground.put("ostler/config.toml", &format!("[agents.codex]\nprogram = {program:?}\n"));
        let named = ground.run(&["agents", "check", "codex"]);
        assert_eq!((named.code, named.stdout.as_str()), (Some(14), ""), "{program}");
        assert!(named.stderr.contains(program) && named.stderr.contains(want), "{}", named.stderr);
        assert!(named.stderr.contains("  try: "), "{}", named.stderr);
        // Without a name too: the exit code was 0.
        let all = ground.run(&["agents", "check"]);
        assert_eq!(all.code, Some(14), "{program}: {}", all.stdout);
        assert!(all.stdout.contains(want), "{}", all.stdout);
        let json = ground.run(&["agents", "check", "codex", "--json"]);
        let rows: Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!((json.code, &rows[0]["verdict"]), (Some(14), &verdict.into()), "{rows}");
        assert!(rows[0]["detail"].as_str().unwrap().contains(want), "{rows}");
        assert_eq!(ground.run(&["agents", "list"]).code, Some(0));
    }
}
