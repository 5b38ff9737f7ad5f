//! Does Ostler still drive this agent? What a smoke test looks for, how each fact is judged from what was observed, and
//! what the facts come to.
//!
//! [`Gathered`] folds the events of a run as they come; whoever can look at files adds what is there afterwards, which
//! makes an [`Observed`]. [`judge`] gives every fact a grade, [`verdict`] sums them up, [`breaks`] says what to do, and
//! [`drift`] compares with the last result that was green. Nothing here is decided from words in the model's prose.

mod breaks;
mod drift;
mod fact;
mod gathering;
mod judging;
mod observed;

pub use breaks::{Break, breaks};
pub use drift::{Drift, Green, drift};
pub use fact::{Fact, Held, Judged, Verdict, verdict};
pub use gathering::Gathered;
pub use judging::{FEWEST_LINES, MOST_LINES, judge};
pub use observed::{AtBridge, Calls, ChainSeen, Claim, Document, Ended, FileSeen, Handed, NewKind, Observed};

#[cfg(test)]
#[path = "smoke_tests.rs"]
mod tests;
