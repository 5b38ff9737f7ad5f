//! Sessions of every kind behind one pool: which one, the terms say.

use ostler_agent::agent::{Decision, Engine};
use ostler_agent::canonical::Message;
use ostler_agent::event::AgentEvent;
use ostler_agent::history::History;
use ostler_agent::jail::JailReport;
use ostler_agent::leasing::Terms;
use ostler_agent::watchdog;
use ostler_process::terminal::seat::Seat;

use crate::ground::{Ground, failed};
use crate::live::{AnsweredBy, Keepsake, LiveSession, SessionFailure, Slash, Start};
use crate::one_shot::{OneShotSession, OneShots};
use crate::session_memory::CaptureRequest;
use crate::stream::{StreamSession, Streams};
use crate::terminal::{TerminalSession, Terminals};

/// Starts sessions of the agents that are here.
#[derive(Default)]
pub struct Engines {
    /// Over pipes, one process a session.
    pub streams: Option<Streams>,
    /// On terminals.
    pub terminals: Option<Terminals>,
    /// Over pipes, one process a turn.
    pub one_shots: Vec<OneShots>,
}

/// A session of any kind.
pub enum EngineSession {
    /// Over pipes, one process for all turns.
    Stream(Box<StreamSession>),
    /// On a terminal.
    Terminal(Box<TerminalSession>),
    /// Over pipes, one process a turn.
    OneShot(Box<OneShotSession>),
}

/// Who starts a session on some terms.
enum Starter<'a> {
    Stream(&'a Streams),
    Terminal(&'a Terminals),
    OneShot(&'a OneShots),
}

impl Starter<'_> {
    fn ground(&self) -> &Ground {
        match self {
            Self::Stream(streams) => &streams.0,
            Self::Terminal(terminals) => &terminals.0,
            Self::OneShot(one_shots) => &one_shots.0,
        }
    }
}

impl Engines {
    fn of(&self, terms: &Terms) -> Result<Starter<'_>, SessionFailure> {
        let one_shot = self.one_shots.iter().find(|found| found.0.agent.name() == terms.agent);
        let found = match (one_shot, terms.engine) {
            (Some(found), _) => Some(Starter::OneShot(found)),
            (None, Engine::Stream) => self.streams.as_ref().map(Starter::Stream),
            (None, Engine::Terminal) => self.terminals.as_ref().map(Starter::Terminal),
        };
        found.ok_or_else(|| failed(format!("there is no program of `{}`", terms.agent)))
    }
}

impl Start for Engines {
    type Session = EngineSession;

    fn check(&self, terms: &Terms, history: &History) -> Result<(), SessionFailure> {
        self.of(terms)?.ground().for_terms(terms)?;
        match self.of(terms)? {
            Starter::Stream(streams) => streams.check(terms, history),
            Starter::Terminal(terminals) => terminals.check(terms, history),
            Starter::OneShot(one_shots) => one_shots.check(terms, history),
        }
    }

    async fn start(&self, terms: &Terms, prior: &[Message]) -> Result<EngineSession, SessionFailure> {
        Ok(match self.of(terms)? {
            Starter::Stream(found) => EngineSession::Stream(Box::new(found.start(terms, prior).await?)),
            Starter::Terminal(found) => EngineSession::Terminal(Box::new(found.start(terms, prior).await?)),
            Starter::OneShot(found) => EngineSession::OneShot(Box::new(found.start(terms, prior).await?)),
        })
    }

    async fn revive(
        &self,
        terms: &Terms,
        keepsake: &Keepsake,
        knows: impl Fn(&[Message]) -> bool + Send,
    ) -> Result<EngineSession, SessionFailure> {
        Ok(match self.of(terms)? {
            Starter::Stream(found) => {
                EngineSession::Stream(Box::new(found.revive(terms, keepsake, knows).await?))
            }
            Starter::Terminal(found) => {
                EngineSession::Terminal(Box::new(found.revive(terms, keepsake, knows).await?))
            }
            Starter::OneShot(found) => {
                EngineSession::OneShot(Box::new(found.revive(terms, keepsake, knows).await?))
            }
        })
    }
}

/// The same of each.
macro_rules! each {
    ($session:expr, $one:ident => $done:expr) => {
        match $session {
            EngineSession::Stream($one) => $done,
            EngineSession::Terminal($one) => $done,
            EngineSession::OneShot($one) => $done,
        }
    };
}

impl LiveSession for EngineSession {
    fn pid(&self) -> Option<u32> {
        each!(self, one => one.pid())
    }

    fn memory(&self) -> u64 {
        each!(self, one => one.memory())
    }

    fn jail(&self) -> Option<JailReport> {
        each!(self, one => one.jail())
    }

    async fn ask(&mut self, message: &Message, slash: Slash) -> Result<(), SessionFailure> {
        each!(self, one => one.ask(message, slash).await)
    }

    async fn interrupt(&mut self) -> Result<(), SessionFailure> {
        each!(self, one => one.interrupt().await)
    }

    async fn next(&mut self) -> Result<AgentEvent, SessionFailure> {
        each!(self, one => one.next().await)
    }

    async fn unasked(&mut self) -> Option<Result<AgentEvent, SessionFailure>> {
        each!(self, one => one.unasked().await)
    }

    fn answered_by(&mut self, who: AnsweredBy) {
        each!(self, one => one.answered_by(who));
    }

    async fn answer(&mut self, request: &str, decision: Decision) -> Result<(), SessionFailure> {
        each!(self, one => one.answer(request, decision).await)
    }

    fn starts_when_asked(&self) -> bool {
        each!(self, one => one.starts_when_asked())
    }

    async fn sample(&mut self) -> Vec<watchdog::Input> {
        each!(self, one => one.sample().await)
    }

    fn terminal(&self) -> Option<Seat> {
        each!(self, one => one.terminal())
    }

    fn capture_request(&self) -> Option<CaptureRequest> {
        each!(self, one => one.capture_request())
    }

    fn keepsake(&self) -> Option<Keepsake> {
        each!(self, one => one.keepsake())
    }

    async fn park(self) {
        each!(self, one => one.park().await);
    }
}
