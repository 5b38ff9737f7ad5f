//! Writes a turn down while it happens, from the moment at which it has a session. The client may disconnect at any
//! moment: then the turn was broken off, and that is written too.

use std::sync::Arc;

use ostler_agent::canonical::Message;
use ostler_agent::event::{AgentEvent, Blocked, Part, TurnOutcome};
use ostler_agent::fingerprint::BETWEEN_TEXTS;
use ostler_agent::leasing::Terms;
use ostler_agent::reply::Reply;

use super::conversation::Conversation;
use super::line::{Ending, Happened, Settled};
use super::quota::QuotaExceeded;
use crate::pool::known_on;

/// How much of a tool's result is told as an event. What it added to the conversation is kept whole.
const LONGEST_RESULT: usize = 16 * 1024;

/// A piece of a text, told to those who listen now. It is kept until the whole follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The turn.
    pub turn: String,
    /// Words.
    pub text: String,
}

/// One turn, being written down.
#[derive(Debug)]
pub struct Recorder {
    conversation: Arc<Conversation>,
    turn: String,
    /// On which it is found again.
    terms: Terms,
    /// What was said until now, the question included.
    said: Vec<Message>,
    reply: Reply,
    standing: Standing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It has no session, and nothing of it is written.
    Waiting,
    Open,
    Over,
}

impl Recorder {
    pub(super) fn new(
        conversation: Arc<Conversation>,
        turn: String,
        terms: Terms,
        said: Vec<Message>,
    ) -> Self {
        Self { conversation, turn, terms, said, reply: Reply::default(), standing: Standing::Waiting }
    }

    /// The turn.
    pub fn turn(&self) -> &str {
        &self.turn
    }

    /// The conversation.
    pub fn conversation(&self) -> &Arc<Conversation> {
        &self.conversation
    }

    /// A session has the prompt, or a client of the native API was told that the turn is accepted: it is written down from
    /// now on.
    pub fn commit(&mut self) {
        if self.standing == Standing::Waiting {
            self.standing = Standing::Open;
            self.conversation.commit_turn(&self.turn);
        }
    }

    /// The turn was refused before it had a session. Nothing of it is left.
    pub fn refused(&mut self) {
        self.abandon(None);
    }

    fn abandon(&mut self, error: Option<&str>) {
        if self.standing == Standing::Waiting {
            self.standing = Standing::Over;
            self.conversation.abandon_turn(&self.turn, error);
        }
    }

    /// What the agent said or did. Without room for it, the turn has failed.
    pub fn hear(&mut self, event: &AgentEvent) -> Result<(), QuotaExceeded> {
        self.commit();
        if self.standing == Standing::Over {
            return Ok(());
        }
        let written = self.write(event);
        if let Err(exceeded) = written {
            // Its own end is short, and always written.
            let _ = self.end(Ending::Failed, Some(exceeded.to_string()));
        }
        written
    }

    fn write(&mut self, event: &AgentEvent) -> Result<(), QuotaExceeded> {
        self.reply.hear(event);
        let turn = || self.turn.clone();
        match event {
            AgentEvent::Said { text, part: Part::Delta, within: None } => {
                self.conversation.on_piece(Heard { turn: turn(), text: text.clone() });
            }
            AgentEvent::Said { part: Part::Delta, within: Some(_), .. } => {}
            AgentEvent::Thought { text } if text.is_empty() => {}
            // Between the agent and a server of ours: nobody's conversation.
            AgentEvent::Blocked(Blocked::Routed { .. }) => {}
            AgentEvent::TurnEnded(outcome) => {
                let (ending, error) = match outcome {
                    TurnOutcome::Done { text } => {
                        self.say_at_last(text);
                        (Ending::Done, None)
                    }
                    TurnOutcome::Called => (Ending::Called, None),
                    TurnOutcome::Interrupted => (Ending::Interrupted, None),
                    TurnOutcome::Failed(failure) => (Ending::Failed, Some(failure.detail.clone())),
                };
                self.end(ending, error)?;
            }
            event => {
                if let AgentEvent::Spent(usage) = event {
                    self.conversation.spend(usage);
                }
                self.conversation.write(&Happened::Agent { turn: turn(), event: shortened(event) })?;
                if matches!(event, AgentEvent::Said { within: None, .. }) {
                    self.conversation.on_whole();
                }
            }
        }
        Ok(())
    }

    /// The agent asks something, and a client is to answer.
    pub fn asked(
        &self,
        permission: &str,
        tool: Option<String>,
        input: Option<serde_json::Value>,
        text: Option<String>,
    ) -> Result<(), QuotaExceeded> {
        let (turn, permission) = (self.turn.clone(), permission.to_owned());
        self.conversation.write(&Happened::PermissionAsked { turn, permission, tool, input, text })
    }

    /// There will be no more of it. If it never had a session, that is all that is known of it.
    pub fn failed(&mut self, error: &str) {
        self.abandon(Some(error));
        // A turn that failed adds nothing for which there could be no room.
        let _ = self.end(Ending::Failed, Some(error.to_owned()));
    }

    /// Agents that say all at the end.
    fn say_at_last(&mut self, text: &str) {
        let words: Vec<String> = self.reply.messages().iter().map(Message::text).collect();
        if words.join(BETWEEN_TEXTS).trim().is_empty() && !text.trim().is_empty() {
            self.reply.hear(&AgentEvent::Said { text: text.to_owned(), part: Part::Whole, within: None });
        }
    }

    fn end(&mut self, ending: Ending, error: Option<String>) -> Result<(), QuotaExceeded> {
        if self.standing == Standing::Over {
            return Ok(());
        }
        self.standing = Standing::Over;
        let added = match ending {
            Ending::Done | Ending::Called | Ending::Interrupted => self.reply.messages().to_vec(),
            Ending::Failed => Vec::new(),
        };
        let known = (ending != Ending::Failed).then(|| {
            self.said.extend(added.iter().cloned());
            known_on(&self.terms, &self.said)
        });
        let added = added.iter().map(Message::written).collect();
        self.conversation.end_turn(&self.turn, (ending, error), added, known)
    }
}

/// Writes down what became of a question.
pub fn settled(conversation: &Conversation, turn: &str, permission: &str, outcome: Settled) {
    let (turn, permission) = (turn.to_owned(), permission.to_owned());
    conversation.write_needed(&Happened::PermissionSettled { turn, permission, outcome });
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.abandon(None);
        if self.standing == Standing::Open {
            self.reply.hear(&AgentEvent::TurnEnded(TurnOutcome::Interrupted));
            // Without room for the words the turn has failed, and that is written.
            let _ = self.end(Ending::Interrupted, None);
        }
    }
}

fn shortened(event: &AgentEvent) -> AgentEvent {
    let mut event = event.clone();
    if let AgentEvent::ToolEnded { result, .. } = &mut event
        && result.text.len() > LONGEST_RESULT
    {
        let fits = |at: &usize| result.text.is_char_boundary(*at);
        let end = (0..=LONGEST_RESULT).rev().find(fits).unwrap_or(0);
        result.text.truncate(end);
        result.text.push('…');
    }
    event
}
