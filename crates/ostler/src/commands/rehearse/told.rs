//! What a rehearsal tells: where it listens, what to set, and every request, for people and for programs.

use std::collections::BTreeMap;
use std::path::Path;

use anstyle::{AnsiColor, Style};
use ostler_rehearsal::log::{Entry, Played};
use serde_json::{Value, json};

use super::directions::{Direction, Directions};

const STRONG: Style = Style::new().bold();
const QUIET: Style = Style::new().dimmed();
const TROUBLE: Style = AnsiColor::Red.on_default().bold();

/// Longest part of a message that a line shows.
const EXCERPT: usize = 60;

pub(super) fn opening(url: &str, script: &str, about: &str, directions: &Directions) -> String {
    let about = if about.is_empty() { String::new() } else { format!(": {about}") };
    let mut text = format!("Rehearsing {STRONG}{script}{STRONG:#}{about}\n");
    text.push_str(&format!("The scripted model listens on {STRONG}{url}{STRONG:#}. Ctrl-C ends it.\n\n"));
    text.push_str("Paste one of these into another terminal, in a folder to work in:\n");
    for direction in &directions.agents {
        let (title, name) = (direction.agent.title(), direction.agent.name());
        text.push_str(&format!("\n{STRONG}{title}{STRONG:#}"));
        if direction.program.is_none() {
            text.push_str(&format!(" {QUIET}(not installed: ostler agents install {name}){QUIET:#}"));
        }
        text.push_str(&format!("\n{}", direction.command()));
    }
    text.push_str("\nRequests:\n");
    text
}

pub(super) fn listening(url: &str, script: &str, directions: &Directions) -> Value {
    let agents: Vec<_> = directions.agents.iter().map(agent).collect();
    json!({"v": 1, "kind": "listening", "url": url, "script": script, "agents": agents})
}

fn agent(direction: &Direction) -> Value {
    let env: BTreeMap<_, _> = direction.env.iter().cloned().collect();
    json!({
        "name": direction.agent.name(),
        "installed": direction.program.is_some(),
        "program": direction.program.as_deref().map(Path::to_string_lossy),
        "env": env,
        "args": direction.args,
        "command": direction.command(),
    })
}

pub(super) fn request(entry: &Entry) -> Value {
    json!({"v": 1, "kind": "request", "request": entry})
}

pub(super) fn line(entry: &Entry) -> String {
    let seconds = f64::from(u32::try_from(entry.ms).unwrap_or(u32::MAX)) / 1000.0;
    let wire = entry.wire.unwrap_or("-");
    let message = entry.last_message.as_deref().unwrap_or_default();
    let mut short: String = message.chars().take(EXCERPT).collect();
    if message.chars().nth(EXCERPT).is_some() {
        short.push('…');
    }
    let status = match entry.status {
        200 => String::new(),
        0 => format!(" {TROUBLE}cut{TROUBLE:#}"),
        status => format!(" {TROUBLE}{status}{TROUBLE:#}"),
    };
    let (what, detail) = match &entry.played {
        Played::Step { conversation, step, .. } => (format!("{conversation}, step {step}"), short),
        Played::Side { request } => {
            (format!("the agent's own: {}", request.replace('_', "-")), String::new())
        }
        Played::Plain => (format!("{} {}", entry.method, entry.path), String::new()),
        Played::Unmatched { problem } => (format!("{TROUBLE}unmatched{TROUBLE:#}"), problem.clone()),
        Played::Refused { problem } => (format!("{TROUBLE}refused{TROUBLE:#}"), problem.clone()),
    };
    let detail = if detail.is_empty() { detail } else { format!("  {QUIET}{detail}{QUIET:#}") };
    format!("{QUIET}{seconds:8.2} s{QUIET:#}  {wire:<9}  {what}{status}{detail}\n")
}
