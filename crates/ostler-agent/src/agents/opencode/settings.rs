//! Ostler's own settings for OpenCode, in the variable that OpenCode lays over its settings files. Users may have set that
//! variable too. Their text stays as it is, since the order of keys means something in OpenCode's permissions: Ostler's
//! settings are inserted into it.

use jsonc_parser::ast::{Array, Object, Value};
use jsonc_parser::common::{Range, Ranged as _};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::json;

use super::launch::refusal;
use crate::agent::Refusal;

/// The variable.
pub(super) const VARIABLE: &str = "OPENCODE_CONFIG_CONTENT";

const SERVERS: &str = "mcp";
const INSTRUCTIONS: &str = "instructions";

/// The user's settings, without any if they have none. OpenCode takes an empty value for none.
pub(super) fn users_settings(variable: Option<&str>) -> String {
    variable.filter(|text| !text.trim().is_empty()).unwrap_or("{}").to_owned()
}

/// Adds an MCP server. One of the same name is replaced: Ostler's must be the one that the agent finds.
pub(super) fn add_server(text: &str, name: &str, server: &serde_json::Value) -> Result<String, Refusal> {
    let top = parse(text)?;
    let member = format!("{}:{server}", json!(name));
    match top.get(SERVERS).map(|found| &found.value) {
        None => Ok(insert(text, top.range, is_empty(&top), &format!("{}:{{{member}}}", json!(SERVERS)))),
        Some(Value::Object(servers)) => Ok(match servers.get(name) {
            Some(own) => replace(text, own.value.range(), &server.to_string()),
            None => insert(text, servers.range, is_empty(servers), &member),
        }),
        Some(_) => Err(unreadable("`mcp` is not an object")),
    }
}

/// Adds the path of a file with instructions.
pub(super) fn add_instructions(text: &str, path: &str) -> Result<String, Refusal> {
    let top = parse(text)?;
    let path = json!(path);
    match top.get(INSTRUCTIONS).map(|found| &found.value) {
        None => Ok(insert(text, top.range, is_empty(&top), &format!("{}:[{path}]", json!(INSTRUCTIONS)))),
        Some(Value::Array(Array { range, elements })) => {
            Ok(insert(text, *range, elements.is_empty(), &path.to_string()))
        }
        Some(_) => Err(unreadable("`instructions` is not a list")),
    }
}

/// OpenCode allows comments, and commas before a closing bracket.
fn parse(text: &str) -> Result<Object<'_>, Refusal> {
    let options = ParseOptions {
        allow_comments: true,
        allow_loose_object_property_names: false,
        allow_trailing_commas: true,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let found = parse_to_ast(text, &CollectOptions::default(), &options);
    match found.map_err(|error| unreadable(&error.to_string()))?.value {
        Some(Value::Object(top)) => Ok(top),
        Some(_) | None => Err(unreadable("it is not an object")),
    }
}

fn is_empty(object: &Object<'_>) -> bool {
    object.properties.is_empty()
}

/// Inserts a member behind the bracket with which an object or a list begins.
fn insert(text: &str, container: Range, is_empty: bool, member: &str) -> String {
    let comma = if is_empty { "" } else { "," };
    let start = container.start + 1;
    replace(text, Range::new(start, start), &format!("{member}{comma}"))
}

fn replace(text: &str, range: Range, replacement: &str) -> String {
    let mut text = text.to_owned();
    text.replace_range(range.start..range.end, replacement);
    text
}

fn unreadable(why: &str) -> Refusal {
    refusal(
        &format!("{VARIABLE}, in which Ostler has to insert its own settings, cannot be read: {why}"),
        "mend it, or put these settings into a file and name that in OPENCODE_CONFIG",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(text: &str) -> Result<String, Refusal> {
        let text = add_server(&users_settings(Some(text)), "ostler", &json!({"url": "u"}))?;
        add_instructions(&text, "/p")
    }

    #[test]
    fn the_users_settings_stay_as_they_are_and_ostlers_are_added() {
        let all = r#"{"instructions":["/p"],"mcp":{"ostler":{"url":"u"}}}"#;
        for (users, want) in [
            ("", all),
            (" ", all),
            ("{}", all),
            (
                r#"{"model": "a/b", /* mine */ "permission": {"z": "deny", "*": "allow",},}"#,
                r#"{"instructions":["/p"],"mcp":{"ostler":{"url":"u"}},"model": "a/b", /* mine */ "permission": {"z": "deny", "*": "allow",},}"#,
            ),
            (
                r#"{"mcp": {"own": {"type": "local"}}, "instructions": ["/mine"]}"#,
                r#"{"mcp": {"ostler":{"url":"u"},"own": {"type": "local"}}, "instructions": ["/p","/mine"]}"#,
            ),
            (
                r#"{"mcp": {}, "instructions": []}"#,
                r#"{"mcp": {"ostler":{"url":"u"}}, "instructions": ["/p"]}"#,
            ),
            (
                r#"{"mcp": {"own": {}, "ostler": {"url": "{env:ELSE}"}}}"#,
                r#"{"instructions":["/p"],"mcp": {"own": {}, "ostler": {"url":"u"}}}"#,
            ),
        ] {
            assert_eq!(both(users).unwrap(), want, "{users}");
        }
    }

    #[test]
    fn settings_that_cannot_be_read_are_refused_not_dropped() {
        for users in
            ["[]", "7", "{", "{\"a\": {env:A}}", "{\"mcp\": []}", "{\"instructions\": \"/mine\"}", "{} x"]
        {
            assert!(both(users).is_err(), "{users}");
        }
    }
}
