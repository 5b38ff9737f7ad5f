//! Metrics of the gateway, in the text format of Prometheus. The number of series is bounded: agents are those that are
//! served, keys are the first that are used, every other label has a fixed set of values. No label holds a secret, a
//! prompt or a path that a client chose.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ostler_agent::event::{AgentEvent, TurnOutcome, Usage};
use ostler_agent::leasing::Terms;
use ostler_agent::offering;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{
    CounterVec, Error, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};
use tokio::time::Instant;

use crate::live::Phase;
use crate::pool::{StartKind, TurnError};

/// How many keys have a label of their own. All further ones share [`OTHER`].
const LABELLED_KEYS: usize = 64;

const OTHER: &str = "other";

/// The label where there is no key, or no session was started.
const NONE: &str = "none";

const REQUEST_SECONDS: [f64; 10] = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];
const FIRST_TOKEN_SECONDS: [f64; 10] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];
const TURN_SECONDS: [f64; 12] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_200.0, 3_600.0];

/// All metrics that are counted as things happen. What can be looked up is added when they are read.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: HistogramVec,
    refusals: IntCounterVec,
    turns: IntCounterVec,
    turn_seconds: HistogramVec,
    first_token_seconds: HistogramVec,
    tokens: IntCounterVec,
    cost: CounterVec,
    queue_depth: IntGaugeVec,
    queue_wait: HistogramVec,
    keys: RwLock<BTreeSet<String>>,
}

impl Metrics {
    /// Empty ones, for these agents.
    pub(crate) fn new<'a>(agents: impl IntoIterator<Item = &'a str>) -> Result<Self, Error> {
        let registry = Registry::new();
        let histogram = |name: &str, help: &str, labels: &[&str], buckets: &[f64]| {
            let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
            register(&registry, HistogramVec::new(options, labels)?)
        };
        let counter = |name: &str, help: &str, labels: &[&str]| {
            register(&registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let (agent, started) = (&["agent"], &["agent", "start"]);
        let metrics = Self {
            requests: histogram(
                "ostler_http_request_seconds",
                "Time until an answer began.",
                &["method", "route", "status"],
                &REQUEST_SECONDS,
            )?,
            refusals: counter(
                "ostler_refusals_total",
                "Requests that the gateway refused.",
                &["key", "reason"],
            )?,
            turns: counter(
                "ostler_turns_total",
                "Turns that ended, by how their session was started.",
                &["agent", "key", "outcome", "start"],
            )?,
            turn_seconds: histogram(
                "ostler_turn_seconds",
                "Time from a request for a turn to its end.",
                started,
                &TURN_SECONDS,
            )?,
            first_token_seconds: histogram(
                "ostler_first_token_seconds",
                "Time from a request for a turn to the first text or tool call of its answer.",
                started,
                &FIRST_TOKEN_SECONDS,
            )?,
            tokens: counter(
                "ostler_tokens_total",
                "Tokens that agents reported; input excludes cached_input.",
                &["agent", "key", "kind"],
            )?,
            cost: register(
                &registry,
                CounterVec::new(
                    Opts::new("ostler_cost_usd_total", "Cost that agents reported, in US dollars."),
                    &["agent", "key"],
                )?,
            )?,
            queue_depth: register(
                &registry,
                IntGaugeVec::new(
                    Opts::new("ostler_queue_depth", "Turns that wait for a session now."),
                    agent,
                )?,
            )?,
            queue_wait: histogram(
                "ostler_queue_wait_seconds",
                "Time that a turn waited for a session.",
                agent,
                &REQUEST_SECONDS,
            )?,
            keys: RwLock::default(),
            registry,
        };
        for agent in agents {
            // Present from the start, so that a rate of it is known as soon as the first turn waits.
            metrics.queue_depth.with_label_values(&[agent]);
            metrics.queue_wait.with_label_values(&[agent]);
        }
        Ok(metrics)
    }

    /// Counts a response. `route` is one of ours, never the path that the client sent.
    pub(crate) fn answered(&self, method: &str, route: &str, status: &str, took: Duration) {
        self.requests.with_label_values(&[method, route, status]).observe(took.as_secs_f64());
    }

    /// Counts a request that was refused, for one of a fixed set of reasons.
    pub(crate) fn refused(&self, key: Option<&str>, reason: &str) {
        let key = key.map_or(NONE, |key| self.label(key));
        self.refusals.with_label_values(&[key, reason]).inc();
    }

    /// A turn that waits for a session, until this is dropped.
    pub(crate) fn queue(&self, agent: &str) -> Queued {
        let depth = self.queue_depth.with_label_values(&[agent]);
        depth.inc();
        Queued(depth)
    }

    /// All of them and `current`, in the text format.
    pub(crate) fn text(&self, current: Vec<MetricFamily>) -> Result<String, Error> {
        let mut families = self.registry.gather();
        families.extend(current);
        families.sort_by(|one, other| one.name().cmp(other.name()));
        TextEncoder::new().encode_to_string(&families)
    }

    fn label<'a>(&self, key: &'a str) -> &'a str {
        // Nothing under the lock can panic half-way.
        if self.keys.read().unwrap_or_else(PoisonError::into_inner).contains(key) {
            return key;
        }
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= LABELLED_KEYS && !keys.contains(key) {
            return OTHER;
        }
        keys.insert(key.to_owned());
        key
    }

    fn spend(&self, terms: &Terms, usage: &Usage) {
        let (agent, key) = (agent_label(terms), self.label(&terms.tenant));
        let cached = usage.cached_tokens.unwrap_or(0);
        let input = usage.input_tokens.unwrap_or(0).saturating_sub(cached);
        let output = usage.output_tokens.unwrap_or(0);
        for (kind, count) in [("input", input), ("cached_input", cached), ("output", output)] {
            if count > 0 {
                self.tokens.with_label_values(&[agent, key, kind]).inc_by(count);
            }
        }
        // A counter never falls, whatever an agent reports.
        if let Some(cost) = usage.cost_usd.filter(|cost| *cost > 0.0 && cost.is_finite()) {
            self.cost.with_label_values(&[agent, key]).inc_by(cost);
        }
    }
}

/// An agent as requests name it: by its program.
fn agent_label(terms: &Terms) -> &str {
    terms.agent.trim_end_matches("-headless")
}

fn register<T: Collector + Clone + 'static>(registry: &Registry, metric: T) -> Result<T, Error> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

/// Figures that are looked up when they are read: each with its labels and its values.
pub(crate) struct Gauges(Registry);

impl Gauges {
    pub(crate) fn new() -> Self {
        Self(Registry::new())
    }

    pub(crate) fn add<'a>(
        &self,
        (name, help): (&str, &str),
        labels: &[&str],
        values: impl IntoIterator<Item = (Vec<&'a str>, u64)>,
    ) -> Result<(), Error> {
        let gauge = register(&self.0, IntGaugeVec::new(Opts::new(name, help), labels)?)?;
        for (labels, value) in values {
            gauge.with_label_values(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        Ok(())
    }

    pub(crate) fn gather(&self) -> Vec<MetricFamily> {
        self.0.gather()
    }
}

/// A turn that waits for a session.
#[derive(Debug)]
pub(crate) struct Queued(IntGauge);

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Measures one turn.
#[derive(Debug)]
pub(crate) struct TurnMeter<'a> {
    metrics: Option<Arc<Metrics>>,
    terms: &'a Terms,
    began: Instant,
    waited: Option<Duration>,
    start: Option<StartKind>,
    first_token: Option<Duration>,
    /// Usage that was reported for the calls of the turn so far, and not yet for the turn.
    running: Usage,
    outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    ToolCalls,
    Interrupted,
    Failed,
    Refused,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::ToolCalls => "tool_calls",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

impl<'a> TurnMeter<'a> {
    /// Begins to measure. Without metrics it counts nothing.
    pub(crate) fn begin(metrics: Option<&Arc<Metrics>>, terms: &'a Terms) -> Self {
        Self {
            metrics: metrics.cloned(),
            terms,
            began: Instant::now(),
            waited: None,
            start: None,
            first_token: None,
            running: Usage::default(),
            outcome: Outcome::Interrupted,
        }
    }

    /// The turn waits for a session, until what is returned is dropped.
    pub(crate) fn queue(&self) -> Option<Queued> {
        Some(self.metrics.as_ref()?.queue(agent_label(self.terms)))
    }

    /// The turn waited so long for a session.
    pub(crate) fn waited(&mut self, wait: Duration) {
        self.waited = Some(self.waited.unwrap_or_default() + wait);
    }

    /// The turn has a session.
    pub(crate) fn leased(&mut self, start: StartKind) {
        self.start = Some(start);
    }

    /// The agent reported something.
    pub(crate) fn on_event(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Said { text, within: None, .. } if !text.is_empty() => self.on_answer(),
            AgentEvent::ToolStarted { tool, within: None, .. } if offering::named(tool).is_some() => {
                self.on_answer();
            }
            AgentEvent::Spent(usage) => {
                self.running = Usage::default();
                self.spend(usage);
            }
            AgentEvent::SpentSoFar(usage) => self.running = *usage,
            AgentEvent::TurnEnded(outcome) => {
                self.outcome = match outcome {
                    TurnOutcome::Done { .. } => Outcome::Done,
                    TurnOutcome::Called => Outcome::ToolCalls,
                    TurnOutcome::Interrupted => Outcome::Interrupted,
                    TurnOutcome::Failed(_) => Outcome::Failed,
                };
            }
            _ => {}
        }
    }

    /// The turn has no end, for this reason.
    pub(crate) fn on_error(&mut self, error: &TurnError) {
        self.outcome = match error {
            TurnError::Unpaired(_) | TurnError::Refused(..) => Outcome::Refused,
            TurnError::Session(failure) => match failure.phase {
                Phase::Prompt | Phase::TooLong | Phase::Forbidden | Phase::Held => Outcome::Refused,
                Phase::Start | Phase::Ask | Phase::Answer => Outcome::Failed,
            },
            TurnError::BrokenOff(..) => Outcome::Interrupted,
            TurnError::TooLong(..) | TurnError::Blocked(_) | TurnError::Unwritable(_) => Outcome::Failed,
        };
    }

    fn on_answer(&mut self) {
        self.first_token.get_or_insert_with(|| self.began.elapsed());
    }

    fn spend(&self, usage: &Usage) {
        if let Some(metrics) = &self.metrics {
            metrics.spend(self.terms, usage);
        }
    }
}

impl TurnMeter<'_> {
    /// Counts the turn, once: a turn that is dropped before was interrupted.
    pub(crate) fn count(&mut self) {
        let Some(metrics) = self.metrics.take() else { return };
        // A turn that waits for the results of its calls reports all of its usage when it ends.
        if self.outcome != Outcome::ToolCalls {
            metrics.spend(self.terms, &self.running);
        }
        let agent = agent_label(self.terms);
        let start = self.start.map_or(NONE, StartKind::name);
        let key = metrics.label(&self.terms.tenant);
        metrics.turns.with_label_values(&[agent, key, self.outcome.name(), start]).inc();
        if let Some(waited) = self.waited {
            metrics.queue_wait.with_label_values(&[agent]).observe(waited.as_secs_f64());
        }
        if self.start.is_some() {
            let took = self.began.elapsed().as_secs_f64();
            metrics.turn_seconds.with_label_values(&[agent, start]).observe(took);
        }
        if let Some(first) = self.first_token {
            metrics.first_token_seconds.with_label_values(&[agent, start]).observe(first.as_secs_f64());
        }
    }
}

impl Drop for TurnMeter<'_> {
    fn drop(&mut self) {
        self.count();
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
