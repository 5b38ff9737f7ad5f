//! Sessions over pipes: one process of the agent a session, which takes one prompt after the other.
//!
//! A conversation that happened elsewhere is written as the agent's own record before it starts, and the session is
//! resumed. A session that works in a folder of its own takes it along when it is closed.

use std::path::PathBuf;

use ostler_agent::agent::{Decision, Session as Which};
use ostler_agent::canonical::{Block, Message};
use ostler_agent::event::AgentEvent;
use ostler_agent::jail::JailReport;
use ostler_agent::leasing::Terms;
use ostler_agent::offering::Toolset;
use ostler_agent::watchdog;
use ostler_process::contain::Standby;
use ostler_process::stream::{Opening, Session, SessionError};
use uuid::Uuid;

use crate::ground::{Ground, Own, failure, told};
use crate::jail::Grant;
use crate::live::{AnsweredBy, Keepsake, LiveSession, Phase, SessionFailure, Slash, Start};
use crate::session_memory::{CaptureRequest, capture_whole};

/// Starts sessions of one agent over pipes.
pub struct Streams(pub Ground);

/// A session over pipes.
pub struct StreamSession {
    session: Session,
    id: String,
    /// The folder that was made for it.
    own: Option<PathBuf>,
    /// Where a guardian waits for the next one.
    guard: Standby,
    ground: Ground,
    workspace: PathBuf,
}

impl Streams {
    async fn open(
        &self,
        terms: &Terms,
        which: Which<'_>,
        workspace: PathBuf,
    ) -> Result<Session, SessionFailure> {
        let (Which::Minted(id) | Which::Resumed(id)) = which else {
            return Err(crate::ground::failed("a session must have an id".to_owned()));
        };
        let ground = self.0.for_terms(terms)?;
        let grant = Grant { permissions: terms.permissions, asks_client: terms.asks_client };
        let confinement = ground.confine(id, grant, &workspace).await?;
        let system_prompt = ground.system_prompt(terms.system_prompt.as_deref(), &workspace, id).await;
        let opened = Session::open(Opening {
            agent: ground.agent,
            program: ground.program.clone(),
            env: &ground.env,
            workspace,
            private: ground.private(id),
            session: which,
            prompt: None,
            before: None,
            permissions: terms.permissions,
            enforcement: confinement.enforcement,
            allow: &terms.allow,
            model: terms.model.as_deref(),
            system_prompt: system_prompt.as_deref(),
            offered: Toolset::of_form(&terms.tools),
            name: id,
            guard: ground.guard.program().to_owned(),
            ahead: ground.guard.take(),
            repository: confinement.trust.as_trust(),
            jail: confinement.jail.clone(),
        });
        opened.await.map_err(|error| failure(&error, hint(&error)))
    }
}

impl Start for Streams {
    type Session = StreamSession;

    async fn start(&self, terms: &Terms, prior: &[Message]) -> Result<StreamSession, SessionFailure> {
        let id = Uuid::new_v4().to_string();
        let ground = self.0.for_terms(terms)?;
        let place = ground.place(terms, &id)?;
        let which = if prior.is_empty() {
            Which::Minted(&id)
        } else {
            let inward = Toolset::of_form(&terms.tools).map(|offered| offered.inward(prior));
            ground.seed(&place.path, &id, terms.model.as_deref(), inward.as_deref().unwrap_or(prior))?;
            Which::Resumed(&id)
        };
        let workspace = place.path.clone();
        let session = self.open(terms, which, place.path).await?;
        let (guard, ground) = (self.0.guard.clone(), ground.into_owned());
        Ok(StreamSession { session, own: place.own.map(Own::keep), id, guard, ground, workspace })
    }

    async fn revive(
        &self,
        terms: &Terms,
        keepsake: &Keepsake,
        knows: impl Fn(&[Message]) -> bool + Send,
    ) -> Result<StreamSession, SessionFailure> {
        let ground = self.0.for_terms(terms)?;
        let workspace = ground.place_of(terms, keepsake)?;
        ground.check(&workspace, &keepsake.session, knows).await?;
        let session = self.open(terms, Which::Resumed(&keepsake.session), workspace.clone()).await?;
        let (id, own, guard) = (keepsake.session.clone(), keepsake.folder.clone(), self.0.guard.clone());
        Ok(StreamSession { session, id, own, guard, ground: ground.into_owned(), workspace })
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

impl LiveSession for StreamSession {
    fn pid(&self) -> Option<u32> {
        Some(self.session.pid())
    }

    fn jail(&self) -> Option<JailReport> {
        self.session.jail().cloned()
    }

    fn memory(&self) -> u64 {
        self.session.memory()
    }

    async fn ask(&mut self, message: &Message, slash: Slash) -> Result<(), SessionFailure> {
        let asked = match slash {
            Slash::Text => self.session.ask(&harmless(message)),
            Slash::Command => self.session.ask(message),
        };
        asked.map_err(|error| SessionFailure::of(Phase::Ask, &error))
    }

    async fn interrupt(&mut self) -> Result<(), SessionFailure> {
        self.session.interrupt().map_err(|error| SessionFailure::of(Phase::Answer, &error))
    }

    async fn next(&mut self) -> Result<AgentEvent, SessionFailure> {
        let event = self.session.next().await.map_err(|error| SessionFailure::of(Phase::Answer, &error))?;
        if matches!(event, AgentEvent::TurnEnded(_)) {
            // Not before: an agent that starts needs every core.
            self.guard.fill();
        }
        Ok(event)
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

    async fn sample(&mut self) -> Vec<watchdog::Input> {
        vec![self.session.sample()]
    }

    fn capture_request(&self) -> Option<CaptureRequest> {
        self.ground.capture_request(&self.workspace, &self.id)
    }

    fn keepsake(&self) -> Option<Keepsake> {
        Some(Keepsake::recorded(&self.id, self.own.as_deref()))
    }

    async fn park(self) {
        let request = self.capture_request();
        told(self.session.close().await);
        capture_whole(request).await;
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
