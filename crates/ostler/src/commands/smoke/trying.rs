//! One agent, tried: the run, what is there afterwards, and what that comes to.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ostler_agent::agent::{Agent, Session, Task};
use ostler_agent::bridge::Tools;
use ostler_agent::completion::Grade;
use ostler_agent::run_event::RunEvent;
use ostler_agent::smoke::{FileSeen, Green, Observed, breaks, drift, judge, verdict};

use super::inner::{Came, Inner};
use super::looking::look;
use super::matrix::Matrix;
use super::progress::Progress;
use super::task::{ARTIFACT, LIMITS, PROMPT, Yard};
use super::told::{Judgement, Model, Smoked, Tried};
use super::{SCRIPT, SmokeError};
use crate::commands::run::show::short;
use crate::display;
use crate::failure::Failure;
use crate::interrupt::Signals;
use crate::programs::Sighting;
use crate::surroundings::Surroundings;
use crate::words::one_line;

/// What is the same for every agent.
pub(super) struct Trial<'a> {
    pub(super) model: &'a Model,
    pub(super) here: &'a Surroundings,
    /// Our own binary.
    pub(super) guard: PathBuf,
}

impl Trial<'_> {
    /// Tries one agent. One that is not there, or does not start, is a result too.
    pub(super) async fn smoke(
        &self,
        sighting: &Sighting,
        matrix: &mut Matrix,
        signals: &mut Signals,
        progress: &mut Progress,
    ) -> Result<Smoked, Failure> {
        let (began, agent) = (Instant::now(), sighting.agent);
        let Some(version) = sighting.version() else {
            let (said, try_this) = missing(sighting);
            return Ok(self.judged(sighting, Observed::nothing(said, Some(try_this)), None, matrix, began));
        };
        let yard = Yard::new().map_err(SmokeError::Yard)?;
        let minted = takes_session_id(agent).then(|| uuid::Uuid::new_v4().to_string());
        let inner = Inner { program: self.guard.clone(), args: self.args(agent, &yard, minted.as_deref()) };
        let mut observe = |event: &RunEvent| progress.note(event);
        let came = inner.run(signals, &mut observe).await?;
        let (mut seen, outcome) = observed(came);
        seen.minted = minted;
        progress.looks();
        look(&mut seen, outcome.as_ref(), agent, &yard, self.here.variable("PATH")).await;
        let run = outcome.as_ref().and_then(|outcome| outcome["run"].as_str()).map(str::to_owned);
        let has_something = seen.file != FileSeen::Absent || !seen.strays.is_empty();
        let mut smoked = self.judged(sighting, seen, run, matrix, began);
        if smoked.breaks.is_empty() {
            self.keep(&smoked, version, matrix);
        } else if has_something {
            smoked.kept = Some(yard.keep().display().to_string());
        }
        Ok(smoked)
    }

    /// As a person would type it, but for the watches: an agent that is done in a second is to be heard on every channel.
    fn args(&self, agent: &dyn Agent, yard: &Yard, minted: Option<&str>) -> Vec<OsString> {
        let mut args: Vec<OsString> =
            ["--color", "never", "run", "--json", "--agent", agent.name()].map(Into::into).into();
        args.extend(["--cwd".into(), yard.workspace().into_os_string()]);
        args.extend(LIMITS.map(Into::into));
        args.push("--watch-at-once".into());
        args.extend(["--require-artifact".into(), ARTIFACT.into()]);
        if let Some(id) = minted {
            args.extend(["--session-id".into(), id.into()]);
        }
        if let Model::Script(script) = self.model {
            args.push(format!("--rehearse={script}").into());
        }
        args.extend(["--".into(), PROMPT.into()]);
        args
    }

    fn judged(
        &self,
        sighting: &Sighting,
        seen: Observed,
        run: Option<String>,
        matrix: &Matrix,
        began: Instant,
    ) -> Smoked {
        let (agent, version) = (sighting.agent, sighting.version());
        let green = version
            .and_then(|version| matrix.last_green(agent.name(), agent.engine().name(), version, &self.key()));
        let known: BTreeSet<String> =
            green.map(|green| green.unknown.iter().cloned().collect()).unwrap_or_default();
        let facts = judge(&seen, ceiling(agent), &known);
        let judged = Judgement {
            verdict: verdict(&facts),
            breaks: breaks(&seen, &facts, run.as_deref().map(short)),
            drift: if seen.ran() {
                drift(green, &facts, &seen.unknown, seen.first_event)
            } else {
                Vec::new()
            },
            facts,
            seen,
        };
        let tried = Tried {
            agent: agent.name().to_owned(),
            version: version.map(str::to_owned),
            engine: agent.engine().name().to_owned(),
            model: self.model.clone(),
            compared_with: green.map(|green| green.version.clone()),
            run,
            took: began.elapsed(),
            kept: None,
        };
        Smoked::new(tried, judged)
    }

    /// What results are compared by: with a script, an agent is quicker than with its provider.
    fn key(&self) -> String {
        match self.model {
            // With another script it is compared with what it should be.
            Model::Script(_) => SCRIPT.to_owned(),
            Model::Live => "live".to_owned(),
        }
    }

    /// Keeps a green result. One of another script is not what others are compared with.
    fn keep(&self, smoked: &Smoked, version: &str, matrix: &mut Matrix) {
        if matches!(self.model, Model::Script(script) if script != SCRIPT) {
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let green = Green {
            agent: smoked.agent.clone(),
            engine: smoked.engine.clone(),
            version: version.to_owned(),
            model: self.key(),
            at: i64::try_from(now).unwrap_or(i64::MAX),
            facts: smoked.facts.iter().map(|told| (told.fact.to_owned(), told.grade)).collect(),
            unknown: smoked.unknown.clone(),
            first_event_ms: smoked.first_event_ms,
            ms: smoked.ms,
        };
        if let Err(error) = matrix.keep(green) {
            display::tell(&format!("warning: the result was not kept to compare with: {error}"));
        }
    }
}

/// What the run came to, and its outcome. Where there is none, what it said instead.
fn observed(came: Came) -> (Observed, Option<serde_json::Value>) {
    let outcome = came.gathered.outcome().cloned();
    let line = |start: &str| {
        let found = came.muttered.lines().find_map(|line| line.trim_start().strip_prefix(start));
        found.map(one_line)
    };
    let said = line("error: ")
        .unwrap_or_else(|| one_line(came.muttered.lines().last().unwrap_or("it said nothing")));
    let said = match line("because ") {
        Some(because) => format!("{said}, because {because}"),
        None => said,
    };
    (came.gathered.observed(said, line("try: ")), outcome)
}

/// Why an agent cannot be tried, and what to do.
fn missing(sighting: &Sighting) -> (String, String) {
    match (&sighting.program, sighting.trouble()) {
        (Err(error), _) => {
            let hint = error.hint().unwrap_or_else(|| super::install(sighting.agent));
            (display::with_causes(error), hint)
        }
        (Ok(_), Some(trouble)) => {
            (display::with_causes(trouble), trouble.hint().unwrap_or_else(|| super::install(sighting.agent)))
        }
        (Ok(_), None) => ("it did not tell its version".to_owned(), super::install(sighting.agent)),
    }
}

/// The best that an agent can show: on the wire if it can use the bridge, else its own record.
fn ceiling(agent: &dyn Agent) -> Grade {
    if Tools::of(agent).is_some() { Grade::Wire } else { Grade::Transcript }
}

/// Whether an agent takes the id of a session: told by how it would be started, so that the two cannot disagree.
fn takes_session_id(agent: &dyn Agent) -> bool {
    let task = Task {
        session: Session::Minted("00000000-0000-4000-8000-000000000000"),
        ..Task::new(PROMPT, Path::new("/"), Path::new("/"))
    };
    agent.launch(&task).is_ok()
}
