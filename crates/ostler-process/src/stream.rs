//! A live conversation with an agent over pipes: several turns in one process, without a run. An agent that takes one
//! prompt a process has one turn in it.
//!
//! Whoever has a [`Session`] is the only one who reads and writes it: nothing is read while nobody asks for events, so a
//! slow reader makes the agent wait and nothing is lost. What the agent asks is answered by policy, unless its owner
//! wants to ([`Session::answered_by`]). Dropping a session
//! ends the program and all that it started; [`Session::close`] lets it end by itself first.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ostler_agent::agent::{
    self, Activity, Agent, Clock, Decision, Decoder, Enforcement, Exit, Order, Permissions, Refusal,
    Session as Which, Source, Task,
};
use ostler_agent::canonical::{Block, Message};
use ostler_agent::event::{AgentEvent, Blocked, Usage};
use ostler_agent::framer::{Frame, Framer};
use ostler_agent::jail::JailReport;
use ostler_agent::offering::{Desk, Toolset};
use ostler_agent::policy;
use ostler_agent::record::Record;
use ostler_agent::repository_config::RepositoryTrust;
use ostler_agent::watchdog;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::time::Instant;

use crate::contain::{self, Ahead, Contained, Sampler, Spawn, StartError, Stdin, Survivors};
use crate::profile::{ProfileLink, write_launch};
use crate::run::writer::Writer;
use crate::run::{PlannedJail, PrivateError, clock, launched, start_in, users_settings};

/// Read at once: as much as a pipe holds.
const CHUNK: usize = 64 * 1024;

/// Longest line of its standard error that is read.
const LONGEST_LOG_LINE: usize = 64 * 1024;

/// How much of the end of its standard error is looked at for why an agent failed.
const TAIL: usize = 8 * 1024;

/// How long a program that is asked to end may take. It takes a tenth of a second.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long what is left in the pipes may take to be read, once the program has ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// What a session is opened with.
pub struct Opening<'a> {
    /// The agent.
    pub agent: &'static dyn Agent,
    /// Its program.
    pub program: PathBuf,
    /// The whole environment that it is started in, but for what its launch adds.
    pub env: &'a [(OsString, OsString)],
    /// Where it works: absolute, with links resolved.
    pub workspace: PathBuf,
    /// A folder that is the session's alone, for files that the agent needs. Made, and removed with the session.
    pub private: PathBuf,
    /// Which session.
    pub session: Which<'a>,
    /// What an agent is asked that takes one prompt a process. Without it the agent must listen.
    pub prompt: Option<&'a str>,
    /// What the session had used before.
    pub before: Option<Usage>,
    /// What it may do without asking.
    pub permissions: Permissions,
    /// Who enforces that.
    pub enforcement: Enforcement,
    /// Further rules of what it may do, in its own syntax.
    pub allow: &'a [String],
    /// The model, if not its own choice.
    pub model: Option<&'a str>,
    /// What is added to its own system prompt.
    pub system_prompt: Option<&'a str>,
    /// Tools of whoever asks, which he runs himself.
    pub offered: Option<Toolset>,
    /// A name for it, which need not be unique.
    pub name: &'a str,
    /// Our own binary, which guards it.
    pub guard: PathBuf,
    /// A guardian that waits already, if there is one.
    pub ahead: Option<Ahead>,
    /// Whether it may load what the repository brings for it.
    pub repository: RepositoryTrust<'a>,
    /// The wall around it, or none.
    pub jail: Option<Arc<PlannedJail>>,
}

/// Why a session cannot be used, or not in this way.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The agent does not listen while it runs.
    #[error("agent `{agent}` takes one prompt a process")]
    OneShot {
        /// Which.
        agent: &'static str,
    },
    /// What is wanted cannot be said to it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Its files cannot be written.
    #[error(transparent)]
    Private(#[from] PrivateError),
    /// It does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It does not read what it is told.
    #[error("the agent does not read what it is told")]
    Unheard,
    /// The program is gone.
    #[error("the agent's program has ended")]
    Over,
}

/// Who answers what the agent asks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AnsweredBy {
    /// Policy, at once.
    #[default]
    Policy,
    /// Whoever has the session, with [`Session::answer`]. Until then the agent waits.
    Owner,
}

/// A live session.
pub struct Session {
    agent: &'static dyn Agent,
    /// What policy allows when it asks.
    permissions: Permissions,
    answered_by: AnsweredBy,
    private: PathBuf,
    jail: Option<JailReport>,
    /// What the wall needs as long as the process lives.
    _wall: Option<Arc<PlannedJail>>,
    /// What the program needs outside the private folder.
    _profile_link: ProfileLink,
    child: Contained,
    sampler: Sampler,
    writer: Writer,
    stdout: Option<Receiver>,
    stderr: Option<Receiver>,
    out: Vec<u8>,
    err: Vec<u8>,
    framer: Framer,
    err_framer: Framer,
    decoder: Box<dyn Decoder>,
    /// Seconds that local time is ahead of UTC.
    east: i64,
    tail: Vec<u8>,
    ready: VecDeque<AgentEvent>,
    life: Life,
    /// Where calls of tools wait that whoever asks runs himself.
    desk: Option<Desk>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Running,
    /// It ended; what it wrote last is read until then.
    Exited(contain::Exit, Instant),
    Over,
}

enum Arrived {
    Out(usize),
    Err(usize),
    Exited(contain::Exit),
    TooLate,
}

impl Session {
    /// Starts the program. It waits for a prompt, or has one and ends after it.
    pub async fn open(opening: Opening<'_>) -> Result<Self, SessionError> {
        let Opening { agent, program, env, workspace, private, session, permissions, .. } = opening;
        let users_settings = users_settings(agent, env);
        let launch = agent.launch(&Task {
            session,
            permissions,
            enforcement: opening.enforcement,
            allow: opening.allow,
            model: opening.model,
            system_prompt: opening.system_prompt,
            offered: opening.offered.as_ref().map(|offered| offered.own),
            users_settings: users_settings.as_deref(),
            // Between turns Ostler does not read what it writes.
            activity: Activity::InTurns,
            repository: opening.repository,
            ..Task::new(opening.prompt.unwrap_or_default(), &workspace, &private)
        })?;
        let stdin = match (&launch.stdin, opening.prompt) {
            (agent::Stdin::Spoken(_), _) | (agent::Stdin::Text(_), Some(_)) => Stdin::Piped,
            (agent::Stdin::Null, Some(_)) => Stdin::Null,
            (agent::Stdin::Text(_) | agent::Stdin::Null, None) | (agent::Stdin::Terminal, _) => {
                return Err(SessionError::OneShot { agent: agent.name() });
            }
        };
        let (env, warnings) = launched(env, &launch);
        let profile_link = write_launch(&private, &launch, &env, opening.jail.as_deref())?;
        for text in warnings {
            tracing::warn!(target: "ostler::pool", agent = agent.name(), "{text}");
        }
        let spawn = Spawn {
            program,
            args: launch.args.iter().map(OsString::from).collect(),
            env,
            cwd: workspace,
            stdin,
            run: opening.name,
            tier: None,
            jail: None,
            guard: opening.guard,
        };
        let mut child = start_in(opening.jail.as_deref(), spawn, opening.ahead).await?;
        let report = opening.jail.as_ref().zip(child.jail().cloned());
        let report = report.map(|(jail, enforced)| jail.report(enforced));
        let (writer, _) = Writer::start(child.stdin.take(), launch.stdin);
        let mut decoder = agent.decoder(opening.before);
        let shown = clock::shown();
        decoder.clock(shown);
        Ok(Self {
            agent,
            permissions: opening.enforcement.granted(permissions),
            answered_by: AnsweredBy::Policy,
            private,
            jail: report,
            _wall: opening.jail,
            _profile_link: profile_link,
            writer,
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            child,
            sampler: Sampler::default(),
            out: vec![0; CHUNK],
            err: vec![0; CHUNK],
            framer: Framer::default(),
            err_framer: Framer::with_longest(LONGEST_LOG_LINE),
            decoder,
            east: shown.east,
            tail: Vec::new(),
            ready: VecDeque::new(),
            life: Life::Running,
            desk: opening.offered.map(Desk::of),
        })
    }

    /// Its process, for people to read.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// The wall around it, and what that does not keep.
    pub fn jail(&self) -> Option<&JailReport> {
        self.jail.as_ref()
    }

    /// What its program takes of the memory, in bytes; nothing once it has ended.
    pub fn memory(&self) -> u64 {
        memory_of(self.child.pid())
    }

    /// What its processes and connections did since the last look. Takes a few milliseconds.
    pub fn sample(&mut self) -> watchdog::Input {
        self.sampler.sample(&self.child)
    }

    /// Asks it something, or brings it what came of its calls. One turn at a time: the answer ends with
    /// [`AgentEvent::TurnEnded`]. Never blocks.
    pub fn ask(&mut self, message: &Message) -> Result<(), SessionError> {
        if self.desk.as_ref().is_some_and(Desk::is_waiting) {
            return self.bring(message);
        }
        self.prompt(message)
    }

    /// Texts stay apart: what a program adds to a prompt of its user's is no part of it.
    fn prompt(&mut self, message: &Message) -> Result<(), SessionError> {
        let order = match message.blocks.as_slice() {
            [Block::Text(text)] => Order::Prompt(text.clone()),
            _ => Order::Content(message.written()["content"].clone()),
        };
        self.say(&order)
    }

    /// Words that come with outcomes are said first: while a call is open they become part of the turn.
    fn bring(&mut self, message: &Message) -> Result<(), SessionError> {
        let is_word = |block: &&Block| !matches!(block, Block::Outcome { .. });
        let words: Vec<Block> = message.blocks.iter().filter(is_word).cloned().collect();
        if !words.is_empty() {
            self.prompt(&Message { role: message.role, blocks: words })?;
        }
        let answers = self.desk.as_mut().map(|desk| desk.bring(message)).unwrap_or_default();
        for (request, message) in answers {
            self.say(&Order::Routed { request, message })?;
        }
        Ok(())
    }

    /// Asks it to break the turn off. That it did is told as the end of the turn. Never blocks.
    pub fn interrupt(&mut self) -> Result<(), SessionError> {
        self.say(&Order::Interrupt)
    }

    /// Says who answers from now on.
    pub fn answered_by(&mut self, who: AnsweredBy) {
        self.answered_by = who;
    }

    /// Answers a question of the agent. One that it does not have any more is passed over by it. Never blocks.
    pub fn answer(&mut self, request: &str, decision: Decision) -> Result<(), SessionError> {
        self.say(&Order::Answer { request: request.to_owned(), decision })
    }

    fn say(&mut self, order: &Order) -> Result<(), SessionError> {
        if self.life != Life::Running {
            return Err(SessionError::Over);
        }
        let agent = self.agent.name();
        let line = self.agent.speak(order).ok_or(SessionError::OneShot { agent })?;
        self.writer.say(&line).map_err(|_| SessionError::Unheard)
    }

    /// What it says next. Its end is told as the end of the turn, if one is open, and then as an error. Cancel safe.
    pub async fn next(&mut self) -> Result<AgentEvent, SessionError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            let until = match self.life {
                Life::Running => None,
                Life::Exited(_, until) => Some(until),
                Life::Over => return Err(SessionError::Over),
            };
            let arrived = tokio::select! {
                biased;
                count = read(&mut self.stdout, &mut self.out) => Arrived::Out(count),
                count = read(&mut self.stderr, &mut self.err) => Arrived::Err(count),
                exit = self.child.leader_exit(), if until.is_none() => Arrived::Exited(exit),
                () = at(until) => Arrived::TooLate,
            };
            self.take(arrived)?;
        }
    }

    /// What it said although nobody asked; nothing if it waits. For whoever wants to know whether it is as it was left.
    pub async fn unasked(&mut self) -> Option<Result<AgentEvent, SessionError>> {
        tokio::select! {
            biased;
            event = self.next() => Some(event),
            () = std::future::ready(()) => None,
        }
    }

    fn take(&mut self, arrived: Arrived) -> Result<(), SessionError> {
        match arrived {
            Arrived::Out(0) => self.stdout = None,
            Arrived::Out(count) => self.hear(count)?,
            Arrived::Err(0) => self.stderr = None,
            Arrived::Err(count) => {
                let (ready, decoder) = (&mut self.ready, &mut self.decoder);
                self.err_framer.feed(&self.err[..count], &mut |frame: Frame<'_>| {
                    if let Frame::Line(line) = frame {
                        ready.extend(decoder.stderr_line(&String::from_utf8_lossy(line)));
                    }
                });
                self.tail.extend_from_slice(&self.err[..count]);
                let over = self.tail.len().saturating_sub(TAIL);
                self.tail.drain(..over);
            }
            Arrived::Exited(exit) => self.life = Life::Exited(exit, Instant::now() + DRAIN_LIMIT),
            // Whoever still holds the pipes is none of ours.
            Arrived::TooLate => (self.stdout, self.stderr) = (None, None),
        }
        if let Life::Exited(exit, _) = self.life
            && self.stdout.is_none()
            && self.stderr.is_none()
        {
            self.life = Life::Over;
            let exit = match exit {
                contain::Exit::Code(code) => Exit::Code(code),
                contain::Exit::Signal(signal) => Exit::Signal(signal),
                // Its guardian was killed, and it with it.
                contain::Exit::Unknown => Exit::Signal(9),
            };
            let tail = String::from_utf8_lossy(&self.tail).into_owned();
            let last = self.decoder.exited(exit, &tail);
            self.ready.extend(last.into_iter().filter(is_for_clients));
        }
        Ok(())
    }

    fn hear(&mut self, count: usize) -> Result<(), SessionError> {
        self.decoder.clock(Clock { now: Some(clock::now()), east: self.east });
        let mut records = Vec::new();
        self.framer.feed(&self.out[..count], &mut |frame: Frame<'_>| {
            records.push(match frame {
                Frame::Line(line) => Record::read(line),
                Frame::TooLong(length) => Record::Garbled(format!("a line of {length} bytes")),
            });
        });
        for record in records {
            match record {
                Record::Json(value) => {
                    for event in self.decoder.events(Source::Stdout, &value) {
                        if let Some(desk) = &mut self.desk {
                            desk.hear(&event);
                        }
                        self.answer_by_policy(&event)?;
                        if is_for_clients(&event) {
                            self.ready.push_back(event);
                        }
                    }
                }
                Record::Noise(text) => self.ready.extend(self.decoder.noise(&text)),
                Record::Garbled(text) => {
                    // It may be a part of what was asked or answered.
                    tracing::warn!(target: "ostler::pool", "the agent wrote a record that is broken");
                    tracing::trace!(target: "ostler::pool", text, "it is this");
                }
                Record::Blank => {}
            }
        }
        Ok(())
    }

    /// What policy says to a question, or the desk to what is said there.
    fn answer_by_policy(&mut self, event: &AgentEvent) -> Result<(), SessionError> {
        let AgentEvent::Blocked(blocked) = event else { return Ok(()) };
        let answer = match (blocked, &mut self.desk) {
            (Blocked::Routed { request, message }, Some(desk)) => {
                let answer = desk.route(request, message);
                answer.map(|message| Order::Routed { request: request.clone(), message })
            }
            _ if self.answered_by == AnsweredBy::Owner => None,
            (blocked, _) => policy::answer(self.permissions, blocked),
        };
        match answer {
            Some(order) if self.life == Life::Running => self.say(&order),
            Some(_) | None => Ok(()),
        }
    }

    /// Ends the program and all that it started: it is asked, given a moment, and killed. When it returns nothing of it
    /// is left but the survivors.
    pub async fn close(mut self) -> Survivors {
        let _ = self.say(&Order::End);
        self.writer.close();
        // What it writes meanwhile must not keep it from ending.
        let ended = async { while self.next().await.is_ok() {} };
        let _ = tokio::time::timeout(FAREWELL, ended).await;
        self.kill().await
    }

    /// The same at once: it is not asked.
    pub async fn kill(mut self) -> Survivors {
        let survivors = self.child.kill_all().await;
        if let Err(error) = std::fs::remove_dir_all(&self.private)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(target: "ostler::pool", %error, "the files of a session could not be removed");
        }
        survivors
    }
}

/// Whether clients hear of it. What is said at the desk concerns nobody else, and what a turn used is told at its end.
fn is_for_clients(event: &AgentEvent) -> bool {
    !matches!(event, AgentEvent::Blocked(Blocked::Routed { .. }) | AgentEvent::SpentSoFar(_))
}

/// What a process takes of the memory, in bytes; nothing once it has ended.
pub fn memory_of(pid: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages.saturating_mul(rustix::param::page_size() as u64)
}

/// The next bytes; none at the end, which a broken pipe is too. Waits for ever without a pipe. Cancel safe.
async fn read(pipe: &mut Option<Receiver>, buffer: &mut [u8]) -> usize {
    match pipe {
        Some(pipe) => pipe.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

async fn at(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}
