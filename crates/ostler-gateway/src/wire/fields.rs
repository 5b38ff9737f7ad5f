//! Fields of a request: those that are read, those that have no effect, and those that would make another answer.

use serde_json::{Map, Value};

use super::at::At;
use super::ignored::Ignored;
use super::{Problem, Told};

/// What an API's requests may have. Others have no effect either: agents as clients send fields that are newer than this.
pub(super) struct Fields {
    /// What is heard, or needs no hearing: names and notes of the program for itself.
    pub(super) heard: &'static [&'static str],
    /// What an agent cannot be told.
    pub(super) ignored: &'static [&'static str],
}

impl Fields {
    /// Those fields of the request that have no effect. One that would make another answer is refused.
    pub(super) fn ignored(&self, body: &Value) -> Result<Ignored, Problem> {
        refuse_other_answers(body)?;
        let empty = Map::new();
        let mut ignored = Ignored::default();
        for (name, value) in body.as_object().unwrap_or(&empty) {
            // What is not set has no effect anyway.
            if !value.is_null() && !self.heard.contains(&name.as_str()) {
                ignored.add(name);
            }
        }
        Ok(ignored)
    }
}

/// An agent gives one answer, in words, and reports no probabilities. A program that asks for something else would take
/// the answer for what it is not.
fn refuse_other_answers(body: &Value) -> Result<(), Problem> {
    for field in ["n", "best_of"] {
        let is_one = body[field].is_null() || body[field].as_u64() == Some(1);
        if !is_one {
            return Err(Problem::field(field, "an agent gives one answer: only 1 is possible"));
        }
    }
    for field in ["logprobs", "top_logprobs"] {
        let is_unset = matches!(&body[field], Value::Null | Value::Bool(false)) || body[field] == 0;
        if !is_unset {
            return Err(Problem::field(field, "an agent does not report probabilities"));
        }
    }
    let (modalities, include) = (At::Field("modalities"), At::Field("include"));
    for (at, kind) in list_if_any(body, "modalities")?.iter().enumerate() {
        if kind != "text" {
            return Err(modalities.nth(at).wrong("an agent answers in text"));
        }
    }
    for (at, part) in body["include"].as_array().into_iter().flatten().enumerate() {
        if part.as_str().is_some_and(|part| part.ends_with(".logprobs")) {
            return Err(include.nth(at).wrong("an agent does not report probabilities"));
        }
    }
    Ok(())
}

/// A field that must be a text with something in it.
pub(super) fn named(body: &Value, field: &str) -> Result<String, Problem> {
    match body[field].as_str() {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        Some(_) | None => Err(Problem::field(field, "this field must be a text")),
    }
}

/// A field that may be a text. An empty one is none.
pub(super) fn text_if_any(body: &Value, field: &str) -> Result<Option<String>, Problem> {
    match &body[field] {
        Value::Null => Ok(None),
        Value::String(text) => Ok((!text.is_empty()).then(|| text.clone())),
        _ => Err(Problem::field(field, "this field must be a text")),
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
