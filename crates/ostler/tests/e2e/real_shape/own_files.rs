//! The user's own configuration of an agent: a run reads it and does not change it, whatever the agent tries. Only sign-ins
//! and records of sessions are written through. `OSTLER_TEST_RUNS` says how many runs there are of each agent.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::RealShape;
use crate::player::Player;

/// Changes what is there, and makes what a later start would obey. Prints what it could read.
const ATTEMPTS: &str = r#"
for name in SETTINGS; do echo broken > "$HOME/$name"; rm -f "$HOME/$name"; done
for name in NEW; do mkdir -p "$(dirname "$HOME/$name")"; echo evil > "$HOME/$name"; done
mv "$HOME/OWN" "$HOME/OWN.moved"
cat "$HOME/OWN/script.sh" "$HOME/OTHER" "$HOME/HISTORY"
echo end of attempts
"#;

/// What one agent has in the home directory.
struct Plan {
    /// Settings that are there, from the configuration of the test or from here.
    settings: &'static [&'static str],
    /// Settings that are not there.
    new: &'static [&'static str],
    /// The agent's directory.
    own: &'static str,
    /// Records of another project, which are hidden; nothing if the agent keeps those of all projects together.
    other: &'static str,
    /// What was typed before.
    history: &'static str,
    /// The directories and files that are written through.
    through: &'static [&'static str],
}

fn plan(player: Player) -> Plan {
    match player.agent().package().slot {
        "claude" => Plan {
            settings: &[
                ".claude/settings.json",
                ".claude/CLAUDE.md",
                ".claude.json",
                ".claude/plugins/known.json",
            ],
            new: &[
                ".claude/settings.local.json",
                ".claude/commands/evil.md",
                ".claude/hooks/x",
                ".claude/plugins/x",
            ],
            own: ".claude",
            other: ".claude/projects/-somewhere-else/1.jsonl",
            history: ".claude/history.jsonl",
            through: &[".claude/projects/"],
        },
        "codex" => Plan {
            settings: &[".codex/config.toml", ".codex/AGENTS.md", ".codex/skills/mine/SKILL.md"],
            new: &[".codex/hooks.json", ".codex/prompts/evil.md", ".codex/skills/evil/SKILL.md"],
            own: ".codex",
            other: ".codex/archived_sessions/1.jsonl",
            history: ".codex/history.jsonl",
            through: &[".codex/sessions/"],
        },
        "opencode" => Plan {
            settings: &[
                ".config/opencode/opencode.json",
                ".config/opencode/AGENTS.md",
                ".cache/opencode/bin/tool",
            ],
            new: &[
                ".config/opencode/plugin/evil.js",
                ".cache/opencode/bin/evil",
                ".local/share/opencode/bin/evil",
            ],
            own: ".config/opencode",
            other: "",
            history: ".local/state/opencode/prompt-history.jsonl",
            through: &[".local/share/opencode/opencode.db"],
        },
        other => panic!("what {other} keeps is not known"),
    }
}

/// All files below a directory, with their content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut left = vec![folder.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => left.push(entry.path()),
                false => drop(all.insert(entry.path(), fs::read(entry.path()).unwrap_or_default())),
            }
        }
    }
    all
}

fn stays_as_it_is(player: Player, level: &str) {
    let Some(shape) = RealShape::unprivileged(player) else { return };
    let (plan, home) = (plan(player), shape.at("home"));
    let shell = |command: &str| match player {
        Player::Codex => json!({"tool": "exec_command", "arguments": {"cmd": command}}),
        Player::OpenCode => json!({"tool": "bash", "arguments": {"command": command, "description": "Try"}}),
        _ => json!({"tool": "Bash", "arguments": {"command": command, "description": "Try"}}),
    };
    let attempts = ATTEMPTS
        .replace("SETTINGS", &plan.settings.join(" "))
        .replace("NEW", &plan.new.join(" "))
        .replace("OWN", plan.own)
        .replace("OTHER", plan.other)
        .replace("HISTORY", plan.history);
    fs::write(shape.workspace().join("attempts.sh"), attempts).unwrap();
    let steps = json!([{"reply": [shell("sh attempts.sh")]}, {"reply": [{"text": "I tried."}]}]);
    let provider = shape.play(&json!({"v": 1, "conversation": [{"step": steps}]}).to_string());
    let planted = [(plan.other, "the other project's"), (plan.history, "typed before")];
    let script = format!("{}/script.sh", plan.own);
    let planted =
        planted.into_iter().filter(|(path, _)| !path.is_empty()).chain([(script.as_str(), "my script")]);
    for (path, content) in planted.chain(plan.settings.iter().map(|path| (*path, "the user's own\n"))) {
        let path = home.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if !path.exists() {
            fs::write(path, content).unwrap();
        }
    }
    let before = files(&home);
    let runs = std::env::var("OSTLER_TEST_RUNS").map_or(1, |runs| runs.parse().unwrap());
    for _ in 0..runs {
        let ended =
            crate::yard::Ended::of(crate::yard::ended(shape.start(&["--permissions", level, "Try."])));
        ended.ends("completed", 0);
        assert_eq!(ended.outcome()["jail"]["kind"], "namespace");
        if level == "edits" {
            let texts: Vec<&str> = ended
                .with("event", "tool_ended")
                .filter_map(|line| line["result"]["text"].as_str())
                .collect();
            let text = texts.join("\n");
            assert!(text.contains("my script") && text.contains("end of attempts"), "{text}");
            assert!(!text.contains("the other project's") && !text.contains("typed before"), "{text}");
        }
    }
    drop(provider);
    shape.is_empty();
    let is_through = |path: &&PathBuf| {
        let path = path.strip_prefix(&home).unwrap().display().to_string();
        plan.through.iter().any(|through| path.starts_with(through))
    };
    let after = files(&home);
    let changed: Vec<&PathBuf> = after
        .iter()
        .filter(|(path, content)| before.get(*path) != Some(*content))
        .map(|(path, _)| path)
        .chain(before.keys().filter(|path| !after.contains_key(*path)))
        .filter(|path| !is_through(path))
        .collect();
    assert_eq!(changed, Vec::<&PathBuf>::new());
    assert!(after.keys().any(|path| is_through(&path)), "the session's record is there");
}

#[test]
fn claude_over_pipes() {
    stays_as_it_is(Player::ClaudeStream, "edits");
}

#[test]
fn claude_over_pipes_at_deny() {
    stays_as_it_is(Player::ClaudeStream, "deny");
}

#[test]
fn claude_on_a_terminal() {
    stays_as_it_is(Player::ClaudeTerminal, "edits");
}

#[test]
fn a_newer_claude_on_a_terminal() {
    stays_as_it_is(Player::ClaudeTerminalNewer, "edits");
}

#[test]
fn codex() {
    stays_as_it_is(Player::Codex, "edits");
}

#[test]
fn opencode() {
    stays_as_it_is(Player::OpenCode, "edits");
}

/// A hook whose script is not there fails inside the agent, where nobody sees it.
#[test]
fn a_script_that_settings_name_and_the_jail_hides_is_reported() {
    let Some(shape) = RealShape::of(Player::ClaudeStream) else { return };
    let _provider = shape.play("[[conversation]]\n[[conversation.step]]\nreply = [{ text = \"Done.\" }]\n");
    let (script, settings) = (shape.at("home/bin/hook.sh"), shape.at("home/.claude/settings.json"));
    fs::create_dir(shape.at("home/bin")).unwrap();
    fs::write(&script, "#!/bin/sh\n").unwrap();
    let mut own: serde_json::Value = serde_json::from_slice(&fs::read(&settings).unwrap()).unwrap();
    let hook = json!([{"hooks": [{"type": "command", "command": format!("{} --all", script.display())}]}]);
    own["hooks"] = json!({"Stop": hook});
    fs::write(&settings, own.to_string()).unwrap();
    let run = |shape: &RealShape| {
        let ended = crate::yard::Ended::of(crate::yard::ended(shape.start(&["Do it."])));
        ended.ends("completed", 0);
        let texts = ended.with("kind", "warn").filter_map(|line| line["text"].as_str());
        texts.filter(|text| text.contains("hook.sh")).map(str::to_owned).collect::<Vec<_>>()
    };
    let want = format!(
        "{} names {}, which the jail does not show; add that to [jail] read",
        settings.display(),
        script.display()
    );
    assert_eq!(run(&shape), [want]);
    let shape = shape.configured(&format!("[jail]\nread = [{:?}]\n", script.parent().unwrap()));
    assert_eq!(run(&shape), Vec::<String>::new());
}
