//! What is decided elsewhere, in words for the journal and whoever watches.

use std::time::Duration;

use ostler_agent::completion::Reset;
use ostler_agent::event::FailureClass;
use ostler_agent::failure::LimitKind;
use ostler_agent::stopping::StopReason;
use ostler_agent::watchdog::Warning;

/// Why a process is stopped, as it is kept.
pub(super) fn reason_word(reason: &StopReason) -> String {
    match reason {
        StopReason::Exited => "exited".to_owned(),
        StopReason::Completed => "completed".to_owned(),
        StopReason::Rule { rule } => rule.name().to_owned(),
        StopReason::Limit { .. } => "limit".to_owned(),
        StopReason::Failed { failure } => failure.detail.clone(),
        StopReason::Blocked { dialog } => dialog.clone(),
        StopReason::Cancelled { .. } => "cancelled".to_owned(),
    }
}

/// Why a run pauses before it resumes its session.
pub(super) fn outage(class: FailureClass, detail: &str) -> String {
    let detail = detail.lines().next().unwrap_or_default();
    let what = match class {
        // How the process ended: "was ended by signal 9", "it exited with code 137".
        FailureClass::Crashed => return format!("the agent {}", detail.trim_start_matches("it ")),
        FailureClass::Overloaded => "the provider is overloaded",
        FailureClass::Auth
        | FailureClass::Quota
        | FailureClass::Provider
        | FailureClass::Model
        | FailureClass::Limit
        | FailureClass::Unknown => "the provider failed",
    };
    if detail.is_empty() { what.to_owned() } else { format!("{what}: {detail}") }
}

/// Why a run waits for a limit of the provider, and why it resumes its session after that.
pub(super) fn limit(limit: LimitKind, reset: Reset) -> (String, String) {
    let name = match limit {
        LimitKind::Usage => "usage limit",
        LimitKind::Rate => "rate limit",
        LimitKind::Credit => "quota",
        LimitKind::Unknown => "limit",
    };
    match reset {
        Reset::Known => (limit.message().to_owned(), format!("the {name} was reset")),
        Reset::Unknown => {
            (format!("{}, without a reset time", limit.message()), format!("the {name} may be reset"))
        }
    }
}

/// A warning of the watchdog.
pub(super) fn worded(warning: &Warning) -> String {
    let seconds = |time: &Duration| time.as_secs();
    match warning {
        Warning::Quiet { rule, quiet } => {
            format!("nothing was heard for {} s (rule `{}`)", seconds(quiet), rule.name())
        }
        Warning::Spared { rule, quiet } => format!(
            "nothing was heard for {} s (rule `{}`), but its tools are busy: it is given as much again",
            seconds(quiet),
            rule.name()
        ),
        Warning::Repeats { count } => format!("the same call came {count} times with the same result"),
        Warning::Ceiling { left } => format!("{} s are left of the time it may take", seconds(left)),
    }
}

/// Why the limit on costs forbids another process: so much of it may be spent.
pub(super) fn unknown_cost(usd: f64, model: Option<&str>) -> String {
    // Without what the agent appends (`[1m]`).
    let model = model.and_then(|model| model.split('[').next()).unwrap_or("MODEL");
    format!(
        "{usd} US dollars of --max-cost may be spent, because the agent ended before it reported what its model calls \
         cost; set [prices.\"{model}\"], or raise --max-cost"
    )
}
