//! What Claude Code keeps on disk.

use super::transcript::slug;
use crate::jail::state::{AgentState, StateList, StatePlaces};

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

/// What a run writes, and no later one needs.
const PRIVATE: &[&str] = &[
    "backups/",
    "cache/",
    "debug/",
    "file-history/",
    "history.jsonl",
    "ide/",
    "plans/",
    "plugins/",
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
    let mut state = AgentState { directories: vec![settings.clone()], ..AgentState::default() };
    state.add(StateList::Credentials, &settings, &[".credentials.json"]);
    state.add(StateList::Hidden, &settings, &["projects/"]);
    state.add(StateList::Sessions, &projects, &[&project]);
    state.add(StateList::Settings, &settings, SETTINGS);
    state.add(StateList::Private, &settings, PRIVATE);
    // With `CLAUDE_CONFIG_DIR` it is in there.
    let general = if places.named("CLAUDE_CONFIG_DIR").is_some() { &settings } else { places.home };
    state.add(StateList::Private, general, &[".claude.json"]);
    state.create = vec![settings, projects.join(slug(places.workspace))];
    state
}
