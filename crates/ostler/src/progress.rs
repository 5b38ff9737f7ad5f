//! How an install goes on, for people: a line that moves on a terminal, durable lines elsewhere. Always on stderr.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ostler_process::install::Step;

use crate::display;

/// How often a log gets a line while nothing else changes: often enough to show life, rarely enough to be read.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// How often the moving line is drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(120);

const MEGABYTE: u64 = 1_000_000;

/// Shows steps. What moves is cleared when it is dropped.
pub(crate) struct Progress {
    what: String,
    begun: Instant,
    shown: Shown,
}

enum Shown {
    Moving(ProgressBar),
    Lines { told: Option<(String, Instant)> },
}

impl Progress {
    /// Begins to show an install of `what`.
    pub(crate) fn begin(what: &str) -> Self {
        let shown = if io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(DRAW_INTERVAL);
            Shown::Moving(bar)
        } else {
            Shown::Lines { told: None }
        };
        Self { what: what.to_owned(), begun: Instant::now(), shown }
    }

    /// Shows a step.
    pub(crate) fn show(&mut self, step: &Step) {
        let (stage, size) = self.words(step);
        self.say(stage, &size);
    }

    /// Shows what is being done, which stays the same for a while, and what of it changes.
    pub(crate) fn say(&mut self, stage: String, size: &str) {
        match &mut self.shown {
            Shown::Moving(bar) => bar.set_message(format!("{stage}{size}")),
            Shown::Lines { told } => {
                let is_news = told.as_ref().is_none_or(|(last, _)| *last != stage);
                let is_due = told.as_ref().is_some_and(|(_, at)| at.elapsed() >= LINE_INTERVAL);
                if is_news || is_due {
                    let size = if is_news {
                        String::new()
                    } else {
                        format!("{size}, {} s", self.begun.elapsed().as_secs())
                    };
                    display::tell(&format!("{stage}{size}"));
                    *told = Some((stage, Instant::now()));
                }
            }
        }
    }

    /// What is being done, which stays the same for a while, and what changes.
    fn words(&self, step: &Step) -> (String, String) {
        let what = &self.what;
        match step {
            Step::Resolving => (format!("{what}: asking npm for the version and its hashes"), String::new()),
            Step::Fetching { version, bytes } => {
                (format!("{what} {version}: fetching with npm"), format!(", {} MB on disk", bytes / MEGABYTE))
            }
            Step::Verifying => (format!("{what}: starting it for the first time"), String::new()),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Shown::Moving(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}
