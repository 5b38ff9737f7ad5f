//! What an agent says in a turn, as pieces of an answer. An agent tells a text in pieces, and then once more as a whole:
//! here each word comes once. What the agent does with its own tools, and what its sub-agents say, is not the answer.

use ostler_agent::event::{AgentEvent, CutShort, Failure, Part, TurnOutcome, Usage, sum};
use ostler_agent::offering;
use serde_json::Value;

use crate::pool::BrokenOff;
use crate::wire::{Piece, Problem, Stop};

/// One turn, told.
#[derive(Debug, Default)]
pub struct Narration {
    /// Pieces of the text that is open.
    open: String,
    told: Told,
    usage: Usage,
    broken_off: BrokenOff,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Told {
    #[default]
    Nothing,
    Something,
    /// The answer is over; whatever else comes is another's.
    All,
}

impl Narration {
    /// Who broke the turn off, if it is.
    pub fn broken_off(&mut self, by: BrokenOff) {
        self.broken_off = by;
    }

    /// What is told where nothing more comes.
    pub fn left(&self, by: Option<BrokenOff>) -> Piece {
        match by {
            Some(by) => Piece::BrokenOff { by, usage: self.usage },
            None => Piece::Failed(Problem::broke_off()),
        }
    }

    /// What the next event adds to the answer. After its end, nothing.
    pub fn hear(&mut self, event: &AgentEvent) -> Vec<Piece> {
        if self.told == Told::All {
            return Vec::new();
        }
        let pieces = match event {
            AgentEvent::Said { text, part: Part::Delta, within: None } => self.piece(text),
            AgentEvent::Said { text, part: Part::Whole, within: None } => self.whole(text),
            AgentEvent::Spent(usage) => {
                self.usage = sum(self.usage, *usage);
                Vec::new()
            }
            AgentEvent::ToolStarted { call, tool, input, within: None } => match offering::named(tool) {
                Some(tool) => self.called(call, tool, input),
                None => Vec::new(),
            },
            AgentEvent::TurnEnded(outcome) => self.ended(outcome),
            AgentEvent::Said { within: Some(_), .. }
            | AgentEvent::Started { .. }
            | AgentEvent::Asked { .. }
            | AgentEvent::Thought { .. }
            | AgentEvent::ToolStarted { within: Some(_), .. }
            | AgentEvent::ToolEnded { .. }
            | AgentEvent::TaskOpened { .. }
            | AgentEvent::TaskClosed { .. }
            | AgentEvent::SpentSoFar(_)
            | AgentEvent::Unpriced { .. }
            | AgentEvent::Blocked(_)
            | AgentEvent::Noted { .. }
            | AgentEvent::Unknown { .. } => Vec::new(),
        };
        for piece in &pieces {
            self.told = match piece {
                Piece::Ended { .. } | Piece::BrokenOff { .. } | Piece::Failed(_) => Told::All,
                Piece::Text(_) | Piece::TextEnded | Piece::Call { .. } => Told::Something,
            };
        }
        pieces
    }

    fn piece(&mut self, text: &str) -> Vec<Piece> {
        if text.is_empty() {
            return Vec::new();
        }
        self.open.push_str(text);
        vec![Piece::Text(text.to_owned())]
    }

    fn whole(&mut self, text: &str) -> Vec<Piece> {
        let told = std::mem::take(&mut self.open);
        let Some(rest) = text.strip_prefix(&told) else {
            // The agent began anew after words that were told already: two halves are no answer.
            return vec![Piece::Failed(Problem::broke_off())];
        };
        let rest = (!rest.is_empty()).then(|| Piece::Text(rest.to_owned()));
        let end = (!text.is_empty()).then_some(Piece::TextEnded);
        rest.into_iter().chain(end).collect()
    }

    fn called(&mut self, call: &str, tool: &str, input: &Value) -> Vec<Piece> {
        let text = (!std::mem::take(&mut self.open).is_empty()).then_some(Piece::TextEnded);
        let call = Piece::Call { id: call.to_owned(), tool: tool.to_owned(), input: input.clone() };
        text.into_iter().chain([call]).collect()
    }

    fn ended(&mut self, outcome: &TurnOutcome) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if !std::mem::take(&mut self.open).is_empty() {
            pieces.push(Piece::TextEnded);
        }
        let stop = match outcome {
            // What agents call a failure is an answer in every API: libraries would try it again, and again in vain.
            TurnOutcome::Failed(Failure { cut_short: Some(how), .. }) => match how {
                CutShort::Refusal => Stop::Refusal,
                CutShort::MaxTokens => Stop::MaxTokens,
            },
            TurnOutcome::Failed(failure) => {
                return vec![Piece::Failed(Problem::of_failure(failure))];
            }
            TurnOutcome::Called => Stop::ToolUse,
            TurnOutcome::Interrupted => {
                pieces.push(Piece::BrokenOff { by: self.broken_off, usage: self.usage });
                return pieces;
            }
            TurnOutcome::Done { text } => {
                // Agents that say all at the end.
                if self.told == Told::Nothing && !text.is_empty() {
                    pieces.extend([Piece::Text(text.clone()), Piece::TextEnded]);
                }
                Stop::EndTurn
            }
        };
        pieces.push(Piece::Ended { stop, usage: self.usage });
        pieces
    }
}

#[cfg(test)]
#[path = "narration_tests.rs"]
mod tests;
