//! The facts of a smoke test, and what they come to together.

use crate::completion::Grade;

/// What must hold for an agent to be driven as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// The file is there, is what it should be, and nothing else was touched.
    File,
    /// The agent told of its session, and it is the one that it was given.
    Session,
    /// It declared that it is done.
    Completion,
    /// It handed over what was required, and that is stored as it was handed over.
    Artifact,
    /// The receipts are those that were written.
    Receipts,
    /// What it writes is understood.
    Events,
    /// It used a tool, and the call came to an end.
    Tools,
    /// It said something that a person can read.
    Output,
    /// It asked nobody for permission.
    NoPrompt,
    /// It did not break off.
    NoCrash,
    /// Every way in which it shows life was heard.
    Channels,
    /// No process of it is left.
    NothingSurvived,
}

impl Fact {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 12] = [
        Self::File,
        Self::Session,
        Self::Completion,
        Self::Artifact,
        Self::Receipts,
        Self::Events,
        Self::Tools,
        Self::Output,
        Self::NoPrompt,
        Self::NoCrash,
        Self::Channels,
        Self::NothingSurvived,
    ];

    /// The word for it in JSON, which stays.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Session => "session",
            Self::Completion => "completion",
            Self::Artifact => "artifact",
            Self::Receipts => "receipts",
            Self::Events => "events",
            Self::Tools => "tools",
            Self::Output => "output",
            Self::NoPrompt => "no_prompt",
            Self::NoCrash => "no_crash",
            Self::Channels => "channels",
            Self::NothingSurvived => "nothing_survived",
        }
    }

    /// The fact of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fact| fact.name() == name)
    }

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Self::File => "file created",
            Self::Session => "session id observed",
            Self::Completion => "explicit completion",
            Self::Artifact => "artifact submitted",
            Self::Receipts => "receipts whole",
            Self::Events => "decoder events",
            Self::Tools => "tool activity",
            Self::Output => "meaningful output",
            Self::NoPrompt => "no permission prompt",
            Self::NoCrash => "no crash",
            Self::Channels => "every channel delivered",
            Self::NothingSurvived => "nothing survived",
        }
    }
}

/// Whether a fact holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// It does.
    Yes,
    /// It seems so, but what shows it is worth less than this agent can give.
    Weakly,
    /// It does not.
    No,
}

/// A fact, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Which.
    pub fact: Fact,
    /// The best that shows it.
    pub grade: Grade,
    /// Whether it holds.
    pub held: Held,
    /// What was seen, in a few words.
    pub seen: String,
}

impl Judged {
    /// Whether it is as it should be.
    pub fn is_ok(&self) -> bool {
        self.held == Held::Yes
    }
}

/// What all facts come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every fact holds.
    Pass,
    /// Every fact seems to hold, some by evidence that is worth no more than this.
    Degraded(Grade),
    /// One does not hold.
    Fail,
}

impl Verdict {
    /// The one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Degraded(_) => "DEGRADED",
            Self::Fail => "FAIL",
        }
    }
}

/// Sums up.
pub fn verdict(facts: &[Judged]) -> Verdict {
    if facts.iter().any(|judged| judged.held == Held::No) {
        return Verdict::Fail;
    }
    let weak = facts.iter().filter(|judged| judged.held == Held::Weakly).map(|judged| judged.grade);
    weak.min().map_or(Verdict::Pass, Verdict::Degraded)
}
