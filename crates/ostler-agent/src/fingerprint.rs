//! What a session knows, as it is looked up: the whole conversation, and its words alone.
//!
//! An agent calls its own tools, and a client that was only told the words sends back only those. So a conversation has
//! two fingerprints: one of all of it, and one of its words. The second is only asked for what a client sends that has
//! no call in it: else two conversations that differ in a tool's result would be taken for one.
//!
//! Calls of tools that the client itself offered are its own words: it was told them, and it sends them back.

use std::collections::HashSet;

use crate::canonical::{Block, Message, Role, form};

/// What stands between two texts of one speaker where they are one text.
pub const BETWEEN_TEXTS: &str = "\n\n";

/// What tells one conversation from another: a hash of its form. Whoever keeps it chooses the hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

/// What a conversation is looked up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Known {
    /// All of it.
    pub whole: Fingerprint,
    /// Its words.
    pub words: Fingerprint,
    /// Whether it is words alone.
    pub reach: Reach,
}

/// Whether a conversation is words alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Nobody called a tool, as far as it tells, but those that the client offered.
    Words,
    /// It has other calls or their results.
    Calls,
}

impl Known {
    /// Of a conversation in which the client offered tools of these names.
    pub fn of(messages: &[Message], offered: impl Fn(&str) -> bool, hash: impl Fn(&str) -> [u8; 32]) -> Self {
        let own = calls_of(messages, offered);
        let mut blocks = messages.iter().flat_map(|message| &message.blocks);
        let calls = blocks.any(|block| match block {
            Block::Call { id, .. } => !own.contains(id.as_str()),
            Block::Outcome { call, .. } => !own.contains(call.as_str()),
            Block::Text(_) | Block::Thinking { .. } | Block::Other(_) => false,
        });
        let whole = Fingerprint(hash(&form(messages)));
        Self {
            whole,
            words: match is_told(messages) {
                true => whole,
                false => Fingerprint(hash(&form(&told(messages, &own)))),
            },
            reach: if calls { Reach::Calls } else { Reach::Words },
        }
    }

    /// Whether a session that knows this can go on with what a client sends.
    pub fn answers(&self, sent: &Self) -> bool {
        self.whole == sent.whole || (sent.reach == Reach::Words && self.words == sent.words)
    }
}

/// Whether all of it is what would be told: one text after the other, each of another speaker. Most are.
fn is_told(messages: &[Message]) -> bool {
    let is_text = |message: &Message| matches!(message.blocks.as_slice(), [Block::Text(text)] if !text.trim().is_empty());
    messages.iter().all(is_text) && messages.windows(2).all(|pair| pair[0].role != pair[1].role)
}

/// The ids of calls of those tools.
fn calls_of(messages: &[Message], offered: impl Fn(&str) -> bool) -> HashSet<&str> {
    let blocks = messages.iter().flat_map(|message| &message.blocks);
    let calls = blocks.filter_map(|block| match block {
        Block::Call { id, tool, .. } if offered(tool) => Some(id.as_str()),
        _ => None,
    });
    calls.collect()
}

/// The words of a conversation: without calls and their results, and what one speaker says in a row is one text.
pub fn words(messages: &[Message]) -> Vec<Message> {
    told(messages, &HashSet::new())
}

/// The words of a conversation, and these calls with their results, which come after the words of the same speaker: some
/// APIs have two places for them, and no order between the two.
fn told(messages: &[Message], own: &HashSet<&str>) -> Vec<Message> {
    let mut told: Vec<Speech> = Vec::new();
    for message in messages {
        for block in &message.blocks {
            match block {
                Block::Thinking { .. } => {}
                Block::Call { id: call, .. } | Block::Outcome { call, .. } => {
                    if own.contains(call.as_str()) {
                        speaking(&mut told, message.role).calls.push(block.clone());
                    }
                }
                Block::Text(text) if text.trim().is_empty() => {}
                Block::Text(text) => {
                    let said = &mut speaking(&mut told, message.role).said;
                    match said.last_mut() {
                        Some(Block::Text(before)) => {
                            before.push_str(BETWEEN_TEXTS);
                            before.push_str(text);
                        }
                        Some(_) | None => said.push(block.clone()),
                    }
                }
                Block::Other(_) => speaking(&mut told, message.role).said.push(block.clone()),
            }
        }
    }
    told.into_iter().map(Speech::message).collect()
}

/// What one says in a row: in two lists, so that nothing is looked for and nothing moved, however much it is.
struct Speech {
    role: Role,
    said: Vec<Block>,
    calls: Vec<Block>,
}

impl Speech {
    fn message(mut self) -> Message {
        self.said.append(&mut self.calls);
        Message { role: self.role, blocks: self.said }
    }
}

/// What this one is saying.
fn speaking(told: &mut Vec<Speech>, role: Role) -> &mut Speech {
    if told.last().is_none_or(|last| last.role != role) {
        told.push(Speech { role, said: Vec::new(), calls: Vec::new() });
    }
    let last = told.len() - 1;
    &mut told[last]
}

/// Good enough for tables.
#[cfg(test)]
pub(crate) fn hash(form: &str) -> [u8; 32] {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    form.hash(&mut hasher);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&hasher.finish().to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::canonical::read;

    fn known(messages: &Value) -> Known {
        Known::of(&read(messages.as_array().unwrap()).unwrap(), |tool| tool == "weather", hash)
    }

    fn cycle(result: &str) -> Value {
        json!([
            {"role": "user", "content": "how many files?"},
            {"role": "assistant", "content": [{"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "ls", "timeout": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": result}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "One."}]},
        ])
    }

    #[test]
    fn a_client_that_was_told_the_words_is_known_by_them() {
        let session = known(&cycle("f"));
        let echoes = [
            cycle("f"),
            json!([{"role": "user", "content": "how many files?"},
                {"role": "assistant", "content": "I look.\n\nOne."}]),
            json!([{"role": "user", "content": [{"type": "text", "text": "how many files?"}]},
                {"role": "assistant", "content": [{"type": "text", "text": "I look."}, {"type": "text", "text": "One.\n"}]}]),
        ];
        for echo in echoes {
            assert!(session.answers(&known(&echo)), "{echo}");
        }
    }

    /// Each API has its own place for texts and calls.
    #[test]
    fn a_call_of_the_clients_own_tool_is_told() {
        let call =
            json!({"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Rome", "days": 1.0}});
        let same =
            json!({"type": "tool_use", "id": "a", "name": "weather", "input": {"days": 1, "city": "Rome"}});
        let own = json!({"type": "tool_use", "id": "x", "name": "Bash", "input": {}});
        let seen = json!({"type": "tool_result", "tool_use_id": "x", "content": "seen"});
        let text = |text: &str| json!({"type": "text", "text": text});
        let asked = json!({"role": "user", "content": "how is it?"});
        let session = known(&json!([asked, {"role": "assistant", "content": [text("I look."), own]},
            {"role": "user", "content": [seen]}, {"role": "assistant", "content": [text("Wait."), call]}]));
        let echo = known(&json!([asked, {"role": "assistant", "content": [text("I look.\n\nWait."), same]}]));
        assert!(session.answers(&echo));
        let other = json!({"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Oslo"}});
        let other =
            known(&json!([asked, {"role": "assistant", "content": [text("I look.\n\nWait."), other]}]));
        assert!(!session.answers(&other));
        // What came of it is part of it.
        let after = |outcome: &str| {
            let came = json!({"type": "tool_result", "tool_use_id": "a", "content": outcome});
            known(
                &json!([asked, {"role": "assistant", "content": [call]}, {"role": "user", "content": [came]},
                {"role": "assistant", "content": "Fine."}]),
            )
        };
        assert!(after("sun").answers(&after("sun")) && !after("sun").answers(&after("rain")));
    }

    #[test]
    fn another_conversation_is_not() {
        let session = known(&cycle("f"));
        let others = [
            // The words are the same, but what the tool said is not.
            cycle("g"),
            json!([]),
            json!([{"role": "user", "content": "how many files?"}, {"role": "assistant", "content": "One."}]),
            json!([{"role": "user", "content": "how many files?\n\nI look.\n\nOne."}]),
            json!([{"role": "user", "content": [{"type": "text", "text": "how many files?"},
                {"type": "image", "source": {"data": "x"}}]}, {"role": "assistant", "content": "I look.\n\nOne."}]),
        ];
        for other in others {
            assert!(!session.answers(&known(&other)), "{other}");
        }
    }

    /// The definition: speaker for speaker, what is said before what is called, and texts in a row as one.
    fn told_simply(messages: &[Message], own: &HashSet<&str>) -> Vec<Message> {
        let counts = |block: &&Block| match block {
            Block::Thinking { .. } => false,
            Block::Call { id: call, .. } | Block::Outcome { call, .. } => own.contains(call.as_str()),
            Block::Text(text) => !text.trim().is_empty(),
            Block::Other(_) => true,
        };
        let is_said = |block: &Block| !matches!(block, Block::Call { .. } | Block::Outcome { .. });
        let all = messages.iter().flat_map(|message| {
            message.blocks.iter().filter(counts).map(|block| (message.role, block.clone()))
        });
        let all: Vec<(Role, Block)> = all.collect();
        let one_after_the_other = |mut said: Vec<Block>, block: Block| {
            match (said.last_mut(), block) {
                (Some(Block::Text(before)), Block::Text(text)) => *before = format!("{before}\n\n{text}"),
                (_, block) => said.push(block),
            }
            said
        };
        let speech = |row: &[(Role, Block)]| {
            let (said, calls): (Vec<Block>, Vec<Block>) =
                row.iter().map(|(_, block)| block.clone()).partition(is_said);
            let said = said.into_iter().fold(Vec::new(), one_after_the_other);
            Message { role: row[0].0, blocks: said.into_iter().chain(calls).collect() }
        };
        all.chunk_by(|one, next| one.0 == next.0).map(speech).collect()
    }

    /// Each block used to be looked for and moved past all the others: minutes.
    #[test]
    fn very_many_blocks_of_one_message_are_told_at_once() {
        let (mut blocks, mut calls) = (Vec::new(), Vec::new());
        for at in 0..100_000 {
            calls.push(Block::Call { id: format!("c{at}"), tool: "weather".to_owned(), input: json!({}) });
            blocks.push(Block::Other(json!({"type": "document", "x": at})));
        }
        let said = |role, blocks: &[&[Block]]| Message { role, blocks: blocks.concat() };
        let calls_first = said(Role::Assistant, &[&calls, &blocks]);
        let own = calls_of(std::slice::from_ref(&calls_first), |tool| tool == "weather");
        let want = said(Role::Assistant, &[&blocks, &calls]);
        assert!(
            told(std::slice::from_ref(&calls_first), &own) == [want],
            "what is said, then what is called"
        );
    }

    fn some_block() -> impl Strategy<Value = Block> {
        let id = || "[ab]";
        prop_oneof![
            "[x ]{0,2}".prop_map(Block::Text),
            Just(Block::Thinking { text: "hm".to_owned(), signature: None }),
            id().prop_map(|id| Block::Call { id, tool: "weather".to_owned(), input: json!({}) }),
            id().prop_map(|call| Block::Outcome { call, blocks: Vec::new(), failed: false }),
            (0_u8..3).prop_map(|at| Block::Other(json!({"type": "document", "x": at}))),
        ]
    }

    proptest! {
        /// However it is put together, it is what it is by definition.
        #[test]
        fn what_is_told_is_what_the_definition_says(
            said in proptest::collection::vec((any::<bool>(), proptest::collection::vec(some_block(), 0..8)), 0..5)
        ) {
            let of = |(is_user, blocks)| Message { role: if is_user { Role::User } else { Role::Assistant }, blocks };
            let messages: Vec<Message> = said.into_iter().map(of).collect();
            let own = HashSet::from(["a"]);
            prop_assert_eq!(told(&messages, &own), told_simply(&messages, &own));
        }

        /// What need not be put together is not, and it makes no difference.
        #[test]
        fn what_is_told_already_is_the_words(
            said in proptest::collection::vec((any::<bool>(), proptest::collection::vec("[a ]{0,2}", 0..3)), 0..5)
        ) {
            let of = |(is_user, texts): (bool, Vec<String>)| Message {
                role: if is_user { Role::User } else { Role::Assistant },
                blocks: texts.into_iter().map(Block::Text).collect(),
            };
            let messages: Vec<Message> = said.into_iter().map(of).collect();
            prop_assert!(!is_told(&messages) || told(&messages, &HashSet::new()) == messages);
        }

        /// However one answer is cut into texts with a blank line between them, it is the same words.
        #[test]
        fn words_are_the_same_however_they_are_cut(texts in proptest::collection::vec("[a-c]{1,3}( [a-c]{1,3}){0,2}", 1..6)) {
            let asked = json!({"role": "user", "content": "q"});
            let blocks: Vec<Value> = texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
            let cut = known(&json!([asked, {"role": "assistant", "content": blocks}]));
            let one = known(&json!([asked, {"role": "assistant", "content": texts.join(BETWEEN_TEXTS)}]));
            prop_assert_eq!(cut.words, one.words);
            prop_assert!(cut.answers(&one));
        }

        /// Any other words are another conversation.
        #[test]
        fn other_words_are_another_conversation(one in "[ab]{1,4}", other in "[ab]{1,4}", split in "[ab]{1,2}") {
            let said = |text: &str| known(&json!([{"role": "user", "content": split}, {"role": "assistant", "content": text}]));
            prop_assert_eq!(said(&one).answers(&said(&other)), one == other);
        }
    }
}
