//! Which wall this machine can set around an agent. That is tried, because no setting says so for certain; that the better
//! one works is remembered until the machine restarts.

use std::fs;
use std::path::Path;

use ostler_agent::agent::Permissions;
use ostler_agent::jail::{JailKind, JailLevel};
use ostler_process::host::{UserNamespaces, user_namespaces};
use ostler_process::jail::try_wall;
use rustix::process::geteuid;

use super::JailFault;
use crate::display::with_causes;
use crate::surroundings::Surroundings;

/// Sets another wall than the best one, for tests: the value is a [`JailKind`]'s name. `none` is `--no-jail` for commands
/// that have no such option.
pub(super) const FORCE_JAIL: &str = "OSTLER_FORCE_JAIL";

/// Where it is remembered that namespaces work, in Ostler's directory.
const REMEMBERED: &str = "jail-works";

/// Files that only a container has.
const CONTAINER_MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// What is different where another wall may work: another start of the machine, another container.
const MACHINE_MARKS: [&str; 3] =
    ["/proc/sys/kernel/random/boot_id", "/proc/self/ns/user", "/proc/self/ns/mnt"];

/// A wall, and what a person should know if it is not the best one.
#[derive(Debug)]
pub(crate) struct Wall {
    pub(crate) kind: JailKind,
    pub(crate) warning: Option<String>,
    /// What was tried, to be remembered.
    tried: Option<String>,
}

impl Wall {
    fn known(kind: JailKind) -> Self {
        Self { kind, warning: None, tried: None }
    }

    /// Remembers that it works. Without that it is tried again, that is all.
    pub(crate) fn remember(&self, here: &Surroundings) {
        if let Some(machine) = &self.tried {
            let _ = fs::write(here.home.root().join(REMEMBERED), machine);
        }
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
    if here.variable(FORCE_JAIL).is_some_and(|name| name == "none") {
        return Ok(None);
    }
    if let Some(kind) = forced_wall(here)? {
        return Ok(Some(Wall::known(kind)));
    }
    let (file, machine) = (here.home.root().join(REMEMBERED), describe_machine(ostler));
    if fs::read_to_string(&file).is_ok_and(|known| known == machine) {
        return Ok(Some(Wall::known(JailKind::Namespace)));
    }
    let namespace = match try_wall(JailKind::Namespace, ostler).await {
        Ok(_) => return Ok(Some(Wall { tried: Some(machine), ..Wall::known(JailKind::Namespace) })),
        Err(error) => with_causes(&error),
    };
    let remedy = remedy();
    match try_wall(JailKind::Landlock, ostler).await {
        Ok(_) => {
            let helps = remedy.map(|remedy| format!("; `{remedy}` helps")).unwrap_or_default();
            let warning =
                format!("the jail is Landlock alone, because namespaces do not work: {namespace}{helps}");
            Ok(Some(Wall { warning: Some(warning), ..Wall::known(JailKind::Landlock) }))
        }
        Err(error) => Err(JailFault::NoWall {
            level: permissions.name(),
            namespace,
            landlock: with_causes(&error),
            remedy,
        }),
    }
}

/// Has the walls tried anew next time, after one could not be set.
pub(crate) fn forget_walls(here: &Surroundings) {
    let _ = fs::remove_file(here.home.root().join(REMEMBERED));
}

/// The wall that a test wants.
pub(crate) fn forced_wall(here: &Surroundings) -> Result<Option<JailKind>, JailFault> {
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
    let marks: Vec<String> = MACHINE_MARKS.iter().map(mark).collect();
    format!("{} {} {}\n", marks.join(" "), geteuid().as_raw(), ostler.display())
}

/// The command that lets namespaces work here, if one is known.
pub(crate) fn remedy() -> Option<String> {
    let is_container = CONTAINER_MARKS.iter().any(|path| Path::new(path).exists());
    remedy_for(user_namespaces(), is_container)
}

fn remedy_for(setting: UserNamespaces, is_container: bool) -> Option<String> {
    match setting {
        UserNamespaces::Forbidden("user.max_user_namespaces") => {
            Some("sudo sysctl user.max_user_namespaces=10000".to_owned())
        }
        UserNamespaces::Forbidden(name @ "kernel.apparmor_restrict_unprivileged_userns") => {
            Some(format!("sudo sysctl {name}=0"))
        }
        UserNamespaces::Forbidden(name) => Some(format!("sudo sysctl {name}=1")),
        UserNamespaces::NotForbidden | UserNamespaces::Unknown if is_container => Some(
            "start the container with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined \
             --security-opt systempaths=unconfined`"
                .to_owned(),
        ),
        UserNamespaces::NotForbidden | UserNamespaces::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_a_command() {
        let table = [
            (
                UserNamespaces::Forbidden("user.max_user_namespaces"),
                false,
                Some("user.max_user_namespaces=10000"),
            ),
            (
                UserNamespaces::Forbidden("kernel.unprivileged_userns_clone"),
                false,
                Some("kernel.unprivileged_userns_clone=1"),
            ),
            (
                UserNamespaces::Forbidden("kernel.apparmor_restrict_unprivileged_userns"),
                true,
                Some("kernel.apparmor_restrict_unprivileged_userns=0"),
            ),
            (UserNamespaces::NotForbidden, true, Some("seccomp=unconfined")),
            (UserNamespaces::NotForbidden, false, None),
        ];
        for (setting, is_container, want) in table {
            let found = remedy_for(setting, is_container);
            match want {
                Some(text) => {
                    assert!(found.as_deref().is_some_and(|found| found.contains(text)), "{found:?}");
                }
                None => assert_eq!(found, None),
            }
        }
    }
}
