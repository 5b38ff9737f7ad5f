//! What happened at the bridge: in the run's journal, for its watchdog, and for whoever watches.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Touched;
use crate::artifact::Diagnostic;

/// Something that happened. Contents of artifacts are not in it: they are kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum BridgeEvent {
    /// The agent's first request with its token.
    Connected {
        /// What it calls itself in the request, if it does.
        client: String,
    },
    /// A client of the agent said hello. A second one with the same token is served alike, and told here.
    Greeted {
        /// Its name and version.
        client: String,
        /// The revision of the protocol that was agreed on.
        protocol: String,
    },
    /// The agent asked for the list of tools.
    ToolsListed,
    /// A tool was called.
    Called {
        /// Which.
        tool: String,
    },
    /// A call was answered, or given up.
    Answered {
        /// Of which tool.
        tool: String,
        /// How.
        ended: Ended,
    },
    /// An artifact was accepted.
    Accepted {
        /// Its kind. The line in the journal has a `kind` of its own.
        #[serde(rename = "type")]
        kind: String,
        /// Its receipt.
        receipt: String,
        /// How long it is.
        bytes: usize,
    },
    /// An artifact was rejected.
    Rejected {
        /// Its kind.
        #[serde(rename = "type")]
        kind: String,
        /// Why.
        faults: Vec<Diagnostic>,
    },
    /// The agent's claim that it is done was taken.
    Completed {
        /// What it says.
        summary: String,
        /// The receipt.
        receipt: String,
    },
    /// The agent's claim was refused.
    ClaimRefused {
        /// What is missing.
        missing: Vec<String>,
    },
    /// The agent says how far it is.
    Progressed {
        /// In its words.
        text: String,
        /// In percent.
        percent: Option<u8>,
    },
    /// The agent asks a person.
    Asked(Question),
    /// A question is no longer open.
    Settled {
        /// Which.
        question: u64,
        /// How.
        how: Settled,
    },
    /// Something was done in the workspace, or refused there.
    Touched(Touched),
    /// Somebody came to this run's door and was not let in.
    Refused {
        /// Why.
        why: Refusal,
    },
}

impl BridgeEvent {
    /// Whether it shows that the agent lives. That a stranger was sent away does not, nor that its client left.
    pub fn is_life(&self) -> bool {
        match self {
            Self::Refused { .. }
            | Self::Answered { ended: Ended::Cancelled, .. }
            | Self::Settled { how: Settled::Withdrawn, .. } => false,
            Self::Connected { .. }
            | Self::Greeted { .. }
            | Self::ToolsListed
            | Self::Called { .. }
            | Self::Answered { .. }
            | Self::Accepted { .. }
            | Self::Rejected { .. }
            | Self::Completed { .. }
            | Self::ClaimRefused { .. }
            | Self::Progressed { .. }
            | Self::Asked(_)
            | Self::Touched(_)
            | Self::Settled { .. } => true,
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// As asked.
    Done,
    /// With a sentence that says what to do.
    Failed,
    /// The client took it back, or went away.
    Cancelled,
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Its number in this run.
    #[serde(rename = "question")]
    pub id: u64,
    /// What is asked.
    pub text: String,
    /// What may be chosen, if it is a choice.
    pub options: Vec<String>,
    /// What the agent gets if nobody answers.
    pub default: Option<String>,
    /// How long it waits.
    pub within: Duration,
}

impl Question {
    /// What a person means who typed this: the number of an option is that option, and nothing is the default.
    pub fn chosen(&self, typed: &str) -> Option<String> {
        let typed = typed.trim();
        if typed.is_empty() {
            return self.default.clone();
        }
        let number =
            typed.parse::<usize>().ok().filter(|_| !self.options.iter().any(|option| option == typed));
        let option = number.and_then(|number| self.options.get(number.checked_sub(1)?));
        Some(option.cloned().unwrap_or_else(|| typed.to_owned()))
    }
}

/// How a question was settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// A person answered this.
    Answered(String),
    /// Nobody did in time.
    TimedOut,
    /// The agent no longer wants to know.
    Withdrawn,
}

/// Why somebody was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The name of the host is not that of the door: a page may have had it resolved to here.
    Host,
    /// The request comes from a web page.
    Origin,
    /// The token is missing or wrong.
    Token,
    /// There is a query, where a token could stand and be logged.
    Query,
    /// The request has more bytes than are read.
    TooLong,
    /// The request is no message of the protocol.
    Garbled,
}

/// What happened between an agent and the bridge so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contact {
    /// The agent never connected.
    None,
    /// It connected, and never asked for the tools.
    Connected,
    /// It knows the tools.
    ToolsListed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_answer_may_be_the_number_of_an_option_or_nothing_at_all() {
        let options = ["red".to_owned(), "2".to_owned()];
        let ask = |options: &[String], default: Option<&str>| Question {
            id: 1,
            text: "Which?".to_owned(),
            options: options.to_vec(),
            default: default.map(str::to_owned),
            within: Duration::from_secs(1),
        };
        let choice = ask(&options, Some("red"));
        for (typed, want) in
            [("1", "red"), ("2", "2"), ("3", "3"), ("0", "0"), (" blue ", "blue"), ("", "red")]
        {
            assert_eq!(choice.chosen(typed).as_deref(), Some(want), "{typed}");
        }
        assert_eq!(ask(&[], None).chosen("\n"), None);
        assert_eq!(ask(&[], None).chosen("7").as_deref(), Some("7"));
    }
}
