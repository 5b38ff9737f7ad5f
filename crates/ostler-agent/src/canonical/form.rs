//! The canonical form, as a text. It is made several times a turn of everything that was said, so it is written straight
//! away: nothing of a conversation is put together first.

use serde_json::Value;

use super::{Block, Message, composed};

/// Below this every whole number is exact in every program.
const WHOLE: f64 = 9_007_199_254_740_992.0;

/// The canonical form of a conversation: the same text for equal ones, in whatever form they came. It is as long as they
/// are; whoever keeps it keeps a hash of it.
pub fn form(messages: &[Message]) -> String {
    let (mut form, mut role) = (String::new(), None);
    for message in messages {
        for block in message.blocks.iter().filter(|block| counts(block)) {
            // Neighbours with the same role are one message, also where what was between them does not count.
            if role.replace(message.role) != Some(message.role) {
                form.push_str(message.role.name());
                form.push('\n');
            }
            write(block, &mut form);
            form.push('\n');
        }
    }
    form
}

fn counts(block: &Block) -> bool {
    match block {
        Block::Text(text) => !text.trim_end().is_empty(),
        Block::Thinking { .. } => false,
        Block::Call { .. } | Block::Outcome { .. } | Block::Other(_) => true,
    }
}

/// One that counts: JSON, the keys in order.
fn write(block: &Block, out: &mut String) {
    match block {
        Block::Text(text) => {
            out.push_str("{\"text\":");
            quoted(composed(text).trim_end(), out);
            out.push_str(",\"type\":\"text\"}");
        }
        Block::Thinking { .. } => {}
        Block::Call { id, tool, input } => {
            out.push_str("{\"id\":");
            quoted(id, out);
            out.push_str(",\"input\":");
            sorted(input, out);
            out.push_str(",\"name\":");
            quoted(tool, out);
            out.push_str(",\"type\":\"tool_use\"}");
        }
        Block::Outcome { call, blocks, failed } => {
            out.push_str("{\"content\":[");
            for (at, block) in blocks.iter().filter(|block| counts(block)).enumerate() {
                separated(at, out);
                write(block, out);
            }
            out.push_str(if *failed { "],\"is_error\":true" } else { "],\"is_error\":false" });
            out.push_str(",\"tool_use_id\":");
            quoted(call, out);
            out.push_str(",\"type\":\"tool_result\"}");
        }
        // What it shows is told by its kind and its source.
        Block::Other(block) => {
            out.push_str("{\"source\":");
            sorted(&block["source"], out);
            out.push_str(",\"type\":");
            sorted(&block["type"], out);
            out.push('}');
        }
    }
}

/// JSON whose keys are in order, on one line.
pub(crate) fn sorted(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (at, (key, value)) in entries.into_iter().enumerate() {
                separated(at, out);
                quoted(key, out);
                out.push(':');
                sorted(value, out);
            }
            out.push('}');
        }
        Value::Array(values) => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                separated(at, out);
                sorted(value, out);
            }
            out.push(']');
        }
        // `1.0` comes back as `1` from a program that has one kind of numbers.
        Value::Number(number) => match number.as_f64().filter(|number| number.fract() == 0.0) {
            Some(whole) if number.is_f64() && whole.abs() < WHOLE => out.push_str(&format!("{whole:.0}")),
            Some(_) | None => out.push_str(&number.to_string()),
        },
        Value::String(text) => quoted(text, out),
        Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
    }
}

fn separated(at: usize, out: &mut String) {
    if at > 0 {
        out.push(',');
    }
}

/// A text as JSON has it. Most have nothing in them that has to be escaped.
fn quoted(text: &str, out: &mut String) {
    let is_plain = text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
    if is_plain {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::canonical::read;

    /// What is kept on disk is a hash of this: it does not change.
    #[test]
    fn the_form_is_this() {
        let messages = json!([
            {"role": "user", "content": "how \"many\"?\n"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t", "name": "Bash", "input": {"b": [1.0, 2.5, null], "a": "\u{7}"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "1"},
                {"type": "text", "text": " "}, {"type": "image", "source": {"type": "base64", "data": "x"}}], "is_error": true},
                {"type": "image", "source": null, "cache_control": {}}]},
        ]);
        let told = form(&read(messages.as_array().unwrap()).unwrap());
        let expected = [
            "user",
            r#"{"text":"how \"many\"?","type":"text"}"#,
            "assistant",
            r#"{"text":"I look.","type":"text"}"#,
            r#"{"id":"t","input":{"a":"\u0007","b":[1,2.5,null]},"name":"Bash","type":"tool_use"}"#,
            "user",
            concat!(
                r#"{"content":[{"text":"1","type":"text"},{"source":{"data":"x","type":"base64"},"type":"image"}],"#,
                r#""is_error":true,"tool_use_id":"t","type":"tool_result"}"#
            ),
            r#"{"source":null,"type":"image"}"#,
            "",
        ];
        assert_eq!(told, expected.join("\n"));
    }

    proptest! {
        #[test]
        fn a_text_is_quoted_as_json_has_it(text in any::<String>()) {
            let mut out = String::new();
            quoted(&text, &mut out);
            prop_assert_eq!(out, Value::from(text).to_string());
        }
    }
}
