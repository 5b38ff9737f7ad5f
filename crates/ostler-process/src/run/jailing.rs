//! The wall around the processes of a run.

use std::ffi::OsString;
use std::io;

use ostler_agent::jail::{JailKind, RunJail};

use crate::jail::facts::create_directories;
use crate::jail::{Canary, Jail};

/// The wall around the processes of a run, as it was decided.
#[derive(Debug)]
pub struct PlannedJail {
    /// Which wall.
    pub kind: JailKind,
    /// What it lets through.
    pub decision: RunJail,
    /// What the processes must not reach. It is there as long as the run.
    pub canary: Canary,
}

impl PlannedJail {
    /// Makes what must exist before a start, and changes the variables of the process as the wall needs it.
    pub(super) fn prepare(&self, env: &mut Vec<(OsString, OsString)>) -> io::Result<Jail> {
        create_directories(&self.decision.create)?;
        let change = &self.decision.environment;
        env.retain(|(name, _)| {
            let is_set = change.set.iter().any(|(set, _)| name.to_str() == Some(set));
            !is_set && change.removed.iter().all(|removed| name.to_str() != Some(removed))
        });
        env.extend(change.set.iter().map(|(name, value)| (name.into(), value.into())));
        Ok(Jail { kind: self.kind, policy: self.decision.policy.clone() })
    }
}
