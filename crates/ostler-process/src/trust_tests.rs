use std::fs;

use ostler_agent::agents::{Claude, ClaudeTerminal, Codex, Command, OpenCode};

use super::*;

/// A user's home, a store, and a repository that brings something for every agent.
struct Ground {
    folder: tempfile::TempDir,
    gate: Gate,
}

impl Ground {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let gate = Gate::new(root.join("store.json"), Some(root.join("home")));
        let ground = Self { folder, gate };
        fs::create_dir_all(ground.at("home")).unwrap();
        fs::create_dir_all(ground.at("r/.git")).unwrap();
        ground.write("r/.claude/settings.json", "{}");
        ground.write("r/.codex/config.toml", "");
        ground.write("r/opencode.json", "{}");
        ground
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn trust(&self, path: &str) {
        let inspection = self.gate.inspect(&self.at(path));
        Store::change(&self.gate.store, |store| store.add(inspection.snapshots())).unwrap();
    }

    /// What is decided for an agent: `nothing`, `trusted`, or the files.
    fn decided(&self, agent: &dyn Agent, path: &str) -> String {
        match self.gate.decide(agent, &self.at(path)).unwrap() {
            Decision::Nothing => "nothing".to_owned(),
            Decision::Trusted(_) => "trusted".to_owned(),
            Decision::Untrusted(untrusted) => untrusted.files.join(" "),
        }
    }
}

#[test]
fn each_agent_is_asked_about_its_own_files() {
    let ground = Ground::new();
    assert_eq!(ground.decided(&Claude, "r"), ".claude/settings.json");
    assert_eq!(ground.decided(&ClaudeTerminal, "r"), ".claude/settings.json");
    assert_eq!(ground.decided(&Codex, "r"), ".codex/config.toml");
    assert_eq!(ground.decided(&OpenCode, "r"), "opencode.json");
    assert_eq!(ground.decided(&Command::parse("x").unwrap(), "r"), "nothing");
    ground.write("plain/README.md", "x");
    assert_eq!(ground.decided(&Claude, "plain"), "nothing");
}

#[test]
fn trust_ends_with_a_change_of_the_agents_own_files() {
    let ground = Ground::new();
    ground.trust("r");
    for agent in [&Claude as &dyn Agent, &Codex, &OpenCode] {
        assert_eq!(ground.decided(agent, "r"), "trusted");
    }
    ground.write("r/.claude/settings.json", "{\"hooks\": {}}");
    assert_eq!(ground.decided(&Claude, "r"), ".claude/settings.json");
    assert_eq!(ground.decided(&Codex, "r"), "trusted", "its files are the same");
    ground.write("r/.claude/settings.json", "{}");
    assert_eq!(ground.decided(&Claude, "r"), "trusted", "the same again");
    ground.write("r/.mcp.json", "{}");
    assert_eq!(ground.decided(&Claude, "r"), ".claude/settings.json .mcp.json");
    let changes = ground.gate.inspect(&ground.at("r")).changes(&Store::read(&ground.gate.store).unwrap());
    assert_eq!(changes, Some(vec![(".mcp.json".to_owned(), Change::New)]));
    fs::remove_file(ground.at("r/.mcp.json")).unwrap();
    fs::remove_file(ground.at("r/.claude/settings.json")).unwrap();
    assert_eq!(ground.decided(&Claude, "r"), "nothing", "nothing is left to load");
}

#[test]
fn directories_between_the_root_and_the_workspace_count() {
    let ground = Ground::new();
    ground.write("r/a/b/.mcp.json", "{}");
    ground.write("r/a/.claude/settings.json", "{}");
    assert_eq!(
        ground.decided(&Claude, "r/a/b"),
        ".claude/settings.json a/.claude/settings.json a/b/.mcp.json"
    );
    ground.trust("r");
    assert_eq!(ground.decided(&Claude, "r"), "trusted");
    assert!(ground.decided(&Claude, "r/a/b").contains("a/b/.mcp.json"), "more than what was trusted");
    ground.trust("r/a/b");
    assert_eq!(ground.decided(&Claude, "r/a/b"), "trusted");
    ground.write("r/a/.claude/settings.json", "{ }");
    assert_ne!(ground.decided(&Claude, "r/a/b"), "trusted");
    assert_eq!(ground.decided(&Claude, "r"), "trusted", "it is below");
}

#[test]
fn the_users_home_is_not_a_repository() {
    let ground = Ground::new();
    ground.write("home/.claude/settings.json", "{}");
    fs::create_dir_all(ground.at("home/work")).unwrap();
    assert_eq!(ground.decided(&Claude, "home/work"), "nothing");
    ground.write("home/work/.mcp.json", "{}");
    assert_eq!(ground.decided(&Claude, "home/work"), ".mcp.json");
    ground.write("stage/opencode.json", "{}");
    fs::create_dir_all(ground.at("stage/work")).unwrap();
    assert_eq!(ground.decided(&OpenCode, "stage/work"), ground.at("stage/opencode.json").to_str().unwrap());
    let gate = ground.gate.clone().with_home(ground.at("stage"));
    assert_eq!(gate.decide(&OpenCode, &ground.at("stage/work")).unwrap(), Decision::Nothing);
}

#[test]
fn worktrees_with_equal_files_share_trust() {
    let ground = Ground::new();
    fs::create_dir_all(ground.at("r/.git/worktrees/w")).unwrap();
    ground.write("w/.git", &format!("gitdir: {}\n", ground.at("r/.git/worktrees/w").display()));
    ground.write("r/.git/worktrees/w/gitdir", &format!("{}\n", ground.at("w/.git").display()));
    ground.write("r/.git/worktrees/w/commondir", "../..\n");
    ground.write("w/.claude/settings.json", "{}");
    assert_eq!(ground.decided(&Claude, "w"), ".claude/settings.json");
    ground.trust("r");
    assert_eq!(ground.decided(&Claude, "w"), "trusted");
    ground.write("w/.claude/settings.json", "{ }");
    assert_eq!(ground.decided(&Claude, "w"), ".claude/settings.json");
    ground.write("copy/.claude/settings.json", "{}");
    assert_eq!(ground.decided(&Claude, "copy"), ".claude/settings.json", "another repository");
}

#[test]
fn what_cannot_be_read_is_not_trusted_and_says_why() {
    let ground = Ground::new();
    ground.trust("r");
    std::os::unix::fs::symlink("/dev/zero", ground.at("r/opencode.jsonc")).unwrap();
    let Decision::Untrusted(untrusted) = ground.gate.decide(&OpenCode, &ground.at("r")).unwrap() else {
        panic!("it is trusted");
    };
    assert_eq!(untrusted.problem.as_deref(), Some("`opencode.jsonc` is not a regular file"));
    assert!(untrusted.refuse_unmasked("opencode").is_err());
    assert_eq!(ground.decided(&Claude, "r"), "trusted", "it is not for this agent");
}

#[test]
fn a_damaged_store_is_an_error_only_where_there_is_something_to_trust() {
    let ground = Ground::new();
    ground.write("store.json", "{");
    ground.write("plain/README.md", "x");
    assert!(ground.gate.decide(&Claude, &ground.at("r")).is_err());
    assert_eq!(ground.decided(&Claude, "plain"), "nothing");
}

#[test]
fn a_projects_own_configuration_is_trusted_by_its_content() {
    let ground = Ground::new();
    let path = ".ostler/config.toml";
    ground.write("r/.ostler/config.toml", "a = 1");
    let trusts = |text: &str| ground.gate.trusts_config(&ground.at("r"), path, text.as_bytes()).unwrap();
    assert!(!trusts("a = 1"));
    ground.trust("r");
    assert!(trusts("a = 1") && !trusts("a = 2"));
}
