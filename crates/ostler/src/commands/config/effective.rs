//! Every value that is in force: what the layers set, and for the rest what Ostler does by default.
//!
//! Defaults are not a layer of their own: a run that is resumed, or an agent that shares its program with another, must
//! be able to distinguish a value that was set from one that was not. They are read here from where they apply.

use std::collections::BTreeMap;
use std::time::Duration;

use ostler_agent::agents::AGENTS;
use ostler_agent::completion::FIRST_PAUSE;
use ostler_agent::network::NetAccess;
use ostler_agent::watchdog::Limits;
use ostler_process::terminal::pty::Size;
use toml::Value;

use crate::commands::rehearse;
use crate::commands::run;
use crate::config::{Origin, Settings};

/// A value that is in force, or what happens without one.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum InForce {
    /// This value.
    Value(Value),
    /// None is set; this happens instead.
    Unset(String),
}

/// Every key, sorted, with its value and where that comes from.
pub(super) fn every_value(settings: &Settings) -> BTreeMap<String, (InForce, Origin)> {
    let mut values: BTreeMap<String, (InForce, Origin)> =
        defaults().into_iter().map(|(key, value)| (key, (value, Origin::Default))).collect();
    // What holds for one agent holds for those that share its program.
    for agent in AGENTS {
        if let Some(key) = settings.program_key(*agent)
            && let Some(effective) = settings.values.get(&key)
        {
            let value = InForce::Value(effective.value.clone());
            values.insert(program_key(agent.name()), (value, effective.origin.clone()));
        }
    }
    for (key, effective) in &settings.values {
        // A table of the user's own names: that it is empty is no longer true.
        for table in TABLES {
            if key.strip_prefix(table).is_some_and(|rest| rest.starts_with('.')) {
                values.remove(table);
            }
        }
        let value = InForce::Value(effective.value.clone());
        values.insert(key.clone(), (value, effective.origin.clone()));
    }
    values
}

/// Tables whose keys are the user's.
const TABLES: [&str; 3] = ["mcp", "prices", "serve.models"];

fn program_key(agent: &str) -> String {
    format!("agents.{agent}.program")
}

/// What holds when nothing is set.
fn defaults() -> Vec<(String, InForce)> {
    let mut all: Vec<(String, InForce)> = vec![
        ("agents.default".to_owned(), unset("the first agent that is installed")),
        ("install.npm".to_owned(), unset("the npm on PATH")),
        ("mcp".to_owned(), unset("no MCP servers")),
        ("network.probe".to_owned(), unset("the provider of the agent")),
        ("notify.command".to_owned(), unset("nothing is started")),
        ("prices".to_owned(), unset("only costs that agents report")),
        ("rehearse.listen".to_owned(), text(rehearse::DEFAULT_LISTEN)),
        ("rehearse.script".to_owned(), text(rehearse::DEFAULT_SCRIPT)),
    ];
    all.extend(AGENTS.iter().map(|agent| {
        (program_key(agent.name()), unset("the program that Ostler installed, else the one on PATH"))
    }));
    all.extend(jail_defaults().into_iter().map(|(key, value)| (format!("jail.{key}"), value)));
    all.extend(run_defaults().into_iter().map(|(key, value)| (format!("run.{key}"), value)));
    #[cfg(target_os = "linux")]
    all.extend(serve_defaults().into_iter().map(|(key, value)| (format!("serve.{key}"), value)));
    all
}

fn run_defaults() -> Vec<(&'static str, InForce)> {
    let limits = Limits::default();
    let Size { columns, rows } = Size::default();
    vec![
        ("permissions", text(run::DEFAULT_LEVEL.name())),
        ("start", span(limits.start)),
        ("silence", span(limits.silence)),
        ("open_call", span(limits.open_call)),
        ("loop", count(limits.repeats.stop)),
        ("ceiling", span(limits.ceiling)),
        ("max_wait", span(limits.max_wait)),
        ("max_resumes", count(run::MAX_RESUMES)),
        ("resume_pause", span(FIRST_PAUSE)),
        ("wait_for_quota", InForce::Value(Value::Boolean(false))),
        ("max_cost", unset("no limit")),
        ("max_tokens", unset("no limit")),
        ("max_turns", unset("no limit")),
        ("bridge", InForce::Value(Value::Boolean(true))),
        ("terminal_size", text(&format!("{columns}x{rows}"))),
    ]
}

#[cfg(target_os = "linux")]
fn serve_defaults() -> Vec<(&'static str, InForce)> {
    use ostler_agent::leasing;
    use ostler_gateway::conversations::Bounds;
    use ostler_gateway::http::{BodyLimits, ConnectionLimits};
    use ostler_gateway::pool::Patience;

    let (limits, patience) = (leasing::Limits::default(), Patience::default());
    let (bodies, connections) = (BodyLimits::default(), ConnectionLimits::default());
    let (kept, keys) = (Bounds::default(), crate::kept_keys::KeyLimits::default());
    let megabytes = |bytes: usize| count(u32::try_from(bytes >> 20).unwrap_or(u32::MAX));
    let half = format!("half of --max-sessions: {} of {}", limits.idle, limits.live);
    vec![
        ("max_idle", InForce::Unset(half)),
        ("idle_for", span(limits.rest)),
        ("max_memory_mb", count(u32::try_from(limits.memory >> 20).unwrap_or(u32::MAX))),
        ("silence", span(patience.silence)),
        ("max_turn", span(patience.turn)),
        ("max_body_mb", megabytes(bodies.total)),
        ("max_key_body_mb", megabytes(bodies.of_key)),
        ("max_connections", count(u32::try_from(connections.total).unwrap_or(u32::MAX))),
        ("max_peer_connections", count(u32::try_from(connections.of_peer).unwrap_or(u32::MAX))),
        ("requests_per_minute", count(keys.requests_per_minute)),
        ("turns_at_once", count(keys.turns_at_once)),
        ("open_questions", count(keys.open_questions)),
        ("max_conversations_mb", count(u32::try_from(kept.total_bytes >> 20).unwrap_or(u32::MAX))),
        ("max_key_conversations_mb", count(u32::try_from(kept.bytes >> 20).unwrap_or(u32::MAX))),
        ("tls_cert", unset("plain HTTP, on loopback only")),
        ("tls_key", unset("plain HTTP, on loopback only")),
        ("models", unset("no other names")),
    ]
}

fn jail_defaults() -> Vec<(&'static str, InForce)> {
    vec![
        ("read", unset("nothing besides")),
        ("hide", unset("nothing besides")),
        ("net", text(&NetAccess::default().to_string())),
    ]
}

fn unset(instead: &str) -> InForce {
    InForce::Unset(instead.to_owned())
}

fn text(value: &str) -> InForce {
    InForce::Value(Value::from(value))
}

fn count(value: u32) -> InForce {
    InForce::Value(Value::from(i64::from(value)))
}

fn span(value: Duration) -> InForce {
    InForce::Value(Value::from(humantime::format_duration(value).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Each default, written into a configuration, is read as what holds without one.
    #[test]
    fn the_defaults_that_are_shown_can_be_set() {
        let lines: Vec<String> = defaults()
            .into_iter()
            .filter_map(|(key, value)| match value {
                InForce::Value(value) => Some(format!("{key} = {value}")),
                InForce::Unset(_) => None,
            })
            .collect();
        let config: Config = toml::from_str(&lines.join("\n")).unwrap();
        assert_eq!(config.run.silence.unwrap().0, Limits::default().silence);
        assert_eq!(config.run.r#loop.unwrap().0, Limits::default().repeats.stop);
        assert_eq!(config.run.permissions, Some(run::DEFAULT_LEVEL));
        assert!(lines.contains(&"run.silence = \"6m\"".to_owned()), "{lines:?}");
    }
}
