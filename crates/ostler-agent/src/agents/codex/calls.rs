//! What the model calls of a turn used, as Codex writes it into its own file after each response. Its standard output
//! reports usage only when the turn has ended. It never reports a cost.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::agents::reading::{named, since};
use crate::event::{AgentEvent, Usage};
use crate::prices::{Prices, Tokens};

/// What the calls of the current turn used.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// What was used since the last sum of the thread.
    pub(super) used: Usage,
    /// What that cost, as far as prices are known.
    cost: Option<f64>,
    /// Whether some of it was not reported.
    is_behind: bool,
    /// Whether the response under way calls a tool: then the turn continues after it.
    calls_a_tool: bool,
    model: Option<String>,
    prices: Option<Prices>,
    /// Models without a price that were reported.
    unpriced: BTreeSet<String>,
}

impl Calls {
    pub(super) fn set_prices(&mut self, prices: Prices) {
        self.prices = Some(prices);
    }

    /// A record of the file, while the standard output is read. `sum` is what the thread had used when the last turn
    /// ended.
    pub(super) fn on_record(&mut self, sum: Usage, record: &Value) -> Vec<AgentEvent> {
        let payload = &record["payload"];
        match record["type"].as_str().unwrap_or_default() {
            "turn_context" => self.on_model(&payload["model"]),
            "response_item" => {
                let kind = payload["type"].as_str().unwrap_or_default();
                self.calls_a_tool |= !matches!(kind, "message" | "reasoning") && !kind.ends_with("_output");
                Vec::new()
            }
            "token_usage_record" => self.on_response(sum, payload),
            _ => Vec::new(),
        }
    }

    /// The model of the turn that begins.
    pub(super) fn on_model(&mut self, model: &Value) -> Vec<AgentEvent> {
        self.model = named(model).or(self.model.take());
        let Some(prices) = &mut self.prices else { return Vec::new() };
        let model = self.model.as_deref();
        if let Some(model) = model {
            prices.on_model(model);
        }
        let name = prices.model(model).to_owned();
        let is_new = prices.of(model).is_none() && self.unpriced.insert(name.clone());
        if is_new { vec![AgentEvent::Unpriced { model: name }] } else { Vec::new() }
    }

    /// A response is complete. One that ends the turn is reported with its end, which comes at once.
    fn on_response(&mut self, sum: Usage, payload: &Value) -> Vec<AgentEvent> {
        let used = since(usage(&payload["thread_token_usage"]), sum);
        if used == self.used {
            return Vec::new();
        }
        let more = self.price(tokens(&payload["usage"]));
        self.cost = match (self.cost, more) {
            (Some(cost), Some(more)) => Some(cost + more),
            (None, more) if self.used == Usage::default() => more,
            (None, _) | (Some(_), None) => None,
        };
        self.used = used;
        let goes_on = std::mem::take(&mut self.calls_a_tool) || self.is_behind;
        self.is_behind = true;
        if goes_on { self.report_rest() } else { Vec::new() }
    }

    /// What was used so far, if that was not reported.
    pub(super) fn report_rest(&mut self) -> Vec<AgentEvent> {
        if !std::mem::take(&mut self.is_behind) {
            return Vec::new();
        }
        vec![AgentEvent::SpentSoFar(Usage { cost_usd: self.cost, ..self.used })]
    }

    /// The turn used this much. Begins anew, and returns what it cost: the responses that were seen, and the rest.
    pub(super) fn settle(&mut self, used: Usage) -> Option<f64> {
        let (seen, cost) = (std::mem::take(&mut self.used), self.cost.take());
        (self.is_behind, self.calls_a_tool) = (false, false);
        let tokens =
            |used: Option<u64>, seen: Option<u64>| used.unwrap_or(0).saturating_sub(seen.unwrap_or(0));
        let cache_read = tokens(used.cached_tokens, seen.cached_tokens);
        let rest = Tokens {
            input: tokens(used.input_tokens, seen.input_tokens).saturating_sub(cache_read),
            output: tokens(used.output_tokens, seen.output_tokens),
            cache_read,
            cache_write: 0,
        };
        match (cost, rest == Tokens::default()) {
            (cost, true) => cost,
            (Some(cost), false) => self.price(rest).map(|rest| cost + rest),
            (None, false) if seen == Usage::default() => self.price(rest),
            (None, false) => None,
        }
    }

    fn price(&self, tokens: Tokens) -> Option<f64> {
        Some(self.prices.as_ref()?.of(self.model.as_deref())?.cost(tokens))
    }
}

/// What a record says was used. Its `input_tokens` include what came from the cache.
pub(super) fn usage(record: &Value) -> Usage {
    Usage {
        input_tokens: record["input_tokens"].as_u64(),
        output_tokens: record["output_tokens"].as_u64(),
        cached_tokens: record["cached_input_tokens"].as_u64(),
        cost_usd: None,
    }
}

fn tokens(record: &Value) -> Tokens {
    let number = |name: &str| record[name].as_u64().unwrap_or(0);
    let (cache_read, cache_write) = (number("cached_input_tokens"), number("cache_write_input_tokens"));
    Tokens {
        input: number("input_tokens").saturating_sub(cache_read).saturating_sub(cache_write),
        output: number("output_tokens"),
        cache_read,
        cache_write,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::prices::Price;

    fn response(thread: u64, this: u64) -> Value {
        let counts =
            |tokens: u64| json!({"input_tokens": tokens, "cached_input_tokens": 0, "output_tokens": 0});
        json!({"type": "token_usage_record",
               "payload": {"usage": counts(this), "thread_token_usage": counts(thread)}})
    }

    fn item(kind: &str) -> Value {
        json!({"type": "response_item", "payload": {"type": kind}})
    }

    fn calls(model: Option<&str>) -> Calls {
        let mut calls = Calls::default();
        let price = Price { input: 10.0, output: 0.0, cache_read: 0.0, cache_write: 0.0 };
        let by_model = model.map(|model| (model.to_owned(), price)).into_iter();
        calls.set_prices(Prices::new(by_model.collect::<BTreeMap<_, _>>(), None));
        calls
    }

    fn so_far(events: &[AgentEvent]) -> Option<(u64, Option<f64>)> {
        match events {
            [AgentEvent::SpentSoFar(usage)] => Some((usage.input_tokens?, usage.cost_usd)),
            _ => None,
        }
    }

    #[test]
    fn each_response_that_calls_a_tool_is_reported() {
        let (mut calls, sum) =
            (calls(Some("gpt-5.5")), usage(&json!({"input_tokens": 1_000, "output_tokens": 0})));
        assert_eq!(calls.on_model(&json!("gpt-5.5")), []);
        for (thread, want) in [(51_000, 50_000), (101_000, 100_000)] {
            assert_eq!(calls.on_record(sum, &item("function_call")), []);
            let told = so_far(&calls.on_record(sum, &response(thread, 50_000))).unwrap();
            assert_eq!(told.0, want);
            assert!(
                (told.1.unwrap() - f64::from(u32::try_from(want).unwrap()) / 1e5).abs() < 1e-9,
                "{told:?}"
            );
            assert_eq!(calls.on_record(sum, &item("function_call_output")), []);
        }
        // The same record again, because the file is read anew, changes nothing.
        assert_eq!(calls.on_record(sum, &response(101_000, 50_000)), []);
        // The last one ends the turn.
        assert_eq!(calls.on_record(sum, &item("message")), []);
        assert_eq!(calls.on_record(sum, &response(151_000, 50_000)), []);
        let used = Usage { input_tokens: Some(150_000), output_tokens: Some(0), ..Usage::default() };
        assert!((calls.settle(used).unwrap() - 1.5).abs() < 1e-9);
        assert_eq!(calls.report_rest(), []);
    }

    #[test]
    fn a_response_that_was_not_seen_is_priced_with_the_turn() {
        let mut calls = calls(Some("gpt-5.5"));
        calls.on_model(&json!("gpt-5.5"));
        let used = Usage { input_tokens: Some(100_000), output_tokens: Some(0), ..Usage::default() };
        assert!((calls.settle(used).unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_model_without_a_price_is_named_before_it_is_used() {
        let mut calls = calls(Some("other"));
        let named = AgentEvent::Unpriced { model: "gpt-5.5".to_owned() };
        assert_eq!(calls.on_model(&json!("gpt-5.5")), [named]);
        assert_eq!(calls.on_model(&json!("gpt-5.5")), [], "once");
        calls.on_record(Usage::default(), &item("function_call"));
        assert_eq!(so_far(&calls.on_record(Usage::default(), &response(5, 5))), Some((5, None)));
    }
}
