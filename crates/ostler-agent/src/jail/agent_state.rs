//! What a run sees of its agent's own files, and what of them it changes.
//!
//! - `composed`: behind namespaces, a private directory in the place of each of the agent's, with the user's files mounted
//!   into it.
//! - `in_place`: behind Landlock alone, the agent's directories themselves.

mod composed;
mod in_place;

use std::path::{Path, PathBuf};

use super::never::{Boundary, Obstacle};
use super::refusal::{JailRefusal, WorkspaceFault};
use super::rule_set::RuleSet;
use super::state::{AgentState, StateForm, StateList, StatePlaces};
use super::{JailFacts, JailKind, JailSignIn, StateCopy};

/// One of the agent's directories.
struct StateFolder {
    /// As the agent names it.
    path: PathBuf,
    /// Without links.
    real: PathBuf,
}

/// What became of the agent's own files.
#[derive(Default)]
pub(super) struct StateGrants {
    /// What a person should know.
    pub(super) warnings: Vec<String>,
    /// The user's settings that are shown.
    pub(super) settings: Vec<PathBuf>,
    /// Files to copy before the start.
    pub(super) copies: Vec<StateCopy>,
    /// The sign-in to keep in step.
    pub(super) sign_in: Option<JailSignIn>,
}

/// Grants the agent's own files.
///
/// What is in its directories may have been written by a jailed agent, links included: nothing outside them is granted
/// because a link in them leads there.
pub(super) fn grant(
    rules: &mut RuleSet<'_>,
    facts: &JailFacts<'_>,
    boundary: &Boundary,
) -> Result<StateGrants, JailRefusal> {
    // In a home that Ostler made, the agent's files are the run's own: all of it is shown already, and what is named there
    // must not be looked up, because a link may lead from there to the user's files.
    if facts.own.iter().any(|own| facts.home.starts_with(own)) {
        return Ok(StateGrants::default());
    }
    let places = StatePlaces { home: facts.home, variable: facts.variable, workspace: facts.workspace };
    let state = facts.agent.state(&places);
    let folders = find_folders(facts, boundary, &state)?;
    check_links(facts, &state, &folders)?;
    Ok(match facts.kind {
        JailKind::Namespace => composed::grant(rules, facts, boundary, &state, &folders),
        JailKind::Landlock => in_place::grant(rules, facts, &state, &folders),
    })
}

/// The agent's directories that exist or will be made, but for those of a rehearsal, which the run owns.
fn find_folders(
    facts: &JailFacts<'_>,
    boundary: &Boundary,
    state: &AgentState,
) -> Result<Vec<StateFolder>, JailRefusal> {
    let mut folders = Vec::new();
    for path in &state.directories {
        let Some(real) = settled(facts, path, state.create.contains(path)) else { continue };
        let is_own = boundary.exempt.iter().any(|own| real.starts_with(own));
        if facts.workspace.starts_with(&real) && !is_own {
            let reason = WorkspaceFault::AgentsOwn(real);
            return Err(JailRefusal::Workspace { workspace: facts.workspace.to_owned(), reason });
        }
        let shows = match boundary.obstacle(&real) {
            _ if is_own => continue,
            Some(Obstacle::Inside(root) | Obstacle::Above(root)) => Some(root),
            Some(Obstacle::NoFiles) => Some(real.clone()),
            None => None,
        };
        if let Some(shows) = shows {
            return Err(JailRefusal::State { path: path.clone(), shows });
        }
        folders.push(StateFolder { path: path.clone(), real });
    }
    Ok(folders)
}

/// A path in one of the agent's directories, by that directory without links.
fn rebase(folders: &[StateFolder], path: &Path) -> Option<PathBuf> {
    folders.iter().find_map(|folder| Some(folder.real.join(path.strip_prefix(&folder.path).ok()?)))
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
    folders: &[StateFolder],
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

/// A warning, if a setting is a link to what the jail does not show.
fn unseen_link(rules: &RuleSet<'_>, facts: &JailFacts<'_>, path: &Path, want: &Path) -> Option<String> {
    let target = (facts.real_path)(path).filter(|target| target != want)?;
    let is_named = facts.read.iter().any(|read| target.starts_with(read));
    let warning = format!(
        "{} is a link to {}, which the jail does not show; add that to [jail] read",
        path.display(),
        target.display()
    );
    (!is_named && !rules.is_visible(&target)).then_some(warning)
}

/// The entries of one list that are files or directories.
fn named_entries(state: &AgentState, list: StateList) -> impl Iterator<Item = &super::StateEntry> {
    state.entries.iter().filter(move |entry| entry.list == list && entry.form != StateForm::Prefix)
}

#[cfg(test)]
#[path = "agent_state_tests.rs"]
mod tests;
