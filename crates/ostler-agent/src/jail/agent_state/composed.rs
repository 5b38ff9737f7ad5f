//! Behind namespaces a private directory is in the place of each of the agent's. The user's settings are mounted into it
//! read-only, and what is written through as it is. All else that the agent makes there is gone with the run.

use std::path::{Path, PathBuf};

use super::super::decision::{private_home, private_state, sign_in_folder, substitute};
use super::super::never::Boundary;
use super::super::rule_set::RuleSet;
use super::super::state::{AgentState, SignIn, StateForm, StateList};
use super::super::{Access, JailFacts, JailSignIn, StateCopy};
use super::{StateFolder, StateGrants, named_entries, rebase, settled, unseen_link};

pub(super) fn grant(
    rules: &mut RuleSet<'_>,
    facts: &JailFacts<'_>,
    boundary: &Boundary,
    state: &AgentState,
    folders: &[StateFolder],
) -> StateGrants {
    let mut grants = StateGrants::default();
    for (number, folder) in folders.iter().enumerate() {
        let source = private_state(facts.private).join(number.to_string());
        match state.databases.contains(&folder.path) {
            true => grant_database(rules, state, folder, &source),
            false => compose(rules, facts, state, folder, &source, &mut grants),
        }
    }
    for list in [StateList::Sessions, StateList::Credentials] {
        for entry in named_entries(state, list) {
            let Some(real) = rebase(folders, &entry.path) else { continue };
            if entry.form == StateForm::Directory && state.create.contains(&entry.path) {
                rules.create_directory(real.clone());
            } else if (facts.real_path)(&real).is_none() {
                continue;
            }
            if !rules.is_visible(&real) {
                rules.push(real, Access::Write);
            }
        }
    }
    for entry in named_entries(state, StateList::Settings) {
        if rebase(folders, &entry.path).is_none() {
            rules.read(&entry.path);
        }
    }
    copy_to_home(facts, state, folders, &mut grants);
    grants.sign_in = share_sign_in(rules, facts, boundary, state);
    grants
}

/// Shows the sign-in once more, in a directory that all jailed runs of the agent share: who refreshes the tokens locks
/// them beside the file. Versions of the agent that do not know the variable find the file in its usual place.
fn share_sign_in(
    rules: &mut RuleSet<'_>,
    facts: &JailFacts<'_>,
    boundary: &Boundary,
    state: &AgentState,
) -> Option<JailSignIn> {
    let SignIn { file, variable, locks } = state.sign_in.as_ref()?;
    let is_own = |file: &PathBuf| boundary.exempt.iter().any(|own| file.starts_with(own));
    let file = (facts.real_path)(file).filter(|file| !is_own(file) && boundary.around(file).is_none())?;
    let folder = sign_in_folder(facts);
    rules.create_directory(folder.clone());
    rules.push(folder.clone(), Access::Write);
    rules.push(folder.join(file.file_name()?), Access::Substitute { source: file.clone() });
    rules.set(variable, &folder);
    Some(JailSignIn { file, folder, locks })
}

/// A directory that is written through as a whole, but for what is private in it.
fn grant_database(rules: &mut RuleSet<'_>, state: &AgentState, folder: &StateFolder, source: &Path) {
    rules.push(folder.real.clone(), Access::Write);
    if folder.path != folder.real {
        rules.push(folder.path.clone(), Access::Write);
    }
    rules.create_directory(folder.real.clone());
    for entry in named_entries(state, StateList::Private) {
        let Ok(name) = entry.path.strip_prefix(&folder.path) else { continue };
        let (real, source) = (folder.real.join(name), source.join(name));
        rules.create_directory(real.clone());
        rules.create_directory(source.clone());
        rules.push(real, Access::Substitute { source });
    }
}

/// A private directory in the place of the agent's, with the user's settings in it.
fn compose(
    rules: &mut RuleSet<'_>,
    facts: &JailFacts<'_>,
    state: &AgentState,
    folder: &StateFolder,
    source: &Path,
    grants: &mut StateGrants,
) {
    substitute(rules, &folder.path, folder.real.clone(), source);
    rules.create_directory(source.to_owned());
    for name in (facts.entries)(&folder.real) {
        let (path, real) = (folder.path.join(&name), folder.real.join(&name));
        if state.directories.contains(&path) {
            continue;
        }
        match state.list_of(&path) {
            Some(StateList::Settings) => show(rules, facts, &path, &real, grants),
            Some(StateList::Copied) if (facts.real_path)(&real).as_ref() == Some(&real) => {
                grants.copies.push(StateCopy { from: real, to: source.join(&name) });
            }
            Some(StateList::Copied) => grants.warnings.extend(unseen_link(rules, facts, &path, &real)),
            // What is written through is granted by its own rules.
            Some(StateList::Credentials | StateList::Sessions | StateList::Private | StateList::Hidden)
            | None => {}
        }
    }
}

/// Shows a setting, which may be a link to what is shown anyway.
fn show(rules: &mut RuleSet<'_>, facts: &JailFacts<'_>, path: &Path, real: &Path, grants: &mut StateGrants) {
    match (facts.real_path)(real) {
        Some(target) if target == real => {
            grants.settings.push(target.clone());
            rules.push(target, Access::Read);
        }
        Some(target) if rules.is_visible(&target) => {
            grants.settings.push(target.clone());
            rules.push_with_link(real, target, Access::Read);
        }
        Some(_) => grants.warnings.extend(unseen_link(rules, facts, path, real)),
        None => {}
    }
}

/// Files beside the agent's directories go to the private home.
fn copy_to_home(
    facts: &JailFacts<'_>,
    state: &AgentState,
    folders: &[StateFolder],
    grants: &mut StateGrants,
) {
    if facts.own.iter().any(|own| facts.home.starts_with(own)) {
        return;
    }
    for entry in named_entries(state, StateList::Copied) {
        let below: Option<&Path> = entry.path.strip_prefix(facts.home).ok();
        if let (Some(below), None, Some(from)) =
            (below, rebase(folders, &entry.path), settled(facts, &entry.path, false))
        {
            let to: PathBuf = private_home(facts.private).join(below);
            grants.copies.push(StateCopy { from, to });
        }
    }
}
