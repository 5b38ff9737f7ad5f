//! A transcript that Claude Code did not write: it goes on with it as with its own. Seen on 2.1.197 and 2.1.325, headless
//! and in the terminal.
//!
//! - Needed are `type`, `uuid`, `parentUuid`, `timestamp` and `message`; of an assistant's also `message.model`, without
//!   which it hangs, and an id of its own, by which a compaction groups.
//! - The model of the last record becomes the session's, unless another is asked for. `<synthetic>` is none: then it is
//!   the one that it would take anyway.
//! - A result and words of one user message are one record; the order of the file is the order of the conversation.

use serde_json::{Value, json};

use crate::agent::Seed;
use crate::canonical::{Block, Message, Role};

/// The model of messages that no model wrote.
const NO_MODEL: &str = "<synthetic>";

/// One record a message, each after the one before it.
pub(super) fn seed(seed: &Seed<'_>) -> String {
    let (mut text, mut parent) = (String::new(), Value::Null);
    for message in seed.messages {
        let id = Value::from((seed.id)());
        let record = json!({
            "type": message.role.name(),
            "uuid": id,
            "parentUuid": parent,
            "timestamp": seed.at,
            "isSidechain": false,
            "userType": "external",
            "sessionId": seed.session,
            "cwd": seed.workspace.display().to_string(),
            "message": written(seed, message),
        });
        text.push_str(&record.to_string());
        text.push('\n');
        parent = id;
    }
    text
}

fn written(seed: &Seed<'_>, message: &Message) -> Value {
    let mut written = message.written();
    match message.role {
        Role::User => {}
        Role::Assistant => {
            let calls = message.blocks.iter().any(|block| matches!(block, Block::Call { .. }));
            written["type"] = json!("message");
            written["id"] = json!(format!("msg_{}", (seed.id)().replace('-', "")));
            written["model"] = json!(seed.model.unwrap_or(NO_MODEL));
            written["stop_reason"] = json!(if calls { "tool_use" } else { "end_turn" });
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashSet;
    use std::path::Path;

    use super::*;
    use crate::canonical::read;

    fn records(messages: &[Value], model: Option<&str>) -> Vec<Value> {
        let messages = read(messages).unwrap_or_default();
        let count = Cell::new(0);
        let id = || {
            count.set(count.get() + 1);
            format!("id-{}", count.get())
        };
        let seed = seed(&Seed {
            session: "s",
            workspace: Path::new("/srv/stable"),
            model,
            messages: &messages,
            at: "2026-11-15T18:00:00.000Z",
            id: &id,
        });
        seed.lines().map(|line| serde_json::from_str(line).unwrap_or_default()).collect()
    }

    #[test]
    fn a_message_is_a_record() {
        let records = records(
            &[
                json!({"role": "user", "content": "look"}),
                json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]}),
                json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}),
                json!({"role": "assistant", "content": "done"}),
            ],
            Some("claude-opus-4-8"),
        );
        let ids: HashSet<&str> = records.iter().filter_map(|record| record["uuid"].as_str()).collect();
        assert_eq!((records.len(), ids.len()), (4, 4));
        assert_eq!(records[0]["parentUuid"], Value::Null);
        for pair in records.windows(2) {
            assert_eq!(pair[0]["uuid"], pair[1]["parentUuid"]);
        }
        assert_eq!(records[0]["message"], json!({"role": "user", "content": "look"}));
        assert_eq!(records[1]["message"]["stop_reason"], "tool_use");
        assert_ne!(records[1]["message"]["id"], records[3]["message"]["id"]);
        let last = json!({"role": "assistant", "type": "message", "id": "msg_id6", "model": "claude-opus-4-8",
            "stop_reason": "end_turn", "content": [{"type": "text", "text": "done"}]});
        assert_eq!(records[3]["message"], last);
    }

    #[test]
    fn a_model_that_is_not_known_is_none() {
        let records = records(&[json!({"role": "assistant", "content": "hello"})], None);
        assert_eq!(records[0]["message"]["model"], "<synthetic>");
    }
}
