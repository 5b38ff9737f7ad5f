//! One supervised task, from its prompt to its outcome: the one loop that all agents over pipes go through.
//!
//! What to do is decided in `ostler-agent`; here it is done. A run has one watchdog, one ledger and one [`Completion`];
//! each process of it is a round, with a stop ladder of its own. Nothing of a round is left when the next one begins,
//! nor when the run returns, however it returns.

mod account;
mod attempt;
mod bridge;
mod checking;
pub(crate) mod clock;
mod company;
mod denials;
mod desk;
mod environment;
mod hosts;
mod jailing;
mod offline;
mod plan;
mod private_files;
mod progress;
mod reaching;
mod report;
mod requests;
mod round;
mod saying;
mod session_capture;
mod unstarted;
mod wording;
mod workplace;
pub(crate) mod writer;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use ostler_agent::advice::advice;
use ostler_agent::agent::Source;
use ostler_agent::budget::{Ledger, Unmeasured};
use ostler_agent::call_log::{CallLog, KnownCalls};
use ostler_agent::check::Checked;
use ostler_agent::command_line;
use ostler_agent::completion::{
    Cause, Completion, Decision, Ending, Evidence, Handed, Marker, Progress, Until, Wall, Work,
};
use ostler_agent::event::AgentEvent;
use ostler_agent::jail::JailReport;
use ostler_agent::outcome::{Limit, RunOutcome};
use ostler_agent::prices::Observed;
use ostler_agent::quiet_cause::WaitTracker;
use ostler_agent::run_event::{ResumedBy, RunEvent, RunEventKind};
use ostler_agent::waiting::Reach;
use ostler_agent::watchdog::{Input, Watchdog};
use tokio::task::JoinSet;

use crate::contain::{Ahead, Spawn, Stdin};
use crate::journal::{Facts, Journal, JournalError};
use crate::profile::{ProfileLink, overrule_warning, write_launch};
pub use account::{limits_from, limits_json, sentence};
use attempt::{Attempt, Besides};
use bridge::BridgeSide;
pub use bridge::{Answering, Bridge, HandedOut, Unanswered};
use checking::Tried;
pub use clock::{said as local_time, zone as local_zone};
use company::Company;
use denials::Denials;
use desk::Desk;
pub use environment::{
    exempt_loopback, for_served, for_tenant, inherited, launched, rehearsed, users_settings,
};
use hosts::HostWatch;
pub use jailing::{PlannedJail, start_in};
use offline::Waited;
pub use offline::{agent_network, configured_provider, tenant_access};
pub use plan::{Beginning, Checks, Incoming, Plan, Watching};
pub use private_files::{PrivateError, write_private};
pub use report::{Report, RunError};
use requests::Requests;
pub use requests::{NoTerminal, Request, Said, Unsaid};
pub use round::session_transcript;
use round::{Round, Rounded};
pub use saying::Sayings;
use session_capture::Captures;
pub use session_capture::{CapturedSession, SessionCapture};
pub use unstarted::{Unstarted, postponed, unstarted};
use workplace::Workplace;
pub use workplace::WorkspaceState;

/// Added at most to the time at which a quota is there again: many come back at that second.
const MOST_JITTER: u64 = 20;

/// Who is told what happens, as it happens: the event, and its line in the journal.
pub type Observer<'a> = dyn FnMut(&RunEvent, &str) + 'a;

/// Runs a task to its outcome. Dropping the future ends the agent, but leaves the run without an outcome.
pub async fn run(
    plan: &Plan<'_>,
    facts: &Facts,
    beginning: Beginning,
    journal: Journal,
    incoming: Incoming,
    observe: &mut Observer<'_>,
) -> Result<Report, RunError> {
    let Incoming { ahead, requests, bridge } = incoming;
    let (mut past, prompt, age) = match beginning {
        Beginning::New => (None, None, Duration::ZERO),
        Beginning::GoneOn { past, prompt, age } => (Some(past), prompt, age),
    };
    let sayings = past.as_ref().map(|past| past.sayings.clone()).unwrap_or_default();
    if let Some(past) = &mut past
        && past.session.as_ref().is_some_and(|session| !round::is_there(plan, session))
    {
        // It was killed before the agent had written down what it was asked.
        past.session = None;
    }
    let (spent, turns, reserved) =
        past.as_ref().map_or((None, 0, 0.0), |past| (past.spent, past.turns, past.reserved));
    let workplace = Workplace::new(&plan.workspace, journal.folder());
    let mut run = Run {
        plan,
        ahead,
        workplace,
        desk: Desk::new(journal, observe, age),
        dog: Watchdog::new(plan.policy.limits),
        ledger: Ledger::going_on(plan.budget, spent, turns, reserved),
        observed: Observed::default(),
        model: None,
        completion: Completion::new(plan.policy),
        requests: Requests::new(requests),
        bridge: BridgeSide::new(plan, bridge),
        checks: Vec::new(),
        checking: Duration::ZERO,
        sayings: Sayings::default(),
        session: past.as_ref().and_then(|past| past.session.clone()),
        calls: past.as_ref().map(|past| past.calls.clone()).unwrap_or_default(),
        waits: WaitTracker::default(),
        has_worked: false,
        resumes: past.as_ref().map_or(0, |past| past.resumes.saturating_add(1)),
        jitter: jitter(&facts.run),
        survivors: Some(0),
        company: Company::new(&plan.workspace),
        farewells: JoinSet::new(),
        profile_link: ProfileLink::default(),
        untrusted: None,
        walls: None,
        denials: Denials::default(),
        hosts: HostWatch::new(plan.jail.as_deref()),
        captures: Captures::new(plan.capture.clone()),
    };
    let attempt = match &past {
        None => Attempt::first(plan.prompt),
        Some(past) => {
            // What the last process was given may not be in the session.
            run.sayings = sayings;
            run.settle_sayings();
            prompt.iter().for_each(|prompt| run.sayings.queue(prompt.clone()));
            let words = run.sayings.give(past.session.as_deref());
            let calls = run.report_calls(prompt.as_deref(), &words);
            let besides = Besides { words: &words, calls: calls.as_deref() };
            let (attempt, reason) = Attempt::after(past, plan.prompt, prompt.as_deref(), besides);
            let (attempt_number, by) = (attempt.number, ResumedBy::Person);
            run.desk.tell(RunEventKind::Resumed { attempt: attempt_number, reason, by })?;
            attempt
        }
    };
    for text in &plan.warnings {
        run.desk.tell(RunEventKind::Warn { text: text.clone() })?;
    }
    let lived = run.rounds(attempt, &facts.run).await;
    // Whatever became of it: there may be secrets in them.
    run.profile_link = ProfileLink::default();
    let removed = private_files::remove_private(&run.private());
    let (outcome, evidence) = lived?;
    if let Err(error) = removed {
        let text = format!("could not remove {}: {error}", run.private().display());
        run.desk.tell(RunEventKind::Warn { text })?;
    }
    let bridge = run.close_bridge().await?;
    while run.farewells.join_next().await.is_some() {}
    run.finish_captures().await?;
    while let Some(notice) = run.hosts.take() {
        let event = run.hosts.note(&notice);
        run.desk.tell(event)?;
    }
    run.tell_budget(&outcome)?;
    run.tell_company()?;
    run.tell_workspace()?;
    run.tell_new_configuration()?;
    if let Some(changes) = run.workplace.changes() {
        run.desk.tell(RunEventKind::Changes(changes))?;
    }
    let report = run.report(facts, outcome, evidence, bridge);
    run.desk.close(&report)?;
    Ok(report)
}

/// Another for every run: the end of its id is chance.
fn jitter(run: &str) -> Duration {
    Duration::from_secs(run.bytes().rev().take(4).map(u64::from).sum::<u64>() % MOST_JITTER + 1)
}

/// What lasts from the first process of a run to the last.
struct Run<'a> {
    plan: &'a Plan<'a>,
    ahead: Option<Ahead>,
    workplace: Workplace,
    desk: Desk<'a>,
    dog: Watchdog,
    ledger: Ledger,
    /// The model calls whose cost is known.
    observed: Observed,
    /// The model that the agent uses, where it says so.
    model: Option<String>,
    completion: Completion,
    requests: Requests,
    bridge: Option<BridgeSide<'a>>,
    /// How long checks have taken so far.
    checking: Duration,
    /// What was said to the agent besides its task.
    sayings: Sayings,
    /// What the host tried itself after the last claim.
    checks: Vec<Checked>,
    session: Option<String>,
    /// The last tool calls, for the prompt that resumes the session.
    calls: CallLog,
    /// What the agent waits for.
    waits: WaitTracker,
    /// The agent did something of what it was asked.
    has_worked: bool,
    /// Before this process of Ostler, and by it when it began.
    resumes: u32,
    /// What this run adds to a time at which many will come back.
    jitter: Duration,
    survivors: Option<u32>,
    company: Company,
    /// Guardians that have nothing left to guard.
    farewells: JoinSet<()>,
    /// What the agent's process needs outside the private folder.
    profile_link: ProfileLink,
    /// The last warning about files of the repository that are not loaded.
    untrusted: Option<String>,
    /// What the kernel enforces for the last process, read back.
    walls: Option<JailReport>,
    /// What the jail denied so far.
    denials: Denials,
    /// The hosts that its processes asked for.
    hosts: HostWatch,
    /// Sessions that the host captures for memory.
    captures: Captures,
}

impl<'a> Run<'a> {
    async fn rounds(
        &mut self,
        mut attempt: Attempt,
        id: &str,
    ) -> Result<(RunOutcome, Vec<Evidence>), RunError> {
        loop {
            let rounded = match self.start(&attempt, id).await? {
                Ok(round) => round.play().await?,
                Err(outcome) => return Ok((outcome, Vec::new())),
            };
            self.capture_process().await;
            self.ledger.settle();
            self.observed = rounded.observed.clone();
            self.count_survivors(rounded.survivors);
            self.tell_absence()?;
            let progress = self.find_progress(&rounded).await?;
            let reach = self.reach(&rounded).await;
            self.settle_sayings();
            let (mut decision, evidence) = self.decide(&rounded, progress, reach, None);
            decision = self.hear_out(decision)?;
            if matches!(decision, Decision::Complete { .. }) && !self.plan.checks.commands.is_empty() {
                self.checks = match self.check(attempt.number, id).await? {
                    Tried::All(checks) => checks,
                    Tried::Stopped(by) => return Ok((RunOutcome::Cancelled { by }, evidence)),
                    Tried::TooLate(limit) => return Ok((RunOutcome::TimedOut { limit }, evidence)),
                };
                // They may have changed something too, which is told like all else.
                let _ = self.workplace.progress().await;
                let checks = self.checks.clone();
                (decision, _) = self.decide(&rounded, progress, reach, Some(&checks));
            }
            let (prompt, reason) = match decision {
                Decision::Complete { evidence } => return Ok((RunOutcome::Completed, evidence)),
                Decision::Outcome(outcome) => return Ok((outcome, evidence)),
                Decision::Resume { prompt, cause: Cause::Said, .. } => {
                    (prompt, "somebody has something to say".to_owned())
                }
                Decision::Resume { prompt, missing, .. } if missing.is_empty() => {
                    (prompt, "it was cut off".to_owned())
                }
                Decision::Resume { prompt, missing, .. } => {
                    (prompt, format!("still missing: {}", missing.join(", ")))
                }
                Decision::Park { until: Until::Quota { wait, reset, limit }, prompt } => {
                    let (reason, then) = wording::limit(limit, reset);
                    self.park(reason, wait).await?;
                    (prompt, then)
                }
                Decision::Park { until: Until::Outage { wait, class, detail }, prompt } => {
                    let reason = wording::outage(class, &detail);
                    self.park(reason.clone(), wait).await?;
                    (prompt, format!("trying again: {reason}"))
                }
                Decision::Park { until: Until::Reachable { patience }, prompt } => {
                    match self.wait_for_the_network(patience).await? {
                        Waited::Over => (prompt, "the provider can be reached again".to_owned()),
                        Waited::TooLong => {
                            let limit = Limit::MaxWait { time: self.plan.policy.limits.max_wait };
                            return Ok((RunOutcome::TimedOut { limit }, evidence));
                        }
                    }
                }
            };
            if let Some(by) = self.requests.stop {
                return Ok((RunOutcome::Cancelled { by }, evidence));
            }
            if let Some(side) = &self.bridge {
                // Whatever was claimed was not so.
                side.bridge.unclaim();
            }
            let session = self.resumable();
            let words = self.sayings.give(session.as_deref());
            let calls = self.report_calls(Some(&prompt), &words);
            let besides = Besides { words: &words, calls: calls.as_deref() };
            attempt = attempt.next(&prompt, session, self.plan.prompt, besides);
            self.desk.tell(RunEventKind::Resumed { attempt: attempt.number, reason, by: ResumedBy::Run })?;
        }
    }

    /// Adds those of one more process. Once it is not known, it is not known.
    fn count_survivors(&mut self, more: Option<u32>) {
        let sum = |(all, more): (u32, u32)| all.saturating_add(more);
        self.survivors = self.survivors.zip(more).map(sum);
    }

    /// Where files are that only the agent of this run reads, for as long as the run lasts.
    fn private(&self) -> PathBuf {
        self.desk.folder().join("private")
    }

    /// The session, if the agent knows in it what it was asked. An agent that was killed may have worked, and yet have
    /// written nothing down: Claude Code does so 100 ms later.
    fn resumable(&self) -> Option<String> {
        self.session.clone().filter(|session| round::is_there(self.plan, session))
    }

    /// What the agent should know of its last tool calls when its session is resumed with this prompt. Left out if a
    /// terminal program would refuse the prompt because of it.
    fn report_calls(&self, prompt: Option<&str>, words: &[String]) -> Option<String> {
        let known = match self.resumable() {
            Some(session) => round::recorded_calls(self.plan, &session)
                .map_or(KnownCalls::Unreadable, KnownCalls::Recorded),
            None => KnownCalls::None,
        };
        let report = self.calls.report(known)?;
        let prompt = prompt.unwrap_or(self.plan.prompt);
        let is_typed = self.plan.agent.interactive().is_some();
        let besides = Besides { words, calls: Some(&report) };
        let is_refused = is_typed && self.plan.typed(&besides.added_to(prompt)).is_err();
        (!is_refused).then_some(report)
    }

    /// Starts a process. That it does not come up is an outcome.
    async fn start(
        &mut self,
        attempt: &Attempt,
        id: &str,
    ) -> Result<Result<Round<'_, 'a>, RunOutcome>, RunError> {
        self.tell_company()?;
        let private = self.private();
        let decision = self.plan.decide_trust()?;
        let launch = self.plan.launch_of(attempt, self.ledger.cost_left(), &private, &decision)?;
        let (mut env, mut warnings) = environment::launched(&self.plan.env, &launch);
        // Another process of the run may have had one, by the same name.
        self.profile_link = ProfileLink::default();
        self.profile_link = write_launch(&private, &launch, &env, self.plan.jail.as_deref())?;
        match decision.warning() {
            // A project that is not loaded overrules nothing.
            Some(warning) if self.untrusted.as_ref() != Some(&warning) => {
                warnings.push(warning.clone());
                self.untrusted = Some(warning);
            }
            Some(_) => {}
            None => warnings.extend(overrule_warning(&launch, &self.plan.workspace, &env)),
        }
        for text in warnings {
            self.desk.tell(RunEventKind::Warn { text })?;
        }
        let stdin = match launch.stdin {
            ostler_agent::agent::Stdin::Null => Stdin::Null,
            ostler_agent::agent::Stdin::Text(_) | ostler_agent::agent::Stdin::Spoken(_) => Stdin::Piped,
            ostler_agent::agent::Stdin::Terminal => Stdin::Terminal(self.plan.terminal_size),
        };
        if let Some(jail) = &self.plan.jail {
            jail.change_environment(&mut env);
            jail.mask(decision.masks()).await;
        }
        let spawn = Spawn {
            program: self.plan.program.clone(),
            args: launch.args.iter().map(OsString::from).collect(),
            env: env.clone(),
            cwd: self.plan.workspace.clone(),
            stdin,
            run: id,
            tier: None,
            jail: None,
            guard: self.plan.guard.clone(),
        };
        self.workplace.look();
        let mut child = match start_in(self.plan.jail.as_deref(), spawn, self.ahead.take()).await {
            Ok(child) => child,
            Err(error) => {
                return Ok(Err(RunOutcome::NeverStarted { reason: account::with_causes(&error) }));
            }
        };
        self.walls =
            child.jail().cloned().zip(self.plan.jail.as_ref()).map(|(report, jail)| jail.report(report));
        let (pid, containment) = (child.pid(), child.tier().name().to_owned());
        self.ledger.on_spawn();
        self.calls.on_spawn();
        self.waits.on_spawn();
        self.desk.tell(RunEventKind::Spawned {
            pid,
            attempt: attempt.number,
            containment,
            command: command_line::readable(
                &self.plan.program.display().to_string(),
                &launch.args,
                &attempt.prompt,
            ),
        })?;
        self.workplace.watch(self.plan.watch_workspace_after());
        let contact = self.contact(&mut child, attempt, launch.stdin, env)?;
        Ok(Ok(Round::new(self, child, contact)))
    }

    /// What becomes of the run, and what shows how far it came.
    fn decide(
        &mut self,
        rounded: &Rounded,
        progress: Progress,
        reach: Reach,
        checks: Option<&[Checked]>,
    ) -> (Decision, Vec<Evidence>) {
        let parked = self.dog.why(self.desk.now()).parked_time;
        let standing = self.bridge.as_ref().map(|side| side.bridge.standing());
        let handed = self.bridge.as_ref().zip(standing.as_ref());
        let lost = self.lost_workspace();
        let unknown_cost = self.unknown_cost();
        let ending = Ending {
            turn: rounded.turn.as_ref(),
            marker: match rounded.told_by {
                Source::Stdout => self.plan.marker,
                Source::Transcript => Marker::Transcript,
            },
            exit: rounded.exit,
            stop: rounded.stop.as_ref(),
            retrying: rounded.retrying.as_ref(),
            session: self.session.as_deref(),
            work: if self.has_worked { Work::Begun } else { Work::None },
            progress,
            missing: &[],
            found: &[],
            bridge: handed.map(|(side, standing)| Handed { standing, tools: &side.tools }),
            forbidden: self.ledger.forbids_a_turn(),
            unknown_cost: unknown_cost.as_deref(),
            reach,
            quiet: rounded.quiet,
            cause: rounded.cause.as_ref(),
            lost: lost.as_deref(),
            wall: Wall {
                now: clock::now(),
                jitter: self.jitter,
                patience: self.plan.policy.limits.max_wait.saturating_sub(parked),
            },
        };
        let decision = match checks {
            None => self.completion.decide(&ending),
            Some(checks) => self.completion.checked(&ending, checks),
        };
        (decision, ending.evidence())
    }

    /// The message about a workspace that is gone.
    fn lost_workspace(&self) -> Option<String> {
        match self.workplace.state() {
            WorkspaceState::Gone => {
                Some(format!("the workspace {}, which no longer exists", self.plan.workspace.display()))
            }
            WorkspaceState::Present | WorkspaceState::Replaced => None,
        }
    }

    /// Warns if the workspace was deleted or replaced: the outcome alone would hide that.
    fn tell_workspace(&mut self) -> Result<(), JournalError> {
        let path = self.plan.workspace.display();
        let text = match self.workplace.state() {
            WorkspaceState::Present => return Ok(()),
            WorkspaceState::Gone => format!("the workspace {path} was deleted while the agent worked"),
            WorkspaceState::Replaced => {
                format!("the workspace {path} was replaced by another directory while the agent worked")
            }
        };
        self.desk.tell(RunEventKind::Warn { text })
    }

    /// The jail's denials that an event shows, as events of the run.
    fn note_denials(&mut self, event: &AgentEvent) -> Vec<RunEventKind> {
        let Some(jail) = &self.plan.jail else { return Vec::new() };
        let denials = self.denials.add_from(&jail.decision, &self.plan.workspace, event);
        denials.iter().map(denials::to_event).chain(self.hosts.add_from(event)).collect()
    }

    /// Warns about configuration that is in the workspace now and was not trusted, nor there, at the last start: Ostler
    /// does not load it, but whoever starts an agent there without Ostler does.
    fn tell_new_configuration(&mut self) -> Result<(), RunError> {
        let Some(warning) = self.plan.decide_trust()?.warning() else { return Ok(()) };
        if self.untrusted.as_ref() == Some(&warning) {
            return Ok(());
        }
        let text = format!("the workspace has new configuration for the agent; {warning}");
        Ok(self.desk.tell(RunEventKind::Warn { text })?)
    }

    /// Waits without a process. That somebody asks to stop ends it.
    async fn park(&mut self, reason: String, wait: Duration) -> Result<(), JournalError> {
        let until = clock::now().saturating_add_unsigned(wait.as_secs().saturating_add(1));
        self.desk.tell(RunEventKind::Parked { reason, until: Some(until) })?;
        // What it says is in `wait` already, which is within the longest that is allowed.
        let _ = self.dog.step(self.desk.now(), Input::Parked);
        tokio::select! {
            biased;
            () = self.requests.stop() => {}
            () = clock::pass(until, wait) => {}
        }
        let _ = self.dog.step(self.desk.now(), Input::Unparked);
        self.desk.tell(RunEventKind::Unparked)
    }

    /// The message about costs that the agent never reported.
    fn unknown_cost(&self) -> Option<String> {
        let usd = Some(self.ledger.reserved()).filter(|usd| *usd > 0.0)?;
        Some(wording::unknown_cost(usd, self.model.as_deref().or(self.plan.model)))
    }

    /// Warns about a limit that was exceeded, with the reason.
    fn tell_budget(&mut self, outcome: &RunOutcome) -> Result<(), JournalError> {
        let text = match (self.ledger.unmeasured(), self.ledger.forbids_a_turn(), outcome) {
            (Some(Unmeasured::Cost), _, _) => {
                "the limit on costs was not enforced: the agent reported no cost".to_owned()
            }
            (Some(Unmeasured::Tokens), _, _) => {
                "the limit on tokens was not enforced: the agent reported no tokens".to_owned()
            }
            (None, Some(Limit::MaxCost { usd }), RunOutcome::Completed) => {
                format!("the model call that completed the task exceeded the limit of {usd} US dollars")
            }
            (None, Some(Limit::MaxTokens { tokens }), RunOutcome::Completed) => {
                format!("the model call that completed the task exceeded the limit of {tokens} tokens")
            }
            (None, _, _) => return Ok(()),
        };
        self.desk.tell(RunEventKind::Warn { text })
    }

    fn report(
        &self,
        facts: &Facts,
        outcome: RunOutcome,
        evidence: Vec<Evidence>,
        bridge: serde_json::Value,
    ) -> Report {
        let is_failure = matches!(outcome, RunOutcome::AgentFailed { .. });
        let is_unknown = self.ledger.reserved() > 0.0 && self.ledger.forbids_a_turn().is_some();
        let hint = if is_failure && is_unknown {
            // Without more it would be refused.
            Some(format!(
                "`ostler run --resume {} --max-cost USD` continues with what you allow more",
                facts.run
            ))
        } else {
            advice(&outcome, self.plan.agent, &facts.run)
        };
        let mut report = Report {
            hint,
            outcome,
            session: self.session.clone(),
            turns: self.ledger.turns(),
            resumes: self.resumes.saturating_add(self.completion.resumes()),
            usage: self.ledger.spent(),
            evidence,
            survivors: self.survivors,
            elapsed: self.desk.now(),
            checks: self.checks.clone(),
            workspace: self.workplace.state(),
            jail: self.walls.clone(),
            denials: self.denials.list().to_vec(),
            denied_hosts: self.hosts.denials().to_vec(),
            bridge,
            json: serde_json::Value::Null,
        };
        report.json = account::outcome_json(facts, &report, self.desk.folder());
        report
    }
}
