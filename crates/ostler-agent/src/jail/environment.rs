//! What the environment of an agent gains and loses in a jail.

use std::ffi::{OsStr, OsString};

use super::{JailEnvironment, JailFacts};

/// Set for every jailed process. Ostler's own hooks do nothing where it is set: they reach no store, and would make one in
/// the private home.
pub const JAIL_VARIABLE: &str = "OSTLER_JAIL";

/// Variables for temporary files. The first one is always set.
const TEMPORARY: [&str; 4] = ["TMPDIR", "TMP", "TEMP", "TEMPDIR"];

/// Variables that name a socket, or something that is of no use without one: none of them can be reached.
const SOCKETS: &[&str] = &[
    "ALACRITTY_SOCKET",
    "AT_SPI_BUS_ADDRESS",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "EMACS_SERVER_FILE",
    "GNOME_KEYRING_CONTROL",
    "GPG_AGENT_INFO",
    "HYPRLAND_INSTANCE_SIGNATURE",
    "I3SOCK",
    "ICEAUTHORITY",
    "KITTY_LISTEN_ON",
    "NIRI_SOCKET",
    "NOTIFY_SOCKET",
    "NVIM",
    "NVIM_LISTEN_ADDRESS",
    "PIPEWIRE_REMOTE",
    "PULSE_SERVER",
    "SESSION_MANAGER",
    "SSH_AGENT_PID",
    "SSH_AUTH_SOCK",
    "STY",
    "SWAYSOCK",
    "TMUX",
    "TMUX_PANE",
    "VSCODE_GIT_IPC_HANDLE",
    "VSCODE_IPC_HOOK",
    "VSCODE_IPC_HOOK_CLI",
    "WAYLAND_DISPLAY",
    "WAYLAND_SOCKET",
    "WEZTERM_UNIX_SOCKET",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
];

/// Variables that name a socket if their value begins like this; else they name a host.
const SOCKETS_BY_VALUE: [(&str, &str); 6] = [
    ("BUILDKIT_HOST", "unix:"),
    ("CONTAINER_HOST", "unix:"),
    ("DISPLAY", ":"),
    ("DISPLAY", "unix"),
    ("DOCKER_HOST", "unix:"),
    ("PODMAN_HOST", "unix:"),
];

/// Programs that ask a person for a password: nobody is there, and most reach a socket for it.
const ASKS: [&str; 3] = ["GIT_ASKPASS", "SSH_ASKPASS", "SUDO_ASKPASS"];

/// The variables to remove, of those that are set.
pub(super) fn removed(facts: &JailFacts<'_>) -> Vec<String> {
    let value = |name: &str| (facts.variable)(name);
    let sockets = SOCKETS.iter().chain(&ASKS).filter(|name| value(name).is_some()).copied();
    let by_value = SOCKETS_BY_VALUE.iter();
    let by_value = by_value.filter(|(name, start)| value(name).is_some_and(|value| value.starts_with(start)));
    let mut removed: Vec<String> =
        sockets.chain(by_value.map(|(name, _)| *name)).map(str::to_owned).collect();
    removed.dedup();
    removed
}

impl JailEnvironment {
    /// Changes the variables of a process. They need not be those that the jail was decided from: a check has the
    /// person's own. Idempotent.
    pub fn change(&self, env: &mut Vec<(OsString, OsString)>) {
        let is_set = |name: &OsStr| self.set.iter().any(|(set, _)| name.to_str() == Some(set));
        env.retain(|(name, value)| {
            let is_removed = self.removed.iter().any(|removed| name.to_str() == Some(removed));
            !is_set(name) && !is_removed && !names_socket(name, value)
        });
        let temporary = self.set.iter().find(|(name, _)| name == TEMPORARY[0]);
        for (name, value) in &mut *env {
            if let Some((_, folder)) = temporary.filter(|_| TEMPORARY.iter().any(|known| name == known)) {
                *value = folder.into();
            }
        }
        env.extend(self.set.iter().map(|(name, value)| (name.into(), value.into())));
    }
}

fn names_socket(name: &OsStr, value: &OsStr) -> bool {
    let starts = |start: &str| value.as_encoded_bytes().starts_with(start.as_bytes());
    SOCKETS.iter().chain(&ASKS).any(|known| name == *known)
        || SOCKETS_BY_VALUE.iter().any(|(known, start)| name == *known && starts(start))
}

/// The variables for temporary files, and their directory.
pub(super) fn temporary(facts: &JailFacts<'_>) -> Vec<(String, OsString)> {
    let folder = super::decision::temporary(facts.private).into_os_string();
    let names = TEMPORARY.iter().enumerate();
    let set = names.filter(|(at, name)| *at == 0 || (facts.variable)(name).is_some());
    set.map(|(_, name)| ((*name).to_owned(), folder.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_other_variables_than_the_agent_loses_its_sockets_too() {
        let change = JailEnvironment {
            set: vec![("TMPDIR".to_owned(), "/p/tmp".into()), ("CARGO_HOME".to_owned(), "/p/c".into())],
            removed: vec!["MINE".to_owned()],
        };
        let pairs = |rows: &[(&str, &str)]| {
            rows.iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect::<Vec<(OsString, OsString)>>()
        };
        let mut env = pairs(&[
            ("PATH", "/bin"),
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("GIT_ASKPASS", "/usr/bin/ask"),
            ("DOCKER_HOST", "unix:///run/docker.sock"),
            ("DISPLAY", "elsewhere:0"),
            ("TEMP", "/var/tmp"),
            ("CARGO_HOME", "/opt/cargo"),
            ("MINE", "1"),
        ]);
        let want = pairs(&[
            ("PATH", "/bin"),
            ("DISPLAY", "elsewhere:0"),
            ("TEMP", "/p/tmp"),
            ("TMPDIR", "/p/tmp"),
            ("CARGO_HOME", "/p/c"),
        ]);
        for _ in 0..2 {
            change.change(&mut env);
            assert_eq!(env, want);
        }
    }
}
