//! Those who stay: who follows events, or sits at a terminal. So many for a key, and so many in all, that places are left
//! for those who only ask; and only as long as their key is what it was when they came.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::Gateway;
use super::keys::{Key, Keys};
use super::visits::{Visitor, later};
use crate::live::Start;
use crate::wire::Problem;

/// How many of one key. A person has a few windows, a program one for each session that it cares about.
const MOST_OF_KEY: usize = 64;

/// How many in all: a quarter of the connections is left.
const MOST: usize = 384;

/// When it is worth another try: somebody has to leave first.
const LATER: Duration = Duration::from_secs(5);

/// How often it is looked whether a key still opens, while much is told.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What is told to one whose key was revoked.
pub(super) const REVOKED: &str = "this key does not open this any more";

/// The last event for such a one.
pub(super) fn farewell() -> String {
    format!("event: closed\ndata: {}\n\n", json!({"reason": REVOKED}))
}

/// How many there are of each key. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Followers(Arc<Mutex<HashMap<String, usize>>>);

/// One of them, counted while this is there.
pub(super) struct Follower {
    followers: Followers,
    keys: Keys,
    key: Arc<Key>,
    looked_at: Instant,
}

impl Followers {
    fn counted(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        // Nothing under the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, keys: &Keys, key: &Arc<Key>) -> Result<Follower, Problem> {
        let mut counted = self.counted();
        if counted.values().sum::<usize>() >= MOST {
            return Err(later("as many follow or watch as may at once", LATER));
        }
        let of_key = counted.entry(key.id.clone()).or_default();
        if *of_key >= MOST_OF_KEY {
            return Err(later("this key follows or watches as much as it may at once", LATER));
        }
        *of_key += 1;
        drop(counted);
        let (followers, keys, key) = (self.clone(), keys.clone(), key.clone());
        Ok(Follower { followers, keys, key, looked_at: Instant::now() })
    }
}

impl Follower {
    /// Whether the key is still what it was.
    pub(super) fn is_welcome(&mut self) -> bool {
        self.looked_at = Instant::now();
        self.keys.current().is_ok_and(|keys| keys.iter().any(|known| **known == *self.key))
    }

    /// The same, looked at now and then: for those to whom much is told.
    pub(super) fn is_still_welcome(&mut self) -> bool {
        self.looked_at.elapsed() < LOOK_EVERY || self.is_welcome()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut counted = self.followers.counted();
        if let Some(count) = counted.get_mut(&self.key.id) {
            *count -= 1;
            if *count == 0 {
                counted.remove(&self.key.id);
            }
        }
    }
}

impl<S: Start> Gateway<S> {
    /// One more who stays.
    pub(super) fn follower(&self, visitor: &Visitor) -> Result<Follower, Problem> {
        self.followers.begin(&self.offer.keys, &visitor.key)
    }
}

#[cfg(test)]
mod tests {
    use super::super::connections::ConnectionLimits;
    use ostler_agent::access::Policy;

    use super::*;
    use crate::wire::Kind;

    #[tokio::test]
    async fn one_key_does_not_take_all_places_and_all_keys_leave_some() {
        let key =
            |number: usize| Key::of(&format!("key-{number}"), &format!("ostler_{number}"), Policy::chat());
        let known: Vec<Key> = (0..8).map(key).collect();
        let (keys, followers) = (Keys::new(known.clone()), Followers::default());
        let known: Vec<Arc<Key>> = known.into_iter().map(Arc::new).collect();
        let mut there = Vec::new();
        let refused = |key: &Arc<Key>| followers.begin(&keys, key).err().map(|problem| problem.kind);
        for key in &known[..MOST / MOST_OF_KEY] {
            there.extend((0..MOST_OF_KEY).map(|_| followers.begin(&keys, key).ok().unwrap()));
            assert_eq!(refused(key), Some(Kind::TooMany));
        }
        assert!(there.len() == MOST && MOST < ConnectionLimits::default().of_peer);
        assert_eq!(refused(&known[7]), Some(Kind::TooMany), "in all");
        there.pop();
        assert_eq!(refused(&known[7]), None, "somebody left");
        drop(there);
        assert!(followers.counted().is_empty(), "nothing is left of who is gone");
    }
}
