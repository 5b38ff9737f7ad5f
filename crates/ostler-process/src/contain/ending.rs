//! Ending everything: killed, looked for again, until two looks in a row find nothing.
//!
//! The guardian does it as the parent of all; Ostler does it as a stranger when the guardian was killed. A guardian
//! without children has no descendants either, because the kernel gives it every orphan: there the look is a proof.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::family::{self, Process};
use super::leaf::Leaf;

/// How long all may take to die. A killed process is gone in milliseconds; only one stuck in the kernel takes longer,
/// and that one is counted as a survivor.
pub(super) const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Looks in a row that must find nothing, unless that there is nothing is proven: one could miss a process that was
/// being born behind its back.
const CALM_LOOKS: u32 = 2;

/// Rounds of stopping before the killing. Each finds what was forked before its parent was stopped, so two suffice
/// unless the machine is flooded.
const STOP_ROUNDS: u32 = 20;

/// Between looks: long enough not to spin, short enough not to be noticed.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Whether somebody may have children. A guardian without any has no descendants: every orphan becomes its child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    None,
    Possible,
}

/// Whom an ending reaches.
#[derive(Debug, Clone)]
pub(super) struct Reach {
    /// All in this group.
    pub(super) leaf: Option<Arc<Leaf>>,
    /// All that descend from this process, but not itself.
    pub(super) ancestor: Option<Pid>,
    /// All that carry this mark.
    pub(super) mark: String,
}

impl Reach {
    /// Everyone who lives and is reached. Without a family there are no descendants, with or without the mark: every
    /// process of the machine need not be looked at.
    pub(super) fn living(&self, family: Family) -> Vec<Process> {
        let (descendants, marked) = match (family, self.ancestor) {
            (Family::None, _) => (Vec::new(), Vec::new()),
            (Family::Possible, None) => (Vec::new(), family::marked(&self.mark)),
            (Family::Possible, Some(ancestor)) => {
                (family::descendants(&family::everyone(), ancestor), family::marked(&self.mark))
            }
        };
        let members = self.leaf().map(Leaf::members).unwrap_or_default();
        let all = descendants.into_iter().chain(members).chain(marked);
        let found: HashMap<Pid, Process> = all.map(|process| (process.pid, process)).collect();
        found.into_values().filter(Process::is_alive).collect()
    }

    /// Kills all of them, and answers how many are left: none unless the limit was reached. Blocks. The group can be
    /// removed then, which is done when nobody holds it any more.
    ///
    /// `reap` is called before every look, for whoever is the parent, and answers what family is left.
    pub(super) fn end(&self, limit: Duration, mut reap: impl FnMut() -> Family) -> u32 {
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut calm = 0;
        self.kill_leaf();
        loop {
            let family = reap();
            let living = self.living(family);
            let is_empty = living.is_empty() && !self.leaf().is_some_and(Leaf::is_populated);
            calm = if is_empty { calm + 1 } else { 0 };
            // Without a family nobody can be born who is not in the group.
            if calm == CALM_LOOKS || (is_empty && family == Family::None) {
                return 0;
            }
            if is_empty {
                continue;
            }
            if began.elapsed() >= limit {
                return u32::try_from(living.len().max(1)).unwrap_or(u32::MAX);
            }
            self.kill_leaf();
            self.strike(living);
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn leaf(&self) -> Option<&Leaf> {
        self.leaf.as_deref()
    }

    fn kill_leaf(&self) {
        if let Some(Err(error)) = self.leaf().map(Leaf::kill) {
            tracing::warn!(%error, "could not kill a control group");
        }
    }

    /// Stops all of them first: whoever is stopped does not fork, so nobody is born while others are being killed.
    fn strike(&self, mut living: Vec<Process>) {
        let mut stopped = HashMap::new();
        for _ in 0..STOP_ROUNDS {
            let fresh: Vec<Process> =
                living.into_iter().filter(|process| !stopped.contains_key(&process.identity())).collect();
            if fresh.is_empty() {
                break;
            }
            for process in fresh {
                process.signal(Signal::STOP);
                stopped.insert(process.identity(), process);
            }
            living = self.living(Family::Possible);
        }
        for process in stopped.values() {
            process.signal(Signal::KILL);
        }
    }
}
