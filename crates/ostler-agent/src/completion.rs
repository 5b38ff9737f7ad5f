//! Whether a run is done, goes on or is over, once a process of its agent has ended.
//!
//! What is missing and what was found is told by others; nothing here looks for it. Evidence outranks how the process
//! ended: a result that was given stays given, whatever signal came after it. With a bridge, done is what the bridge
//! recorded, and nothing that the agent says besides. A run goes on in the same session, within bounds: so often in all,
//! and so often without progress.

mod evidence;

use std::time::Duration;

pub use evidence::{Evidence, Grade, Marker};

use crate::agent::Exit;
use crate::bridge::{self, Tools};
use crate::check::{self, Checked};
use crate::event::{Blocked, Failure, FailureClass, TurnOutcome};
use crate::outcome::{Limit, Rule, RunOutcome};
use crate::standing::Standing;
use crate::stopping::StopReason;
use crate::waiting::Reach;
use crate::watchdog::Limits;

/// Resumes in a row without progress. A third one has not been seen to help.
const FRUITLESS_RESUMES: u32 = 2;

/// Waits for a quota in one run. More are a provider whose reset times are not true: the longest wait that is allowed
/// by default has room for three windows of five hours.
const MOST_WAITS: u32 = 5;

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

/// How a process of the agent ended, and what is known then.
#[derive(Debug, Clone, Copy)]
pub struct Ending<'a> {
    /// How the last turn ended, if no further one began.
    pub turn: Option<&'a TurnOutcome>,
    /// How this agent says that it is done.
    pub marker: Marker,
    /// How the process ended. None if its guardian was ended before it.
    pub exit: Option<Exit>,
    /// Why it was stopped, if it was.
    pub stop: Option<&'a StopReason>,
    /// The agent's id of the session, without which nothing can be resumed.
    pub session: Option<&'a str>,
    /// Whether it got on since the last decision.
    pub progress: Progress,
    /// What is required and was not found.
    pub missing: &'a [String],
    /// What was found besides the agent's own word.
    pub found: &'a [Evidence],
    /// What was handed over at the bridge, if the agent has one.
    pub bridge: Option<Handed<'a>>,
    /// The budget that forbids another turn.
    pub forbidden: Option<Limit>,
    /// Whether the provider can be reached from here, where the end leaves that in doubt.
    pub reach: Reach,
    /// How long nothing was heard.
    pub quiet: Duration,
    /// The time on the wall.
    pub wall: Wall,
}

/// What was handed over at the bridge.
#[derive(Debug, Clone, Copy)]
pub struct Handed<'a> {
    /// What is in, and what is not.
    pub standing: &'a Standing,
    /// What the agent's tools are called.
    pub tools: &'a Tools,
}

impl Ending<'_> {
    /// What shows how far the agent came, the best first.
    pub fn evidence(&self) -> Vec<Evidence> {
        let handed = self.bridge.map(|handed| handed.standing.evidence()).unwrap_or_default();
        let is_done = match (self.turn, self.exit, self.marker) {
            (Some(TurnOutcome::Done { .. }), _, _) => true,
            (None, Some(Exit::Code(0)), Marker::ExitCode) => self.stop.is_none_or(is_by_itself),
            (Some(TurnOutcome::Failed(_) | TurnOutcome::Interrupted | TurnOutcome::Called) | None, _, _) => {
                false
            }
        };
        let word = is_done.then(|| self.marker.evidence());
        let mut evidence: Vec<Evidence> =
            handed.into_iter().chain(word).chain(self.found.iter().cloned()).collect();
        evidence.sort_by_key(|evidence| std::cmp::Reverse(evidence.grade));
        evidence
    }

    /// All that is missing, for people.
    fn missing(&self) -> Vec<String> {
        let handed = self.bridge.map(|handed| handed.standing.missing_to_complete()).unwrap_or_default();
        handed.into_iter().chain(self.missing.iter().cloned()).collect()
    }

    /// Whether the bridge has recorded, in this run, all that makes it complete.
    fn is_proven(&self) -> bool {
        self.bridge.is_some() && self.missing().is_empty()
    }
}

/// Whether a process that was stopped for this had ended by itself.
fn is_by_itself(reason: &StopReason) -> bool {
    matches!(reason, StopReason::Exited | StopReason::Rule { rule: Rule::AfterResult | Rule::AfterExit })
}

/// Whether an agent got on: a new artifact, a new receipt, a change in the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It did.
    Made,
    /// It did not.
    None,
}

/// The time on the wall, for waits that end at a time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wall {
    /// Seconds since 1970.
    pub now: i64,
    /// What is added at most to a time at which many will come back.
    pub jitter: Duration,
    /// How long the run may still be parked.
    pub patience: Duration,
}

/// What becomes of the run.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Decision {
    /// It is done, and this shows it.
    Complete {
        /// The best first.
        evidence: Vec<Evidence>,
    },
    /// The session is resumed.
    Resume {
        /// With this.
        prompt: String,
        /// What is missing.
        missing: Vec<String>,
        /// Whose fault it was.
        cause: Cause,
    },
    /// The run is parked, then the session is resumed.
    Park {
        /// For what.
        until: Until,
        /// With this.
        prompt: String,
    },
    /// It is over.
    Outcome(RunOutcome),
}

/// What a parked run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The quota, which is there again after this time.
    Quota {
        /// How long.
        wait: Duration,
    },
    /// The provider can be reached again, within what is left of the longest wait.
    Reachable {
        /// How long that is.
        patience: Duration,
    },
}

/// Why a session is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The agent stopped before it was done.
    Unfinished,
    /// It got no answer from its provider. Not its fault, so no sign that it does not get on.
    Environment,
    /// Somebody has something to say to it.
    Said,
}

/// Decides about one run, from one end of a process to the next.
#[derive(Debug)]
pub struct Completion {
    policy: Policy,
    resumes: u32,
    fruitless: u32,
    waits: u32,
    outages: u32,
}

impl Completion {
    /// For a run that was not resumed yet.
    pub fn new(policy: Policy) -> Self {
        Self { policy, resumes: 0, fruitless: 0, waits: 0, outages: 0 }
    }

    /// How often the session was resumed, waits for a quota or the network left out.
    pub fn resumes(&self) -> u32 {
        self.resumes
    }

    /// What becomes of the run. Always comes to an end: resumes and waits are counted.
    pub fn decide(&mut self, ending: &Ending<'_>) -> Decision {
        match ending.progress {
            Progress::Made => self.fruitless = 0,
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
                Rule::Silence => self.stalled(ending),
                Rule::Start | Rule::OpenCall | Rule::Loop => Decision::Outcome(stalled(*rule, ending)),
                Rule::Ceiling => timed_out(Limit::Ceiling { time: self.policy.limits.ceiling }),
                Rule::MaxWait => timed_out(Limit::MaxWait { time: self.policy.limits.max_wait }),
                // These end a process that was over anyway.
                Rule::AfterResult | Rule::AfterExit => self.ended_by_itself(ending),
            },
            Some(StopReason::Limit { limit }) => timed_out(*limit),
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
            (None, Some(Exit::Code(code)), _) if code != 0 => crashed(format!("it exited with code {code}")),
            (None, Some(Exit::Signal(signal)), _) => crashed(format!("it was ended by signal {signal}")),
            // Whoever killed it does not want it to be started again.
            (Some(TurnOutcome::Interrupted | TurnOutcome::Called) | None, None, _) => {
                crashed(UNGUARDED.to_owned())
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
                Some(limit) => timed_out(limit),
                None => agent_failed(failure),
            },
            FailureClass::Provider => self.offline(ending).unwrap_or_else(|| agent_failed(failure)),
            FailureClass::Auth
            | FailureClass::Overloaded
            | FailureClass::Model
            | FailureClass::Crashed
            | FailureClass::Unknown => agent_failed(failure),
        }
    }

    /// Waits, if that is wanted, if it is known until when, and if that is not too long.
    fn out_of_quota(&mut self, failure: &Failure, ending: &Ending<'_>) -> Decision {
        let over = RunOutcome::Quota { resets_at: failure.resets_at, detail: failure.detail.clone() };
        let (OnQuota::Wait, Some(resets_at), Some(_)) =
            (self.policy.quota, failure.resets_at, ending.session)
        else {
            return Decision::Outcome(over);
        };
        let until_reset = u64::try_from(resets_at.saturating_sub(ending.wall.now)).unwrap_or(0);
        let until_reset = Duration::from_secs(until_reset);
        // After a short wait nobody wants a long one.
        let jitter = match until_reset {
            Duration::ZERO => ending.wall.jitter,
            time => ending.wall.jitter.min(LEAST_JITTER.saturating_add(time / 2)),
        };
        let wait = until_reset.saturating_add(jitter);
        if wait > ending.wall.patience || self.waits >= MOST_WAITS {
            return Decision::Outcome(over);
        }
        if let Some(limit) = ending.forbidden {
            return timed_out(limit);
        }
        self.waits += 1;
        Decision::Park { until: Until::Quota { wait }, prompt: prompt(Cause::Environment, &[]) }
    }

    /// Waits for the network if it is gone, which is nobody's fault: no resume is counted. A run that may not be resumed
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
            return Some(timed_out(limit));
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
            (Some(limit), Cause::Unfinished) => return timed_out(limit),
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

fn crashed(detail: String) -> Decision {
    Decision::Outcome(RunOutcome::AgentFailed { class: FailureClass::Crashed, detail })
}

fn timed_out(limit: Limit) -> Decision {
    Decision::Outcome(RunOutcome::TimedOut { limit })
}

fn stalled(rule: Rule, ending: &Ending<'_>) -> RunOutcome {
    RunOutcome::Stalled { rule, quiet: ending.quiet }
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
