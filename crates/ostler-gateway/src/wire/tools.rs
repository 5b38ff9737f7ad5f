//! Tools that a program offers and runs itself, in each API's own words, and whether it leaves the choice to the model.

use std::collections::HashSet;

use ostler_agent::offering::Tool;
use serde_json::{Value, json};

use super::fields::list_if_any;
use super::{Format, Problem};

/// Longest name: the agent has a longer one for it, and its provider takes 128 letters.
const LONGEST_NAME: usize = 100;

/// Most tools of one request, as the providers have it.
const MOST: usize = 128;

/// The tools of a request. None, where it says that none may be called. What an agent cannot be told is added to
/// `ignored`.
pub(super) fn read(format: Format, body: &Value, ignored: &mut Vec<String>) -> Result<Vec<Tool>, Problem> {
    let offered = list_if_any(body, "tools")?;
    let choice = choice(body);
    if matches!(choice, Choice::Forced) && !offered.is_empty() {
        ignored.push("tool_choice".to_owned());
    }
    if body["parallel_tool_calls"] == false && !offered.is_empty() {
        ignored.push("parallel_tool_calls".to_owned());
    }
    if offered.len() > MOST {
        return Err(Problem::field("tools", "there may be at most 128 of them"));
    }
    let mut tools = Vec::new();
    let mut names = HashSet::new();
    for (at, tool) in offered.iter().enumerate() {
        let field = format!("tools[{at}]");
        let tool = one(format, tool, ignored).map_err(|error| Problem::field(&field, error))?;
        if !names.insert(tool.name.clone()) {
            return Err(Problem::field(&field, "there are two tools of this name"));
        }
        tools.push(tool);
    }
    ignored.sort();
    ignored.dedup();
    Ok(if matches!(choice, Choice::None) { Vec::new() } else { tools })
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

fn choice(body: &Value) -> Choice {
    let choice = &body["tool_choice"];
    match choice.as_str().or(choice["type"].as_str()) {
        Some("none") => Choice::None,
        Some("auto") if choice["disable_parallel_tool_use"] == true => Choice::Forced,
        Some("auto") | None => Choice::Auto,
        Some(_) => Choice::Forced,
    }
}

fn one(format: Format, tool: &Value, ignored: &mut Vec<String>) -> Result<Tool, &'static str> {
    let (described, schema) = match format {
        Format::Messages => match tool["type"].as_str() {
            None | Some("custom") => (tool, &tool["input_schema"]),
            Some(_) => return Err("only tools that the program itself runs and describes can be offered"),
        },
        Format::Chat => match tool["type"].as_str() {
            Some("function") => (&tool["function"], &tool["function"]["parameters"]),
            Some(_) | None => return Err("only tools of type `function` can be offered"),
        },
        Format::Responses => match tool["type"].as_str() {
            Some("function") => (tool, &tool["parameters"]),
            Some(_) | None => return Err("only tools of type `function` can be offered"),
        },
    };
    if described["strict"] == true {
        ignored.push("tools.strict".to_owned());
    }
    let name = described["name"].as_str().unwrap_or_default();
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_letter) {
        return Err("the name must be of at most 100 letters, digits, `_` and `-`");
    }
    let schema = match schema {
        // A tool that is called with nothing: Anthropic's API wants that said.
        Value::Null if format != Format::Messages => json!({"type": "object", "properties": {}}),
        schema if schema["type"] == "object" => schema.clone(),
        _ => return Err("what it is called with must be a schema of an object"),
    };
    let description = described["description"].as_str().map(str::to_owned);
    Ok(Tool { name: name.to_owned(), description, schema })
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
            let read = read(format, &json!({"tools": [tool]}), &mut Vec::new());
            assert_eq!(read, Ok(vec![want.clone()]), "{format:?}");
        }
    }

    #[test]
    fn what_an_agent_cannot_be_told_is_named() {
        let tools = json!([{"type": "function", "function": {"name": "w", "strict": true}}]);
        let with = |choice: Value, parallel: Value| {
            let mut ignored = vec!["a".to_owned()];
            let body = json!({"tools": tools, "tool_choice": choice, "parallel_tool_calls": parallel});
            let count = read(Format::Chat, &body, &mut ignored).map(|tools| tools.len());
            (count, ignored.join(" "))
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
    fn what_is_no_tool_of_the_programs_own_is_refused() {
        let named = |name: &str| json!({"name": name, "input_schema": {"type": "object"}});
        let bad = [
            json!([{"type": "web_search_20250305", "name": "web_search"}]),
            json!([named("a b")]),
            json!([named("")]),
            json!([named("w"), named("w")]),
            json!([{"name": "w", "input_schema": {"type": "string"}}]),
            json!("w"),
        ];
        for tools in bad {
            assert!(read(Format::Messages, &json!({"tools": tools}), &mut Vec::new()).is_err(), "{tools}");
        }
    }
}
