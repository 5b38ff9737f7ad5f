//! What the jail of a run denied: found in what tools report, told once each.

use std::path::Path;

use ostler_agent::event::{AgentEvent, ToolResult, TurnOutcome};
use ostler_agent::jail::{Denial, RunJail, Wanted};
use ostler_agent::run_event::RunEventKind;
use rustix::fs::{Access, access};

/// How many denials are told. An agent that tries more than that is told enough of.
const MOST: usize = 50;

/// How much of the end of a tool's output is looked at: errors come last.
const LOOKED_AT: usize = 16 * 1024;

/// What the jail denied so far.
#[derive(Debug, Default)]
pub(super) struct Denials(Vec<Denial>);

impl Denials {
    pub(super) fn list(&self) -> &[Denial] {
        &self.0
    }

    /// What an event shows that is new.
    pub(super) fn note(&mut self, jail: &RunJail, workspace: &Path, event: &AgentEvent) -> Vec<Denial> {
        let text = match event {
            AgentEvent::ToolEnded { result: ToolResult { text, .. }, .. } => text,
            AgentEvent::TurnEnded(TurnOutcome::Failed(failure)) => &failure.detail,
            _ => return Vec::new(),
        };
        let from = text.len().saturating_sub(LOOKED_AT);
        let end = (from..text.len()).find_map(|start| text.get(start..)).unwrap_or_default();
        let mut new = jail.denials(end, workspace, &could);
        new.retain(|denial| !self.0.contains(denial));
        new.truncate(MOST.saturating_sub(self.0.len()));
        self.0.extend(new.iter().cloned());
        new
    }
}

/// A denial as it is told and kept.
pub(super) fn told(denial: &Denial) -> RunEventKind {
    RunEventKind::Denied {
        path: denial.path.display().to_string(),
        wanted: denial.wanted,
        opens: denial.opens.to_string(),
    }
}

/// Whether the user could have done it without a jail.
fn could(path: &Path, wanted: Wanted) -> bool {
    match wanted {
        Wanted::Read => access(path, Access::READ_OK).is_ok(),
        Wanted::Write => {
            let is_there = path.symlink_metadata().is_ok();
            let place = if is_there { Some(path) } else { path.parent() };
            place.is_some_and(|place| access(place, Access::WRITE_OK).is_ok())
        }
    }
}
