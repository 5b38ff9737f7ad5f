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

/// Why an answer is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// There is no text, and no default to use instead.
    #[error("the answer is empty, and the question has no default")]
    Empty,
    /// The question offers options, and the answer is none of them.
    #[error("`{answer}` is not one of the options: {}", list_options(.options))]
    NotOffered {
        /// The refused answer.
        answer: String,
        /// The options of the question.
        options: Vec<String>,
    },
}

/// The options with their numbers, on one line. The agent wrote them: control characters could repaint a terminal.
fn list_options(options: &[String]) -> String {
    let plain = |option: &str| option.chars().filter(|letter| !letter.is_control()).collect::<String>();
    let numbered = options.iter().enumerate();
    numbered
        .map(|(index, option)| format!("({}) {}", index + 1, plain(option)))
        .collect::<Vec<_>>()
        .join(", ")
}

impl Question {
    /// Resolves what a person typed to the answer that the agent receives.
    ///
    /// Without options any text is an answer. With options only these are: an option in its own words, in any case,
    /// or its number. An empty text is the default.
    pub fn resolve_answer(&self, typed: &str) -> Result<String, AnswerError> {
        let typed = typed.trim();
        if typed.is_empty() {
            return self.default.clone().ok_or(AnswerError::Empty);
        }
        if self.options.is_empty() {
            return Ok(typed.to_owned());
        }
        let by_words = || self.options.iter().find(|option| option.trim() == typed);
        let by_number = || self.options.get(typed.parse::<usize>().ok()?.checked_sub(1)?);
        // Two options that differ only in case are distinguished by the exact words above.
        let in_any_case = || {
            let lower = typed.to_lowercase();
            self.options.iter().find(|option| option.trim().to_lowercase() == lower)
        };
        let option = by_words().or_else(by_number).or_else(in_any_case);
        let refused = || AnswerError::NotOffered { answer: typed.to_owned(), options: self.options.clone() };
        option.cloned().ok_or_else(refused)
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

    fn ask(options: &[&str], default: Option<&str>) -> Question {
        Question {
            id: 1,
            text: "Which?".to_owned(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            default: default.map(str::to_owned),
            within: Duration::from_secs(1),
        }
    }

    #[test]
    fn an_answer_is_an_option_its_number_or_the_default() {
        let choice = ask(&["red", "2", "Navy Blue"], Some("red"));
        let table = [
            ("1", "red"),
            // An option that is a number outranks the number of an option.
            ("2", "2"),
            ("3", "Navy Blue"),
            (" red ", "red"),
            ("RED", "red"),
            ("navy blue", "Navy Blue"),
            ("", "red"),
        ];
        for (typed, want) in table {
            assert_eq!(choice.resolve_answer(typed).as_deref(), Ok(want), "{typed}");
        }
        assert_eq!(ask(&["a", "A"], None).resolve_answer("A").as_deref(), Ok("A"));
    }

    #[test]
    fn an_answer_outside_the_offered_options_is_refused_with_the_list() {
        let choice = ask(&["red", "blue"], Some("red"));
        for typed in ["green", "0", "3", "re", "-1", "red blue", "99999999999999999999999"] {
            let refused = choice.resolve_answer(typed).unwrap_err();
            assert_eq!(
                refused.to_string(),
                format!("`{typed}` is not one of the options: (1) red, (2) blue"),
                "{typed}"
            );
        }
    }

    #[test]
    fn a_question_without_options_takes_any_text() {
        assert_eq!(ask(&[], None).resolve_answer("\n"), Err(AnswerError::Empty));
        assert_eq!(ask(&["a"], None).resolve_answer(""), Err(AnswerError::Empty));
        assert_eq!(ask(&[], None).resolve_answer("7").as_deref(), Ok("7"));
        assert_eq!(ask(&[], Some("x")).resolve_answer("anything at all").as_deref(), Ok("anything at all"));
    }
}
