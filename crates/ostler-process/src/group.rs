//! A child that leads its own process group, so that it can be ended with everything it started.
//!
//! Invariant: a signal is only sent while the leader is unreaped, because until then its number is nobody else's.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::working_directory::set_pwd_of;

/// How often a killed leader is looked at while it is being dropped, and for how long at most. A kill takes effect
/// in well under a millisecond; only a process stuck in the kernel takes longer, and that one we do not wait for.
const LAST_LOOKS: u32 = 200;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// A running child and its process group. Dropping it kills the group and waits for the leader to be gone.
pub(crate) struct Group {
    child: Child,
    leader: Option<Pid>,
}

impl Group {
    /// Starts the command as the leader of a new group. Its `PWD` is the directory that it starts in.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        set_pwd_of(command);
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { child, leader })
    }

    /// The leader's output, once.
    pub(crate) fn pipes(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// Waits until the leader has ended, kills what is left of the group, and reaps the leader. Cancel safe.
    pub(crate) async fn ended(&mut self) -> io::Result<ExitStatus> {
        // Registered before the first look, so that an end between the two is not missed.
        let mut changes = signal(SignalKind::child())?;
        while !self.leader_has_ended()? {
            changes.recv().await;
        }
        self.kill();
        let status = self.child.wait().await?;
        self.leader = None;
        Ok(status)
    }

    /// Kills every process of the group that is still there. Does nothing once the leader was reaped.
    fn kill(&self) {
        if let Some(leader) = self.leader
            && let Err(error) = kill_process_group(leader, Signal::KILL)
            && error != Errno::SRCH
        {
            tracing::warn!(pid = leader.as_raw_pid(), %error, "could not kill a process group");
        }
    }

    fn leader_has_ended(&self) -> io::Result<bool> {
        let Some(leader) = self.leader else { return Ok(true) };
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        Ok(waitid(WaitId::Pid(leader), look)?.is_some())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.leader.is_none() {
            return;
        }
        self.kill();
        for _ in 0..LAST_LOOKS {
            if self.leader_has_ended().unwrap_or(true) {
                return;
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Stdio;

    use tokio::io::{AsyncBufReadExt as _, BufReader};

    use super::*;

    /// A shell that starts a grandchild, prints the grandchild's number, and goes on as told.
    fn shell(then: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(format!("sleep 600 & echo $!; {then}"));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    async fn grandchild(group: &mut Group) -> String {
        let stdout = group.pipes().0.unwrap();
        BufReader::new(stdout).lines().next_line().await.unwrap().unwrap()
    }

    /// A killed grandchild may stay a zombie until its new parent looks: that counts as gone.
    fn is_alive(pid: &str) -> bool {
        let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        !matches!(state, None | Some('Z' | 'X'))
    }

    async fn gone(pid: &str) {
        let deadline = Duration::from_secs(10);
        let watch = async {
            while is_alive(pid) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(deadline, watch).await.unwrap();
    }

    #[tokio::test]
    async fn what_the_leader_leaves_behind_is_killed() {
        let mut group = Group::start(&mut shell("exit 3")).unwrap();
        let pid = grandchild(&mut group).await;
        assert_eq!(group.ended().await.unwrap().code(), Some(3));
        gone(&pid).await;
    }

    #[tokio::test]
    async fn dropping_it_kills_the_whole_group() {
        let mut group = Group::start(&mut shell("wait")).unwrap();
        let pid = grandchild(&mut group).await;
        assert!(is_alive(&pid));
        drop(group);
        gone(&pid).await;
    }
}
