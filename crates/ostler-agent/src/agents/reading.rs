//! Foreign records, read tolerantly: what is missing or of another kind is empty or absent, and nothing fails.

use serde_json::Value;

use crate::agent::{Clock, Exit};
use crate::event::{AgentEvent, CutShort, Failure, FailureClass, TurnOutcome, Usage};
use crate::failure::{FailureReport, failure};

/// How much of an agent's standard error goes into a failure: its last lines say what went wrong.
const LAST_LINES: usize = 5;

/// Lines on the standard error that are there when all is well.
const CHATTER: [&str; 3] = ["Reading additional input from stdin", "WARNING: proceeding", LOG_LINE];

/// How a line of OpenCode's log begins.
pub(super) const LOG_LINE: &str = "timestamp=";

/// A text, empty if there is none.
pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A text that is there and not empty.
pub(super) fn named(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The elements of a list, none if it is no list.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The text of what may be a text, a block with a text, or a list of both.
pub(super) fn content_text(content: &Value) -> String {
    let text_of = |block: &'_ Value| block.as_str().or(block["text"].as_str()).map(str::to_owned);
    match content {
        Value::Array(blocks) => blocks.iter().filter_map(text_of).collect::<Vec<_>>().join("\n"),
        one => text_of(one).unwrap_or_default(),
    }
}

/// A number that fits.
pub(super) fn small<T: TryFrom<u64>>(value: &Value) -> Option<T> {
    value.as_u64().and_then(|number| T::try_from(number).ok())
}

/// The kind of a record, as far as it has one: `type`, or `type/detail`.
pub(super) fn unknown(kind: &str, detail: &str) -> AgentEvent {
    let kind = match (kind, detail) {
        ("", "") => "untyped".to_owned(),
        (kind, "") => kind.to_owned(),
        (kind, detail) => format!("{kind}/{detail}"),
    };
    AgentEvent::Unknown { kind }
}

/// A remark, if there is one.
pub(super) fn noted(text: &Value) -> Vec<AgentEvent> {
    named(text).map(|text| AgentEvent::Noted { text }).into_iter().collect()
}

/// Where the turn stands that a process was started for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing was heard yet.
    #[default]
    Awaited,
    /// It goes on.
    Open,
    /// Its end was reported.
    Ended,
}

/// The end of a turn whose process ended without the agent's own word for it.
pub(super) fn broke(exit: Exit, stderr_tail: &str, missing: &str) -> AgentEvent {
    AgentEvent::TurnEnded(TurnOutcome::Failed(failure_of_exit(exit, stderr_tail, missing)))
}

/// The failure of a process that ended by itself, given the end of what it printed and what it had not done yet.
pub fn failure_of_exit(exit: Exit, printed: &str, missing: &str) -> Failure {
    let plain = plain(printed);
    let says = |line: &&str| !line.is_empty() && !CHATTER.iter().any(|chatter| line.starts_with(chatter));
    let lines: Vec<&str> = plain.lines().map(str::trim).filter(says).collect();
    // What comes before the error itself is a log.
    let error = lines.iter().rposition(|line| line.starts_with("Error"));
    let lines = &lines[error.unwrap_or(lines.len().saturating_sub(LAST_LINES))..];
    let last = lines[..lines.len().min(LAST_LINES)].join("\n");
    let how = match exit {
        Exit::Code(code) => format!("exited with {code}"),
        Exit::Signal(signal) => format!("was ended by signal {signal}"),
    };
    let detail = match (exit, last.is_empty()) {
        (_, true) => format!("{how} {missing}"),
        (Exit::Signal(_), false) => format!("{how} {missing}; its last lines were:\n{last}"),
        (Exit::Code(_), false) => last,
    };
    let mut failure = failure(FailureReport { text: &detail, ..FailureReport::default() }, Clock::default());
    match exit {
        // What it printed before is not why it was killed.
        Exit::Signal(_) => {
            failure.class = FailureClass::Crashed;
            failure.resets_at = None;
        }
        Exit::Code(_) if failure.class == FailureClass::Unknown => failure.class = FailureClass::Crashed,
        Exit::Code(_) => {}
    }
    failure
}

/// A turn that failed for a reason that no provider gave.
pub(super) fn failed(class: FailureClass, detail: impl Into<String>) -> AgentEvent {
    AgentEvent::TurnEnded(TurnOutcome::Failed(Failure {
        class,
        detail: detail.into(),
        resets_at: None,
        cut_short: None,
    }))
}

/// A turn that failed because the model ended its answer so.
pub(super) fn cut_short(how: CutShort, detail: &str) -> AgentEvent {
    AgentEvent::TurnEnded(TurnOutcome::Failed(Failure {
        class: FailureClass::Model,
        detail: detail.to_owned(),
        resets_at: None,
        cut_short: Some(how),
    }))
}

/// A text without the escape sequences that colour it.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => {
                // `ESC [ … letter`; any other escape is one letter long.
                if letters.next() == Some('[') {
                    letters.by_ref().find(|letter| ('@'..='~').contains(letter));
                }
            }
            '\n' => plain.push('\n'),
            letter if letter.is_control() => {}
            letter => plain.push(letter),
        }
    }
    plain
}

/// What was used since a sum was last told. A sum that shrank was begun anew.
pub(super) fn since(sum: Usage, before: Usage) -> Usage {
    let tokens = |sum: Option<u64>, before: Option<u64>| {
        let sum = sum?;
        Some(sum.checked_sub(before.unwrap_or(0)).unwrap_or(sum))
    };
    let cost = sum.cost_usd.map(|cost| {
        let more = cost - before.cost_usd.unwrap_or(0.0);
        if more < 0.0 { cost } else { more }
    });
    Usage {
        input_tokens: tokens(sum.input_tokens, before.input_tokens),
        output_tokens: tokens(sum.output_tokens, before.output_tokens),
        cached_tokens: tokens(sum.cached_tokens, before.cached_tokens),
        cost_usd: cost,
    }
}

/// Two sums together. What neither tells stays untold.
pub(super) fn added(sum: Usage, more: Usage) -> Usage {
    let tokens = |left: Option<u64>, right: Option<u64>| match (left, right) {
        (Some(left), Some(right)) => Some(left.saturating_add(right)),
        (one, other) => one.or(other),
    };
    let cost = match (sum.cost_usd, more.cost_usd) {
        (Some(left), Some(right)) => Some(left + right),
        (one, other) => one.or(other),
    };
    Usage {
        input_tokens: tokens(sum.input_tokens, more.input_tokens),
        output_tokens: tokens(sum.output_tokens, more.output_tokens),
        cached_tokens: tokens(sum.cached_tokens, more.cached_tokens),
        cost_usd: cost,
    }
}

/// The event for what was used, if anything was told and it is something.
pub(super) fn spent(usage: Usage) -> Option<AgentEvent> {
    let tokens = [usage.input_tokens, usage.output_tokens].into_iter().flatten().any(|tokens| tokens > 0);
    (tokens || usage.cost_usd.is_some_and(|cost| cost > 0.0)).then_some(AgentEvent::Spent(usage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_taken_out_of_a_failure() {
        let AgentEvent::TurnEnded(TurnOutcome::Failed(failure)) =
            broke(Exit::Code(1), "\u{1b}[91m\u{1b}[1mError: \u{1b}[0mno\u{7} message\n\n", "x")
        else {
            panic!("a failure")
        };
        assert_eq!((failure.class, failure.detail.as_str()), (FailureClass::Crashed, "Error: no message"));
    }

    #[test]
    fn a_sum_becomes_what_was_added() {
        let usage = |tokens, cost| Usage {
            input_tokens: tokens,
            output_tokens: tokens,
            cached_tokens: None,
            cost_usd: cost,
        };
        let table = [
            (usage(Some(30), Some(3.0)), usage(Some(10), Some(1.0)), usage(Some(20), Some(2.0))),
            (usage(Some(30), None), usage(None, None), usage(Some(30), None)),
            (usage(Some(5), Some(0.5)), usage(Some(10), Some(1.0)), usage(Some(5), Some(0.5))),
            (usage(None, None), usage(Some(10), Some(1.0)), usage(None, None)),
        ];
        for (sum, before, want) in table {
            assert_eq!(since(sum, before), want, "{sum:?} after {before:?}");
        }
    }
}
