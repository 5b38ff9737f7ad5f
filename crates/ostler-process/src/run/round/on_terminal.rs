//! A process that is driven through its terminal: what happened comes from its own record, and what it is told is typed.

use std::time::Duration;

use ostler_agent::agent::Source;
use ostler_agent::event::{AgentEvent, Blocked, Failure, FailureClass, TurnOutcome};
use ostler_agent::look::ScreenChange;
use ostler_agent::run_event::{Channel, RunEventKind};
use ostler_agent::typing::Prepared;
use ostler_agent::watchdog::Input;
use tokio::time::Instant;

use super::Round;
use crate::journal::{JournalError, Stream};
use crate::terminal::driver::{Arrived, Driver, Told};

/// How long the prompt waits until the agent has asked the bridge for its tools: a program that has none by then begins
/// without them, and would not be told of them later.
const TOOLS_PATIENCE: Duration = Duration::from_secs(30);

/// A terminal program, and what it is yet to be told.
pub(in crate::run) struct OnTerminal<'a> {
    pub(super) driver: Driver<'a>,
    /// What it is asked, until it is typed.
    prompt: Option<Prepared>,
    /// Until when the prompt waits for the agent to know its tools.
    waits_until: Option<Duration>,
}

/// Whether the prompt waits until the agent knows its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Tools {
    None,
    AtTheBridge,
}

impl<'a> OnTerminal<'a> {
    pub(in crate::run) fn new(now: Duration, driver: Driver<'a>, prompt: Prepared, tools: Tools) -> Self {
        let mut terminal = Self { driver, prompt: Some(prompt), waits_until: None };
        match tools {
            Tools::None => terminal.submit(now),
            Tools::AtTheBridge => terminal.waits_until = Some(now.saturating_add(TOOLS_PATIENCE)),
        }
        terminal
    }

    /// Types the prompt, once.
    fn submit(&mut self, now: Duration) {
        self.waits_until = None;
        if let Some(prompt) = self.prompt.take() {
            self.driver.submit(now, prompt);
        }
    }

    pub(super) fn wake_at(&self) -> Option<Duration> {
        [self.driver.wake_at(), self.waits_until].into_iter().flatten().min()
    }
}

impl Round<'_, '_> {
    pub(super) async fn on_terminal(&mut self, arrived: Arrived) -> Result<(), JournalError> {
        let now = self.run.desk.now();
        let Some(terminal) = self.contact.terminal() else { return Ok(()) };
        if let Arrived::Drawn(count) = arrived {
            self.run.desk.raw(Stream::Terminal, terminal.driver.drawn(count))?;
        }
        let told = terminal.driver.take(now, arrived);
        self.told_on_terminal(told).await
    }

    /// Time went by.
    pub(super) async fn terminal_is_due(&mut self) -> Result<(), JournalError> {
        let now = self.run.desk.now();
        let Some(terminal) = self.contact.terminal() else { return Ok(()) };
        if terminal.waits_until.is_some_and(|until| until <= now) {
            terminal.submit(now);
            let text = "the agent has not asked the bridge for its tools; it is given its task all the same";
            self.run.desk.tell(RunEventKind::Warn { text: text.to_owned() })?;
        }
        let Some(terminal) = self.contact.terminal() else { return Ok(()) };
        let told = terminal.driver.tick(now);
        self.told_on_terminal(told).await
    }

    /// Whether a person has the keys: then nothing is done that they would not want.
    pub(super) fn is_held(&mut self) -> bool {
        self.contact.terminal().is_some_and(|terminal| terminal.driver.seat().is_held())
    }

    /// Whether there is something that it is yet to be asked.
    pub(super) fn has_a_prompt(&mut self) -> bool {
        let terminal = self.contact.terminal();
        terminal.is_some_and(|terminal| terminal.prompt.is_some() || terminal.driver.is_typing())
    }

    /// The agent knows its tools: it can be asked.
    pub(super) fn tools_are_known(&mut self) {
        let now = self.run.desk.now();
        if let Some(terminal) = self.contact.terminal()
            && terminal.waits_until.is_some()
        {
            terminal.submit(now);
        }
    }

    async fn told_on_terminal(&mut self, told: Vec<Told>) -> Result<(), JournalError> {
        for told in told {
            match told {
                Told::Event(event) => self.written_down(event).await?,
                Told::Alive => {
                    self.seen(Channel::Transcript)?;
                    self.watch(Input::TranscriptGrew).await?;
                }
                Told::Screen(ScreenChange::Nothing) => {}
                Told::Screen(ScreenChange::Spinner) => {
                    self.seen(Channel::Spinner)?;
                    self.watch(Input::ScreenSpinner).await?;
                }
                Told::Screen(ScreenChange::Text) => {
                    self.seen(Channel::Screen)?;
                    self.watch(Input::ScreenText).await?;
                }
                Told::NotSubmitted(cause) => {
                    self.show_screen()?;
                    let failure = Failure {
                        class: FailureClass::Unknown,
                        detail: cause.to_string(),
                        resets_at: None,
                        cut_short: None,
                    };
                    self.heard(AgentEvent::TurnEnded(TurnOutcome::Failed(failure))).await?;
                }
                Told::Answered(dialog) => {
                    let text =
                        format!("answered as policy says ({}): {}", dialog.kind.name(), dialog.question);
                    self.heard(AgentEvent::Noted { text }).await?;
                }
                Told::Blocked { reason, screen } => {
                    self.run.desk.tell(RunEventKind::Screen { text: screen })?;
                    self.heard(AgentEvent::Blocked(Blocked::Dialog { text: reason })).await?;
                }
                Told::Closed => self.watch(Input::Eof).await?,
                Told::Held => {
                    self.run.desk.tell(RunEventKind::Held)?;
                    self.watch(Input::Held).await?;
                }
                Told::Released => {
                    self.run.desk.tell(RunEventKind::Released)?;
                    self.watch(Input::Released).await?;
                    self.end_if_over()?;
                }
                // What they are for is told by events; a turn that is not broken off is left to the ladder.
                Told::Submitted | Told::Settled(_) | Told::Unsettled | Told::TurnOver => {}
            }
        }
        Ok(())
    }

    async fn written_down(&mut self, event: AgentEvent) -> Result<(), JournalError> {
        if matches!(event, AgentEvent::TurnEnded(_)) {
            self.told_by = Source::Transcript;
        }
        self.heard(event).await
    }

    /// Writes down what its terminal shows, if it is on one.
    pub(super) fn show_screen(&mut self) -> Result<(), JournalError> {
        let Some(terminal) = self.contact.terminal() else { return Ok(()) };
        let text = terminal.driver.look().dump();
        self.run.desk.tell(RunEventKind::Screen { text })
    }

    /// Reads what is left on the terminal, once nobody is left who could write, and then what was written down last.
    pub(super) async fn drain_terminal(&mut self, until: Instant) -> Result<(), JournalError> {
        while let Some(terminal) = self.contact.terminal()
            && !terminal.driver.is_over()
        {
            match tokio::time::timeout_at(until, terminal.driver.next()).await {
                Ok(arrived) => self.on_terminal(arrived).await?,
                Err(_) => break,
            }
        }
        let Some(terminal) = self.contact.terminal() else { return Ok(()) };
        for event in terminal.driver.last_words() {
            self.written_down(event).await?;
        }
        Ok(())
    }
}
