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
    let mut told: Vec<Message> = Vec::new();
    for message in messages {
        for block in &message.blocks {
            match block {
                Block::Thinking { .. } => {}
                Block::Call { id: call, .. } | Block::Outcome { call, .. } => {
                    if own.contains(call.as_str()) {
                        speaking(&mut told, message.role).push(block.clone());
                    }
                }
                Block::Text(text) if text.trim().is_empty() => {}
                Block::Text(text) => {
                    let said = speaking(&mut told, message.role);
                    let calls = said.iter().position(|block| !is_said(block)).unwrap_or(said.len());
                    match calls.checked_sub(1).and_then(|last| said.get_mut(last)) {
                        Some(Block::Text(before)) => {
                            before.push_str(BETWEEN_TEXTS);
                            before.push_str(text);
                        }
                        Some(_) | None => said.insert(calls, block.clone()),
                    }
                }
                Block::Other(_) => {
                    let said = speaking(&mut told, message.role);
                    let calls = said.iter().position(|block| !is_said(block)).unwrap_or(said.len());
                    said.insert(calls, block.clone());
                }
            }
        }
    }
    told
}

fn is_said(block: &Block) -> bool {
    !matches!(block, Block::Call { .. } | Block::Outcome { .. })
}

/// What this one is saying.
fn speaking(words: &mut Vec<Message>, role: Role) -> &mut Vec<Block> {
    if words.last().is_none_or(|last| last.role != role) {
        words.push(Message { role, blocks: Vec::new() });
    }
    let last = words.len() - 1;
    &mut words[last].blocks
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

    proptest! {
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
