//! Settings as text with our entries in it, or without. Claude Code and Codex have the same shape:
//! `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "…"}]}]}}`.
//!
//! The text is parsed, and the parser's places are where ours is put in and cut out. Every other byte stays.

use jsonc_parser::ast::{Array, Object, ObjectProp, Value};
use jsonc_parser::common::{Range, Ranged as _};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

/// What every command of ours has in it, and no other.
const OURS: &str = " memory hook ";

/// How much further the inside of something stands.
const STEP: &str = "  ";

/// Why settings cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is not JSON.
    #[error("{0}")]
    NotJson(String),
    /// Something is of another kind than it must be.
    #[error("`{0}` is not {1}")]
    Shape(String, &'static str),
}

/// Comments are kept where people wrote some; all else that JSON does not allow is a mistake.
fn parsed(text: &str) -> Result<Object<'_>, Unreadable> {
    let options = ParseOptions {
        allow_comments: true,
        allow_loose_object_property_names: false,
        allow_trailing_commas: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let found = parse_to_ast(text, &CollectOptions::default(), &options)
        .map_err(|error| Unreadable::NotJson(error.to_string()))?;
    match found.value {
        Some(Value::Object(top)) => Ok(top),
        Some(_) | None => Err(Unreadable::Shape("the file".to_owned(), "an object")),
    }
}

fn hooks<'a, 'b>(top: &'b Object<'a>) -> Result<Option<&'b Object<'a>>, Unreadable> {
    match top.properties.iter().find(|property| property.name.as_str() == "hooks") {
        None => Ok(None),
        Some(property) => match &property.value {
            Value::Object(hooks) => Ok(Some(hooks)),
            _ => Err(Unreadable::Shape("hooks".to_owned(), "an object")),
        },
    }
}

fn list<'a, 'b>(hooks: &'b Object<'a>, event: &str) -> Result<Option<&'b Array<'a>>, Unreadable> {
    match hooks.properties.iter().find(|property| property.name.as_str() == event) {
        None => Ok(None),
        Some(property) => match &property.value {
            Value::Array(list) => Ok(Some(list)),
            _ => Err(Unreadable::Shape(format!("hooks.{event}"), "a list")),
        },
    }
}

/// The list of one entry, and the command of each thing in it.
fn commands<'a, 'b>(entry: &'b Value<'a>) -> Option<(&'b Array<'a>, Vec<Option<&'b str>>)> {
    let Value::Object(entry) = entry else { return None };
    let inner = entry.properties.iter().find(|property| property.name.as_str() == "hooks")?;
    let Value::Array(inner) = &inner.value else { return None };
    let command = |hook: &'b Value<'a>| {
        let Value::Object(hook) = hook else { return None };
        let command = hook.properties.iter().find(|property| property.name.as_str() == "command")?;
        command.value.as_string_lit().map(|text| text.value.as_ref())
    };
    Some((inner, inner.elements.iter().map(command).collect()))
}

fn has(list: &Array<'_>, command: &str) -> bool {
    let mut found = list.elements.iter().filter_map(commands).flat_map(|(_, commands)| commands);
    found.any(|known| known == Some(command))
}

/// The text with one entry for each event, and no other of ours. Entries that are there as they should be stay.
pub(super) fn with(
    text: &str,
    entries: &[(&'static str, String)],
    timeout: u32,
) -> Result<String, Unreadable> {
    if let Some(hooks) = hooks(&parsed(text)?)? {
        for (event, _) in entries {
            list(hooks, event)?;
        }
    }
    let is_old =
        |event: &str, command: &str| !entries.iter().any(|(known, want)| *known == event && want == command);
    let mut text = removed(text, is_old)?;
    for (event, command) in entries {
        while let Some(longer) = step_towards(&text, event, command, timeout)? {
            text = longer;
        }
    }
    Ok(text)
}

/// The text with what is missing first: the object of hooks, the list of the event, the entry. Nothing if none is.
fn step_towards(text: &str, event: &str, command: &str, timeout: u32) -> Result<Option<String>, Unreadable> {
    let top = parsed(text)?;
    let Some(hooks) = hooks(&top)? else {
        return Ok(Some(put(text, top.range, &of_object(&top), |inside| format!("\"hooks\": {{{inside}}}"))));
    };
    let Some(list) = list(hooks, event)? else {
        let list = |inside: &str| format!("\"{event}\": [{inside}]");
        return Ok(Some(put(text, hooks.range, &of_object(hooks), list)));
    };
    if has(list, command) {
        return Ok(None);
    }
    let command = serde_json::Value::from(command);
    let entry =
        format!("{{\"hooks\": [{{\"type\": \"command\", \"command\": {command}, \"timeout\": {timeout}}}]}}");
    Ok(Some(put(text, list.range, &of_list(list), |_| entry.clone())))
}

/// The text without entries of ours, and without lists that are empty now.
pub(super) fn without(text: &str) -> Result<String, Unreadable> {
    removed(text, |_, _| true)
}

/// Which events have the entry that they should have.
pub(super) fn present(text: &str, entries: &[(&'static str, String)]) -> Result<Vec<String>, Unreadable> {
    let top = parsed(text)?;
    let Some(hooks) = hooks(&top)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for (event, command) in entries {
        if list(hooks, event)?.is_some_and(|list| has(list, command)) {
            found.push((*event).to_owned());
        }
    }
    Ok(found)
}

/// Our commands at an event. None, where the settings switch all hooks off.
pub(super) fn commands_at(text: &str, event: &str) -> Result<Vec<String>, Unreadable> {
    let top = parsed(text)?;
    let is_off = |property: &ObjectProp<'_>| {
        let is_true = property.value.as_boolean_lit().is_some_and(|value| value.value);
        property.name.as_str() == "disableAllHooks" && is_true
    };
    if top.properties.iter().any(is_off) {
        return Ok(Vec::new());
    }
    let Some(hooks) = hooks(&top)? else { return Ok(Vec::new()) };
    let Some(list) = list(hooks, event)? else { return Ok(Vec::new()) };
    let all = list.elements.iter().filter_map(commands).flat_map(|(_, commands)| commands).flatten();
    Ok(all.filter(|command| is_ours(command)).map(str::to_owned).collect())
}

fn is_ours(command: &str) -> bool {
    command.contains(OURS) && command.contains("ostler")
}

/// Takes out commands of ours. An entry or a list that had nothing else goes with them.
fn removed(text: &str, is_unwanted: impl Fn(&str, &str) -> bool) -> Result<String, Unreadable> {
    let mut text = text.to_owned();
    while let Some(shorter) = without_one(&text, &is_unwanted)? {
        text = shorter;
    }
    Ok(text)
}

/// The text without the first command of ours that is not wanted; nothing if there is none.
fn without_one(text: &str, is_unwanted: impl Fn(&str, &str) -> bool) -> Result<Option<String>, Unreadable> {
    let top = parsed(text)?;
    let Some(hooks) = hooks(&top)? else { return Ok(None) };
    for (place, property) in hooks.properties.iter().enumerate() {
        let Value::Array(list) = &property.value else { continue };
        for (number, entry) in list.elements.iter().enumerate() {
            let Some((inner, commands)) = commands(entry) else { continue };
            let is_found = |command: &Option<&str>| {
                command
                    .is_some_and(|command| is_ours(command) && is_unwanted(property.name.as_str(), command))
            };
            let Some(first) = commands.iter().position(is_found) else { continue };
            let outer = top.properties.iter().position(|property| property.name.as_str() == "hooks");
            return Ok(Some(if commands.len() > 1 {
                cut(text, inner.range, &of_list(inner), first)
            } else if list.elements.len() > 1 {
                cut(text, list.range, &of_list(list), number)
            } else if hooks.properties.len() > 1 {
                cut(text, hooks.range, &of_object(hooks), place)
            } else {
                cut(text, top.range, &of_object(&top), outer.unwrap_or_default())
            }));
        }
    }
    Ok(None)
}

fn of_object(object: &Object<'_>) -> Vec<Range> {
    object.properties.iter().map(|property| property.range).collect()
}

fn of_list(list: &Array<'_>) -> Vec<Range> {
    list.elements.iter().map(|element| element.range()).collect()
}

/// Puts something at the end of a list or an object: on a line of its own where its neighbours have theirs. `item` is
/// told what an empty list or object within it should have inside.
fn put(text: &str, container: Range, children: &[Range], item: impl Fn(&str) -> String) -> String {
    let (at, before) = match children.last() {
        Some(last) => (last.end, &text[container.start..last.start]),
        None => (container.start + 1, &text[container.start..container.end - 1]),
    };
    let comma = if children.is_empty() { "" } else { "," };
    let is_on_lines = before.contains('\n');
    let indent = match children.last() {
        Some(_) => indent(before),
        None => format!("{}{STEP}", indent(before)),
    };
    let inserted = if is_on_lines {
        let item = item(&format!("\n{indent}"));
        format!("{comma}\n{indent}{item}")
    } else {
        let space = if children.is_empty() { "" } else { " " };
        format!("{comma}{space}{}", item(""))
    };
    format!("{}{inserted}{}", &text[..at], &text[at..])
}

/// What stands at the beginning of the last line.
fn indent(before: &str) -> String {
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.chars().take_while(|letter| *letter == ' ' || *letter == '\t').collect()
}

/// Cuts one thing out of a list or an object, with its comma. What others wrote around it stays.
fn cut(text: &str, container: Range, children: &[Range], number: usize) -> String {
    let child = children[number];
    let is_only = |from: usize, to: usize, letters: &str| text[from..to].trim() == letters;
    let before = number.checked_sub(1).map(|before| children[before].end);
    let (from, to, comma) = match (before, children.get(number + 1)) {
        (Some(before), _) if is_only(before, child.start, ",") => (before, child.end, None),
        (Some(before), _) => (child.start, child.end, comma_after(text, before)),
        (None, Some(next)) if is_only(child.end, next.start, ",") => (child.start, next.start, None),
        (None, Some(_)) => (child.start, child.end, comma_after(text, child.end)),
        (None, None) if is_only(container.start + 1, child.start, "") => {
            (container.start + 1, child.end, None)
        }
        (None, None) => (child.start, child.end, None),
    };
    match comma {
        None => format!("{}{}", &text[..from], &text[to..]),
        Some(comma) if comma < from => {
            format!("{}{}{}", &text[..comma], &text[comma + 1..from], &text[to..])
        }
        Some(comma) => format!("{}{}{}", &text[..from], &text[to..comma], &text[comma + 1..]),
    }
}

/// Where the next comma is that is not in a comment.
fn comma_after(text: &str, at: usize) -> Option<usize> {
    let mut rest = &text[at..];
    loop {
        rest = rest.trim_start();
        rest = if let Some(comment) = rest.strip_prefix("//") {
            comment.split_once('\n')?.1
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/")?.1
        } else {
            break;
        };
    }
    rest.starts_with(',').then_some(text.len() - rest.len())
}
