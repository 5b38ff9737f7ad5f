//! Tools that a program offers and runs itself, in each API's own words, and whether it leaves the choice to the model.
//!
//! An agent knows functions: a name, and a schema of what it is called with. What OpenAI calls a custom tool takes one text
//! instead, and those of a namespace have two names: each is a function for the agent, and what it was is in
//! [`ToolNames`]. Kinds that the provider itself would run are left out.

use std::collections::{BTreeMap, HashSet};

use ostler_agent::offering::Tool;
use serde_json::{Value, json};

use super::at::At;
use super::fields::list_if_any;
use super::ignored::Ignored;
use super::{Format, Problem};

/// Longest name: the agent has a longer one for it, and its provider takes 128 letters.
const LONGEST_NAME: usize = 100;

/// Most tools of one request: agents as clients offer all tools of their MCP servers, which are hundreds.
const MOST: usize = 1024;

/// What a custom tool is called with, as the agent knows it.
pub(super) const INPUT: &str = "input";

/// What stands between a namespace and a name, as the agent knows them.
const BETWEEN: &str = "__";

/// The kind under which tools that the program runs are listed, besides functions.
const CUSTOM: &str = "custom";
const NAMESPACE: &str = "namespace";

/// What a program offers.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Offer {
    /// As the agent knows them.
    pub(super) tools: Vec<Tool>,
    /// What some of them are for the program.
    pub(super) names: ToolNames,
}

/// What tools are for the program that are something else for the agent, by the agent's name for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolNames(BTreeMap<String, Named>);

/// A tool as the program knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) takes: Takes,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

/// What a tool is called with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// Something of its schema.
    Object,
    /// One text.
    Text,
}

impl ToolNames {
    /// What the program calls this tool.
    pub(super) fn of(&self, tool: &str) -> Named {
        let plain = || Named { takes: Takes::Object, namespace: None, name: tool.to_owned() };
        self.0.get(tool).cloned().unwrap_or_else(plain)
    }
}

/// The agent's name for a tool of a namespace.
pub(super) fn joined(namespace: Option<&str>, name: &str) -> String {
    namespace.map_or(name.to_owned(), |namespace| format!("{namespace}{BETWEEN}{name}"))
}

/// What a custom tool is called with, from what the agent calls it with.
pub(super) fn custom_input(input: &Value) -> String {
    input[INPUT].as_str().map_or_else(|| input.to_string(), str::to_owned)
}

/// The tools of a request: those of its field, and `more` that stand elsewhere, each with its path. None, where it says that none may be
/// called. What an agent cannot receive is added to `ignored`.
pub(super) fn read(
    format: Format,
    body: &Value,
    more: &[(String, &Value)],
    ignored: &mut Ignored,
) -> Result<Offer, Problem> {
    let field = At::Field("tools");
    let listed = list_if_any(body, "tools")?;
    let listed = listed.iter().enumerate().map(|(index, tool)| (field.nth(index), tool));
    let more = more.iter().map(|(path, tool)| (At::Field(path), *tool));
    let listed: Vec<(At<'_>, &Value)> = listed.chain(more).collect();
    let mut reader = Reader { format, offer: Offer::default(), known: HashSet::new(), ignored };
    for (at, tool) in &listed {
        reader.one(at, tool, None)?;
    }
    let offer = reader.offer;
    let choice = choice(body, &offer)?;
    if matches!(choice, Choice::Forced) && !listed.is_empty() {
        if offer.tools.is_empty() {
            return Err(Problem::field("tool_choice", "none of the tools can be offered to an agent"));
        }
        ignored.add("tool_choice");
    }
    if body["parallel_tool_calls"] == false && !offer.tools.is_empty() {
        ignored.add("parallel_tool_calls");
    }
    Ok(if matches!(choice, Choice::None) { Offer::default() } else { offer })
}

struct Reader<'a> {
    format: Format,
    offer: Offer,
    known: HashSet<String>,
    ignored: &'a mut Ignored,
}

impl Reader<'_> {
    fn one(&mut self, at: &At<'_>, tool: &Value, namespace: Option<&str>) -> Result<(), Problem> {
        if !tool.is_object() {
            return Err(at.wrong("a tool must be an object"));
        }
        let kind = match (&tool["type"], self.format) {
            (Value::Null, Format::Messages) => CUSTOM,
            (Value::String(kind), _) => kind,
            _ => return Err(at.of("type").wrong("this field must be a text")),
        };
        match (self.format, kind) {
            (Format::Messages, CUSTOM) => self.function(at, tool, &tool["input_schema"], namespace),
            (Format::Chat, "function") => {
                let function = &tool["function"];
                self.function(&at.of("function"), function, &function["parameters"], namespace)
            }
            (Format::Chat, CUSTOM) => self.custom(&at.of(CUSTOM), &tool[CUSTOM], namespace),
            (Format::Responses, "function") => self.function(at, tool, &tool["parameters"], namespace),
            (Format::Responses, CUSTOM) => self.custom(at, tool, namespace),
            (Format::Responses, NAMESPACE) if namespace.is_none() => self.namespace(at, tool),
            _ => {
                self.ignored.add_kind("tools", kind);
                Ok(())
            }
        }
    }

    fn namespace(&mut self, at: &At<'_>, tool: &Value) -> Result<(), Problem> {
        let (name, inner) = (at.name(tool, "name")?, at.of("tools"));
        let tools = tool["tools"].as_array().ok_or_else(|| inner.wrong("this field must be a list"))?;
        tools.iter().enumerate().try_for_each(|(index, tool)| self.one(&inner.nth(index), tool, Some(name)))
    }

    fn function(
        &mut self,
        at: &At<'_>,
        tool: &Value,
        schema: &Value,
        namespace: Option<&str>,
    ) -> Result<(), Problem> {
        if tool["strict"] == true {
            self.ignored.add("tools.strict");
        }
        let schema = match schema {
            // A tool that is called with nothing: Anthropic's API wants that said.
            Value::Null if self.format != Format::Messages => json!({"type": "object", "properties": {}}),
            schema if schema["type"] == "object" => schema.clone(),
            _ => {
                let field = if self.format == Format::Messages { "input_schema" } else { "parameters" };
                return Err(at.of(field).wrong("what it is called with must be a schema of an object"));
            }
        };
        self.add(at, tool, (namespace, Takes::Object), schema)
    }

    /// One that takes a text: its description says how the text has to be written.
    fn custom(&mut self, at: &At<'_>, tool: &Value, namespace: Option<&str>) -> Result<(), Problem> {
        let format = &tool["format"];
        // Chat Completions has one more level.
        let grammar = if format["grammar"].is_object() { &format["grammar"] } else { format };
        let written = match (grammar["syntax"].as_str(), grammar["definition"].as_str()) {
            (syntax, Some(definition)) => {
                let syntax = syntax.unwrap_or("grammar");
                format!("One text, and nothing else, that this {syntax} grammar accepts:\n{definition}")
            }
            (_, None) => "One text, and nothing else.".to_owned(),
        };
        let schema = json!({
            "type": "object",
            "properties": {INPUT: {"type": "string", "description": written}},
            "required": [INPUT],
            "additionalProperties": false,
        });
        self.add(at, tool, (namespace, Takes::Text), schema)
    }

    fn add(
        &mut self,
        at: &At<'_>,
        tool: &Value,
        (namespace, takes): (Option<&str>, Takes),
        schema: Value,
    ) -> Result<(), Problem> {
        let short = tool["name"].as_str().unwrap_or_default();
        let name = joined(namespace, short);
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
        if short.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_letter) {
            return Err(at.of("name").wrong("a name must be of at most 100 letters, digits, `_` and `-`"));
        }
        if !self.known.insert(name.clone()) {
            return Err(at.of("name").wrong("there are two tools of this name"));
        }
        if self.known.len() > MOST {
            return Err(Problem::field("tools", "there may be at most 1024 of them"));
        }
        if takes == Takes::Text || namespace.is_some() {
            let named = Named { takes, namespace: namespace.map(str::to_owned), name: short.to_owned() };
            self.offer.names.0.insert(name.clone(), named);
        }
        let description = tool["description"].as_str().map(str::to_owned);
        self.offer.tools.push(Tool { name, description, schema });
        Ok(())
    }
}

/// Who decides whether a tool is called.
enum Choice {
    /// The model: what an agent does anyway.
    Auto,
    /// Nobody: none may be.
    None,
    /// The program: one of them has to be, which an agent cannot be told.
    Forced,
}

/// What the request says about it. An agent cannot be made to call a tool; one that it does not even have is a mistake.
fn choice(body: &Value, offer: &Offer) -> Result<Choice, Problem> {
    let choice = &body["tool_choice"];
    let is_offered = |tool: &Value| {
        let tool =
            [&tool["function"], &tool[CUSTOM]].into_iter().find(|tool| tool.is_object()).unwrap_or(tool);
        let name = joined(tool[NAMESPACE].as_str(), tool["name"].as_str().unwrap_or_default());
        offer.tools.iter().any(|tool| tool.name == name)
    };
    let wrong = |message: &str| Err(Problem::field("tool_choice", message));
    match (choice.as_str().or(choice["type"].as_str()), choice.is_object()) {
        (None, false) if choice.is_null() => Ok(Choice::Auto),
        (Some("auto"), _) if choice["disable_parallel_tool_use"] == true => Ok(Choice::Forced),
        (Some("auto"), _) => Ok(Choice::Auto),
        (Some("none"), _) => Ok(Choice::None),
        (Some("required" | "any"), _) => Ok(Choice::Forced),
        (Some("allowed_tools"), true) => {
            let allowed = [&choice["tools"], &choice["allowed_tools"]["tools"]];
            match allowed.into_iter().filter_map(Value::as_array).flatten().any(is_offered) {
                true => Ok(Choice::Forced),
                false => wrong("none of these tools can be offered to an agent"),
            }
        }
        (Some("tool" | "function" | CUSTOM), true) if is_offered(choice) => Ok(Choice::Forced),
        (Some(_), true) => wrong("this tool cannot be offered to an agent"),
        _ => wrong("this must be a word that the API has for it, or name a tool"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_the_same_in_every_api() {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let table = [
            (Format::Messages, json!({"name": "w", "description": "d", "input_schema": schema})),
            (
                Format::Chat,
                json!({"type": "function", "function": {"name": "w", "description": "d", "parameters": schema}}),
            ),
            (
                Format::Responses,
                json!({"type": "function", "name": "w", "description": "d", "parameters": schema, "strict": false}),
            ),
        ];
        let want = Tool { name: "w".to_owned(), description: Some("d".to_owned()), schema };
        for (format, tool) in table {
            let read = read(format, &json!({"tools": [tool]}), &[], &mut Ignored::default());
            assert_eq!(read.map(|offer| offer.tools), Ok(vec![want.clone()]), "{format:?}");
        }
    }

    #[test]
    fn what_an_agent_cannot_be_told_is_named() {
        let tools = json!([{"type": "function", "function": {"name": "w", "strict": true}}]);
        let with = |choice: Value, parallel: Value| {
            let mut ignored = Ignored::default();
            ignored.add("a");
            let body = json!({"tools": tools, "tool_choice": choice, "parallel_tool_calls": parallel});
            let count = read(Format::Chat, &body, &[], &mut ignored).map(|offer| offer.tools.len());
            (count, ignored.into_names().join(" "))
        };
        let table = [
            (json!("auto"), json!(true), 1, "a tools.strict"),
            (json!("none"), json!(null), 0, "a tools.strict"),
            (json!("required"), json!(false), 1, "a parallel_tool_calls tool_choice tools.strict"),
            (
                json!({"type": "function", "function": {"name": "w"}}),
                json!(null),
                1,
                "a tool_choice tools.strict",
            ),
            (
                json!({"type": "auto", "disable_parallel_tool_use": true}),
                json!(null),
                1,
                "a tool_choice tools.strict",
            ),
        ];
        for (choice, parallel, count, ignored) in table {
            assert_eq!(with(choice.clone(), parallel), (Ok(count), ignored.to_owned()), "{choice}");
        }
    }

    #[test]
    fn a_tool_that_is_described_wrongly_is_refused() {
        let named = |name: &str| json!({"name": name, "input_schema": {"type": "object"}});
        let bad = [
            (json!([named("a b")]), "tools[0].name"),
            (json!([named("")]), "tools[0].name"),
            (json!([named("w"), named("w")]), "tools[1].name"),
            (json!([{"name": "w", "input_schema": {"type": "string"}}]), "tools[0].input_schema"),
            (json!([{"type": 7, "name": "w"}]), "tools[0].type"),
            (json!([null]), "tools[0]"),
            (json!("w"), "tools"),
        ];
        for (tools, field) in bad {
            let read = read(Format::Messages, &json!({"tools": tools}), &[], &mut Ignored::default());
            assert_eq!(read.unwrap_err().field.as_deref(), Some(field), "{tools}");
        }
    }

    #[test]
    fn tools_that_the_provider_would_run_are_left_out_and_named() {
        let own = json!({"type": "object"});
        let table = [
            (
                Format::Messages,
                json!([{"type": "web_search_20250305", "name": "web_search"}, {"name": "w", "input_schema": own}]),
                "tools.web_search_20250305",
            ),
            (
                Format::Chat,
                json!([{"type": "web_search"}, {"type": "function", "function": {"name": "w"}}]),
                "tools.web_search",
            ),
            (
                Format::Responses,
                json!([{"type": "web_search"}, {"type": "function", "name": "w"}, {"type": "tool_search"}]),
                "tools.tool_search tools.web_search",
            ),
        ];
        for (format, tools, names) in table {
            let with = |choice: Value| {
                let mut ignored = Ignored::default();
                let body = json!({"tools": tools, "tool_choice": choice});
                let count = read(format, &body, &[], &mut ignored).map(|offer| offer.tools.len());
                (count.map_err(|problem| problem.field), ignored.into_names().join(" "))
            };
            assert_eq!(with(json!("auto")), (Ok(1), names.to_owned()));
            // To make it call one of them would be another answer.
            for choice in [
                json!({"type": "web_search"}),
                json!({"type": "tool", "name": "web_search"}),
                json!({"type": "function", "function": {"name": "web_search"}}),
                json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]}),
                json!("web_search"),
                json!(7),
            ] {
                assert_eq!(
                    with(choice.clone()).0,
                    Err(Some("tool_choice".to_owned())),
                    "{format:?} {choice}"
                );
            }
        }
        let only = json!({"tools": [{"type": "web_search"}], "tool_choice": "required"});
        assert!(
            read(Format::Responses, &only, &[], &mut Ignored::default()).is_err(),
            "there is none to call"
        );
    }

    #[test]
    fn custom_tools_and_those_of_a_namespace_are_functions_for_the_agent() {
        let patch = json!({"type": "custom", "name": "apply_patch", "description": "edits",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}});
        let nested = json!({"type": "namespace", "name": "mcp__demo", "description": "demo", "tools": [
            {"type": "function", "name": "echo", "parameters": {"type": "object"}}, {"type": "web_search"}]});
        let body =
            json!({"tools": [patch, nested], "tool_choice": {"type": "custom", "name": "apply_patch"}});
        let mut ignored = Ignored::default();
        let offer = read(Format::Responses, &body, &[], &mut ignored).unwrap();
        let names: Vec<&str> = offer.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["apply_patch", "mcp__demo__echo"]);
        let input = &offer.tools[0].schema["properties"]["input"]["description"];
        assert!(input.as_str().unwrap().ends_with("this lark grammar accepts:\nstart: x"), "{input}");
        assert_eq!(offer.names.of("apply_patch").takes, Takes::Text);
        let echo =
            Named { takes: Takes::Object, namespace: Some("mcp__demo".to_owned()), name: "echo".to_owned() };
        assert_eq!(offer.names.of("mcp__demo__echo"), echo);
        assert_eq!(ignored.into_names(), ["tool_choice", "tools.web_search"]);
        let chat = json!({"type": "custom", "custom": {"name": "apply_patch", "description": "edits",
            "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: x"}}}});
        let chat = read(Format::Chat, &json!({"tools": [chat]}), &[], &mut Ignored::default()).unwrap();
        assert_eq!(chat.tools[0], offer.tools[0]);
    }
}
