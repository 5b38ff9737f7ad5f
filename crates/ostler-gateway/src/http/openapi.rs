//! The OpenAPI document, made from the list of doors and from the shapes that are sent. Nothing of it is written by hand.

use ostler_agent::access::Scope;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::native;
use crate::wire::Format;

/// What is told about one door.
pub(super) struct Doc {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// What it is for, in a sentence.
    pub(super) about: &'static str,
    /// What a key must be for; nothing where none is needed.
    pub(super) scope: Option<Scope>,
    /// Besides those that are in the path.
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Sent>,
    pub(super) answers: Vec<Answered>,
}

impl Doc {
    pub(super) fn new(
        method: &'static str,
        path: &'static str,
        about: &'static str,
        scope: Option<Scope>,
    ) -> Self {
        Self { method, path, about, scope, parameters: Vec::new(), body: None, answers: Vec::new() }
    }

    fn is_native(&self) -> bool {
        self.path.starts_with(native::PREFIX)
    }

    /// The path as it is told: a name that may have `/` in it is a name.
    pub(super) fn told_path(&self) -> String {
        self.path.replace("{*", "{")
    }

    /// Under which heading it stands.
    pub(super) fn group_name(&self) -> &'static str {
        match self.path {
            path if path.starts_with("/v1/messages") => "Anthropic Messages",
            path if path.starts_with("/v1/") => "OpenAI",
            path if path.starts_with("/api/v1/runs") => "Runs",
            path if path.starts_with("/api/") => "Sessions",
            _ => "This server",
        }
    }
}

/// A parameter that is not in the path.
#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// `query` or `header`.
    pub(super) place: &'static str,
    pub(super) about: &'static str,
    pub(super) kind: &'static str,
}

/// What is sent.
#[derive(Clone, Copy)]
pub(super) enum Sent {
    /// JSON of this shape.
    Shape(fn(&mut SchemaGenerator) -> Schema),
    /// What this API takes: its fields are those that are read.
    Fields(Format),
    /// What a provider's API has, which is described there.
    Provider,
    /// Server-sent events whose data has this shape.
    Events(fn(&mut SchemaGenerator) -> Schema),
    /// Plain text, or a page.
    Text,
    Nothing,
}

/// An answer.
#[derive(Clone, Copy)]
pub(super) struct Answered {
    status: u16,
    about: &'static str,
    sent: Sent,
}

impl Answered {
    pub(super) fn of(status: u16, about: &'static str, sent: Sent) -> Self {
        Self { status, about, sent }
    }
}

/// How a shape is described.
pub(super) fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// The whole document.
pub(super) fn document(docs: &[Doc]) -> Value {
    let mut settings = SchemaSettings::openapi3();
    settings.inline_subschemas = false;
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for doc in docs {
        let path = paths.entry(doc.told_path()).or_insert_with(|| json!({}));
        path[doc.method] = operation(doc, &mut generator);
    }
    let schemas = generator.take_definitions(true);
    json!({
        "openapi": "3.0.3",
        "info": {
            "title": "Ostler",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Live sessions of your own agents, behind the APIs that programs already speak, and behind one of its own.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    })
}

fn operation(doc: &Doc, generator: &mut SchemaGenerator) -> Value {
    let mut answers: Map<String, Value> = Map::new();
    for answered in &doc.answers {
        let mut told = json!({"description": answered.about});
        if let Some(content) = content(answered.sent, generator) {
            told["content"] = content;
        }
        answers.insert(answered.status.to_string(), told);
    }
    answers.insert("default".to_owned(), trouble(doc, generator));
    let mut operation = json!({
        "summary": doc.about,
        "operationId": operation_id(doc),
        "tags": [doc.group_name()],
        "parameters": parameters(doc),
        "responses": answers,
    });
    if let Some(body) = doc.body
        && let Some(content) = content(body, generator)
    {
        operation["requestBody"] = json!({"required": true, "content": content});
    }
    if let Some(scope) = doc.scope {
        operation["security"] = json!([{"bearer": []}, {"key": []}]);
        operation["description"] = json!(format!("For keys with the scope `{}`.", scope.name()));
    }
    operation
}

/// In which shape it is told that something was not done.
fn trouble(doc: &Doc, generator: &mut SchemaGenerator) -> Value {
    let (media, schema) = if doc.is_native() {
        let shape = schema::<native::shapes::Trouble>(generator);
        ("application/problem+json", json!(shape))
    } else {
        (
            "application/json",
            json!({"type": "object", "required": ["error"], "properties": {"error": {"type": "object"}}}),
        )
    };
    json!({"description": "Why it was not done.", "content": {media: {"schema": schema}}})
}

fn content(sent: Sent, generator: &mut SchemaGenerator) -> Option<Value> {
    let object = json!({"type": "object"});
    Some(match sent {
        Sent::Shape(shape) => json!({"application/json": {"schema": shape(generator)}}),
        Sent::Fields(format) => json!({"application/json": {"schema": fields(format)}}),
        Sent::Provider => {
            json!({"application/json": {"schema": object}, "text/event-stream": {"schema": {"type": "string"}}})
        }
        Sent::Events(shape) => {
            // What an event's data is has its place among the shapes.
            let shape = json!(shape(generator));
            json!({"text/event-stream": {"schema": {"type": "string", "x-data": shape}}})
        }
        Sent::Text => json!({"*/*": {"schema": {"type": "string"}}}),
        Sent::Nothing => return None,
    })
}

/// What a request of a provider's API may have: the fields that are read or known to have no effect. Others have none.
fn fields(format: Format) -> Value {
    let (heard, ignored) = format.fields();
    let mut properties: Map<String, Value> = Map::new();
    for name in heard {
        properties.insert((*name).to_owned(), kind(name));
    }
    for name in ignored {
        properties.insert(
            (*name).to_owned(),
            json!({"description": "Has no effect; named in `x-ostler-ignored`."}),
        );
    }
    let required = match format {
        Format::Messages => json!(["model", "max_tokens", "messages"]),
        Format::Chat => json!(["model", "messages"]),
        Format::Responses => json!(["model", "input"]),
    };
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": {"description": "Has no effect; named in `x-ostler-ignored`."},
    })
}

fn kind(name: &str) -> Value {
    match name {
        "model" => json!({"type": "string", "example": "claude"}),
        "messages" | "tools" => json!({"type": "array", "items": {"type": "object"}}),
        "stream" => json!({"type": "boolean"}),
        "user" | "previous_response_id" => json!({"type": "string", "nullable": true}),
        "input" | "system" => json!({"description": "A text, or a list."}),
        _ => json!({}),
    }
}

fn operation_id(doc: &Doc) -> String {
    let words: String =
        doc.path.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
    format!("{}{}", doc.method, words.trim_end_matches('_'))
}

/// Those in the path, and the others.
fn parameters(doc: &Doc) -> Vec<Value> {
    let path = doc.told_path();
    let in_path = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    let others = doc.parameters.iter().map(|parameter| {
        let Parameter { name, place, about, kind } = parameter;
        json!({"name": name, "in": place, "required": false, "description": about, "schema": {"type": kind}})
    });
    in_path.chain(others).collect()
}
