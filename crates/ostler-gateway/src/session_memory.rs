//! Memory of served sessions, for keys that have one: the owner's for the owner's keys, one of its own for each tenant.
//! Agents reach no store themselves: the pool has each turn captured once it is over, and a new process gets the context.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ostler_agent::agent::Agent;
use ostler_process::run::{CapturedSession, session_transcript};

use crate::ground::Ground;

/// How long a start waits for the context. It takes milliseconds; a store that is busy or large gives none.
const CONTEXT_WAIT: Duration = Duration::from_millis(400);

/// How long after a turn the agent's own record is read. Claude Code writes it about every 100 ms.
const RECORD_DELAY: Duration = Duration::from_millis(250);

/// What a key's sessions are remembered in.
pub trait SessionMemory: Send + Sync {
    /// What a session that begins in a directory should know. Blocks.
    fn find_context(&self, cwd: &Path, session: &str) -> Option<String>;
    /// Stores what is new in an agent's own record of a session. Blocks.
    fn capture(&self, agent: &dyn Agent, session: &CapturedSession) -> io::Result<()>;
}

/// A session whose last turn is to be captured.
pub struct CaptureRequest {
    ground: Ground,
    memory: Arc<dyn SessionMemory>,
    workspace: PathBuf,
    /// The agent's own id of it.
    session: String,
}

/// Captures a session whose process has ended: its record is whole then.
pub(crate) async fn capture_whole(request: Option<CaptureRequest>) {
    if let Some(request) = request {
        // Only a runtime that ends does not do it.
        let _ = tokio::task::spawn_blocking(move || request.run()).await;
    }
}

impl CaptureRequest {
    /// Captures it once its turn is in the record. What is missing then is captured with the next turn, or when the process
    /// has ended.
    pub(crate) async fn run_after_turn(self) {
        tokio::time::sleep(RECORD_DELAY).await;
        capture_whole(Some(self)).await;
    }

    fn run(self) {
        let Self { ground, memory, workspace, session } = self;
        let Some(transcript) = session_transcript(ground.agent, &ground.env, &workspace, &session) else {
            return;
        };
        let captured = CapturedSession { id: session, transcript, cwd: workspace };
        if let Err(error) = memory.capture(ground.agent, &captured) {
            tracing::warn!(target: "ostler::memory", %error, "a served session was not captured");
        }
    }
}

impl Ground {
    /// A request to capture a session, if its key has a memory.
    pub(crate) fn capture_request(&self, workspace: &Path, session: &str) -> Option<CaptureRequest> {
        let memory = self.memory.clone()?;
        let (workspace, session) = (workspace.to_owned(), session.to_owned());
        Some(CaptureRequest { ground: self.clone(), memory, workspace, session })
    }

    /// The system prompt for a new process: the client's, and what the key's memory adds.
    pub(crate) async fn system_prompt(
        &self,
        wanted: Option<&str>,
        workspace: &Path,
        session: &str,
    ) -> Option<String> {
        let context = match self.memory.clone() {
            None => None,
            Some(memory) => {
                let (workspace, session) = (workspace.to_owned(), session.to_owned());
                let find = tokio::task::spawn_blocking(move || memory.find_context(&workspace, &session));
                tokio::time::timeout(CONTEXT_WAIT, find).await.ok().and_then(Result::ok).flatten()
            }
        };
        match (wanted, context) {
            (Some(wanted), Some(context)) => Some(format!("{wanted}\n\n{context}")),
            (wanted, context) => context.or_else(|| wanted.map(str::to_owned)),
        }
    }
}
