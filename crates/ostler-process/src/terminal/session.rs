//! A live conversation with an agent's terminal program: several turns on one terminal, without a run.
//!
//! One task owns the program, reads its terminal without pause and types what it is told; whoever has a [`Session`] gives
//! orders and reads events. Events wait in the agent's own record: a reader that is slow is waited for, but the terminal
//! is drained all the same. Dropping a session ends the program and all that it started.

mod live;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_agent::agent::{Agent, Permissions};
use ostler_agent::event::AgentEvent;
use ostler_agent::interrupting::Left;
use ostler_agent::jail::JailReport;
use ostler_agent::terminal::Status;
use ostler_agent::typing::{Cause, Unsendable};
use ostler_agent::watchdog;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use live::Live;

use super::driver::{Driver, Start};
use super::files::Whence;
use super::pty::Size;
use super::seat::Seat;
use crate::contain::{Exit, Sampler, Spawn, StartError, Stdin, Survivors};
use crate::run::{PlannedJail, start_in};

/// Orders that may wait. Whoever gives more waits too.
const ORDERS: usize = 4;

/// Events of a turn that may wait for their reader. When they are so many, records are not read on until some are taken.
const EVENTS: usize = 256;

/// What a session is opened with.
pub struct Opening<'a> {
    /// The agent.
    pub agent: &'static dyn Agent,
    /// Its program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The whole environment that it is started in.
    pub env: Vec<(OsString, OsString)>,
    /// Where it works: absolute, with links resolved.
    pub workspace: PathBuf,
    /// What policy allows when it asks.
    pub permissions: Permissions,
    /// The session, where it is known before the program says so: one that is resumed, or one whose id was chosen.
    pub session: Option<String>,
    /// How large its terminal is.
    pub size: Size,
    /// A name for it, which need not be unique.
    pub name: &'a str,
    /// Our own binary, which guards it.
    pub guard: PathBuf,
    /// The wall around it, or none.
    pub jail: Option<Arc<PlannedJail>>,
}

/// Why a session cannot be used, or not in this way.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The agent has no terminal program.
    #[error("agent `{agent}` has no terminal program")]
    NoTerminal {
        /// Which.
        agent: &'static str,
    },
    /// It does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The prompt cannot be typed.
    #[error(transparent)]
    Unsendable(#[from] Unsendable),
    /// The prompt was not taken. The input box is empty, as far as it can be seen.
    #[error(transparent)]
    NotSubmitted(#[from] Cause),
    /// A turn is under way.
    #[error("a turn is under way in this session")]
    Busy,
    /// A dialog is up that nobody may answer.
    #[error("the terminal program asks something that nobody may answer: {reason}")]
    Blocked {
        /// What.
        reason: String,
        /// What the screen shows.
        screen: String,
    },
    /// The turn could not be broken off.
    #[error("the turn could not be broken off")]
    Unsettled,
    /// The program was ended.
    #[error("the terminal program has ended")]
    Over,
    /// The program ended by itself.
    #[error("the terminal program has ended: {reason}")]
    Ended {
        /// What it printed last, or how it ended.
        reason: String,
    },
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// How the program ended.
    pub exit: Exit,
    /// How many of its processes could not be ended.
    pub survivors: Survivors,
}

/// What is known of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The agent's own id of it, once it is known. `/clear` begins another.
    pub session: Option<String>,
    /// What the program says it is doing.
    pub status: Option<Status>,
    /// Why the program is gone, if it ended by itself.
    pub ended: Option<String>,
}

impl About {
    /// That the program is gone.
    fn over(&self) -> SessionError {
        match &self.ended {
            Some(reason) => SessionError::Ended { reason: reason.clone() },
            None => SessionError::Over,
        }
    }
}

/// What happens in a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    /// The agent said or did something. The end of the turn is the last.
    Event(AgentEvent),
    /// A dialog is up that nobody may answer: the turn will not end by itself.
    Blocked {
        /// What it is about.
        reason: String,
        /// What the screen shows.
        screen: String,
    },
}

enum Order {
    Ask { prompt: String, events: mpsc::Sender<Happening>, told: oneshot::Sender<Result<(), SessionError>> },
    Interrupt { told: oneshot::Sender<Result<Left, SessionError>> },
    Sample { told: oneshot::Sender<Vec<watchdog::Input>> },
    Close,
}

/// A live session.
#[derive(Debug)]
pub struct Session {
    orders: mpsc::Sender<Order>,
    about: watch::Receiver<About>,
    seat: Seat,
    pid: u32,
    jail: Option<JailReport>,
    /// What the wall needs as long as the program lives.
    _wall: Option<Arc<PlannedJail>>,
    workspace: PathBuf,
    living: JoinSet<Closed>,
}

/// The answer to a prompt, as it comes.
#[derive(Debug)]
pub struct TurnStream {
    events: mpsc::Receiver<Happening>,
    orders: mpsc::Sender<Order>,
}

impl TurnStream {
    /// What happens next; nothing once the turn is over. The last event is how it ended, also if the program is gone; only
    /// a session that is closed meanwhile ends without one. Cancel safe.
    pub async fn next(&mut self) -> Option<Happening> {
        self.events.recv().await
    }

    /// Breaks the turn off. The session takes another prompt afterwards.
    pub async fn interrupt(&self) -> Result<Left, SessionError> {
        interrupt(&self.orders).await.unwrap_or(Err(SessionError::Over))
    }
}

/// `None` if the program is gone.
async fn interrupt(orders: &mpsc::Sender<Order>) -> Option<Result<Left, SessionError>> {
    let (told, heard) = oneshot::channel();
    orders.send(Order::Interrupt { told }).await.ok()?;
    heard.await.ok()
}

impl Session {
    /// Starts the program. It need not be ready for a prompt yet: the first one waits for it.
    pub async fn open(opening: Opening<'_>) -> Result<Self, SessionError> {
        let Opening {
            agent,
            program,
            args,
            mut env,
            workspace,
            permissions,
            session,
            size,
            name,
            guard,
            jail,
        } = opening;
        let interactive = agent.interactive().ok_or(SessionError::NoTerminal { agent: agent.name() })?;
        let policy = jail.as_ref().and_then(|jail| jail.substitutes()).cloned();
        let files = jail.as_ref().map(|jail| jail.files.clone()).unwrap_or_default();
        if let Some(jail) = &jail {
            jail.change_environment(&mut env);
        }
        let spawn = Spawn {
            program,
            args,
            env: env.clone(),
            cwd: workspace.clone(),
            stdin: Stdin::Terminal(size),
            run: name,
            tier: None,
            jail: None,
            guard,
        };
        let mut child = start_in(jail.as_deref(), spawn, None).await?;
        let (pty, place) = (child.terminal.take().ok_or(SessionError::Over)?, workspace.clone());
        let pid = child.pid();
        let report = jail.as_ref().zip(child.jail().cloned()).map(|(jail, enforced)| jail.report(enforced));
        let driver = Driver::new(Start {
            agent,
            interactive,
            decoder: agent.decoder(None),
            pty,
            size,
            whence: Whence { env, workspace, policy, files },
            own_pid: child.own_pid().unwrap_or(pid),
            pid,
            session: session.clone(),
            permissions,
        });
        let seat = driver.seat().clone();
        let (orders, queue) = mpsc::channel(ORDERS);
        let (told, about) = watch::channel(About { session, ..About::default() });
        let live = Live {
            child,
            sampler: Sampler::default(),
            life: None,
            driver,
            interactive,
            orders: queue,
            about: told,
            opened: Instant::now(),
            turn: None,
            interrupting: None,
            pending: VecDeque::new(),
            blocked: None,
        };
        let mut living = JoinSet::new();
        living.spawn(live.live());
        Ok(Self { orders, about, seat, pid, jail: report, _wall: jail, workspace: place, living })
    }

    /// Types a prompt and waits until the agent has it. One turn at a time. Who gives up waiting before anything was typed
    /// has asked nothing; what was begun is finished, and can be broken off.
    pub async fn ask(&mut self, prompt: &str) -> Result<TurnStream, SessionError> {
        let (events, happenings) = mpsc::channel(EVENTS);
        let (told, heard) = oneshot::channel();
        let order = Order::Ask { prompt: prompt.to_owned(), events, told };
        self.orders.send(order).await.map_err(|_| self.over())?;
        heard.await.unwrap_or_else(|_| Err(self.over()))?;
        Ok(TurnStream { events: happenings, orders: self.orders.clone() })
    }

    /// Breaks the turn off, if one is under way. The session takes another prompt afterwards.
    pub async fn interrupt(&self) -> Result<Left, SessionError> {
        interrupt(&self.orders).await.unwrap_or_else(|| Err(self.over()))
    }

    /// That the program is gone, and why.
    pub fn over(&self) -> SessionError {
        self.about.borrow().over()
    }

    /// What its screen, its record, its processes and its connections showed since the last look; nothing once the program
    /// is gone. Takes a few milliseconds.
    pub async fn sample(&self) -> Vec<watchdog::Input> {
        let (told, sampled) = oneshot::channel();
        match self.orders.send(Order::Sample { told }).await {
            Ok(()) => sampled.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    /// What is known of it.
    pub fn about(&self) -> About {
        self.about.borrow().clone()
    }

    /// Waits until something else is known of it; nothing once the program is gone. Cancel safe.
    pub async fn changed(&mut self) -> Option<About> {
        self.about.changed().await.ok()?;
        Some(self.about.borrow_and_update().clone())
    }

    /// Where people watch its terminal, and take it over.
    pub fn seat(&self) -> &Seat {
        &self.seat
    }

    /// Its process, for people to read.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The wall around it, and what that does not keep.
    pub fn jail(&self) -> Option<&JailReport> {
        self.jail.as_ref()
    }

    /// Whether the program is there.
    pub fn is_alive(&self) -> bool {
        !self.orders.is_closed()
    }

    /// Where it works.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Waits until the program has ended by itself. Cancel safe.
    pub async fn ended(&mut self) -> Option<Closed> {
        self.living.join_next().await.and_then(Result::ok)
    }

    /// Ends the program and all that it started, and answers how.
    pub async fn close(mut self) -> Option<Closed> {
        let _ = self.orders.send(Order::Close).await;
        self.ended().await
    }
}

impl SessionError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Start(error) => error.hint(),
            Self::Unsendable(unsendable) => unsendable.hint(),
            Self::Blocked { .. } => Some("look at its screen: `ostler attach`".to_owned()),
            Self::NoTerminal { .. }
            | Self::NotSubmitted(_)
            | Self::Busy
            | Self::Unsettled
            | Self::Over
            | Self::Ended { .. } => None,
        }
    }
}
