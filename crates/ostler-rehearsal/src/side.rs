//! Requests that agents make on their own: titles, summaries, probes, sub-agents. They are recognised by the words
//! that the real agents use, and answered plainly, so that a script only has to tell its own story.

use serde_json::json;

use crate::ask::{Ask, Line, Wire};

/// What an agent wants on its own account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// A title for the session.
    Title,
    /// A summary of the conversation, to go on with instead of it.
    Summary,
    /// A check that the model answers at all.
    Probe,
    /// A sub-agent's turn. Unlike the others it is played if a conversation expects it.
    SubAgent,
}

/// What agents write when they ask for a title. Seen in Claude Code 2.1.197 and OpenCode 1.18.33.
const TITLE_WORDS: [&str; 3] = [
    "Generate a concise, sentence-case title",
    "You are a title generator",
    "Generate a title for this conversation",
];

/// What agents write when they want the conversation summarised. Seen in Claude Code 2.1.197 and Codex 0.166.0;
/// OpenCode 1.18.33 tells the whole conversation again and is recognised by its wire format.
const SUMMARY_WORDS: [&str; 2] =
    ["Your task is to create a detailed summary of", "CONTEXT CHECKPOINT COMPACTION"];

/// What Claude Code asks to see whether its quota is used up.
const PROBE_WORDS: [&str; 1] = ["quota"];

/// How the real agents introduce themselves in the header `user-agent`. Others may use the same words as they do, and
/// mean them.
const AGENTS: [&str; 3] = ["claude-cli/", "codex", "opencode/"];

/// Who sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A coding agent that we know.
    Agent,
    /// Any other client.
    Anyone,
}

impl Asker {
    /// Told by the header `user-agent`.
    pub(crate) fn of(user_agent: &str) -> Self {
        if AGENTS.iter().any(|agent| user_agent.starts_with(agent)) { Self::Agent } else { Self::Anyone }
    }
}

impl Side {
    /// The word for it in logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Summary => "summary",
            Self::Probe => "probe",
            Self::SubAgent => "sub_agent",
        }
    }

    /// Whether the agent wants the conversation summarised in this line. The summary itself is told from the request
    /// by its bookmark.
    pub(crate) fn asks_for_summary(line: &Line) -> bool {
        match line {
            Line::User(text) | Line::Setting(text) => {
                SUMMARY_WORDS.iter().any(|words| text.contains(words)) && Bookmark::find(text).is_none()
            }
            Line::Model(_) | Line::Calls | Line::Results(_) => false,
        }
    }

    /// Recognises a real agent's side request by its words.
    pub(crate) fn told(asker: Asker, lines: &[Line], offered: &[String]) -> Option<Self> {
        if asker == Asker::Anyone {
            return None;
        }
        // Claude Code asks beside the last tool results; then the text is not taken for a person's.
        if lines.last().is_some_and(Self::asks_for_summary) {
            return Some(Self::Summary);
        }
        if !offered.is_empty() {
            return None;
        }
        let wants_title = |line: &Line| match line {
            Line::User(text) | Line::Setting(text) => TITLE_WORDS.iter().any(|words| text.contains(words)),
            Line::Model(_) | Line::Calls | Line::Results(_) => false,
        };
        let is_probe = |line: &Line| matches!(line, Line::User(text) if PROBE_WORDS.contains(&text.as_str()));
        if lines.iter().any(wants_title) {
            Some(Self::Title)
        } else if lines.last().is_some_and(is_probe) {
            Some(Self::Probe)
        } else {
            None
        }
    }

    /// The plain answer to it. A summary carries a bookmark, so that the play goes on where it was.
    pub(crate) fn answer(self, ask: &Ask, place: Option<&Bookmark>) -> String {
        match (self, ask.wire) {
            (Self::Title, Wire::Anthropic) => json!({"title": "Rehearsal"}).to_string(),
            (Self::Title, Wire::Responses | Wire::Chat) => "Rehearsal".to_owned(),
            (Self::Summary, _) => {
                let place = place.map(Bookmark::written).unwrap_or_default();
                format!(
                    "<summary>\nThe conversation so far was a rehearsal with a scripted model.\n{place}\n</summary>"
                )
            }
            (Self::Probe, _) => "ok".to_owned(),
            (Self::SubAgent, _) => "The sub-agent has nothing to do in this rehearsal.".to_owned(),
        }
    }
}

/// Where a conversation was when the agent had it summarised: written into the summary, found again after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bookmark {
    /// Which conversation of the play, from 0.
    pub(crate) conversation: usize,
    /// Rounds played since the prompt.
    pub(crate) round: usize,
    /// What the person had asked.
    pub(crate) prompt: String,
}

const BOOKMARK_OPEN: &str = "[rehearsal-bookmark ";
const BOOKMARK_CLOSE: &str = " end-of-bookmark]";

impl Bookmark {
    fn written(&self) -> String {
        let Self { conversation, round, prompt } = self;
        // JSON keeps the prompt on one line and the brackets unmistakable.
        format!("{BOOKMARK_OPEN}{}{BOOKMARK_CLOSE}", json!([conversation, round, prompt]))
    }

    /// The last bookmark in a text.
    pub(crate) fn find(text: &str) -> Option<Self> {
        let start = text.rfind(BOOKMARK_OPEN)? + BOOKMARK_OPEN.len();
        let length = text[start..].find(BOOKMARK_CLOSE)?;
        let (conversation, round, prompt) = serde_json::from_str(&text[start..start + length]).ok()?;
        Some(Self { conversation, round, prompt })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bookmark_is_found_again_in_the_text_around_it() {
        let mark = Bookmark { conversation: 2, round: 7, prompt: "a \"quoted\"\nprompt ]".to_owned() };
        let text = format!("This session is being continued.\n{}\nGo on.", mark.written());
        assert_eq!(Bookmark::find(&text), Some(mark));
        assert_eq!(Bookmark::find("[rehearsal-bookmark nonsense end-of-bookmark]"), None);
        assert_eq!(Bookmark::find(""), None);
    }
}
