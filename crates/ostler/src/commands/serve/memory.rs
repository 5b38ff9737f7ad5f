//! The memory of keys that have one: the owner's own, or one of the tenant's below its directory.

use std::io;
use std::path::Path;
use std::time::Instant;

use ostler_agent::agent::Agent;
use ostler_agent::remembering::Origin;
use ostler_gateway::session_memory::SessionMemory;
use ostler_memory::capture::{Wanted, hand_over};
use ostler_memory::place::Place;
use ostler_memory::prefix::at_session_start;
use ostler_process::run::CapturedSession;

/// A memory of served sessions.
pub(super) struct KeyMemory(pub(super) Place);

impl SessionMemory for KeyMemory {
    fn find_context(&self, cwd: &Path, session: &str) -> Option<String> {
        let session = Some(session).filter(|session| !session.is_empty());
        at_session_start(&self.0, &cwd.display().to_string(), session, Instant::now())
    }

    fn capture(&self, agent: &dyn Agent, session: &CapturedSession) -> io::Result<()> {
        let wanted = Wanted {
            path: session.transcript.clone(),
            origin: Origin::named(agent.package().slot),
            session: Some(session.id.clone()),
            cwd: Some(session.cwd.display().to_string()),
            current_dir: None,
        };
        hand_over(&self.0, &wanted).map(drop)
    }
}
