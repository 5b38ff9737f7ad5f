//! Collects the rules of a policy, and all that goes with them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::never::Boundary;
use super::system::SECRETS;
use super::{Access, JailFacts, JailPolicy, Rule};

/// Rules under construction.
pub(super) struct RuleSet<'a> {
    facts: &'a JailFacts<'a>,
    boundary: &'a Boundary,
    policy: JailPolicy,
    pub(super) create: Vec<PathBuf>,
    pub(super) set: Vec<(String, OsString)>,
    pub(super) cache_variables: Vec<(String, PathBuf)>,
}

impl<'a> RuleSet<'a> {
    pub(super) fn new(facts: &'a JailFacts<'a>, boundary: &'a Boundary) -> Self {
        let policy = JailPolicy { rules: Vec::new(), canary: facts.canary.to_owned() };
        Self { facts, boundary, policy, create: Vec::new(), set: Vec::new(), cache_variables: Vec::new() }
    }

    /// Adds a rule for a path without links.
    pub(super) fn push(&mut self, path: PathBuf, access: Access) {
        self.policy.rules.push(Rule { path, access });
    }

    /// A directory that the host makes before the start if it is missing.
    pub(super) fn create_directory(&mut self, path: PathBuf) {
        if !self.create.contains(&path) {
            self.create.push(path);
        }
    }

    /// Sets a variable to a path.
    pub(super) fn set(&mut self, variable: &str, path: &Path) {
        self.set.retain(|(name, _)| name != variable);
        self.set.push((variable.to_owned(), path.as_os_str().to_owned()));
    }

    /// Whether what the host has at `path` can be read.
    pub(super) fn is_visible(&self, path: &Path) -> bool {
        is_visible(&self.policy, path)
    }

    /// Makes a path readable, if it exists and nothing speaks against it.
    pub(super) fn read(&mut self, path: &Path) {
        self.grant(path, Access::Read);
    }

    /// Makes a path readable that a variable names. It may be in a directory that a jailed agent wrote to, so that a link
    /// there is not followed to what is not readable otherwise.
    pub(super) fn read_named(&mut self, path: &Path) {
        let is_plain = |real: &PathBuf| *real == self.expected(path) || self.is_visible(real);
        if (self.facts.real_path)(path).is_some_and(|real| is_plain(&real)) {
            self.read(path);
        }
    }

    /// Grants a path, if it exists, is not readable yet, and nothing speaks against it.
    pub(super) fn grant(&mut self, path: &Path, access: Access) {
        if let Some(real) = self.grantable(path) {
            self.push_with_link(path, real, access);
        }
    }

    /// What a path leads to, if it exists and nothing speaks against granting it.
    pub(super) fn grantable(&self, path: &Path) -> Option<PathBuf> {
        let real = (self.facts.real_path)(path)?;
        let is_open = |path: &Path| self.boundary.obstacle(path).is_none();
        (is_open(&real) && is_open(path)).then_some(real)
    }

    /// Adds a rule for a path that leads to `real`, unless that is readable already. The way there is open too: the wall
    /// makes the links of a rule's path anew.
    pub(super) fn push_with_link(&mut self, path: &Path, real: PathBuf, access: Access) {
        let above = self.policy.rule(&real).map(|rule| &rule.access).filter(|_| self.is_visible(&real));
        let link_access = match above {
            Some(Access::Read) => Access::Read,
            Some(Access::Write) => Access::Write,
            // A rule for the link would replace the one above at this place.
            Some(_) => return,
            None => {
                self.push(real.clone(), access.clone());
                access
            }
        };
        let is_shown = path.parent().is_some_and(|parent| self.is_visible(parent));
        if path != real && !is_shown {
            self.push(path.to_owned(), link_access);
        }
    }

    /// Where a path leads if the home directory is all that may be reached through a link.
    pub(super) fn expected(&self, path: &Path) -> PathBuf {
        expected(self.facts, path)
    }

    /// The policy, with all hidden that is never visible and would be seen.
    pub(super) fn finish(mut self) -> Finished {
        let boundary = self.boundary;
        let grants = |rule: &Rule| match &rule.access {
            Access::Read | Access::Write | Access::CopyOnWrite { .. } => true,
            Access::Substitute { .. } | Access::Guarded | Access::Hidden => false,
        };
        self.policy.rules.retain(|rule| !grants(rule) || boundary.around(&rule.path).is_none());
        let named = |path: &Path| {
            let reads = self.facts.read.iter().filter_map(|read| (self.facts.real_path)(read));
            reads.into_iter().any(|read| path.starts_with(read))
        };
        let unless_named: Vec<PathBuf> =
            boundary.unless_named.iter().filter(|path| !named(path)).cloned().collect();
        let secrets = SECRETS.iter().filter_map(|path| (self.facts.real_path)(Path::new(path)));
        let roots = boundary.never.iter().chain(&boundary.in_toolchains);
        let roots = roots.chain(&boundary.hidden).chain(&boundary.ostler).cloned();
        // The user's own home in a rehearsal, where another one is in its place.
        let homes = boundary.homes.iter().filter(|home| is_visible(&self.policy, home));
        let homes: Vec<PathBuf> = homes.filter(|home| !boundary.exempt.contains(home)).cloned().collect();
        for path in secrets.chain(roots).chain(unless_named).chain(homes) {
            let is_seen = is_visible(&self.policy, &path);
            if is_seen && !boundary.exempt.contains(&path) {
                self.policy.rules.push(Rule { path, access: Access::Hidden });
            }
        }
        drop_repeated(&mut self.policy.rules);
        let Self { policy, create, set, cache_variables, .. } = self;
        Finished { policy, create, set, cache_variables }
    }
}

/// Where a path leads if the home directory is all that may be reached through a link.
pub(super) fn expected(facts: &JailFacts<'_>, path: &Path) -> PathBuf {
    let moved = [facts.home, facts.user_home].into_iter().find_map(|home| {
        let rest = path.strip_prefix(home).ok()?;
        Some((facts.real_path)(home)?.join(rest))
    });
    moved.unwrap_or_else(|| path.to_owned())
}

/// Of two rules for one path the later holds: the other one is left out.
fn drop_repeated(rules: &mut Vec<Rule>) {
    let mut seen = BTreeSet::new();
    rules.reverse();
    rules.retain(|rule| seen.insert(rule.path.clone()));
    rules.reverse();
}

/// What was collected.
pub(super) struct Finished {
    pub(super) policy: JailPolicy,
    pub(super) create: Vec<PathBuf>,
    pub(super) set: Vec<(String, OsString)>,
    pub(super) cache_variables: Vec<(String, PathBuf)>,
}

/// Whether what the host has at `path` can be read. In a substitute it cannot.
pub(super) fn is_visible(policy: &JailPolicy, path: &Path) -> bool {
    // Of two that contain the path the deeper one is longer.
    let length = |rule: &Rule| rule.path.as_os_str().len();
    let contains = |rule: &&Rule| length(rule) <= path.as_os_str().len() && path.starts_with(&rule.path);
    let rules = policy.rules.iter().filter(|rule| rule.access != Access::Guarded);
    let deepest = rules.filter(contains).max_by_key(|rule| length(rule));
    deepest.is_some_and(|rule| match rule.access {
        Access::Read | Access::Write | Access::CopyOnWrite { .. } => true,
        Access::Substitute { .. } | Access::Guarded | Access::Hidden => false,
    })
}
