//! Sessions of either engine behind one pool: which one, the terms say.

use ostler_agent::agent::{Decision, Engine};
use ostler_agent::canonical::Message;
use ostler_agent::event::AgentEvent;
use ostler_agent::history::History;
use ostler_agent::leasing::Terms;
use ostler_process::terminal::seat::Seat;

use crate::live::{AnsweredBy, Keepsake, LiveSession, SessionFailure, Start};
use crate::stream::{StreamSession, Streams};
use crate::terminal::{TerminalSession, Terminals};

/// Starts sessions of both engines.
pub struct Engines {
    /// Over pipes.
    pub streams: Streams,
    /// On terminals.
    pub terminals: Terminals,
}

/// A session of either.
pub enum EngineSession {
    /// Over pipes.
    Stream(Box<StreamSession>),
    /// On a terminal.
    Terminal(Box<TerminalSession>),
}

impl Start for Engines {
    type Session = EngineSession;

    fn check(&self, terms: &Terms, history: &History) -> Result<(), SessionFailure> {
        match terms.engine {
            Engine::Stream => self.streams.check(terms, history),
            Engine::Terminal => self.terminals.check(terms, history),
        }
    }

    async fn start(&self, terms: &Terms, prior: &[Message]) -> Result<EngineSession, SessionFailure> {
        Ok(match terms.engine {
            Engine::Stream => EngineSession::Stream(Box::new(self.streams.start(terms, prior).await?)),
            Engine::Terminal => EngineSession::Terminal(Box::new(self.terminals.start(terms, prior).await?)),
        })
    }

    async fn revive(
        &self,
        terms: &Terms,
        keepsake: &Keepsake,
        knows: impl Fn(&[Message]) -> bool + Send,
    ) -> Result<EngineSession, SessionFailure> {
        Ok(match terms.engine {
            Engine::Stream => {
                EngineSession::Stream(Box::new(self.streams.revive(terms, keepsake, knows).await?))
            }
            Engine::Terminal => {
                EngineSession::Terminal(Box::new(self.terminals.revive(terms, keepsake, knows).await?))
            }
        })
    }
}

/// The same of either.
macro_rules! either {
    ($session:expr, $one:ident => $done:expr) => {
        match $session {
            EngineSession::Stream($one) => $done,
            EngineSession::Terminal($one) => $done,
        }
    };
}

impl LiveSession for EngineSession {
    fn pid(&self) -> u32 {
        either!(self, one => one.pid())
    }

    fn memory(&self) -> u64 {
        either!(self, one => one.memory())
    }

    async fn ask(&mut self, message: &Message) -> Result<(), SessionFailure> {
        either!(self, one => one.ask(message).await)
    }

    async fn interrupt(&mut self) -> Result<(), SessionFailure> {
        either!(self, one => one.interrupt().await)
    }

    async fn next(&mut self) -> Result<AgentEvent, SessionFailure> {
        either!(self, one => one.next().await)
    }

    async fn unasked(&mut self) -> Option<Result<AgentEvent, SessionFailure>> {
        either!(self, one => one.unasked().await)
    }

    fn answered_by(&mut self, who: AnsweredBy) {
        either!(self, one => one.answered_by(who));
    }

    async fn answer(&mut self, request: &str, decision: Decision) -> Result<(), SessionFailure> {
        either!(self, one => one.answer(request, decision).await)
    }

    fn terminal(&self) -> Option<Seat> {
        either!(self, one => one.terminal())
    }

    fn keepsake(&self) -> Option<Keepsake> {
        either!(self, one => one.keepsake())
    }

    async fn close(self) {
        either!(self, one => one.close().await);
    }

    async fn park(self) {
        either!(self, one => one.park().await);
    }
}
