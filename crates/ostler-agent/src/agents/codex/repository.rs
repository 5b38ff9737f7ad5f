//! What a repository brings that Codex would execute or obey, and how it is kept from doing so. Seen on 0.166.0.

use serde_json::json;

use crate::repository_config::{ConfigEntry, InstructionFiles, RepositoryTrust};

pub(super) static CONFIG: [ConfigEntry; 5] = [
    ConfigEntry::file(".codex/config.toml", "starts MCP servers, sets instructions and options"),
    ConfigEntry::file(".codex/hooks.json", "runs hooks"),
    ConfigEntry::directory(".codex/skills", "adds skills"),
    ConfigEntry::directory(".codex", "configures the agent"),
    ConfigEntry::directory(".agents", "adds skills"),
];

/// In a project that it does not trust it reads no `AGENTS.md`.
pub(super) const INSTRUCTIONS: InstructionFiles = InstructionFiles {
    workspace: &[&["AGENTS.override.md", "AGENTS.md"]],
    above: &[&["AGENTS.override.md", "AGENTS.md"]],
};

/// What it is told of the trust in the repository. Every directory is named, because it looks each up by itself: below a
/// root that the user's settings trust, the workspace alone would not do. As one table, because the dotted form has no
/// effect.
pub(super) fn trust_args(trust: RepositoryTrust<'_>) -> Vec<String> {
    let (directories, level) = match trust {
        RepositoryTrust::Nothing => return Vec::new(),
        RepositoryTrust::Trusted(trusted) => (&trusted.directories, "trusted"),
        RepositoryTrust::Untrusted(untrusted) => (&untrusted.directories, "untrusted"),
    };
    let projects: Vec<String> = directories
        .iter()
        .map(|directory| format!("{}={{trust_level=\"{level}\"}}", json!(directory.to_string_lossy())))
        .collect();
    let mut args = vec!["-c".to_owned(), format!("projects={{{}}}", projects.join(","))];
    if let RepositoryTrust::Untrusted(untrusted) = trust
        && untrusted.has_skills()
    {
        // It lists the skills of a repository that it does not trust.
        args.extend(["-c".to_owned(), "skills.include_instructions=false".to_owned()]);
    }
    args
}
