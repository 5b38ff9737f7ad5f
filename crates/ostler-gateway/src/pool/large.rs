//! Large conversations: what takes long with them is done on another thread than the runtime's own, where all other clients
//! would wait for it.

use ostler_agent::canonical::{Block, Message};
use ostler_agent::fingerprint::Known;
use ostler_agent::leasing::Terms;
use serde_json::Value;

use super::known_on;

/// From so many bytes on a conversation is large: making a fingerprint of it takes about a millisecond.
const LARGE: usize = 256 * 1024;

/// Whether looking through messages takes a while.
pub(crate) fn is_large(messages: &[Message]) -> bool {
    let mut left = LARGE;
    let mut blocks = messages.iter().flat_map(|message| &message.blocks);
    blocks.any(|block| exhausts_block(block, &mut left))
}

/// Whether a block is longer than what is left, which it takes from that.
fn exhausts_block(block: &Block, left: &mut usize) -> bool {
    match block {
        Block::Text(text) | Block::Thinking { text, .. } => exhausts(text.len(), left),
        Block::Call { input, .. } => exhausts_value(input, left),
        Block::Outcome { blocks, .. } => blocks.iter().any(|block| exhausts_block(block, left)),
        Block::Other(value) => exhausts_value(value, left),
    }
}

fn exhausts_value(value: &Value, left: &mut usize) -> bool {
    match value {
        Value::String(text) => exhausts(text.len(), left),
        Value::Array(values) => values.iter().any(|value| exhausts_value(value, left)),
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| exhausts(name.len(), left) || exhausts_value(value, left))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => exhausts(1, left),
    }
}

fn exhausts(bytes: usize, left: &mut usize) -> bool {
    *left = left.saturating_sub(bytes);
    *left == 0
}

/// [`known_on`], elsewhere if the conversation is large.
pub(crate) async fn known_elsewhere(terms: &Terms, messages: &[Message]) -> Known {
    if !is_large(messages) {
        return known_on(terms, messages);
    }
    let (on, all) = (terms.clone(), messages.to_vec());
    let made = tokio::task::spawn_blocking(move || known_on(&on, &all)).await;
    // Only a runtime that ends does not do it.
    made.unwrap_or_else(|_| known_on(terms, messages))
}

#[cfg(test)]
mod tests {
    use ostler_agent::access::{KeyKind, KeyMemory};
    use ostler_agent::agent::{Engine, Permissions};
    use ostler_agent::canonical::read;
    use ostler_agent::leasing::Place;
    use serde_json::json;

    use super::*;
    use crate::elsewhere::done_elsewhere;

    fn messages(content: Value) -> Vec<Message> {
        read(&[json!({"role": "user", "content": content})]).unwrap()
    }

    #[test]
    fn what_is_long_in_any_kind_of_block_is_large() {
        let long = "x".repeat(LARGE);
        assert!(!is_large(&messages(json!("short"))) && is_large(&messages(json!(long))));
        let call = json!([{"type": "tool_use", "id": "a", "name": "b", "input": {"c": [1, long]}}]);
        let outcome = json!([{"type": "tool_result", "tool_use_id": "a", "content": long}]);
        let image = json!([{"type": "image", "source": {"type": "base64", "data": long}}]);
        for content in [call, outcome, image] {
            assert!(is_large(&messages(content)));
        }
    }

    #[test]
    fn the_fingerprint_of_a_large_conversation_is_made_off_the_runtimes_own_thread() {
        let terms = Terms {
            tenant: "a".to_owned(),
            kind: KeyKind::Tenant,
            memory: KeyMemory::Off,
            agent: "claude".to_owned(),
            engine: Engine::Stream,
            model: None,
            workspace: Place::Own,
            system_prompt: None,
            permissions: Permissions::Deny,
            asks_client: false,
            allow: Vec::new(),
            tools: String::new(),
        };
        let long = messages(json!("x".repeat(LARGE)));
        assert_eq!(done_elsewhere(known_elsewhere(&terms, &long), || {}), known_on(&terms, &long));
    }
}
