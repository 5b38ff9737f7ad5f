//! What OpenCode says on its standard output: one record a finished part. It announces neither the session nor the end:
//! the turn is done if the last step stopped by itself and the process ended well.

use serde_json::Value;

use super::log;
use crate::agent::{Clock, Decoder, Exit, Source};
use crate::agents::reading::{Turn, broke, cut_short, failed, named, small, spent, text, unknown};
use crate::event::{AgentEvent, Blocked, CutShort, FailureClass, Part, ToolResult, TurnOutcome, Usage};
use crate::failure::{FailureReport, classify, failure};
use crate::prices::{Prices, Tokens};

/// Reads OpenCode.
#[derive(Default)]
pub(in crate::agents) struct OpenCode {
    turn: Turn,
    session: String,
    words: String,
    /// Why the last step ended.
    reason: String,
    /// What was refused since the last step began: that ends the run, with exit code 0.
    refused: Option<String>,
    /// What the last step used, if it ended the turn: it is reported with the end, which comes at once.
    last_step: Vec<AgentEvent>,
    prices: Option<Prices>,
    is_unpriced: bool,
    /// Requests that failed since the last record.
    failed_requests: u32,
    /// The clock that reset times are counted from.
    clock: Clock,
}

impl Decoder for OpenCode {
    fn events(&mut self, source: Source, record: &Value) -> Vec<AgentEvent> {
        let kind = record["type"].as_str().unwrap_or_default();
        if source == Source::Transcript {
            return vec![unknown("transcript", kind)];
        }
        self.failed_requests = 0;
        let mut events = self.begun(record);
        let part = &record["part"];
        match kind {
            "step_start" => {
                self.reason.clear();
                events.append(&mut self.last_step);
            }
            "text" => {
                self.words = text(&part["text"]);
                events.push(AgentEvent::Said { text: self.words.clone(), part: Part::Whole, within: None });
            }
            "reasoning" => events.push(AgentEvent::Thought { text: text(&part["text"]) }),
            "tool_use" => events.extend(self.call(part)),
            "step_finish" => {
                self.reason = text(&part["reason"]);
                let used = self.used(part);
                if self.reason == "stop" { self.last_step = used } else { events.extend(used) }
            }
            "error" => {
                events.append(&mut self.last_step);
                events.push(self.erred(&record["error"]));
            }
            kind => events.push(unknown(kind, "")),
        }
        events
    }

    fn exited(&mut self, exit: Exit, stderr_tail: &str) -> Vec<AgentEvent> {
        let mut events = std::mem::take(&mut self.last_step);
        if std::mem::replace(&mut self.turn, Turn::Ended) == Turn::Ended {
            return events;
        }
        let refused = self.refused.take();
        events.push(match (exit, self.reason.as_str(), refused) {
            (Exit::Code(0), "stop", _) => {
                AgentEvent::TurnEnded(TurnOutcome::Done { text: std::mem::take(&mut self.words) })
            }
            (Exit::Code(0), _, Some(tool)) => failed(
                FailureClass::Unknown,
                format!("it stopped because it was refused permission for {tool}"),
            ),
            (Exit::Code(0), "length", _) => {
                cut_short(CutShort::MaxTokens, "the answer was cut at its longest")
            }
            (Exit::Code(0), "content-filter", _) => {
                cut_short(CutShort::Refusal, "the answer was held back by the provider")
            }
            (Exit::Code(_) | Exit::Signal(_), _, _) => broke(exit, stderr_tail, "before the turn was over"),
        });
        events
    }

    fn set_prices(&mut self, prices: Prices) {
        self.prices = Some(prices);
    }

    fn stderr_line(&mut self, line: &str) -> Vec<AgentEvent> {
        if self.turn == Turn::Ended {
            return Vec::new();
        }
        let (session, failed) = match log::read(line) {
            Some(log::Entry::Turn { session }) => (session, None),
            Some(log::Entry::RequestFailed { session, text }) => (session, Some(text)),
            None => return Vec::new(),
        };
        // The first is the run's own; further ones are sub-agents'.
        let mut events = if self.session.is_empty() { self.entered(session) } else { Vec::new() };
        events.extend(failed.and_then(|text| self.retrying(&text)));
        events
    }

    fn clock(&mut self, clock: Clock) {
        self.clock = clock;
    }
}

impl OpenCode {
    /// The session, once: each record names it.
    fn begun(&mut self, record: &Value) -> Vec<AgentEvent> {
        if self.turn == Turn::Awaited {
            self.turn = Turn::Open;
        }
        match named(&record["sessionID"]) {
            Some(session) if session != self.session => self.entered(session),
            _ => Vec::new(),
        }
    }

    /// What a step used. It does not name its model, and a price that it does not know is 0.
    fn used(&mut self, part: &Value) -> Vec<AgentEvent> {
        let reported = part["cost"].as_f64().filter(|cost| *cost > 0.0);
        let price = self.prices.as_ref().and_then(|prices| prices.of(None));
        let cost_usd = reported.or_else(|| Some(price?.cost(tokens(part))));
        let mut events: Vec<AgentEvent> = spent(Usage { cost_usd, ..usage(part) }).into_iter().collect();
        if let Some(prices) = self.prices.as_ref().filter(|_| cost_usd.is_none() && !self.is_unpriced) {
            self.is_unpriced = true;
            events.push(AgentEvent::Unpriced { model: prices.model(None).to_owned() });
        }
        events
    }

    fn entered(&mut self, session: String) -> Vec<AgentEvent> {
        self.session.clone_from(&session);
        vec![AgentEvent::Started { session, model: None }]
    }

    /// A request that failed is tried again, without a record, for a minute and more. What another request would not
    /// change is not: an error record follows at once.
    fn retrying(&mut self, text: &str) -> Option<AgentEvent> {
        let class = match classify(FailureReport { text, ..FailureReport::default() }) {
            FailureClass::Auth | FailureClass::Model => return None,
            // The log leaves out the status.
            FailureClass::Unknown => FailureClass::Provider,
            class => class,
        };
        self.failed_requests = self.failed_requests.saturating_add(1);
        Some(AgentEvent::Blocked(Blocked::Retrying {
            attempt: self.failed_requests,
            limit: None,
            delay: None,
            reason: text.to_owned(),
            class,
        }))
    }

    /// A call is told once, when it is over.
    fn call(&mut self, part: &Value) -> Vec<AgentEvent> {
        let (call, tool, state) = (text(&part["callID"]), text(&part["tool"]), &part["state"]);
        let erred = state["status"] == "error";
        let result = ToolResult {
            // `invalid` is how it answers a call that it does not know.
            failed: erred || tool == "invalid",
            exit_code: state["metadata"]["exit"].as_i64(),
            text: text(if erred { &state["error"] } else { &state["output"] }),
        };
        let reason = result.text.clone();
        let mut events = vec![
            AgentEvent::ToolStarted {
                call: call.clone(),
                tool: tool.clone(),
                input: state["input"].clone(),
                within: None,
            },
            AgentEvent::ToolEnded { call, result },
        ];
        self.refused = None;
        if erred && reason.starts_with("The user rejected permission") {
            self.refused = Some(tool.clone());
            events.push(AgentEvent::Blocked(Blocked::Denied { tool, reason }));
        } else if erred && reason.starts_with("The user has specified a rule which prevents") {
            events.push(AgentEvent::Blocked(Blocked::Denied { tool, reason }));
        }
        events
    }

    fn erred(&mut self, error: &Value) -> AgentEvent {
        let data = &error["data"];
        let body: Value =
            serde_json::from_str(data["responseBody"].as_str().unwrap_or_default()).unwrap_or_default();
        let kinds = [&body["error"]["code"], &body["error"]["type"], &error["name"]];
        let words = named(&data["message"]).unwrap_or_else(|| text(&error["name"]));
        let failure = failure(
            FailureReport {
                status: small(&data["statusCode"]),
                kind: kinds.into_iter().find_map(Value::as_str).unwrap_or_default(),
                text: &words,
                headers: data["responseHeaders"].as_object(),
            },
            self.clock,
        );
        if self.turn == Turn::Ended {
            return AgentEvent::Noted { text: words };
        }
        self.turn = Turn::Ended;
        AgentEvent::TurnEnded(match error["name"].as_str() {
            Some("MessageAbortedError") => TurnOutcome::Interrupted,
            _ => TurnOutcome::Failed(failure),
        })
    }
}

/// What a step used, but for the cost. Its `input` leaves out what came from the cache.
fn usage(part: &Value) -> Usage {
    let tokens = &part["tokens"];
    let sum = |numbers: [&Value; 3]| {
        let known: Vec<u64> = numbers.into_iter().filter_map(Value::as_u64).collect();
        (!known.is_empty()).then(|| known.iter().fold(0_u64, |sum, number| sum.saturating_add(*number)))
    };
    let cached = &tokens["cache"]["read"];
    Usage {
        input_tokens: sum([&tokens["input"], cached, &tokens["cache"]["write"]]),
        output_tokens: sum([&tokens["output"], &tokens["reasoning"], &Value::Null]),
        cached_tokens: cached.as_u64(),
        cost_usd: None,
    }
}

/// The same, split the way it is priced.
fn tokens(part: &Value) -> Tokens {
    let tokens = &part["tokens"];
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    Tokens {
        input: number(&tokens["input"]),
        output: number(&tokens["output"]).saturating_add(number(&tokens["reasoning"])),
        cache_read: number(&tokens["cache"]["read"]),
        cache_write: number(&tokens["cache"]["write"]),
    }
}
