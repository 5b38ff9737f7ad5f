//! The environment as configuration: `OSTLER_CFG__SECTION__KEY`, and three older names for the same.

use std::collections::BTreeMap;
use std::ffi::OsString;

use ostler_agent::agents::AGENTS;
use ostler_agent::document::Mistake;

use super::ConfigError;
use super::layers::Layer;

const PREFIX: &str = "OSTLER_CFG__";

/// One layer per variable, lowest first: `NO_COLOR` is everyone's, so Ostler's own outrank it.
pub(super) fn layers(variables: &BTreeMap<OsString, OsString>) -> Result<Vec<Layer>, ConfigError> {
    let mut layers = Vec::new();
    let named = |name: &str| variables.get(&OsString::from(name)).filter(|value| !value.is_empty());
    if named("NO_COLOR").is_some() {
        layers.push(Layer::variable("NO_COLOR", &path(&["display", "color"]), "never")?);
    }
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        layers.push(Layer::variable(name, &key_of(name), text(name, value)?)?);
    }
    if let Some(filter) = named("OSTLER_LOG") {
        layers.push(Layer::variable("OSTLER_LOG", &path(&["log", "filter"]), text("OSTLER_LOG", filter)?)?);
    }
    Ok(layers)
}

/// `OSTLER_CFG__AGENTS__CLAUDE_HEADLESS__PROGRAM` is `agents.claude-headless.program`: a variable's name has no
/// hyphens and no small letters.
fn key_of(name: &str) -> Vec<String> {
    let parts = name.strip_prefix(PREFIX).unwrap_or_default().split("__").map(str::to_lowercase);
    parts
        .map(|part| {
            let hyphened = part.replace('_', "-");
            let is_agent = AGENTS.iter().any(|agent| agent.name() == hyphened);
            if is_agent { hyphened } else { part }
        })
        .collect()
}

fn text<'a>(name: &str, value: &'a OsString) -> Result<&'a str, ConfigError> {
    value.to_str().ok_or_else(|| {
        let problem = "its value is not UTF-8 text".to_owned();
        let hint = Some("set it to UTF-8 text, or unset it".to_owned());
        Mistake { file: name.to_owned(), line: None, key: String::new(), problem, hint }.into()
    })
}

fn path(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_owned()).collect()
}
