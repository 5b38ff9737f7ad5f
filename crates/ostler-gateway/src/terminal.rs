//! Sessions on a terminal: the agent's own terminal program, which a person can sit down at. What is asked is typed, and
//! what comes is read from the agent's own record. A prompt that the program would take for something else is refused.

use std::ffi::OsString;
use std::future::Future as _;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::task::Poll;
use std::time::Duration;

use ostler_agent::agent::{Activity, Session as Which, Task};
use ostler_agent::canonical::Message;
use ostler_agent::event::{AgentEvent, Blocked, TurnOutcome};
use ostler_agent::history::History;
use ostler_agent::jail::JailReport;
use ostler_agent::leasing::Terms;
use ostler_agent::terminal::Status;
use ostler_agent::typing::Unsendable;
use ostler_agent::watchdog;
use ostler_process::file_scope::FileScope;
use ostler_process::profile::{ProfileLink, write_launch};
use ostler_process::run::launched;
use ostler_process::stream::memory_of;
use ostler_process::terminal::pty::Size;
use ostler_process::terminal::seat::Seat;
use ostler_process::terminal::session::{Happening, Opening, Session, SessionError, TurnStream};
use serde_json::Value;
use uuid::Uuid;

use crate::ground::{Ground, Own, failure, removed, told};
use crate::jail::{Confinement, Grant};
use crate::live::{Keepsake, LiveSession, Phase, SessionFailure, Slash, Start};
use crate::session_memory::{CaptureRequest, capture_whole};

/// How long a program whose turn is over may take to say that it takes a prompt. It takes a tenth of a second.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);

/// How much of what was added to a record is looked at for prompts of people.
const MOST_ADDED: u64 = 16 * 1024 * 1024;

/// Starts sessions of one agent on terminals.
pub struct Terminals(pub Ground);

/// A session on a terminal.
pub struct TerminalSession {
    session: Session,
    turn: Option<TurnStream>,
    id: String,
    own: Option<PathBuf>,
    private: PathBuf,
    ground: Ground,
    workspace: PathBuf,
    /// What the program needs outside the private folder.
    _profile_link: ProfileLink,
    record: Option<PathBuf>,
    /// How long its record was when its last turn was over, and how much people had typed by then.
    left_at: u64,
    typed: u64,
}

impl Terminals {
    async fn open(
        &self,
        terms: &Terms,
        which: Which<'_>,
        workspace: PathBuf,
        own: Option<PathBuf>,
    ) -> Result<TerminalSession, SessionFailure> {
        let (Which::Minted(id) | Which::Resumed(id)) = which else {
            return Err(crate::ground::failed("a session must have an id".to_owned()));
        };
        let ground = self.0.for_terms(terms)?;
        let private = ground.private(id);
        let grant = Grant::without_questions(terms.permissions);
        let Confinement { trust, enforcement, jail } = ground.confine(id, grant, &workspace).await?;
        let system_prompt = ground.system_prompt(terms.system_prompt.as_deref(), &workspace, id).await;
        let task = Task {
            session: which,
            permissions: terms.permissions,
            enforcement,
            allow: &terms.allow,
            model: terms.model.as_deref(),
            system_prompt: system_prompt.as_deref(),
            answerer: Some(ground.guard.program()),
            activity: Activity::InTurns,
            repository: trust.as_trust(),
            ..Task::new("", &workspace, &private)
        };
        let launch = ground.agent.launch(&task).map_err(|error| failure(&error, Some(error.hint.clone())))?;
        let (env, warnings) = launched(&ground.env, &launch);
        let profile_link = write_launch(&private, &launch, &env, jail.as_deref());
        let profile_link = profile_link.map_err(|error| failure(&error, error.hint()))?;
        for text in warnings {
            tracing::warn!(target: "ostler::pool", agent = ground.agent.name(), "{text}");
        }
        let record = ground.record(&workspace, id);
        let session = Session::open(Opening {
            agent: ground.agent,
            program: ground.program.clone(),
            args: launch.args.iter().map(OsString::from).collect(),
            env,
            workspace: workspace.clone(),
            permissions: enforcement.granted(terms.permissions),
            session: Some(id.to_owned()),
            size: Size::USUAL,
            name: id,
            guard: ground.guard.program().to_owned(),
            jail,
        });
        let session = session.await.map_err(|error| failure(&error, error.hint()))?;
        let left_at = record.as_deref().map_or(0, |record| length(record, &ground.jailer.files()));
        Ok(TerminalSession {
            session,
            turn: None,
            id: id.to_owned(),
            own,
            private,
            ground: ground.into_owned(),
            workspace,
            _profile_link: profile_link,
            record,
            left_at,
            typed: 0,
        })
    }
}

impl Start for Terminals {
    type Session = TerminalSession;

    fn check(&self, terms: &Terms, history: &History) -> Result<(), SessionFailure> {
        let refused =
            |detail: String, hint: Option<String>| SessionFailure { phase: Phase::Prompt, detail, hint };
        let hint = || Some("use the stream engine: it takes any content".to_owned());
        if !terms.tools.is_empty() {
            let detail = "tools of a program cannot be offered on a terminal".to_owned();
            return Err(refused(detail, Some("use the stream engine".to_owned())));
        }
        let prompt = history.prompt().map_err(|error| refused(error.to_string(), hint()))?;
        match self.0.agent.interactive() {
            Some(interactive) => interactive.sendable(&prompt).map(drop).map_err(|unsendable| {
                let phase = phase_of(&unsendable);
                SessionFailure { phase, ..refused(unsendable.to_string(), unsendable.hint()) }
            }),
            None => Ok(()),
        }
    }

    async fn start(&self, terms: &Terms, prior: &[Message]) -> Result<TerminalSession, SessionFailure> {
        let id = Uuid::new_v4().to_string();
        let ground = self.0.for_terms(terms)?;
        let place = ground.place(terms, &id)?;
        let which = if prior.is_empty() {
            Which::Minted(&id)
        } else {
            ground.seed(&place.path, &id, terms.model.as_deref(), prior)?;
            Which::Resumed(&id)
        };
        let mut session = self.open(terms, which, place.path, None).await?;
        session.own = place.own.map(Own::keep);
        Ok(session)
    }

    async fn revive(
        &self,
        terms: &Terms,
        keepsake: &Keepsake,
        knows: impl Fn(&[Message]) -> bool + Send,
    ) -> Result<TerminalSession, SessionFailure> {
        let ground = self.0.for_terms(terms)?;
        let workspace = ground.place_of(terms, keepsake)?;
        ground.check(&workspace, &keepsake.session, knows).await?;
        self.open(terms, Which::Resumed(&keepsake.session), workspace, keepsake.folder.clone()).await
    }
}

fn length(record: &Path, files: &FileScope) -> u64 {
    files.open(record).and_then(|file| file.metadata()).map_or(0, |about| about.len())
}

/// What was added to a record; `None` if it is shorter than it was.
fn read_added(record: &Path, files: &FileScope, from: u64) -> io::Result<Option<String>> {
    let mut file = files.open(record)?;
    if file.metadata()?.len() < from {
        return Ok(None);
    }
    file.seek(io::SeekFrom::Start(from))?;
    let mut added = Vec::new();
    file.take(MOST_ADDED).read_to_end(&mut added)?;
    Ok(Some(String::from_utf8_lossy(&added).into_owned()))
}

fn phase_of(unsendable: &Unsendable) -> Phase {
    if unsendable.is_too_long { Phase::TooLong } else { Phase::Prompt }
}

fn asking(error: &SessionError) -> SessionFailure {
    let phase = match error {
        SessionError::Unsendable(unsendable) => phase_of(unsendable),
        _ => Phase::Ask,
    };
    SessionFailure { hint: error.hint(), ..SessionFailure::of(phase, error) }
}

impl TerminalSession {
    fn is_busy(&self) -> bool {
        self.session.about().status == Some(Status::Busy)
    }

    /// Whether somebody asked it something since its last turn: a person who sat at it.
    fn was_asked(&self) -> bool {
        // What he asked is recorded a moment after he has typed it, and what he did not ask may still stand in the box.
        if self.session.seat().typed() != self.typed {
            return true;
        }
        let Some(record) = &self.record else { return false };
        let added = read_added(record, &self.ground.jailer.files(), self.left_at);
        let Ok(added) = added else { return self.left_at > 0 };
        let Some(new) = added else { return true };
        let mut records = new.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        records.any(|record| record["type"] == "user")
    }
}

impl LiveSession for TerminalSession {
    fn pid(&self) -> Option<u32> {
        Some(self.session.pid())
    }

    fn jail(&self) -> Option<JailReport> {
        self.session.jail().cloned()
    }

    fn memory(&self) -> u64 {
        memory_of(self.session.pid())
    }

    /// What begins with `/` was refused before.
    async fn ask(&mut self, message: &Message, _slash: Slash) -> Result<(), SessionFailure> {
        // Ostler and a person never type at once.
        if self.session.seat().is_held() {
            let detail = "somebody holds the terminal".to_owned();
            let hint = Some("ask again when it is given back".to_owned());
            return Err(SessionFailure { phase: Phase::Held, detail, hint });
        }
        let turn = self.session.ask(&message.text()).await.map_err(|error| asking(&error))?;
        self.turn = Some(turn);
        Ok(())
    }

    async fn interrupt(&mut self) -> Result<(), SessionFailure> {
        let broken = self.session.interrupt().await;
        broken.map(drop).map_err(|error| SessionFailure::of(Phase::Answer, &error))
    }

    async fn next(&mut self) -> Result<AgentEvent, SessionFailure> {
        let Some(turn) = &mut self.turn else {
            // It says nothing unasked; that it ends is all that can come.
            let _ = self.session.ended().await;
            return Err(SessionFailure::of(Phase::Answer, &self.session.over()));
        };
        match turn.next().await {
            Some(Happening::Event(event)) => {
                if let AgentEvent::TurnEnded(end) = &event {
                    self.turn = None;
                    let files = self.ground.jailer.files();
                    self.left_at = self.record.as_deref().map_or(0, |record| length(record, &files));
                    self.typed = self.session.seat().typed();
                    debug_assert_ne!(*end, TurnOutcome::Called);
                }
                Ok(event)
            }
            Some(Happening::Blocked { reason, .. }) => {
                Ok(AgentEvent::Blocked(Blocked::Dialog { text: reason }))
            }
            None => Err(SessionFailure::of(Phase::Answer, &self.session.over())),
        }
    }

    /// It lives, it takes a prompt, it shows the same session, and nobody asked it anything.
    async fn unasked(&mut self) -> Option<Result<AgentEvent, SessionFailure>> {
        // Whoever sits at it may do as he likes: that it cannot be asked now is told when it is.
        if self.session.seat().is_held() {
            return None;
        }
        let has_ended = {
            let mut ended = std::pin::pin!(self.session.ended());
            std::future::poll_fn(|context| Poll::Ready(ended.as_mut().poll(context).is_ready())).await
        };
        // What it says of itself comes a moment after its record.
        let idle = async { while self.is_busy() && self.session.changed().await.is_some() {} };
        let _ = tokio::time::timeout(SETTLED_WITHIN, idle).await;
        let about = self.session.about();
        let is_other = about.session.is_some_and(|session| session != self.id);
        let is_busy = about.status.is_some_and(|status| !status.takes_a_prompt());
        let detail = match (has_ended, is_other || self.was_asked(), is_busy) {
            (true, ..) => self.session.over().to_string(),
            (_, true, _) => "somebody asked it something else meanwhile".to_owned(),
            (_, _, true) => "it takes no prompt".to_owned(),
            (false, false, false) => return None,
        };
        Some(Err(SessionFailure { phase: Phase::Ask, detail, hint: None }))
    }

    async fn sample(&mut self) -> Vec<watchdog::Input> {
        self.session.sample().await
    }

    fn terminal(&self) -> Option<Seat> {
        Some(self.session.seat().clone())
    }

    fn capture_request(&self) -> Option<CaptureRequest> {
        self.ground.capture_request(&self.workspace, &self.id)
    }

    fn keepsake(&self) -> Option<Keepsake> {
        Some(Keepsake::recorded(&self.id, self.own.as_deref()))
    }

    async fn park(self) {
        let request = self.capture_request();
        let Self { session, private, .. } = self;
        if let Some(closed) = session.close().await {
            told(closed.survivors);
        }
        capture_whole(request).await;
        removed(private).await;
    }
}
