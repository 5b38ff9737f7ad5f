//! What a key opens, and how much of it: the scopes, the policy, and a meter that counts.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::agent::Permissions;
use crate::offering::Own;
use crate::pace::Pace;

/// What a limit of requests is counted over.
const MINUTE: Duration = Duration::from_secs(60);

/// Whose agent a key uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyKind {
    /// The owner's: their home, their sign-in, as in `ostler run`.
    Owner,
    /// One of its own: in a jail that shows nothing of the owner or of other keys.
    Tenant,
}

impl KeyKind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Tenant => "tenant",
        }
    }

    /// By its word.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Owner, Self::Tenant].into_iter().find(|kind| kind.name() == name)
    }

    /// The kind of a key that was made before keys had one.
    pub fn of_scopes(scopes: &[Scope]) -> Self {
        if scopes.contains(&Scope::Admin) { Self::Owner } else { Self::Tenant }
    }
}

/// A kind of thing that a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Ask the agent, through the APIs of providers.
    Chat,
    /// Look at sessions.
    SessionsRead,
    /// Begin sessions, ask in them, break them off, end them.
    SessionsWrite,
    /// Watch a terminal.
    TerminalView,
    /// Type into a terminal.
    TerminalHold,
    /// Have sessions remembered, and new ones know of earlier ones.
    Memory,
    /// All of it, for every tenant, and the runs of whoever owns the machine.
    Admin,
}

/// Whether sessions are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyMemory {
    /// They are captured, and new ones get the context of earlier ones.
    On,
    /// They neither feed a memory nor know of one.
    Off,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Chat,
        Self::SessionsRead,
        Self::SessionsWrite,
        Self::TerminalView,
        Self::TerminalHold,
        Self::Memory,
        Self::Admin,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::SessionsRead => "sessions:read",
            Self::SessionsWrite => "sessions:write",
            Self::TerminalView => "terminal:view",
            Self::TerminalHold => "terminal:hold",
            Self::Memory => "memory",
            Self::Admin => "admin",
        }
    }

    /// By its word.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// What a key may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Whose agent it uses.
    pub kind: KeyKind,
    /// Kinds of things.
    pub scopes: Vec<Scope>,
    /// How many requests a minute.
    pub requests_per_minute: Option<u32>,
    /// How many turns at once.
    pub turns_at_once: Option<u32>,
    /// How many questions of its agents may wait for an answer at once.
    pub open_questions: Option<u32>,
    /// Which models; with none named, all.
    pub models: Vec<String>,
    /// Folders below which it may name one to work in, besides those that are allowed to all.
    pub folders: Vec<PathBuf>,
    /// What an agent may do for it without asking. A request may ask for less.
    pub permissions: Permissions,
    /// Whether an agent that is offered tools of the program has its own besides.
    pub own_tools: Own,
}

impl Policy {
    /// All that there is, but an agent that only reads: what the owner of the machine has.
    pub fn owner() -> Self {
        Self { kind: KeyKind::Owner, scopes: vec![Scope::Admin], ..Self::chat() }
    }

    /// Talking, and nothing else.
    pub fn chat() -> Self {
        Self {
            kind: KeyKind::Tenant,
            scopes: vec![Scope::Chat],
            requests_per_minute: None,
            turns_at_once: None,
            open_questions: None,
            models: Vec::new(),
            folders: Vec::new(),
            permissions: Permissions::Deny,
            own_tools: Own::Off,
        }
    }

    /// Whether it may do that. Whoever may do all may do each; whoever holds a terminal sees it.
    pub fn allows(&self, wanted: Scope) -> bool {
        self.scopes.iter().any(|scope| match scope {
            Scope::Admin => true,
            Scope::TerminalHold => matches!(wanted, Scope::TerminalHold | Scope::TerminalView),
            scope => *scope == wanted,
        })
    }

    /// Whether its sessions are remembered. To be allowed everything does not mean that.
    pub fn memory(&self) -> KeyMemory {
        if self.scopes.contains(&Scope::Memory) { KeyMemory::On } else { KeyMemory::Off }
    }

    /// Whether it may ask this model, by the name that requests have for it.
    pub fn allows_model(&self, named: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|model| model == named)
    }

    /// Whether it may work in this folder: absolute, with links resolved.
    pub fn allows_folder(&self, folder: &Path) -> bool {
        self.folders.iter().any(|root| folder.starts_with(root))
    }

    /// Whether it may allow an agent what the agent asks for: only one for which an agent may do all, or the owner's.
    pub fn may_allow(&self) -> bool {
        self.permissions == Permissions::All || self.allows(Scope::Admin)
    }

    /// What an agent may do for a request that asks for so much; nothing if that is more than it may.
    pub fn permits(&self, wanted: Option<Permissions>) -> Option<Permissions> {
        let rank = |permissions| match permissions {
            Permissions::Deny => 0,
            Permissions::Edits => 1,
            Permissions::All => 2,
        };
        let wanted = wanted.unwrap_or(self.permissions);
        (rank(wanted) <= rank(self.permissions)).then_some(wanted)
    }
}

/// Counts what one key does. Bounded by what it may do.
#[derive(Debug, Default)]
pub struct Meter {
    /// When the requests of the last minute came.
    came: VecDeque<Duration>,
    turns: u32,
    /// How long they take.
    pace: Pace,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A request comes.
    Came,
    /// A turn is to begin.
    Begins,
    /// It is over, after so long. Reported once for each turn that was admitted.
    Ended(Duration),
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It goes on.
    Admit,
    /// Not now: after so long there is room.
    Later(Duration),
}

impl Meter {
    /// Decides, and counts what is admitted. What is not admitted is not counted: asking often does not make it longer.
    pub fn step(&mut self, now: Duration, policy: &Policy, input: Input) -> Verdict {
        match input {
            Input::Came => self.came(now, policy.requests_per_minute),
            Input::Begins => match policy.turns_at_once {
                Some(limit) if self.turns >= limit => {
                    Verdict::Later(self.pace.promise(now, usize::try_from(self.turns).unwrap_or(usize::MAX)))
                }
                Some(_) | None => {
                    self.turns += 1;
                    Verdict::Admit
                }
            },
            Input::Ended(took) => {
                self.turns = self.turns.saturating_sub(1);
                self.pace.on_release(took);
                if self.turns == 0 {
                    self.pace.on_empty_queue();
                }
                Verdict::Admit
            }
        }
    }

    /// How many turns are under way.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    fn came(&mut self, now: Duration, limit: Option<u32>) -> Verdict {
        let Some(limit) = limit else {
            self.came.clear();
            return Verdict::Admit;
        };
        while self.came.front().is_some_and(|at| now.saturating_sub(*at) >= MINUTE) {
            self.came.pop_front();
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        if self.came.len() < limit {
            self.came.push_back(now);
            return Verdict::Admit;
        }
        // The limit may have become lower meanwhile.
        let oldest = self.came.len().checked_sub(limit.max(1)).and_then(|at| self.came.get(at));
        Verdict::Later(oldest.map_or(MINUTE, |at| (*at + MINUTE).saturating_sub(now)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn secs(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn scopes_open_what_they_say() {
        use Scope::{Admin, Chat, SessionsRead, SessionsWrite, TerminalHold, TerminalView};
        let table: [(&[Scope], Scope, bool); 8] = [
            (&[Chat], Chat, true),
            (&[Chat], SessionsRead, false),
            (&[Chat, SessionsRead], SessionsRead, true),
            (&[SessionsRead], SessionsWrite, false),
            (&[TerminalView], TerminalHold, false),
            (&[TerminalHold], TerminalView, true),
            (&[Admin], TerminalHold, true),
            (&[], Chat, false),
        ];
        for (scopes, wanted, want) in table {
            let policy = Policy { scopes: scopes.to_vec(), ..Policy::chat() };
            assert_eq!(policy.allows(wanted), want, "{scopes:?} for {wanted:?}");
        }
        assert!(Scope::ALL.iter().all(|scope| Scope::named(scope.name()) == Some(*scope)));
        assert_eq!(Scope::named("everything"), None);
    }

    #[test]
    fn keys_without_a_kind_are_the_owners_if_they_open_everything() {
        use Scope::{Admin, Chat, SessionsWrite};
        let table: [(&[Scope], KeyKind); 4] = [
            (&[Admin], KeyKind::Owner),
            (&[Chat, Admin], KeyKind::Owner),
            (&[Chat, SessionsWrite], KeyKind::Tenant),
            (&[], KeyKind::Tenant),
        ];
        for (scopes, want) in table {
            assert_eq!(KeyKind::of_scopes(scopes), want, "{scopes:?}");
            assert_eq!(KeyKind::from_name(want.name()), Some(want));
        }
        assert_eq!(KeyKind::from_name("guest"), None);
    }

    #[test]
    fn a_request_may_ask_for_less_and_never_for_more() {
        use Permissions::{All, Deny, Edits};
        let table = [
            (Deny, None, Some(Deny)),
            (Deny, Some(Edits), None),
            (Edits, None, Some(Edits)),
            (Edits, Some(Deny), Some(Deny)),
            (Edits, Some(All), None),
            (All, Some(Edits), Some(Edits)),
        ];
        for (may, asked, want) in table {
            let policy = Policy { permissions: may, ..Policy::chat() };
            assert_eq!(policy.permits(asked), want, "{may:?}: {asked:?}");
        }
    }

    #[test]
    fn who_may_not_do_all_may_not_allow_it_either() {
        let able = |policy: Policy| policy.may_allow();
        assert!(able(Policy::owner()) && able(Policy { permissions: Permissions::All, ..Policy::chat() }));
        assert!(!able(Policy::chat()) && !able(Policy { permissions: Permissions::Edits, ..Policy::chat() }));
    }

    #[test]
    fn models_and_folders_are_lists() {
        let policy = Policy {
            models: vec!["claude".to_owned()],
            folders: vec![PathBuf::from("/a/b")],
            ..Policy::chat()
        };
        assert!(policy.allows_model("claude") && !policy.allows_model("claude/opus"));
        assert!(Policy::chat().allows_model("claude/opus") && !Policy::chat().allows_folder(Path::new("/a")));
        assert!(policy.allows_folder(Path::new("/a/b/c")) && !policy.allows_folder(Path::new("/a/bc")));
    }

    #[test]
    fn requests_are_counted_over_a_minute() {
        use Input::Came;
        use Verdict::{Admit, Later};
        let policy = Policy { requests_per_minute: Some(2), ..Policy::chat() };
        let table = [
            (0, Admit),
            (10, Admit),
            (20, Later(secs(40))),
            (59, Later(secs(1))),
            (60, Admit),
            (61, Later(secs(9))),
        ];
        let mut meter = Meter::default();
        for (at, want) in table {
            assert_eq!(meter.step(secs(at), &policy, Came), want, "at {at} s");
        }
        let none = Policy { requests_per_minute: Some(0), ..Policy::chat() };
        assert_eq!(Meter::default().step(secs(0), &none, Came), Later(MINUTE));
    }

    #[test]
    fn turns_are_counted_while_they_last() {
        let policy = Policy { turns_at_once: Some(1), ..Policy::chat() };
        let mut meter = Meter::default();
        let mut step = |at, input| meter.step(secs(at), &policy, input);
        assert_eq!(step(0, Input::Begins), Verdict::Admit);
        assert!(matches!(step(0, Input::Begins), Verdict::Later(_)));
        assert_eq!(step(30, Input::Ended(secs(30))), Verdict::Admit);
        assert_eq!(step(30, Input::Begins), Verdict::Admit);
        // Refused clients come back when a turn has ended, one after the other.
        assert_eq!(step(30, Input::Begins), Verdict::Later(secs(30)));
        assert_eq!(step(30, Input::Begins), Verdict::Later(secs(60)));
    }

    proptest! {
        /// Whatever comes when: in no minute more than the limit, and whoever waits as long as he is told is admitted.
        #[test]
        fn never_more_than_the_limit(limit in 1_u32..5, gaps in prop::collection::vec(0_u64..30, 1..60)) {
            let policy = Policy { requests_per_minute: Some(limit), ..Policy::chat() };
            let (mut meter, mut now, mut admitted) = (Meter::default(), Duration::ZERO, Vec::new());
            for gap in gaps {
                now += secs(gap);
                match meter.step(now, &policy, Input::Came) {
                    Verdict::Admit => admitted.push(now),
                    Verdict::Later(wait) => {
                        now += wait;
                        prop_assert_eq!(meter.step(now, &policy, Input::Came), Verdict::Admit);
                        admitted.push(now);
                    }
                }
            }
            for from in &admitted {
                let within = admitted.iter().filter(|at| *at >= from && **at < *from + MINUTE).count();
                prop_assert!(within <= usize::try_from(limit).unwrap());
            }
        }
    }
}
