//! What a run sees of its agent's own files, and what of them it changes.

use std::path::{Path, PathBuf};

use super::never::{Boundary, Obstacle};
use super::refusal::{JailRefusal, WorkspaceFault};
use super::rule_set::RuleSet;
use super::state::{AgentState, StateEntry, StateForm, StateList, StatePlaces};
use super::{Access, JailFacts};

/// Grants the agent's own directories: their settings are guarded, session records of other projects hidden. Returns what
/// a person should know.
///
/// What is in them may have been written by a jailed agent, links included: nothing outside them is granted because a link
/// in them leads there.
pub(super) fn grant(
    rules: &mut RuleSet<'_>,
    facts: &JailFacts<'_>,
    boundary: &Boundary,
) -> Result<Vec<String>, JailRefusal> {
    let places = StatePlaces { home: facts.home, variable: facts.variable, workspace: facts.workspace };
    let state = facts.agent.state(&places);
    let mut folders = Vec::new();
    for folder in &state.directories {
        let is_made = state.create.contains(folder);
        let Some(real) = settled(facts, folder, is_made) else { continue };
        let is_own = boundary.exempt.iter().any(|own| real.starts_with(own));
        if facts.workspace.starts_with(&real) && !is_own {
            let reason = WorkspaceFault::AgentsOwn(real);
            return Err(JailRefusal::Workspace { workspace: facts.workspace.to_owned(), reason });
        }
        if !is_own {
            grant_folder(rules, boundary, folder, &real, is_made)?;
            folders.push((folder.clone(), real));
        }
    }
    check_links(facts, &state, &folders)?;
    // What is granted in a hidden directory comes after it.
    for list in [StateList::Hidden, StateList::Sessions, StateList::Settings, StateList::Private] {
        for entry in state.entries.iter().filter(|entry| entry.list == list) {
            grant_entry(rules, facts, &state, entry, rebase(&folders, &entry.path));
        }
    }
    Ok(warnings(rules, facts, &state, &folders))
}

fn grant_folder(
    rules: &mut RuleSet<'_>,
    boundary: &Boundary,
    folder: &Path,
    real: &Path,
    is_made: bool,
) -> Result<(), JailRefusal> {
    let shows = match boundary.obstacle(real) {
        Some(Obstacle::Inside(root) | Obstacle::Above(root)) => Some(root),
        Some(Obstacle::NoFiles) => Some(real.to_owned()),
        None => None,
    };
    if let Some(shows) = shows {
        return Err(JailRefusal::State { path: folder.to_owned(), shows });
    }
    rules.push(real.to_owned(), Access::Write);
    if folder != real {
        rules.push(folder.to_owned(), Access::Write);
    }
    if is_made {
        rules.create_directory(real.to_owned());
    }
    Ok(())
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
        // Beside the agent's directories. If it is missing, the agent makes one in the private home.
        (StateList::Private, None) if facts.home.parent().is_some() => {
            rules.grant(&entry.path, Access::Write);
        }
        // The agent's directories are granted as a whole.
        _ => {}
    }
}

/// A path in one of the agent's directories, by that directory without links.
fn rebase(folders: &[(PathBuf, PathBuf)], path: &Path) -> Option<PathBuf> {
    folders.iter().find_map(|(folder, real)| Some(real.join(path.strip_prefix(folder).ok()?)))
}

/// A path without links. What does not exist yet is below what does, if it will be made.
fn settled(facts: &JailFacts<'_>, path: &Path, is_made: bool) -> Option<PathBuf> {
    let found = (facts.real_path)(path);
    let parent = || Some(settled(facts, path.parent()?, true)?.join(path.file_name()?));
    found.or_else(|| parent().filter(|_| is_made))
}

/// What is written through must not lead elsewhere: a link there would have the run write to whatever it names.
fn check_links(
    facts: &JailFacts<'_>,
    state: &AgentState,
    folders: &[(PathBuf, PathBuf)],
) -> Result<(), JailRefusal> {
    for entry in &state.entries {
        let is_checked = entry.list.is_written_through() && entry.form != StateForm::Prefix;
        let Some(want) = rebase(folders, &entry.path).filter(|_| is_checked) else { continue };
        if let Some(target) = settled(facts, &entry.path, true).filter(|target| *target != want) {
            return Err(JailRefusal::StateElsewhere { path: entry.path.clone(), target });
        }
    }
    Ok(())
}

/// Settings that are links to what the jail does not show.
fn warnings(
    rules: &RuleSet<'_>,
    facts: &JailFacts<'_>,
    state: &AgentState,
    folders: &[(PathBuf, PathBuf)],
) -> Vec<String> {
    let settings = state.entries.iter().filter(|entry| entry.list == StateList::Settings);
    let unseen = settings.filter_map(|entry| {
        let want = rebase(folders, &entry.path)?;
        let target = (facts.real_path)(&entry.path).filter(|target| *target != want)?;
        let is_asked_for = facts.read.iter().any(|read| target.starts_with(read));
        let warning = format!(
            "{} is a link to {}, which the jail does not show; add that to [jail] read",
            entry.path.display(),
            target.display()
        );
        (!is_asked_for && !rules.is_visible(&target)).then_some(warning)
    });
    unseen.collect()
}
