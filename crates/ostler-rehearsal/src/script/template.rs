//! `{{name}}` in a script's texts, filled in from the request.

use std::collections::BTreeMap;

use serde_json::Value;

/// The names that a template may use.
pub(super) const NAMES: [&str; 5] = ["workspace", "prompt", "tool_result", "run", "round"];

/// What templates are filled with.
#[derive(Debug, Clone, Default)]
pub struct Scene {
    /// The directory the agent works in, where it is known.
    pub workspace: Option<String>,
    /// What the person asked.
    pub prompt: String,
    /// The last tool result.
    pub tool_result: String,
    /// The run's id.
    pub run: String,
    /// How many rounds were played since the prompt.
    pub round: usize,
}

/// A template that cannot be filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// The request does not say in which directory the agent works.
    Workspace,
}

impl Scene {
    /// Fills in a text.
    pub fn fill(&self, text: &str) -> Result<String, Gap> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, name, after)) = next(rest) {
            filled.push_str(before);
            match name {
                "workspace" => filled.push_str(self.workspace.as_deref().ok_or(Gap::Workspace)?),
                "prompt" => filled.push_str(&self.prompt),
                "tool_result" => filled.push_str(&self.tool_result),
                "run" => filled.push_str(&self.run),
                "round" => filled.push_str(&self.round.to_string()),
                // A loaded script has no other names.
                _ => {}
            }
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    /// Fills in every text within a value.
    pub fn fill_value(&self, value: &Value) -> Result<Value, Gap> {
        Ok(match value {
            Value::String(text) => Value::String(self.fill(text)?),
            Value::Array(list) => {
                list.iter().map(|value| self.fill_value(value)).collect::<Result<_, _>>()?
            }
            Value::Object(map) => map
                .iter()
                .map(|(name, value)| Ok((name.clone(), self.fill_value(value)?)))
                .collect::<Result<_, _>>()?,
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        })
    }

    /// Fills in every text within named arguments.
    pub fn fill_arguments(&self, arguments: &BTreeMap<String, Value>) -> Result<Value, Gap> {
        arguments.iter().map(|(name, value)| Ok((name.clone(), self.fill_value(value)?))).collect()
    }
}

/// The first name in `{{…}}` that is not one of ours. Braces around anything but a plain word are just text.
pub(super) fn unknown_name(text: &str) -> Option<String> {
    let mut rest = text;
    while let Some((_, name, after)) = next(rest) {
        if !NAMES.contains(&name) {
            return Some(name.to_owned());
        }
        rest = after;
    }
    None
}

fn next(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(found) = text[from..].find("{{") {
        let start = from + found;
        let inside = &text[start + 2..];
        let length =
            inside.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_').unwrap_or(inside.len());
        if length > 0 && inside[length..].starts_with("}}") {
            return Some((&text[..start], &inside[..length], &inside[length + 2..]));
        }
        from = start + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_are_filled_and_other_braces_left_alone() {
        let scene = Scene {
            workspace: Some("/ws".to_owned()),
            prompt: "do {{run}}".to_owned(),
            tool_result: "ok".to_owned(),
            run: "r1".to_owned(),
            round: 3,
        };
        let table = [
            ("{{workspace}}/a", "/ws/a"),
            ("you said: {{prompt}}", "you said: do {{run}}"),
            ("{{tool_result}}{{round}}", "ok3"),
            ("{{{run}}}", "{r1}"),
            ("fn x() {{ }} {{", "fn x() {{ }} {{"),
            ("{{Upper}} {{}}", "{{Upper}} {{}}"),
        ];
        for (text, want) in table {
            assert_eq!(scene.fill(text).as_deref(), Ok(want), "{text}");
        }
        assert_eq!(scene.fill_value(&json!({"a": ["{{run}}", 1]})), Ok(json!({"a": ["r1", 1]})));
        assert_eq!(Scene::default().fill("{{workspace}}"), Err(Gap::Workspace));
    }

    #[test]
    fn an_unknown_name_is_found() {
        assert_eq!(unknown_name("{{prompt}} {{promt}}").as_deref(), Some("promt"));
        assert_eq!(unknown_name("{{ prompt }} {x}"), None);
    }
}
