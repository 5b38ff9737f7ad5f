//! What a jailed process can reach. Decided here, without a look at the machine; `ostler-process` has the kernel
//! enforce it before the process becomes the agent.

mod agent_state;
mod decision;
mod denial;
mod environment;
mod facts;
mod named_paths;
mod never;
mod program;
mod refusal;
mod repository;
mod rule_set;
mod search_path;
pub(crate) mod state;
mod system;
mod toolchains;
#[cfg(test)]
mod world;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use decision::{JailEnvironment, JailSignIn, RunJail, StateCopy};
pub use denial::{Denial, Opening, Wanted};
pub use environment::JAIL_VARIABLE;
pub use facts::{
    CacheLayers, ConfigWrites, GitFacts, JailFacts, JailLevel, NestedRepository, Repository, Resident,
};
pub use refusal::{EntryFault, JailRefusal, WorkspaceFault};
pub use repository::CONFIGURATION;
pub use state::{AgentState, SignIn, StateEntry, StateForm, StateList, StatePlaces};

/// What a jailed process can reach in the file system. What no rule grants does not exist for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JailPolicy {
    /// A rule holds for its path and all below, up to a rule of its own there. Of two rules for one path the later holds.
    pub rules: Vec<Rule>,
    /// A file on the host that the policy does not grant, and that the user can read and write. After the restriction
    /// an attempt to open it must fail.
    pub canary: PathBuf,
}

/// What a process finds at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Absolute. Links in it are resolved on the host. A rule for a path that does not exist grants nothing.
    pub path: PathBuf,
    /// What the process may do there.
    pub access: Access,
}

/// What a process may do at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Read and execute what the host has there.
    Read,
    /// Read, execute and change what the host has there.
    Write,
    /// Read, execute and change another file or directory of the host instead. The path itself need not exist.
    Substitute {
        /// The other one. It exists.
        source: PathBuf,
    },
    /// Read and execute what the host has there; changes are kept apart, in a layer above it.
    CopyOnWrite {
        /// The directory that holds the changes. It exists.
        upper: PathBuf,
        /// An empty directory on the same file system, for the kernel's own use.
        work: PathBuf,
    },
    /// No changes, where a rule for a directory above grants them. Grants nothing by itself.
    Guarded,
    /// Neither read nor change: an empty file or directory in its place. Grants nothing by itself.
    Hidden,
}

/// The kind of wall around a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JailKind {
    /// User and mount namespace: only what is granted is there.
    Namespace,
    /// Landlock alone: everything is there, and the kernel refuses what is not granted.
    Landlock,
}

impl JailKind {
    /// As it is recorded and forced.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Landlock => "landlock",
        }
    }
}

/// What the kernel enforces for a process, read back after it was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JailReport {
    /// The wall.
    pub kind: JailKind,
    /// The version of Landlock's interface that is in force, if Landlock is.
    pub abi: Option<u32>,
    /// What it can reach in the network, as `--net` says it.
    pub net: String,
    /// What the policy wants and this wall cannot keep, a phrase each.
    pub not_enforced: Vec<String>,
}

/// What a policy grants at one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// Nothing.
    None,
    /// Reading and executing.
    Read,
    /// Changing as well.
    Write,
}

impl JailPolicy {
    /// What the policy grants at `path`, which is absolute and free of links.
    pub fn grant(&self, path: &Path) -> Grant {
        match self.rule(path).map(|rule| &rule.access) {
            Some(Access::Write | Access::Substitute { .. } | Access::CopyOnWrite { .. }) => Grant::Write,
            Some(Access::Read) => Grant::Read,
            Some(Access::Guarded) => self.grant_above(path).min_read(),
            Some(Access::Hidden) | None => Grant::None,
        }
    }

    /// The rule that holds at `path`: the last one of the deepest path.
    pub fn rule(&self, path: &Path) -> Option<&Rule> {
        let holds = self.rules.iter().filter(|rule| path.starts_with(&rule.path));
        holds.max_by_key(|rule| rule.path.components().count())
    }

    /// Where the host has what a process finds at `path`.
    pub fn host_path(&self, path: &Path) -> PathBuf {
        let substitute = self.rule(path).and_then(|rule| match &rule.access {
            Access::Substitute { source } => Some(source.join(path.strip_prefix(&rule.path).ok()?)),
            Access::Read | Access::Write | Access::CopyOnWrite { .. } | Access::Guarded | Access::Hidden => {
                None
            }
        });
        substitute.unwrap_or_else(|| path.to_owned())
    }

    /// What a rule that restricts `path` restricts: the grant of the nearest rule above that grants something.
    fn grant_above(&self, path: &Path) -> Grant {
        let above = |rule: &&Rule| path.starts_with(&rule.path) && rule.access != Access::Guarded;
        match self.rules.iter().filter(above).max_by_key(|rule| rule.path.components().count()) {
            Some(Rule { access: Access::Hidden, .. }) | None => Grant::None,
            Some(Rule { access: Access::Read, .. }) => Grant::Read,
            Some(_) => Grant::Write,
        }
    }
}

impl Grant {
    fn min_read(self) -> Self {
        if self == Self::None { Self::None } else { Self::Read }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_rule_holds_and_of_two_the_later() {
        let rule = |path: &str, access| Rule { path: path.into(), access };
        let policy = JailPolicy {
            rules: vec![
                rule("/usr", Access::Read),
                rule("/w", Access::Read),
                rule("/w", Access::Write),
                rule("/w/.git/hooks", Access::Guarded),
                rule("/w/.env", Access::Hidden),
                rule("/h", Access::Substitute { source: "/x".into() }),
                rule("/h/.ssh", Access::Guarded),
                rule("/other/.git", Access::Guarded),
                rule("/w/.env/deep", Access::Guarded),
            ],
            canary: "/o/canary".into(),
        };
        let table = [
            ("/", Grant::None),
            ("/usr/bin/env", Grant::Read),
            ("/usrlocal", Grant::None),
            ("/w/src/main.rs", Grant::Write),
            ("/w/.git/config", Grant::Write),
            ("/w/.git/hooks/pre-commit", Grant::Read),
            ("/w/.env", Grant::None),
            ("/w/.env/deep", Grant::None),
            ("/h/notes", Grant::Write),
            ("/h/.ssh/id", Grant::Read),
            ("/other/.git", Grant::None),
            ("/o/canary", Grant::None),
        ];
        for (path, want) in table {
            assert_eq!(policy.grant(Path::new(path)), want, "{path}");
        }
    }
}
