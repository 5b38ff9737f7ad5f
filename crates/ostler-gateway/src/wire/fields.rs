//! Fields of a request: those that are heard, those that have no effect, and those that nobody knows.

use serde_json::{Map, Value};

use super::{Problem, Told};

/// What an API's requests may have.
pub(super) struct Fields {
    /// What is heard, or needs no hearing: names and notes of the program for itself.
    pub(super) heard: &'static [&'static str],
    /// What an agent cannot be told.
    pub(super) ignored: &'static [&'static str],
}

impl Fields {
    /// Those fields of the request that have no effect. One that nobody knows is refused, as the real API does.
    pub(super) fn ignored(&self, body: &Value) -> Result<Vec<String>, Problem> {
        let empty = Map::new();
        let mut ignored = Vec::new();
        for (name, value) in body.as_object().unwrap_or(&empty) {
            if self.ignored.contains(&name.as_str()) {
                // What is not set has no effect anyway.
                if !value.is_null() {
                    ignored.push(name.clone());
                }
            } else if !self.heard.contains(&name.as_str()) {
                return Err(Problem::field(name, "this field is not known"));
            }
        }
        ignored.sort();
        Ok(ignored)
    }
}

/// A field that must be a text with something in it.
pub(super) fn named(body: &Value, field: &str) -> Result<String, Problem> {
    match body[field].as_str() {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        Some(_) | None => Err(Problem::field(field, "this field must be a text")),
    }
}

/// A field that may be true.
pub(super) fn flag(body: &Value, field: &str) -> Result<Told, Problem> {
    match &body[field] {
        Value::Null | Value::Bool(false) => Ok(Told::No),
        Value::Bool(true) => Ok(Told::Yes),
        _ => Err(Problem::field(field, "this field must be true or false")),
    }
}

/// A field that must be a list.
pub(super) fn list<'a>(body: &'a Value, field: &str) -> Result<&'a [Value], Problem> {
    body[field]
        .as_array()
        .map(Vec::as_slice)
        .ok_or_else(|| Problem::field(field, "this field must be a list"))
}

/// A field that may be a list.
pub(super) fn list_if_any<'a>(body: &'a Value, field: &str) -> Result<&'a [Value], Problem> {
    if body[field].is_null() { Ok(&[]) } else { list(body, field) }
}

/// A text, or the empty one.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
