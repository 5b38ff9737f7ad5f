//! Conversations, kept on disk: what was said, by whom, and what happened meanwhile. One file a conversation, one line
//! of JSON for each thing that happened, appended while it happens. So a conversation can be gone on with by its id, also
//! after a restart, and what happened can be told again to one who was away.
//!
//! A conversation is on disk once one of its turns has a session: a request that is refused leaves nothing. What is kept
//! is bounded for each tenant ([`Bounds`]); `eviction` says what goes first, and `gone` remembers names whose
//! conversation went, so that no client continues an empty one. Files are for their owner alone.

mod conversation;
mod eviction;
mod gone;
mod line;
mod partial;
mod quota;
mod reading;
mod recorder;
mod repair;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ostler_agent::fingerprint::Known;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

pub use conversation::{Conversation, Kept, Summary, Unkept};
pub use eviction::{Bounds, Holding};
pub use line::{Ending, Happened, KnownBy, Line, Opening, Settled, SoFar};
pub use quota::QuotaExceeded;
pub use recorder::{Heard, Recorder, settled};

use conversation::Keeping;
use eviction::Candidate;
use gone::Gone;
use quota::Quota;

/// Letters of an id.
const ID_DIGITS: usize = 32;

/// The last letters of an id that Ostler made: they follow from the others and the tenant.
const CHECK_DIGITS: usize = 8;

/// How the file of one is called, behind its id.
const JOURNAL: &str = "ndjson";

/// The same of one whose last turns are not in it.
const CUT: &str = "cut";

/// How many a tenant begins before it is looked whether he has too many: looking takes a moment.
const PRUNED_EVERY: usize = 16;

/// All conversations.
#[derive(Debug)]
pub struct Conversations {
    store: Arc<Store>,
}

/// What conversations share.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    bounds: Bounds,
    /// Locked before the state of a conversation, never after it.
    known: Mutex<HashMap<String, Arc<Conversation>>>,
    /// How many each tenant has begun.
    begun: Mutex<HashMap<String, usize>>,
    gone: Gone,
    quota: Arc<Quota>,
    live: OnceLock<LiveConversations>,
}

/// Finds the ids of conversations that have a live session.
struct LiveConversations(Box<dyn Fn() -> HashSet<String> + Send + Sync>);

impl fmt::Debug for LiveConversations {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("LiveConversations")
    }
}

/// A conversation that may go.
struct IdleConversation {
    conversation: Arc<Conversation>,
    bytes: u64,
    holding: Holding,
}

/// By tenant.
type IdleConversations = HashMap<String, Vec<IdleConversation>>;

/// Which conversation a name means.
#[derive(Debug)]
pub enum Named {
    /// This one.
    Found(Arc<Conversation>),
    /// One that was removed, or cannot be read. A client that sends all of it may begin it again under this id, if there is one.
    Gone(Option<String>),
    /// None so far: a new one has this id.
    New(String),
}

impl Conversations {
    /// Those below a folder, which need not exist. A turn that a killed server left open is ended.
    pub fn open(folder: &Path, bounds: Bounds) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let store = Arc::new(Store {
            folder: folder.to_owned(),
            bounds,
            known: Mutex::default(),
            begun: Mutex::default(),
            gone: Gone::default(),
            quota: Quota::new(&bounds),
            live: OnceLock::new(),
        });
        for tenant in std::fs::read_dir(folder)?.flatten() {
            store.gone.read(&tenant.path());
            for file in std::fs::read_dir(tenant.path()).into_iter().flatten().flatten() {
                store.read(&file.path());
            }
        }
        let tenants: HashSet<String> =
            store.known().values().map(|known| known.opening.tenant.clone()).collect();
        for tenant in tenants {
            store.prune(&tenant);
            if let Err(exceeded @ QuotaExceeded::OfAll(_)) = store.quota.check(&tenant, 0) {
                let mut idle = store.idle(&tenant, None, exceeded);
                store.remove_until(&mut idle, &tenant, 0, exceeded);
            }
        }
        Ok(Self { store })
    }

    /// From now on a conversation of a live session is not removed for others. Asked once, without any lock.
    pub fn protect(&self, live: impl Fn() -> HashSet<String> + Send + Sync + 'static) {
        // Only the first one counts: there is one pool.
        let _ = self.store.live.set(LiveConversations(Box::new(live)));
    }

    /// The one with this id, if it is the tenant's. An owner of the machine has none that is not his.
    pub fn find(&self, tenant: Option<&str>, id: &str) -> Option<Arc<Conversation>> {
        let found = self.store.known().get(id).cloned()?;
        tenant.is_none_or(|tenant| found.opening.tenant == tenant).then_some(found)
    }

    /// The one that a turn is of.
    pub fn of_turn(&self, tenant: Option<&str>, turn: &str) -> Option<Arc<Conversation>> {
        self.find(tenant, turn.get(..ID_DIGITS)?)
    }

    /// The one of this tenant that knows what a program sent, and that nobody asks in. Of several the one that was
    /// touched last, but one that knows all of it rather than its words.
    pub fn knowing(&self, tenant: &str, prior: &Known) -> Option<Arc<Conversation>> {
        let known = self.store.known();
        let fitting = known.values().filter(|known| known.opening.tenant == tenant && known.answers(prior));
        fitting.max_by_key(|known| (known.knows_whole(prior), known.summary().touched_at)).cloned()
    }

    /// All of one tenant, or all, the one that was touched last first.
    pub fn list(&self, tenant: Option<&str>) -> Vec<Arc<Conversation>> {
        self.store.list(tenant)
    }

    /// The conversation that a tenant calls so: by the id of one of its own, or by a name, and the same name is always the
    /// same one. An id of another tenant is a name like any other.
    pub fn named(&self, tenant: &str, name: &str) -> Named {
        let id = id_of_name(tenant, name);
        if let Some(found) = [name, &id].into_iter().find_map(|id| self.find(Some(tenant), id)) {
            return Named::Found(found);
        }
        let folder = self.store.folder_of(tenant);
        if is_made_id(tenant, name) || self.store.gone.has(&folder, name) {
            return Named::Gone(Some(name.to_owned()));
        }
        // It is there, and could not be read.
        if [JOURNAL, CUT].into_iter().any(|kind| folder.join(&id).with_extension(kind).exists()) {
            return Named::Gone(None);
        }
        if self.store.gone.has(&folder, &id) { Named::Gone(Some(id)) } else { Named::New(id) }
    }

    /// A new one, on disk at once. Its id in the opening is taken if there is one, and made up if it is empty. If the
    /// tenant has one under that id by now, it is that one.
    pub fn begin(&self, opening: Opening) -> Arc<Conversation> {
        let conversation = self.insert(opening, Keeping::Provisional);
        conversation.keep();
        conversation
    }

    /// The same, on disk once its first turn has a session. If that never happens nothing of it is left.
    pub fn begin_provisional(&self, opening: Opening) -> Arc<Conversation> {
        self.insert(opening, Keeping::Provisional)
    }

    /// A new one that is listed while it lives, and of which nothing is on disk.
    pub fn begin_unkept(&self, mut opening: Opening) -> Arc<Conversation> {
        opening.conversation.clear();
        self.insert(opening, Keeping::Unkept)
    }

    fn insert(&self, mut opening: Opening, keeping: Keeping) -> Arc<Conversation> {
        let mut known = self.store.known();
        match known.get(&opening.conversation) {
            Some(known) if known.opening.tenant == opening.tenant => return known.clone(),
            // It belongs to another tenant, whatever is requested.
            Some(_) => opening.conversation.clear(),
            None => {}
        }
        if opening.conversation.is_empty() {
            opening.conversation = make_id(&opening.tenant);
        }
        let folder = self.store.folder_of(&opening.tenant);
        let path = folder.join(format!("{}.{JOURNAL}", opening.conversation));
        let conversation = Arc::new(Conversation::new(opening, path, &self.store, keeping));
        known.insert(conversation.id().to_owned(), conversation.clone());
        conversation
    }

    /// Forgets one, and removes what is kept of it.
    pub fn remove(&self, conversation: &Conversation) {
        self.store.remove(conversation);
    }
}

impl Store {
    pub(crate) fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<Conversation>>> {
        // Nothing under the lock can panic half-way.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn folder_of(&self, tenant: &str) -> PathBuf {
        self.folder.join(&hex(tenant)[..ID_DIGITS / 2])
    }

    /// Takes a file for a conversation, if it is one. What cannot be read as one is left where it is.
    fn read(self: &Arc<Self>, path: &Path) {
        let is = |kind: &str| path.extension().is_some_and(|extension| extension == kind);
        let keeping = match (is(JOURNAL), is(CUT)) {
            (true, _) => Keeping::Kept,
            (_, true) => Keeping::Cut,
            (false, false) => return,
        };
        if keeping == Keeping::Kept
            && let Err(error) = repair::end_open_turn(path)
        {
            tracing::warn!(target: "ostler::http", %error, "a turn that was under way could not be ended");
        }
        if let Ok(Some(found)) = reading::find(path) {
            let journal = path.with_extension(JOURNAL);
            let conversation = Conversation::from_found(found, journal, self, keeping);
            self.known().insert(conversation.id().to_owned(), Arc::new(conversation));
        }
    }

    fn list(&self, tenant: Option<&str>) -> Vec<Arc<Conversation>> {
        let of_tenant =
            |known: &&Arc<Conversation>| tenant.is_none_or(|tenant| known.opening.tenant == tenant);
        let mut found: Vec<_> = self.known().values().filter(of_tenant).cloned().collect();
        found.sort_by_cached_key(|known| {
            (std::cmp::Reverse(known.summary().touched_at), known.id().to_owned())
        });
        found
    }

    /// One more of this tenant has begun.
    pub(crate) fn on_begun(&self, tenant: &str) {
        let is_looked_at = {
            let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
            let begun = begun.entry(tenant.to_owned()).or_default();
            *begun += 1;
            begun.is_multiple_of(PRUNED_EVERY)
        };
        if is_looked_at {
            self.prune(tenant);
        }
    }

    fn remove(&self, conversation: &Conversation) {
        self.note_gone(conversation, conversation.summary().holding);
        self.known().remove(conversation.id());
        conversation.lose();
    }

    /// The same, unless a turn is under way in it: false then.
    fn remove_idle(&self, conversation: &Conversation) -> bool {
        let mut known = self.known();
        let holding = conversation.summary().holding;
        let is_removed = conversation.lose_if_idle();
        if is_removed {
            known.remove(conversation.id());
            drop(known);
            self.note_gone(conversation, holding);
        }
        is_removed
    }

    /// Remembers that a conversation with this in it is gone.
    fn note_gone(&self, conversation: &Conversation, holding: Holding) {
        let (tenant, id) = (&conversation.opening.tenant, conversation.id());
        // An id that Ostler made is known without a note.
        if holding == Holding::Something && !is_made_id(tenant, id) {
            self.gone.note(&self.folder_of(tenant), id);
        }
    }

    /// Removes idle conversations until there is room for so many bytes. Nothing is removed where that does not help.
    pub(crate) fn make_room(&self, needed_by: &Conversation, bytes: u64, exceeded: QuotaExceeded) {
        let tenant = &needed_by.opening.tenant;
        let mut idle = self.idle(tenant, Some(needed_by.id()), exceeded);
        let removable = idle.values().flatten().map(|idle| idle.bytes).sum();
        if self.quota.check_without(removable, tenant, bytes) != Err(exceeded) {
            self.remove_until(&mut idle, tenant, bytes, exceeded);
        }
    }

    fn remove_until(&self, idle: &mut IdleConversations, tenant: &str, bytes: u64, exceeded: QuotaExceeded) {
        while self.quota.check(tenant, bytes) == Err(exceeded) {
            let used = self.quota.by_tenant();
            idle.retain(|_, idle| !idle.is_empty());
            let most = idle.iter_mut().max_by_key(|(tenant, _)| used.get(*tenant).copied());
            let Some(next) = most.and_then(|(_, idle)| idle.pop()) else { return };
            self.remove_idle(&next.conversation);
        }
    }

    /// What may go when that is exceeded. A tenant that has all that it may have loses its own only; where all have too
    /// much, those of live sessions stay, and the tenant that has the most loses its own first.
    fn idle(&self, tenant: &str, except: Option<&str>, exceeded: QuotaExceeded) -> IdleConversations {
        let (of_tenant, live) = match exceeded {
            QuotaExceeded::OfTenant(_) => (Some(tenant), HashSet::new()),
            QuotaExceeded::OfAll(_) => (None, self.live.get().map(|live| (live.0)()).unwrap_or_default()),
        };
        let mut found = IdleConversations::new();
        for conversation in self.list(of_tenant) {
            let Summary { bytes, holding, turn, .. } = conversation.summary();
            let may_go =
                turn.is_none() && except != Some(conversation.id()) && !live.contains(conversation.id());
            if bytes > 0 && may_go {
                let tenant = conversation.opening.tenant.clone();
                found.entry(tenant).or_default().push(IdleConversation { conversation, bytes, holding });
            }
        }
        // The first that goes is at the end. Stable: those that were touched last stay in front.
        found.values_mut().for_each(|idle| idle.sort_by_key(|idle| idle.holding));
        found
    }

    fn prune(&self, tenant: &str) {
        let listed = self.list(Some(tenant));
        let candidates: Vec<Candidate> = listed.iter().map(|known| Candidate::of(&known.summary())).collect();
        for at in eviction::choose(&candidates, &self.bounds) {
            self.remove(&listed[at]);
        }
    }
}

/// The id of a conversation that a tenant has a name for.
fn id_of_name(tenant: &str, name: &str) -> String {
    hex(&format!("{tenant}\n{name}"))[..ID_DIGITS].to_owned()
}

/// A new id. The id alone shows that Ostler made it for this tenant, also when the conversation is gone.
fn make_id(tenant: &str) -> String {
    let mut id = Uuid::new_v4().simple().to_string();
    id.truncate(ID_DIGITS - CHECK_DIGITS);
    let check = check_of(tenant, &id);
    id + &check
}

fn check_of(tenant: &str, random: &str) -> String {
    hex(&format!("{tenant}\nid\n{random}"))[..CHECK_DIGITS].to_owned()
}

/// Whether Ostler made this id for this tenant.
fn is_made_id(tenant: &str, id: &str) -> bool {
    let parts = (id.len() == ID_DIGITS).then(|| id.split_at_checked(ID_DIGITS - CHECK_DIGITS)).flatten();
    parts.is_some_and(|(random, check)| check == check_of(tenant, random))
}

fn hex(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "conversations_tests.rs"]
mod tests;

#[cfg(test)]
mod quota_tests;
