//! What was probably meant: reads serde's complaint about an unknown name and finds the closest valid one.

use regex_lite::Regex;

/// How alike two names must be (Jaro-Winkler, 0 to 1) before one is offered for the other. Below this the
/// suggestions are noise: `shell` for `stall` scores 0.74.
const ALIKE: f64 = 0.75;

/// serde's complaint, put for people.
pub(super) struct Complaint {
    pub(super) problem: String,
    pub(super) hint: Option<String>,
    /// The unknown key, if that is what the complaint is about.
    pub(super) unknown: Option<String>,
}

/// The candidate that `name` was most likely meant to be, if any is close enough.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(score, _)| *score >= ALIKE)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}

/// serde words every such complaint alike: "unknown field `x`, expected one of `a`, `b`". There is no typed way to
/// it through a format's own error, so the words are read.
pub(super) fn explain(message: &str) -> Complaint {
    let message = message.trim();
    let plain = || Complaint { problem: message.replace('\n', " "), hint: None, unknown: None };
    let Some((kind, rest)) = [("key", "unknown field `"), ("value", "unknown variant `")]
        .iter()
        .find_map(|(kind, start)| Some((*kind, message.strip_prefix(start)?)))
    else {
        return plain();
    };
    let Some((name, expected)) = rest.split_once('`') else { return plain() };
    let valid = quoted(expected);
    let hint = match nearest(name, valid.iter().map(String::as_str)) {
        Some(close) => Some(format!("did you mean `{close}`?")),
        None if valid.is_empty() => Some("nothing may stand here".to_owned()),
        None => Some(format!("valid here: {}", valid.join(", "))),
    };
    let unknown = (kind == "key").then(|| name.to_owned());
    Complaint { problem: format!("unknown {kind} `{name}`"), hint, unknown }
}

fn quoted(text: &str) -> Vec<String> {
    match Regex::new("`([^`]+)`") {
        Ok(pattern) => pattern.captures_iter(text).map(|found| found[1].to_owned()).collect(),
        Err(_) => Vec::new(),
    }
}
