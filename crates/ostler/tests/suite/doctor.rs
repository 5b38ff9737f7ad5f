//! `ostler doctor`.

use serde_json::Value;

use crate::ground::Ground;

/// What the kernel offers differs between machines; the rest does not.
fn without_kernel(text: &str) -> String {
    text.lines()
        .filter(|line| !["cgroup", "pidfd", "userns"].iter().any(|name| line.contains(name)))
        .fold(String::new(), |text, line| text + line + "\n")
}

#[test]
fn an_empty_machine_is_healthy_and_gets_advice() {
    let ground = Ground::new();
    let ended = ground.run(&["doctor"]);
    assert_eq!(ended.code, Some(0));
    let told = without_kernel(&ended.stdout);
    for want in [
        "ok       home ",
        "will be created when it is needed",
        "missing  codex            not installed\n",
        "try: ostler agents install codex\n",
        "missing  npm              installing agents needs npm, and there is no `npm` on PATH\n",
        "missing  git              not on PATH; used by agents\n",
        "try: install git by your system's package manager\n",
        "missing  node             not on PATH; needed by npm\n",
        "try: install Node.js, which brings npm too\n",
    ] {
        assert!(told.contains(want), "{want}\n---\n{told}");
    }
    assert!(!ground.at("ostler").exists());
}

#[test]
fn what_is_here_is_told_with_its_version_and_place() {
    let ground = Ground::new();
    ground.program("codex", "echo codex-cli 0.166.0");
    ground.program("opencode", "exit 3");
    let npm = ground.program("npm", "echo 11.0.0");
    let git = ground.program("git", "echo git version 2.51.0");
    let node = ground.program("node", "exit 1");
    ground.program("claude", "echo 2.1.197");
    ground.put("ostler/config.toml", "");
    let report: Value = serde_json::from_str(&ground.run(&["doctor", "--json"]).stdout).unwrap();
    let find = |name: &str| {
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == name).unwrap()
    };
    let status = |name: &str| {
        let check = find(name);
        (check["status"].as_str().unwrap(), check["detail"].as_str().unwrap())
    };
    assert_eq!((report["v"].as_u64(), report["healthy"].as_bool()), (Some(1), Some(true)));
    assert_eq!(status("home").0, "ok");
    // The machines that run these tests have a wall; `jail::escapes` fails on one that has none.
    assert!(status("jail").1.contains("Landlock"), "{:?}", status("jail"));
    assert_eq!(
        status("codex"),
        ("note", "0.166.0, verified, on PATH; a script: stopping it may leave the agent running")
    );
    assert!(status("opencode").1.contains("ended with exit status: 3"));
    assert_eq!(status("opencode").0, "missing");
    assert_eq!(status("npm"), ("ok", "11.0.0; needed only to install agents"));
    assert_eq!(status("git"), ("ok", "2.51.0; used by agents"));
    for (name, path) in [("npm", npm), ("git", git), ("node", node.clone())] {
        assert_eq!(find(name)["path"].as_str(), path.to_str(), "{name}");
    }
    let remedy = format!("start `{} --version` by hand to see what is wrong", node.display());
    assert_eq!((status("node").0, find("node")["try"].as_str()), ("missing", Some(remedy.as_str())));
    assert_eq!(status("claude").0, "note");
}

#[test]
fn a_configured_program_that_is_broken_is_mended_where_it_is_set() {
    let ground = Ground::new();
    let broken = ground.script("mine/codex", "exit 3");
    let text = format!("[agents]\ncodex.program = \"{}\"\nclaude.program = \"/none\"\n", broken.display());
    let file = ground.put("ostler/config.toml", &text);
    let told = ground.run(&["doctor"]).stdout;
    for (key, line) in [("agents.codex.program", 2), ("agents.claude.program", 3)] {
        let want = format!("try: correct or remove `{key}` ({}, line {line})\n", file.display());
        assert!(told.contains(&want), "{want}\n---\n{told}");
    }
    assert!(!told.contains("ostler agents install codex"), "{told}");
}

#[test]
fn a_broken_config_is_broken_health() {
    let ground = Ground::new();
    ground.put("ostler/config.toml", "displya = 1\n");
    let ended = ground.run(&["doctor"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), ""));
    let want = "line 1: unknown key `displya`; what follows is by the defaults\n";
    assert!(ended.stdout.contains(want), "{}", ended.stdout);
    assert!(ended.stdout.contains("missing  codex            not installed\n"), "{}", ended.stdout);
    assert!(ended.stdout.contains("missing  npm "), "{}", ended.stdout);
    assert!(ended.stdout.contains("try: did you mean `display`?\n"), "{}", ended.stdout);
}
