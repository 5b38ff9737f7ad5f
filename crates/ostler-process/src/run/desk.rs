//! Where everything that happens is written down, and told to whoever watches. Has the run's only clock.

use std::path::Path;
use std::time::Duration;

use ostler_agent::run_event::RunEventKind;
use tokio::time::Instant;

use super::{Observer, Report};
use crate::journal::{Journal, JournalError, Stream};

pub(super) struct Desk<'a> {
    journal: Journal,
    observe: &'a mut Observer<'a>,
    opened: Instant,
    age: Duration,
}

impl<'a> Desk<'a> {
    /// For a run that began `age` ago.
    pub(super) fn new<'o: 'a>(journal: Journal, observe: &'a mut Observer<'o>, age: Duration) -> Self {
        Self { journal, observe, opened: Instant::now(), age }
    }

    /// Since the run began.
    pub(super) fn now(&self) -> Duration {
        self.age.saturating_add(self.opened.elapsed())
    }

    /// That time, as a timer wants it. A time beyond all timers is never.
    pub(super) fn instant(&self, at: Duration) -> Option<Instant> {
        self.opened.checked_add(at.saturating_sub(self.age))
    }

    pub(super) fn folder(&self) -> &Path {
        self.journal.folder()
    }

    /// Writes bytes down as they came.
    pub(super) fn raw(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), JournalError> {
        self.journal.raw(stream, bytes)
    }

    /// Writes down what happened, then tells it: nobody is told what is not kept.
    pub(super) fn tell(&mut self, kind: RunEventKind) -> Result<(), JournalError> {
        let ms = u64::try_from(self.now().as_millis()).unwrap_or(u64::MAX);
        let (event, line) = self.journal.event(ms, kind)?;
        (self.observe)(&event, &line);
        Ok(())
    }

    /// The outcome: as the last event, and as a file.
    pub(super) fn close(mut self, report: &Report) -> Result<(), JournalError> {
        self.tell(RunEventKind::Outcome(without_time(report.json.clone())))?;
        self.journal.close(&report.json)
    }
}

/// An outcome as an event has it. Every line has its own time, which for this one is the same.
pub(super) fn without_time(mut outcome: serde_json::Value) -> serde_json::Value {
    if let Some(fields) = outcome.as_object_mut() {
        fields.remove("ms");
    }
    outcome
}
