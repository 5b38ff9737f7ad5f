//! Conversations, kept on disk: what was said, by whom, and what happened meanwhile. One file a conversation, one line
//! of JSON for each thing that happened, appended while it happens. So a conversation can be gone on with by its id, also
//! after a restart, and what happened can be told again to one who was away.
//!
//! What is kept is bounded: so many conversations and so many bytes for each tenant. The one that was touched longest ago
//! goes first. Files are for their owner alone.

mod conversation;
mod line;
mod reading;
mod recorder;

use std::collections::{HashMap, HashSet};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ostler_agent::fingerprint::Known;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

pub use conversation::{Conversation, Kept, Summary, Unkept};
pub use line::{Ending, Happened, KnownBy, Line, Opening, Settled, SoFar};
pub use recorder::{Heard, Recorder, settled};

/// Letters of an id.
const ID_DIGITS: usize = 32;

/// How the file of one is called, behind its id.
const JOURNAL: &str = "ndjson";

/// The same of one whose last turns are not in it.
const CUT: &str = "cut";

/// How many a tenant begins before it is looked whether he has too many: looking takes a moment.
const PRUNED_EVERY: usize = 16;

/// How much is kept for one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Conversations.
    pub count: usize,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl Default for Bounds {
    /// A few weeks of somebody who talks much.
    fn default() -> Self {
        Self { count: 1_000, bytes: 256 << 20 }
    }
}

/// All conversations.
#[derive(Debug)]
pub struct Conversations {
    folder: PathBuf,
    bounds: Bounds,
    known: Mutex<HashMap<String, Arc<Conversation>>>,
    /// How many each tenant has begun.
    begun: Mutex<HashMap<String, usize>>,
}

impl Conversations {
    /// Those below a folder, which need not exist.
    pub fn open(folder: &Path, bounds: Bounds) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut known = HashMap::new();
        for tenant in std::fs::read_dir(folder)?.flatten() {
            for file in std::fs::read_dir(tenant.path()).into_iter().flatten().flatten() {
                let path = file.path();
                let is = |kind: &str| path.extension().is_some_and(|extension| extension == kind);
                let is_whole = is(JOURNAL);
                // What cannot be read as one is left where it is.
                let found = (is_whole || is(CUT)).then(|| reading::find(&path).ok().flatten()).flatten();
                if let Some(found) = found {
                    let conversation = Conversation::found(found, path.with_extension(JOURNAL));
                    if !is_whole {
                        conversation.is_cut();
                    }
                    known.insert(conversation.id().to_owned(), Arc::new(conversation));
                }
            }
        }
        let tenants: HashSet<String> = known.values().map(|known| known.opening.tenant.clone()).collect();
        let (known, begun) = (Mutex::new(known), Mutex::default());
        let conversations = Self { folder: folder.to_owned(), bounds, known, begun };
        for tenant in tenants {
            conversations.prune(&tenant);
        }
        Ok(conversations)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<Conversation>>> {
        // Nothing under the lock can panic half-way.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one with this id, if it is the tenant's. An owner of the machine has none that is not his.
    pub fn find(&self, tenant: Option<&str>, id: &str) -> Option<Arc<Conversation>> {
        let found = self.known().get(id).cloned()?;
        tenant.is_none_or(|tenant| found.opening.tenant == tenant).then_some(found)
    }

    /// The one that a turn is of.
    pub fn of_turn(&self, tenant: Option<&str>, turn: &str) -> Option<Arc<Conversation>> {
        self.find(tenant, turn.get(..ID_DIGITS)?)
    }

    /// The one of this tenant that knows what a program sent, and that nobody asks in. Of several the one that was
    /// touched last, but one that knows all of it rather than its words.
    pub fn knowing(&self, tenant: &str, prior: &Known) -> Option<Arc<Conversation>> {
        let known = self.known();
        let fitting = known.values().filter(|known| known.opening.tenant == tenant && known.answers(prior));
        fitting.max_by_key(|known| (known.knows_whole(prior), known.summary().touched_at)).cloned()
    }

    /// All of one tenant, or all, the one that was touched last first.
    pub fn list(&self, tenant: Option<&str>) -> Vec<Arc<Conversation>> {
        let of_tenant =
            |known: &&Arc<Conversation>| tenant.is_none_or(|tenant| known.opening.tenant == tenant);
        let mut found: Vec<_> = self.known().values().filter(of_tenant).cloned().collect();
        found.sort_by_key(|known| (std::cmp::Reverse(known.summary().touched_at), known.id().to_owned()));
        found
    }

    /// The id of the conversation that a tenant calls so: the id of one of his own, or else a name, and the same name is
    /// always the same one. An id of somebody else's is a name like any other.
    pub fn id_named(&self, tenant: &str, name: &str) -> String {
        match self.find(Some(tenant), name) {
            Some(own) => own.id().to_owned(),
            None => hex(&format!("{tenant}\n{name}"))[..ID_DIGITS].to_owned(),
        }
    }

    /// A new one. Its id in the opening is taken if there is one, and made up if it is empty. If he has one under that id
    /// by now, it is that one.
    pub fn begin(&self, mut opening: Opening) -> Arc<Conversation> {
        let tenant = opening.tenant.clone();
        let conversation = {
            let mut known = self.known();
            match known.get(&opening.conversation) {
                Some(known) if known.opening.tenant == tenant => return known.clone(),
                // It is nobody else's, whatever is asked for.
                Some(_) => opening.conversation.clear(),
                None => {}
            }
            if opening.conversation.is_empty() {
                opening.conversation = Uuid::new_v4().simple().to_string();
            }
            let folder = self.folder.join(&hex(&tenant)[..ID_DIGITS / 2]);
            let path = folder.join(format!("{}.{JOURNAL}", opening.conversation));
            // Where it cannot be made, nothing can be written either, and that is told.
            let _ = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
            let conversation = Arc::new(Conversation::new(opening, path));
            known.insert(conversation.id().to_owned(), conversation.clone());
            conversation
        };
        let is_looked_at = {
            let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
            let begun = begun.entry(tenant.clone()).or_default();
            *begun += 1;
            begun.is_multiple_of(PRUNED_EVERY)
        };
        if is_looked_at {
            self.prune(&tenant);
        }
        conversation
    }

    /// Forgets one, and removes what is kept of it.
    pub fn remove(&self, conversation: &Conversation) {
        self.known().remove(conversation.id());
        conversation.lose();
    }

    /// A new one that is listed while it lives, and of which nothing is on disk.
    pub fn begin_unkept(&self, mut opening: Opening) -> Arc<Conversation> {
        opening.conversation.clear();
        let conversation = self.begin(opening);
        conversation.lose();
        conversation
    }

    fn prune(&self, tenant: &str) {
        let (mut count, mut bytes) = (0_usize, 0_u64);
        for conversation in self.list(Some(tenant)) {
            let summary = conversation.summary();
            count += 1;
            bytes = bytes.saturating_add(summary.bytes);
            let is_over = count > self.bounds.count || bytes > self.bounds.bytes;
            if is_over && summary.turn.is_none() && count > 1 {
                self.remove(&conversation);
            }
        }
    }
}

fn hex(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "conversations_tests.rs"]
mod tests;
