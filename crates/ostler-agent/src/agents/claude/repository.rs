//! What a repository brings that Claude Code would execute or obey, and how it is kept from doing so. Seen on 2.1.197 and
//! 2.1.325.

use std::path::Path;

use crate::agent::pairs;
use crate::repository_config::{ConfigEntry, InstructionFiles, RepositoryTrust, Untrusted};

const SETTINGS: &str = "runs hooks and helper programs, sets variables and permissions";

/// The rules and `CLAUDE.md` are text; it puts worktrees of its own there.
pub(super) static CONFIG: [ConfigEntry; 9] = [
    ConfigEntry::file(".claude/settings.json", SETTINGS),
    ConfigEntry::file(".claude/settings.local.json", SETTINGS),
    ConfigEntry::directory(".claude/hooks", "is run by hooks"),
    ConfigEntry::directory(".claude/commands", "adds commands"),
    ConfigEntry::directory(".claude/agents", "adds sub-agents"),
    ConfigEntry::directory(".claude/skills", "adds skills"),
    ConfigEntry::directory(".claude/plugins", "adds plugins"),
    ConfigEntry::directory(".claude", "configures the agent").without(&["CLAUDE.md", "rules", "worktrees"]),
    ConfigEntry::file(".mcp.json", "starts MCP servers"),
];

/// What `--add-dir` does not give back. It reads `CLAUDE.md` and the rules of the workspace alone.
pub(super) const INSTRUCTIONS: InstructionFiles = InstructionFiles {
    workspace: &[&["CLAUDE.local.md"]],
    above: &[&["CLAUDE.md"], &[".claude/CLAUDE.md"], &[".claude/rules/"], &["CLAUDE.local.md"]],
};

/// The arguments with which it loads nothing of the repository. They come last, because the last of a kind counts.
///
/// `--setting-sources user` alone also keeps `CLAUDE.md` from it. As an additional directory the workspace brings that
/// back, and the rules, and may not be changed more than it may be already.
pub(super) fn untrusted_args(untrusted: &Untrusted, workspace: &Path, is_strict: bool) -> Vec<String> {
    let mut args = vec!["--setting-sources=user".to_owned(), format!("--add-dir={}", workspace.display())];
    if !is_strict && brings_servers(untrusted) {
        args.push("--strict-mcp-config".to_owned());
    }
    args
}

/// The variables that go with them.
pub(super) fn untrusted_env(trust: RepositoryTrust<'_>) -> Vec<(String, String)> {
    match trust {
        RepositoryTrust::Nothing | RepositoryTrust::Trusted(_) => Vec::new(),
        RepositoryTrust::Untrusted(_) => {
            pairs([("CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD", "1".to_owned())])
        }
    }
}

/// What a person should know where their own MCP servers are left out too, as they are beside a bridge.
pub(super) fn strict_warning(untrusted: &Untrusted) -> Option<String> {
    let text = "your own MCP servers are not loaded either: Claude Code leaves out those of a repository only together \
                with yours";
    brings_servers(untrusted).then(|| text.to_owned())
}

fn brings_servers(untrusted: &Untrusted) -> bool {
    untrusted.files.iter().any(|file| file.ends_with(".mcp.json"))
}
