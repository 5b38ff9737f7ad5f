//! What OpenCode keeps on disk: below the four XDG directories.

use crate::jail::state::{AgentState, StateEntry, StateForm, StateList, StatePlaces};

/// One database for all projects. `storage/` is what earlier versions had in its place.
const SESSIONS: &[&str] = &["opencode.db*", "opencode-*", "storage/"];

/// What a run writes beside it, and what of it a later start would execute: programs, and repositories of git whose
/// configuration names programs.
const PRIVATE: &[&str] = &["bin/", "log/", "repos/", "snapshot/", "tool-output/"];

/// Settings and instructions that the next start obeys, code among them.
const SETTINGS: &[&str] = &[
    "AGENTS.md",
    "config.json",
    "opencode.json",
    "opencode.jsonc",
    "tui.json",
    "agent/",
    "agents/",
    "command/",
    "commands/",
    "mode/",
    "modes/",
    "plugin/",
    "plugins/",
    "skill/",
    "skills/",
    "themes/",
    "tool/",
    "tools/",
];

pub(super) fn state(places: &StatePlaces<'_>) -> AgentState {
    let folder = |variable, usual| places.folder(variable, usual).join("opencode");
    let data = folder("XDG_DATA_HOME", ".local/share");
    let config = folder("XDG_CONFIG_HOME", ".config");
    let cache = folder("XDG_CACHE_HOME", ".cache");
    let kept = folder("XDG_STATE_HOME", ".local/state");
    let mut state = AgentState::default();
    state.add(StateList::Credentials, &data, &["auth.json", "mcp-auth.json"]);
    state.add(StateList::Sessions, &data, SESSIONS);
    state.add(StateList::Private, &data, PRIVATE);
    state.add(StateList::Settings, &config, SETTINGS);
    state.add(StateList::Copied, &config, &[".gitignore", "package.json", "bun.lock"]);
    state.add(StateList::Copied, &cache, &["models.json", "version"]);
    let named = ["OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR"].into_iter().filter_map(|name| places.named(name));
    let entry = |path, list| StateEntry { path, form: StateForm::Directory, list };
    state.entries.extend(named.map(|path| entry(path, StateList::Settings)));
    state.entries.push(entry(kept.clone(), StateList::Private));
    state.databases = vec![data.clone()];
    state.create = PRIVATE.iter().map(|name| data.join(name)).collect();
    state.directories = vec![data, config, cache, kept];
    state.create.extend_from_slice(&state.directories);
    state
}
