//! Three APIs that programs speak: what they ask becomes canonical messages, and what the agent answers becomes what
//! they expect, whole or as server-sent events. Nothing here knows a connection, a clock or a session.
//!
//! What an agent cannot honour (a temperature, a stop word) and unknown fields are left out and named in
//! [`Request::ignored`]. What would make another answer (more than one of them, probabilities), and what is malformed, is a
//! [`Problem`]: no agent gets to see it.

mod anthropic;
mod at;
mod blocks;
mod chat;
mod fields;
pub(crate) mod ignored;
mod problem;
mod responses;
mod tools;
mod transcript;

use ostler_agent::canonical::{Message, Role};
use ostler_agent::event::Usage;
use ostler_agent::history::History;
use ostler_agent::offering::Tool;
use serde_json::Value;

use crate::pool::BrokenOff;
pub use problem::{Kind, Problem};
pub use tools::ToolNames;

/// The field that has the conversation, in most APIs.
const MESSAGES: &str = "messages";

/// An API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Anthropic Messages.
    Messages,
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
}

/// What a program asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The model, as it was named.
    pub model: String,
    /// The conversation. Its last word is the user's.
    pub history: History,
    /// What is added to the agent's own system prompt.
    pub system: Option<String>,
    /// The same, of what is said to the model among what is asked: it holds for what follows this answer too.
    pub carried: Option<String>,
    /// How the answer is to come.
    pub delivery: Delivery,
    /// Tools that the program offers and runs itself.
    pub tools: Vec<Tool>,
    /// What some of them are for the program.
    pub tool_names: ToolNames,
    /// The answer that this one follows, for programs that send only what is new.
    pub follows: Option<String>,
    /// Names of what has no effect, in order.
    pub ignored: Vec<String>,
    /// Who asks, by the program's own account.
    pub user: Option<String>,
    /// Whether the answer may be kept.
    pub is_kept: bool,
}

impl Request {
    /// What all APIs say in the same fields. The parts of the system prompt that stand among the messages are in `system`.
    fn assemble(
        body: &Value,
        delivery: Delivery,
        transcript: transcript::Transcript,
        offer: tools::Offer,
        ignored: ignored::Ignored,
    ) -> Result<Self, Problem> {
        let (system, messages) = transcript.into_parts();
        Ok(Self {
            model: fields::named(body, "model")?,
            history: asked(messages)?,
            system,
            carried: None,
            delivery,
            tools: offer.tools,
            tool_names: offer.names,
            follows: None,
            ignored: ignored.into_names(),
            user: body["user"].as_str().map(str::to_owned),
            is_kept: true,
        })
    }

    /// All that is added to the agent's own system prompt.
    pub fn told_to_the_model(&self) -> Option<String> {
        let told: Vec<&str> =
            [&self.system, &self.carried].into_iter().flatten().map(String::as_str).collect();
        (!told.is_empty()).then(|| told.join("\n\n"))
    }
}

/// How an answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// At once.
    Whole,
    /// As server-sent events.
    Streamed {
        /// Whether what it took is told too, where the API leaves that to the program.
        usage: Told,
    },
}

/// Whether something is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Yes.
    Yes,
    /// No.
    No,
}

/// What every answer says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// What the ids of this answer are made of: letters and digits.
    pub id: String,
    /// The model, as it was asked for.
    pub model: String,
    /// When, in seconds since 1970.
    pub created: i64,
    /// What tools are for the program that asks.
    pub tools: ToolNames,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Words.
    Text(String),
    /// The text is whole; what follows is another one.
    TextEnded,
    /// A call of a tool of the program.
    Call {
        /// Its id.
        id: String,
        /// The tool.
        tool: String,
        /// What it is called with.
        input: Value,
    },
    /// The answer is whole.
    Ended {
        /// Why it ended.
        stop: Stop,
        /// What it took, as the agent tells it.
        usage: Usage,
    },
    /// It was broken off, and is not whole.
    BrokenOff {
        /// Why.
        by: BrokenOff,
        /// What it took until then, as far as the agent told it.
        usage: Usage,
    },
    /// There will be no answer, or no more of it.
    Failed(Problem),
}

impl Piece {
    /// Whether an answer came to its end with it: neither failed nor broken off.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Ended { .. })
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// All was said.
    EndTurn,
    /// A stop word came.
    StopSequence,
    /// It became too long.
    MaxTokens,
    /// A tool of the program is called.
    ToolUse,
    /// The model would not.
    Refusal,
}

/// Writes an answer as server-sent events: `open` once, then its pieces. What it returns is sent as it is.
pub trait Encoder: Send {
    /// The answer begins.
    fn open(&mut self) -> String;
    /// A piece of it. Nothing is written after one that ends it.
    fn piece(&mut self, piece: &Piece) -> String;
    /// Something that means nothing, so that nobody takes the connection for dead.
    fn alive(&self) -> String {
        ": alive\n\n".to_owned()
    }
}

impl Format {
    /// Reads the body of a request.
    pub fn read(self, body: &Value) -> Result<Request, Problem> {
        if !body.is_object() {
            return Err(Problem::invalid("the body is not a JSON object"));
        }
        match self {
            Self::Messages => anthropic::read(body),
            Self::Chat => chat::read(body),
            Self::Responses => responses::read(body),
        }
    }

    /// Fields of a request: those that are heard, and those that have no effect.
    pub fn fields(self) -> (&'static [&'static str], &'static [&'static str]) {
        let fields = match self {
            Self::Messages => &anthropic::FIELDS,
            Self::Chat => &chat::FIELDS,
            Self::Responses => &responses::FIELDS,
        };
        (fields.heard, fields.ignored)
    }

    /// A writer of server-sent events.
    pub fn encoder(self, head: Head, delivery: Delivery) -> Box<dyn Encoder> {
        match self {
            Self::Messages => Box::new(anthropic::Stream::new(head)),
            Self::Chat => Box::new(chat::Stream::new(head, delivery)),
            Self::Responses => Box::new(responses::Stream::new(head)),
        }
    }

    /// The whole answer. Of one that failed, the problem; so of one that was broken off, where the API has no word for
    /// that.
    pub fn whole(self, head: &Head, pieces: &[Piece]) -> Result<Value, Problem> {
        let answer = Answer::of(pieces)?;
        match (self, answer.end) {
            (_, End::BrokenOff(by)) => {
                self.broken_off(by)?;
                Ok(responses::whole(head, &answer))
            }
            (Self::Messages, End::Stopped(stop)) => Ok(anthropic::whole(head, &answer, stop)),
            (Self::Chat, End::Stopped(stop)) => Ok(chat::whole(head, &answer, stop)),
            (Self::Responses, End::Stopped(_)) => Ok(responses::whole(head, &answer)),
        }
    }

    /// An answer that was broken off is a problem, unless the API has a word for it: OpenAI's Responses can be cancelled.
    pub(crate) fn broken_off(self, by: BrokenOff) -> Result<(), Problem> {
        match (self, by) {
            (Self::Responses, BrokenOff::Asked) => Ok(()),
            (Self::Messages | Self::Chat | Self::Responses, _) => Err(Problem::of_break(by)),
        }
    }

    /// A problem in this API's own shape.
    pub fn problem(self, problem: &Problem) -> Value {
        match self {
            Self::Messages => problem.of_anthropic(),
            Self::Chat => problem.of_openai(),
            Self::Responses => responses::renamed(problem).of_openai(),
        }
    }
}

/// An answer that is over.
#[derive(Debug, Clone, PartialEq)]
struct Answer {
    parts: Vec<Part>,
    end: End,
    usage: Usage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Stopped(Stop),
    BrokenOff(BrokenOff),
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Call { id: String, tool: String, input: Value },
}

impl Answer {
    fn of(pieces: &[Piece]) -> Result<Self, Problem> {
        let mut parts = Vec::new();
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(words) => text.push_str(words),
                Piece::TextEnded => flush(&mut parts, &mut text),
                Piece::Call { id, tool, input } => {
                    flush(&mut parts, &mut text);
                    parts.push(Part::Call { id: id.clone(), tool: tool.clone(), input: input.clone() });
                }
                Piece::Ended { stop, usage } => {
                    flush(&mut parts, &mut text);
                    return Ok(Self { parts, end: End::Stopped(*stop), usage: *usage });
                }
                Piece::BrokenOff { by, usage } => {
                    flush(&mut parts, &mut text);
                    return Ok(Self { parts, end: End::BrokenOff(*by), usage: *usage });
                }
                Piece::Failed(problem) => return Err(problem.clone()),
            }
        }
        Err(Problem::broke_off())
    }
}

fn flush(parts: &mut Vec<Part>, text: &mut String) {
    if !text.is_empty() {
        parts.push(Part::Text(std::mem::take(text)));
    }
}

/// A conversation whose last word is the user's.
fn asked(messages: Vec<Message>) -> Result<History, Problem> {
    History::of(messages).map_err(|error| Problem::invalid(&error.to_string()).about(MESSAGES))
}

/// What a user says in our own API: a text, or blocks in Anthropic's form. Nothing of it is left out: a kind that is not
/// known is a problem.
pub(crate) fn user_message(content: &Value) -> Result<Option<Message>, Problem> {
    let (mut ignored, mut transcript) = (ignored::Ignored::default(), transcript::Transcript::default());
    let at = at::At::Field("content");
    transcript.add(Role::User, blocks::content(&at, content, Role::User, &mut ignored)?);
    match ignored.into_names().as_slice() {
        [] => Ok(transcript.into_parts().1.pop()),
        [kind, ..] => Err(at.wrong(&format!("this kind of content is not known: {kind}"))),
    }
}

/// Server-sent events with a name.
fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "wire/malformed_tests.rs"]
mod malformed_tests;
