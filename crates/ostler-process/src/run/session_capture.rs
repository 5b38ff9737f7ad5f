//! Captures the sessions of a jailed agent for memory: its own hooks reach no store. On a thread of its own, so that a slow
//! disk or a daemon that does not answer delays no turn.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ostler_agent::run_event::RunEventKind;
use tokio::sync::oneshot;

use super::{Run, round};
use crate::journal::JournalError;

/// How long a run waits for a capture. One takes milliseconds, and a quarter of a second where a daemon does not answer.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Where sessions are captured.
pub trait SessionCapture: Send + Sync {
    /// Captures what is new in a session. Idempotent. May block for a moment.
    fn capture(&self, session: &CapturedSession) -> io::Result<()>;
}

/// A session to capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedSession {
    /// The agent's own id of it.
    pub id: String,
    /// The agent's own record of it, which exists.
    pub transcript: PathBuf,
    /// Where the agent works.
    pub cwd: PathBuf,
}

/// The captures of one run: at most one at a time.
pub(super) struct Captures {
    to: Option<Arc<dyn SessionCapture>>,
    running: Option<oneshot::Receiver<io::Result<()>>>,
    /// What went wrong first.
    trouble: Option<String>,
}

impl Captures {
    pub(super) fn new(to: Option<Arc<dyn SessionCapture>>) -> Self {
        Self { to, running: None, trouble: None }
    }

    /// Whether sessions are captured, and a capture can begin.
    fn is_ready(&mut self) -> bool {
        let Some(running) = &mut self.running else { return self.to.is_some() };
        match running.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => return false,
            Ok(Err(error)) => self.note(&error.to_string()),
            Ok(Ok(())) | Err(oneshot::error::TryRecvError::Closed) => {}
        }
        self.running = None;
        self.to.is_some()
    }

    fn begin(&mut self, session: CapturedSession) {
        let Some(to) = self.to.clone() else { return };
        let (done, running) = oneshot::channel();
        let capture = move || {
            // A run that did not wait wants no answer.
            let _ = done.send(to.capture(&session));
        };
        match thread::Builder::new().name("capture".to_owned()).spawn(capture) {
            Ok(_) => self.running = Some(running),
            Err(error) => self.note(&error.to_string()),
        }
    }

    /// Waits for the capture that runs. One that takes too long is left alone, and no other begins.
    async fn settle(&mut self) {
        let Some(running) = self.running.take() else { return };
        match tokio::time::timeout(LONGEST_WAIT, running).await {
            Ok(Ok(Err(error))) => self.note(&error.to_string()),
            Ok(Ok(Ok(())) | Err(_)) => {}
            Err(_) => {
                self.to = None;
                self.note(&format!("it took longer than {} s", LONGEST_WAIT.as_secs()));
            }
        }
    }

    fn note(&mut self, trouble: &str) {
        self.trouble.get_or_insert_with(|| trouble.to_owned());
    }
}

impl Run<'_> {
    /// Captures the session, unless a capture runs: the next one finds what this one would.
    pub(super) fn capture_turn(&mut self) {
        if !self.captures.is_ready() {
            return;
        }
        let Some(id) = self.session.clone() else { return };
        let Some(transcript) = round::transcript_file(self.plan, &id) else { return };
        self.captures.begin(CapturedSession { id, transcript, cwd: self.plan.workspace.clone() });
    }

    /// Captures all that the process has written.
    pub(super) async fn capture_process(&mut self) {
        self.captures.settle().await;
        self.capture_turn();
    }

    /// Waits for the last capture, and warns if one went wrong.
    pub(super) async fn finish_captures(&mut self) -> Result<(), JournalError> {
        self.captures.settle().await;
        match self.captures.trouble.take() {
            Some(trouble) => {
                let text = format!("the session was not captured for memory: {trouble}");
                self.desk.tell(RunEventKind::Warn { text })
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    struct Sink(mpsc::SyncSender<String>, Option<io::ErrorKind>);

    impl SessionCapture for Sink {
        fn capture(&self, session: &CapturedSession) -> io::Result<()> {
            self.0.send(session.id.clone()).unwrap();
            self.1.map_or(Ok(()), |kind| Err(kind.into()))
        }
    }

    /// Never returns.
    struct Stuck;

    impl SessionCapture for Stuck {
        fn capture(&self, _session: &CapturedSession) -> io::Result<()> {
            loop {
                thread::park();
            }
        }
    }

    fn session(id: &str) -> CapturedSession {
        CapturedSession { id: id.to_owned(), transcript: "/t".into(), cwd: "/w".into() }
    }

    #[tokio::test]
    async fn one_session_after_another_is_captured_and_the_first_error_is_kept() {
        let (send, received) = mpsc::sync_channel(2);
        let mut captures = Captures::new(Some(Arc::new(Sink(send, Some(io::ErrorKind::StorageFull)))));
        for id in ["a", "b"] {
            captures.settle().await;
            assert!(captures.is_ready());
            captures.begin(session(id));
        }
        captures.settle().await;
        assert_eq!((received.recv().unwrap(), received.recv().unwrap()), ("a".to_owned(), "b".to_owned()));
        assert_eq!(captures.trouble.as_deref(), Some("no storage space"));
    }

    #[tokio::test]
    async fn a_capture_that_hangs_is_left_alone_and_no_other_begins() {
        let mut captures = Captures::new(Some(Arc::new(Stuck)));
        captures.begin(session("a"));
        assert!(!captures.is_ready(), "one at a time");
        captures.settle().await;
        assert!(!captures.is_ready());
        assert_eq!(captures.trouble.as_deref(), Some("it took longer than 1 s"));
    }

    #[tokio::test]
    async fn nothing_is_captured_where_nobody_asked_for_it() {
        assert!(!Captures::new(None).is_ready());
    }
}
