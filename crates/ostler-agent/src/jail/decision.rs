//! Decides what the jail of a run shows and lets it change.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::never::{Boundary, Obstacle};
use super::refusal::{EntryFault, JailRefusal, WorkspaceFault};
use super::rule_set::{RuleSet, expected, is_visible};
use super::system::{NEEDED, NO_FILES, READABLE, RESOLVER, SHARED, TEMPORARY};
use super::{
    Access, CacheLayers, JailFacts, JailLevel, JailPolicy, Repository, Resident, agent_state, environment,
    program, repository, search_path, toolchains,
};

/// The jail of a run, as it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunJail {
    /// What the run can reach.
    pub policy: JailPolicy,
    /// Directories that must exist before the start, for their owner alone. Each is one that Ostler or the agent makes
    /// itself. Made without following links.
    pub create: Vec<PathBuf>,
    /// The user's settings for the agent, as they are shown: files and directories.
    pub settings: Vec<PathBuf>,
    /// Files to copy before the start, unless they were.
    pub copies: Vec<StateCopy>,
    /// The sign-in that has to be kept in step with the user's.
    pub sign_in: Option<JailSignIn>,
    /// What the agent's environment gains and loses.
    pub environment: JailEnvironment,
    /// What was requested and no wall enforces, a phrase each.
    pub not_enforced: Vec<String>,
    /// What a person should know before the start.
    pub warnings: Vec<String>,
    /// Which variables would have each toolchain write to which directory, where layers cannot be mounted.
    pub(super) cache_variables: Vec<(String, PathBuf)>,
    pub(super) level: JailLevel,
    pub(super) workspace: PathBuf,
    pub(super) home: PathBuf,
    /// What `--allow-config-writes` is about.
    pub(super) config_guards: Vec<PathBuf>,
    pub(super) boundary: Boundary,
}

/// What an agent's environment gains and loses in a jail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JailEnvironment {
    /// Variables to set.
    pub set: Vec<(String, OsString)>,
    /// Variables to remove.
    pub removed: Vec<String>,
}

/// A file of the user's of which a run gets a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateCopy {
    /// The user's.
    pub from: PathBuf,
    /// The copy, in the private directory of the run.
    pub to: PathBuf,
}

/// A sign-in that jailed agents share with the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JailSignIn {
    /// The user's file, which the jail shows.
    pub file: PathBuf,
    /// The directory in which all jailed agents lock it.
    pub folder: PathBuf,
    /// The names of the locks, there and beside the user's file.
    pub locks: &'static [&'static str],
}

/// Where all jailed runs of an agent lock its sign-in.
pub(super) fn sign_in_folder(facts: &JailFacts<'_>) -> PathBuf {
    facts.ostler_home.join("sign-in").join(facts.agent.package().slot)
}

/// The private home directory of a run.
pub(super) fn private_home(private: &Path) -> PathBuf {
    private.join("home")
}

/// The directory for what is in the place of the agent's own directories.
pub(super) fn private_state(private: &Path) -> PathBuf {
    private.join("state")
}

/// The directory for temporary files of a run.
pub(super) fn temporary(private: &Path) -> PathBuf {
    private.join("tmp")
}

/// The directory for the caches of toolchains, where layers above the user's cannot be mounted.
pub(super) fn private_caches(private: &Path) -> PathBuf {
    private.join("caches")
}

impl RunJail {
    /// What the jail of a run shows and lets it change, or why there can be none.
    pub fn decide(facts: &JailFacts<'_>) -> Result<Self, JailRefusal> {
        check_home(facts)?;
        let boundary = Boundary::new(facts);
        check_entries(facts, &boundary)?;
        check_workspace(facts, &boundary)?;
        let repository = facts.git.repository.as_ref().filter(|found| is_usable(found, facts, &boundary));
        let mut rules = RuleSet::new(facts, &boundary);
        grant_system(&mut rules, facts, &boundary);
        grant_own(&mut rules, facts);
        repository::grant(&mut rules, facts, repository);
        let mut state = agent_state::grant(&mut rules, facts, &boundary)?;
        state.warnings.extend(warn_of_hidden(facts));
        if facts.resident == Resident::User {
            for path in facts.read {
                rules.read(path);
            }
            toolchains::grant(&mut rules, facts);
        }
        search_path::grant(&mut rules, facts);
        for path in [program::tree(facts.program), facts.ostler_program.to_owned()] {
            if !rules.is_visible(&path) {
                rules.push(path, Access::Read);
            }
        }
        rules.read(Path::new(RESOLVER));
        let config_guards = repository::guard(&mut rules, facts, repository);
        let found = rules.finish();
        let mut set = environment::temporary(facts);
        set.push((environment::JAIL_VARIABLE.to_owned(), "1".into()));
        set.extend(found.set);
        Ok(Self {
            policy: found.policy,
            create: found.create,
            settings: state.settings,
            copies: state.copies,
            sign_in: state.sign_in,
            environment: JailEnvironment { set, removed: environment::removed(facts) },
            not_enforced: not_enforced(facts),
            warnings: state.warnings,
            cache_variables: found.cache_variables,
            level: facts.level,
            workspace: facts.workspace.to_owned(),
            home: facts.home.to_owned(),
            config_guards,
            boundary,
        })
    }
}

impl RunJail {
    /// The same jail for a machine that cannot mount layers: caches are read-only, and variables have toolchains write to
    /// the private directory of the run instead.
    pub fn without_layers(&self) -> Self {
        let mut jail = self.clone();
        for rule in &mut jail.policy.rules {
            if matches!(rule.access, Access::CopyOnWrite { .. }) {
                rule.access = Access::Read;
            }
        }
        for (variable, folder) in jail.cache_variables.drain(..) {
            jail.environment.set.push((variable, folder.clone().into_os_string()));
            jail.create.push(folder);
        }
        jail
    }

    /// Whether the run can read what the host has at `path`, which is absolute and free of links.
    pub fn shows(&self, path: &Path) -> bool {
        is_visible(&self.policy, path)
    }
}

fn not_enforced(facts: &JailFacts<'_>) -> Vec<String> {
    let is_whole = facts.git.is_complete || facts.level == JailLevel::Deny;
    let phrase = "configuration of agents and git in directories of the workspace that were not searched";
    if is_whole { Vec::new() } else { vec![phrase.to_owned()] }
}

/// Programs, libraries and settings of the system; temporary files are the run's own.
fn grant_system(rules: &mut RuleSet<'_>, facts: &JailFacts<'_>, boundary: &Boundary) {
    for path in READABLE.map(Path::new) {
        // A link is vetted as every other path. The directories themselves may contain what is hidden.
        let is_open = |real: &PathBuf| real == path || boundary.obstacle(real).is_none();
        if let Some(real) = (facts.real_path)(path).filter(is_open) {
            rules.push_with_link(path, real, Access::Read);
        }
    }
    let source = temporary(facts.private);
    for path in TEMPORARY.map(Path::new) {
        let real = (facts.real_path)(path).unwrap_or_else(|| path.to_owned());
        substitute(rules, path, real, &source);
    }
    rules.create_directory(source);
}

/// Puts `source` in the place of a path that leads to `real`, whatever is readable there.
pub(super) fn substitute(rules: &mut RuleSet<'_>, path: &Path, real: PathBuf, source: &Path) {
    let is_link = path != real;
    rules.push(real, Access::Substitute { source: source.to_owned() });
    if is_link {
        rules.push(path.to_owned(), Access::Substitute { source: source.to_owned() });
    }
}

/// What Ostler made for this run.
fn grant_own(rules: &mut RuleSet<'_>, facts: &JailFacts<'_>) {
    if !facts.own.iter().any(|own| facts.home.starts_with(own)) {
        let source = private_home(facts.private);
        let real = (facts.real_path)(facts.home).unwrap_or_else(|| facts.home.to_owned());
        substitute(rules, facts.home, real, &source);
        rules.create_directory(source);
    }
    rules.push(facts.private.to_owned(), Access::Write);
    for own in facts.own.iter().filter(|own| *own != facts.workspace) {
        rules.push(own.clone(), Access::Write);
    }
    if let CacheLayers::Variables(layers) = facts.caches {
        rules.push(layers.to_owned(), Access::Write);
        rules.create_directory(layers.to_owned());
    }
}

fn check_home(facts: &JailFacts<'_>) -> Result<(), JailRefusal> {
    let real = (facts.real_path)(facts.home).unwrap_or_else(|| facts.home.to_owned());
    let is_above = |home: &Path| {
        let mut shared = READABLE.iter().chain(&TEMPORARY).chain(&NO_FILES);
        !home.is_absolute() || shared.any(|path| Path::new(path).starts_with(home))
    };
    match is_above(facts.home) || is_above(&real) {
        true => Err(JailRefusal::Home { home: facts.home.to_owned() }),
        false => Ok(()),
    }
}

fn check_workspace(facts: &JailFacts<'_>, boundary: &Boundary) -> Result<(), JailRefusal> {
    match find_workspace_fault(facts.workspace, boundary) {
        Some(reason) => Err(JailRefusal::Workspace { workspace: facts.workspace.to_owned(), reason }),
        None => Ok(()),
    }
}

fn find_workspace_fault(workspace: &Path, boundary: &Boundary) -> Option<WorkspaceFault> {
    if workspace.parent().is_none() {
        return Some(WorkspaceFault::Root);
    }
    let contained = |roots: &[PathBuf]| roots.iter().find(|root| root.starts_with(workspace)).cloned();
    let around = |roots: &[PathBuf]| roots.iter().find(|root| workspace.starts_with(root)).cloned();
    let is_own = boundary.exempt.iter().any(|own| workspace.starts_with(own));
    let is_service = NO_FILES.iter().any(|path| workspace.starts_with(path));
    let mut shared = READABLE.iter().chain(&TEMPORARY).chain(&SHARED).map(Path::new);
    if let Some(home) = contained(&boundary.homes) {
        Some(WorkspaceFault::AboveHome(home))
    } else if let Some(ostler) = contained(&boundary.ostler_homes) {
        Some(WorkspaceFault::AboveOstler(ostler))
    } else if let Some(root) = around(&boundary.hidden) {
        Some(WorkspaceFault::HiddenByConfig(root))
    } else if let Some(root) = around(&boundary.never) {
        Some(WorkspaceFault::NeverVisible(root))
    } else if let Some(root) = around(&boundary.ostler).filter(|_| !is_own) {
        Some(WorkspaceFault::InOstler(root))
    } else if is_service && !workspace.starts_with("/dev/shm/") || shared.any(|path| path == workspace) {
        Some(WorkspaceFault::Shared)
    } else {
        None
    }
}

/// `[jail] read` and `[jail] hide`.
fn check_entries(facts: &JailFacts<'_>, boundary: &Boundary) -> Result<(), JailRefusal> {
    for path in facts.read {
        let fault = match (facts.real_path)(path) {
            _ if !path.is_absolute() => Some(EntryFault::Relative),
            None => Some(EntryFault::Missing),
            Some(real) => match boundary.obstacle(&real).or_else(|| boundary.obstacle(path)) {
                Some(Obstacle::Inside(root) | Obstacle::Above(root)) => Some(EntryFault::Shows(root)),
                Some(Obstacle::NoFiles) => Some(EntryFault::NoFiles),
                None if real != expected(facts, path) => Some(EntryFault::Link(real)),
                None => None,
            },
        };
        if let Some(reason) = fault {
            return Err(JailRefusal::Read { path: path.clone(), reason });
        }
    }
    for path in facts.hide {
        let real = |path: &Path| (facts.real_path)(path).unwrap_or_else(|| path.to_owned());
        let mut needed = [facts.private, facts.program].into_iter().chain(NEEDED.map(Path::new));
        // Every jail brings these itself.
        let is_fixed = ["/dev", "/proc", "/sys"].iter().any(|fixed| path.starts_with(fixed));
        let fault = match needed.find(|needed| real(needed).starts_with(real(path))) {
            _ if !path.is_absolute() => Some(EntryFault::Relative),
            None if is_fixed && !path.starts_with(facts.workspace) => Some(EntryFault::NoFiles),
            needed => needed.map(|needed| EntryFault::Needed(needed.to_owned())),
        };
        if let Some(reason) = fault {
            return Err(JailRefusal::Hide { path: path.clone(), reason });
        }
    }
    Ok(())
}

/// What `[jail] hide` names and is missing: a name that was misspelled hides nothing.
fn warn_of_hidden(facts: &JailFacts<'_>) -> impl Iterator<Item = String> {
    let missing = facts.hide.iter().filter(|path| (facts.real_path)(path).is_none());
    missing.map(|path| {
        let path = path.display();
        format!("[jail] hide: {path} does not exist, so nothing is hidden; correct the path, or remove it")
    })
}

/// Whether a repository may be shown. One around the home directory would show all of it.
fn is_usable(repository: &Repository, facts: &JailFacts<'_>, boundary: &Boundary) -> bool {
    let parts = [&repository.root, &repository.git_dir, &repository.common_dir];
    // A key of a tenant grants directories, and not the repository around one.
    let more = repository.modules.iter().chain(&repository.worktrees).chain(&repository.hooks_path);
    let is_inside = |path: &PathBuf| path.starts_with(facts.workspace);
    if facts.resident == Resident::Tenant && !parts.into_iter().chain(more).all(is_inside) {
        return false;
    }
    let is_in = |path: &Path| path.starts_with(facts.workspace) || path.starts_with(&repository.root);
    let mut outside = parts.into_iter().filter(|path| !path.starts_with(facts.workspace));
    outside.all(|path| match find_workspace_fault(path, boundary) {
        None => is_in(path) || boundary.obstacle(path).is_none(),
        Some(_) => false,
    })
}

#[cfg(test)]
#[path = "decision_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "tenant_tests.rs"]
mod tenant_tests;
