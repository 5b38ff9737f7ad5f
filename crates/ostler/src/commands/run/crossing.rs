//! Between a run that is prepared and one that runs: its bridge is opened. That it cannot be is an outcome, so that
//! whoever looks in the morning finds it.

use std::path::Path;
use std::pin::pin;
use std::time::{Duration, Instant};

use ostler_agent::bridge::BridgeEvent;
use ostler_agent::outcome::{CancelledBy, RunOutcome};
use ostler_process::journal::Facts;
use ostler_process::run::{Beginning, Bridge as _, NoTerminal, Plan, Request, Unanswered, Unsaid, Unstarted};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::bridge::{About, Around, Bridged, Wanted};
use super::by_whom;
use crate::display;
use crate::interrupt::Signals;

/// What is known of the run whose bridge is opened.
pub(super) struct Crossing<'a> {
    pub(super) facts: &'a Facts,
    pub(super) beginning: &'a Beginning,
    pub(super) folder: &'a Path,
    /// What its last outcome kept of the bridge.
    pub(super) kept: Option<Value>,
}

type Opened = (Option<Bridged>, Option<mpsc::Receiver<BridgeEvent>>);

impl Crossing<'_> {
    /// Opens what is wanted. Ends early if somebody asks to stop; then, as on failure, nothing is left of it.
    pub(super) async fn open(
        &self,
        wanted: Option<&Wanted>,
        plan: &Plan<'_>,
        signals: &mut Signals,
        requests: &mut mpsc::Receiver<Request>,
    ) -> Result<Opened, Unstarted> {
        let Some(wanted) = wanted else { return Ok((None, None)) };
        let began = Instant::now();
        let (attempt, age) = match self.beginning {
            Beginning::New => (1, Duration::ZERO),
            Beginning::GoneOn { past, age, .. } => (past.attempts.saturating_add(1), *age),
        };
        let about = About {
            run: &self.facts.run,
            attempt,
            folder: self.folder,
            workspace: &plan.workspace,
            prompt: plan.prompt,
            kept: self.kept.as_ref(),
        };
        let around = Around {
            run: &self.facts.run,
            env: &plan.env,
            workspace: &plan.workspace,
            guard: &plan.guard,
            jail: plan.jail.as_ref(),
            folder: self.folder,
        };
        // Where the receipts ended before is still true, unless it is known to be otherwise.
        let unstarted = |outcome, hint, kept: Option<Value>, survivors| {
            let bridge = kept.or_else(|| self.kept.clone()).unwrap_or_default();
            Unstarted { outcome, hint, bridge, survivors, age: age + began.elapsed() }
        };
        let stop = CancellationToken::new();
        let mut opening = pin!(Bridged::open(wanted, about, &around, &stop));
        let by = tokio::select! {
            biased;
            by = stopped(requests) => by,
            by = signals.next() => by_whom(by),
            opened = &mut opening => return match opened {
                Ok((bridged, events)) => Ok((Some(bridged), Some(events))),
                Err(error) => {
                    let reason = format!("its bridge could not be opened: {}", display::with_causes(&error));
                    Err(unstarted(RunOutcome::NeverStarted { reason }, error.hint(), error.kept(), 0))
                }
            },
        };
        // Servers that were started are ended before the outcome is reported.
        stop.cancel();
        let survivors = match opening.await {
            Ok((bridged, _)) => bridged.close().await,
            Err(_) => 0,
        };
        Err(unstarted(RunOutcome::Cancelled { by }, None, None, survivors))
    }
}

/// Waits until somebody asks to stop. There is no agent yet that could be told anything. Cancel safe.
async fn stopped(requests: &mut mpsc::Receiver<Request>) -> CancelledBy {
    loop {
        match requests.recv().await {
            Some(Request::Stop(by)) => return by,
            // Whoever asked may be gone.
            Some(Request::Say { told, .. }) => drop(told.send(Err(Unsaid::Ending))),
            Some(Request::Answer { told, .. }) => drop(told.send(Err(Unanswered::NoQuestion))),
            Some(Request::Terminal { told }) => drop(told.send(Err(NoTerminal::NotNow))),
            None => std::future::pending().await,
        }
    }
}
