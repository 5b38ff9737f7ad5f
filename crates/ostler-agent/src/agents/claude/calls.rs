//! Usage of the model calls of the current turn, before the turn ends.
//!
//! Claude Code reports one message in several records: pieces of it, one record a content block, and once more in its
//! transcript. Each is counted once, by its id, with the largest figures. A call that ends the turn is not reported
//! before the turn is: its result comes at once, and a limit that stopped it there would only lose the answer.

use std::collections::{BTreeSet, HashMap, VecDeque};

use serde_json::Value;

use super::running_cost::RunningCost;
use crate::agents::reading::named;
use crate::event::{AgentEvent, Usage};
use crate::offering;
use crate::prices::{ByModel, Observed, Prices, Tokens};

/// Whose messages: the agent's own, or those of the sub-agent that this call started.
type Lane = Option<String>;

/// How many messages are known by their ids. The records of one message follow each other closely, also where several
/// sub-agents write at once.
const KNOWN: usize = 64;

/// What the calls of the current turn used.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The last messages, whichever turn they belong to.
    known: VecDeque<Call>,
    /// What the messages of this turn used; nothing before the first.
    used: Option<Tokens>,
    /// What that cost, but for models without a price.
    cost: f64,
    /// Whether a model of this turn has no price.
    lacks_a_price: bool,
    /// What it cost by the agent's own account, where it writes that down.
    running: RunningCost,
    /// Whether the process is over, so that nothing more will be reported.
    is_over: bool,
    /// The message that is being streamed, in each lane.
    streamed: HashMap<Lane, Streamed>,
    /// What was last reported.
    reported: Option<Usage>,
    /// Whether the message that is streamed calls a tool that the client offers.
    is_offered: bool,
    /// Whether messages are read that were counted before.
    is_paused: bool,
    prices: Option<Prices>,
    /// Models without a price that were reported, and those that were not yet.
    unpriced: BTreeSet<String>,
    newly_unpriced: Vec<String>,
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    model: Option<String>,
    tokens: Tokens,
    /// Whether it is in the transcript, where that is known.
    record: Record,
}

/// Whether a message is in the agent's transcript.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Record {
    /// It is, or would be in another file: a sub-agent's.
    #[default]
    Written,
    /// Not yet.
    Awaited,
}

#[derive(Debug)]
struct Streamed {
    message: String,
    /// Whether the turn continues after it.
    goes_on: bool,
}

/// What a piece of a message means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// Nothing is to be reported.
    Nothing,
    /// What was used so far is to be reported.
    Report,
    /// The message calls tools that the client offers: the agent waits for their results.
    Offered,
}

impl Calls {
    pub(super) fn set_prices(&mut self, prices: Prices) {
        self.running.set_earlier(prices.observed().clone());
        self.prices = Some(prices);
    }

    /// The calls of the run whose cost is known.
    pub(super) fn observed(&self) -> Observed {
        self.running.observed()
    }

    /// The process is over: what was not reported is estimated.
    pub(super) fn close(&mut self) {
        self.is_over = true;
    }

    /// The transcript has a message of the agent's own.
    pub(super) fn on_written(&mut self, id: &str) {
        if let Some(call) = self.known.iter_mut().rfind(|call| call.id == id) {
            call.record = Record::Written;
        }
    }

    /// The transcript has what the process has cost so far. Whether that is to be reported: not while an answer is
    /// streamed, whose tokens are not complete.
    pub(super) fn on_cost(&mut self, usd: f64) -> bool {
        let mut unwritten = ByModel::new();
        for call in self.known.iter().filter(|call| call.record == Record::Awaited) {
            let sum = unwritten.entry(call.model_name()).or_default();
            *sum = sum.plus(call.tokens);
        }
        self.running.on_report(usd, unwritten);
        self.streamed.is_empty()
    }

    /// A result has what the process has cost.
    pub(super) fn on_result(&mut self, usd: f64) {
        self.running.on_result(usd);
        self.known.iter_mut().for_each(|call| call.record = Record::Written);
    }

    /// A block of a message.
    pub(super) fn on_block(&mut self, event: &AgentEvent) {
        if let AgentEvent::ToolStarted { tool, within: None, .. } = event {
            self.is_offered |= offering::named(tool).is_some();
        }
    }

    /// A piece of a message that is being streamed.
    pub(super) fn on_piece(&mut self, lane: Lane, event: &Value) -> Piece {
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                // What was kept back until now did not end the turn.
                let piece = if self.is_behind() { Piece::Report } else { Piece::Nothing };
                self.start(lane, &event["message"]);
                piece
            }
            "message_delta" => {
                let usage = tokens(&event["usage"]);
                let reason = event["delta"]["stop_reason"].as_str();
                if let Some(streamed) = self.streamed.get_mut(&lane) {
                    streamed.goes_on |= reason.is_some_and(|reason| !ends_turn(reason));
                    let id = streamed.message.clone();
                    self.add(&id, (None, Record::Awaited), usage.unwrap_or_default());
                }
                Piece::Nothing
            }
            "message_stop" => {
                let goes_on = self.streamed.remove(&lane).is_some_and(|streamed| streamed.goes_on);
                match (lane, std::mem::take(&mut self.is_offered), goes_on) {
                    (None, true, _) => Piece::Offered,
                    (Some(_), is_offered, _) => {
                        self.is_offered = is_offered;
                        Piece::Report
                    }
                    (None, false, true) => Piece::Report,
                    (None, false, false) => Piece::Nothing,
                }
            }
            _ => Piece::Nothing,
        }
    }

    fn start(&mut self, lane: Lane, message: &Value) {
        if lane.is_none() {
            self.is_offered = false;
        }
        let Some(id) = named(&message["id"]) else { return };
        let record = if lane.is_none() { Record::Awaited } else { Record::Written };
        let streamed = Streamed { message: id.clone(), goes_on: false };
        if let Some(broken) = self.streamed.insert(lane, streamed).filter(|broken| broken.message != id) {
            // It broke off, and the provider was asked again.
            self.forget(&broken.message);
        }
        self.count_as(&id, message, record);
    }

    /// A record of a message on the standard output. Whether what was used is to be reported.
    pub(super) fn on_record(&mut self, lane: &Lane, message: &Value) -> bool {
        let Some(id) = named(&message["id"]) else { return false };
        let record = if lane.is_none() { Record::Awaited } else { Record::Written };
        if let Some(streamed) = self.streamed.get(lane) {
            if streamed.message == id {
                self.count_as(&id, message, record);
                return false;
            }
            if let Some(broken) = self.streamed.remove(lane) {
                self.forget(&broken.message);
            }
        }
        self.count_as(&id, message, record);
        lane.is_some() || calls_a_tool(message)
    }

    /// Counts a message of the transcript, however often it is reported.
    pub(super) fn count(&mut self, id: &str, message: &Value) {
        self.count_as(id, message, Record::Written);
    }

    fn count_as(&mut self, id: &str, message: &Value, record: Record) {
        if let Some(tokens) = tokens(&message["usage"]).filter(|_| message["model"] != "<synthetic>") {
            self.add(id, (named(&message["model"]), record), tokens);
        }
    }

    /// Reads messages that were counted when they came another way.
    pub(super) fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// Adds what is new in a report of a message.
    fn add(&mut self, id: &str, (model, record): (Option<String>, Record), tokens: Tokens) {
        if self.is_paused {
            return;
        }
        let mut call = match self.known.iter().rposition(|call| call.id == id) {
            Some(at) => self.known.remove(at).unwrap_or_default(),
            None => Call { id: id.to_owned(), record, ..Call::default() },
        };
        let before = call.tokens;
        call.tokens = before.max(tokens);
        call.model = model.or(call.model);
        let more = call.tokens.minus(before);
        if more != Tokens::default() {
            self.used = Some(self.used.unwrap_or_default().plus(more));
            self.cost += self.price(&call, more);
            self.running.add(&call.model_name(), more);
        }
        self.known.push_back(call);
        if self.known.len() > KNOWN {
            self.known.pop_front();
        }
    }

    fn price(&mut self, call: &Call, tokens: Tokens) -> f64 {
        let Some(prices) = &mut self.prices else { return 0.0 };
        if let Some(model) = &call.model {
            prices.on_model(model);
        }
        match prices.of(call.model.as_deref()) {
            Some(price) => price.cost(tokens),
            None => {
                self.lacks_a_price = true;
                let model = prices.model(call.model.as_deref()).to_owned();
                if self.unpriced.insert(model.clone()) {
                    self.newly_unpriced.push(model);
                }
                0.0
            }
        }
    }

    /// Takes a message back.
    fn forget(&mut self, id: &str) {
        let Some(at) = self.known.iter().rposition(|call| call.id == id) else { return };
        if let Some(call) = self.known.remove(at) {
            self.used = self.used.map(|used| used.minus(call.tokens));
            self.cost -= self.price(&call, call.tokens);
            self.running.remove(&call.model_name(), call.tokens);
        }
    }

    /// What all calls used; nothing if there were none. The cost is by price where all models have one, else what the
    /// agent reported.
    pub(super) fn total(&self) -> Option<Usage> {
        let priced = self.prices.as_ref().filter(|_| !self.lacks_a_price).map(|_| self.cost);
        let reported = || if self.is_over { self.running.most() } else { self.running.reported() };
        Some(self.used?.usage(priced.or_else(reported)))
    }

    /// Whether more was used than was reported.
    fn is_behind(&self) -> bool {
        self.total() != self.reported
    }

    /// What was used so far, unless that was reported already.
    pub(super) fn report(&mut self) -> Option<AgentEvent> {
        let total = self.total().filter(|total| Some(*total) != self.reported)?;
        self.reported = Some(total);
        Some(AgentEvent::SpentSoFar(total))
    }

    /// The models without a price that were not named before.
    pub(super) fn unpriced(&mut self) -> Vec<AgentEvent> {
        let named = |model| AgentEvent::Unpriced { model };
        std::mem::take(&mut self.newly_unpriced).into_iter().map(named).collect()
    }

    /// Begins anew: what was used is settled. Returns what it was, and whether some of it was reported.
    pub(super) fn settle(&mut self) -> (Option<Usage>, bool) {
        let total = self.total();
        self.running.settle();
        let was_reported = self.reported.take().is_some();
        // Messages stay known: what is reported of them again is not new.
        (self.used, self.cost, self.lacks_a_price) = (None, 0.0, false);
        self.streamed.clear();
        self.is_offered = false;
        (total, was_reported)
    }
}

impl Call {
    fn model_name(&self) -> String {
        self.model.clone().unwrap_or_default()
    }
}

/// Whether an answer that stops for this reason is the last of its turn.
pub(super) fn ends_turn(stop_reason: &str) -> bool {
    matches!(stop_reason, "end_turn" | "stop_sequence" | "refusal")
}

fn calls_a_tool(message: &Value) -> bool {
    let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
    blocks.iter().any(|block| block["type"] == "tool_use")
}

fn tokens(usage: &Value) -> Option<Tokens> {
    let number = |name: &str| usage[name].as_u64();
    let counts = [
        number("input_tokens"),
        number("output_tokens"),
        number("cache_read_input_tokens"),
        number("cache_creation_input_tokens"),
    ];
    counts.iter().any(Option::is_some).then(|| Tokens {
        input: counts[0].unwrap_or(0),
        output: counts[1].unwrap_or(0),
        cache_read: counts[2].unwrap_or(0),
        cache_write: counts[3].unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::prices::Price;

    fn message(id: &str, read: u64, written: u64) -> Value {
        json!({"id": id, "model": "opus", "usage": {"input_tokens": read, "output_tokens": written}})
    }

    fn start(calls: &mut Calls, id: &str, read: u64) -> Piece {
        calls.on_piece(None, &json!({"type": "message_start", "message": message(id, read, 1)}))
    }

    fn stop(calls: &mut Calls, written: u64, reason: &str) -> Piece {
        let delta = json!({"type": "message_delta", "delta": {"stop_reason": reason},
                           "usage": {"output_tokens": written}});
        assert_eq!(calls.on_piece(None, &delta), Piece::Nothing);
        calls.on_piece(None, &json!({"type": "message_stop"}))
    }

    fn so_far(calls: &mut Calls) -> Option<(u64, u64)> {
        match calls.report() {
            Some(AgentEvent::SpentSoFar(usage)) => Some((usage.input_tokens?, usage.output_tokens?)),
            _ => None,
        }
    }

    #[test]
    fn a_message_counts_once_however_often_it_is_reported() {
        let mut calls = Calls::default();
        assert_eq!(start(&mut calls, "a", 1_000), Piece::Nothing);
        assert!(!calls.on_record(&None, &message("a", 1_000, 1)), "it is being streamed");
        assert!(!calls.on_record(&None, &message("a", 1_000, 1)));
        assert_eq!(stop(&mut calls, 50, "tool_use"), Piece::Report);
        calls.count("a", &message("a", 1_000, 50));
        assert_eq!(so_far(&mut calls), Some((1_000, 50)));
        assert_eq!(so_far(&mut calls), None, "nothing is new");
        start(&mut calls, "b", 2_000);
        assert_eq!(stop(&mut calls, 70, "tool_use"), Piece::Report);
        assert_eq!(so_far(&mut calls), Some((3_000, 120)));
        assert_eq!(calls.settle().0.unwrap().input_tokens, Some(3_000));
        assert_eq!(calls.total(), None);
        calls.count("b", &message("b", 2_000, 70));
        assert_eq!(calls.total(), None, "it was settled with its turn");
    }

    #[test]
    fn a_call_that_ends_the_turn_waits_for_the_result_or_the_next_call() {
        let mut calls = Calls::default();
        start(&mut calls, "a", 1_000);
        assert_eq!(stop(&mut calls, 50, "end_turn"), Piece::Nothing);
        // A hook made it continue.
        assert_eq!(start(&mut calls, "b", 1_000), Piece::Report);
    }

    #[test]
    fn a_message_that_broke_off_is_not_counted() {
        let mut calls = Calls::default();
        start(&mut calls, "broken", 9_000);
        start(&mut calls, "a", 1_000);
        assert!(
            calls.on_record(
                &None,
                &json!({"id": "b", "model": "opus", "usage": {"input_tokens": 5},
            "content": [{"type": "tool_use"}]})
            ),
            "an answer that was not streamed"
        );
        assert_eq!(so_far(&mut calls), Some((5, 0)), "the stream of `a` broke off too");
    }

    #[test]
    fn sub_agents_count_at_once() {
        let mut calls = Calls::default();
        start(&mut calls, "a", 1_000);
        assert_eq!(stop(&mut calls, 50, "tool_use"), Piece::Report);
        assert!(calls.on_record(&Some("call".to_owned()), &message("sub", 400, 2)));
        assert_eq!(so_far(&mut calls), Some((1_400, 52)));
    }

    #[test]
    fn calls_are_priced_by_their_models() {
        let price = Price { input: 10.0, output: 100.0, cache_read: 1.0, cache_write: 20.0 };
        let mut calls = Calls::default();
        calls.set_prices(Prices::new(BTreeMap::from([("opus".to_owned(), price)]), None));
        let usage = json!({"input_tokens": 100_000, "output_tokens": 1_000,
            "cache_read_input_tokens": 1_000_000, "cache_creation_input_tokens": 50_000});
        calls.count("a", &json!({"id": "a", "model": "opus", "usage": usage}));
        assert!((calls.total().unwrap().cost_usd.unwrap() - 3.1).abs() < 1e-9);
        assert_eq!(calls.unpriced(), []);
        calls.count("b", &json!({"id": "b", "model": "haiku", "usage": usage}));
        assert_eq!(calls.total().unwrap().cost_usd, None, "absent is not zero");
        let haiku = AgentEvent::Unpriced { model: "haiku".to_owned() };
        assert_eq!((calls.unpriced(), calls.unpriced()), (vec![haiku], Vec::new()));
    }
}
