//! The end of a turn on the standard output. Only `is_error` tells whether it went well: `subtype` is `success` for
//! every failure of the provider too.

use serde_json::{Map, Value};

use super::decoder::Claude;
use crate::agents::reading::{Turn, added, failed, items, since, small, spent, text};
use crate::event::{AgentEvent, Blocked, CutShort, FailureClass, TurnOutcome, Usage};
use crate::failure::{FailureReport, failure};

impl Claude {
    pub(super) fn result(&mut self, record: &Value) -> Vec<AgentEvent> {
        let mut events: Vec<AgentEvent> =
            items(&record["permission_denials"]).iter().map(|denial| self.denied(denial)).collect();
        events.extend(self.settle(sum(record)));
        let end = self.outcome(record);
        // What the transcript told first is not told again.
        if !self.told_end.take().is_some_and(|told| is_same_end(&told, &end)) {
            events.push(end);
        }
        self.turn = Turn::Ended;
        self.results = self.results.saturating_add(1);
        self.refused.clear();
        self.error.clear();
        self.kept = None;
        events
    }

    /// What was used since it was last settled: what the result says, which is all that the process used, takes the
    /// place of what its calls said.
    fn settle(&mut self, total: Option<Usage>) -> Option<AgentEvent> {
        let seen = added(self.sum, self.calls.total().unwrap_or_default());
        let (calls, was_reported) = self.calls.settle();
        let used = match total {
            Some(total) => {
                let restored = *self.restored.get_or_insert_with(|| restored(total, self.before, seen));
                let total = less(total, restored);
                let mut used = since(total, self.sum);
                if total.input_tokens >= self.sum.input_tokens {
                    // Prices of ours may have made it more than it was.
                    used.cost_usd = less(total, self.sum).cost_usd;
                }
                self.sum = total;
                if let Some(usd) = total.cost_usd {
                    self.calls.on_result(usd);
                }
                used
            }
            None => {
                let used = calls.unwrap_or_default();
                self.sum = added(self.sum, used);
                used
            }
        };
        // What was reported before is replaced, also by nothing.
        if was_reported { Some(AgentEvent::Spent(used)) } else { spent(used) }
    }

    fn denied(&self, denial: &Value) -> AgentEvent {
        let reason = denial["tool_use_id"].as_str().and_then(|call| self.refused.get(call));
        AgentEvent::Blocked(Blocked::Denied {
            tool: text(&denial["tool_name"]),
            reason: reason.cloned().unwrap_or_default(),
        })
    }

    fn outcome(&mut self, record: &Value) -> AgentEvent {
        let reason = record["terminal_reason"].as_str().unwrap_or_default();
        let words = text(&record["result"]);
        let went_wrong = record["is_error"].as_bool().unwrap_or(record["subtype"] != "success");
        match (went_wrong, reason) {
            (true, "aborted_streaming" | "aborted_tools") => AgentEvent::TurnEnded(TurnOutcome::Interrupted),
            (true, _) => self.failure(record, words),
            (false, "hook_stopped") => failed(FailureClass::Unknown, "a hook stopped the turn"),
            (false, "tool_deferred") => {
                let tool = record["deferred_tool_use"]["name"].as_str().unwrap_or("a tool");
                failed(FailureClass::Unknown, format!("a hook put off the call of {tool}"))
            }
            (false, _) => match self.kept.take() {
                Some(why) => failed(FailureClass::Unknown, why),
                // A prompt that begins with `/` and is no command never reached the model.
                None if record["num_turns"] == 0 && words.starts_with("Unknown command: ") => {
                    failed(FailureClass::Unknown, words)
                }
                None => AgentEvent::TurnEnded(TurnOutcome::Done { text: words }),
            },
        }
    }

    fn failure(&mut self, record: &Value, words: String) -> AgentEvent {
        let subtype = record["subtype"].as_str().unwrap_or_default();
        let errors: Vec<&str> = items(&record["errors"]).iter().filter_map(Value::as_str).collect();
        let words = match (words.is_empty(), errors.is_empty()) {
            (false, _) => words,
            (true, false) => errors.join("\n"),
            (true, true) => subtype.to_owned(),
        };
        let kind = if subtype == "success" { self.error.as_str() } else { subtype };
        let told =
            FailureReport { status: small(&record["api_error_status"]), kind, text: &words, headers: None };
        let mut failure = failure(told, self.clock);
        let resets_at = self.resets_at.take();
        if failure.class == FailureClass::Quota {
            // The event has the second; the text has the minute.
            failure.resets_at = resets_at.or(failure.resets_at);
        }
        if record["stop_reason"] == "refusal" {
            failure.cut_short = Some(CutShort::Refusal);
        }
        AgentEvent::TurnEnded(TurnOutcome::Failed(failure))
    }
}

/// Words are the same in both records; those of a failure need not be.
fn is_same_end(told: &TurnOutcome, end: &AgentEvent) -> bool {
    match (told, end) {
        (TurnOutcome::Done { text: told }, AgentEvent::TurnEnded(TurnOutcome::Done { text })) => told == text,
        (TurnOutcome::Interrupted, AgentEvent::TurnEnded(TurnOutcome::Interrupted))
        | (TurnOutcome::Failed(_), AgentEvent::TurnEnded(TurnOutcome::Failed(_))) => true,
        (
            TurnOutcome::Done { .. }
            | TurnOutcome::Called
            | TurnOutcome::Interrupted
            | TurnOutcome::Failed(_),
            _,
        ) => false,
    }
}

/// How much of the first total of a process is from before it. Version 2.1.325 goes on counting where the session was
/// left, if that was written down; 2.1.197 begins at zero.
fn restored(total: Usage, before: Option<Usage>, seen: Usage) -> Usage {
    let Some(before) = before else { return Usage::default() };
    let tokens =
        |usage: &Usage| usage.input_tokens.unwrap_or(0).saturating_add(usage.output_tokens.unwrap_or(0));
    let unseen = tokens(&total).saturating_sub(tokens(&seen));
    // A little more than was seen are calls on the agent's own account.
    if tokens(&before) == 0 || unseen < tokens(&before).div_ceil(2) {
        return Usage::default();
    }
    let part = |total: Option<u64>, seen: Option<u64>, before: Option<u64>| {
        Some(total?.saturating_sub(seen.unwrap_or(0)).min(before?))
    };
    Usage {
        input_tokens: part(total.input_tokens, seen.input_tokens, before.input_tokens),
        output_tokens: part(total.output_tokens, seen.output_tokens, before.output_tokens),
        cached_tokens: part(total.cached_tokens, seen.cached_tokens, before.cached_tokens),
        cost_usd: total.cost_usd.zip(before.cost_usd).map(|(total, before)| total.min(before)),
    }
}

/// A total without a part of it.
fn less(total: Usage, part: Usage) -> Usage {
    let tokens = |total: Option<u64>, part: Option<u64>| Some(total?.saturating_sub(part.unwrap_or(0)));
    Usage {
        input_tokens: tokens(total.input_tokens, part.input_tokens),
        output_tokens: tokens(total.output_tokens, part.output_tokens),
        cached_tokens: tokens(total.cached_tokens, part.cached_tokens),
        cost_usd: total.cost_usd.map(|cost| (cost - part.cost_usd.unwrap_or(0.0)).max(0.0)),
    }
}

/// What the process has used. Not `usage`, which leaves out sub-agents, and the turn that a budget ended.
fn sum(record: &Value) -> Option<Usage> {
    let models = record["modelUsage"].as_object()?;
    let total = |keys: &[&str]| total(models, keys);
    Some(Usage {
        input_tokens: total(&["inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"]),
        output_tokens: total(&["outputTokens"]),
        cached_tokens: total(&["cacheReadInputTokens"]),
        cost_usd: record["total_cost_usd"].as_f64(),
    })
}

fn total(models: &Map<String, Value>, keys: &[&str]) -> Option<u64> {
    let numbers = models.values().flat_map(|model| keys.iter().filter_map(|key| model[*key].as_u64()));
    numbers.fold(None, |sum: Option<u64>, number| Some(sum.unwrap_or(0).saturating_add(number)))
}
