//! What is known of a run that ended, and why one could not be run.

use std::time::Duration;

use ostler_agent::agent::Refusal;
use ostler_agent::check::Checked;
use ostler_agent::completion::Evidence;
use ostler_agent::event::Usage;
use ostler_agent::jail::{Denial, JailReport};
use ostler_agent::network::HostDenial;
use ostler_agent::outcome::RunOutcome;

use super::private_files::PrivateError;
use super::workplace::WorkspaceState;
use crate::journal::JournalError;
use crate::trust::store::TrustError;

/// How a run ended, and what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// How.
    pub outcome: RunOutcome,
    /// The agent's id of the session.
    pub session: Option<String>,
    /// Turns that ended.
    pub turns: u32,
    /// How often the session was resumed.
    pub resumes: u32,
    /// What was used, as far as the agent told it.
    pub usage: Option<Usage>,
    /// What shows that the task is done.
    pub evidence: Vec<Evidence>,
    /// Processes that could not be ended. None if that is not known.
    pub survivors: Option<u32>,
    /// How long it took.
    pub elapsed: Duration,
    /// What a person can do about it.
    pub hint: Option<String>,
    /// What the host tried itself after the last claim.
    pub checks: Vec<Checked>,
    /// What became of the folder that it worked in.
    pub workspace: WorkspaceState,
    /// What the kernel enforced; nothing without a jail.
    pub jail: Option<JailReport>,
    /// What the jail denied, as far as tools reported it.
    pub denials: Vec<Denial>,
    /// The hosts that it denied.
    pub denied_hosts: Vec<HostDenial>,
    /// What is kept of the bridge: contact, where the receipts end, whether they were changed. Null without one.
    pub bridge: serde_json::Value,
    /// The outcome as it is in the journal.
    pub json: serde_json::Value,
}

/// Why a run could not be run. Nothing is left running.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The agent cannot be run this way.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What happens cannot be written down.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The agent's private files cannot be written.
    #[error(transparent)]
    Private(#[from] PrivateError),
    /// Whether the repository is trusted is not known.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

impl RunError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(refusal) => Some(refusal.hint.clone()),
            Self::Journal(error) => error.hint(),
            Self::Private(error) => error.hint(),
            Self::Trust(error) => error.hint(),
        }
    }
}
