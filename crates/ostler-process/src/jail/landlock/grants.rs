//! What Landlock is told to grant for a policy, and what of the policy it cannot keep.
//!
//! A policy takes away below a directory what it grants above; Landlock cannot. So a directory that may be read, but for
//! something in it, is granted as its entries, one by one, as they are at the start. A directory that may be changed is
//! granted whole, because new entries have to be made in it: what the policy takes away there is reported instead.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ostler_agent::jail::{Access, JailPolicy};
use rustix::io::Errno;

use super::LandlockError;

/// Rules for single entries that one policy can lead to: some thousands take milliseconds, and a directory with more is
/// not one that is meant to be granted in parts.
const MOST_ENTRIES: usize = 16_384;

/// Paths that are named one by one in a phrase of a report.
const MOST_NAMED: usize = 12;

/// Devices that programs expect everywhere, and the terminals.
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// What programs ask about themselves. Never to be written: root could change the kernel's settings. Granted whole,
/// because processes come and go.
const PROCESSES: &str = "/proc";

/// What programs ask about the machine. Readable, unless the policy says otherwise.
const MACHINE: &str = "/sys";

/// What a namespace has of its own.
const PRIVATE: [&str; 3] = ["/dev", "/tmp", "/var/tmp"];

/// What is granted at one path and all below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rights {
    /// The names in directories.
    List,
    /// Reading and executing.
    Read,
    /// Connecting to sockets as well.
    ReadAndConnect,
    /// What is done with a device, but making one.
    UseDevice,
    /// All but making devices.
    Write,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grant {
    /// Free of links.
    pub(super) path: PathBuf,
    pub(super) rights: Rights,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct GrantPlan {
    pub(super) grants: Vec<Grant>,
    /// What the policy takes away and Landlock cannot, a phrase each.
    pub(super) not_enforced: Vec<String>,
}

impl GrantPlan {
    fn grant(&mut self, path: &Path, rights: Rights) {
        self.grants.push(Grant { path: path.to_owned(), rights });
    }
}

/// What a policy says about one path, its links resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Read,
    Write,
    Guarded,
    Hidden,
}

/// In the order of paths, so that a directory comes before what is in it.
type Effects = BTreeMap<PathBuf, Effect>;

/// Inside a namespace: reading is kept by what is there, and writing is kept by both walls.
pub(super) fn plan_second_wall(policy: &JailPolicy) -> GrantPlan {
    let mut plan = GrantPlan::default();
    plan.grant(Path::new("/"), Rights::ReadAndConnect);
    let of_policy = policy.rules.iter().filter_map(|rule| match rule.access {
        Access::Write | Access::Substitute { .. } | Access::CopyOnWrite { .. } => Some(rule.path.as_path()),
        Access::Read | Access::Guarded | Access::Hidden => None,
    });
    for path in PRIVATE.map(Path::new).into_iter().chain(of_policy) {
        if let Ok(path) = path.canonicalize() {
            plan.grant(&path, Rights::Write);
        }
    }
    plan
}

/// On the host itself: nothing but what the policy grants.
pub(super) fn plan_only_wall(policy: &JailPolicy) -> Result<GrantPlan, LandlockError> {
    let effects = resolve(policy)?;
    let mut plan = GrantPlan { grants: Vec::new(), not_enforced: unkept(policy, &effects) };
    let devices = DEVICES.map(|path| (path, Rights::UseDevice));
    for (path, rights) in devices.into_iter().chain([(PROCESSES, Rights::Read)]) {
        if let Ok(path) = Path::new(path).canonicalize() {
            plan.grant(&path, rights);
        }
    }
    let hidden = kept_hidden(&effects);
    for (path, effect) in &effects {
        match effect {
            Effect::Read => grant_reading(path, &effects, &hidden, &mut plan)
                .map_err(LandlockError::at("grant the entries of", path))?,
            Effect::Write => plan.grant(path, Rights::Write),
            Effect::Guarded | Effect::Hidden => {}
        }
    }
    Ok(plan)
}

/// What each rule says about the file that it leads to. Rules for what does not exist say nothing.
fn resolve(policy: &JailPolicy) -> Result<Effects, LandlockError> {
    let mut effects = Effects::from([(PathBuf::from(MACHINE), Effect::Read)]);
    for rule in &policy.rules {
        let path = canonical(&rule.path).map_err(LandlockError::at("resolve", &rule.path))?;
        let effect = match &rule.access {
            Access::Read => Effect::Read,
            Access::Write | Access::CopyOnWrite { .. } => Effect::Write,
            Access::Guarded => Effect::Guarded,
            Access::Hidden => Effect::Hidden,
            Access::Substitute { source } => {
                let source = source.canonicalize().map_err(LandlockError::at("resolve", source))?;
                let is_elsewhere = path.as_ref() != Some(&source);
                effects.insert(source, Effect::Write);
                if !is_elsewhere {
                    continue;
                }
                // The host's own file is not what the process is to see there.
                Effect::Hidden
            }
        };
        if let Some(path) = path {
            effects.insert(path, effect);
        }
    }
    Ok(effects)
}

/// `None` if there is nothing. What the process cannot get to is as it is written: it may still have to be hidden.
fn canonical(path: &Path) -> io::Result<Option<PathBuf>> {
    match path.canonicalize() {
        Ok(path) => Ok(Some(path)),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Some(Errno::ACCESS) => Ok(Some(path.to_owned())),
            _ => Err(error),
        },
    }
}

/// The outermost directory above `path` that may be changed.
fn writable_above<'a>(path: &Path, effects: &'a Effects) -> Option<&'a Path> {
    let writable = effects.iter().filter(|(_, effect)| **effect == Effect::Write);
    writable.map(|(above, _)| above.as_path()).find(|above| is_above(above, path))
}

/// The outermost directory above `path` that is granted whole.
fn whole_above<'a>(path: &Path, effects: &'a Effects) -> Option<&'a Path> {
    let processes = Path::new(PROCESSES);
    writable_above(path, effects).or_else(|| is_above(processes, path).then_some(processes))
}

fn is_above(above: &Path, path: &Path) -> bool {
    path != above && path.starts_with(above)
}

/// What is hidden and can be: all but what lies in a directory that is granted whole.
fn kept_hidden(effects: &Effects) -> Vec<&Path> {
    let hidden = effects.iter().filter(|(_, effect)| **effect == Effect::Hidden);
    hidden.map(|(path, _)| path.as_path()).filter(|path| whole_above(path, effects).is_none()).collect()
}

/// Grants reading below `path`, but for what is hidden.
fn grant_reading(path: &Path, effects: &Effects, hidden: &[&Path], plan: &mut GrantPlan) -> io::Result<()> {
    let below: Vec<&Path> = hidden.iter().copied().filter(|hidden| hidden.starts_with(path)).collect();
    if below.is_empty() {
        plan.grant(path, Rights::Read);
        return Ok(());
    }
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        // Its entries are not known, so none of them is granted.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        Err(error) => return Err(error),
    };
    // The right to list holds for all directories below, so a hidden one takes it from those above.
    if !below.iter().any(|hidden| fs::read_dir(hidden).is_ok()) {
        plan.grant(path, Rights::List);
    }
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        // A link is followed without any right; what it leads to is granted or not by itself.
        let is_link = entry.file_type()?.is_symlink();
        let has_own_rule = effects.get(&path).is_some_and(|effect| *effect != Effect::Guarded);
        if is_link || has_own_rule {
            continue;
        }
        if plan.grants.len() >= MOST_ENTRIES {
            return Err(Errno::TOOBIG.into());
        }
        grant_reading(&path, effects, &below, plan)?;
    }
    Ok(())
}

/// What the policy takes away in directories that may be changed, and changes that it wants kept apart.
fn unkept(policy: &JailPolicy, effects: &Effects) -> Vec<String> {
    let mut guarded: BTreeMap<&Path, Vec<&Path>> = BTreeMap::new();
    let mut hidden = guarded.clone();
    for (path, effect) in effects {
        let (list, above) = match effect {
            Effect::Write => continue,
            Effect::Read | Effect::Guarded => (&mut guarded, writable_above(path, effects)),
            Effect::Hidden => (&mut hidden, whole_above(path, effects)),
        };
        if let Some(above) = above {
            list.entry(above).or_default().push(path.strip_prefix(above).unwrap_or(path));
        }
    }
    let phrases = |what: &'static str, lists: BTreeMap<&Path, Vec<&Path>>| {
        lists
            .into_iter()
            .map(move |(above, paths)| format!("{what} in {}: {}", above.display(), enumerate(&paths)))
            .collect::<Vec<_>>()
    };
    let apart: Vec<&Path> = policy
        .rules
        .iter()
        .filter(|rule| matches!(rule.access, Access::CopyOnWrite { .. }) && rule.path.exists())
        .map(|rule| rule.path.as_path())
        .collect();
    let apart = (!apart.is_empty()).then(|| format!("changes kept apart: {}", enumerate(&apart)));
    [phrases("guarded files", guarded), phrases("hidden files", hidden), apart.into_iter().collect()].concat()
}

fn enumerate(paths: &[&Path]) -> String {
    let named = paths.iter().take(MOST_NAMED).map(|path| path.display().to_string());
    let more = paths.len().saturating_sub(MOST_NAMED);
    let more = (more > 0).then(|| format!("and {more} more"));
    named.chain(more).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[path = "grants_tests.rs"]
mod tests;
