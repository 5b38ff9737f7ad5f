//! Sessions over pipes: one process of the agent a session, which takes one prompt after the other.
//!
//! A conversation that happened elsewhere is written as the agent's own record before it starts, and the session is
//! resumed. A session that works in a folder of its own takes it along when it is closed.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use ostler_agent::agent::{Agent, Decision, Session as Which, Whereabouts};
use ostler_agent::canonical::{Block, Message};
use ostler_agent::event::AgentEvent;
use ostler_agent::leasing::{Place, Terms};
use ostler_agent::offering::Toolset;
use ostler_process::seeding::seed;
use ostler_process::stream::{Opening, Session, SessionError};
use uuid::Uuid;

use crate::live::{AnsweredBy, LiveSession, Phase, SessionFailure, Start};

/// Starts sessions of one agent over pipes.
pub struct Streams {
    /// The agent.
    pub agent: &'static dyn Agent,
    /// Its program.
    pub program: PathBuf,
    /// The whole environment that it is started in.
    pub env: Vec<(OsString, OsString)>,
    /// The home directory of whoever runs it.
    pub home: PathBuf,
    /// A folder of ours, for what sessions need. It need not exist.
    pub folder: PathBuf,
    /// Our own binary, which guards it.
    pub guard: PathBuf,
}

/// A session over pipes.
pub struct StreamSession {
    session: Session,
    /// The folder that was made for it.
    own: Option<PathBuf>,
}

impl Streams {
    fn variable(&self, name: &str) -> Option<String> {
        let found = self.env.iter().find(|(known, _)| known == name);
        found.and_then(|(_, value)| value.to_str().map(str::to_owned))
    }
}

fn failure(error: &dyn std::error::Error, hint: Option<String>) -> SessionFailure {
    SessionFailure { hint, ..SessionFailure::of(Phase::Start, error) }
}

/// A folder for its owner alone, with links resolved.
fn folder(path: &Path) -> Result<PathBuf, SessionFailure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.and_then(|()| path.canonicalize()).map_err(|error| {
        let detail = format!("could not make {}: {error}", path.display());
        SessionFailure { phase: Phase::Start, detail, hint: None }
    })
}

impl Start for Streams {
    type Session = StreamSession;

    async fn start(&self, terms: &Terms, prior: &[Message]) -> Result<StreamSession, SessionFailure> {
        let id = Uuid::new_v4().to_string();
        let own = match &terms.workspace {
            Place::Own => Some(folder(&self.folder.join("workspaces").join(&id))?),
            Place::Folder(_) => None,
        };
        let own = own.map(Own);
        let workspace = match (&own, &terms.workspace) {
            (Some(own), _) => own.0.clone(),
            (None, Place::Folder(folder)) => folder.clone(),
            (None, Place::Own) => self.folder.clone(),
        };
        let offered = Toolset::of_form(&terms.tools);
        let inward = offered.as_ref().map(|offered| offered.inward(prior));
        let prior = inward.as_deref().unwrap_or(prior);
        if !prior.is_empty() {
            let variable = |name: &str| self.variable(name);
            let whereabouts =
                Whereabouts { home: &self.home, variable: &variable, workspace: &workspace, session: &id };
            seed(self.agent, &whereabouts, terms.model.as_deref(), prior)
                .map_err(|error| failure(&error, error.hint()))?;
        }
        let session = Session::open(Opening {
            agent: self.agent,
            program: self.program.clone(),
            env: &self.env,
            workspace,
            private: self.folder.join("private").join(&id),
            session: if prior.is_empty() { Which::Minted(&id) } else { Which::Resumed(&id) },
            permissions: terms.permissions,
            allow: &terms.allow,
            model: terms.model.as_deref(),
            system_prompt: terms.system_prompt.as_deref(),
            offered,
            name: &id,
            guard: self.guard.clone(),
        })
        .await
        .map_err(|error| failure(&error, hint(&error)))?;
        Ok(StreamSession { session, own: own.map(Own::keep) })
    }
}

fn hint(error: &SessionError) -> Option<String> {
    match error {
        SessionError::Refused(refusal) => Some(refusal.hint.clone()),
        SessionError::Private(error) => error.hint(),
        SessionError::OneShot { .. }
        | SessionError::Start(_)
        | SessionError::Unheard
        | SessionError::Over => None,
    }
}

/// A text that begins with `/` would be taken for a command of the agent's own, in a list of blocks too. A blank before
/// it makes it a text like any other: seen on Claude Code 2.1.197.
fn harmless(message: &Message) -> Message {
    let blocks = message.blocks.iter().map(|block| match block {
        Block::Text(text) if text.starts_with('/') => Block::Text(format!(" {text}")),
        block => block.clone(),
    });
    Message { role: message.role, blocks: blocks.collect() }
}

/// A folder that is removed unless a session takes it.
struct Own(PathBuf);

impl Own {
    fn keep(mut self) -> PathBuf {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            remove(&self.0);
        }
    }
}

fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder) {
        tracing::warn!(target: "ostler::pool", %error, "the folder of a session could not be removed");
    }
}

impl LiveSession for StreamSession {
    fn pid(&self) -> u32 {
        self.session.pid()
    }

    fn memory(&self) -> u64 {
        self.session.memory()
    }

    async fn ask(&mut self, message: &Message) -> Result<(), SessionFailure> {
        self.session.ask(&harmless(message)).map_err(|error| SessionFailure::of(Phase::Ask, &error))
    }

    async fn interrupt(&mut self) -> Result<(), SessionFailure> {
        self.session.interrupt().map_err(|error| SessionFailure::of(Phase::Answer, &error))
    }

    async fn next(&mut self) -> Result<AgentEvent, SessionFailure> {
        self.session.next().await.map_err(|error| SessionFailure::of(Phase::Answer, &error))
    }

    async fn unasked(&mut self) -> Option<Result<AgentEvent, SessionFailure>> {
        let event = self.session.unasked().await?;
        Some(event.map_err(|error| SessionFailure::of(Phase::Answer, &error)))
    }

    fn answered_by(&mut self, who: AnsweredBy) {
        self.session.answered_by(who);
    }

    async fn answer(&mut self, request: &str, decision: Decision) -> Result<(), SessionFailure> {
        self.session.answer(request, decision).map_err(|error| SessionFailure::of(Phase::Answer, &error))
    }

    async fn close(self) {
        let Self { session, own } = self;
        let survivors = session.close().await;
        if survivors.0 > 0 {
            tracing::error!(target: "ostler::pool", left = survivors.0, "processes of a session could not be ended");
        }
        if let Some(own) = own {
            remove(&own);
        }
    }
}

#[cfg(test)]
mod tests {
    use ostler_agent::canonical::Role;

    use super::*;

    #[test]
    fn a_prompt_is_never_a_command() {
        let asked = |texts: &[&str]| {
            let blocks = texts.iter().map(|text| Block::Text((*text).to_owned())).collect();
            harmless(&Message { role: Role::User, blocks }).text()
        };
        assert_eq!(asked(&["/clear"]), " /clear");
        assert_eq!(asked(&["see", "/clear"]), "see\n\n /clear");
        assert_eq!(asked(&["a /clear", "!ls"]), "a /clear\n\n!ls");
    }
}
