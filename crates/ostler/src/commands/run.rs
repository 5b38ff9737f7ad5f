//! `ostler run`: one supervised task, to its outcome.

mod absent;
mod answering;
mod args;
mod bridge;
mod choice;
mod crossing;
mod fetch;
mod json_voice;
mod prepare;
mod pricing;
mod rehearsal;
pub(crate) mod show;
mod status;
pub(crate) mod summary;
mod telling;
mod terms;
mod trusting;

use std::convert::Infallible;
use std::path::Path;
use std::process::ExitCode;

use ostler_agent::outcome::{CancelledBy, RunOutcome};
use ostler_agent::run_event::RunEvent;
use ostler_process::contain;
use ostler_process::control::{About, Door};
use ostler_process::notify::notify;
use ostler_process::run::{self, Beginning, Bridge, Incoming, Plan, Report, Request, RunError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub(crate) use args::{Args, Level};
use args::{Explained, Voice};
pub(crate) use bridge::{BridgeUsage, head};
use bridge::{Bridged, Wanted};
use choice::Choice;
use crossing::Crossing;
pub(crate) use prepare::RunUsage;
use prepare::{Prepared, Unlocated, locate, prepare, prompt, usable, utf8};
use telling::Telling;
use terms::Terms;
pub(crate) use terms::{DEFAULT_LEVEL, MAX_RESUMES};

use crate::config::{Ignored, Settings};
use crate::display;
use crate::failure::Failure;
use crate::interrupt::{Interrupted, Signals};
use crate::jailing::{choose_wall, forget_walls};
use crate::report;
use crate::session_memory::{Context, SessionMemory};
use crate::surroundings::Surroundings;

/// Requests that may wait until the run takes them. Whoever asks more waits too; none is lost.
const REQUESTS: usize = 2;

/// Runs it. The exit code is the outcome's.
pub(crate) async fn run(args: Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    // Read before signals are caught: whoever is asked for a prompt and has none presses Ctrl-C.
    let prompt = prompt(&args)?;
    let voice = args.voice();
    let mut settings = here.settings()?;
    let (mut choice, mut play) = Choice::of(&args, prompt.clone(), &settings, here)?;
    if trusting::ask(&choice, &settings, voice, here)? {
        // What the project sets counts now.
        settings = here.settings()?;
        (choice, play) = Choice::of(&args, prompt, &settings, here)?;
    }
    // Caught before anything is started, so that no signal leaves it behind; not before, so that Ctrl-C answers questions.
    let mut signals = Signals::listen().map_err(Failure::Runtime)?;
    let earlier = choice.earlier.as_ref().map(|(kept, _)| &kept.facts);
    let mut terms = Terms::of(&args, earlier, &settings.config, &here.cwd)?;
    let wanted = Wanted::of(&choice, &terms, &settings, here)?;
    usable(&choice.workspace, terms.permissions)?;
    if let Some(folder) = terms.bridge.as_ref().and_then(|bridge| bridge.export.as_ref()) {
        utf8("the folder", folder)?;
    }
    let guard = std::env::current_exe().map_err(RunUsage::Guard)?;
    let wall = match terms.jail.is_off {
        true => None,
        false => choose_wall(terms.permissions.permissions(), &guard, here).await.map_err(RunUsage::from)?,
    };
    trusting::refuse_unmasked(&choice, wall.as_ref(), here)?;
    // From here on an agent will most likely be started.
    let mut ahead = JoinSet::new();
    ahead.spawn_blocking(contain::anticipate);
    let found = match locate(&choice, &settings, &mut signals, here).await {
        Ok(found) => found,
        Err(unlocated) => {
            if let Some(folder) = absent::keep(&unlocated, &choice, &terms, voice, here)? {
                tell_somebody(&settings, &folder, &mut signals).await;
            }
            return match unlocated {
                Unlocated::Failed(failure) => Err(failure),
                Unlocated::Cancelled { by, .. } => {
                    // Told as a failure is, but the exit code is the outcome's.
                    report::print(&by.into());
                    Ok(ExitCode::from(RunOutcome::Cancelled { by: by_whom(by) }.exit_code()))
                }
            };
        }
    };
    let prices = tokio::select! {
        biased;
        by = signals.next() => {
            report::print(&by.into());
            return Ok(ExitCode::from(RunOutcome::Cancelled { by: by_whom(by) }.exit_code()));
        }
        prices = pricing::prices(&args, &choice, &found, &mut terms, (&settings, here)) => prices?,
    };
    let mut prepared = prepare(&args, &choice, &found, &terms, (play, wanted, prices, wall), here).await?;
    prepared.plan.warnings.extend(settings.ignored.iter().map(Ignored::warning));
    let folder = prepared.journal.folder().to_owned();
    let report = Box::pin(supervised(prepared, (voice, args.explained()), &mut signals, here)).await?;
    if matches!(report.outcome, RunOutcome::NeverStarted { .. }) {
        forget_walls(here);
    }
    tell_somebody(&settings, &folder, &mut signals).await;
    Ok(ExitCode::from(report.outcome.exit_code()))
}

/// Starts the program that wants to know how runs end, and waits briefly for it. Ctrl-C ends the wait, not the program.
async fn tell_somebody(settings: &Settings, folder: &Path, signals: &mut Signals) {
    let Some(words) = &settings.config.notify.command else { return };
    tokio::select! {
        biased;
        _ = signals.next() => display::tell("warning: the notify command was not waited for"),
        told = notify(words.text(), folder) => if let Err(error) = told {
            display::tell(&format!("warning: {}", display::with_causes(&error)));
        },
    }
}

/// The run itself, told as it goes and when it has ended.
async fn supervised(
    prepared: Prepared<'_>,
    (voice, explained): (Voice, Explained),
    signals: &mut Signals,
    here: &Surroundings,
) -> Result<Report, Failure> {
    let door = door(&prepared, here);
    let (ask, mut requests) = mpsc::channel(REQUESTS);
    let Prepared { mut plan, ahead, facts, beginning, journal, rehearsed, wanted, kept } = prepared;
    let context = remember(&mut plan, &beginning, here);
    let mut telling = Telling::begin(voice, explained, &facts, plan.policy.limits, journal.folder())?;
    let (mut answering, questions) = answering::begin(voice);
    let mut observe = |event: &RunEvent, line: &str| {
        answering.note(event);
        telling.tell(event, line);
    };
    let crossing = Crossing { facts: &facts, beginning: &beginning, folder: journal.folder(), kept };
    let opened = tokio::select! {
        opened = crossing.open(wanted.as_ref(), &plan, signals, &mut requests) => opened,
        never = attend(door.as_ref(), ask.clone()) => match never {},
    };
    let ended = match opened {
        Ok((bridged, events)) => {
            plan.bridge = bridged.as_ref().map(|bridged| bridged as &dyn Bridge);
            plan.warnings.extend(bridged.as_ref().map(Bridged::warnings).unwrap_or_default());
            plan.context = match context {
                Some(context) => context.text().await,
                None => None,
            };
            let incoming = Incoming { ahead, requests, bridge: events };
            tokio::select! {
                ended = run::run(&plan, &facts, beginning, journal, incoming, &mut observe) => ended,
                never = forward(signals, ask.clone()) => match never {},
                never = answering::attend(questions, ask.clone()) => match never {},
                never = attend(door.as_ref(), ask) => match never {},
            }
        }
        Err(unstarted) => {
            Ok(run::unstarted(&facts, journal, unstarted, &mut observe).map_err(RunError::from)?)
        }
    };
    if let Some(rehearsed) = rehearsed {
        rehearsed.end().await;
    }
    let report = ended.as_ref().ok();
    let told = telling.end(report, &facts, signals, here).await;
    // What went wrong with the run comes before what went wrong with telling it.
    let report = ended?;
    match told {
        // Whoever reads may have seen enough, or has no room for it; whoever started it still wants the exit code.
        Err(failure) if !failure.is_closed_pipe() => {
            display::tell(&format!("warning: {}", display::with_causes(&failure)));
        }
        Ok(()) | Err(_) => {}
    }
    Ok(report)
}

/// Has the sessions of a jailed agent captured, if its own hooks would do so, and begins to look for what its session
/// should know.
fn remember(plan: &mut Plan<'_>, beginning: &Beginning, here: &Surroundings) -> Option<Context> {
    plan.jail.as_ref()?;
    let memory = SessionMemory::of(plan.agent, &plan.env, &plan.guard, here)?;
    let session = match beginning {
        Beginning::New => plan.session_id.clone(),
        Beginning::GoneOn { past, .. } => past.session.clone(),
    };
    let context = memory.look_for_context(&plan.workspace, session);
    plan.capture = Some(memory.into_capture());
    Some(context)
}

/// The socket of the run. A run does without if it cannot be made: nobody can ask it then, that is all.
fn door(prepared: &Prepared<'_>, here: &Surroundings) -> Option<Door> {
    let Prepared { facts, journal, .. } = prepared;
    let about =
        About { run: facts.run.clone(), agent: facts.agent.clone(), pid: std::process::id(), terminal: None };
    let folder = here.home.sockets(here.variable("XDG_RUNTIME_DIR"));
    Door::open(&folder, about, journal.folder())
        .inspect_err(|error| {
            let (folder, why) = (folder.display(), display::with_causes(error));
            display::tell(&format!(
                "warning: `ostler stop` cannot reach this run: no socket in {folder}: {why}"
            ));
        })
        .ok()
}

/// Hands on what is asked at the door, for as long as the run lasts.
async fn attend(door: Option<&Door>, ask: mpsc::Sender<Request>) -> Infallible {
    match door {
        Some(door) => door.serve(ask).await,
        None => std::future::pending().await,
    }
}

/// Hands every signal on, for as long as the run lasts.
async fn forward(signals: &mut Signals, ask: mpsc::Sender<Request>) -> Infallible {
    loop {
        let by = signals.next().await;
        // Once the run is over nobody takes it, and this is dropped.
        let _ = ask.send(Request::Stop(by_whom(by))).await;
    }
}

fn by_whom(by: Interrupted) -> CancelledBy {
    match by {
        Interrupted::CtrlC => CancelledBy::Interrupt,
        Interrupted::Term => CancelledBy::Terminate,
        Interrupted::Hangup => CancelledBy::Hangup,
    }
}
