//! What of an agent's own record is worth remembering: what was asked, what was answered, what was done. One reader an
//! agent, beside its decoder. What nobody said (sub-agents, injected notes, summaries) is marked, not left out and not
//! mixed in.

use serde_json::Value;

use crate::agents;

/// Switches Ostler's hooks off for an agent, if it is [`HOOKS_OFF`].
pub const HOOKS_VARIABLE: &str = "OSTLER_HOOKS";

/// The value that does so.
pub const HOOKS_OFF: &str = "off";

/// Whose record it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Claude Code's transcript.
    Claude,
    /// Codex's rollout.
    Codex,
    /// Rows of OpenCode's database.
    OpenCode,
}

/// Who said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The person.
    User,
    /// The agent.
    Assistant,
}

/// What it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Words.
    Said,
    /// A call of a tool in one line: its name, its files, how it ended.
    Tool,
}

/// Why it is not part of the conversation between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It is part of it.
    None,
    /// A sub-agent's conversation.
    Sidechain,
    /// Written by the program in somebody's name.
    Meta,
    /// A command of the program, and what it printed.
    Command,
    /// Injected into a prompt.
    Reminder,
    /// What a conversation was compacted to.
    Summary,
}

/// One thing that was said or done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// The agent's own id of it, unique in its session; nothing if it has none.
    pub id: Option<String>,
    /// Who.
    pub speaker: Speaker,
    /// What.
    pub kind: Kind,
    /// Whether it counts as said.
    pub mark: Mark,
    /// In these words, as they were written.
    pub text: String,
    /// When, as the agent writes it.
    pub at: Option<String>,
}

/// What a record tells of its session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Belonging {
    /// The agent's own id of the session.
    pub session: Option<String>,
    /// The directory that it works in.
    pub cwd: Option<String>,
}

impl Origin {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Claude, Self::Codex, Self::OpenCode];

    /// The word for it on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|origin| origin.name() == name)
    }

    /// Whose record this is, by its shape; nothing if it could be anybody's.
    pub fn of_record(record: &Value) -> Option<Self> {
        if record["payload"].is_object() {
            Some(Self::Codex)
        } else if record["sessionID"].is_string() {
            Some(Self::OpenCode)
        } else if record["sessionId"].is_string() || record["uuid"].is_string() {
            Some(Self::Claude)
        } else {
            None
        }
    }

    /// What a record holds that is worth remembering, in order. Never fails: an unknown record holds nothing.
    pub fn remembered(self, record: &Value) -> Vec<Remembered> {
        match self {
            Self::Claude => agents::claude_remembered(record),
            Self::Codex => agents::codex_remembered(record),
            Self::OpenCode => agents::opencode_remembered(record),
        }
    }

    /// What a record tells of its session.
    pub fn belonging(self, record: &Value) -> Belonging {
        let word = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        match self {
            Self::Claude => Belonging { session: word(&record["sessionId"]), cwd: word(&record["cwd"]) },
            Self::Codex => {
                let payload = &record["payload"];
                match record["type"].as_str() {
                    Some("session_meta") => {
                        Belonging { session: word(&payload["id"]), cwd: word(&payload["cwd"]) }
                    }
                    Some("turn_context") => Belonging { session: None, cwd: word(&payload["cwd"]) },
                    _ => Belonging::default(),
                }
            }
            Self::OpenCode => Belonging { session: word(&record["sessionID"]), cwd: None },
        }
    }
}

impl Speaker {
    /// The word for it in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

impl Kind {
    /// The word for it in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Said => "said",
            Self::Tool => "tool",
        }
    }
}

impl Mark {
    /// The word for it in files; empty for none.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Sidechain => "sidechain",
            Self::Meta => "meta",
            Self::Command => "command",
            Self::Reminder => "reminder",
            Self::Summary => "summary",
        }
    }
}

#[cfg(test)]
#[path = "remembering_tests.rs"]
mod tests;
