//! Who sits at a terminal: the program that draws, people who watch, and the one who has the keys.
//!
//! There is one set of keys. Ostler takes them to type, and gives them back when what it typed is settled; a person
//! takes them with a [`Hold`], and while they do Ostler does not type. Whoever watches gets the bytes through a queue
//! of their own with a bound. The policy when it is full: all that waits in it is dropped, and the screen is drawn anew
//! as it is then. So a slow viewer never holds up the agent, and never sees a screen that was not there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ostler_agent::look::Look;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use super::pty::Size;
use super::screen::Screen;

/// Bytes that may wait for one viewer. A screen that is drawn anew is smaller than so many changes to it.
const MOST_UNSEEN: usize = 256 * 1024;

/// Bytes of a person that may wait to be typed: a long paste. The policy when they are so many: whoever types waits.
const MOST_UNTYPED: usize = 64 * 1024;

/// Who may watch one terminal at the same time. More are refused.
const MOST_VIEWERS: usize = 16;

/// How long a person waits for the keys while Ostler types.
const PATIENCE: Duration = Duration::from_secs(20);

/// Ctrl-Z: a program that stops itself would never be continued, because there is no shell.
pub const SUSPEND: u8 = 0x1a;

/// The smallest and the largest window that a person may bring.
const SIDES: (u16, u16) = (2, 1_000);

/// A terminal, as those who sit at it share it. Clones are the same seat.
#[derive(Debug, Clone)]
pub struct Seat {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    /// Counts what was drawn, and every other change that a viewer is told.
    changes: watch::Sender<u64>,
    /// Something is wished of whoever has the terminal.
    wished: Notify,
    /// There is room again for what a person types.
    typed: Notify,
    keys: Arc<Semaphore>,
}

#[derive(Debug)]
struct Inner {
    screen: Screen,
    /// The size that it has when nobody holds it.
    own: Size,
    viewers: BTreeMap<u64, Queue>,
    next_viewer: u64,
    holder: Holder,
    wishes: Wanted,
    /// Bytes that people typed, all in all.
    typed: u64,
    is_over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Nobody,
    /// Somebody waits for the keys.
    Waits,
    /// Somebody has them.
    Has,
}

/// What waits to be done for people. Of each kind only the last counts.
#[derive(Debug, Default)]
struct Wanted {
    taken: bool,
    typed: Vec<u8>,
    size: Option<Size>,
    left: bool,
}

#[derive(Debug)]
enum Queue {
    /// The screen is to be drawn anew.
    Anew,
    Bytes(Vec<u8>),
}

/// What a viewer is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// All that was shown before is void: an empty terminal of this size, and what makes it show the same.
    Anew {
        /// How large it is.
        size: Size,
        /// What to feed it.
        bytes: Vec<u8>,
    },
    /// What the program wrote since.
    Bytes(Vec<u8>),
}

/// What a person wishes of whoever has the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// A person took the keys.
    Taken,
    /// To be written to the program as it is.
    Type(Vec<u8>),
    /// The window has another size: tell the program, then call [`Seat::resized`].
    Resize(Size),
    /// The person gave the keys back. What they typed may still be in the program's box.
    Left,
}

/// Why somebody cannot sit down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unseated {
    /// One person has the keys.
    #[error("somebody else holds the terminal")]
    Held,
    /// Ostler has them, for too long.
    #[error("Ostler is typing")]
    Typing,
    /// So many watch.
    #[error("as many as can already watch the terminal")]
    Full,
    /// The program is gone.
    #[error("the terminal is closed")]
    Over,
}

/// Ostler's permission to type, until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Keys {
    _permit: OwnedSemaphorePermit,
}

/// What people wish, for whoever has the terminal. Dropping it closes the seat: viewers are told.
#[derive(Debug)]
pub struct Wishes {
    shared: Arc<Shared>,
}

/// Somebody who watches.
#[derive(Debug)]
pub struct Viewer {
    shared: Arc<Shared>,
    changes: watch::Receiver<u64>,
    id: u64,
}

/// A person who has the keys. Dropping it gives them back, and the terminal its own size.
#[derive(Debug)]
pub struct Hold {
    shared: Arc<Shared>,
    /// Until it is dropped.
    permit: Option<OwnedSemaphorePermit>,
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl Seat {
    /// At a new terminal of that size. Whoever has the terminal gets what people wish.
    pub fn new(size: Size) -> (Self, Wishes) {
        let shared = Arc::new(Shared {
            inner: Mutex::new(Inner {
                screen: Screen::new(size),
                own: size,
                viewers: BTreeMap::new(),
                next_viewer: 0,
                holder: Holder::Nobody,
                wishes: Wanted::default(),
                typed: 0,
                is_over: false,
            }),
            changes: watch::Sender::new(0),
            wished: Notify::new(),
            typed: Notify::new(),
            keys: Arc::new(Semaphore::new(1)),
        });
        (Self { shared: Arc::clone(&shared) }, Wishes { shared })
    }

    /// Draws what the program wrote, and hands it to those who watch. Answers what is to be written back to the program,
    /// because it asked something of its terminal. Never blocks.
    pub fn draw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut inner = self.shared.inner();
        inner.screen.feed(bytes);
        for queue in inner.viewers.values_mut() {
            queue.push(bytes);
        }
        let replies = inner.screen.replies();
        drop(inner);
        self.shared.changed();
        replies
    }

    /// The terminal has another size now: the program was told.
    pub fn resized(&self, size: Size) {
        let mut inner = self.shared.inner();
        inner.screen.resize(size);
        inner.viewers.values_mut().for_each(|queue| *queue = Queue::Anew);
        drop(inner);
        self.shared.changed();
    }

    /// What is shown.
    pub fn look(&self) -> Look {
        self.shared.inner().screen.look()
    }

    /// How large it is.
    pub fn size(&self) -> Size {
        self.shared.inner().screen.size()
    }

    /// The last bytes that the program wrote, at most so many as a [`Screen`] keeps.
    pub fn recent(&self) -> Vec<u8> {
        self.shared.inner().screen.recent()
    }

    /// Counts every change of what is shown: wait on it to look again.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// How many watch, the one who holds it among them.
    pub fn viewers(&self) -> usize {
        self.shared.inner().viewers.len()
    }

    /// Whether a person has the keys. One who waits for them does not: what is begun is finished first.
    pub fn is_held(&self) -> bool {
        self.shared.inner().holder == Holder::Has
    }

    /// How many bytes people typed so far: whoever knows it from before knows whether somebody typed since.
    pub fn typed(&self) -> u64 {
        self.shared.inner().typed
    }

    /// The keys for Ostler, unless a person has them or waits for them. Never blocks.
    pub fn keys(&self) -> Option<Keys> {
        let permit = Arc::clone(&self.shared.keys).try_acquire_owned().ok()?;
        Some(Keys { _permit: permit })
    }

    /// The keys for Ostler, as soon as nobody has them. Cancel safe.
    pub async fn next_keys(&self) -> Keys {
        match Arc::clone(&self.shared.keys).acquire_owned().await {
            Ok(permit) => Keys { _permit: permit },
            // It is never closed.
            Err(_) => std::future::pending().await,
        }
    }

    /// Sits somebody down to watch. They are first shown all that is there.
    pub fn watch(&self) -> Result<Viewer, Unseated> {
        let mut inner = self.shared.inner();
        if inner.is_over {
            return Err(Unseated::Over);
        }
        if inner.viewers.len() >= MOST_VIEWERS {
            return Err(Unseated::Full);
        }
        let id = inner.next_viewer;
        inner.next_viewer += 1;
        inner.viewers.insert(id, Queue::Anew);
        drop(inner);
        Ok(Viewer { shared: Arc::clone(&self.shared), changes: self.shared.changes.subscribe(), id })
    }

    /// Gives the keys to a person with a window of that size, once Ostler has finished what it types. Only one can have
    /// them. Cancel safe: who gives up waiting has changed nothing.
    pub async fn hold(&self, size: Size) -> Result<Hold, Unseated> {
        self.hold_within(PATIENCE, size).await
    }

    async fn hold_within(&self, patience: Duration, size: Size) -> Result<Hold, Unseated> {
        let waiting = Waiting::begin(&self.shared)?;
        let keys = Arc::clone(&self.shared.keys).acquire_owned();
        let Ok(Ok(permit)) = tokio::time::timeout(patience, keys).await else { return Err(Unseated::Typing) };
        waiting.done();
        let hold = Hold { shared: Arc::clone(&self.shared), permit: Some(permit) };
        let mut inner = self.shared.inner();
        inner.holder = Holder::Has;
        inner.wishes.taken = true;
        // Whoever held it before may just have left.
        inner.wishes.left = false;
        drop(inner);
        hold.resize(size);
        Ok(hold)
    }
}

/// The place of a person who waits for the keys.
struct Waiting<'a> {
    shared: &'a Shared,
    is_done: bool,
}

impl<'a> Waiting<'a> {
    fn begin(shared: &'a Shared) -> Result<Self, Unseated> {
        let mut inner = shared.inner();
        match (inner.is_over, inner.holder) {
            (true, _) => Err(Unseated::Over),
            (false, Holder::Waits | Holder::Has) => Err(Unseated::Held),
            (false, Holder::Nobody) => {
                inner.holder = Holder::Waits;
                Ok(Self { shared, is_done: false })
            }
        }
    }

    fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.shared.inner().holder = Holder::Nobody;
        }
    }
}

impl Queue {
    fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Anew => {}
            Self::Bytes(unseen) if unseen.len() + bytes.len() > MOST_UNSEEN => *self = Self::Anew,
            Self::Bytes(unseen) => unseen.extend_from_slice(bytes),
        }
    }
}

impl Viewer {
    /// What is to be shown next; nothing once the terminal is closed and all of it was shown. Cancel safe.
    pub async fn next(&mut self) -> Option<Shown> {
        loop {
            self.changes.mark_unchanged();
            if let Some(shown) = self.take() {
                return shown;
            }
            // The sender lives as long as this does.
            let _ = self.changes.changed().await;
        }
    }

    /// What waits, or that there is nothing more.
    fn take(&self) -> Option<Option<Shown>> {
        let mut inner = self.shared.inner();
        let is_over = inner.is_over;
        let queue = inner.viewers.get_mut(&self.id)?;
        match std::mem::replace(queue, Queue::Bytes(Vec::new())) {
            Queue::Anew => {
                let size = inner.screen.size();
                Some(Some(Shown::Anew { size, bytes: inner.screen.restore() }))
            }
            Queue::Bytes(bytes) if bytes.is_empty() => is_over.then_some(None),
            Queue::Bytes(bytes) => Some(Some(Shown::Bytes(bytes))),
        }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.shared.inner().viewers.remove(&self.id);
    }
}

impl Hold {
    /// Has bytes written to the program as they are, but for [`SUSPEND`]. Waits while much waits already. What of it was handed over when this
    /// is dropped is not known.
    pub async fn type_in(&self, bytes: &[u8]) -> Result<(), Unseated> {
        let bytes: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != SUSPEND).collect();
        for piece in bytes.chunks(MOST_UNTYPED) {
            while !self.offer(piece)? {
                self.shared.typed.notified().await;
            }
        }
        Ok(())
    }

    /// Whether there was room.
    fn offer(&self, piece: &[u8]) -> Result<bool, Unseated> {
        let mut inner = self.shared.inner();
        if inner.is_over {
            return Err(Unseated::Over);
        }
        let has_room = inner.wishes.typed.len() + piece.len() <= MOST_UNTYPED;
        if has_room {
            inner.wishes.typed.extend_from_slice(piece);
            inner.typed += piece.len() as u64;
            drop(inner);
            self.shared.wished.notify_one();
        }
        Ok(has_room)
    }

    /// The person's window has another size. Never blocks.
    pub fn resize(&self, size: Size) {
        let side = |side: u16| side.clamp(SIDES.0, SIDES.1);
        let size = Size { columns: side(size.columns), rows: side(size.rows) };
        self.shared.inner().wishes.size = Some(size);
        self.shared.wished.notify_one();
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut inner = self.shared.inner();
        inner.wishes.size = Some(inner.own);
        inner.wishes.left = true;
        inner.holder = Holder::Nobody;
        // Before it is told: whoever hears that they left finds the keys free.
        drop(self.permit.take());
        drop(inner);
        self.shared.wished.notify_one();
    }
}

impl Wishes {
    /// What is wished next. Waits for ever if nobody wishes anything. Cancel safe.
    pub async fn next(&mut self) -> Wish {
        loop {
            if let Some(wish) = self.take() {
                return wish;
            }
            self.shared.wished.notified().await;
        }
    }

    fn take(&self) -> Option<Wish> {
        let mut inner = self.shared.inner();
        let size = inner.screen.size();
        let wishes = &mut inner.wishes;
        if std::mem::take(&mut wishes.taken) {
            return Some(Wish::Taken);
        }
        if !wishes.typed.is_empty() {
            let typed = std::mem::take(&mut wishes.typed);
            self.shared.typed.notify_one();
            return Some(Wish::Type(typed));
        }
        if let Some(wanted) = wishes.size.take()
            && wanted != size
        {
            return Some(Wish::Resize(wanted));
        }
        std::mem::take(&mut wishes.left).then_some(Wish::Left)
    }
}

impl Drop for Wishes {
    fn drop(&mut self) {
        self.shared.inner().is_over = true;
        self.shared.changed();
        self.shared.typed.notify_one();
    }
}

#[cfg(test)]
#[path = "seat_tests.rs"]
mod tests;
