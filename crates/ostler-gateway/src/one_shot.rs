//! Sessions of agents that take one prompt a process: one for each turn, and none between them. The agent goes on with its
//! own session by its own id. One that is to know what happened elsewhere is told with its first prompt, and so is one
//! whose turn was broken off, since nobody knows how much of it the agent wrote down.

use std::path::{Path, PathBuf};

use ostler_agent::agent::{Engine, Refusal, Session as Which, Task};
use ostler_agent::canonical::Message;
use ostler_agent::event::{AgentEvent, TurnOutcome, Usage, sum};
use ostler_agent::history::{History, HistoryError};
use ostler_agent::jail::JailReport;
use ostler_agent::leasing::{Place, Terms};
use ostler_agent::reply::Reply;
use ostler_agent::watchdog;
use ostler_process::profile::overrule_warning;
use ostler_process::run::users_settings;
use ostler_process::stream::{Opening, Session};
use ostler_process::trust::Decision;
use uuid::Uuid;

use crate::ground::{Ground, Own, failed, removed, told};
use crate::jail::Grant;
use crate::live::{Keepsake, LiveSession, Noted, Phase, SessionFailure, Slash, Start};
use crate::session_memory::{CaptureRequest, capture_whole};

/// Starts sessions of one agent that takes one prompt a process.
pub struct OneShots(pub Ground);

/// Such a session.
pub struct OneShotSession {
    ground: Ground,
    terms: Terms,
    /// Our own id of it.
    id: String,
    workspace: PathBuf,
    /// The folder that was made for it.
    own: Option<PathBuf>,
    /// The agent's own id of it, if what the agent knows by it is what was said.
    session: Option<String>,
    /// What was said so far; nothing, if that was said before it was revived.
    said: Option<Vec<Message>>,
    /// What is said in the turn.
    reply: Reply,
    used: Usage,
    /// The wall around its last process.
    jail: Option<JailReport>,
    stage: Stage,
}

enum Stage {
    /// No turn, no process.
    Waiting,
    /// A turn.
    Running(Box<Session>),
    /// The turn is over, and its process about to end: the next one could not go on before.
    Ending(Box<Session>, TurnOutcome),
    /// Its end is to be told.
    Ended(TurnOutcome),
    /// It cannot be gone on with.
    Lost,
}

impl OneShots {
    fn session(ground: Ground, terms: &Terms, id: String, workspace: PathBuf) -> OneShotSession {
        OneShotSession {
            ground,
            terms: terms.clone(),
            id,
            workspace,
            own: None,
            session: None,
            said: None,
            reply: Reply::default(),
            used: Usage::default(),
            jail: None,
            stage: Stage::Waiting,
        }
    }

    fn task<'a>(terms: &'a Terms, workspace: &'a Path, private: &'a Path) -> Task<'a> {
        Task {
            permissions: terms.permissions,
            allow: &terms.allow,
            model: terms.model.as_deref(),
            system_prompt: terms.system_prompt.as_deref(),
            ..Task::new("", workspace, private)
        }
    }
}

impl Start for OneShots {
    type Session = OneShotSession;

    fn check(&self, terms: &Terms, history: &History) -> Result<(), SessionFailure> {
        let agent = self.0.agent;
        if terms.engine != Engine::Stream {
            return Err(unfit(format!("{} is not driven on a terminal", agent.title()), None));
        }
        if !terms.tools.is_empty() {
            return Err(unfit(format!("{} takes no tools of yours", agent.title()), None));
        }
        if !history.asked().is_text() {
            return Err(unfit(format!("{} takes only text", agent.title()), None));
        }
        if agent.is_too_long(&history.asked().text()) {
            return Err(too_long());
        }
        // What it cannot be told is known before anything is started.
        let ground = self.0.for_terms(terms)?;
        let root = Path::new("/");
        let users_settings = users_settings(agent, &ground.env);
        let folder = match &terms.workspace {
            Place::Own => None,
            Place::Folder(folder) => Some(folder.as_path()),
        };
        let grant = Grant::without_questions(terms.permissions);
        let (decision, enforcement) = ground.check_confinement(grant, folder)?;
        let task = Task {
            enforcement,
            users_settings: users_settings.as_deref(),
            repository: decision.as_trust(),
            ..Self::task(terms, root, root)
        };
        let launch = agent.launch(&task).map_err(|refusal| refused(&refusal))?;
        let folder = match (&terms.workspace, &decision) {
            // A project that is not loaded overrules nothing.
            (Place::Own, _) | (_, Decision::Untrusted(_)) => None,
            (Place::Folder(folder), _) => overrule_warning(&launch, folder, &ground.env),
        };
        match folder {
            // The system prompt would be dropped without a word.
            Some(detail) => Err(unfit(detail, Some("remove it there, or send no system prompt".to_owned()))),
            None => Ok(()),
        }
    }

    async fn start(&self, terms: &Terms, prior: &[Message]) -> Result<OneShotSession, SessionFailure> {
        let id = Uuid::new_v4().to_string();
        let ground = self.0.for_terms(terms)?.into_owned();
        let place = ground.place(terms, &id)?;
        let mut session = Self::session(ground, terms, id, place.path);
        session.own = place.own.map(Own::keep);
        session.said = Some(prior.to_vec());
        Ok(session)
    }

    async fn revive(
        &self,
        terms: &Terms,
        keepsake: &Keepsake,
        _knows: impl Fn(&[Message]) -> bool + Send,
    ) -> Result<OneShotSession, SessionFailure> {
        let Some(Noted { session: Some(known), used }) = &keepsake.noted else {
            return Err(failed("what it knows is not noted".to_owned()));
        };
        let ground = self.0.for_terms(terms)?.into_owned();
        let workspace = ground.place_of(terms, keepsake)?;
        let mut session = Self::session(ground, terms, keepsake.session.clone(), workspace);
        session.own.clone_from(&keepsake.folder);
        (session.session, session.used) = (Some(known.clone()), *used);
        Ok(session)
    }
}

impl OneShotSession {
    /// What it is asked: all that was said besides, if the agent does not know it.
    fn prompt(&self, message: &Message) -> Result<String, SessionFailure> {
        let untold = match (&self.session, &self.said) {
            (Some(_), _) => &[],
            (None, Some(said)) => said.as_slice(),
            (None, None) => return Err(over()),
        };
        let messages = untold.iter().chain([message]).cloned().collect();
        let history = History::of(messages);
        let text = history.and_then(|history| match untold {
            [] => history.prompt(),
            _ => history.preamble(),
        });
        let text = text.map_err(|error: HistoryError| unfit(error.to_string(), None))?;
        // What was said before may be long too, where the agent has to receive it.
        if self.ground.agent.is_too_long(&text) { Err(too_long()) } else { Ok(text) }
    }

    /// What the agent said, unless it concerns only us.
    fn heard(&mut self, event: AgentEvent) -> Result<Option<AgentEvent>, SessionFailure> {
        self.reply.hear(&event);
        match &event {
            AgentEvent::Started { session, .. } => match &self.session {
                Some(known) if known != session => {
                    return Err(SessionFailure {
                        phase: Phase::Answer,
                        detail: "the agent began another session".to_owned(),
                        hint: None,
                    });
                }
                Some(_) | None => self.session = Some(session.clone()),
            },
            AgentEvent::Spent(usage) => self.used = sum(self.used, *usage),
            AgentEvent::TurnEnded(outcome) => {
                if let Stage::Running(session) = std::mem::replace(&mut self.stage, Stage::Lost) {
                    self.stage = Stage::Ending(session, outcome.clone());
                }
                return Ok(None);
            }
            _ => {}
        }
        Ok(Some(event))
    }

    /// The turn is over: it waits for another, if it can be told what was said.
    fn settled(&mut self, outcome: &TurnOutcome) -> Stage {
        let reply = std::mem::take(&mut self.reply);
        if let Some(said) = &mut self.said {
            said.extend_from_slice(reply.messages());
        }
        if *outcome == TurnOutcome::Interrupted {
            self.session = None;
        }
        match (&self.session, &self.said) {
            (None, None) => Stage::Lost,
            _ => Stage::Waiting,
        }
    }
}

impl LiveSession for OneShotSession {
    fn pid(&self) -> Option<u32> {
        match &self.stage {
            Stage::Running(session) | Stage::Ending(session, _) => Some(session.pid()),
            Stage::Waiting | Stage::Ended(_) | Stage::Lost => None,
        }
    }

    fn memory(&self) -> u64 {
        match &self.stage {
            Stage::Running(session) | Stage::Ending(session, _) => session.memory(),
            Stage::Waiting | Stage::Ended(_) | Stage::Lost => 0,
        }
    }

    fn jail(&self) -> Option<JailReport> {
        self.jail.clone()
    }

    /// What is given to it as its task it never takes for a command.
    async fn ask(&mut self, message: &Message, _slash: Slash) -> Result<(), SessionFailure> {
        let prompt = self.prompt(message)?;
        let grant = Grant::without_questions(self.terms.permissions);
        let confinement = self.ground.confine(&self.id, grant, &self.workspace).await?;
        let system_prompt = match &self.session {
            // It knows already.
            Some(_) => self.terms.system_prompt.clone(),
            None => self.ground.system_prompt(self.terms.system_prompt.as_deref(), &self.workspace, "").await,
        };
        let opening = Opening {
            agent: self.ground.agent,
            program: self.ground.program.clone(),
            env: &self.ground.env,
            workspace: self.workspace.clone(),
            private: self.ground.private(&self.id),
            session: self.session.as_deref().map_or(Which::New, Which::Resumed),
            prompt: Some(&prompt),
            before: self.session.as_ref().map(|_| self.used),
            permissions: self.terms.permissions,
            enforcement: confinement.enforcement,
            allow: &self.terms.allow,
            model: self.terms.model.as_deref(),
            system_prompt: system_prompt.as_deref(),
            offered: None,
            name: &self.id,
            guard: self.ground.guard.program().to_owned(),
            ahead: self.ground.guard.take(),
            repository: confinement.trust.as_trust(),
            jail: confinement.jail.clone(),
        };
        let session = Session::open(opening).await.map_err(|error| SessionFailure::of(Phase::Ask, &error))?;
        self.jail = session.jail().cloned();
        self.stage = Stage::Running(Box::new(session));
        if self.session.is_none() {
            // Another session of the agent: it has used nothing yet.
            self.used = Usage::default();
        }
        if let Some(said) = &mut self.said {
            said.push(message.clone());
        }
        Ok(())
    }

    async fn interrupt(&mut self) -> Result<(), SessionFailure> {
        if let Stage::Running(session) = std::mem::replace(&mut self.stage, Stage::Lost) {
            // Whatever becomes of this future: what is dropped is killed.
            self.stage = Stage::Ended(TurnOutcome::Interrupted);
            told(session.kill().await);
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<AgentEvent, SessionFailure> {
        loop {
            // Where it is while it is waited for: whoever waits may go away.
            if let Stage::Running(session) = &mut self.stage {
                let event = session.next().await;
                let event = event.map_err(|error| SessionFailure::of(Phase::Answer, &error))?;
                if let Some(event) = self.heard(event)? {
                    return Ok(event);
                }
            }
            match std::mem::replace(&mut self.stage, Stage::Lost) {
                running @ Stage::Running(_) => self.stage = running,
                Stage::Ending(session, outcome) => {
                    self.stage = Stage::Ended(outcome);
                    told(session.close().await);
                    self.ground.guard.fill();
                }
                Stage::Ended(outcome) => {
                    self.stage = self.settled(&outcome);
                    return Ok(AgentEvent::TurnEnded(outcome));
                }
                Stage::Waiting => {
                    self.stage = Stage::Waiting;
                    return Err(over());
                }
                Stage::Lost => return Err(over()),
            }
        }
    }

    async fn unasked(&mut self) -> Option<Result<AgentEvent, SessionFailure>> {
        match self.stage {
            Stage::Waiting => None,
            Stage::Running(_) | Stage::Ending(..) | Stage::Ended(_) | Stage::Lost => Some(Err(over())),
        }
    }

    fn starts_when_asked(&self) -> bool {
        true
    }

    async fn sample(&mut self) -> Vec<watchdog::Input> {
        match &mut self.stage {
            Stage::Running(session) => vec![session.sample()],
            Stage::Waiting | Stage::Ending(..) | Stage::Ended(_) | Stage::Lost => Vec::new(),
        }
    }

    fn capture_request(&self) -> Option<CaptureRequest> {
        self.ground.capture_request(&self.workspace, self.session.as_deref()?)
    }

    fn keepsake(&self) -> Option<Keepsake> {
        let noted = Noted { session: self.session.clone(), used: self.used };
        Some(Keepsake { session: self.id.clone(), folder: self.own.clone(), noted: Some(noted) })
    }

    async fn park(self) {
        let request = self.capture_request();
        if let Stage::Running(session) | Stage::Ending(session, _) = self.stage {
            told(session.kill().await);
        }
        capture_whole(request).await;
        removed(self.ground.private(&self.id)).await;
    }
}

fn unfit(detail: String, hint: Option<String>) -> SessionFailure {
    SessionFailure { phase: Phase::Prompt, detail, hint }
}

fn too_long() -> SessionFailure {
    let detail = "it is longer than the agent takes".to_owned();
    SessionFailure { phase: Phase::TooLong, detail, hint: None }
}

fn refused(refusal: &Refusal) -> SessionFailure {
    unfit(refusal.to_string(), Some(refusal.hint.clone()))
}

fn over() -> SessionFailure {
    SessionFailure { phase: Phase::Ask, detail: "its session is over".to_owned(), hint: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elsewhere::done_elsewhere;
    use crate::ground::TrustGate;
    use crate::jail::Unjailed;
    use ostler_agent::agent::Permissions;
    use ostler_agent::agents::Codex;
    use ostler_process::trust::Gate;
    use std::sync::Arc;

    /// An agent may have put very many files there: while they are removed everybody else is served.
    #[test]
    fn a_session_is_not_removed_on_the_runtimes_own_thread() {
        let home = tempfile::tempdir().unwrap();
        let ground = Ground {
            agent: &Codex,
            program: PathBuf::from("codex"),
            env: Vec::new(),
            home: home.path().to_owned(),
            folder: home.path().join("sessions"),
            guard: PathBuf::from("ostler").into(),
            trust: TrustGate::new(Gate::new(home.path().join("trust.json"), None), |_| {}),
            jailer: Arc::new(Unjailed),
            tenants: Arc::new(crate::tenants::NoTenants),
            memory: None,
        };
        let terms = Terms {
            kind: ostler_agent::access::KeyKind::Owner,
            memory: ostler_agent::access::KeyMemory::Off,
            tenant: "a".to_owned(),
            agent: "codex".to_owned(),
            engine: Engine::Stream,
            model: None,
            workspace: Place::Own,
            system_prompt: None,
            permissions: Permissions::Deny,
            asks_client: false,
            allow: Vec::new(),
            tools: String::new(),
        };
        let workspaces = ground.folder.join("workspaces");
        let left = || std::fs::read_dir(&workspaces).unwrap().count();
        let sessions = OneShots(ground);
        let whole = async { sessions.start(&terms, &[]).await.unwrap().close().await };
        done_elsewhere(whole, || assert_eq!(left(), 1));
        assert_eq!(left(), 0, "when it is closed nothing of it is left");
    }
}
