//! Whether a run is done, goes on or is over, once a process of its agent has ended.
//!
//! What is missing and what was found is told by others; nothing here looks for it. Evidence outranks how the process
//! ended: a result that was given stays given, whatever signal came after it. With a bridge, done is what the bridge
//! recorded, and nothing that the agent says besides. A run goes on in the same session, within bounds: so often in all,
//! and so often without progress. After an outage or a crash it pauses first, longer each time.

mod backoff;
mod decision;
mod ending;
mod evidence;

use std::time::Duration;

pub use backoff::FIRST_PAUSE;
pub use decision::{Cause, Decision, Reset, Until};
pub use ending::{Ending, Handed, Progress, Wall, Work};
pub use evidence::{Evidence, Grade, Marker};

use crate::agent::Exit;
use crate::bridge;
use crate::check::{self, Checked};
use crate::event::{Blocked, Failure, FailureClass, TurnOutcome};
use crate::failure::LimitKind;
use crate::outcome::{Limit, Rule, RunOutcome};
use crate::stopping::StopReason;
use crate::waiting::Reach;
use crate::watchdog::Limits;
use backoff::{Pause, pause};

/// Resumes in a row without progress. A third one has not been seen to help.
const FRUITLESS_RESUMES: u32 = 2;

/// Waits in a row, without progress, for a quota whose reset is known. More are a provider whose reset times are not
/// true: the longest wait that is allowed by default has room for three windows of five hours.
const MOST_WAITS: u32 = 5;

/// Waits in a row, without progress, for a quota whose reset is not known. By default `max_wait` comes first.
const MOST_BLIND_WAITS: u32 = 40;

/// Waits for a quota in one run, whatever came of them.
const MOST_WAITS_OF_A_RUN: u32 = 500;

/// What is added to every wait for a quota: clocks differ.
const LEAST_JITTER: Duration = Duration::from_secs(1);

/// Waits for the network in one run. More are a network that is only there when it is not needed.
const MOST_OUTAGES: u32 = 50;

/// The try from which a rejected key is not tried again: one may be a token that is being renewed.
const AUTH_TRIES: u32 = 2;

/// How long an agent that declared completion may take to end its turn by itself: its model has a last word. What it does
/// then changes nothing.
pub const AFTER_CLAIM: Duration = Duration::from_secs(30);

/// What is said of a process whose end nobody was told: only its guardian is.
const UNGUARDED: &str = "its guardian was ended from outside, and it was ended with it";

/// What is missing if the agent never said that it was done.
const NO_MARKER: &str = "the agent's own word that it is done";

/// How far a run may go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// Resumes in all.
    pub max_resumes: u32,
    /// The first pause before a resume after an outage or a crash. Later ones are multiples of it.
    pub resume_pause: Duration,
    /// What is done about a used-up quota.
    pub quota: OnQuota,
    /// The limits of the run, to name them.
    pub limits: Limits,
}

/// What is done about a used-up quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnQuota {
    /// The run ends.
    Report,
    /// It waits until the quota is there again.
    Wait,
}

/// Decides about one run, from one end of a process to the next.
#[derive(Debug, Clone)]
pub struct Completion {
    policy: Policy,
    resumes: u32,
    fruitless: u32,
    /// Failures of the provider and crashes in a row, without progress.
    failures: u32,
    /// Waits for a quota in a row, without progress.
    waits: u32,
    all_waits: u32,
    outages: u32,
}

impl Completion {
    /// For a run that was not resumed yet.
    pub fn new(policy: Policy) -> Self {
        Self { policy, resumes: 0, fruitless: 0, failures: 0, waits: 0, all_waits: 0, outages: 0 }
    }

    /// How often the session was resumed, waits for a quota or the network left out.
    pub fn resumes(&self) -> u32 {
        self.resumes
    }

    /// What becomes of the run. Always comes to an end: resumes and waits are counted.
    pub fn decide(&mut self, ending: &Ending<'_>) -> Decision {
        match ending.lost {
            None => self.decide_by_evidence(ending),
            // Nothing is counted: no process follows.
            Some(lost) => match self.clone().decide_by_evidence(ending) {
                Decision::Complete { .. } | Decision::Park { .. } => incomplete(lost, Vec::new()),
                Decision::Resume { missing, .. } => incomplete(lost, missing),
                over @ Decision::Outcome(_) => over,
            },
        }
    }

    fn decide_by_evidence(&mut self, ending: &Ending<'_>) -> Decision {
        match ending.progress {
            Progress::Made => (self.fruitless, self.failures, self.waits) = (0, 0, 0),
            Progress::None => {}
        }
        if ending.is_proven() {
            return Decision::Complete { evidence: ending.evidence() };
        }
        match (ending.stop, ending.turn) {
            (Some(StopReason::Cancelled { by }), _) => Decision::Outcome(RunOutcome::Cancelled { by: *by }),
            (Some(StopReason::Blocked { dialog }), _) => {
                Decision::Outcome(RunOutcome::Blocked { dialog: dialog.clone() })
            }
            (Some(StopReason::Failed { failure }), _) => self.failed(failure, ending),
            (
                Some(
                    StopReason::Exited
                    | StopReason::Completed
                    | StopReason::Rule { .. }
                    | StopReason::Limit { .. },
                )
                | None,
                turn,
            ) => match turn {
                Some(TurnOutcome::Done { .. }) => self.claimed(ending),
                Some(TurnOutcome::Failed(_) | TurnOutcome::Interrupted | TurnOutcome::Called) | None => {
                    self.not_done(ending)
                }
            },
        }
    }

    /// What becomes of a run that would be complete, now that the host has tried it itself.
    pub fn checked(&mut self, ending: &Ending<'_>, checks: &[Checked]) -> Decision {
        let failed = || checks.iter().filter(|check| !check.passed);
        let missing: Vec<String> = failed().map(Checked::missing).collect();
        if let Some(lost) = ending.lost {
            return incomplete(lost, missing);
        }
        if missing.is_empty() {
            let evidence = checks.iter().map(Checked::evidence).chain(ending.evidence()).collect();
            return Decision::Complete { evidence };
        }
        match self.unfinished(ending, missing) {
            Decision::Resume { missing, cause, .. } => {
                let declare = ending.bridge.map(|handed| handed.tools.declare.as_str());
                Decision::Resume { prompt: check::going_on(failed(), declare), missing, cause }
            }
            over => over,
        }
    }

    /// The agent says that it is done.
    fn claimed(&mut self, ending: &Ending<'_>) -> Decision {
        let missing = ending.missing();
        if missing.is_empty() {
            Decision::Complete { evidence: ending.evidence() }
        } else {
            self.unfinished(ending, missing)
        }
    }

    /// The agent did not say that it is done: why it was stopped comes before what it said when it was.
    fn not_done(&mut self, ending: &Ending<'_>) -> Decision {
        match ending.stop {
            Some(StopReason::Rule { rule }) => match rule {
                Rule::Start | Rule::Silence => match ending.retrying {
                    // It is not stuck: it waits for a provider that fails, and some agents wait for hours.
                    Some(failure) if is_of_the_provider(failure) => self.failed(failure, ending),
                    Some(_) | None if *rule == Rule::Silence => self.stalled(ending),
                    Some(_) | None => Decision::Outcome(stalled(*rule, ending)),
                },
                Rule::OpenCall | Rule::Loop => Decision::Outcome(stalled(*rule, ending)),
                Rule::Ceiling => timed_out(Limit::Ceiling { time: self.policy.limits.ceiling }),
                Rule::MaxWait => timed_out(Limit::MaxWait { time: self.policy.limits.max_wait }),
                // These end a process that was over anyway.
                Rule::AfterResult | Rule::AfterExit => self.ended_by_itself(ending),
            },
            Some(StopReason::Limit { limit }) => forbidden(*limit, ending),
            Some(
                StopReason::Exited
                | StopReason::Completed
                | StopReason::Cancelled { .. }
                | StopReason::Blocked { .. }
                | StopReason::Failed { .. },
            )
            | None => self.ended_by_itself(ending),
        }
    }

    fn ended_by_itself(&mut self, ending: &Ending<'_>) -> Decision {
        match (ending.turn, ending.exit, ending.marker) {
            (Some(TurnOutcome::Failed(failure)), _, _) => self.failed(failure, ending),
            (None, Some(Exit::Code(0)), Marker::ExitCode) => self.claimed(ending),
            (None, Some(Exit::Code(code)), _) if code != 0 => {
                self.crashed(format!("it exited with code {code}"), ending)
            }
            (None, Some(Exit::Signal(signal)), _) => {
                self.crashed(format!("it was ended by signal {signal}"), ending)
            }
            // Whoever killed it does not want it to be started again.
            (Some(TurnOutcome::Interrupted | TurnOutcome::Called) | None, None, _) => {
                self.crashed(UNGUARDED.to_owned(), ending)
            }
            (
                Some(TurnOutcome::Done { .. } | TurnOutcome::Interrupted | TurnOutcome::Called) | None,
                _,
                _,
            ) => {
                // At a bridge the word that counts is among what is missing there.
                let word = ending.bridge.is_none().then(|| NO_MARKER.to_owned());
                let missing = word.into_iter().chain(ending.missing()).collect();
                self.unfinished(ending, missing)
            }
        }
    }

    fn failed(&mut self, failure: &Failure, ending: &Ending<'_>) -> Decision {
        match failure.class {
            FailureClass::Quota => self.out_of_quota(failure, ending),
            FailureClass::Limit => match ending.forbidden {
                Some(limit) => forbidden(limit, ending),
                None => agent_failed(failure),
            },
            FailureClass::Provider => match self.offline(ending) {
                Some(decision) => decision,
                None => self.after_outage(failure, ending),
            },
            FailureClass::Overloaded => self.after_outage(failure, ending),
            FailureClass::Crashed if ending.is_killed() => self.after_outage(failure, ending),
            FailureClass::Auth | FailureClass::Model | FailureClass::Crashed | FailureClass::Unknown => {
                agent_failed(failure)
            }
        }
    }

    fn crashed(&mut self, detail: String, ending: &Ending<'_>) -> Decision {
        let failure = Failure { class: FailureClass::Crashed, detail, resets_at: None, cut_short: None };
        self.failed(&failure, ending)
    }

    /// Pauses, then resumes the session: an outage may pass, and another process may find more memory. Such a resume is
    /// counted like any other.
    fn after_outage(&mut self, failure: &Failure, ending: &Ending<'_>) -> Decision {
        let wait = pause(Pause::Outage, self.policy.resume_pause, self.failures, ending.wall.jitter);
        let may_go_on = ending.can_go_on()
            && self.resumes < self.policy.max_resumes
            && ending.forbidden.is_none()
            && wait <= ending.wall.patience;
        if !may_go_on {
            return match ending.unknown_cost.filter(|_| ending.forbidden.is_some()) {
                Some(why) => {
                    let detail = format!("{}; not resumed: {why}", failure.detail);
                    agent_failed(&Failure { detail, ..failure.clone() })
                }
                None => agent_failed(failure),
            };
        }
        self.resumes += 1;
        self.failures = self.failures.saturating_add(1);
        let until = Until::Outage { wait, class: failure.class, detail: failure.detail.clone() };
        Decision::Park { until, prompt: prompt(Cause::Environment, &[]) }
    }

    /// Waits, if that is wanted and not too long: until the reset, or for a pause that grows if that is not known.
    fn out_of_quota(&mut self, failure: &Failure, ending: &Ending<'_>) -> Decision {
        let over = RunOutcome::Quota { resets_at: failure.resets_at, detail: failure.detail.clone() };
        if self.policy.quota == OnQuota::Report || !ending.can_go_on() {
            return Decision::Outcome(over);
        }
        let (wait, reset, most) = match failure.resets_at {
            Some(resets_at) => (until_reset(resets_at, ending.wall), Reset::Known, MOST_WAITS),
            None => {
                let (first, jitter) = (self.policy.resume_pause, ending.wall.jitter);
                (pause(Pause::RateLimit, first, self.waits, jitter), Reset::Unknown, MOST_BLIND_WAITS)
            }
        };
        if wait > ending.wall.patience || self.waits >= most || self.all_waits >= MOST_WAITS_OF_A_RUN {
            return Decision::Outcome(over);
        }
        if let Some(limit) = ending.forbidden {
            return forbidden(limit, ending);
        }
        self.waits += 1;
        self.all_waits += 1;
        let limit = LimitKind::of(&failure.detail);
        Decision::Park { until: Until::Quota { wait, reset, limit }, prompt: prompt(Cause::Environment, &[]) }
    }

    /// Waits for the network if it is unreachable: that does not count as a resume. A run that may not be resumed
    /// does not wait for it either.
    fn offline(&mut self, ending: &Ending<'_>) -> Option<Decision> {
        match ending.reach {
            Reach::Unknown | Reach::Reachable => return None,
            Reach::Unreachable => {}
        }
        ending.session?;
        if self.outages >= MOST_OUTAGES || self.policy.max_resumes == 0 {
            return None;
        }
        if let Some(limit) = ending.forbidden {
            return Some(forbidden(limit, ending));
        }
        self.outages += 1;
        let until = Until::Reachable { patience: ending.wall.patience };
        Some(Decision::Park { until, prompt: prompt(Cause::Environment, &[]) })
    }

    fn stalled(&mut self, ending: &Ending<'_>) -> Decision {
        if let Some(parked) = self.offline(ending) {
            return parked;
        }
        self.resume(ending, Cause::Environment, Vec::new(), stalled(Rule::Silence, ending))
    }

    fn unfinished(&mut self, ending: &Ending<'_>, missing: Vec<String>) -> Decision {
        let over = RunOutcome::Incomplete { missing: missing.clone() };
        self.resume(ending, Cause::Unfinished, missing, over)
    }

    /// Resumes the session if it can and may, else the run is over.
    fn resume(
        &mut self,
        ending: &Ending<'_>,
        cause: Cause,
        missing: Vec<String>,
        over: RunOutcome,
    ) -> Decision {
        if ending.session.is_none() || self.resumes >= self.policy.max_resumes {
            return Decision::Outcome(over);
        }
        match (ending.forbidden, cause) {
            // What may not be resumed is still what it was.
            (Some(_), Cause::Environment | Cause::Said) => return Decision::Outcome(over),
            (Some(limit), Cause::Unfinished) => return forbidden(limit, ending),
            (None, _) => {}
        }
        match cause {
            Cause::Unfinished if self.fruitless >= FRUITLESS_RESUMES => return Decision::Outcome(over),
            Cause::Unfinished => self.fruitless += 1,
            Cause::Environment | Cause::Said => {}
        }
        self.resumes += 1;
        let prompt = match (cause, ending.bridge) {
            (Cause::Unfinished, Some(Handed { standing, tools })) => {
                bridge::going_on(tools, standing, ending.missing)
            }
            (Cause::Unfinished | Cause::Environment | Cause::Said, _) => prompt(cause, &missing),
        };
        Decision::Resume { prompt, missing, cause }
    }
}

/// Whether it matters, after such an end, that the provider can be reached.
pub fn is_in_doubt(turn: Option<&TurnOutcome>, stop: Option<&StopReason>) -> bool {
    match (turn, stop) {
        (Some(TurnOutcome::Done { .. }), _) => false,
        (Some(TurnOutcome::Failed(failure)), None | Some(StopReason::Exited)) => {
            failure.class == FailureClass::Provider
        }
        (_, Some(StopReason::Rule { rule: Rule::Silence })) => true,
        (
            Some(TurnOutcome::Failed(failure)),
            Some(StopReason::Rule { rule: Rule::AfterResult | Rule::AfterExit }),
        ) => failure.class == FailureClass::Provider,
        (Some(TurnOutcome::Failed(_) | TurnOutcome::Interrupted | TurnOutcome::Called) | None, _) => false,
    }
}

/// Why an agent that waits for its provider should not be waited for: a key that was rejected twice will not be taken
/// the third time.
pub fn hopeless(blocked: &Blocked) -> Option<StopReason> {
    match blocked {
        Blocked::Retrying { attempt, reason, class: FailureClass::Auth, .. } if *attempt >= AUTH_TRIES => {
            let failure = Failure {
                class: FailureClass::Auth,
                detail: reason.clone(),
                resets_at: None,
                cut_short: None,
            };
            Some(StopReason::Failed { failure })
        }
        Blocked::Retrying { .. }
        | Blocked::Permission { .. }
        | Blocked::Question { .. }
        | Blocked::Dialog { .. }
        | Blocked::Denied { .. }
        | Blocked::Routed { .. }
        | Blocked::Withdrawn { .. } => None,
    }
}

fn agent_failed(failure: &Failure) -> Decision {
    let (class, detail) = (failure.class, failure.detail.clone());
    Decision::Outcome(RunOutcome::AgentFailed { class, detail })
}

/// Whether a failure is the provider's, so that a later request may be answered.
fn is_of_the_provider(failure: &Failure) -> bool {
    match failure.class {
        FailureClass::Quota | FailureClass::Overloaded | FailureClass::Provider => true,
        FailureClass::Auth
        | FailureClass::Model
        | FailureClass::Crashed
        | FailureClass::Limit
        | FailureClass::Unknown => false,
    }
}

/// How long it is until then, with a little more: clocks differ, and many come back at that second.
fn until_reset(resets_at: i64, wall: Wall) -> Duration {
    let until_reset = u64::try_from(resets_at.saturating_sub(wall.now)).unwrap_or(0);
    let until_reset = Duration::from_secs(until_reset);
    // A long pause does not follow a short one.
    let jitter = match until_reset {
        Duration::ZERO => wall.jitter,
        time => wall.jitter.min(LEAST_JITTER.saturating_add(time / 2)),
    };
    until_reset.saturating_add(jitter)
}

fn timed_out(limit: Limit) -> Decision {
    Decision::Outcome(RunOutcome::TimedOut { limit })
}

/// A limit forbids another turn. One on costs that may be reached or not is not called used up.
fn forbidden(limit: Limit, ending: &Ending<'_>) -> Decision {
    match (limit, ending.unknown_cost) {
        (Limit::MaxCost { .. }, Some(why)) => {
            let (class, detail) = (FailureClass::Limit, why.to_owned());
            Decision::Outcome(RunOutcome::AgentFailed { class, detail })
        }
        (
            Limit::MaxCost { .. }
            | Limit::MaxTokens { .. }
            | Limit::MaxTurns { .. }
            | Limit::Ceiling { .. }
            | Limit::MaxWait { .. },
            _,
        ) => timed_out(limit),
    }
}

/// An agent that repeats itself is not quiet: what was found when it last was says nothing.
fn stalled(rule: Rule, ending: &Ending<'_>) -> RunOutcome {
    let cause = ending.cause.filter(|_| rule != Rule::Loop).cloned();
    RunOutcome::Stalled { rule, quiet: ending.quiet, cause }
}

/// A run that lost what no resume can bring back.
fn incomplete(lost: &str, missing: Vec<String>) -> Decision {
    let missing = std::iter::once(lost.to_owned()).chain(missing).collect();
    Decision::Outcome(RunOutcome::Incomplete { missing })
}

/// What a session is resumed with that was cut off.
pub const CUT_OFF: &str = "You were cut off before you finished. Go on where you stopped.";

/// What a session is resumed with. Short: the session knows its task.
fn prompt(cause: Cause, missing: &[String]) -> String {
    match cause {
        Cause::Environment | Cause::Said => CUT_OFF.to_owned(),
        Cause::Unfinished => {
            let list: String = missing.iter().map(|item| format!("\n- {item}")).collect();
            format!("You stopped before finishing. Still missing:{list}\nGo on, and finish the task.")
        }
    }
}

#[cfg(test)]
#[path = "completion_tests.rs"]
mod tests;
