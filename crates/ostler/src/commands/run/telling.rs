//! A run as it is told to whoever started it: every line to programs, what matters to people.

use std::path::Path;

use ostler_agent::run_event::{Changes, RunEvent, RunEventKind};
use ostler_agent::watchdog::Limits;
use ostler_process::journal::Facts;
use ostler_process::run::Report;

use super::answering::is_possible;
use super::args::{Explained, Voice};
use super::json_voice::JsonVoice;
use super::show::{Show, Speech};
use super::status::{Shared, Status, Who};
use super::summary::summary;
use crate::display;
use crate::failure::Failure;
use crate::interrupt::Signals;
use crate::surroundings::Surroundings;
use crate::teller::Page;

/// Let go before its end, it leaves a clean terminal.
pub(super) enum Telling {
    /// To programs.
    Lines(JsonVoice),
    /// To people, as it goes.
    Words(Box<Words>),
    /// To people, in the end.
    Summary { page: Page, changes: Option<Changes>, explained: Explained },
}

pub(super) struct Words {
    page: Page,
    show: Show,
    status: Shared,
    changes: Option<Changes>,
    explained: Explained,
}

impl Telling {
    pub(super) fn begin(
        voice: Voice,
        explained: Explained,
        facts: &Facts,
        limits: Limits,
        folder: &Path,
    ) -> Result<Self, Failure> {
        Ok(match voice {
            Voice::Json => Self::Lines(JsonVoice::start(folder)?),
            Voice::Quiet => Self::Summary { page: Page::open(None), changes: None, explained },
            Voice::Words => {
                let status = Shared::new(Status::new(who(facts), limits));
                let speech = if is_command(facts) { Speech::Lines } else { Speech::Paragraphs };
                let workspace = facts.cwd.display().to_string();
                Self::Words(Box::new(Words {
                    page: Page::open(Some(status.words())),
                    show: Show::new(&facts.run, &workspace, speech, display::terminal_columns),
                    status,
                    changes: None,
                    explained,
                }))
            }
        })
    }

    /// Tells what happened. Never blocks.
    pub(super) fn tell(&mut self, event: &RunEvent, line: &str) {
        match (self, &event.kind) {
            (Self::Lines(voice), _) => voice.tell(line),
            (Self::Summary { changes, .. }, RunEventKind::Changes(told)) => *changes = Some(told.clone()),
            (Self::Summary { .. }, _) => {}
            (Self::Words(words), _) => words.tell(event),
        }
    }

    /// Tells how it ended, if it did.
    pub(super) async fn end(
        self,
        report: Option<&Report>,
        facts: &Facts,
        signals: &mut Signals,
        here: &Surroundings,
    ) -> Result<(), Failure> {
        let told = |changes: Option<&Changes>, explained| {
            report.map(|report| summary(&report.json, facts, (changes, explained), here))
        };
        match self {
            Self::Lines(voice) => return voice.finish(signals).await,
            Self::Words(words) => {
                let Words { page, changes, explained, .. } = *words;
                page.close(display::styled(&told(changes.as_ref(), explained).unwrap_or_default()));
            }
            Self::Summary { page, changes, explained } => {
                let told = told(changes.as_ref(), explained).unwrap_or_default();
                page.close(display::styled(told.trim_start()));
            }
        }
        Ok(())
    }
}

impl Words {
    fn tell(&mut self, event: &RunEvent) {
        if let RunEventKind::Changes(changes) = &event.kind {
            self.changes = Some(changes.clone());
        }
        if self.page.moves() {
            self.status.note(event);
        }
        if let Some(told) = self.show.line(event) {
            self.page.tell(display::styled(&told));
        }
    }
}

/// A program of which nothing is known.
fn is_command(facts: &Facts) -> bool {
    facts.agent.starts_with("command:")
}

fn who(facts: &Facts) -> Who {
    let program = facts.program.file_name().unwrap_or_default().display().to_string();
    Who {
        agent: if is_command(facts) { program } else { facts.agent.clone() },
        workspace: facts.cwd.display().to_string(),
        is_rehearsed: facts.rehearse.is_some(),
        is_answered_here: is_possible(Voice::Words),
    }
}
