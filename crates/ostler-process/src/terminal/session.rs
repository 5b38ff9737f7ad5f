//! A live conversation with an agent's terminal program: several turns on one terminal, without a run.
//!
//! One task owns the program, reads its terminal without pause and types what it is told; whoever has a [`Session`] gives
//! orders and reads events. Events wait in the agent's own record: a reader that is slow is waited for, but the terminal
//! is drained all the same. Dropping a session ends the program and all that it started.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use ostler_agent::agent::{Agent, Permissions};
use ostler_agent::event::AgentEvent;
use ostler_agent::interrupting::Left;
use ostler_agent::terminal::{Interactive, Status};
use ostler_agent::typing::{Cause, Unsendable};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::driver::{Arrived, Driver, Start, Told};
use super::files::Whence;
use super::pty::Size;
use super::seat::Seat;
use crate::contain::{Contained, Exit, Spawn, StartError, Stdin, StopSignal, Survivors};

/// Orders that may wait. Whoever gives more waits too.
const ORDERS: usize = 4;

/// Events of a turn that may wait for their reader. When they are so many, records are not read on until some are taken.
const EVENTS: usize = 256;

/// How long a program that is asked to end may take.
const FAREWELL: Duration = Duration::from_secs(3);

/// A timer that nobody waits for.
const FAR: Duration = Duration::from_secs(24 * 60 * 60);

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
    /// What it may do without asking.
    pub permissions: Permissions,
    /// The session, where it is known before the program says so: one that is resumed, or one whose id was chosen.
    pub session: Option<String>,
    /// How large its terminal is.
    pub size: Size,
    /// A name for it, which need not be unique.
    pub name: &'a str,
    /// Our own binary, which guards it.
    pub guard: PathBuf,
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
    /// The program is gone.
    #[error("the terminal program has ended")]
    Over,
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
    Close,
}

/// A live session.
#[derive(Debug)]
pub struct Session {
    orders: mpsc::Sender<Order>,
    about: watch::Receiver<About>,
    seat: Seat,
    pid: u32,
    living: JoinSet<Closed>,
}

/// The answer to a prompt, as it comes.
#[derive(Debug)]
pub struct TurnStream {
    events: mpsc::Receiver<Happening>,
    orders: mpsc::Sender<Order>,
}

impl TurnStream {
    /// What happens next; nothing once the turn is over, or the program is gone. Cancel safe.
    pub async fn next(&mut self) -> Option<Happening> {
        self.events.recv().await
    }

    /// Breaks the turn off. The session takes another prompt afterwards.
    pub async fn interrupt(&self) -> Result<Left, SessionError> {
        interrupt(&self.orders).await
    }
}

async fn interrupt(orders: &mpsc::Sender<Order>) -> Result<Left, SessionError> {
    let (told, heard) = oneshot::channel();
    orders.send(Order::Interrupt { told }).await.map_err(|_| SessionError::Over)?;
    heard.await.unwrap_or(Err(SessionError::Over))
}

impl Session {
    /// Starts the program. It need not be ready for a prompt yet: the first one waits for it.
    pub async fn open(opening: Opening<'_>) -> Result<Self, SessionError> {
        let Opening { agent, program, args, env, workspace, permissions, session, size, name, guard } =
            opening;
        let interactive = agent.interactive().ok_or(SessionError::NoTerminal { agent: agent.name() })?;
        let mut child = Contained::start(Spawn {
            program,
            args,
            env: env.clone(),
            cwd: workspace.clone(),
            stdin: Stdin::Terminal(size),
            run: name,
            tier: None,
            guard,
        })
        .await?;
        let pty = child.terminal.take().ok_or(SessionError::Over)?;
        let pid = child.pid();
        let driver = Driver::new(Start {
            agent,
            interactive,
            decoder: agent.decoder(None),
            pty,
            size,
            whence: Whence { env, workspace },
            own_pid: child.own_pid().unwrap_or(pid),
            pid,
            session: session.clone(),
            permissions,
        });
        let seat = driver.seat().clone();
        let (orders, queue) = mpsc::channel(ORDERS);
        let (told, about) = watch::channel(About { session, status: None });
        let live = Live {
            child,
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
        Ok(Self { orders, about, seat, pid, living })
    }

    /// Types a prompt and waits until the agent has it. One turn at a time.
    pub async fn ask(&mut self, prompt: &str) -> Result<TurnStream, SessionError> {
        let (events, happenings) = mpsc::channel(EVENTS);
        let (told, heard) = oneshot::channel();
        let order = Order::Ask { prompt: prompt.to_owned(), events, told };
        self.orders.send(order).await.map_err(|_| SessionError::Over)?;
        heard.await.unwrap_or(Err(SessionError::Over))?;
        Ok(TurnStream { events: happenings, orders: self.orders.clone() })
    }

    /// Breaks the turn off, if one is under way. The session takes another prompt afterwards.
    pub async fn interrupt(&self) -> Result<Left, SessionError> {
        interrupt(&self.orders).await
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

/// A turn that somebody asked for.
struct Turn {
    events: mpsc::Sender<Happening>,
    /// Until the prompt was taken.
    told: Option<oneshot::Sender<Result<(), SessionError>>>,
    is_over: bool,
}

/// A session's own task.
struct Live {
    child: Contained,
    driver: Driver<'static>,
    interactive: &'static dyn Interactive,
    orders: mpsc::Receiver<Order>,
    about: watch::Sender<About>,
    opened: Instant,
    turn: Option<Turn>,
    interrupting: Option<oneshot::Sender<Result<Left, SessionError>>>,
    /// What the reader of the turn has not taken yet.
    pending: VecDeque<Happening>,
    blocked: Option<(String, String)>,
}

/// What arrived.
enum Input {
    Order(Option<Order>),
    Terminal(Arrived),
    Room,
    Exited,
    Time,
}

impl Live {
    async fn live(mut self) -> Closed {
        loop {
            let wake = self.driver.wake_at().and_then(|at| self.opened.checked_add(at));
            let wake = wake.unwrap_or_else(|| Instant::now() + FAR);
            self.driver.hold_records(self.pending.len() >= EVENTS);
            let input = tokio::select! {
                biased;
                order = self.orders.recv() => Input::Order(order),
                arrived = self.driver.next() => Input::Terminal(arrived),
                () = room(self.turn.as_ref()), if !self.pending.is_empty() => Input::Room,
                _ = self.child.leader_exit() => Input::Exited,
                () = tokio::time::sleep_until(wake) => Input::Time,
            };
            let now = self.opened.elapsed();
            match input {
                Input::Order(Some(Order::Ask { prompt, events, told })) => {
                    self.ask(now, &prompt, events, told);
                }
                Input::Order(Some(Order::Interrupt { told })) => self.interrupt(now, told),
                Input::Order(Some(Order::Close) | None) => return self.close().await,
                Input::Terminal(arrived) => {
                    let told = self.driver.take(now, arrived);
                    self.tell(told);
                }
                Input::Room => self.hand_over(),
                Input::Exited => return self.close().await,
                Input::Time => {
                    let told = self.driver.tick(now);
                    self.tell(told);
                }
            }
            self.publish();
        }
    }

    fn ask(
        &mut self,
        now: Duration,
        prompt: &str,
        events: mpsc::Sender<Happening>,
        told: oneshot::Sender<Result<(), SessionError>>,
    ) {
        let refusal = match (self.interactive.sendable(prompt), &self.turn, self.blocked.clone()) {
            (Err(unsendable), _, _) => unsendable.into(),
            (Ok(_), Some(_), _) => SessionError::Busy,
            (Ok(_), None, Some((reason, screen))) => SessionError::Blocked { reason, screen },
            (Ok(prepared), None, None) => {
                self.pending.clear();
                self.turn = Some(Turn { events, told: Some(told), is_over: false });
                return self.driver.submit(now, prepared);
            }
        };
        // Whoever asked may be gone.
        let _ = told.send(Err(refusal));
    }

    fn interrupt(&mut self, now: Duration, told: oneshot::Sender<Result<Left, SessionError>>) {
        if self.turn.is_none() {
            let _ = told.send(Ok(Left::Nothing));
            return;
        }
        self.interrupting = Some(told);
        self.driver.interrupt(now);
    }

    fn tell(&mut self, told: Vec<Told>) {
        for told in told {
            match told {
                Told::Event(event) => self.happened(Happening::Event(event)),
                Told::Submitted => self.answer(Ok(())),
                Told::NotSubmitted(cause) => {
                    self.answer(Err(cause.into()));
                    self.turn = None;
                }
                Told::Blocked { reason, screen } => {
                    self.blocked = Some((reason.clone(), screen.clone()));
                    let error = SessionError::Blocked { reason: reason.clone(), screen: screen.clone() };
                    self.answer(Err(error));
                    self.happened(Happening::Blocked { reason, screen });
                }
                Told::TurnOver => self.end_turn(),
                Told::Settled(left) => {
                    self.answer(Err(SessionError::Over));
                    self.end_turn();
                    if let Some(told) = self.interrupting.take() {
                        let _ = told.send(Ok(left));
                    }
                }
                Told::Unsettled => {
                    if let Some(told) = self.interrupting.take() {
                        let _ = told.send(Err(SessionError::Unsettled));
                    }
                }
                Told::Answered(_) => self.blocked = None,
                Told::Alive | Told::Closed => {}
            }
        }
    }

    fn happened(&mut self, happening: Happening) {
        if let Happening::Event(AgentEvent::Started { session, .. }) = &happening {
            let session = Some(session.clone());
            self.about.send_if_modified(|about| {
                let is_new = about.session != session;
                about.session = session;
                is_new
            });
        }
        if self.turn.is_some() {
            self.pending.push_back(happening);
            self.hand_over();
        }
    }

    /// Tells whoever asked what became of the prompt.
    fn answer(&mut self, answer: Result<(), SessionError>) {
        if let Some(told) = self.turn.as_mut().and_then(|turn| turn.told.take()) {
            let _ = told.send(answer);
        }
    }

    fn end_turn(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.is_over = true;
        }
        self.hand_over();
    }

    /// Hands over as much as there is room for. A reader that is gone has seen enough.
    fn hand_over(&mut self) {
        let Some(turn) = &self.turn else { return };
        while let Some(happening) = self.pending.pop_front() {
            match turn.events.try_send(happening) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(happening)) => {
                    self.pending.push_front(happening);
                    return;
                }
                Err(mpsc::error::TrySendError::Closed(_)) => self.pending.clear(),
            }
        }
        if turn.is_over {
            self.turn = None;
        }
    }

    fn publish(&self) {
        let status = self.driver.status();
        self.about.send_if_modified(|about| {
            let is_new = about.status.as_ref() != status;
            if is_new {
                about.status = status.cloned();
            }
            is_new
        });
    }

    /// Asks it to end, and ends all that is left.
    async fn close(mut self) -> Closed {
        if let Err(error) = self.child.signal(StopSignal::Interrupt) {
            tracing::debug!(target: "ostler::pty", %error, "the program could not be asked to end");
        }
        let drained = async {
            loop {
                tokio::select! {
                    biased;
                    exit = self.child.leader_exit() => return exit,
                    _ = self.driver.next() => {}
                }
            }
        };
        let _ = tokio::time::timeout(FAREWELL, drained).await;
        let survivors = self.child.kill_all().await;
        for event in self.driver.last_words() {
            self.happened(Happening::Event(event));
        }
        let exit = self.child.leader_exit().await;
        Closed { exit, survivors }
    }
}

/// Waits until the reader of the turn has taken something.
async fn room(turn: Option<&Turn>) {
    match turn {
        // A reader that is gone takes all.
        Some(turn) => drop(turn.events.reserve().await),
        None => std::future::pending().await,
    }
}

impl SessionError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Start(error) => error.hint(),
            Self::Unsendable(unsendable) => unsendable.hint(),
            Self::Blocked { .. } => Some("look at its screen: `ostler attach`".to_owned()),
            Self::NoTerminal { .. } | Self::NotSubmitted(_) | Self::Busy | Self::Unsettled | Self::Over => {
                None
            }
        }
    }
}
