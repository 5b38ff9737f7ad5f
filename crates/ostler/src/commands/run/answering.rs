//! Questions of an agent, answered from the terminal on which the run is watched.
//!
//! Nothing is read from the terminal while no question is open, and nothing from a background job: to read there would
//! stop the whole run.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ostler_agent::bridge::{BridgeEvent, Question};
use ostler_agent::run_event::{RunEvent, RunEventKind};
use ostler_process::run::Request;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::getpgrp;
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp};
use tokio::sync::{mpsc, oneshot, watch};

use super::args::Voice;
use crate::display;

/// A line that a terminal gives at once, at most.
const LONGEST_LINE: usize = 4096;

/// Between two looks whether a line is still wanted, and whether we are in the foreground.
const LOOK: Duration = Duration::from_millis(200);
const LOOK_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Whether questions of this run can be answered at the terminal.
pub(super) fn is_possible(voice: Voice) -> bool {
    voice == Voice::Words && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// What is told of the run's events, for as long as there is somebody to ask.
pub(super) struct Answering {
    open: BTreeMap<u64, Question>,
    /// The oldest open question.
    oldest: Option<watch::Sender<Option<u64>>>,
}

/// Both ends of it; nothing is ever asked where nobody sits.
pub(super) fn begin(voice: Voice) -> (Answering, Option<watch::Receiver<Option<u64>>>) {
    let (oldest, questions) = if is_possible(voice) {
        let (sender, receiver) = watch::channel(None);
        (Some(sender), Some(receiver))
    } else {
        (None, None)
    };
    (Answering { open: BTreeMap::new(), oldest }, questions)
}

impl Answering {
    /// Takes an event. Never blocks.
    pub(super) fn note(&mut self, event: &RunEvent) {
        match &event.kind {
            RunEventKind::Bridge(BridgeEvent::Asked(question)) => {
                self.open.insert(question.id, question.clone());
            }
            RunEventKind::Bridge(BridgeEvent::Settled { question, .. }) => {
                self.open.remove(question);
            }
            RunEventKind::Exited { .. } => self.open.clear(),
            _ => return,
        }
        if let Some(oldest) = &self.oldest {
            oldest.send_replace(self.open.keys().next().copied());
        }
    }
}

/// Hands on what is typed, for as long as the run lasts.
pub(super) async fn attend(
    questions: Option<watch::Receiver<Option<u64>>>,
    ask: mpsc::Sender<Request>,
) -> Infallible {
    if let Some(mut questions) = questions {
        // A terminal that cannot be waited for is one at which nobody answers.
        while let Ok(Some(question)) = questions.wait_for(Option::is_some).await.map(|found| *found) {
            let typed = tokio::select! {
                typed = line() => typed,
                _ = questions.wait_for(|now| *now != Some(question)) => continue,
            };
            let Ok(text) = typed else { break };
            let (told, heard) = oneshot::channel();
            if ask.send(Request::Answer { question: Some(question), text, told }).await.is_err() {
                break;
            }
            match heard.await {
                Ok(Err(unanswered)) => display::tell(&format!("warning: {unanswered}")),
                // Until the agent has it, the question is still open.
                Ok(Ok(())) => drop(questions.wait_for(|now| *now != Some(question)).await),
                Err(_) => break,
            }
        }
    }
    std::future::pending().await
}

/// The next line that is typed from now on. What was typed before was not meant for the question. Cancel safe.
async fn line() -> io::Result<String> {
    let wanted = Wanted(Arc::new(AtomicBool::new(true)));
    let (give, line) = oneshot::channel();
    let still = Arc::clone(&wanted.0);
    // It ends soon after nobody wants the line any more.
    std::thread::Builder::new().name("ostler-answer".to_owned()).spawn(move || {
        let _ = give.send(typed(&still));
    })?;
    line.await.unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into()))
}

/// A line is wanted for as long as this lives.
struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

fn typed(is_wanted: &AtomicBool) -> io::Result<String> {
    let stdin = io::stdin();
    let _ = tcflush(&stdin, QueueSelector::IFlush);
    let mut bytes = vec![0; LONGEST_LINE];
    while is_wanted.load(Ordering::Relaxed) {
        let is_ours = tcgetpgrp(&stdin).is_ok_and(|owner| owner == getpgrp());
        if !is_ours {
            std::thread::sleep(LOOK);
            continue;
        }
        let mut asked = [PollFd::new(&stdin, PollFlags::IN)];
        let ready = retry_on_intr(|| poll(&mut asked, Some(&LOOK_TIME)))?;
        if ready == 0 || !is_wanted.load(Ordering::Relaxed) {
            continue;
        }
        // A terminal gives a whole line, and no more.
        let count = rustix::io::read(&stdin, &mut bytes)?;
        if count == 0 {
            break;
        }
        return Ok(String::from_utf8_lossy(&bytes[..count]).trim_end_matches(['\r', '\n']).to_owned());
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}
