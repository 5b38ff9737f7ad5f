//! The messages of a request, whatever API they came in: what belongs to the system prompt, and what to the conversation.

use ostler_agent::canonical::{Block, Message, Role};

/// How the agent itself tells its model what is neither the user's nor the model's: seen on Claude Code 2.1.197.
const REMINDER: (&str, &str) = ("<system-reminder>\n", "\n</system-reminder>");

/// Messages, as they are read.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    system: Vec<String>,
    messages: Vec<Message>,
    /// The request sends only what is new: all of it is in the middle of a conversation.
    is_continued: bool,
}

impl Transcript {
    /// Of a request that sends only what follows an answer.
    pub(super) fn continued() -> Self {
        Self { is_continued: true, ..Self::default() }
    }

    /// Adds a message. Neighbours with the same role are one; empty texts are left out, since they make a session that
    /// cannot be resumed.
    pub(super) fn add(&mut self, role: Role, blocks: Vec<Block>) {
        let is_something = |block: &Block| *block != Block::Text(String::new());
        let blocks: Vec<Block> = blocks.into_iter().filter(is_something).collect();
        match self.messages.last_mut() {
            _ if blocks.is_empty() => {}
            Some(last) if last.role == role => {
                // Results of calls come first: providers want them right after the calls.
                let is_result = |block: &Block| matches!(block, Block::Outcome { .. });
                let at = last.blocks.iter().position(|block| !is_result(block)).unwrap_or(last.blocks.len());
                let (results, rest): (Vec<Block>, Vec<Block>) = blocks.into_iter().partition(is_result);
                last.blocks.splice(at..at, results);
                last.blocks.extend(rest);
            }
            Some(_) | None => self.messages.push(Message { role, blocks }),
        }
    }

    /// Adds what a program says to the model. Before the conversation it is a part of the system prompt. In its middle it
    /// stays where it stands: in the system prompt it would make every session that knows the conversation another one's.
    pub(super) fn add_system(&mut self, text: String) {
        if text.trim().is_empty() {
            return;
        }
        if self.messages.is_empty() && !self.is_continued {
            return self.system.push(text);
        }
        let (begin, end) = REMINDER;
        self.add(Role::User, vec![Block::Text(format!("{begin}{text}{end}"))]);
    }

    /// The part of the system prompt, and the conversation.
    pub(super) fn into_parts(self) -> (Option<String>, Vec<Message>) {
        let system = (!self.system.is_empty()).then(|| self.system.join("\n\n"));
        (system, self.messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Block {
        Block::Text(text.to_owned())
    }

    fn result(call: &str) -> Block {
        Block::Outcome { call: call.to_owned(), blocks: Vec::new(), failed: false }
    }

    #[test]
    fn system_messages_before_the_conversation_are_the_system_prompt() {
        let mut transcript = Transcript::default();
        transcript.add_system("be short".to_owned());
        transcript.add_system("be kind".to_owned());
        transcript.add(Role::User, vec![text("hello"), text("")]);
        transcript.add_system("it is late".to_owned());
        let (system, messages) = transcript.into_parts();
        assert_eq!(system.as_deref(), Some("be short\n\nbe kind"));
        let late = text("<system-reminder>\nit is late\n</system-reminder>");
        assert_eq!(messages, [Message { role: Role::User, blocks: vec![text("hello"), late] }]);
        let mut continued = Transcript::continued();
        continued.add_system("be kind".to_owned());
        let (system, messages) = continued.into_parts();
        assert_eq!((system, messages.len()), (None, 1));
    }

    #[test]
    fn results_of_calls_come_before_what_else_is_said() {
        let mut transcript = Transcript::default();
        let call = Block::Call { id: "a".to_owned(), tool: "t".to_owned(), input: serde_json::json!({}) };
        transcript.add(Role::Assistant, vec![call]);
        transcript.add(Role::User, vec![result("a")]);
        transcript.add(Role::User, vec![text("x")]);
        transcript.add(Role::User, vec![text("y"), result("b")]);
        let (_, messages) = transcript.into_parts();
        assert_eq!(messages[1].blocks, [result("a"), result("b"), text("x"), text("y")]);
    }
}
