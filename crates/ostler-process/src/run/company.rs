//! Other runs in the same folder: allowed, and told.

use std::path::Path;
use std::time::Duration;

use ostler_agent::run_event::RunEventKind;

use super::Run;
use crate::journal::JournalError;
use crate::workspace::Presence;

/// Between two looks for other runs in the same folder.
const LOOK_AROUND: Duration = Duration::from_secs(1);

/// Other runs in the same folder.
pub(super) struct Company {
    presence: Presence,
    /// When it was last looked for; never again once it was found.
    looked: Option<Duration>,
    pub(super) is_told: bool,
}

impl Company {
    pub(super) fn new(workspace: &Path) -> Self {
        Self { presence: Presence::announce(workspace), looked: None, is_told: false }
    }
}

impl Run<'_> {
    /// Two runs in one folder are allowed, but they should be known: what changes there is of either. Looks at most every
    /// second, so that it can be called whenever something happens.
    pub(super) fn tell_company(&mut self) -> Result<(), JournalError> {
        let (now, company) = (self.desk.now(), &mut self.company);
        let is_early = company.looked.is_some_and(|looked| now.saturating_sub(looked) < LOOK_AROUND);
        if company.is_told || is_early {
            return Ok(());
        }
        company.looked = Some(now);
        company.is_told = company.presence.is_shared();
        if !company.is_told {
            return Ok(());
        }
        let text = "another run works in this folder: what changes there may be of either, \
                    and is a sign of life of neither";
        self.desk.tell(RunEventKind::Warn { text: text.to_owned() })
    }
}
