//! Memory for an agent in a jail. Its own hooks reach no store there, so the host does what they would do: it captures
//! sessions and gives new ones their context. Only where the user has installed the hooks for that agent.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler_agent::agent::Agent;
use ostler_agent::remembering::Origin;
use ostler_memory::capture::{Wanted, hand_over};
use ostler_memory::hooks::Ground;
use ostler_memory::place::Place;
use ostler_memory::prefix::at_session_start;
use ostler_process::run::{CapturedSession, SessionCapture};
use tokio::sync::oneshot;

use crate::surroundings::Surroundings;

/// How long a start waits for the context. It takes milliseconds; a store that is busy or large gives none.
const CONTEXT_WAIT: Duration = Duration::from_millis(400);

/// The memory that an agent's own hooks would fill.
#[derive(Debug, Clone)]
pub(crate) struct SessionMemory {
    place: Place,
    origin: Origin,
}

impl SessionMemory {
    /// That of an agent with these variables, if the user has installed our hooks for it.
    pub(crate) fn of(
        agent: &dyn Agent,
        env: &[(OsString, OsString)],
        program: &Path,
        here: &Surroundings,
    ) -> Option<Self> {
        let origin = Origin::named(agent.package().slot)?;
        let variable = |name: &str| -> Option<PathBuf> {
            let (_, value) = env.iter().rev().find(|(known, _)| known == OsStr::new(name))?;
            Some(PathBuf::from(value)).filter(|value| !value.as_os_str().is_empty())
        };
        let home = variable("HOME").or_else(|| here.user_home())?;
        let place = Place::new(here.home.memory());
        let ground = Ground { place: &place, home: &home, variable: &variable, program, ostler_home: None };
        ground.is_capturing(origin, here.home.root()).then_some(())?;
        Some(Self { place, origin })
    }

    /// Begins to look for what a session in a directory should know. It is looked for on a thread of its own, which
    /// nothing waits for once its time is up.
    pub(crate) fn look_for_context(&self, cwd: &Path, session: Option<String>) -> Context {
        let (began, place, cwd) = (Instant::now(), self.place.clone(), cwd.display().to_string());
        let (send, found) = oneshot::channel();
        let look = move || drop(send.send(at_session_start(&place, &cwd, session.as_deref(), began)));
        // Without a thread there is no answer either.
        let _ = std::thread::Builder::new().name("context".to_owned()).spawn(look);
        Context { began, found }
    }

    /// The same, to capture sessions.
    pub(crate) fn into_capture(self) -> Arc<dyn SessionCapture> {
        Arc::new(self)
    }
}

/// What a session should know, while it is being looked for.
pub(crate) struct Context {
    began: Instant,
    found: oneshot::Receiver<Option<String>>,
}

impl Context {
    /// The text, if there is one in time.
    pub(crate) async fn text(self) -> Option<String> {
        let left = CONTEXT_WAIT.saturating_sub(self.began.elapsed());
        tokio::time::timeout(left, self.found).await.ok()?.ok()?
    }
}

impl SessionCapture for SessionMemory {
    fn capture(&self, session: &CapturedSession) -> io::Result<()> {
        let wanted = Wanted {
            path: session.transcript.clone(),
            origin: Some(self.origin),
            session: Some(session.id.clone()),
            cwd: Some(session.cwd.display().to_string()),
            current_dir: None,
        };
        hand_over(&self.place, &wanted).map(drop)
    }
}
