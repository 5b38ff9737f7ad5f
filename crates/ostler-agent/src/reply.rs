//! A turn's events as the messages that it added to the conversation: what the model said, what it called, what came of
//! it. Not the prompt, which is known; not what a sub-agent does for itself; not the model's words to itself.
//!
//! A turn that was broken off has added what was said until then, pieces included: that is what whoever listened heard.

use crate::canonical::{Block, Message, Role};
use crate::event::{AgentEvent, Part, TurnOutcome};
use crate::offering;

/// What a turn has added so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    messages: Vec<Message>,
    /// Pieces whose whole has not come.
    pieces: String,
    /// Calls that were made and not answered.
    open: Vec<String>,
}

impl Reply {
    /// Of all events of a turn.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a AgentEvent>) -> Self {
        let mut reply = Self::default();
        for event in events {
            reply.hear(event);
        }
        reply
    }

    /// Takes the next event of the turn.
    pub fn hear(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Said { text, part: Part::Delta, within: None } => self.pieces.push_str(text),
            AgentEvent::Said { text, part: Part::Whole, within: None } => {
                self.pieces.clear();
                self.said(text.clone());
            }
            AgentEvent::ToolStarted { call, tool, input, within: None } => {
                self.open.push(call.clone());
                // A tool of whoever asked is known to him by his own name for it.
                let tool = offering::named(tool).unwrap_or(tool).to_owned();
                let (id, input) = (call.clone(), input.clone());
                self.add(Role::Assistant, Block::Call { id, tool, input });
            }
            AgentEvent::ToolEnded { call, result } => {
                // A call of a sub-agent is not in the conversation, and so is what came of it.
                let Some(at) = self.open.iter().position(|open| open == call) else { return };
                self.open.remove(at);
                let text = (!result.text.is_empty()).then(|| Block::Text(result.text.clone()));
                let (call, failed) = (call.clone(), result.failed);
                let blocks = text.into_iter().collect();
                self.add(Role::User, Block::Outcome { call, blocks, failed });
            }
            AgentEvent::TurnEnded(TurnOutcome::Interrupted | TurnOutcome::Failed(_)) => {
                let heard = std::mem::take(&mut self.pieces);
                self.said(heard);
                self.remove_open_calls();
            }
            AgentEvent::TurnEnded(TurnOutcome::Done { .. } | TurnOutcome::Called) => self.pieces.clear(),
            AgentEvent::Said { within: Some(_), .. }
            | AgentEvent::ToolStarted { within: Some(_), .. }
            | AgentEvent::Started { .. }
            | AgentEvent::Asked { .. }
            | AgentEvent::Thought { .. }
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

    /// What it added: messages of one speaker in a row are one.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Removes calls that have no outcome and will have none: a conversation with one cannot be continued.
    fn remove_open_calls(&mut self) {
        let open = std::mem::take(&mut self.open);
        if open.is_empty() {
            return;
        }
        let is_open = |block: &Block| matches!(block, Block::Call { id, .. } if open.contains(id));
        for Message { role, blocks } in std::mem::take(&mut self.messages) {
            blocks.into_iter().filter(|block| !is_open(block)).for_each(|block| self.add(role, block));
        }
    }

    fn said(&mut self, text: String) {
        if !text.trim().is_empty() {
            self.add(Role::Assistant, Block::Text(text));
        }
    }

    fn add(&mut self, role: Role, block: Block) {
        match self.messages.last_mut() {
            Some(last) if last.role == role => last.blocks.push(block),
            Some(_) | None => self.messages.push(Message { role, blocks: vec![block] }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::canonical::{form, read};
    use crate::event::ToolResult;

    fn whole(text: &str) -> AgentEvent {
        AgentEvent::Said { text: text.to_owned(), part: Part::Whole, within: None }
    }

    fn piece(text: &str) -> AgentEvent {
        AgentEvent::Said { text: text.to_owned(), part: Part::Delta, within: None }
    }

    fn call(id: &str, within: Option<&str>) -> AgentEvent {
        let (call, tool, input) = (id.to_owned(), "Bash".to_owned(), json!({"command": "ls"}));
        AgentEvent::ToolStarted { call, tool, input, within: within.map(str::to_owned) }
    }

    fn result(id: &str, text: &str) -> AgentEvent {
        let result = ToolResult { failed: false, exit_code: None, text: text.to_owned() };
        AgentEvent::ToolEnded { call: id.to_owned(), result }
    }

    fn done() -> AgentEvent {
        AgentEvent::TurnEnded(TurnOutcome::Done { text: String::new() })
    }

    fn written(events: &[AgentEvent]) -> Vec<Value> {
        Reply::of(events).messages().iter().map(Message::written).collect()
    }

    #[test]
    fn a_turn_is_what_was_said_and_called() {
        let sub_agent = |text: &str| AgentEvent::Said {
            text: text.to_owned(),
            part: Part::Whole,
            within: Some("t".to_owned()),
        };
        let events = [
            AgentEvent::Started { session: "s".to_owned(), model: None },
            AgentEvent::Asked { text: "how many?".to_owned() },
            AgentEvent::Thought { text: "hm".to_owned() },
            piece("I "),
            piece("look."),
            whole("I look."),
            call("a", None),
            call("b", None),
            call("x", Some("a")),
            sub_agent("not for you"),
            result("x", "nor this"),
            result("a", "f"),
            result("b", ""),
            whole("One."),
            whole(" "),
            done(),
        ];
        let used =
            |id: &str| json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "ls"}});
        let want = [
            json!({"role": "assistant", "content": [{"type": "text", "text": "I look."}, used("a"), used("b")]}),
            json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "f", "is_error": false},
                {"type": "tool_result", "tool_use_id": "b", "content": [], "is_error": false}]}),
            json!({"role": "assistant", "content": [{"type": "text", "text": "One."}]}),
        ];
        assert_eq!(written(&events), want);
    }

    /// A client is told the answer, and sends it back as its library writes it.
    #[test]
    fn an_echo_of_the_whole_turn_is_the_same_conversation() {
        let asked = json!({"role": "user", "content": "how many?"});
        let events = [whole("I look."), call("a", None), result("a", "f"), whole("One."), done()];
        let mut ours = read(std::slice::from_ref(&asked)).unwrap();
        ours.extend_from_slice(Reply::of(&events).messages());
        let echo = [
            asked,
            json!({"role": "assistant", "content": [{"type": "text", "text": "I look.", "citations": null},
                {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "ls"}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a",
                "content": [{"type": "text", "text": "f"}], "is_error": null}]}),
            json!({"role": "assistant", "content": "One."}),
        ];
        assert_eq!(form(&ours), form(&read(&echo).unwrap()));
    }

    #[test]
    fn a_turn_that_broke_off_is_what_was_heard_of_it() {
        let interrupted = AgentEvent::TurnEnded(TurnOutcome::Interrupted);
        let said =
            |text: &str| vec![json!({"role": "assistant", "content": [{"type": "text", "text": text}]})];
        assert_eq!(written(&[piece("ha"), piece("lf"), interrupted.clone()]), said("half"));
        assert_eq!(written(&[piece("ha"), whole("half"), interrupted.clone()]), said("half"));
        assert_eq!(written(&[interrupted]), Vec::<Value>::new());
    }

    /// A conversation whose last call has no outcome cannot be continued.
    #[test]
    fn a_call_that_a_turn_left_open_is_not_in_the_conversation() {
        let interrupted = AgentEvent::TurnEnded(TurnOutcome::Interrupted);
        let blocks = |events: &[AgentEvent]| -> Vec<(Role, usize)> {
            let reply = Reply::of(events);
            reply.messages().iter().map(|message| (message.role, message.blocks.len())).collect()
        };
        let (say, one, two) = (whole("I look."), call("a", None), call("b", None));
        use Role::{Assistant, User};
        let table = [
            ("a call alone", vec![one.clone()], vec![]),
            ("after a text", vec![say.clone(), one.clone()], vec![(Assistant, 1)]),
            (
                "one of two",
                vec![say, one.clone(), two.clone(), result("b", "f")],
                vec![(Assistant, 2), (User, 1)],
            ),
            (
                "its message is gone, and its neighbours are one",
                vec![one, two, result("a", "f"), call("c", None), result("b", "f")],
                vec![(Assistant, 2), (User, 2)],
            ),
        ];
        for (what, mut events, want) in table {
            events.push(interrupted.clone());
            assert_eq!(blocks(&events), want, "{what}");
        }
    }

    proptest! {
        /// Speakers take turns, whatever happens.
        #[test]
        fn neighbours_are_different_speakers(kinds in proptest::collection::vec((0_u8..6, 0_u8..3), 0..20)) {
            let events: Vec<AgentEvent> = kinds.iter().map(|(kind, id)| match kind {
                0 => piece("x"),
                1 => whole("x"),
                2 => call(&id.to_string(), None),
                3 => call(&id.to_string(), Some("sub")),
                4 => result(&id.to_string(), "y"),
                _ => done(),
            }).collect();
            let reply = Reply::of(&events);
            for pair in reply.messages().windows(2) {
                prop_assert_ne!(pair[0].role, pair[1].role);
            }
            prop_assert!(reply.messages().first().is_none_or(|first| first.role == Role::Assistant));
        }
    }
}
