//! One guardian that waits, for whoever starts something now and then: the next start has it at once.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::Ahead;

/// At most one that waits. Its copies are the same one; with the last of them the guardian goes.
#[derive(Debug, Clone)]
pub struct Standby {
    guard: PathBuf,
    ahead: Arc<Mutex<Option<Ahead>>>,
}

impl From<PathBuf> for Standby {
    /// Guardians that are this program. None waits yet.
    fn from(guard: PathBuf) -> Self {
        Self { guard, ahead: Arc::default() }
    }
}

impl Standby {
    /// Our own binary, which guards.
    pub fn program(&self) -> &Path {
        &self.guard
    }

    /// The one that waits, if it is there still.
    pub fn take(&self) -> Option<Ahead> {
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner).take();
        ahead.filter(|ahead| ahead.is_waiting())
    }

    /// The process of the one that waits.
    pub fn waiting(&self) -> Option<u32> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(Ahead::pid)
    }

    /// Has one wait. Needs a tokio runtime.
    pub fn fill(&self) {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if ahead.is_none() {
            *ahead = Ahead::begin(&self.guard);
        }
    }
}
