//! Each fact from what was observed. No fact looks at what another one is judged from, so that what breaks one row of
//! the table changes that row alone.

use std::collections::BTreeSet;

use super::fact::{Fact, Held, Judged};
use super::observed::{ChainSeen, Claim, Document, Ended, FileSeen, Handed, Observed};
use crate::completion::Grade;
use crate::run_event::Channel;

/// Fewer lines tell nobody what was done.
pub const FEWEST_LINES: usize = 3;

/// More are not read.
pub const MOST_LINES: usize = 80;

/// So much is told of what an agent said about its end.
const MOST_CHARS: usize = 300;

/// Judges every fact, in the order of [`Fact::ALL`]. `ceiling` is the best that this agent can show; `known` are kinds
/// of records that are not decoded and were there when all was well.
pub fn judge(seen: &Observed, ceiling: Grade, known: &BTreeSet<String>) -> Vec<Judged> {
    let judged = |fact: Fact| {
        let (grade, held, seen) = match fact {
            Fact::File => file(seen),
            Fact::Session => session(seen),
            Fact::Completion => completion(seen, ceiling),
            Fact::Artifact => artifact(seen, ceiling),
            Fact::Receipts => receipts(seen),
            Fact::Events => events(seen, known),
            Fact::Tools => tools(seen, ceiling),
            Fact::Output => output(seen),
            Fact::NoPrompt => no_prompt(seen),
            Fact::NoCrash => no_crash(seen),
            Fact::Channels => channels(seen),
            Fact::NothingSurvived => nothing_survived(seen),
        };
        Judged { fact, grade, held, seen }
    };
    Fact::ALL.map(judged).to_vec()
}

type Said = (Grade, Held, String);

fn said(grade: Grade, held: Held, words: impl Into<String>) -> Said {
    (grade, held, words.into())
}

fn counted(lines: u64) -> String {
    if lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") }
}

/// Whether what was seen is as good as it can be.
fn at_least(grade: Grade, wanted: Grade) -> Held {
    if grade >= wanted { Held::Yes } else { Held::Weakly }
}

fn file(seen: &Observed) -> Said {
    if let [first, more @ ..] = &seen.strays[..]
        && seen.file != FileSeen::Absent
    {
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        return said(Grade::Workspace, Held::No, format!("it is there, but {first}{more} was touched too"));
    }
    match &seen.file {
        FileSeen::Absent => said(Grade::Absent, Held::No, "it is not there"),
        FileSeen::Parsed => {
            said(Grade::Checked, Held::Yes, "it is there and parses; nothing else was touched")
        }
        FileSeen::Unread { why } => said(
            Grade::Workspace,
            Held::Yes,
            format!("it is there, not parsed ({why}); nothing else was touched"),
        ),
        FileSeen::Broken { why } => {
            said(Grade::Workspace, Held::No, format!("it is there and does not parse: {why}"))
        }
    }
}

fn session(seen: &Observed) -> Said {
    match (&seen.session, &seen.minted) {
        (None, _) => said(Grade::Absent, Held::No, "the agent told of no session"),
        (Some(own), None) => said(Grade::Transcript, Held::Yes, format!("{own}, the agent's choice")),
        (Some(own), Some(ours)) if own == ours => {
            said(Grade::Transcript, Held::Yes, format!("{own}, as it was told"))
        }
        (Some(own), Some(ours)) => {
            said(Grade::Transcript, Held::No, format!("{own}, and it was told to use {ours}"))
        }
    }
}

fn completion(seen: &Observed, ceiling: Grade) -> Said {
    match &seen.claim {
        Claim::Receipt(id) => said(Grade::Wire, at_least(Grade::Wire, ceiling), format!("receipt {id}")),
        Claim::Word => {
            let words = "it ended its turn as done, and no call of `declare_complete` was accepted";
            said(Grade::Reported, at_least(Grade::Reported, ceiling), words)
        }
        Claim::Nobody => said(Grade::Absent, Held::No, "nobody said that it is done"),
    }
}

fn artifact(seen: &Observed, ceiling: Grade) -> Said {
    match &seen.artifact {
        Handed::Accepted { receipt, document } => match document {
            Document::Valid => {
                let words = format!("receipt {receipt}; stored as it was handed over, without a fault");
                said(Grade::Wire, at_least(Grade::Wire, ceiling), words)
            }
            Document::Faulty(faults) => {
                let words =
                    format!("receipt {receipt}, but what is stored has faults: {}", faults.join("; "));
                said(Grade::Wire, Held::No, words)
            }
            Document::Changed => {
                said(Grade::Wire, Held::No, format!("receipt {receipt}, but other bytes are stored"))
            }
            Document::Gone => {
                said(Grade::Wire, Held::No, format!("receipt {receipt}, but nothing is stored"))
            }
        },
        Handed::Rejected { faults } => {
            said(Grade::Absent, Held::No, format!("the newest draft was rejected: {}", faults.join("; ")))
        }
        Handed::Stale => {
            let words = "a document lies there, but this run has no receipt for it: it is not of this run";
            said(Grade::Workspace, Held::No, words)
        }
        Handed::Nothing => said(Grade::Absent, Held::No, "nothing was handed over"),
    }
}

fn receipts(seen: &Observed) -> Said {
    match &seen.chain {
        ChainSeen::Whole { lines } => {
            said(Grade::Checked, Held::Yes, format!("{}, all as written", counted(*lines)))
        }
        ChainSeen::Broken { why } => said(Grade::Absent, Held::No, why.clone()),
        ChainSeen::Absent => said(Grade::Absent, Held::No, "there are none"),
    }
}

fn events(seen: &Observed, known: &BTreeSet<String>) -> Said {
    let new: Vec<&str> =
        seen.unknown.iter().map(|new| new.kind.as_str()).filter(|kind| !known.contains(*kind)).collect();
    match (seen.events, &new[..]) {
        (0, _) => said(Grade::Absent, Held::No, "nothing that it wrote was understood"),
        (count, []) => said(Grade::Transcript, Held::Yes, format!("{count}, none of a new kind")),
        (count, [new]) => {
            said(Grade::Transcript, Held::No, format!("{count}, and records of a kind that is new: {new}"))
        }
        (count, new) => {
            let words = format!("{count}, and records of kinds that are new: {}", new.join(", "));
            said(Grade::Transcript, Held::No, words)
        }
    }
}

fn tools(seen: &Observed, ceiling: Grade) -> Said {
    let calls = seen.calls;
    let words = format!(
        "{} opened, {} closed, {} answered at the bridge",
        calls.opened, calls.closed, calls.answered
    );
    let (grade, held) = match (calls.opened, calls.closed, calls.answered) {
        (0, 0, 0) => (Grade::Absent, Held::No),
        // An agent's own record is good enough here: most tools are its own, and no bridge sees them.
        (_, 1.., 0) => (Grade::Transcript, at_least(Grade::Transcript, ceiling.min(Grade::Transcript))),
        (_, 0, 0) => (Grade::Transcript, Held::No),
        (_, _, 1..) => (Grade::Wire, Held::Yes),
    };
    said(grade, held, words)
}

fn output(seen: &Observed) -> Said {
    match seen.lines {
        0 => said(Grade::Absent, Held::No, "it said nothing"),
        lines @ 1..FEWEST_LINES => {
            said(Grade::Transcript, Held::No, format!("{}, fewer than {FEWEST_LINES}", counted(lines as u64)))
        }
        lines @ FEWEST_LINES..=MOST_LINES => said(Grade::Transcript, Held::Yes, format!("{lines} lines")),
        lines => said(Grade::Transcript, Held::No, format!("{lines} lines, more than {MOST_LINES}")),
    }
}

fn no_prompt(seen: &Observed) -> Said {
    match &seen.prompts[..] {
        [] => said(Grade::Transcript, Held::Yes, "it asked nobody"),
        asked => said(Grade::Absent, Held::No, format!("it asked: {}", asked.join("; "))),
    }
}

/// Whether it was done in time is told by other facts; this one is about whether it came to an end by itself.
fn no_crash(seen: &Observed) -> Said {
    match &seen.ended {
        Ended::Outcome { outcome, code, .. }
            if matches!(outcome.as_str(), "completed" | "incomplete" | "blocked") =>
        {
            said(Grade::Checked, Held::Yes, format!("the run ended `{outcome}`, exit code {code}"))
        }
        Ended::Outcome { outcome, code, detail, .. } => {
            let detail =
                detail.as_deref().map(|detail| format!(": {}", beginning(detail))).unwrap_or_default();
            said(Grade::Absent, Held::No, format!("the run ended `{outcome}`, exit code {code}{detail}"))
        }
        Ended::Nothing { said: instead, .. } => {
            said(Grade::Absent, Held::No, format!("there was no run: {instead}"))
        }
    }
}

/// Agents may put a whole stack of errors on a line. The journal has all of it.
fn beginning(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn channels(seen: &Observed) -> Said {
    let silent = silent(&seen.channels);
    if silent.is_empty() {
        return said(Grade::Checked, Held::Yes, "records, bridge and workspace were all heard");
    }
    said(Grade::Absent, Held::No, format!("nothing was heard of: {}", silent.join(", ")))
}

/// The channels that should have been heard and were not.
pub(super) fn silent(heard: &BTreeSet<Channel>) -> Vec<&'static str> {
    let record = heard.contains(&Channel::Stdout) || heard.contains(&Channel::Transcript);
    let wanted = [
        ("records", record),
        ("bridge", heard.contains(&Channel::Bridge)),
        ("workspace", heard.contains(&Channel::Workspace)),
    ];
    wanted.into_iter().filter(|(_, was_heard)| !was_heard).map(|(name, _)| name).collect()
}

fn nothing_survived(seen: &Observed) -> Said {
    match seen.survivors {
        Some(0) => said(Grade::Checked, Held::Yes, "no process is left"),
        Some(1) => said(Grade::Absent, Held::No, "1 process could not be ended"),
        Some(count) => said(Grade::Absent, Held::No, format!("{count} processes could not be ended")),
        None => said(Grade::Absent, Held::No, "nobody can tell"),
    }
}
