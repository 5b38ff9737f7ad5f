//! Processes that a test waits for, held by pidfd.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long anything may take that takes milliseconds: only a broken test reaches it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) struct Watched {
    pub(crate) pid: u32,
    held: OwnedFd,
}

impl Watched {
    /// Holds a process that is alive, because it was just heard of and does not end by itself.
    pub(crate) fn hold(pid: u32) -> Self {
        let number = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        Self { pid, held: pidfd_open(number, PidfdFlags::empty()).unwrap() }
    }

    /// Holds a process, unless it has ended.
    pub(crate) fn hold_if_alive(pid: u32) -> Option<Self> {
        let number = Pid::from_raw(i32::try_from(pid).ok()?)?;
        Some(Self { pid, held: pidfd_open(number, PidfdFlags::empty()).ok()? })
    }

    /// Holds the process that has this number in the PID namespace of `neighbour`.
    pub(crate) fn hold_beside(neighbour: u32, told: u32) -> Self {
        let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        if namespace(neighbour) == namespace(std::process::id()) {
            return Self::hold(told);
        }
        let is_meant = |pid: &u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
            namespace(*pid) == namespace(neighbour)
                && numbers.split_whitespace().next_back() == Some(&told.to_string())
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let mut numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        Self::hold(numbers.find(is_meant).unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        pidfd_send_signal(&self.held, signal).unwrap();
    }

    /// Whether it has ended, waited for or not.
    pub(crate) fn is_dead(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    pub(crate) fn ends(&self) -> bool {
        self.ends_within(DEADLINE)
    }

    fn ends_within(&self, limit: Duration) -> bool {
        let mut polled = [PollFd::new(&self.held, PollFlags::IN)];
        let limit = Timespec::try_from(limit).unwrap();
        // Ends of other tests' children interrupt it.
        retry_on_intr(|| poll(&mut polled, Some(&limit))).unwrap() > 0
    }
}

/// Processes whose environment carries a mark of this run.
pub(crate) fn marked(run: &str) -> Vec<String> {
    let wanted = format!("OSTLER_RUN_MARK={run}.");
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.parse::<u32>().is_ok())
        .filter(|name| {
            let environment = fs::read(format!("/proc/{name}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(wanted.as_bytes()))
        })
        .collect()
}

/// Control groups that were made for this run and are still there.
pub(crate) fn leaves(run: &str) -> Vec<String> {
    use ostler_process::host::{Cgroup2, cgroup2};
    let Cgroup2::Writable(own) = cgroup2() else { return Vec::new() };
    let names =
        fs::read_dir(own).unwrap().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&format!("ostler-{run}."))).collect()
}
