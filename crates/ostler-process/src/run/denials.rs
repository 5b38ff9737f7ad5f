//! What the jail of a run denied: found in the error text of tools, reported once each.

use std::path::Path;

use ostler_agent::event::{AgentEvent, ToolResult, TurnOutcome};
use ostler_agent::jail::{Denial, RunJail};
use ostler_agent::run_event::RunEventKind;

use crate::jail::facts::could;

/// Denials that one run reports. More of them add nothing.
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

    /// Adds the denials that an event shows, and returns the new ones.
    pub(super) fn add_from(&mut self, jail: &RunJail, workspace: &Path, event: &AgentEvent) -> Vec<Denial> {
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

/// A denial as an event of the run.
pub(super) fn to_event(denial: &Denial) -> RunEventKind {
    RunEventKind::Denied {
        path: denial.path.display().to_string(),
        wanted: denial.wanted,
        opens: denial.opens.to_string(),
    }
}
