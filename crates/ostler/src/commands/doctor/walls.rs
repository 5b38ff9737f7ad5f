//! Which walls this machine can put around an agent.

use std::path::Path;

use ostler_agent::jail::{JailKind, JailReport};
use ostler_process::host::{UserNamespaces, user_namespaces};
use ostler_process::jail::{TrialError, try_wall};

use super::{Finding, Status};
use crate::display::with_causes;

/// Files that only a container has.
const CONTAINER_MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

const NAME: &str = "jail";

/// What is true as long as runs have no wall of their own.
const UNUSED: &str = "runs do not use it yet";

/// Tries both walls, the better one first.
pub(super) async fn find_walls() -> Finding {
    let Ok(ostler) = std::env::current_exe() else {
        return Finding::new(NAME, Status::Note, "could not tell which program this is");
    };
    let namespace = match try_wall(JailKind::Namespace, &ostler).await {
        Ok(report) => return Finding::new(NAME, Status::Ok, describe(&report)),
        Err(error) => error,
    };
    let is_container = CONTAINER_MARKS.iter().any(|path| Path::new(path).exists());
    let remedy = remedy(user_namespaces(), is_container);
    let reason = with_causes(&namespace);
    match try_wall(JailKind::Landlock, &ostler).await {
        Ok(report) => {
            Finding::new(NAME, Status::Note, format!("{}; {reason}", describe(&report))).with_hint(remedy)
        }
        Err(error) => Finding::new(NAME, Status::Missing, without_walls(&reason, &error)).with_hint(remedy),
    }
}

fn describe(report: &JailReport) -> String {
    let walls = match (report.kind, report.abi) {
        (JailKind::Namespace, Some(abi)) => format!("namespaces and Landlock (ABI {abi}) work here"),
        (JailKind::Namespace, None) => "namespaces work here, Landlock does not".to_owned(),
        (JailKind::Landlock, abi) => format!("only Landlock (ABI {}) works here", abi.unwrap_or_default()),
    };
    format!("{walls}; {UNUSED}")
}

fn without_walls(namespace: &str, landlock: &TrialError) -> String {
    format!("neither namespaces ({namespace}) nor Landlock ({}) work here", with_causes(landlock))
}

/// The command that lets namespaces work.
fn remedy(setting: UserNamespaces, is_container: bool) -> Option<String> {
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
            let found = remedy(setting, is_container);
            match want {
                Some(text) => {
                    assert!(found.as_deref().is_some_and(|found| found.contains(text)), "{found:?}");
                }
                None => assert_eq!(found, None),
            }
        }
    }
}
