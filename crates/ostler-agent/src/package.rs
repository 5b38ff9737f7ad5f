//! Where an agent program comes from: its npm package, the native binary inside it, and the hashes of both.
//!
//! The npm wrappers are not used: killing one leaves the real agent running, and they cost a Node.js each.

pub mod lock;

use std::cmp::Ordering;
use std::path::PathBuf;

use semver::Version;

/// An agent's package in the npm registry.
#[derive(Debug, PartialEq, Eq)]
pub struct Package {
    /// Folder name below `OSTLER_HOME/agents`. Two agents with one binary share it.
    pub slot: &'static str,
    /// Name in the registry.
    pub npm: &'static str,
    /// The command it puts on `PATH`.
    pub program: &'static str,
    /// The version that Ostler was last proven with.
    pub verified: &'static str,
    /// Native binaries, the preferred one first.
    pub natives: &'static [Native],
}

/// One native binary inside a package, for one platform.
#[derive(Debug, PartialEq, Eq)]
pub struct Native {
    /// As in `std::env::consts::OS`.
    pub os: &'static str,
    /// As in `std::env::consts::ARCH`.
    pub arch: &'static str,
    /// Path below `node_modules`.
    pub path: &'static str,
}

impl Native {
    /// The package that it is in: the beginning of its path, of two parts if the name has a scope.
    fn package(&self) -> &'static str {
        let parts = if self.path.starts_with('@') { 2 } else { 1 };
        let end = self.path.match_indices('/').nth(parts - 1).map_or(self.path.len(), |(end, _)| end);
        &self.path[..end]
    }
}

/// How a version of an agent compares with the one that Ostler was last proven with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is that one.
    Same,
    /// It came later.
    Newer,
    /// It came earlier.
    Older,
    /// One of the two is not a semantic version.
    Incomparable,
}

/// Whether the text names exactly one version, rather than a tag or a range.
pub fn is_exact(version: &str) -> bool {
    Version::parse(version).is_ok()
}

impl Package {
    /// How `version` compares with [`Package::verified`], by semantic versioning; build metadata does not count.
    pub fn standing(&self, version: &str) -> Standing {
        let (Ok(version), Ok(verified)) = (Version::parse(version), Version::parse(self.verified)) else {
            return Standing::Incomparable;
        };
        match version.cmp_precedence(&verified) {
            Ordering::Less => Standing::Older,
            Ordering::Equal => Standing::Same,
            Ordering::Greater => Standing::Newer,
        }
    }

    /// Paths below `node_modules` at which the native binary may be on that platform, the preferred one first:
    /// beside the package, as npm lays them out, and nested inside it, as global installs do.
    pub fn native_paths(&self, os: &str, arch: &str) -> Vec<PathBuf> {
        let fitting = || self.natives.iter().filter(|native| native.os == os && native.arch == arch);
        let beside = fitting().map(|native| PathBuf::from(native.path));
        let nested = fitting().map(|native| PathBuf::from(self.npm).join("node_modules").join(native.path));
        beside.chain(nested).collect()
    }

    /// The version in what the program prints for `--version`: the first word that looks like one.
    pub fn version_in(&self, printed: &str) -> Option<String> {
        printed
            .split_whitespace()
            .map(|word| word.trim_start_matches('v'))
            .find(|word| {
                word.split('.').count() >= 3 && word.starts_with(|first: char| first.is_ascii_digit())
            })
            .map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::{Standing, is_exact};
    use crate::agents::{CLAUDE, CODEX, OPENCODE};

    #[test]
    fn the_version_is_found_in_what_each_agent_prints() {
        let table = [
            (&CLAUDE, "2.1.197 (Claude Code)\n", Some("2.1.197")),
            (&CODEX, "codex-cli 0.166.0\n", Some("0.166.0")),
            (&OPENCODE, "1.18.33\n", Some("1.18.33")),
            (&CODEX, "codex-cli 0.167.0-alpha.3\n", Some("0.167.0-alpha.3")),
            (&CODEX, "command not found", None),
        ];
        for (package, printed, want) in table {
            assert_eq!(package.version_in(printed).as_deref(), want, "{printed}");
        }
    }

    #[test]
    fn a_version_is_the_verified_one_or_came_before_or_after_it() {
        let table = [
            ("0.166.0", Standing::Same),
            ("0.166.0+local", Standing::Same),
            ("0.167.0-alpha.3", Standing::Newer),
            ("0.166.0-alpha.3", Standing::Older),
            ("0.99.9", Standing::Older),
            ("nightly", Standing::Incomparable),
        ];
        for (version, want) in table {
            assert_eq!(CODEX.standing(version), want, "{version}");
        }
    }

    #[test]
    fn tags_and_ranges_are_not_exact() {
        for (version, want) in [("1.2.3", true), ("1.2.3-beta.1", true), ("1.2", false), ("latest", false)] {
            assert_eq!(is_exact(version), want, "{version}");
        }
    }

    #[test]
    fn a_platform_without_a_binary_has_no_paths() {
        assert!(CODEX.native_paths("plan9", "mips").is_empty());
        assert_eq!(CODEX.native_paths("linux", "x86_64").len(), 2);
    }
}
