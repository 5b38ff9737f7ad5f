//! How a run ended, for people: from its outcome as it is kept, so that `ostler run` and `ostler runs show` tell the same.

use std::fmt::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use ostler_agent::run_event::{Changes, Listed};
use serde_json::Value;

use crate::words::{counted, cut, number, one_line, plain, time, width, wrapped};

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const FAINT: Style = Style::new().dimmed();

/// The column in which values begin, one space included.
const LABEL: usize = 9;

/// How much of a list of names is shown, in columns: with what is around it, a row fits into eighty.
const NAMES: usize = 42;

/// Rows of a label and a value. Further lines of a value stand below its first.
#[derive(Debug)]
pub(crate) struct Rows {
    text: String,
    indent: &'static str,
    columns: usize,
}

impl Rows {
    pub(crate) fn new(indent: &'static str, columns: usize) -> Self {
        Self { text: String::new(), indent, columns }
    }

    /// Prose of one or more lines, which is not foreign any more; broken where a line ends.
    pub(crate) fn add(&mut self, label: &str, value: &str) {
        let room = self.columns.saturating_sub(self.indent.len() + LABEL + 1);
        let lines: Vec<String> = value.lines().flat_map(|line| wrapped(line, room)).collect();
        self.add_whole(label, &lines.join("\n"));
    }

    /// Lines as they are, to be copied.
    pub(crate) fn add_whole(&mut self, label: &str, value: &str) {
        let indent = self.indent;
        for (index, line) in value.lines().enumerate() {
            let label = if index == 0 { label } else { "" };
            let line = match line.trim_end() {
                "" => String::new(),
                line => format!("{indent}{FAINT}{label:LABEL$}{FAINT:#}{line}"),
            };
            let _ = writeln!(self.text, "{line}");
        }
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

/// The first line: the word for it, its sentence, and how long it took.
pub(crate) fn headline(outcome: &Value) -> String {
    let (style, mark) = if outcome["exit_code"] == 0 { (GOOD, "✓") } else { (BAD, "✗") };
    let took = Duration::from_millis(outcome["ms"].as_u64().unwrap_or_default());
    format!(
        "{style}{mark} {}{style:#}: {} {FAINT}({}){FAINT:#}\n",
        one_line(word(&outcome["outcome"])),
        plain(sentence(outcome).trim()),
        time(took)
    )
}

fn sentence(outcome: &Value) -> String {
    let missing: Vec<&str> = outcome["missing"].as_array().into_iter().flatten().map(word).collect();
    match (outcome["detail"].as_str(), missing.is_empty()) {
        (Some(detail), _) => detail.to_owned(),
        (None, true) => "the task is done".to_owned(),
        (None, false) => format!("it ended, and is still missing: {}", missing.join(", ")),
    }
}

/// What else is known of an ended run: changes, evidence, what it used, how often it began anew.
pub(crate) fn facts(rows: &mut Rows, outcome: &Value, changes: Option<&Changes>, is_rehearsed: bool) {
    if let Some(changes) = changes {
        rows.add("changes", &changed(changes));
    }
    for evidence in outcome["evidence"].as_array().into_iter().flatten() {
        let (fact, grade) = (one_line(word(&evidence["fact"])), one_line(word(&evidence["grade"])));
        rows.add("evidence", &format!("{fact} ({grade})"));
    }
    if let Some(jail) = jailed(&outcome["jail"]) {
        rows.add("jail", &jail);
    }
    exported(rows, &outcome["bridge"]["exported"]);
    if let Some(used) = used(&outcome["usage"], is_rehearsed) {
        rows.add("used", &used);
    }
    let told = |name: &str| outcome[name].as_u64().unwrap_or_default();
    let (turns, resumes) = (told("turns"), told("resumes"));
    if turns > 1 || resumes > 0 {
        rows.add("turns", &format!("{turns}, {}", counted(resumes, "resume")));
    }
    if outcome.get("survivors").is_some_and(Value::is_null) {
        rows.add(
            "left",
            &format!("{BAD}perhaps: its guardian was killed, and not all could be looked for{BAD:#}"),
        );
    }
    if told("survivors") > 0 {
        let left = counted(told("survivors"), "process").replace("processs", "processes");
        rows.add("left", &format!("{BAD}{left} could not be ended{BAD:#}"));
    }
}

/// The wall that stood, if it was the weaker one: nobody need be told of what is as it should be.
fn jailed(jail: &Value) -> Option<String> {
    let missing: Vec<String> =
        jail["not_enforced"].as_array().into_iter().flatten().map(word).map(one_line).collect();
    let kind = jail["kind"].as_str()?;
    (!missing.is_empty()).then(|| format!("{}; not enforced: {}", one_line(kind), missing.join(", ")))
}

/// How many denials a summary names.
pub(crate) const DENIALS_NAMED: usize = 3;

/// What the jail denied, each with the setting that opens it.
pub(crate) fn denials(rows: &mut Rows, outcome: &Value, how_many: usize) {
    let all: Vec<&Value> = outcome["denials"].as_array().into_iter().flatten().collect();
    for denial in all.iter().take(how_many) {
        let (path, opens) = (one_line(word(&denial["path"])), one_line(word(&denial["opens"])));
        let host = one_line(word(&denial["host"]));
        let line = match word(&denial["wanted"]) {
            "connect" => format!("{host} cannot be reached from the jail; {opens} allows it"),
            "read" => format!("{path} is not visible in the jail; {opens} shows it"),
            _ => format!("{path} cannot be changed in the jail; {opens} allows it"),
        };
        rows.add("denied", &line);
    }
    let more = all.len().saturating_sub(how_many);
    if more > 0 {
        rows.add("denied", &format!("{more} more; --explain-denials and `ostler runs why` list all"));
    }
}

/// Where copies of what was accepted are, and what could not be copied.
fn exported(rows: &mut Rows, exported: &Value) {
    let all = |name: &str| exported[name].as_array().into_iter().flatten().map(word).map(one_line);
    let copied: Vec<String> = all("copied").collect();
    if !copied.is_empty() {
        rows.add("exported", &format!("{} to {}", copied.join(", "), one_line(word(&exported["folder"]))));
    }
    for failed in all("failed") {
        rows.add("exported", &format!("{BAD}not {failed}{BAD:#}"));
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn used(usage: &Value, is_rehearsed: bool) -> Option<String> {
    let tokens = |name: &str| usage[name].as_u64();
    let mut parts = Vec::new();
    if let Some(read) = tokens("input_tokens") {
        let cached = tokens("cached_tokens").filter(|cached| *cached > 0);
        let cached = cached.map(|cached| format!(" ({} cached)", number(cached))).unwrap_or_default();
        parts.push(format!("{} tokens read{cached}", number(read)));
    }
    if let Some(written) = tokens("output_tokens") {
        parts.push(format!("{} written", number(written)));
    }
    // An agent reckons with a provider's prices, also where nobody is paid.
    if let Some(cost) = usage["cost_usd"].as_f64().filter(|_| !is_rehearsed) {
        parts.push(format!("${cost:.4}"));
    }
    let free = if is_rehearsed { "; scripted, so nothing to pay" } else { "" };
    (!parts.is_empty()).then(|| format!("{}{free}", parts.join(", ")))
}

/// One line for each kind of change, and one for what git counts.
fn changed(changes: &Changes) -> String {
    let kinds = [("created", &changes.created), ("changed", &changes.changed), ("removed", &changes.removed)];
    let mut lines: Vec<String> = kinds
        .iter()
        .filter(|(_, listed)| listed.count > 0)
        .map(|(kind, listed)| format!("{} {kind}: {}", number(listed.count), names(listed)))
        .collect();
    if lines.is_empty() && !changes.partial {
        lines.push("none in the workspace".to_owned());
    }
    if let Some(diff) = changes.diff.filter(|diff| diff.files > 0) {
        let files = counted(diff.files, "file");
        let before = diff.before.filter(|before| before.files > 0).map(|before| {
            format!(", of which +{} −{} before it began", number(before.insertions), number(before.deletions))
        });
        lines.push(format!(
            "git: {files}, +{} −{}{}",
            number(diff.insertions),
            number(diff.deletions),
            before.unwrap_or_default()
        ));
    }
    if changes.partial {
        lines.push("and perhaps more: not everything could be looked at".to_owned());
    }
    lines.join("\n")
}

/// The first names that fit, and how many there are besides.
fn names(listed: &Listed) -> String {
    let mut text = String::new();
    let mut shown = 0;
    for name in &listed.first {
        let name = one_line(name);
        let between = if shown > 0 { ", " } else { "" };
        if shown > 0 && width(&text) + width(between) + width(&name) > NAMES {
            break;
        }
        text.push_str(between);
        text.push_str(&cut(&name, NAMES));
        shown += 1;
    }
    match listed.count.saturating_sub(shown) {
        0 => text,
        more if text.is_empty() => format!("{more} that are not named"),
        more => format!("{text} and {} more", number(more)),
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
