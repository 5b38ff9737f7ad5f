//! By meaning: how near each candidate is to the question, alone and with what was said before it.

use std::collections::{HashMap, HashSet};

use super::lexical::Scores;
use super::ranking::Places;
use crate::meaning::Asked;
use crate::store::{Store, StoreError};

/// What the nearest counts beside the best by words, which counts 1: alone, and with the message before it. Chosen on the
/// development half of LoCoMo: see bench/memory.
pub(super) const TURN: f64 = 0.5;
pub(super) const CONTEXT: f64 = 0.5;

/// Below this, two texts have nothing to do with each other: such a message is no hit by its meaning alone.
const FLOOR: f64 = 0.3;

/// From 0, the farthest candidate, to 1, the nearest.
#[derive(Debug, Default)]
pub(super) struct Meant {
    pub(super) turn: Scores,
    pub(super) context: Scores,
    /// Those that are near enough to be hits without any word.
    pub(super) near: HashSet<i64>,
}

/// For all candidates and their neighbours: which of them are near is a matter of their numbers, not of how they were
/// found.
pub(super) fn scores(store: &Store, asked: &Asked, places: &Places) -> Result<Meant, StoreError> {
    let vectors = store.vectors(places.values().copied())?;
    let turn = asked.nearness(&vectors);
    let mut context = HashMap::new();
    for ((session, ordinal), id) in places {
        let Some(this) = vectors.get(id) else { continue };
        let before = places.get(&(*session, ordinal - 1)).and_then(|before| vectors.get(before));
        let near = match before {
            Some(before) => asked.nearness_after(before, this),
            None => turn.get(id).copied(),
        };
        context.extend(near.map(|near| (*id, near)));
    }
    let is_near = |(_, near): &(&i64, &f64)| **near >= FLOOR;
    let near = turn.iter().chain(&context).filter(is_near).map(|(id, _)| *id).collect();
    Ok(Meant { turn: spread(&turn), context: spread(&context), near })
}

fn spread(scores: &Scores) -> Scores {
    let least = scores.values().copied().fold(f64::INFINITY, f64::min);
    let most = scores.values().copied().fold(f64::NEG_INFINITY, f64::max);
    let width = most - least;
    let scaled = |score: f64| if width > 0.0 { (score - least) / width } else { 1.0 };
    scores.iter().map(|(id, score)| (*id, scaled(*score))).collect()
}
