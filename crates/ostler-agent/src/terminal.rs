//! What Ostler must know to drive an agent's own terminal program: how it is started, where it says what it is doing, and
//! what its screen means. Knowledge, not activity: nothing here types or reads.
//!
//! What was said and done comes from the agent's own record ([`crate::agent::Decoder`]); whether a turn is over is
//! decided by [`crate::turning`].

use std::path::PathBuf;

use crate::agent::{Launch, Permissions, Refusal, Task, Whereabouts};
use crate::dialogs::Dialog;
use crate::look::{Look, ScreenChange};
use crate::typing::{Prepared, Sight, Unsendable};

/// What a terminal program says it is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It takes a prompt.
    Idle,
    /// A turn is under way, or work beside it.
    Busy,
    /// A dialog is up.
    Waiting {
        /// What it waits for, in its own words.
        what: String,
    },
    /// It takes a prompt, while commands of it run in the background.
    Shell,
}

impl Status {
    /// Whether it would take a prompt now.
    pub fn takes_a_prompt(&self) -> bool {
        match self {
            Self::Idle | Self::Shell => true,
            Self::Busy | Self::Waiting { .. } => false,
        }
    }
}

/// What a terminal program keeps of itself in a file for as long as it runs. The file stays behind when it is killed:
/// only one with the pid and the start of a living process counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFile {
    /// What it is doing; nothing while it does not say, or says it in words that are new to us.
    pub status: Option<Status>,
    /// Its own id of the session that it shows. `/clear` begins another.
    pub session: Option<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// When that began, as the kernel tells it in `/proc/<pid>/stat`.
    pub began: Option<u64>,
    /// Its version.
    pub version: Option<String>,
}

/// What Ostler must know about one terminal program. Stateless; does no I/O.
pub trait Interactive: Sync {
    /// How to start it for a task. There is no prompt in it: that is typed.
    fn launch(&self, task: &Task<'_>) -> Result<Launch, Refusal>;
    /// The file in which the process says what it is doing. It comes late and may never come: then only the screen tells.
    fn state_file(&self, whereabouts: &Whereabouts<'_>, pid: u32) -> PathBuf;
    /// What that file says. None if it cannot be read, as when it is half written.
    fn state(&self, content: &[u8]) -> Option<StateFile>;
    /// What the program prints that it calls in order to ask ([`Task::answerer`]), given what it wrote to it. None if it
    /// asks nothing that the permission level answers: then it asks on its screen.
    fn answer(&self, asked: &[u8], permissions: Permissions) -> Option<String>;
    /// Whether a prompt that it recorded is the one that was typed: it changes some of what it is given.
    fn is_same_prompt(&self, typed: &str, recorded: &str) -> bool;
    /// The form in which a prompt is typed, or why it cannot be.
    fn sendable(&self, text: &str) -> Result<Prepared, Unsendable>;
    /// What its screen says about the input box.
    fn sight(&self, look: &Look) -> Sight;
    /// The dialog that is up, if one is.
    fn dialog(&self, look: &Look) -> Option<Dialog>;
    /// What changed from one screen to the next, as a sign of life.
    fn screen_change(&self, before: &Look, after: &Look) -> ScreenChange;
    /// The end of what a program printed that ended with an exit code: why it did, if it says so.
    fn last_words(&self, look: &Look) -> String {
        look.dump()
    }
}
