//! Dialogs of an agent's terminal program: what they are, and what is answered when nobody is there.
//!
//! Which screen is which dialog is knowledge about an agent and lies in `agents/*`; here is only what they have in
//! common. An answer is one step for the dialog as it stands, never a guess about the next screen: a menu is left by
//! Enter only when the pointer is seen on what is wanted. [`crate::answering`] presses, and looks again. What policy does
//! not answer is [`Answer::Blocked`], and nothing is typed.

use std::time::Duration;

use crate::agent::Permissions;
use crate::policy::{NOBODY, denial};

/// What a dialog is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DialogKind {
    /// Whether the folder is trusted.
    Trust,
    /// Whether the key of the environment is used.
    ApiKey,
    /// Whether it is understood that nothing will be asked.
    Bypass,
    /// Whether servers that the project names are used.
    ProjectServers,
    /// Whether a tool may do what it is about to do.
    Permission(Wish),
    /// What the model asks a person.
    Question,
    /// The answers to several questions, before they are handed in.
    Review,
    /// Whether a plan is carried out.
    Plan,
    /// The account may not use more for now.
    UsageLimit,
    /// Somebody has to sign in.
    Login,
    /// A newer version is offered.
    Update,
    /// A menu that is none of these.
    UnknownMenu,
}

impl DialogKind {
    /// The word for it in the journal.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::ApiKey => "api_key",
            Self::Bypass => "bypass",
            Self::ProjectServers => "project_servers",
            Self::Permission(_) => "permission",
            Self::Question => "question",
            Self::Review => "review",
            Self::Plan => "plan",
            Self::UsageLimit => "usage_limit",
            Self::Login => "login",
            Self::Update => "update",
            Self::UnknownMenu => "unknown_menu",
        }
    }
}

/// What permission is asked for. Only for the reader: policy makes no difference, because small screens do not show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wish {
    /// To create or change a file.
    Write,
    /// To run a command.
    Command,
    /// To call a tool of a server.
    Mcp,
    /// Something else, or it is not on the screen what.
    Other,
}

/// A dialog as it is on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialog {
    /// What it is about.
    pub kind: DialogKind,
    /// Its heading; empty where it has none or where it does not fit.
    pub title: String,
    /// What it asks, the last words before the options.
    pub question: String,
    /// What can be chosen, as far as it is on the screen, from the top.
    pub options: Vec<Choice>,
    /// Which of the options the pointer is on.
    pub at: usize,
}

/// One option of a menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The digit that chooses it, where the menu has digits.
    pub digit: Option<u8>,
    /// Its words, on one line, with what is said to explain them.
    pub label: String,
    /// Whether it is marked, where several can be.
    pub mark: Option<bool>,
    /// What choosing it means.
    pub role: Role,
}

/// What it means to choose an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Yes, this once.
    Yes,
    /// Yes, and do not ask again. Never chosen: what a run may do does not grow while it runs.
    Always,
    /// No.
    No,
    /// No, and Tab makes room for words.
    Amend,
    /// There is room for words in it.
    Words,
    /// What was marked or written is handed in.
    Submit,
    /// One of the answers that the model offers, words that were written, or something that is new to us.
    Other,
}

/// Keys that are written at once, and how long to wait before the next ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Press {
    /// What is written.
    pub bytes: Vec<u8>,
    /// How long nothing else is written afterwards.
    pub then: Duration,
}

/// What is done about a dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// This is pressed; then the screen is looked at again.
    Press(Press),
    /// Nobody may answer it: the run stops, and says so.
    Blocked {
        /// Why, for a person: what is asked.
        reason: String,
    },
}

/// Between two keys: sent faster, some are lost.
const BETWEEN_KEYS: Duration = Duration::from_millis(250);

const UP: &[u8] = b"\x1b[A";
const DOWN: &[u8] = b"\x1b[B";
const ENTER: &[u8] = b"\r";
const ESC: &[u8] = b"\x1b";
const TAB: &[u8] = b"\t";

/// What policy does about a dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    /// The option with this role is chosen.
    Choose(Role),
    /// It is told in words, so that the turn goes on. Where there is no room for them it is a plain no.
    Say(&'static str),
    /// It is left without an answer.
    Leave,
    /// Nobody may answer it.
    Stop(&'static str),
}

/// The next step of what policy answers to a dialog.
pub fn answer(dialog: &Dialog, permissions: Permissions) -> Answer {
    match course(dialog, permissions) {
        Course::Choose(role) => press(choose(dialog, role)),
        Course::Say(words) => press(say(dialog, words)),
        Course::Leave => press(ESC),
        Course::Stop(why) => Answer::Blocked { reason: dialog.told(why) },
    }
}

/// What a run was allowed when it was started it is allowed here: the folder, the key of its environment, its level of
/// permissions. Servers of the project are not the run's. A person's account and time are nobody's to give.
fn course(dialog: &Dialog, permissions: Permissions) -> Course {
    match (dialog.kind, denial(permissions)) {
        (DialogKind::Trust | DialogKind::ApiKey | DialogKind::Review, _) => Course::Choose(Role::Yes),
        (DialogKind::Bypass | DialogKind::Permission(_) | DialogKind::Plan, None) => {
            Course::Choose(Role::Yes)
        }
        (DialogKind::Bypass, Some(_)) => {
            Course::Stop("it would do everything without asking, which this run may not")
        }
        (DialogKind::Permission(_) | DialogKind::Plan, Some(why)) => Course::Say(why),
        (DialogKind::Question, _) => Course::Say(NOBODY),
        // A list of servers has no such option: it is left.
        (DialogKind::ProjectServers, _) if dialog.has(Role::No) => Course::Choose(Role::No),
        (DialogKind::ProjectServers, _) => Course::Leave,
        (DialogKind::UsageLimit, _) => Course::Stop("the account may not use more for now"),
        (DialogKind::Login, _) => Course::Stop("somebody has to sign in"),
        (DialogKind::Update, _) => Course::Stop("it wants to be updated first"),
        (DialogKind::UnknownMenu, _) => Course::Stop("this menu is not known"),
    }
}

/// By its digit where it has one. Else the pointer is moved by one, and Enter is pressed only once it is seen there.
fn choose(dialog: &Dialog, role: Role) -> &[u8] {
    match dialog.options.iter().find(|option| option.role == role).and_then(|option| option.digit) {
        Some(digit) => DIGITS.get(usize::from(digit)).map_or(ENTER, |key| key.as_slice()),
        None if dialog.here().is_some_and(|option| option.role == role) => ENTER,
        None => dialog.towards(|option| option.role == role),
    }
}

const DIGITS: [[u8; 1]; 10] = [*b"0", *b"1", *b"2", *b"3", *b"4", *b"5", *b"6", *b"7", *b"8", *b"9"];

/// The pointer is moved to where there is room for the words, they are written, and handed in once they are seen.
fn say<'a>(dialog: &'a Dialog, words: &'static str) -> &'a [u8] {
    let Some(here) = dialog.here() else { return DOWN };
    // On a narrow screen only their beginning is in one row.
    let beginning: String = words.chars().take(15).collect();
    if here.label.contains(&beginning) {
        // A marked option is handed in below the others.
        return if here.mark.is_some() { DOWN } else { ENTER };
    }
    match here.role {
        Role::Words => words.as_bytes(),
        Role::Amend => TAB,
        Role::No | Role::Submit => ENTER,
        Role::Yes | Role::Always | Role::Other => {
            dialog.towards(|option| matches!(option.role, Role::Words | Role::Amend | Role::No))
        }
    }
}

fn press(bytes: &[u8]) -> Answer {
    Answer::Press(Press { bytes: bytes.to_vec(), then: BETWEEN_KEYS })
}

impl Dialog {
    /// Whether it is the same dialog, wherever its pointer is and whatever part of its menu is shown.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.kind, &self.title, &self.question) == (other.kind, &other.title, &other.question)
    }

    /// The option that the pointer is on.
    fn here(&self) -> Option<&Choice> {
        self.options.get(self.at)
    }

    fn has(&self, role: Role) -> bool {
        self.options.iter().any(|option| option.role == role)
    }

    /// The key that moves the pointer nearer. What is not on the screen is further down: menus wrap around.
    fn towards(&self, is_wanted: impl Fn(&Choice) -> bool) -> &'static [u8] {
        match self.options.iter().position(is_wanted) {
            Some(wanted) if wanted < self.at => UP,
            Some(_) | None => DOWN,
        }
    }

    /// What it asks and why nobody answers, in one sentence.
    fn told(&self, why: &str) -> String {
        let words = [self.title.as_str(), self.question.as_str()];
        let asked: Vec<&str> = words.into_iter().filter(|words| !words.is_empty()).collect();
        if asked.is_empty() { why.to_owned() } else { format!("{why}: {}", asked.join(" · ")) }
    }
}
