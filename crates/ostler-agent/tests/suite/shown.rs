//! One line an event, for snapshots.

use ostler_agent::event::{AgentEvent, Blocked, Part, TurnOutcome, Usage};

/// Longest text in a line.
const LONGEST: usize = 90;

pub(crate) fn line(event: &AgentEvent) -> String {
    match event {
        AgentEvent::Started { session, model } => {
            format!("started {session} {}", model.as_deref().unwrap_or("-"))
        }
        AgentEvent::Asked { text } => format!("asked {}", short(text)),
        AgentEvent::Said { text, part, within } => {
            let part = if *part == Part::Delta { " delta" } else { "" };
            format!("said{part}{} {}", inside(within.as_deref()), short(text))
        }
        AgentEvent::Thought { text } => format!("thought {}", short(text)),
        AgentEvent::ToolStarted { call, tool, input, within } => {
            format!("tool {call}{} {tool} {}", inside(within.as_deref()), short(&input.to_string()))
        }
        AgentEvent::ToolEnded { call, result } => {
            let how = if result.failed { "failed" } else { "fine" };
            let code = result.exit_code.map_or(String::new(), |code| format!(" ({code})"));
            format!("tool {call} {how}{code} {}", short(&result.text))
        }
        AgentEvent::TaskOpened { task } => format!("task {task} opened"),
        AgentEvent::TaskClosed { task } => format!("task {task} closed"),
        AgentEvent::Spent(usage) => format!("spent {}", spent(usage)),
        AgentEvent::SpentSoFar(usage) => format!("spent so far {}", spent(usage)),
        AgentEvent::Unpriced { model } => format!("unpriced {model}"),
        AgentEvent::Blocked(blocked) => self::blocked(blocked),
        AgentEvent::Noted { text } => format!("noted {}", short(text)),
        AgentEvent::TurnEnded(outcome) => match outcome {
            TurnOutcome::Done { text } => format!("done {}", short(text)),
            TurnOutcome::Called => "called".to_owned(),
            TurnOutcome::Interrupted => "interrupted".to_owned(),
            TurnOutcome::Failed(failure) => {
                let reset = failure.resets_at.map_or(String::new(), |at| format!(" until {at}"));
                format!("failed {:?}{reset} {}", failure.class, short(&failure.detail))
            }
        },
        AgentEvent::Unknown { kind } => format!("UNKNOWN {kind}"),
    }
}

fn blocked(blocked: &Blocked) -> String {
    match blocked {
        Blocked::Retrying { attempt, limit, delay, reason, class } => {
            let limit = limit.map_or("?".to_owned(), |limit| limit.to_string());
            let delay = delay.map_or(String::new(), |delay| format!(" in {:.1} s", delay.as_secs_f64()));
            format!("retrying {attempt}/{limit}{delay} {class:?} {}", short(reason))
        }
        Blocked::Permission { request, tool, input } => {
            format!("asks {request} {tool} {}", short(&input.to_string()))
        }
        Blocked::Question { request, text } => format!("question {request} {}", short(text)),
        Blocked::Dialog { text } => format!("dialog {}", short(text)),
        Blocked::Routed { request, message } => format!("routed {request} {}", short(&message.to_string())),
        Blocked::Withdrawn { request } => format!("withdrawn {request}"),
        Blocked::Denied { tool, reason } => format!("denied {tool} {}", short(reason)),
    }
}

fn spent(usage: &Usage) -> String {
    let tokens = |tokens: Option<u64>| tokens.map_or("-".to_owned(), |tokens| tokens.to_string());
    let cost = usage.cost_usd.map_or("-".to_owned(), |cost| format!("${cost:.6}"));
    let Usage { input_tokens, output_tokens, cached_tokens, .. } = *usage;
    format!(
        "in {} (cached {}) out {} cost {cost}",
        tokens(input_tokens),
        tokens(cached_tokens),
        tokens(output_tokens)
    )
}

fn inside(within: Option<&str>) -> String {
    within.map_or(String::new(), |call| format!(" [{call}]"))
}

fn short(text: &str) -> String {
    let start: String = text.chars().take(LONGEST).collect();
    if start.len() < text.len() { format!("{start:?}…") } else { format!("{start:?}") }
}
