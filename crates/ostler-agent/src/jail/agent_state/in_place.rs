//! Behind Landlock alone nothing can be put in the place of another file: the agent writes to its own directories, but for
//! settings that are there.

use std::path::PathBuf;

use super::super::rule_set::RuleSet;
use super::super::state::{AgentState, StateEntry, StateForm, StateList};
use super::super::{Access, JailFacts};
use super::{StateFolder, StateGrants, named_entries, rebase, unseen_link};

pub(super) fn grant(
    rules: &mut RuleSet<'_>,
    facts: &JailFacts<'_>,
    state: &AgentState,
    folders: &[StateFolder],
) -> StateGrants {
    for folder in folders {
        rules.push(folder.real.clone(), Access::Write);
        if folder.path != folder.real {
            rules.push(folder.path.clone(), Access::Write);
        }
        if state.create.contains(&folder.path) {
            rules.create_directory(folder.real.clone());
        }
    }
    // What is granted in a hidden directory comes after it.
    let lists = [StateList::Hidden, StateList::Sessions, StateList::Settings, StateList::Copied];
    for entry in
        lists.into_iter().flat_map(|list| state.entries.iter().filter(move |entry| entry.list == list))
    {
        grant_entry(rules, facts, state, entry, rebase(folders, &entry.path));
    }
    let warnings = named_entries(state, StateList::Settings)
        .filter_map(|entry| unseen_link(rules, facts, &entry.path, &rebase(folders, &entry.path)?));
    let settings = named_entries(state, StateList::Settings).map(|entry| entry.path.clone());
    StateGrants { warnings: warnings.collect(), settings: settings.collect(), ..StateGrants::default() }
}

fn grant_entry(
    rules: &mut RuleSet<'_>,
    facts: &JailFacts<'_>,
    state: &AgentState,
    entry: &StateEntry,
    real: Option<PathBuf>,
) {
    let is_named = entry.form != StateForm::Prefix;
    match (entry.list, real) {
        (StateList::Hidden, Some(real)) if is_named => rules.push(real, Access::Hidden),
        (StateList::Settings, Some(real)) if is_named => rules.push(real, Access::Guarded),
        (StateList::Sessions, Some(real)) if is_named && !rules.is_visible(&real) => {
            if state.create.contains(&entry.path) {
                rules.create_directory(real.clone());
            }
            rules.push(real, Access::Write);
        }
        (StateList::Settings, None) => rules.read(&entry.path),
        // Beside the agent's directories.
        (StateList::Copied, None) if facts.home.parent().is_some() => {
            rules.grant(&entry.path, Access::Write);
        }
        // The agent's directories are granted as a whole.
        _ => {}
    }
}
