//! The seam between the pool and what it pools: how a session is started, and what can be done with a live one. Tests
//! put a scripted session behind it.

use std::future::Future;
use std::path::{Path, PathBuf};

use ostler_agent::agent::Decision;
use ostler_agent::canonical::Message;
use ostler_agent::event::{AgentEvent, Usage};
use ostler_agent::history::History;
use ostler_agent::jail::JailReport;
use ostler_agent::leasing::Terms;
use ostler_agent::watchdog;
pub use ostler_process::stream::AnsweredBy;
use ostler_process::terminal::seat::Seat as TerminalSeat;

use crate::ground::removed;
use crate::session_memory::CaptureRequest;

/// Starts sessions.
pub trait Start: Send + Sync + 'static {
    /// What it starts.
    type Session: LiveSession;
    /// Whether it could be asked at all: looked at before anything is started.
    fn check(&self, _terms: &Terms, _history: &History) -> Result<(), SessionFailure> {
        Ok(())
    }
    /// A session on these terms that knows what was said before: nothing, for a new conversation. Dropping the future
    /// ends what was started so far.
    fn start(
        &self,
        terms: &Terms,
        prior: &[Message],
    ) -> impl Future<Output = Result<Self::Session, SessionFailure>> + Send;
    /// A session whose process is gone, in a new one. It is a failure unless what the agent itself recorded of it is what
    /// `knows` agrees to.
    fn revive(
        &self,
        _terms: &Terms,
        _keepsake: &Keepsake,
        _knows: impl Fn(&[Message]) -> bool + Send,
    ) -> impl Future<Output = Result<Self::Session, SessionFailure>> + Send {
        let detail = "sessions of this kind are not revived".to_owned();
        async { Err(SessionFailure { phase: Phase::Start, detail, hint: None }) }
    }
}

/// What a session is revived by once its process is gone.
#[derive(Debug, Clone, PartialEq)]
pub struct Keepsake {
    /// Its id.
    pub session: String,
    /// The folder that was made for it, if one was.
    pub folder: Option<PathBuf>,
    /// What is known of it here alone. Without that the agent's own record under its id tells what it knows, and is read
    /// before it is revived.
    pub noted: Option<Noted>,
}

/// What is known here alone of a session whose record is not read. It holds until the session is asked something.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Noted {
    /// The agent's own id of it, if what the agent knows by it is what was said.
    pub session: Option<String>,
    /// What it has used so far: some agents tell only sums.
    pub used: Usage,
}

impl Keepsake {
    /// Of a session that the agent itself keeps a record of, under this id.
    pub fn recorded(session: &str, folder: Option<&Path>) -> Self {
        Self { session: session.to_owned(), folder: folder.map(Path::to_owned), noted: None }
    }
}

/// What a `/` is that a text begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Slash {
    /// A letter like any other.
    #[default]
    Text,
    /// The beginning of a command of the agent's own, if the agent takes commands there.
    Command,
}

/// A live session. Only its owner uses it; dropping it ends it at once.
pub trait LiveSession: Send + 'static {
    /// Its process, for people to read; nothing while it has none.
    fn pid(&self) -> Option<u32>;
    /// What it takes of the memory, in bytes.
    fn memory(&self) -> u64;
    /// The wall around its process, or around the last one it had.
    fn jail(&self) -> Option<JailReport> {
        None
    }
    /// Asks it something: the answer is in the events that follow, and ends with [`AgentEvent::TurnEnded`].
    fn ask(
        &mut self,
        message: &Message,
        slash: Slash,
    ) -> impl Future<Output = Result<(), SessionFailure>> + Send;
    /// Asks it to break the turn off: it ends sooner then.
    fn interrupt(&mut self) -> impl Future<Output = Result<(), SessionFailure>> + Send;
    /// What it says next. Cancel safe.
    fn next(&mut self) -> impl Future<Output = Result<AgentEvent, SessionFailure>> + Send;
    /// What it said although nobody asked, without waiting for it.
    fn unasked(&mut self) -> impl Future<Output = Option<Result<AgentEvent, SessionFailure>>> + Send;
    /// Who answers what the agent asks, from now on. Where nobody else can, it is policy whatever is said here.
    fn answered_by(&mut self, _who: AnsweredBy) {}
    /// Answers a question of the agent.
    fn answer(
        &mut self,
        _request: &str,
        _decision: Decision,
    ) -> impl Future<Output = Result<(), SessionFailure>> + Send {
        async { Ok(()) }
    }
    /// Whether its process is started by [`LiveSession::ask`]: until that reports something it starts, and is not silent.
    fn starts_when_asked(&self) -> bool {
        false
    }
    /// What shows that it is alive although it reports no event, since the last look. Cancel safe.
    fn sample(&mut self) -> impl Future<Output = Vec<watchdog::Input>> + Send {
        async { Vec::new() }
    }
    /// Its terminal, if people can sit down at it.
    fn terminal(&self) -> Option<TerminalSeat> {
        None
    }
    /// A request to capture its last turn, if it is remembered.
    fn capture_request(&self) -> Option<CaptureRequest> {
        None
    }
    /// What it is revived by; nothing, if it cannot be.
    fn keepsake(&self) -> Option<Keepsake> {
        None
    }
    /// Ends its process, and leaves what it is revived by.
    fn park(self) -> impl Future<Output = ()> + Send;
    /// Ends it: when this returns nothing of it is left, and the folder that was made for it is gone too.
    fn close(self) -> impl Future<Output = ()> + Send
    where
        Self: Sized,
    {
        async {
            let folder = self.keepsake().and_then(|keepsake| keepsake.folder);
            self.park().await;
            if let Some(folder) = folder {
                removed(folder).await;
            }
        }
    }
}

/// Why a session cannot be had, or not any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", .phase.doing())]
pub struct SessionFailure {
    /// When.
    pub phase: Phase,
    /// Why.
    pub detail: String,
    /// What to try.
    pub hint: Option<String>,
}

/// Where in its life a session failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before it was begun: it cannot be asked that.
    Prompt,
    /// The same, for its length.
    TooLong,
    /// The same, for the key.
    Forbidden,
    /// Before it was there.
    Start,
    /// When it was asked while a person sat at it.
    Held,
    /// When it was asked.
    Ask,
    /// While it answered.
    Answer,
}

impl Phase {
    fn doing(self) -> &'static str {
        match self {
            Self::Prompt => "the agent cannot be asked this",
            Self::TooLong => "the agent takes no prompt of this length",
            Self::Forbidden => "this key cannot be served",
            Self::Start => "could not start a session",
            Self::Held => "the agent cannot be asked now",
            Self::Ask => "could not ask the agent",
            Self::Answer => "the agent did not finish its answer",
        }
    }
}

impl SessionFailure {
    /// In that phase, for that reason and all that is behind it.
    pub fn of(phase: Phase, error: &dyn std::error::Error) -> Self {
        let mut detail = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            detail.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        Self { phase, detail, hint: None }
    }
}
