//! Nothing outlives a test: whatever still carries the stage's mark in its environment is killed.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable that marks every process of a stage; children inherit it.
pub(crate) const MARK: &str = "OSTLER_E2E_STAGE";

/// Kills every process that carries the mark, and says how many there were.
pub(crate) fn sweep(mark: &str) -> usize {
    let wanted = format!("{MARK}={mark}");
    let is_marked = |pid: &str| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    let mut killed = 0;
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = name.parse().ok().and_then(Pid::from_raw) else { continue };
        // Opened first and looked at afterwards: the number may have passed to another process in between.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if is_marked(&name) && pidfd_send_signal(&process, Signal::KILL).is_ok() {
            killed += 1;
        }
    }
    killed
}
