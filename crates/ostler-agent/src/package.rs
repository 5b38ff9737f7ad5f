//! Where an agent program comes from: its npm package, and the native binary inside it.
//!
//! The npm wrappers are not used: killing one leaves the real agent running, and they cost a Node.js each.

use std::path::PathBuf;

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

impl Package {
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
    fn a_platform_without_a_binary_has_no_paths() {
        assert!(CODEX.native_paths("plan9", "mips").is_empty());
        assert_eq!(CODEX.native_paths("linux", "x86_64").len(), 2);
    }
}
