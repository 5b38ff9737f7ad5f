//! Settings as text with our entries in it, or without. Claude Code and Codex have the same shape:
//! `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "…"}]}]}}`.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};

/// What every command of ours has in it, and no other.
const OURS: &str = " memory hook ";

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
fn parsed(text: &str) -> Result<(CstRootNode, CstObject), Unreadable> {
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
    let root = CstRootNode::parse(text, &options).map_err(|error| Unreadable::NotJson(error.to_string()))?;
    let object = root.object_value().ok_or_else(|| Unreadable::Shape("the file".to_owned(), "an object"))?;
    Ok((root, object))
}

fn hooks(top: &CstObject) -> Result<Option<CstObject>, Unreadable> {
    match top.get("hooks") {
        None => Ok(None),
        Some(property) => property
            .object_value()
            .map(Some)
            .ok_or_else(|| Unreadable::Shape("hooks".to_owned(), "an object")),
    }
}

fn list(hooks: &CstObject, event: &str) -> Result<Option<CstArray>, Unreadable> {
    match hooks.get(event) {
        None => Ok(None),
        Some(property) => property
            .array_value()
            .map(Some)
            .ok_or_else(|| Unreadable::Shape(format!("hooks.{event}"), "a list")),
    }
}

/// The commands of one entry of a list.
fn commands(entry: &CstNode) -> Vec<(CstNode, String)> {
    let inner = entry.as_object().and_then(|entry| entry.array_value("hooks"));
    let elements = inner.map(|inner| inner.elements()).unwrap_or_default();
    elements
        .into_iter()
        .filter_map(|hook| {
            let command = hook.as_object()?.get("command")?.value()?.as_string_lit()?.decoded_value().ok()?;
            Some((hook, command))
        })
        .collect()
}

/// The text with one entry for each event, and no other of ours. Entries that are there as they should be stay.
pub(super) fn with(
    text: &str,
    entries: &[(&'static str, String)],
    timeout: u32,
) -> Result<String, Unreadable> {
    let (root, top) = parsed(text)?;
    if let Some(hooks) = hooks(&top)? {
        for (event, _) in entries {
            list(&hooks, event)?;
        }
        remove(&hooks, |event, command| {
            !entries.iter().any(|(known, want)| *known == event && want == command)
        });
    }
    let hooks = top.object_value_or_set("hooks");
    for (event, command) in entries {
        let list = hooks.array_value_or_set(event);
        let is_there =
            list.elements().iter().any(|entry| commands(entry).iter().any(|(_, found)| found == command));
        if !is_there {
            list.append(entry(command, timeout));
        }
    }
    Ok(root.to_string())
}

/// The text without entries of ours, and without lists that are empty now.
pub(super) fn without(text: &str) -> Result<String, Unreadable> {
    let (root, top) = parsed(text)?;
    if let Some(hooks) = hooks(&top)?
        && remove(&hooks, |_, _| true)
        && hooks.properties().is_empty()
        && let Some(property) = top.get("hooks")
    {
        property.remove();
    }
    Ok(root.to_string())
}

/// Which events have the entry that they should have.
pub(super) fn present(text: &str, entries: &[(&'static str, String)]) -> Result<Vec<String>, Unreadable> {
    let (_, top) = parsed(text)?;
    let Some(hooks) = hooks(&top)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for (event, command) in entries {
        let elements = list(&hooks, event)?.map(|list| list.elements()).unwrap_or_default();
        if elements.iter().any(|entry| commands(entry).iter().any(|(_, known)| known == command)) {
            found.push((*event).to_owned());
        }
    }
    Ok(found)
}

/// Takes out commands of ours. An entry or a list that had nothing else goes with them. Says whether anything went.
fn remove(hooks: &CstObject, is_unwanted: impl Fn(&str, &str) -> bool) -> bool {
    let mut went = false;
    for property in hooks.properties() {
        let Some(event) = property.decoded_name() else { continue };
        let Some(list) = property.array_value() else { continue };
        let mut went_here = false;
        for entry in list.elements() {
            let commands = commands(&entry);
            let ours: Vec<&(CstNode, String)> = commands
                .iter()
                .filter(|(_, command)| {
                    command.contains(OURS) && command.contains("ostler") && is_unwanted(&event, command)
                })
                .collect();
            if ours.is_empty() {
                continue;
            }
            went_here = true;
            let all = entry
                .as_object()
                .and_then(|entry| entry.array_value("hooks"))
                .map_or(0, |inner| inner.elements().len());
            if ours.len() == all {
                entry.remove();
            } else {
                for (hook, _) in ours {
                    hook.clone().remove();
                }
            }
        }
        if went_here && list.elements().is_empty() {
            property.remove();
        }
        went |= went_here;
    }
    went
}

fn entry(command: &str, timeout: u32) -> CstInputValue {
    let text = |text: &str| CstInputValue::String(text.to_owned());
    let hook = CstInputValue::Object(vec![
        ("type".to_owned(), text("command")),
        ("command".to_owned(), text(command)),
        ("timeout".to_owned(), CstInputValue::Number(timeout.to_string())),
    ]);
    CstInputValue::Object(vec![("hooks".to_owned(), CstInputValue::Array(vec![hook]))])
}
