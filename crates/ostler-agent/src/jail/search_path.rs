//! Programs on `PATH` outside the system: the directory, and the installation that it belongs to.

use std::ffi::OsStr;
use std::path::Path;

use super::rule_set::RuleSet;
use super::{JailFacts, Resident};

/// What an installation has beside its `bin`. A directory without any of it may be a person's, with scripts in `bin`.
const BESIDE_BIN: [&str; 9] =
    ["lib", "lib64", "libexec", "share", "include", "pkg", "packages", "jmods", "pyvenv.cfg"];

/// Lets the run start what is on `PATH`.
pub(super) fn grant(rules: &mut RuleSet<'_>, facts: &JailFacts<'_>) {
    let Some(path) = (facts.variable)("PATH") else { return };
    // Relative entries name something else in every directory.
    let entries = path.split(':').map(Path::new).filter(|entry| entry.is_absolute());
    for entry in entries.filter(|entry| !is_private(facts, entry)) {
        if let Some(prefix) = prefix(facts, entry) {
            rules.read_named(prefix);
        }
        // Not covered by then, if the whole installation may not be granted.
        rules.read_named(entry);
    }
}

/// Whether a directory is in the home of a user who is not the one that the jail is for.
fn is_private(facts: &JailFacts<'_>, entry: &Path) -> bool {
    let real_home = (facts.real_path)(facts.user_home);
    let is_at_home = |path: &Path| {
        path.starts_with(facts.user_home) || real_home.as_deref().is_some_and(|home| path.starts_with(home))
    };
    let leads_home = || (facts.real_path)(entry).is_some_and(|real| is_at_home(&real));
    facts.resident == Resident::Tenant && (is_at_home(entry) || leads_home())
}

/// The installation that a directory of programs belongs to.
fn prefix<'a>(facts: &JailFacts<'_>, entry: &'a Path) -> Option<&'a Path> {
    let is_bin = [Some(OsStr::new("bin")), Some(OsStr::new("sbin"))].contains(&entry.file_name());
    let prefix = entry.parent().filter(|_| is_bin)?;
    let is_installation = BESIDE_BIN.iter().any(|name| (facts.real_path)(&prefix.join(name)).is_some());
    is_installation.then_some(prefix)
}
