//! `ostler trust`, and what `ostler run` makes of it, with agents that are scripts. Real agents: `e2e/real_shape/hostile.rs`.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::ground::Ground;

fn hostile() -> Ground {
    let ground = Ground::new();
    ground.put("project/.claude/settings.json", "{}");
    ground.put("project/.claude/skills/x/SKILL.md", "x");
    ground.put("project/.mcp.json", "{}");
    ground.put("project/.opencode/plugins/x.js", "x");
    ground.put("project/AGENTS.md", "x");
    ground
}

fn state(ground: &Ground, args: &[&str]) -> Value {
    let ended = ground.run(args);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn what_would_be_loaded_is_shown_and_trusted_only_with_consent() {
    let ground = hostile();
    ground.check("trust_unasked", &["trust"]);
    assert_eq!(state(&ground, &["trust", "--json"])["trusted"], json!(false));
    ground.check("trust_yes", &["trust", "--yes"]);
    ground.check("trust_again", &["trust"]);
    assert_eq!(state(&ground, &["trust", "--json"])["trusted"], json!(true));
    ground.put("project/.mcp.json", "{\"mcpServers\": {}}");
    ground.put("project/.claude/agents/x.md", "x");
    fs::remove_file(ground.at("project/.claude/skills/x/SKILL.md")).unwrap();
    ground.check("trust_changed", &["trust"]);
    let files = state(&ground, &["trust", "--json"])["files"].clone();
    let changed: Vec<_> = files
        .as_array()
        .unwrap()
        .iter()
        .filter(|file| !file["change"].is_null())
        .map(|file| (file["path"].as_str().unwrap(), file["change"].as_str().unwrap()))
        .collect();
    assert_eq!(changed, [(".claude/agents/x.md", "new"), (".mcp.json", "changed")]);
    ground.check("trust_revoke", &["trust", "--revoke"]);
    let listed = json!({"v": 1, "repositories": [], "projects": []});
    assert_eq!(state(&ground, &["trust", "--list", "--json"]), listed);
    ground.check("trust_none", &["trust", "--list"]);
}

#[test]
fn what_cannot_be_hashed_cannot_be_trusted() {
    let ground = hostile();
    assert!(Command::new("mkfifo").arg(ground.at("project/.claude/pipe")).status().unwrap().success());
    ground.check("trust_pipe", &["trust", "--yes"]);
    assert_eq!(
        state(&ground, &["trust", "--json"])["problem"],
        json!("`.claude/pipe` is not a regular file")
    );
}

#[test]
fn a_damaged_store_is_an_error_and_not_trust() {
    let ground = hostile();
    assert_eq!(ground.run(&["trust", "--yes"]).code, Some(0));
    let store = ground.at("ostler/trusted-repositories.json");
    let whole = fs::read_to_string(&store).unwrap();
    fs::write(&store, &whole[..whole.len() / 2]).unwrap();
    let agent = ground.program("claude", "echo '2.1.197 (Claude Code)'");
    ground.put("ostler/config.toml", &format!("[agents.claude-headless]\nprogram = {agent:?}\n"));
    for args in [&["trust"][..], &["trust", "--list"], &["run", "-a", "claude-headless", "x"]] {
        let ended = ground.run(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {}{}", ended.stdout, ended.stderr);
        assert!(ended.stderr.contains("trusted-repositories.json"), "{args:?}: {}", ended.stderr);
    }
}

/// Unattended nobody is asked; where no jail can mask the plugins, an agent that loads them is not started at all.
#[test]
fn an_agent_that_would_load_an_untrusted_repository_is_refused() {
    let ground = hostile();
    let agent = ground.program("opencode", "touch started; echo 1.18.33");
    ground.put("ostler/config.toml", &format!("[agents.opencode]\nprogram = {agent:?}\n"));
    for unmasked in [&["--permissions", "deny", "--no-jail"][..], &["--permissions", "all"]] {
        let args = [&["run", "-a", "opencode", "--max-cost", "1"], unmasked, &["x"]].concat();
        let ended = ground.run(&args);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains("it would load `.opencode/plugins/x.js`"), "{}", ended.stderr);
        assert!(ended.stderr.contains("`ostler trust "), "{}", ended.stderr);
    }
    assert!(!ground.at("project/started").exists());
    assert_eq!(ground.left(), ["config.toml"]);
}
