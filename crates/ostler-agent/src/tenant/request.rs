//! What the body of a tenant's request to a provider may not name: files, answers, conversations, containers and prompts
//! that are stored in the owner's account.
//!
//! A body is read once, key by key, and nothing of it is kept: a key that is there twice is seen twice. What a model or a
//! program defines by itself, the input of a tool and its schema, is not looked at.

use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestFault {
    /// It cannot be looked at.
    #[error("the body of a request must be JSON")]
    NotJson,
    /// It names what is stored in the owner's account.
    #[error("`{0}` is refused: it is about what is stored in the owner's account")]
    Stored(&'static str),
}

/// Whether a tenant may send this body.
pub fn check_body(body: &[u8]) -> Result<(), RequestFault> {
    let mut fault = None;
    let mut reader = serde_json::Deserializer::from_slice(body);
    let checked = Check { at: At::Top, fault: &mut fault }.deserialize(&mut reader);
    match (fault, checked.and_then(|_| reader.end())) {
        (Some(name), _) => Err(RequestFault::Stored(name)),
        (None, Err(_)) => Err(RequestFault::NotJson),
        (None, Ok(())) => Ok(()),
    }
}

/// What a value is in its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// The whole body.
    Top,
    /// An item of the list in `input`.
    InputItem,
    /// A `container`.
    Container,
    /// Anything else.
    Inside,
}

/// A key of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    /// What it names is stored, wherever it is.
    Stored(&'static str),
    /// The same, in the body itself.
    StoredAtTop(&'static str),
    /// If its value is `true`.
    StoredIfTrue(&'static str),
    Container,
    /// A stored prompt if it is an object, a text otherwise.
    Prompt,
    Input,
    /// What a program defines.
    Defined,
    Role,
    Type,
    Other,
}

const STORED: [&str; 5] = ["file_id", "file_ids", "vector_store_ids", "container_id", "skill_id"];
const STORED_AT_TOP: [&str; 2] = ["previous_response_id", "conversation"];
const STORED_IF_TRUE: [&str; 2] = ["store", "background"];
const DEFINED: [&str; 4] = ["input_schema", "parameters", "schema", "metadata"];
const REFERENCE: &str = "item_reference";

impl Key {
    fn of(name: &str) -> Self {
        let among = |names: &[&'static str]| names.iter().find(|known| **known == name).copied();
        match name {
            "container" => Self::Container,
            "prompt" => Self::Prompt,
            "input" => Self::Input,
            "role" => Self::Role,
            "type" => Self::Type,
            _ if DEFINED.contains(&name) => Self::Defined,
            _ => {
                let stored = among(&STORED).map(Self::Stored);
                let stored = stored.or_else(|| among(&STORED_AT_TOP).map(Self::StoredAtTop));
                stored.or_else(|| among(&STORED_IF_TRUE).map(Self::StoredIfTrue)).unwrap_or(Self::Other)
            }
        }
    }
}

struct KeyReader;

impl<'de> DeserializeSeed<'de> for KeyReader {
    type Value = Key;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Key, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyReader {
    type Value = Key;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a key")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Key, E> {
        Ok(Key::of(name))
    }
}

/// What a value was, as far as that matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Null,
    True,
    Reference,
    Object,
    Other,
}

/// Looks at one value.
struct Check<'a> {
    at: At,
    fault: &'a mut Option<&'static str>,
}

impl<'de> DeserializeSeed<'de> for Check<'_> {
    type Value = Seen;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Seen, D::Error> {
        reader.deserialize_any(self)
    }
}

impl Check<'_> {
    fn refuse(&mut self, name: &'static str) {
        self.fault.get_or_insert(name);
    }

    fn value<'de, M: MapAccess<'de>>(&mut self, map: &mut M, at: At) -> Result<Seen, M::Error> {
        map.next_value_seed(Check { at, fault: &mut *self.fault })
    }

    fn entry<'de, M: MapAccess<'de>>(&mut self, map: &mut M, key: Key) -> Result<Seen, M::Error> {
        let is_top = self.at == At::Top;
        match key {
            Key::Defined => return map.next_value::<IgnoredAny>().map(|_| Seen::Other),
            // Elsewhere it is what a model gives to a tool.
            Key::Input if !is_top => return map.next_value_seed(ToolInput(self)),
            Key::Input | Key::Role | Key::Type | Key::Other => {}
            Key::Stored(_) | Key::StoredAtTop(_) | Key::StoredIfTrue(_) | Key::Container | Key::Prompt => {}
        }
        let at = if key == Key::Container { At::Container } else { At::Inside };
        let seen = match key {
            Key::Input => map.next_value_seed(InputList(self))?,
            _ => self.value(map, at)?,
        };
        match (key, seen) {
            (Key::Stored(name), seen) if seen != Seen::Null => self.refuse(name),
            (Key::StoredAtTop(name), seen) if is_top && seen != Seen::Null => self.refuse(name),
            (Key::StoredIfTrue(name), Seen::True) if is_top => self.refuse(name),
            (Key::Container, Seen::Other | Seen::Reference) => self.refuse("container"),
            (Key::Prompt, Seen::Object) if is_top => self.refuse("prompt"),
            (Key::Type, Seen::Reference) => self.refuse(REFERENCE),
            _ => {}
        }
        Ok(seen)
    }
}

impl<'de> Visitor<'de> for Check<'_> {
    type Value = Seen;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }
    fn visit_unit<E: Error>(self) -> Result<Seen, E> {
        Ok(Seen::Null)
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<Seen, E> {
        Ok(if value { Seen::True } else { Seen::Other })
    }
    fn visit_i64<E: Error>(self, _value: i64) -> Result<Seen, E> {
        Ok(Seen::Other)
    }
    fn visit_u64<E: Error>(self, _value: u64) -> Result<Seen, E> {
        Ok(Seen::Other)
    }
    fn visit_f64<E: Error>(self, _value: f64) -> Result<Seen, E> {
        Ok(Seen::Other)
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<Seen, E> {
        Ok(if value == REFERENCE { Seen::Reference } else { Seen::Other })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Seen, A::Error> {
        while list.next_element_seed(Check { at: At::Inside, fault: &mut *self.fault })?.is_some() {}
        Ok(Seen::Other)
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<Seen, M::Error> {
        let (mut is_named, mut is_empty_container) = (false, true);
        while let Some(key) = map.next_key_seed(KeyReader)? {
            let seen = self.entry(&mut map, key)?;
            is_named |= matches!(key, Key::Role | Key::Type) && seen != Seen::Null;
            // `{"type": "auto"}` is a new one.
            is_empty_container &= key == Key::Type;
        }
        match self.at {
            At::InputItem if !is_named => self.refuse(REFERENCE),
            At::Container if !is_empty_container => self.refuse("container"),
            At::Top | At::InputItem | At::Container | At::Inside => {}
        }
        Ok(Seen::Object)
    }
}

/// The `input` of a body: a text, or a list of items.
struct InputList<'a, 'b>(&'a mut Check<'b>);

impl<'de> DeserializeSeed<'de> for InputList<'_, '_> {
    type Value = Seen;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Seen, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for InputList<'_, '_> {
    type Value = Seen;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a text or a list")
    }
    fn visit_unit<E: Error>(self) -> Result<Seen, E> {
        Ok(Seen::Null)
    }
    fn visit_str<E: Error>(self, _value: &str) -> Result<Seen, E> {
        Ok(Seen::Other)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Seen, A::Error> {
        while list.next_element_seed(Check { at: At::InputItem, fault: &mut *self.0.fault })?.is_some() {}
        Ok(Seen::Other)
    }
}

/// An `input` deeper inside: what a model gives to a tool, if it is an object.
struct ToolInput<'a, 'b>(&'a mut Check<'b>);

impl<'de> DeserializeSeed<'de> for ToolInput<'_, '_> {
    type Value = Seen;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Seen, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ToolInput<'_, '_> {
    type Value = Seen;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }
    fn visit_unit<E: Error>(self) -> Result<Seen, E> {
        Ok(Seen::Null)
    }
    fn visit_str<E: Error>(self, _value: &str) -> Result<Seen, E> {
        Ok(Seen::Other)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Seen, A::Error> {
        while list.next_element_seed(Check { at: At::Inside, fault: &mut *self.0.fault })?.is_some() {}
        Ok(Seen::Other)
    }
    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Seen, M::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Seen::Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stored_in_the_owners_account_is_named() {
        let table = [
            (r#"{"previous_response_id": "resp_1", "input": "x"}"#, "previous_response_id"),
            (r#"{"previous_response_id": "resp_1", "previous_response_id": null}"#, "previous_response_id"),
            (r#"{"\u0070revious_response_id": "resp_1"}"#, "previous_response_id"),
            (r#"{"conversation": {"id": "conv_1"}}"#, "conversation"),
            (r#"{"store": true, "input": []}"#, "store"),
            (r#"{"background": true}"#, "background"),
            (r#"{"prompt": {"id": "pmpt_1"}}"#, "prompt"),
            (r#"{"input": [{"type": "item_reference", "id": "msg_1"}]}"#, "item_reference"),
            (r#"{"input": [{"id": "msg_1"}]}"#, "item_reference"),
            (r#"{"input": [{"type": null, "id": "msg_1"}]}"#, "item_reference"),
            (
                r#"{"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]}"#,
                "file_id",
            ),
            (r#"{"tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}"#, "vector_store_ids"),
            (r#"{"tools": [{"type": "code_interpreter", "container": "cntr_1"}]}"#, "container"),
            (
                r#"{"tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["f"]}}]}"#,
                "file_ids",
            ),
            (r#"{"container": "container_1"}"#, "container"),
            (r#"{"container": {"id": "container_1"}}"#, "container"),
            (
                r#"{"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}]}"#,
                "file_id",
            ),
            (r#"{"messages": [{"content": [{"type": "container_upload", "file_id": "f"}]}]}"#, "file_id"),
            (r#"{"messages": [{"content": [{"type": "file", "file": {"file_id": "f"}}]}]}"#, "file_id"),
        ];
        for (body, want) in table {
            assert_eq!(check_body(body.as_bytes()), Err(RequestFault::Stored(want)), "{body}");
        }
    }

    #[test]
    fn what_agents_send_is_let_through() {
        for body in [
            r#"{"store": false, "previous_response_id": null, "input": "previous_response_id"}"#,
            r#"{"input": [{"role": "user", "content": "x"}, {"type": "reasoning", "id": "rs_1", "summary": []},
                {"type": "function_call", "arguments": "{\"file_id\": 1}"}], "prompt_cache_key": "k"}"#,
            r#"{"prompt": "text"}"#,
            r#"{"container": null, "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}"#,
            r#"{"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n",
                "input": {"file_id": "x", "container": "y"}}]}]}"#,
            r#"{"tools": [{"name": "n", "input_schema": {"properties": {"file_id": {"type": "string"}}}}],
                "metadata": {"user_id": "u"}, "temperature": 0.5, "max_tokens": 1, "stream": true}"#,
            r#"{"tools": [{"type": "function", "function": {"parameters": {"properties": {"conversation": {}}}}}]}"#,
            r#"{"embeddings": [], "input": "one"}"#,
            r#"{"input": ["one", "two"]}"#,
            "{}",
        ] {
            assert_eq!(check_body(body.as_bytes()), Ok(()), "{body}");
        }
        for body in ["", "{", "{} {}", "\"\\u12\"", r#"{"input": {"id": "x"}}"#] {
            assert_eq!(check_body(body.as_bytes()), Err(RequestFault::NotJson), "{body}");
        }
    }
}
