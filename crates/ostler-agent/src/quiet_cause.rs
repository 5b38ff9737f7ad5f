//! Why nothing is received from an agent: what its process, its output and its last event show. Nothing is guessed: an
//! agent that does not report the pieces of an answer leaves open whether the request or the answer is stuck.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::event::{AgentEvent, Blocked};

/// How far the model's answer has come, for agents that report its pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The agent sent a request and has received nothing.
    Requested,
    /// The answer began; this part of it is not complete.
    Begun {
        /// The part.
        part: AnswerPart,
        /// Characters of the part that were received.
        characters: u64,
    },
    /// The answer began, and no part of it is incomplete.
    Between,
}

/// A part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerPart {
    /// Text for the reader.
    Text,
    /// The model's thoughts.
    Thinking,
    /// A tool call.
    ToolCall,
}

/// Why nothing is received from an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum QuietCause {
    /// A signal stopped the agent's process.
    ProcessStopped {
        /// The process.
        pid: u32,
    },
    /// The agent sent a request to its model and received nothing.
    RequestUnanswered,
    /// The model's answer stopped in the middle.
    AnswerCut {
        /// The part in which it stopped; nothing if it stopped between two parts.
        part: Option<AnswerPart>,
        /// Characters of that part that were received.
        characters: u64,
    },
    /// The agent waits for a message of its model. Whether the request or the answer is stuck is not reported.
    NoMessage {
        /// The tool whose result the model was given last; nothing if that was the prompt.
        after: Option<String>,
    },
    /// The provider failed, and the agent tries again.
    Retrying {
        /// Which attempt failed, from 1.
        attempt: u32,
        /// The failure, in the agent's words.
        reason: String,
    },
    /// What was reported before no longer holds, and nothing else is known.
    Unknown,
}

impl fmt::Display for QuietCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProcessStopped { pid } => write!(f, "the agent's process is stopped (SIGSTOP), pid {pid}"),
            Self::RequestUnanswered => f.write_str("the agent's request to the model was not answered"),
            Self::AnswerCut { part: None, .. } => f.write_str("the model's answer stopped before its end"),
            Self::AnswerCut { part: Some(part), characters } => {
                let part = match part {
                    AnswerPart::Text => "its text",
                    AnswerPart::Thinking => "its thinking",
                    AnswerPart::ToolCall => "a tool call",
                };
                write!(f, "the model's answer stopped in the middle of {part}, after {characters} characters")
            }
            Self::NoMessage { after: None } => {
                f.write_str("the agent has no complete message of the model since its prompt")
            }
            Self::NoMessage { after: Some(tool) } => {
                write!(f, "the agent has no complete message of the model since the result of `{tool}`")
            }
            Self::Retrying { attempt, reason } => {
                write!(f, "the provider failed and the agent tries again, attempt {attempt} failed: {reason}")
            }
            Self::Unknown => f.write_str("the cause is not known"),
        }
    }
}

/// Follows the events of an agent to know what it waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitTracker {
    wait: Wait,
    /// Calls that are open, with their tools.
    open: Vec<(String, String)>,
    /// Characters of text that were received in pieces since the last complete message.
    pieces: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Wait {
    /// For nothing that is known.
    #[default]
    None,
    /// For the model, after the prompt or the result of a tool.
    Model {
        after: Option<String>,
    },
    Retry {
        attempt: u32,
        reason: String,
    },
}

impl WaitTracker {
    /// A process of the agent was started.
    pub fn on_spawn(&mut self) {
        *self = Self::default();
    }

    /// The agent reported something.
    pub fn on_event(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Started { .. } | AgentEvent::Asked { .. } => self.wait = Wait::Model { after: None },
            AgentEvent::Said { text, part: crate::event::Part::Delta, within: None } => {
                self.pieces = self.pieces.saturating_add(count(text));
            }
            AgentEvent::Said { within: None, .. } | AgentEvent::Thought { .. } => {
                self.wait = Wait::None;
                self.pieces = 0;
            }
            AgentEvent::ToolStarted { call, tool, .. } => {
                self.open.push((call.clone(), tool.clone()));
                self.wait = Wait::None;
                self.pieces = 0;
            }
            AgentEvent::ToolEnded { call, .. } => {
                let ended = self.open.iter().position(|(open, _)| open == call);
                let tool = ended.map(|index| self.open.remove(index).1);
                self.wait = Wait::Model { after: tool };
            }
            AgentEvent::TurnEnded(_) => *self = Self::default(),
            AgentEvent::Blocked(Blocked::Retrying { attempt, reason, .. }) => {
                self.wait = Wait::Retry { attempt: *attempt, reason: reason.clone() };
                self.pieces = 0;
            }
            AgentEvent::Said { within: Some(_), .. }
            | AgentEvent::TaskOpened { .. }
            | AgentEvent::TaskClosed { .. }
            | AgentEvent::Spent(_)
            | AgentEvent::SpentSoFar(_)
            | AgentEvent::Unpriced { .. }
            | AgentEvent::Blocked(_)
            | AgentEvent::Noted { .. }
            | AgentEvent::Unknown { .. } => {}
        }
    }

    /// What the agent waits for, if it is known and is not a tool. `answer` is what it reports of the model's answer.
    pub fn cause(&self, answer: Option<&Answer>) -> Option<QuietCause> {
        if !self.open.is_empty() {
            return None;
        }
        match (answer, &self.wait) {
            (Some(Answer::Requested), _) => Some(QuietCause::RequestUnanswered),
            (Some(Answer::Begun { part, characters }), _) => {
                Some(QuietCause::AnswerCut { part: Some(*part), characters: *characters })
            }
            (Some(Answer::Between), _) => Some(QuietCause::AnswerCut { part: None, characters: 0 }),
            (None, _) if self.pieces > 0 => {
                Some(QuietCause::AnswerCut { part: Some(AnswerPart::Text), characters: self.pieces })
            }
            (None, Wait::Model { after }) => Some(QuietCause::NoMessage { after: after.clone() }),
            (None, Wait::Retry { attempt, reason }) => {
                Some(QuietCause::Retrying { attempt: *attempt, reason: reason.clone() })
            }
            (None, Wait::None) => None,
        }
    }
}

/// Characters of a text.
pub(crate) fn count(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::{FailureClass, Part, ToolResult, TurnOutcome};

    fn text_event(text: &str, part: Part) -> AgentEvent {
        AgentEvent::Said { text: text.to_owned(), part, within: None }
    }

    #[test]
    fn a_quiet_agent_waits_for_what_its_last_event_shows() {
        let asked = AgentEvent::Asked { text: "do it".to_owned() };
        let started = |call: &str| AgentEvent::ToolStarted {
            call: call.to_owned(),
            tool: "shell".to_owned(),
            input: json!({}),
            within: None,
        };
        let ended = |call: &str| AgentEvent::ToolEnded {
            call: call.to_owned(),
            result: ToolResult { failed: false, exit_code: None, text: String::new() },
        };
        let retrying = AgentEvent::Blocked(Blocked::Retrying {
            attempt: 2,
            limit: Some(10),
            delay: None,
            reason: "overloaded".to_owned(),
            class: FailureClass::Overloaded,
        });
        let done = AgentEvent::TurnEnded(TurnOutcome::Done { text: String::new() });
        let piece = || text_event("héllo", Part::Delta);
        let whole = || text_event("hello", Part::Whole);
        let cut = |part, characters| Some(QuietCause::AnswerCut { part, characters });
        let no_message =
            |after: Option<&str>| Some(QuietCause::NoMessage { after: after.map(str::to_owned) });
        let begun = Answer::Begun { part: AnswerPart::ToolCall, characters: 7 };
        let retries = Some(QuietCause::Retrying { attempt: 2, reason: "overloaded".to_owned() });
        type Case = (&'static str, Vec<AgentEvent>, Option<Answer>, Option<QuietCause>);
        let table: Vec<Case> = vec![
            ("nothing was reported", vec![], None, None),
            ("it has its prompt", vec![asked.clone()], None, no_message(None)),
            (
                "it has its prompt, and reports requests",
                vec![asked.clone()],
                Some(Answer::Requested),
                Some(QuietCause::RequestUnanswered),
            ),
            ("text began", vec![asked.clone(), piece(), piece()], None, cut(Some(AnswerPart::Text), 10)),
            (
                "a call began",
                vec![asked.clone(), piece(), whole()],
                Some(begun),
                cut(Some(AnswerPart::ToolCall), 7),
            ),
            ("a part is complete", vec![asked.clone(), whole()], Some(Answer::Between), cut(None, 0)),
            ("a message is complete", vec![asked.clone(), piece(), whole()], None, None),
            ("a tool runs", vec![asked.clone(), started("a")], None, None),
            (
                "a tool has run",
                vec![asked.clone(), started("a"), ended("a")],
                None,
                no_message(Some("shell")),
            ),
            ("one of two runs", vec![started("a"), started("b"), ended("b")], Some(Answer::Requested), None),
            ("it waits before it tries again", vec![asked.clone(), retrying], None, retries),
            ("the turn is over", vec![asked, whole(), done], None, None),
        ];
        for (name, events, answer, want) in table {
            let mut tracker = WaitTracker::default();
            events.iter().for_each(|event| tracker.on_event(event));
            assert_eq!(tracker.cause(answer.as_ref()), want, "{name}");
        }
    }
}
