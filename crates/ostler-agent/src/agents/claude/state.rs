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

/// What a run writes, and neither the user nor a later run needs.
const PRIVATE: &[&str] = &[
    "backups/",
    "cache/",
    "debug/",
    "file-history/",
    "history.jsonl",
    "ide/",
    "plans/",
    "session-env/",
    "sessions/",
    "shell-snapshots/",
    "statsig/",
    "tasks/",
    "todos/",
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
    state.create = vec![settings, projects.join(slug(places.workspace))];
    state
}
