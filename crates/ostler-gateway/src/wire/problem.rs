//! Why there is no answer, in the shape of each API.

use ostler_agent::event::{Failure, FailureClass};
use ostler_agent::failure::is_input_too_long;
use ostler_agent::leasing::Refused;
use serde_json::{Value, json};

use crate::pool::BrokenOff;

/// What OpenAI calls most problems of a request.
const INVALID: &str = "invalid_request_error";

/// The field by which a conversation would be kept elsewhere.
pub(super) const THREAD: &str = "thread";

/// The field that names a model.
const MODEL: &str = "model";

/// The reason of what the agent or its provider refused: a quota of theirs is no refusal of ours.
const OF_AGENT: &str = "agent";

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What kind.
    pub kind: Kind,
    /// What happened, for a person.
    pub message: String,
    /// The field that is wrong.
    pub field: Option<String>,
    /// When it is worth another try, in seconds since 1970, where that is known.
    pub again_at: Option<i64>,
    /// What the metrics count it as, where that is more than its kind says: one of a fixed set of words.
    pub reason: Option<&'static str>,
}

/// Kinds of problems, each with its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The request is wrong.
    Invalid,
    /// No key, or a wrong one.
    Key,
    /// The key is not for this.
    Forbidden,
    /// No such thing.
    Absent,
    /// Somebody else holds it.
    Held,
    /// The request did not come in time.
    Slow,
    /// The request is too large.
    TooLarge,
    /// The head of the request is too long.
    LongHead,
    /// Too many at once, or a quota is used up.
    TooMany,
    /// The program went away.
    Gone,
    /// Somebody broke the answer off. Nothing that a library tries again by itself.
    Cancelled,
    /// Not built.
    Unbuilt,
    /// The agent failed.
    Agent,
    /// The provider has too much to do.
    Overloaded,
    /// Nothing new is begun.
    Closing,
    /// It took too long.
    TooLong,
}

impl Kind {
    /// The status of the answer.
    pub fn status(self) -> u16 {
        match self {
            Self::Invalid => 400,
            Self::Key => 401,
            Self::Forbidden => 403,
            Self::Absent => 404,
            Self::Slow => 408,
            Self::Held => 409,
            Self::TooLarge => 413,
            Self::TooMany => 429,
            Self::LongHead => 431,
            Self::Gone | Self::Cancelled => 499,
            Self::Unbuilt => 501,
            Self::Agent => 502,
            Self::Overloaded | Self::Closing => 503,
            Self::TooLong => 504,
        }
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        self.of_openai().1
    }

    fn of_anthropic(self) -> &'static str {
        match self {
            Self::Invalid | Self::Held | Self::Slow | Self::Cancelled => "invalid_request_error",
            Self::Key => "authentication_error",
            Self::Forbidden => "permission_error",
            Self::Absent => "not_found_error",
            Self::TooLarge | Self::LongHead => "request_too_large",
            Self::TooMany => "rate_limit_error",
            Self::Overloaded | Self::Closing => "overloaded_error",
            Self::TooLong => "timeout_error",
            Self::Gone | Self::Unbuilt | Self::Agent => "api_error",
        }
    }

    /// Its type and its code.
    fn of_openai(self) -> (&'static str, &'static str) {
        match self {
            Self::Invalid => (INVALID, "invalid_request"),
            Self::Key => (INVALID, "invalid_api_key"),
            Self::Forbidden => (INVALID, "permission_denied"),
            Self::Absent => (INVALID, "not_found"),
            Self::Held => (INVALID, "conflict"),
            Self::Slow => (INVALID, "request_timeout"),
            Self::TooLarge => (INVALID, "request_too_large"),
            Self::LongHead => (INVALID, "head_too_large"),
            Self::TooMany => ("rate_limit_error", "rate_limit_exceeded"),
            Self::Gone => ("server_error", "client_gone"),
            Self::Cancelled => (INVALID, "cancelled"),
            Self::Unbuilt => ("server_error", "not_implemented"),
            Self::Agent => ("server_error", "agent_failed"),
            Self::Overloaded => ("server_error", "overloaded"),
            Self::Closing => ("server_error", "closing"),
            Self::TooLong => ("server_error", "timeout"),
        }
    }
}

impl Problem {
    /// Of a kind.
    pub fn new(kind: Kind, message: &str) -> Self {
        Self { kind, message: message.to_owned(), field: None, again_at: None, reason: None }
    }

    /// The request is wrong.
    pub fn invalid(message: &str) -> Self {
        Self::new(Kind::Invalid, message)
    }

    /// About a field.
    #[must_use]
    pub fn about(mut self, field: &str) -> Self {
        self.field = Some(field.to_owned());
        self
    }

    /// Counted as this.
    #[must_use]
    pub(crate) fn because(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// Why the gateway refused the request, in one of a fixed set of words; nothing where the agent failed, or the
    /// client went away.
    pub(crate) fn refusal(&self) -> Option<&'static str> {
        match self.kind {
            _ if self.reason == Some(OF_AGENT) => None,
            Kind::Gone | Kind::Cancelled | Kind::Agent | Kind::Overloaded | Kind::TooLong => None,
            Kind::Invalid
            | Kind::Key
            | Kind::Forbidden
            | Kind::Absent
            | Kind::Held
            | Kind::Slow
            | Kind::TooLarge
            | Kind::LongHead
            | Kind::TooMany
            | Kind::Unbuilt
            | Kind::Closing => Some(self.reason.unwrap_or(self.kind.word())),
        }
    }

    /// A tool, a picture, a parameter that the agent cannot be given.
    pub(super) fn field(field: &str, message: &str) -> Self {
        Self::invalid(message).about(field)
    }

    /// The agent stopped in the middle of its answer.
    pub(crate) fn broke_off() -> Self {
        Self::new(Kind::Agent, "the agent's answer broke off")
    }

    /// The answer was broken off, and is not whole.
    pub(crate) fn of_break(by: BrokenOff) -> Self {
        match by {
            BrokenOff::Closing => {
                Self::new(Kind::Closing, "the server ended before the answer did: it is not whole")
            }
            BrokenOff::Asked => Self::new(Kind::Cancelled, "the answer was broken off: it is not whole"),
        }
    }

    /// The agent reports a failure.
    pub fn of_failure(failure: &Failure) -> Self {
        let (kind, word) = match failure.class {
            _ if is_input_too_long(failure) => (Kind::TooLarge, "its input is too long"),
            FailureClass::Auth => (Kind::Agent, "it is not logged in"),
            FailureClass::Quota => (Kind::TooMany, "its quota is used up"),
            FailureClass::Overloaded => (Kind::Overloaded, "its provider has too much to do"),
            FailureClass::Provider => (Kind::Agent, "its provider failed"),
            FailureClass::Model => (Kind::Agent, "its model would not take the request"),
            FailureClass::Crashed => (Kind::Agent, "it ended"),
            FailureClass::Limit => (Kind::Agent, "it reached a limit of its own"),
            FailureClass::Unknown => (Kind::Agent, "it did not say why"),
        };
        let message = match failure.detail.trim() {
            "" => format!("the agent failed: {word}"),
            detail => format!("the agent failed: {word}: {detail}"),
        };
        Self { again_at: failure.resets_at, reason: Some(OF_AGENT), ..Self::new(kind, &message) }
    }

    /// There is no session for it.
    pub fn of_refusal(refused: Refused) -> Self {
        let kind = match refused {
            Refused::Closing => Kind::Closing,
            Refused::Full | Refused::FullForTenant => Kind::TooMany,
        };
        let reason = match refused {
            Refused::Closing => "closing",
            Refused::Full => "queue_full",
            Refused::FullForTenant => "queue_full_for_key",
        };
        Self::new(kind, &refused.to_string()).because(reason)
    }

    pub(super) fn of_anthropic(&self) -> Value {
        let message = match &self.field {
            Some(field) => format!("{field}: {}", self.message),
            None => self.message.clone(),
        };
        let mut told =
            json!({"type": "error", "error": {"type": self.kind.of_anthropic(), "message": message}});
        if self.field.as_deref() == Some(THREAD) {
            // With this the official library goes on without one, as it does elsewhere.
            told["error"]["details"] =
                json!({"error_code": "thread_unsupported_request", "unsupported": [THREAD]});
        }
        told
    }

    pub(super) fn of_openai(&self) -> Value {
        let (kind, code) = match (self.kind, self.field.as_deref()) {
            // This API's own word, for a model and nothing else.
            (Kind::Absent, Some(MODEL)) => (INVALID, "model_not_found"),
            (kind, _) => kind.of_openai(),
        };
        json!({"error": {"message": self.message, "type": kind, "param": self.field, "code": code}})
    }
}
