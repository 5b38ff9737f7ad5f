//! What Codex keeps on disk.

use crate::jail::state::{AgentState, StateList, StatePlaces};

/// Session records: by day, not by project, so that those of other projects cannot be told apart.
const SESSIONS: &[&str] = &["sessions/"];

/// Settings and instructions that the next start obeys. It writes trust entries into the first one, and goes on without
/// a word if it cannot.
const SETTINGS: &[&str] =
    &["config.toml", "hooks.json", "AGENTS.md", "AGENTS.override.md", "prompts/", "rules/", "plugins/"];

/// What a run writes, and neither the user nor a later run needs. The databases are indexes of the session records, made
/// anew where they are missing.
const PRIVATE: &[&str] = &[
    ".sandbox_migration",
    "cache/",
    "goals_*",
    "history.jsonl",
    "log/",
    "logs_*",
    "memories_*",
    "queue_*",
    "session_index.jsonl",
    "shell_snapshots/",
    "skills/.system/",
    "state_*",
    "thread-writer-locks/",
    "thread_history_*",
    "tmp/",
];

/// What a run reads and writes.
const COPIED: &[&str] = &["installation_id", "models_cache.json", "version.json"];

pub(super) fn state(places: &StatePlaces<'_>) -> AgentState {
    let home = places.folder("CODEX_HOME", ".codex");
    // It installs skills of its own beside the user's.
    let directories = vec![home.clone(), home.join("skills")];
    let mut state = AgentState { directories, ..AgentState::default() };
    // Who refreshes the tokens locks the second one.
    state.add(StateList::Credentials, &home, &["auth.json", "auth.lock"]);
    state.add(StateList::Sessions, &home, SESSIONS);
    state.add(StateList::Settings, &home, SETTINGS);
    state.add(StateList::Private, &home, PRIVATE);
    state.add(StateList::Copied, &home, COPIED);
    state.add(StateList::Hidden, &home, &["archived_sessions/"]);
    state.create.push(home.join("sessions"));
    // A directory that the variable names it does not make.
    if places.named("CODEX_HOME").is_none() {
        state.create.push(home);
    }
    state
}
