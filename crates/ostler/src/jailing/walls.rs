//! Which wall this machine can set around an agent. That is tried, because no setting says so for certain; that the better
//! one works is remembered until the machine restarts.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use ostler_agent::agent::Permissions;
use ostler_agent::jail::{JAIL_VARIABLE, JailKind, JailLevel};
use ostler_process::host::{UserNamespaces, user_namespaces};
use ostler_process::jail::{find_remedy as find_landlock_remedy, try_wall};
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use tempfile::NamedTempFile;

use super::{JailFault, NoWall};
use crate::display::with_causes;
use crate::surroundings::Surroundings;

/// Sets another wall than the best one, for tests: the value is a [`JailKind`]'s name. `none` is `--no-jail` for commands
/// that have no such option.
pub(super) const FORCE_JAIL: &str = "OSTLER_FORCE_JAIL";

/// Where it is remembered that namespaces work, in Ostler's directory.
const REMEMBERED: &str = "jail-works";

/// Files that only a container has.
const CONTAINER_MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// What is different where another wall may work: another start of the machine, another container, another profile of
/// AppArmor.
const MACHINE_MARKS: [&str; 4] =
    ["/proc/sys/kernel/random/boot_id", "/proc/self/ns/user", "/proc/self/ns/mnt", "/proc/self/attr/current"];

/// Lines of `/proc/self/status` that are different in a sandbox, which shares its namespaces with the world outside.
const PROCESS_MARKS: [&str; 4] = ["CapBnd:", "NoNewPrivs:", SECCOMP_MODE, "Seccomp_filters:"];

const SECCOMP_MODE: &str = "Seccomp:";

/// The mode in which a filter decides about system calls.
const SECCOMP_FILTER: &str = "2";

/// A wall, and what a person should know if it is not the best one.
#[derive(Debug)]
pub(crate) struct Wall {
    pub(crate) kind: JailKind,
    pub(crate) warning: Option<String>,
}

impl Wall {
    fn known(kind: JailKind) -> Self {
        Self { kind, warning: None }
    }
}

/// The wall for a level of permissions; none for a level that allows everything.
pub(crate) async fn choose_wall(
    permissions: Permissions,
    ostler: &Path,
    here: &Surroundings,
) -> Result<Option<Wall>, JailFault> {
    if JailLevel::of(permissions).is_none() {
        return Ok(None);
    }
    best_wall(ostler, here).await
}

/// The best wall that works here; none if a test wants none.
pub(crate) async fn best_wall(ostler: &Path, here: &Surroundings) -> Result<Option<Wall>, JailFault> {
    if here.variable(FORCE_JAIL).is_some_and(|name| name == "none") {
        return Ok(None);
    }
    if let Some(kind) = forced_wall(here)? {
        return Ok(Some(Wall::known(kind)));
    }
    let machine = describe_machine(ostler);
    if is_remembered(&machine, here) {
        return Ok(Some(Wall::known(JailKind::Namespace)));
    }
    let _lock = lock_trials(here).await;
    // Another process may have tried it meanwhile.
    if is_remembered(&machine, here) {
        return Ok(Some(Wall::known(JailKind::Namespace)));
    }
    let namespace = match try_wall(JailKind::Namespace, ostler).await {
        Ok(_) => {
            remember(&machine, here);
            return Ok(Some(Wall::known(JailKind::Namespace)));
        }
        Err(error) => with_causes(&error),
    };
    let remedy = remedy();
    match try_wall(JailKind::Landlock, ostler).await {
        Ok(_) => {
            let helps = remedy.map(|remedy| format!("; try: {remedy}")).unwrap_or_default();
            let warning =
                format!("the jail is Landlock alone, because namespaces do not work: {namespace}{helps}");
            Ok(Some(Wall { warning: Some(warning), ..Wall::known(JailKind::Landlock) }))
        }
        Err(error) => {
            let remedies = remedy.into_iter().chain(find_landlock_remedy()).collect();
            Err(NoWall { namespace, landlock: with_causes(&error), remedies }.into())
        }
    }
}

fn is_remembered(machine: &str, here: &Surroundings) -> bool {
    fs::read_to_string(here.home.root().join(REMEMBERED)).is_ok_and(|known| known == machine)
}

/// Remembers that namespaces work. Without that they are tried again, that is all.
fn remember(machine: &str, here: &Surroundings) {
    let root = here.home.root();
    let written = NamedTempFile::new_in(root).and_then(|mut file| {
        file.write_all(machine.as_bytes())?;
        file.persist(root.join(REMEMBERED)).map_err(|error| error.error)
    });
    if let Err(error) = written {
        tracing::debug!(target: "ostler::run", %error, "the wall will be tried again");
    }
}

/// Waits while another process tries the walls. Without the lock both do, that is all.
async fn lock_trials(here: &Surroundings) -> Option<File> {
    here.home.create().ok()?;
    let folder = File::open(here.home.root()).ok()?;
    let lock = tokio::task::spawn_blocking(move || {
        flock(&folder, FlockOperation::LockExclusive).ok()?;
        Some(folder)
    });
    lock.await.ok()?
}

/// Has the walls tried anew next time, after one could not be set.
pub(crate) fn forget_walls(here: &Surroundings) {
    let _ = fs::remove_file(here.home.root().join(REMEMBERED));
}

/// The wall that a test wants.
fn forced_wall(here: &Surroundings) -> Result<Option<JailKind>, JailFault> {
    let Some(name) = here.variable(FORCE_JAIL).filter(|name| !name.is_empty()) else { return Ok(None) };
    let known = [JailKind::Namespace, JailKind::Landlock].into_iter().find(|kind| name == kind.name());
    known.map(Some).ok_or_else(|| JailFault::Unknown { name: name.display().to_string() })
}

/// What was true when a wall was tried.
fn describe_machine(ostler: &Path) -> String {
    let mark = |path: &&str| match fs::read_link(path) {
        Ok(target) => target.display().to_string(),
        Err(_) => fs::read_to_string(path).unwrap_or_default().trim().to_owned(),
    };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of_process = PROCESS_MARKS.iter().map(|name| find_field(&status, name).unwrap_or("-").to_owned());
    let marks: Vec<String> = MACHINE_MARKS.iter().map(mark).chain(of_process).collect();
    // With a network of its own: what was remembered before that was tried does not count.
    format!("net {} {} {}\n", marks.join(" "), geteuid().as_raw(), ostler.display())
}

/// The value of a line of `/proc/self/status`.
fn find_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// What this process is in, that may forbid namespaces.
#[derive(Debug, Clone, Copy, Default)]
struct Enclosure {
    /// A jail of Ostler.
    is_jail: bool,
    is_container: bool,
    has_seccomp_filter: bool,
}

/// What lets namespaces work here, if that is known.
pub(crate) fn remedy() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let enclosure = Enclosure {
        is_jail: std::env::var_os(JAIL_VARIABLE).is_some(),
        is_container: CONTAINER_MARKS.iter().any(|path| Path::new(path).exists()),
        has_seccomp_filter: find_field(&status, SECCOMP_MODE) == Some(SECCOMP_FILTER),
    };
    remedy_for(user_namespaces(), enclosure)
}

fn remedy_for(setting: UserNamespaces, enclosure: Enclosure) -> Option<String> {
    let remedy = match setting {
        UserNamespaces::Forbidden("user.max_user_namespaces") => {
            "`sudo sysctl user.max_user_namespaces=10000`".to_owned()
        }
        UserNamespaces::Forbidden(name @ "kernel.apparmor_restrict_unprivileged_userns") => {
            format!("`sudo sysctl {name}=0`")
        }
        UserNamespaces::Forbidden(name) => format!("`sudo sysctl {name}=1`"),
        UserNamespaces::NotForbidden | UserNamespaces::Unknown => {
            let Enclosure { is_jail, is_container, has_seccomp_filter } = enclosure;
            let remedy = if is_jail {
                "start Ostler outside of the jail of Ostler that it is in"
            } else if is_container {
                "start the container with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined \
                 --security-opt systempaths=unconfined`"
            } else if has_seccomp_filter {
                "start Ostler outside of the sandbox whose seccomp filter it is under; a systemd service needs \
                 `RestrictNamespaces=no` and no `SystemCallFilter=`"
            } else {
                return None;
            };
            remedy.to_owned()
        }
    };
    Some(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_a_command_or_a_setting() {
        let sysctl = UserNamespaces::Forbidden;
        let (open, unknown) = (UserNamespaces::NotForbidden, UserNamespaces::Unknown);
        let nothing = Enclosure::default();
        let container = Enclosure { is_container: true, ..nothing };
        let filter = Enclosure { has_seccomp_filter: true, ..nothing };
        let jail = Enclosure { is_jail: true, is_container: true, has_seccomp_filter: true };
        let table = [
            (sysctl("user.max_user_namespaces"), jail, Some("`sudo sysctl user.max_user_namespaces=10000`")),
            (
                sysctl("kernel.unprivileged_userns_clone"),
                nothing,
                Some("`sudo sysctl kernel.unprivileged_userns_clone=1`"),
            ),
            (
                sysctl("kernel.apparmor_restrict_unprivileged_userns"),
                container,
                Some("`sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`"),
            ),
            (open, jail, Some("outside of the jail")),
            (open, container, Some("start the container with `--security-opt seccomp=unconfined ")),
            (unknown, filter, Some("`RestrictNamespaces=no`")),
            (open, nothing, None),
        ];
        for (setting, enclosure, want) in table {
            let found = remedy_for(setting, enclosure);
            match want {
                Some(text) => {
                    assert!(found.as_deref().is_some_and(|found| found.contains(text)), "{found:?}");
                }
                None => assert_eq!(found, None),
            }
        }
    }
}
