//! What an agent says: bytes into records into events, each written down before anything is done about it.

use std::time::Duration;

use ostler_agent::agent::{Order, Source};
use ostler_agent::completion::hopeless;
use ostler_agent::event::AgentEvent;
use ostler_agent::framer::Frame;
use ostler_agent::policy;
use ostler_agent::record::Record;
use ostler_agent::run_event::{Channel, RunEventKind};
use ostler_agent::source;
use ostler_agent::stopping::{self, StopReason};
use ostler_agent::waiting;
use ostler_agent::watchdog::{EventKind, Input, State};

use super::transcript::is_work;
use super::{Life, Round};
use crate::journal::{JournalError, Stream};

/// How much of the end of its standard error is looked at for why an agent failed.
const TAIL: usize = 8 * 1024;

/// How often it is written down that there is life on a channel.
const SEEN_EVERY: Duration = Duration::from_secs(5);

impl Round<'_, '_> {
    /// Bytes of its standard output; none are its end.
    pub(super) async fn said(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        self.run.desk.raw(Stream::Stdout, bytes)?;
        let mut records = Vec::new();
        let read = if self.run.plan.agent.writes_records() { Record::read } else { Record::text };
        let mut keep = |frame: Frame<'_>| {
            records.push(match frame {
                Frame::Line(line) => read(line),
                Frame::TooLong(length) => Record::Garbled(format!("a line of {length} bytes")),
            });
        };
        if bytes.is_empty() {
            self.framer.finish(&mut keep);
            self.stdout = None;
        } else {
            self.framer.feed(bytes, &mut keep);
        }
        for record in records {
            self.read(record).await?;
        }
        if self.stdout.is_none() {
            self.transcript.note(self.run.desk.now(), source::Input::Closed);
            self.watch(Input::Eof).await?;
        }
        Ok(())
    }

    /// Chatter on the side is no sign of life; its end may tell why an agent failed.
    pub(super) fn muttered(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        self.run.desk.raw(Stream::Stderr, bytes)?;
        if bytes.is_empty() {
            self.stderr = None;
        }
        self.tail.extend_from_slice(bytes);
        let over = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..over);
        Ok(())
    }

    async fn read(&mut self, record: Record) -> Result<(), JournalError> {
        if record != Record::Blank {
            self.transcript.note(self.run.desk.now(), source::Input::Heard);
        }
        let events = match record {
            Record::Blank => return Ok(()),
            Record::Json(value) => {
                let events = self.decoder.events(Source::Stdout, &value);
                if events.is_empty() {
                    self.seen(Channel::Stdout)?;
                    return self.watch(Input::Event(EventKind::Noted)).await;
                }
                events
            }
            Record::Noise(text) => {
                let events = self.decoder.noise(&text);
                if events.is_empty() {
                    self.run.desk.tell(RunEventKind::Noise { text })?;
                }
                events
            }
            Record::Garbled(text) => {
                self.run.desk.tell(RunEventKind::Garbled { text })?;
                return self.watch(Input::Event(EventKind::Unknown)).await;
            }
        };
        for event in events {
            self.heard(event).await?;
        }
        Ok(())
    }

    /// Life that leaves no event of its own, which whoever reads the journal should see.
    pub(super) fn seen(&mut self, channel: Channel) -> Result<(), JournalError> {
        let now = self.run.desk.now();
        let last = self.seen.get(&channel);
        if last.is_none_or(|last| now.saturating_sub(*last) >= SEEN_EVERY) {
            self.seen.insert(channel, now);
            self.run.desk.tell(RunEventKind::Seen { channel })?;
        }
        Ok(())
    }

    pub(super) async fn heard(&mut self, event: AgentEvent) -> Result<(), JournalError> {
        self.remember(&event);
        let limit = self.run.ledger.enter(&event);
        let (input, answer) = (Input::of(&event), self.answer(&event));
        let failure = match &event {
            AgentEvent::Blocked(blocked) => hopeless(blocked).or_else(|| policy::unanswerable(blocked)),
            _ => None,
        };
        let is_end = matches!(event, AgentEvent::TurnEnded(_));
        let wait = waiting::Input::of(&event);
        // A wait that it ends is over before it is told.
        if wait == waiting::Input::Heard {
            self.wait(wait).await?;
        }
        self.run.desk.tell(RunEventKind::Agent(event))?;
        self.watch(input).await?;
        if wait != waiting::Input::Heard {
            self.wait(wait).await?;
        }
        if let Some(answer) = answer {
            self.say(&answer)?;
        }
        if is_end {
            self.turn_ended().await?;
        }
        for reason in [limit.map(|limit| StopReason::Limit { limit }), failure].into_iter().flatten() {
            self.begin(reason).await?;
        }
        Ok(())
    }

    fn remember(&mut self, event: &AgentEvent) {
        self.run.has_worked |= is_work(event);
        match event {
            AgentEvent::Started { session, .. } => {
                self.run.session = Some(session.clone());
                self.transcript.follow(self.run.plan, session);
                self.turn = None;
            }
            AgentEvent::TurnEnded(turn) => {
                self.turn = Some(turn.clone());
                self.transcript.note(self.run.desk.now(), source::Input::Ended);
            }
            // A further turn, which nobody need have asked for.
            AgentEvent::Asked { .. }
            | AgentEvent::Said { within: None, .. }
            | AgentEvent::ToolStarted { within: None, .. } => self.turn = None,
            _ => {}
        }
    }

    /// What policy says to a question.
    fn answer(&self, event: &AgentEvent) -> Option<Order> {
        match event {
            AgentEvent::Blocked(blocked) => policy::answer(self.run.plan.permissions, blocked),
            _ => None,
        }
    }

    async fn turn_ended(&mut self) -> Result<(), JournalError> {
        self.climb(stopping::Input::TurnEnded).await?;
        // With work open beside the turn the agent will go on by itself.
        if self.run.dog.state() == State::Ending
            && self.ladder.reason().is_none()
            && self.life == Life::Running
        {
            self.say(&Order::End)?;
        }
        Ok(())
    }
}
