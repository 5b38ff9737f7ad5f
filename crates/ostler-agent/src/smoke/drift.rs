//! What is different since all was well the last time.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::fact::{Fact, Held, Judged};
use super::observed::NewKind;
use crate::completion::Grade;

/// A first event that comes so many times later, or earlier, has changed.
const FACTOR: u32 = 2;

/// And by so much at least: less is what a busy machine makes of it.
const LEAST: Duration = Duration::from_secs(1);

/// A result that was green, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Green {
    /// The agent.
    pub agent: String,
    /// How it was driven.
    pub engine: String,
    /// Its version.
    pub version: String,
    /// Who was the model: a script, or the provider itself.
    pub model: String,
    /// When, as seconds since 1970.
    pub at: i64,
    /// Every fact by its name, with what showed it.
    pub facts: BTreeMap<String, Grade>,
    /// Kinds of records that were not known, and did no harm.
    pub unknown: Vec<String>,
    /// How long its first event took, in milliseconds.
    pub first_event_ms: Option<u64>,
    /// How long all of it took, in milliseconds.
    pub ms: u64,
}

/// Something that is different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drift {
    /// A fact got worse.
    Worse {
        /// Which.
        fact: Fact,
        /// What showed it.
        was: Grade,
        /// What shows it now.
        now: Grade,
        /// Whether it still holds.
        held: Held,
    },
    /// Records of a new kind.
    Kind(NewKind),
    /// The first event takes another time.
    FirstEvent {
        /// Then.
        was: Duration,
        /// Now.
        now: Duration,
    },
}

/// What is different. Without an earlier result only records of unknown kinds are told.
pub fn drift(
    green: Option<&Green>,
    facts: &[Judged],
    unknown: &[NewKind],
    first_event: Option<Duration>,
) -> Vec<Drift> {
    let mut found = Vec::new();
    for judged in facts {
        if let Some(was) = green.and_then(|green| green.facts.get(judged.fact.name()))
            && (!judged.is_ok() || judged.grade < *was)
        {
            found.push(Drift::Worse { fact: judged.fact, was: *was, now: judged.grade, held: judged.held });
        }
    }
    let is_new = |new: &&NewKind| green.is_none_or(|green| !green.unknown.contains(&new.kind));
    found.extend(unknown.iter().filter(is_new).cloned().map(Drift::Kind));
    let was = green.and_then(|green| green.first_event_ms).map(Duration::from_millis);
    if let (Some(was), Some(now)) = (was, first_event)
        && was.abs_diff(now) >= LEAST
        && was.max(now) >= was.min(now).saturating_mul(FACTOR)
    {
        found.push(Drift::FirstEvent { was, now });
    }
    found
}
