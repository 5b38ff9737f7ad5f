//! What the line at the bottom says of a run: who, for how long, at what, what it used, and what the watchdog thinks.
//!
//! The watchdog here is fed with the run's events, as `ostler runs why` does it: what is shown is what it goes by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anstyle::Style;
use ostler_agent::bridge::BridgeEvent;
use ostler_agent::budget::{Budget, Ledger};
use ostler_agent::event::AgentEvent;
use ostler_agent::outcome::Rule;
use ostler_agent::run_event::{RunEvent, RunEventKind};
use ostler_agent::watchdog::{Limits, State, Verdict, Watchdog};
use ostler_process::run::local_time;

use super::show::brief;
use crate::commands::runs::inputs;
use crate::display;
use crate::status_line::{Part, Words, fitted};
use crate::words::{roughly, whole};

const FAINT: Style = Style::new().dimmed();

/// Quiet for less than this is how agents think.
const WORTH_TELLING: Duration = Duration::from_secs(10);

/// How much is left of a limit that no life defers when that is told.
const NEAR_THE_CEILING: Duration = Duration::from_secs(300);

/// A call that is cut to less than this tells nothing.
const LEAST_CALL: usize = 12;

/// Whom the line is about.
pub(super) struct Who {
    /// The agent's name.
    pub(super) agent: String,
    /// Where it works.
    pub(super) workspace: String,
    /// Whether what it uses costs nothing.
    pub(super) is_rehearsed: bool,
    /// Whether somebody can answer its questions where the line is: then it makes room for what is typed.
    pub(super) is_answered_here: bool,
}

/// What has been heard of a run so far.
pub(super) struct Status {
    who: Who,
    dog: Watchdog,
    ledger: Ledger,
    calls: BTreeMap<String, String>,
    /// The first event's time: a run that goes on did not begin now.
    first: Option<Duration>,
    is_stopping: bool,
    is_over: bool,
    /// Questions to a person that are open.
    questions: BTreeSet<u64>,
    /// Until when the run waits, in seconds since 1970, where that is known.
    waits_until: Option<i64>,
}

impl Status {
    pub(super) fn new(who: Who, limits: Limits) -> Self {
        let (dog, ledger) = (Watchdog::new(limits), Ledger::new(Budget::default()));
        Self {
            who,
            dog,
            ledger,
            calls: BTreeMap::new(),
            first: None,
            is_stopping: false,
            is_over: false,
            questions: BTreeSet::new(),
            waits_until: None,
        }
    }

    /// Takes an event.
    pub(super) fn note(&mut self, event: &RunEvent) {
        let at = Duration::from_millis(event.ms);
        self.first.get_or_insert(at);
        for input in inputs(&event.kind) {
            // What it says is done by the run's own.
            let _ = self.dog.step(at, input);
        }
        match &event.kind {
            RunEventKind::Agent(said) => self.heard(said),
            RunEventKind::Spawned { .. } => {
                self.calls.clear();
                self.is_stopping = false;
            }
            RunEventKind::Bridge(BridgeEvent::Asked(question)) => {
                self.questions.insert(question.id);
            }
            RunEventKind::Bridge(BridgeEvent::Settled { question, .. }) => {
                self.questions.remove(question);
            }
            RunEventKind::Exited { .. } => self.questions.clear(),
            RunEventKind::Parked { until, .. } => self.waits_until = *until,
            RunEventKind::Unparked => self.waits_until = None,
            RunEventKind::Stopping { .. } => self.is_stopping = true,
            RunEventKind::Outcome(_) => self.is_over = true,
            _ => {}
        }
    }

    fn heard(&mut self, event: &AgentEvent) {
        // Nothing is limited here.
        let _ = self.ledger.enter(event);
        match event {
            AgentEvent::ToolStarted { call, tool, input, .. } => {
                let words = brief(tool, input, &self.who.workspace);
                self.calls.insert(call.clone(), words);
            }
            AgentEvent::ToolEnded { call, .. } => {
                self.calls.remove(call);
            }
            AgentEvent::TurnEnded(_) => self.calls.clear(),
            _ => {}
        }
    }

    /// The line, at a time since the run began; none once that is over. Begins with a space: that is where the cursor
    /// is.
    pub(super) fn line(&self, now: Duration, columns: usize) -> Option<String> {
        let is_typed = self.who.is_answered_here && !self.questions.is_empty();
        if self.is_over || is_typed {
            return None;
        }
        let verdict = self.dog.why(now);
        let elapsed = now.saturating_sub(self.first.unwrap_or(now));
        let part = |text: String, rank, least| Part { text, rank, least };
        let mut parts = vec![
            part(self.who.agent.clone(), 0, Some(1)),
            part(whole(elapsed), 1, None),
            part(self.doing(&verdict), 3, Some(LEAST_CALL)),
        ];
        let spent = self.ledger.spent().unwrap_or_default();
        let tokens = spent.input_tokens.unwrap_or(0).saturating_add(spent.output_tokens.unwrap_or(0));
        if tokens > 0 {
            parts.push(part(format!("{} tokens", roughly(tokens)), 4, None));
        }
        if let Some(cost) = spent.cost_usd.filter(|_| !self.who.is_rehearsed) {
            parts.push(part(format!("${cost:.2}"), 5, None));
        }
        // A run that is being stopped is not watched any more, and a wait that ends by itself needs no limit.
        let ends_itself = verdict.state == State::Parked && self.waits_until.is_some();
        if let Some(told) = watched(&verdict).filter(|_| !self.is_stopping && !ends_itself) {
            parts.push(part(told, 2, None));
        }
        // The last column stays empty: some terminals go on to the next line when it is taken.
        let line = fitted(&parts, " · ", columns.saturating_sub(2));
        Some(format!(" {FAINT}{line}{FAINT:#}"))
    }

    fn doing(&self, verdict: &Verdict) -> String {
        if self.is_stopping {
            return "stopping".to_owned();
        }
        let oldest = verdict.open_calls.iter().min_by_key(|call| call.since);
        if let Some(call) = oldest {
            let words = self.calls.get(&call.call).unwrap_or(&call.tool);
            let more = match verdict.open_calls.len() {
                1 => String::new(),
                all => format!(" (+{})", all - 1),
            };
            return format!("{} {words}{more}", whole(verdict.at.saturating_sub(call.since)));
        }
        if let (State::Parked, Some(until)) = (verdict.state, self.waits_until) {
            return format!("waiting until {}", local_time(until));
        }
        match verdict.state {
            State::Absent => "between attempts",
            State::Starting => "starting",
            State::Working => "thinking",
            State::Waiting => "working in the background",
            State::Ending | State::Exited => "ending",
            State::Held => "somebody has its terminal",
            State::Parked => "waiting",
            State::Stopped => "stopping",
        }
        .to_owned()
    }
}

/// What the watchdog will do if nothing happens, once that is worth telling.
fn watched(verdict: &Verdict) -> Option<String> {
    let next = verdict.next?;
    let left = next.at.saturating_sub(verdict.at);
    match next.rule {
        Rule::Start | Rule::Silence | Rule::OpenCall => (verdict.quiet >= WORTH_TELLING).then(|| {
            let limit = verdict.quiet.saturating_add(left);
            format!("quiet {}, stops at {}", whole(verdict.quiet), whole(limit))
        }),
        Rule::Ceiling => (left <= NEAR_THE_CEILING).then(|| format!("stops in {}", whole(left))),
        Rule::MaxWait => Some(format!("for {} at most", whole(left))),
        Rule::Loop | Rule::AfterResult | Rule::AfterExit => None,
    }
}

/// A status that is told by one and shown by another.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<(Status, Option<Instant>)>>);

impl Shared {
    pub(super) fn new(status: Status) -> Self {
        Self(Arc::new(Mutex::new((status, None))))
    }

    /// Takes an event. Waits for nobody who prints: a line is made without printing it.
    pub(super) fn note(&self, event: &RunEvent) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        // The run has its own clock; this is when that began.
        inner.1.get_or_insert_with(|| now.checked_sub(Duration::from_millis(event.ms)).unwrap_or(now));
        inner.0.note(event);
    }

    /// What says the line as it is when asked. Nothing before the first event.
    pub(super) fn words(&self) -> Words {
        let shared = self.clone();
        Box::new(move |columns| {
            let inner = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
            let began = inner.1?;
            Some(display::styled(&inner.0.line(began.elapsed(), columns)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use ostler_agent::event::{Part as Piece, ToolResult, Usage};
    use serde_json::json;

    use super::*;

    fn status(rehearsed: bool) -> Status {
        let (agent, workspace) = ("codex".to_owned(), "/w".to_owned());
        let who = Who { agent, workspace, is_rehearsed: rehearsed, is_answered_here: false };
        Status::new(who, Limits::default())
    }

    fn tell(status: &mut Status, ms: u64, kind: RunEventKind) {
        status.note(&RunEvent { seq: 1, ms, kind });
    }

    fn spawned() -> RunEventKind {
        RunEventKind::Spawned { pid: 1, attempt: 1, containment: String::new(), command: String::new() }
    }

    fn said() -> RunEventKind {
        RunEventKind::Agent(AgentEvent::Said { text: "x".to_owned(), part: Piece::Delta, within: None })
    }

    fn opened(call: &str, command: &str) -> RunEventKind {
        let (call, tool, input) = (call.to_owned(), "Bash".to_owned(), json!({"command": command}));
        RunEventKind::Agent(AgentEvent::ToolStarted { call, tool, input, within: None })
    }

    fn line(status: &Status, seconds: u64, columns: usize) -> String {
        let line = status.line(Duration::from_secs(seconds), columns).unwrap();
        let bare = anstream::adapter::strip_str(&line).to_string();
        assert!(crate::words::width(&bare) < columns, "{bare:?} in {columns}");
        bare
    }

    #[test]
    fn it_says_what_is_going_on_and_what_comes_next() {
        let mut status = status(false);
        tell(&mut status, 0, spawned());
        assert_eq!(line(&status, 3, 80), " codex · 3s · starting");
        tell(&mut status, 4_000, said());
        assert_eq!(line(&status, 5, 80), " codex · 5s · thinking");
        assert_eq!(line(&status, 44, 80), " codex · 44s · thinking · quiet 40s, stops at 6m");
        tell(&mut status, 50_000, opened("a", "npm test\n -- --all"));
        tell(&mut status, 51_000, opened("b", "ls /w/src"));
        let spent = Usage {
            input_tokens: Some(66_000),
            output_tokens: Some(181),
            cost_usd: Some(0.333),
            ..Usage::default()
        };
        tell(&mut status, 52_000, RunEventKind::Agent(AgentEvent::Spent(spent)));
        assert_eq!(
            line(&status, 82, 100),
            " codex · 1m22s · 32s Bash npm test -- --all (+1) · 66k tokens · $0.33 · quiet 30s, stops at 30m"
        );
        assert_eq!(line(&status, 82, 60), " codex · 1m22s · 32s Bash npm te… · quiet 30s, stops at 30m");
        assert_eq!(line(&status, 82, 30), " codex · 1m22s · 32s Bash np…");
        assert_eq!(line(&status, 82, 12), " codex");
        let result = ToolResult { failed: false, exit_code: None, text: String::new() };
        for call in ["a", "b"] {
            let (call, result) = (call.to_owned(), result.clone());
            tell(&mut status, 83_000, RunEventKind::Agent(AgentEvent::ToolEnded { call, result }));
        }
        assert_eq!(line(&status, 84, 80), " codex · 1m24s · thinking · 66k tokens · $0.33");
        let (rung, reason) = ("int".to_owned(), "cancelled".to_owned());
        tell(&mut status, 84_000, RunEventKind::Stopping { rung, reason });
        assert_eq!(line(&status, 184, 80), " codex · 3m04s · stopping · 66k tokens · $0.33");
        tell(&mut status, 85_000, RunEventKind::Outcome(json!({})));
        assert_eq!(status.line(Duration::from_secs(85), 80), None);
    }

    #[test]
    fn what_a_rehearsal_would_cost_is_not_told() {
        let mut status = status(true);
        tell(&mut status, 0, spawned());
        let spent = Usage { input_tokens: Some(10), cost_usd: Some(1.0), ..Usage::default() };
        tell(&mut status, 0, RunEventKind::Agent(AgentEvent::Spent(spent)));
        assert_eq!(line(&status, 1, 80), " codex · 1s · thinking · 10 tokens");
    }

    #[test]
    fn a_run_that_goes_on_counts_from_where_it_goes_on() {
        let mut status = status(false);
        tell(&mut status, 3_600_000, spawned());
        assert_eq!(line(&status, 3_605, 80), " codex · 5s · starting");
    }

    #[test]
    fn the_ceiling_and_a_wait_are_told() {
        let mut status = status(false);
        tell(&mut status, 0, spawned());
        for minute in 1..60 {
            tell(&mut status, minute * 60_000, said());
        }
        assert_eq!(line(&status, 59 * 60, 80), " codex · 59m · thinking · stops in 1m");
        tell(&mut status, 59 * 60_000, RunEventKind::Parked { reason: String::new(), until: None });
        assert_eq!(line(&status, 59 * 60 + 1, 80), " codex · 59m01s · waiting · for 11h59m at most");
        let (reason, until) = (String::new(), Some(1_794_955_477));
        tell(&mut status, 59 * 60_000, RunEventKind::Parked { reason, until });
        let told = line(&status, 59 * 60 + 1, 80);
        assert!(told.starts_with(" codex · 59m01s · waiting until ") && !told.contains("at most"), "{told}");
        tell(&mut status, 59 * 60_000, RunEventKind::Unparked);
        assert!(!line(&status, 59 * 60 + 1, 80).contains("waiting"));
    }
}
