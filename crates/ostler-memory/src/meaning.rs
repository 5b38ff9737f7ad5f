//! Searching by meaning: the model, and the signs of all vectors, kept by a process that is asked more than once. The
//! signs of a million messages are 56 MB, and are looked through in milliseconds.

use std::collections::HashMap;

use crate::embedding::{Bits, Cores, DIMENSIONS, EmbedError, Embedder, MiniLm, Vector, distance};
use crate::model;
use crate::place::Place;
use crate::store::{Store, StoreError};

/// How to search by meaning.
#[derive(Debug)]
pub struct Meaning {
    embedder: Box<dyn Embedder>,
    /// By the number of the vector.
    last: i64,
    messages: Vec<i64>,
    signs: Vec<Bits>,
}

/// What a question means, and what is nearest to it.
#[derive(Debug)]
pub(crate) struct Asked {
    vector: Vector,
    /// The messages that are nearest, by their signs.
    pub(crate) nearest: Vec<i64>,
}

impl Meaning {
    /// With this model.
    pub fn new(embedder: Box<dyn Embedder>) -> Self {
        Self { embedder, last: 0, messages: Vec::new(), signs: Vec::new() }
    }

    /// With the installed model; nothing if there is none.
    pub fn load(place: &Place, cores: Cores) -> Result<Option<Self>, EmbedError> {
        match model::installed(place) {
            Some(installed) => Ok(Some(Self::new(Box::new(MiniLm::load(&installed, cores)?)))),
            None => Ok(None),
        }
    }

    /// The model.
    pub fn embedder(&mut self) -> &mut dyn Embedder {
        &mut *self.embedder
    }

    /// What the question means and what is near. Nothing if no vector of this model is in the store.
    pub(crate) fn ask(&mut self, store: &Store, text: &str, count: usize) -> Result<Option<Asked>, AskError> {
        if store.reached()?.is_none_or(|reached| reached.model != self.embedder.model()) {
            return Ok(None);
        }
        self.read_on(store)?;
        if self.signs.is_empty() {
            return Ok(None);
        }
        let vector = self.embedder.question(text)?;
        let nearest = self.nearest(&vector.bits(), count);
        Ok(Some(Asked { vector, nearest }))
    }

    /// Reads the signs that were added since. Those of what was forgotten stay until the end of this process: they find
    /// nothing any more.
    fn read_on(&mut self, store: &Store) -> Result<(), StoreError> {
        let last = store.last_sign()?;
        if last <= self.last {
            return Ok(());
        }
        // Exactly: growing by doubling would need the room twice.
        let more = usize::try_from(last - self.last).unwrap_or(0);
        self.messages.reserve_exact(more);
        self.signs.reserve_exact(more);
        let (messages, signs) = (&mut self.messages, &mut self.signs);
        let mut read = self.last;
        store.signs(self.last, |(id, message, bits)| {
            read = id;
            messages.push(message);
            signs.push(bits);
        })?;
        self.last = read;
        Ok(())
    }

    /// The messages whose signs differ least, about so many of them.
    fn nearest(&self, asked: &Bits, count: usize) -> Vec<i64> {
        let mut how_many = [0_usize; DIMENSIONS + 1];
        let distances: Vec<u16> = self
            .signs
            .iter()
            .map(|signs| {
                let far = distance(asked, signs) as u16;
                how_many[usize::from(far)] += 1;
                far
            })
            .collect();
        let mut sum = 0;
        let farthest = how_many.iter().position(|more| {
            sum += more;
            sum >= count
        });
        let farthest = farthest.unwrap_or(DIMENSIONS) as u16;
        let mut found: Vec<(u16, i64)> = distances
            .iter()
            .zip(&self.messages)
            .filter(|(far, _)| **far <= farthest)
            .map(|(far, message)| (*far, *message))
            .collect();
        found.sort_unstable();
        found.truncate(count);
        found.into_iter().map(|(_, message)| message).collect()
    }
}

/// Why meaning took no part.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error(transparent)]
    Embed(#[from] EmbedError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Asked {
    /// How near each of these messages is, by the part of it that is nearest.
    pub(crate) fn nearness(&self, vectors: &HashMap<i64, Vec<Vector>>) -> HashMap<i64, f64> {
        let best =
            |parts: &Vec<Vector>| parts.iter().map(|part| self.vector.nearness(part)).fold(-1.0, f64::max);
        vectors.iter().map(|(message, parts)| (*message, best(parts))).collect()
    }

    /// How near a message is together with what was said before it: the end of the one, the beginning of the other.
    pub(crate) fn nearness_after(&self, before: &[Vector], this: &[Vector]) -> Option<f64> {
        let between = before.last()?.between(this.first()?)?;
        Some(self.vector.nearness(&between))
    }
}
