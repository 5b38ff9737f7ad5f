//! Nothing outlives a test: whatever still carries the stage's mark in its environment is killed.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable that marks every process of a stage; children inherit it.
pub(crate) const MARK: &str = "OSTLER_E2E_STAGE";

/// Kills every process that carries the mark.
pub(crate) fn sweep(mark: &str) {
    for process in marked(mark) {
        let _ = pidfd_send_signal(&process, Signal::KILL);
    }
}

/// Whether every process that carries the mark ends by itself in time.
pub(crate) fn gone(mark: &str, within: Duration) -> bool {
    let limit = Timespec::try_from(within).unwrap();
    // A pidfd can be read from once its process has ended.
    let has_ended = |process: OwnedFd| {
        let mut waited_for = [PollFd::new(&process, PollFlags::IN)];
        retry_on_intr(|| poll(&mut waited_for, Some(&limit))) == Ok(1)
    };
    marked(mark).into_iter().all(has_ended) && marked(mark).is_empty()
}

fn marked(mark: &str) -> Vec<OwnedFd> {
    let wanted = format!("{MARK}={mark}");
    let is_marked = |pid: &str| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = name.parse().ok().and_then(Pid::from_raw) else { continue };
        // Opened first and looked at afterwards: the number may have passed to another process in between.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if is_marked(&name) {
            found.push(process);
        }
    }
    found
}
