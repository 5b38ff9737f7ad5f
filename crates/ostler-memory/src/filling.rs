//! Vectors for messages that have none: a job that can be cut off at any moment, begun again by anyone, and done by two
//! at once without harm. Never part of a hook: a message costs as much as a whole hook may.

use std::time::Instant;

use crate::embedding::{Cores, EmbedError, Embedder, MiniLm};
use crate::model;
use crate::place::Place;
use crate::store::{Store, StoreError};

/// How many messages one transaction takes: so much is lost at most when it is cut off.
const BATCH: usize = 16;

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filled {
    /// Messages that have their vectors now.
    pub done: u64,
    /// Whether some were left because the time was up.
    pub is_cut: bool,
}

/// Why it ended early. What was done is kept.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// The model.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl FillError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Embed(error) => error.hint(),
            Self::Store(error) => error.hint(),
        }
    }
}

/// Makes vectors until all messages have theirs or the time is up, and tells after each batch how many are done. At least
/// one message is done each time, so that whoever calls again and again comes to the end.
pub fn fill(
    store: &mut Store,
    embedder: &mut dyn Embedder,
    until: Option<Instant>,
    tell: &mut dyn FnMut(u64),
) -> Result<Filled, FillError> {
    let mut filled = Filled::default();
    let mut reached = store.begin_vectors(embedder.model())?;
    loop {
        let next = store.without_vector(reached.upto, BATCH)?;
        let Some((last, _)) = next.last() else { return Ok(filled) };
        let mut upto = *last;
        let mut made = Vec::with_capacity(next.len());
        for (id, text) in &next {
            made.push((*id, embedder.message(text)?));
            if id != last && until.is_some_and(|until| Instant::now() >= until) {
                (upto, filled.is_cut) = (*id, true);
                break;
            }
        }
        let now = store.keep_vectors(&reached, upto, &made)?;
        filled.done += made.len() as u64;
        tell(filled.done);
        // Another one works with another model: it has begun anew, and goes on.
        let Some(now) = now.filter(|now| now.model == reached.model) else { return Ok(filled) };
        reached = now;
        if filled.is_cut || until.is_some_and(|until| Instant::now() >= until) {
            filled.is_cut = !store.without_vector(reached.upto, 1)?.is_empty();
            return Ok(filled);
        }
    }
}

/// The job for one that has other things to do: a message at a time, on one core, and the model only as long as there is
/// something to do for it.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    embedder: Option<MiniLm>,
    has_work: bool,
}

impl Slices {
    /// Looks whether there is something to do.
    pub(crate) fn look(&mut self, place: &Place, store: &Store) {
        let is_missing = |model: &str| {
            let reached = store.reached().ok().flatten();
            let is_begun = reached.is_some_and(|reached| reached.model == model);
            !is_begun || store.vectors_missing().is_ok_and(|missing| missing > 0)
        };
        self.has_work = model::installed(place).is_some_and(|installed| is_missing(installed.digest()));
    }

    /// Whether it is worth calling [`Self::step`].
    pub(crate) fn has_work(&self) -> bool {
        self.has_work
    }

    /// Does one message. After a failure nothing is tried until the next look.
    pub(crate) fn step(&mut self, place: &Place, store: &mut Store) {
        self.has_work = self.try_step(place, store).unwrap_or(false);
        if !self.has_work {
            self.embedder = None;
        }
    }

    fn try_step(&mut self, place: &Place, store: &mut Store) -> Result<bool, FillError> {
        let Some(installed) = model::installed(place) else { return Ok(false) };
        if self.embedder.as_ref().is_none_or(|embedder| embedder.model() != installed.digest()) {
            self.embedder = Some(MiniLm::load(&installed, Cores::One)?);
        }
        let Some(embedder) = &mut self.embedder else { return Ok(false) };
        Ok(fill(store, embedder, Some(Instant::now()), &mut |_| {})?.is_cut)
    }
}

#[cfg(test)]
#[path = "filling_tests.rs"]
pub(crate) mod tests;
