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
    ground.program("npm", "echo 11.0.0");
    ground.program("git", "echo git version 2.51.0");
    ground.put("ostler/config.toml", "");
    let report: Value = serde_json::from_str(&ground.run(&["doctor", "--json"]).stdout).unwrap();
    let status = |name: &str| {
        let checks = report["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == name).unwrap();
        (check["status"].as_str().unwrap(), check["detail"].as_str().unwrap())
    };
    assert_eq!((report["v"].as_u64(), report["healthy"].as_bool()), (Some(1), Some(true)));
    assert_eq!(status("home").0, "ok");
    assert_eq!(
        status("codex"),
        ("note", "0.166.0, verified, on PATH; a script: stopping it may leave the agent running")
    );
    assert!(status("opencode").1.contains("ended with exit status: 3"));
    assert_eq!(status("opencode").0, "missing");
    assert!(status("npm").1.starts_with("11.0.0, "));
    assert!(status("git").1.starts_with("2.51.0, "));
}

#[test]
fn a_broken_config_is_broken_health() {
    let ground = Ground::new();
    ground.put("ostler/config.toml", "displya = 1\n");
    let ended = ground.run(&["doctor"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), ""));
    assert!(ended.stdout.contains("line 1: unknown key `displya`\n"), "{}", ended.stdout);
    assert!(ended.stdout.contains("try: did you mean `display`?\n"), "{}", ended.stdout);
}
