//! Front matter: TOML between two lines `+++` at the very top of a document.

use toml::{Table, Value};

use super::diagnostic::{Diagnostic, Fault};
use super::kind::{Field, Need, Shape};
use crate::document::{Document, Format, Segment};

const FENCE: &str = "+++";

/// A document, taken apart.
pub(super) struct Parts<'a> {
    /// The front matter's text, if there is one. It begins on line 2.
    pub(super) front: Option<&'a str>,
    /// The rest.
    pub(super) body: &'a str,
    /// The line on which the rest begins.
    pub(super) body_line: usize,
}

/// Takes a document apart.
pub(super) fn split(text: &str) -> Result<Parts<'_>, Diagnostic> {
    let whole = Parts { front: None, body: text, body_line: 1 };
    let Some((first, rest)) = text.split_once('\n') else { return Ok(whole) };
    if first.trim_end() != FENCE {
        return Ok(whole);
    }
    let mut start = 0;
    for (index, line) in rest.split_inclusive('\n').enumerate() {
        if line.trim_end() == FENCE {
            let body = &rest[start + line.len()..];
            return Ok(Parts { front: Some(&rest[..start]), body, body_line: index + 3 });
        }
        start += line.len();
    }
    Err(Diagnostic {
        line: 1,
        rule: Fault::BadFrontMatter,
        found: "the front matter that begins here does not end".to_owned(),
        example: "+++\nstatus = \"done\"\n+++".to_owned(),
    })
}

/// Whether a document begins as YAML front matter does.
pub(super) fn looks_like_yaml(text: &str) -> bool {
    text.lines().next().is_some_and(|line| line.trim_end() == "---")
}

/// The values of a front matter.
pub(super) struct Values {
    document: Document,
    table: Table,
}

impl Values {
    /// Reads them.
    pub(super) fn parse(front: &str) -> Result<Self, Diagnostic> {
        let document = Document::new("front matter", front, Format::Toml);
        match document.read::<Table>() {
            Ok(table) => Ok(Self { document, table }),
            Err(mistake) => Err(Diagnostic {
                line: mistake.line.unwrap_or(1) + 1,
                rule: Fault::BadFrontMatter,
                found: format!("not TOML: {}", mistake.problem),
                example: "status = \"done\"".to_owned(),
            }),
        }
    }

    /// No values.
    pub(super) fn none() -> Self {
        Self { document: Document::new("front matter", "", Format::Toml), table: Table::new() }
    }

    /// What is wrong with the value of `key`.
    pub(super) fn complain(&self, key: &str, field: &Field) -> Option<Diagnostic> {
        let example = example(key, field);
        let Some(value) = self.table.get(key) else {
            return match field.need {
                Need::Optional => None,
                Need::Required => {
                    let found = format!("the front matter has no key `{key}`");
                    let example =
                        if self.table.is_empty() { format!("+++\n{example}\n+++") } else { example };
                    Some(Diagnostic { line: 1, rule: Fault::MissingKey, found, example })
                }
            };
        };
        let line = self.line_of(key);
        if !fits(value, field.shape) {
            let found = format!("`{key}` is {}, not {}", in_words(value), field.shape.in_words());
            return Some(Diagnostic { line, rule: Fault::WrongType, found, example });
        }
        let stranger = texts(value).into_iter().find(|text| !field.one_of.iter().any(|one| one == text));
        match stranger {
            Some(text) if !field.one_of.is_empty() => {
                let found = format!("`{key}` is \"{}\", not one of {}", short(text), field.one_of.join(", "));
                Some(Diagnostic { line, rule: Fault::NotAllowed, found, example })
            }
            _ => None,
        }
    }

    /// The texts of a key, with its line.
    pub(super) fn texts(&self, key: &str) -> (usize, Vec<&str>) {
        (self.line_of(key), self.table.get(key).map(texts).unwrap_or_default())
    }

    fn line_of(&self, key: &str) -> usize {
        self.document.line_of(&[Segment::Key(key.to_owned())]).unwrap_or(1) + 1
    }
}

/// The start of a text, for messages.
pub(super) fn short(text: &str) -> String {
    let start: String = text.chars().take(60).collect();
    if start.len() < text.len() { format!("{start}…") } else { start }
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn fits(value: &Value, shape: Shape) -> bool {
    match shape {
        Shape::Text | Shape::Path => value.is_str(),
        Shape::Integer => value.is_integer(),
        Shape::Number => value.is_integer() || value.is_float(),
        Shape::Boolean => value.is_bool(),
        Shape::Date => value.is_datetime(),
        Shape::Texts | Shape::Paths => value.as_array().is_some_and(|list| list.iter().all(Value::is_str)),
    }
}

fn in_words(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "text",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}

impl Shape {
    fn in_words(self) -> &'static str {
        match self {
            Self::Text => "text in quotes",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Boolean => "true or false",
            Self::Date => "a date",
            Self::Texts => "a list of texts",
            Self::Path => "a file in quotes",
            Self::Paths => "a list of files",
        }
    }
}

fn example(key: &str, field: &Field) -> String {
    let text = field.one_of.first().map_or("…", String::as_str);
    let value = match field.shape {
        Shape::Text => format!("\"{text}\""),
        Shape::Texts => format!("[\"{text}\"]"),
        Shape::Integer => "3".to_owned(),
        Shape::Number => "0.5".to_owned(),
        Shape::Boolean => "true".to_owned(),
        Shape::Date => "2026-01-31".to_owned(),
        Shape::Path => "\"src/main.rs\"".to_owned(),
        Shape::Paths => "[\"src/main.rs\"]".to_owned(),
    };
    format!("{key} = {value}")
}
