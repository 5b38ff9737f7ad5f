//! A run in words and in JSON: the outcome as it is promised to programs, and its one sentence for people.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use ostler_agent::event::FailureClass;
use ostler_agent::failure::LimitKind;
use ostler_agent::jail::{Denial, JailReport};
use ostler_agent::network::HostDenial;
use ostler_agent::outcome::{CancelledBy, Limit, Rule, RunOutcome};
use ostler_agent::quiet_cause::QuietCause;
use ostler_agent::watchdog::{Limits, Repeats};
use serde_json::{Value, json};

use super::Report;
use crate::journal::Facts;

/// The outcome as it is promised: `ostler run --json`, `outcome.json`.
pub(super) fn outcome_json(facts: &Facts, report: &Report, folder: &Path) -> Value {
    let missing = match &report.outcome {
        RunOutcome::Incomplete { missing } => missing.as_slice(),
        _ => &[],
    };
    json!({
        "outcome": report.outcome.name(),
        "exit_code": report.outcome.exit_code(),
        "run": facts.run,
        "agent": facts.agent,
        "agent_version": facts.agent_version,
        "engine": facts.engine,
        "session": report.session,
        "turns": report.turns,
        "resumes": report.resumes,
        "ms": milliseconds(report.elapsed),
        "usage": report.usage,
        "cost_usd": report.usage.and_then(|usage| usage.cost_usd),
        "evidence": report.evidence,
        "missing": missing,
        "survivors": report.survivors,
        "rule": rule(&report.outcome),
        "class": class(&report.outcome),
        "detail": detail(&report.outcome),
        "cause": cause(&report.outcome),
        "workspace": report.workspace,
        "resets_at": resets_at(&report.outcome),
        "hint": report.hint,
        "checks": report.checks,
        "jail": report.jail.as_ref().map(jail),
        "denials": report.denials.iter().map(denied).chain(report.denied_hosts.iter().map(denied_host)).collect::<Vec<_>>(),
        "bridge": report.bridge,
        "journal": folder.display().to_string(),
    })
}

/// The wall that stood.
fn jail(report: &JailReport) -> Value {
    let JailReport { kind, abi, net, not_enforced } = report;
    json!({"kind": kind, "abi": abi, "net": net, "not_enforced": not_enforced})
}

/// What the jail denied, and the setting that opens it.
fn denied(denial: &Denial) -> Value {
    json!({"path": denial.path.display().to_string(), "wanted": denial.wanted, "opens": denial.opens.to_string()})
}

/// A host that the jail denied, and the setting that opens it.
fn denied_host(denial: &HostDenial) -> Value {
    json!({"host": denial.host, "wanted": "connect", "opens": denial.opens})
}

fn rule(outcome: &RunOutcome) -> Option<&'static str> {
    match outcome {
        RunOutcome::Stalled { rule, .. } => Some(rule.name()),
        RunOutcome::TimedOut { limit } => Some(match limit {
            Limit::Ceiling { .. } => "ceiling",
            Limit::MaxWait { .. } => "max_wait",
            Limit::MaxCost { .. } => "max_cost",
            Limit::MaxTokens { .. } => "max_tokens",
            Limit::MaxTurns { .. } => "max_turns",
        }),
        _ => None,
    }
}

/// What kind of failure the agent reported.
fn class(outcome: &RunOutcome) -> Option<&'static str> {
    match outcome {
        RunOutcome::AgentFailed { class, .. } => Some(word(*class)),
        _ => None,
    }
}

/// Why nothing was received from a stalled agent.
fn cause(outcome: &RunOutcome) -> Option<&QuietCause> {
    match outcome {
        RunOutcome::Stalled { cause, .. } => cause.as_ref(),
        _ => None,
    }
}

/// When the quota is there again, as seconds since 1970.
fn resets_at(outcome: &RunOutcome) -> Option<i64> {
    match outcome {
        RunOutcome::Quota { resets_at, .. } => *resets_at,
        _ => None,
    }
}

fn detail(outcome: &RunOutcome) -> Option<String> {
    match outcome {
        RunOutcome::Completed | RunOutcome::Incomplete { .. } => None,
        other => Some(sentence(other)),
    }
}

/// The one sentence.
pub fn sentence(outcome: &RunOutcome) -> String {
    match outcome {
        RunOutcome::Completed => "the task is done".to_owned(),
        RunOutcome::AgentFailed { class, detail } => format!("the agent failed ({}): {detail}", word(*class)),
        RunOutcome::Incomplete { missing } => {
            format!("it ended, and is still missing: {}", missing.join(", "))
        }
        RunOutcome::Stalled { rule: Rule::Loop, .. } => {
            "it went in circles: the same call came again and again with the same result (rule `loop`)"
                .to_owned()
        }
        RunOutcome::Stalled { rule, quiet, cause } => {
            let cause = cause.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default();
            format!("it was stuck: nothing was heard for {} (rule `{}`){cause}", seconds(*quiet), rule.name())
        }
        RunOutcome::TimedOut { limit } => match limit {
            Limit::Ceiling { time } => format!("it took longer than {}", seconds(*time)),
            Limit::MaxWait { time } => format!("it waited longer than {}", seconds(*time)),
            Limit::MaxCost { usd } => format!("it used up {usd} US dollars"),
            Limit::MaxTokens { tokens: 1 } => "it used up its one token".to_owned(),
            Limit::MaxTokens { tokens } => format!("it used up {tokens} tokens"),
            Limit::MaxTurns { turns: 1 } => "it used up its one turn".to_owned(),
            Limit::MaxTurns { turns } => format!("it used up {turns} turns"),
        },
        RunOutcome::NotInstalled { hint } => format!("the agent is not installed: {hint}"),
        RunOutcome::NeverStarted { reason } => format!("the agent did not start: {reason}"),
        RunOutcome::Blocked { dialog } => format!("it asks what nobody answers: {dialog}"),
        RunOutcome::Quota { detail, .. } => format!("{}: {detail}", LimitKind::of(detail).message()),
        RunOutcome::Cancelled { by } => match by {
            CancelledBy::Interrupt => "it was cancelled by Ctrl-C".to_owned(),
            CancelledBy::Terminate => "it was cancelled by SIGTERM".to_owned(),
            CancelledBy::Hangup => "it was cancelled because its terminal was closed".to_owned(),
            CancelledBy::Client => "it was stopped by `ostler stop`".to_owned(),
        },
    }
}

fn word(class: FailureClass) -> &'static str {
    match class {
        FailureClass::Auth => "auth",
        FailureClass::Quota => "quota",
        FailureClass::Overloaded => "overloaded",
        FailureClass::Provider => "provider",
        FailureClass::Model => "model",
        FailureClass::Crashed => "crashed",
        FailureClass::Limit => "limit",
        FailureClass::Unknown => "unknown",
    }
}

/// Limits as they are kept with a run.
pub fn limits_json(limits: &Limits) -> Value {
    json!({
        "start_ms": milliseconds(limits.start),
        "silence_ms": milliseconds(limits.silence),
        "open_call_ms": milliseconds(limits.open_call),
        "after_result_ms": milliseconds(limits.after_result),
        "after_exit_ms": milliseconds(limits.after_exit),
        "ceiling_ms": milliseconds(limits.ceiling),
        "max_wait_ms": milliseconds(limits.max_wait),
        "loop": limits.repeats.stop,
    })
}

/// Limits as they were kept. What is not there is as it would be unless set.
pub fn limits_from(kept: &Value) -> Limits {
    let defaults = Limits::default();
    let of = |name: &str, default| kept[name].as_u64().map_or(default, Duration::from_millis);
    let stop = kept["loop"].as_u64().and_then(|count| u32::try_from(count).ok());
    let stop = stop.unwrap_or(defaults.repeats.stop);
    Limits {
        start: of("start_ms", defaults.start),
        silence: of("silence_ms", defaults.silence),
        open_call: of("open_call_ms", defaults.open_call),
        after_result: of("after_result_ms", defaults.after_result),
        after_exit: of("after_exit_ms", defaults.after_exit),
        ceiling: of("ceiling_ms", defaults.ceiling),
        max_wait: of("max_wait_ms", defaults.max_wait),
        repeats: Repeats { stop, warn: defaults.repeats.warn.min(stop), ..defaults.repeats },
    }
}

/// An error with all its causes, on one line.
pub(super) fn with_causes(error: &dyn Error) -> String {
    let chain = std::iter::successors(Some(error), |error| (*error).source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn seconds(time: Duration) -> String {
    match time.as_secs() {
        0..=119 => format!("{:.1} s", time.as_secs_f64()),
        minutes => format!("{} min", minutes / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_turn_is_not_many() {
        let used = |turns| sentence(&RunOutcome::TimedOut { limit: Limit::MaxTurns { turns } });
        assert_eq!((used(1).as_str(), used(2).as_str()), ("it used up its one turn", "it used up 2 turns"));
    }

    #[test]
    fn a_rate_limit_is_not_called_the_usage_limit_of_a_plan() {
        let told = |detail: &str| sentence(&RunOutcome::Quota { resets_at: None, detail: detail.to_owned() });
        assert_eq!(
            told("429 Too Many Requests"),
            "the provider's rate limit is reached: 429 Too Many Requests"
        );
        let usage = "You've hit your weekly limit";
        assert_eq!(told(usage), format!("the usage limit of the plan is reached: {usage}"));
    }

    #[test]
    fn limits_are_read_as_they_were_kept() {
        let limits = Limits { silence: Duration::from_millis(1_500), ..Limits::default() };
        assert_eq!(limits_from(&limits_json(&limits)), limits);
        assert_eq!(limits_from(&Value::Null), Limits::default());
    }
}
