//! What Claude Code keeps on disk.

use super::transcript::slug;
use crate::jail::state::{AgentState, SignIn, StateList, StatePlaces};

/// Names the directory of the sign-in, where that is not the one of the settings.
const STORAGE: &str = "CLAUDE_SECURESTORAGE_CONFIG_DIR";

/// Locks of the sign-in: one while tokens are refreshed, one while the file is written.
const LOCKS: &[&str] = &[".oauth_refresh.lock", ".storage-write.lock"];

/// Settings and instructions that a run does not write and that the next start obeys.
const SETTINGS: &[&str] = &[
    "settings.json",
    "settings.local.json",
    "keybindings.json",
    "CLAUDE.md",
    "agents/",
    "commands/",
    "hooks/",
    "output-styles/",
    "rules/",
    "skills/",
];

/// What a run writes, and neither the user nor a later run needs; and what belongs to other sessions: prompts, pasted text,
/// keys of a background service.
const PRIVATE: &[&str] = &[
    ".last-cleanup",
    "backups/",
    "cache/",
    "daemon/",
    "daemon.scheduled.status.json",
    "daemon.status.json",
    "debug/",
    "dump-prompts/",
    "feedback-bundles/",
    "file-history/",
    "gh-pr-status-cache.json",
    "hfi-auth.json",
    "history.jsonl",
    "ide/",
    "image-cache/",
    "jobs/",
    "mcp-needs-auth-cache.json",
    "paste-cache/",
    "plans/",
    "session-env/",
    "sessions/",
    "shares/",
    "shell-snapshots/",
    "startup-perf/",
    "stats-cache.json",
    "statsig/",
    "tasks/",
    "teams/",
    "telemetry/",
    "todos/",
    "traces/",
    "uploads/",
    "usage-data/",
];

/// The directory of this project's sessions is granted alone: those of other projects are beside it.
pub(super) fn state(places: &StatePlaces<'_>) -> AgentState {
    let settings = places.folder("CLAUDE_CONFIG_DIR", ".claude");
    let projects = settings.join("projects");
    let project = format!("{}/", slug(places.workspace));
    // It writes beside the plugins that the user installed.
    let directories = vec![settings.clone(), settings.join("plugins")];
    let mut state = AgentState { directories, ..AgentState::default() };
    // An empty value of the variable means the usual directory.
    let sign_in = places.named(STORAGE).unwrap_or_else(|| settings.clone());
    state.add(StateList::Credentials, &sign_in, &[".credentials.json"]);
    state.sign_in = Some(SignIn { file: sign_in.join(".credentials.json"), variable: STORAGE, locks: LOCKS });
    state.add(StateList::Hidden, &settings, &["projects/"]);
    state.add(StateList::Sessions, &projects, &[&project]);
    state.add(StateList::Settings, &settings, SETTINGS);
    state.add(StateList::Private, &settings, PRIVATE);
    // With `CLAUDE_CONFIG_DIR` it is in there.
    let general = if places.named("CLAUDE_CONFIG_DIR").is_some() { &settings } else { places.home };
    state.add(StateList::Copied, general, &[".claude.json"]);
    // Where earlier versions had it.
    state.add(StateList::Copied, &settings, &[".config.json"]);
    state.create = vec![settings, projects.join(slug(places.workspace))];
    state
}
