//! What is not as it should be, each with what to do about it.

use super::fact::{Fact, Judged};
use super::judging::silent;
use super::observed::{AtBridge, Ended, FileSeen, Handed, Observed};

/// A fact that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    /// Which.
    pub fact: Fact,
    /// What was seen instead.
    pub what: String,
    /// What to do.
    pub try_this: String,
}

/// Every fact that does not hold, with what to do; that it broke off comes first. `run` is how the run is called, if there is one.
pub fn breaks(seen: &Observed, facts: &[Judged], run: Option<&str>) -> Vec<Break> {
    // Where nothing ran, all else follows from that and is not worth saying.
    let is_worth_saying = |judged: &&Judged| seen.ran() || judged.fact == Fact::NoCrash;
    let broken = facts.iter().filter(|judged| !judged.is_ok()).filter(is_worth_saying);
    let told = broken.map(|judged| Break {
        fact: judged.fact,
        what: what(judged, seen),
        try_this: try_this(judged.fact, seen, run),
    });
    let mut told: Vec<Break> = told.collect();
    // How it ended explains most of what else is missing.
    told.sort_by_key(|broken| broken.fact != Fact::NoCrash);
    told
}

/// What was seen, and where it is known, because of what.
fn what(judged: &Judged, seen: &Observed) -> String {
    let told = &judged.seen;
    match judged.fact {
        Fact::Completion | Fact::Artifact => match (&seen.bridge, &seen.artifact) {
            (_, Handed::Accepted { .. } | Handed::Rejected { .. }) | (AtBridge::Came, _) => told.clone(),
            (AtBridge::TurnedAway { why }, _) => {
                format!("{told}; the agent came to the bridge and was not let in: {why}")
            }
            (AtBridge::Nobody, _) => format!("{told}; the agent never came to the bridge"),
        },
        Fact::Channels => match &seen.bridge {
            AtBridge::Nobody if silent(&seen.channels).contains(&"bridge") => {
                format!("{told}; the agent never came to the bridge")
            }
            AtBridge::TurnedAway { why } if silent(&seen.channels).contains(&"bridge") => {
                format!("{told}; the agent came to the bridge and was not let in: {why}")
            }
            AtBridge::Nobody | AtBridge::TurnedAway { .. } | AtBridge::Came => told.clone(),
        },
        _ => told.clone(),
    }
}

fn try_this(fact: Fact, seen: &Observed, run: Option<&str>) -> String {
    let events = run.map_or_else(|| "`ostler runs`".to_owned(), |run| format!("`ostler runs events {run}`"));
    let show = run.map_or_else(|| "`ostler runs`".to_owned(), |run| format!("`ostler runs show {run}`"));
    let why = run.map_or_else(|| "`ostler doctor`".to_owned(), |run| format!("`ostler runs why {run}`"));
    match fact {
        Fact::File => match seen.file {
            FileSeen::Absent => format!("{events} shows what its tools answered; look whether it may edit files"),
            FileSeen::Broken { .. } => "look at the file, which is kept: how this agent writes files may have changed".to_owned(),
            FileSeen::Parsed | FileSeen::Unread { .. } => {
                "look at what it wrote besides: a version that leaves files of its own needs to be told not to".to_owned()
            }
        },
        Fact::Session => format!(
            "{events} shows how its session is told; until that is understood, an interrupted run cannot be resumed"
        ),
        Fact::Completion | Fact::Artifact => at_bridge(fact, seen, &events, &why),
        Fact::Receipts => format!(
            "{show} tells which line; something on this machine writes to the runs' folder, so do not trust what is there"
        ),
        Fact::Events => "install the version that Ostler was proven with (`ostler agents install`), or report the sample below".to_owned(),
        Fact::Tools => format!("{events} shows its calls; one that is never closed looks like work that goes on"),
        Fact::Output => format!("{events} shows what it said; too little may mean that its text is no longer understood"),
        Fact::NoPrompt => "`ostler run --permissions`, or `--allow` with a rule of the agent; unattended, nobody answers".to_owned(),
        Fact::NoCrash => match &seen.ended {
            Ended::Nothing { try_this: Some(hint), .. } => hint.clone(),
            Ended::Nothing { try_this: None, .. } => "`ostler doctor`".to_owned(),
            Ended::Outcome { .. } => why,
        },
        Fact::Channels => format!("{why} tells when each was last heard; without one, a stall is found later than it should be"),
        Fact::NothingSurvived => "`ostler doctor` tells what keeps an agent's processes together here; end them by hand".to_owned(),
    }
}

fn at_bridge(fact: Fact, seen: &Observed, events: &str, why: &str) -> String {
    match (&seen.bridge, &seen.artifact) {
        (AtBridge::Nobody, Handed::Nothing | Handed::Stale) => {
            format!(
                "{why}; this version may read its MCP settings from elsewhere than where Ostler puts them"
            )
        }
        (AtBridge::TurnedAway { .. }, Handed::Nothing | Handed::Stale) => {
            format!(
                "{why}; look whether something between the agent and Ostler changes its requests or its settings"
            )
        }
        (_, Handed::Rejected { .. }) if fact == Fact::Artifact => {
            format!("{events} shows the drafts and why each was rejected")
        }
        (_, Handed::Stale) if fact == Fact::Artifact => {
            "nothing: what is older than a run does not count for it. The agent has to hand it over again"
                .to_owned()
        }
        (_, _) => {
            format!(
                "{events} shows what it called; a model that says it is done, and does not declare it, is not done"
            )
        }
    }
}
