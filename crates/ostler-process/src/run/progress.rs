//! Whether the last process got anywhere: it changed a file, or handed over an artifact.

use ostler_agent::completion::Progress;
use ostler_agent::run_event::{Channel, RunEventKind};

use super::round::Rounded;
use super::{Run, Watching};
use crate::journal::JournalError;

impl Run<'_> {
    /// Finds out whether the process that `rounded` describes got anywhere. Takes less than a second.
    pub(super) async fn find_progress(&mut self, rounded: &Rounded) -> Result<Progress, JournalError> {
        let changed = self.workplace.progress().await;
        let has_new_artifacts = self.has_new_artifacts();
        if changed == Progress::Made && !rounded.recorded_change {
            self.record_late_change()?;
        }
        Ok(if has_new_artifacts { Progress::Made } else { changed })
    }

    /// Records a change that was only found by comparing files. The monitor misses one if the process ends right after
    /// it, or if the system has no more watches to give.
    fn record_late_change(&mut self) -> Result<(), JournalError> {
        // A run that is not watched from its start has no use for it: the process has ended.
        if self.plan.watching != Watching::AtOnce || self.company.is_told {
            return Ok(());
        }
        self.desk.tell(RunEventKind::Seen { channel: Channel::Workspace })
    }
}
