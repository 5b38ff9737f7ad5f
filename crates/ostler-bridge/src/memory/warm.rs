//! What a server keeps between calls: the store, open, and the model once somebody searched. So that a call costs a
//! search, and not the way to it.

use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use ostler_memory::drain::drain;
use ostler_memory::embedding::Cores;
use ostler_memory::filling::fill;
use ostler_memory::meaning::Meaning;
use ostler_memory::model::{Installed, installed};
use ostler_memory::place::Place;
use ostler_memory::recall::{ByMeaning, Found, Question};
use ostler_memory::store::{PATIENT, Store, StoreError};

/// How long a call may spend on what hooks took down. The rest is for the next one.
const DRAINS_FOR: Duration = Duration::from_secs(2);

/// How long vectors of new messages may be made after an answer was given: the next call waits no longer than that.
const FILLS_FOR: Duration = Duration::from_millis(500);

/// After how long without a call the store is closed: whoever wants it alone, to change its key, gets it.
pub(super) const KEPT_OPEN: Duration = Duration::from_secs(20);

#[derive(Debug, Default)]
pub(super) struct Warm {
    store: Option<(FileId, Store)>,
    used: Option<Instant>,
    model: Model,
}

/// Which file it is: a store that was put in the place of another one is opened anew.
type FileId = (u64, u64);

#[derive(Debug, Default)]
enum Model {
    /// Nobody has searched by meaning yet.
    #[default]
    NotLoaded,
    /// Of these weights.
    Loaded(&'static str, Box<Meaning>),
    /// These weights could not be loaded, because of that.
    Broken(&'static str, String),
}

impl Warm {
    /// The store, with what hooks took down in it, as far as the time goes.
    pub(super) fn store(&mut self, place: &Place) -> Result<&mut Store, StoreError> {
        let found = std::fs::metadata(place.store()).map(|about| (about.dev(), about.ino())).ok();
        let known = self.store.take().filter(|(id, _)| Some(*id) == found);
        let (id, mut store) = match known {
            Some(known) => known,
            None => {
                let store = Store::open(place, PATIENT)?;
                let about = std::fs::metadata(place.store())
                    .map_err(|source| StoreError::Place { path: place.store(), source })?;
                ((about.dev(), about.ino()), store)
            }
        };
        // That another one writes is no reason not to look.
        let _ = drain(place, &mut store, Some(Instant::now() + DRAINS_FOR));
        self.used = Some(Instant::now());
        Ok(&mut self.store.insert((id, store)).1)
    }

    /// Closes the store if nobody has used it for so long.
    pub(super) fn close_after(&mut self, idle: Duration) {
        if self.used.is_none_or(|used| used.elapsed() >= idle) {
            self.store = None;
        }
    }

    /// Searches, by meaning too where that can be.
    pub(super) fn recall(&mut self, place: &Place, question: &Question<'_>) -> Result<Found, StoreError> {
        self.store(place)?;
        let Some((_, store)) = &self.store else { return Err(StoreError::Busy) };
        let Some(model) = installed(place) else { return store.recall(question) };
        // Without a vector to compare with, the model is not worth its memory.
        if store.reached()?.is_none_or(|reached| reached.model != model.digest()) {
            return Ok(Found { by_meaning: ByMeaning::NoVectors, ..store.recall(question)? });
        }
        match self.model.loaded(place, &model) {
            Ok(meaning) => store.recall_with(question, Some(meaning)),
            Err(reason) => Ok(Found { by_meaning: ByMeaning::Failed(reason), ..store.recall(question)? }),
        }
    }

    /// Vectors for new messages, for a moment. What goes wrong is told by the next search.
    pub(super) fn fill(&mut self, place: &Place) {
        let (Some((_, store)), Some(model)) = (&mut self.store, installed(place)) else { return };
        let is_begun = matches!(store.reached(), Ok(Some(reached)) if reached.model == model.digest());
        if is_begun && !store.vectors_missing().is_ok_and(|missing| missing > 0) {
            return;
        }
        if let Ok(meaning) = self.model.loaded(place, &model) {
            let _ = fill(store, meaning.embedder(), Some(Instant::now() + FILLS_FOR), &mut |_| {});
        }
    }
}

impl Model {
    fn loaded(&mut self, place: &Place, wanted: &Installed) -> Result<&mut Meaning, String> {
        let digest = wanted.digest();
        let is_known = matches!(self, Self::Loaded(known, _) | Self::Broken(known, _) if *known == digest);
        if !is_known {
            *self = match Meaning::load(place, Cores::All) {
                Ok(Some(meaning)) => Self::Loaded(digest, Box::new(meaning)),
                Ok(None) => Self::NotLoaded,
                Err(error) => Self::Broken(digest, error.to_string()),
            };
        }
        match self {
            Self::Loaded(_, meaning) => Ok(meaning),
            Self::Broken(_, reason) => Err(reason.clone()),
            Self::NotLoaded => Err("the model is gone".to_owned()),
        }
    }
}
