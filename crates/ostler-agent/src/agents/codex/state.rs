//! What Codex keeps on disk.

use crate::jail::state::{AgentState, StateList, StatePlaces};

/// Session records: by day, not by project, so that those of other projects cannot be told apart.
const SESSIONS: &[&str] =
    &["sessions/", "thread_history_*", "state_*", "goals_*", "memories_*", "queue_*", "session_index.jsonl"];

/// Settings and instructions that the next start obeys. It writes trust entries into the first one, and goes on without
/// a word if it cannot.
const SETTINGS: &[&str] =
    &["config.toml", "hooks.json", "AGENTS.md", "AGENTS.override.md", "prompts/", "rules/", "plugins/"];

/// What a run writes, and no later one needs.
const PRIVATE: &[&str] = &[
    ".sandbox_migration",
    "auth.lock",
    "cache/",
    "history.jsonl",
    "installation_id",
    "log/",
    "logs_*",
    "models_cache.json",
    "shell_snapshots/",
    "skills/",
    "thread-writer-locks/",
    "tmp/",
    "version.json",
];

pub(super) fn state(places: &StatePlaces<'_>) -> AgentState {
    let home = places.folder("CODEX_HOME", ".codex");
    let mut state = AgentState { directories: vec![home.clone()], ..AgentState::default() };
    state.add(StateList::Credentials, &home, &["auth.json"]);
    state.add(StateList::Sessions, &home, SESSIONS);
    state.add(StateList::Settings, &home, SETTINGS);
    state.add(StateList::Private, &home, PRIVATE);
    state.add(StateList::Hidden, &home, &["archived_sessions/"]);
    // A directory that the variable names it does not make.
    if places.named("CODEX_HOME").is_none() {
        state.create.push(home);
    }
    state
}
