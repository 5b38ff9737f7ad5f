//! Who is being tried, and what it does: a line that moves on a terminal, durable lines elsewhere. Always on stderr.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ostler_agent::bridge::BridgeEvent;
use ostler_agent::event::AgentEvent;
use ostler_agent::run_event::{RunEvent, RunEventKind};

use super::told::Smoked;
use crate::display;
use crate::programs::Sighting;
use crate::words::{cut, one_line, time};

/// How often the moving line is drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(120);

/// How much of a line is foreign.
const WORDS: usize = 60;

/// Shows what happens. What moves is gone when it is dropped.
pub(super) struct Progress {
    who: String,
    bar: Option<ProgressBar>,
    /// Not told twice in a row: a stop has many rungs.
    told: String,
}

impl Progress {
    pub(super) fn begin(sighting: &Sighting, number: usize, all: usize) -> Self {
        let who = match sighting.version() {
            Some(version) => format!("{} {version}", sighting.agent.name()),
            None => sighting.agent.name().to_owned(),
        };
        let mut progress = Self { who: format!("[{number}/{all}] {who}"), bar: None, told: String::new() };
        if io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(DRAW_INTERVAL);
            progress.bar = Some(bar);
        }
        progress.show("is started");
        progress
    }

    /// Shows what happened, if it says something to a person.
    pub(super) fn note(&mut self, event: &RunEvent) {
        let words = match &event.kind {
            RunEventKind::Agent(AgentEvent::ToolStarted { tool, .. }) => format!("uses {}", one_line(tool)),
            RunEventKind::Bridge(BridgeEvent::Connected { .. }) => "came to the bridge".to_owned(),
            RunEventKind::Bridge(BridgeEvent::Accepted { kind, .. }) => {
                format!("handed over {}", one_line(kind))
            }
            RunEventKind::Bridge(BridgeEvent::Rejected { kind, .. }) => {
                format!("had {} rejected", one_line(kind))
            }
            RunEventKind::Bridge(BridgeEvent::Completed { .. }) => "declared completion".to_owned(),
            RunEventKind::Bridge(BridgeEvent::Refused { .. }) => "was not let in at the bridge".to_owned(),
            RunEventKind::Resumed { reason, .. } => format!("is resumed: {}", one_line(reason)),
            RunEventKind::Parked { reason, .. } => format!("waits: {}", one_line(reason)),
            RunEventKind::Stopping { reason, .. } => format!("is stopped: {}", one_line(reason)),
            _ => return,
        };
        self.show(&cut(&words, WORDS));
    }

    /// The agent is gone, and what it left is looked at.
    pub(super) fn looks(&mut self) {
        self.show("has ended; looking at what it did");
    }

    /// Tells how it went.
    pub(super) fn end(self, smoked: &Smoked) {
        self.clear();
        display::tell(&format!(
            "{}: {} ({})",
            self.who,
            smoked.verdict.word(),
            time(Duration::from_millis(smoked.ms))
        ));
    }

    /// Takes away what moves.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn show(&mut self, words: &str) {
        if self.told == words {
            return;
        }
        self.told = words.to_owned();
        match &self.bar {
            Some(bar) => bar.set_message(format!("{} {words}", self.who)),
            None => display::tell(&format!("{} {words}", self.who)),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
