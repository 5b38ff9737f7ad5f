//! One conversation: its journal, what it came to, and whether somebody is asking in it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use ostler_agent::canonical::Message;
use ostler_agent::event::{AgentEvent, Usage};
use ostler_agent::fingerprint::Known;
use ostler_agent::leasing::Terms;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::eviction::Holding;
use super::line::{Ending, Happened, Opening, SoFar, VERSION};
use super::partial::Partial;
use super::quota::{Quota, QuotaExceeded, Room};
use super::reading::{self, Found, Told};
use super::recorder::{Heard, Recorder};
use super::{CUT, Store};

/// Longest journal. What is longer is not gone on with by its id: the program has to send it.
const LONGEST_JOURNAL: u64 = 32 << 20;

/// What a line has besides what happened, at most: its version, its number and its time.
const LONGEST_ENVELOPE: u64 = 96;

/// Pieces of text that may wait for one who listens. Who is slower misses some, and gets the whole text after them.
const UNHEARD: usize = 1024;

/// Digits that tell one turn of a conversation from another.
pub(super) const TURN_DIGITS: usize = 8;

/// A conversation.
#[derive(Debug)]
pub struct Conversation {
    /// What it began on.
    pub opening: Opening,
    path: PathBuf,
    store: Weak<Store>,
    quota: Arc<Quota>,
    state: Mutex<State>,
    /// The number of its last line.
    told: watch::Sender<u64>,
    /// There once somebody listened: room for pieces is more than all the rest of a conversation.
    pieces: OnceLock<broadcast::Sender<Heard>>,
}

#[derive(Debug)]
struct State {
    opened_at: i64,
    touched_at: i64,
    seq: u64,
    so_far: SoFar,
    known: Option<Known>,
    /// What its journal takes.
    room: Room,
    keeping: Keeping,
    /// Open while a turn is under way.
    file: Option<File>,
    /// The words of a text that is not whole yet.
    partial: Option<Partial>,
    busy: Option<Busy>,
}

/// Where the lines of a conversation are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeping {
    /// Nowhere yet: its first turn has no session.
    Provisional,
    /// On disk.
    Kept,
    /// Not all of them are on disk: it became too long, or could not be written.
    Cut,
    /// Nowhere: the client did not want it kept.
    Unkept,
    /// Nowhere any more: it is not listed, and nothing is asked in it.
    Removed,
}

#[derive(Debug)]
struct Busy {
    turn: String,
    stop: CancellationToken,
    /// What will be written once the turn has a session.
    waiting: Option<WaitingTurn>,
}

/// A turn that has no session yet. Nothing of it is on disk.
#[derive(Debug)]
struct WaitingTurn {
    model: String,
    asked: Value,
    at: i64,
    /// What will be written, the opening too if it is not on disk.
    lines: Vec<Prepared>,
}

/// A line that is to be written, and has room.
#[derive(Debug)]
struct Prepared {
    /// What happened; nothing where it is not written.
    happened: Option<Box<RawValue>>,
    room: Room,
}

/// A line, as it is written. What happened is JSON already.
#[derive(Serialize)]
struct WrittenLine<'a> {
    v: u32,
    seq: u64,
    at: i64,
    happened: &'a RawValue,
}

/// Whether a line may be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// It is written only where there is room.
    Refusable,
    /// It is short, and without it the journal would mislead.
    Needed,
}

/// What is known of a conversation at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// When it began, in milliseconds since 1970.
    pub opened_at: i64,
    /// When something last happened.
    pub touched_at: i64,
    /// The number of its last line.
    pub seq: u64,
    /// What it came to.
    pub so_far: SoFar,
    /// The turn under way.
    pub turn: Option<String>,
    /// Bytes of its journal.
    pub bytes: u64,
    /// What would be lost with it.
    pub holding: Holding,
}

/// Why a conversation cannot be gone on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unkept {
    /// Somebody asks in it.
    #[error("a turn of this conversation is under way")]
    Busy,
    /// It is not on disk, or not whole.
    #[error("this conversation is not kept any more: send it as a whole")]
    Lost,
    /// There is no such answer in it.
    #[error("there is no such answer")]
    NoSuchTurn,
    /// It was removed meanwhile.
    #[error("this conversation was removed")]
    Removed,
    /// There is no room for it.
    #[error(transparent)]
    Full(#[from] QuotaExceeded),
}

/// A turn as it was written down.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// The model, as it was named.
    pub model: String,
    /// When it began, in milliseconds since 1970.
    pub at: i64,
    /// What was asked.
    pub asked: Value,
    /// What the agent said and did.
    pub events: Vec<AgentEvent>,
    /// How it ended, and why it failed; nothing while it is under way.
    pub end: Option<(Ending, Option<String>)>,
}

pub(super) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

impl Conversation {
    /// A new one, of which nothing is on disk.
    pub(super) fn new(opening: Opening, path: PathBuf, store: &Arc<Store>, keeping: Keeping) -> Self {
        let at = now();
        let found =
            Found { opening, opened_at: at, touched_at: at, seq: 0, so_far: SoFar::default(), bytes: 0 };
        Self::from_found(found, path, store, keeping)
    }

    /// One that is on disk.
    pub(super) fn from_found(found: Found, path: PathBuf, store: &Arc<Store>, keeping: Keeping) -> Self {
        let Found { opening, opened_at, touched_at, seq, so_far, bytes } = found;
        let (quota, store) = (store.quota.clone(), Arc::downgrade(store));
        let mut room = quota.room(&opening.tenant);
        room.grow(bytes);
        let known = so_far.known.as_ref().and_then(super::line::KnownBy::known);
        let state = State {
            opened_at,
            touched_at,
            seq,
            so_far,
            // What is on disk is not all of it: it must not be taken for that.
            known: known.filter(|_| keeping != Keeping::Cut),
            room,
            keeping,
            file: None,
            partial: None,
            busy: None,
        };
        let (told, pieces) = (watch::Sender::new(seq), OnceLock::new());
        Self { opening, path, store, quota, state: Mutex::new(state), told, pieces }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.opening.conversation
    }

    #[cfg(test)]
    pub(super) fn path(&self) -> &std::path::Path {
        &self.path
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of it now.
    pub fn summary(&self) -> Summary {
        let state = self.state();
        Summary {
            opened_at: state.opened_at,
            touched_at: state.touched_at,
            seq: state.seq,
            so_far: state.so_far.clone(),
            turn: state.busy.as_ref().map(|busy| busy.turn.clone()),
            bytes: state.room.bytes(),
            holding: match (state.keeping, &state.so_far.known) {
                (Keeping::Unkept | Keeping::Removed, _) => Holding::Unkept,
                (Keeping::Kept | Keeping::Cut, Some(_)) => Holding::Something,
                (Keeping::Provisional | Keeping::Kept | Keeping::Cut, _) => Holding::Nothing,
            },
        }
    }

    /// Whether it can go on with what a program sent, and nobody asks in it.
    pub(super) fn answers(&self, prior: &Known) -> bool {
        let state = self.state();
        state.busy.is_none() && state.known.is_some_and(|known| known.answers(prior))
    }

    /// Whether it knows exactly this, rather than only its words.
    pub fn knows_whole(&self, prior: &Known) -> bool {
        self.state().known.is_some_and(|known| known.whole == prior.whole)
    }

    /// Nothing of it stays on disk, and nothing more is asked in it.
    pub(super) fn lose(&self) {
        self.lose_in(&mut self.state());
    }

    /// The same, unless a turn is under way: false then.
    pub(super) fn lose_if_idle(&self) -> bool {
        let mut state = self.state();
        let is_idle = state.busy.is_none() && state.keeping != Keeping::Removed;
        if is_idle {
            self.lose_in(&mut state);
        }
        is_idle
    }

    fn lose_in(&self, state: &mut State) {
        (state.keeping, state.file, state.partial) = (Keeping::Removed, None, None);
        state.room.shrink_to(0);
        for path in [self.path.clone(), self.path.with_extension(CUT)] {
            if let Err(error) = std::fs::remove_file(path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(target: "ostler::http", %error, "a conversation could not be removed");
            }
        }
    }

    /// From now on nothing more of it is written. What is there is kept under another name: whoever reads it later must not
    /// take it for all of it.
    fn cut(&self, state: &mut State) {
        (state.keeping, state.file, state.partial, state.known) = (Keeping::Cut, None, None, None);
        if let Err(error) = std::fs::rename(&self.path, self.path.with_extension(CUT))
            && error.kind() != io::ErrorKind::NotFound
        {
            lost(&error);
            // Rather nothing than a part of it.
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Writes its first line, if it is not on disk yet.
    pub(super) fn keep(&self) {
        // It is short. Where there is no room for it, there is none for a turn either, and that is reported.
        let Ok(opening) = self.prepare(&Happened::Opened { opening: self.opening.clone() }, Claim::Needed)
        else {
            return;
        };
        let mut state = self.state();
        let is_begun = self.begin_journal(&mut state);
        if is_begun {
            self.append(&mut state, opening);
        }
        let seq = state.seq;
        drop(state);
        self.on_kept(seq, is_begun);
    }

    /// True if it is on disk from now on.
    fn begin_journal(&self, state: &mut State) -> bool {
        if state.keeping != Keeping::Provisional {
            return false;
        }
        state.keeping = Keeping::Kept;
        if let Some(folder) = self.path.parent() {
            // Where it cannot be made, nothing can be written either, and that is reported.
            let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        }
        true
    }

    /// Room for so many bytes. Idle conversations are removed for it. Not for use under the lock of the state.
    fn reserve(&self, bytes: u64) -> Result<Room, QuotaExceeded> {
        let mut room = self.quota.room(&self.opening.tenant);
        if let Err(exceeded) = room.try_grow(bytes)
            && let Some(store) = self.store.upgrade()
        {
            store.make_room(self, bytes, exceeded);
            // The tenant has room now, perhaps, and all together have not.
            if let Err(exceeded) = room.try_grow(bytes) {
                store.make_room(self, bytes, exceeded);
                room.try_grow(bytes)?;
            }
        }
        Ok(room)
    }

    /// Makes a line of what happened, if it will be written. Not for use under the lock of the state.
    fn prepare(&self, happened: &Happened, claim: Claim) -> Result<Prepared, QuotaExceeded> {
        let is_written = matches!(self.state().keeping, Keeping::Provisional | Keeping::Kept);
        let written = is_written.then(|| to_raw_value(happened).ok()).flatten();
        let Some(written) = written else {
            return Ok(Prepared { happened: None, room: self.quota.room(&self.opening.tenant) });
        };
        let bytes = written.get().len() as u64 + LONGEST_ENVELOPE;
        let room = match (self.reserve(bytes), claim) {
            (Ok(room), _) => room,
            (Err(exceeded), Claim::Refusable) => return Err(exceeded),
            (Err(_), Claim::Needed) => {
                let mut room = self.quota.room(&self.opening.tenant);
                room.grow(bytes);
                room
            }
        };
        Ok(Prepared { happened: Some(written), room })
    }

    fn on_kept(&self, seq: u64, is_begun: bool) {
        self.told.send_replace(seq);
        if let (true, Some(store)) = (is_begun, self.store.upgrade()) {
            store.on_begun(&self.opening.tenant);
        }
    }

    /// Begins a turn: what was said before, of which so many messages are in the journal, and what is asked. Nothing is
    /// written before the turn has a session: see [`Recorder::commit`].
    pub fn begin_turn(
        self: &Arc<Self>,
        (model, terms): (&str, &Terms),
        (prior, kept): (&[Message], usize),
        asked: &Message,
    ) -> Result<Recorder, Unkept> {
        let unique = Uuid::new_v4().simple().to_string();
        let turn = format!("{}{}", self.id(), &unique[..TURN_DIGITS]);
        {
            let mut state = self.state();
            if state.keeping == Keeping::Removed {
                return Err(Unkept::Removed);
            }
            if state.busy.is_some() {
                return Err(Unkept::Busy);
            }
            let waiting =
                WaitingTurn { model: model.to_owned(), asked: asked.written(), at: now(), lines: Vec::new() };
            let (turn, stop) = (turn.clone(), CancellationToken::new());
            state.busy = Some(Busy { turn, stop, waiting: Some(waiting) });
        }
        if let Err(exceeded) = self.prepare_turn(&turn, model, &prior[kept.min(prior.len())..], asked) {
            self.abandon_turn(&turn, None);
            return Err(exceeded.into());
        }
        let mut said = prior.to_vec();
        said.push(asked.clone());
        Ok(Recorder::new(self.clone(), turn, terms.clone(), said))
    }

    /// Makes the lines of a turn that begins, so that they have room once it has a session.
    fn prepare_turn(
        &self,
        turn: &str,
        model: &str,
        before: &[Message],
        asked: &Message,
    ) -> Result<(), QuotaExceeded> {
        let mut lines = Vec::new();
        if self.state().keeping == Keeping::Provisional {
            let opening = self.opening.clone();
            lines.push(self.prepare(&Happened::Opened { opening }, Claim::Refusable)?);
        }
        let before = before.iter().map(Message::written).collect();
        let (turn, model, asked) = (turn.to_owned(), model.to_owned(), asked.written());
        lines.push(self.prepare(&Happened::TurnBegan { turn, model, before, asked }, Claim::Refusable)?);
        if let Some(waiting) = self.state().busy.as_mut().and_then(|busy| busy.waiting.as_mut()) {
            waiting.lines = lines;
        }
        Ok(())
    }

    /// The turn has a session: it is written down.
    pub(super) fn commit_turn(&self, turn: &str) {
        let mut state = self.state();
        let busy = state.busy.as_mut().filter(|busy| busy.turn == turn);
        let Some(WaitingTurn { lines, .. }) = busy.and_then(|busy| busy.waiting.take()) else {
            return;
        };
        // One that is not kept counts from its first turn: it is evicted like the others.
        let is_unkept = state.keeping == Keeping::Unkept && state.so_far.turns == 0;
        let is_begun = self.begin_journal(&mut state) || is_unkept;
        state.so_far.turns = state.so_far.turns.saturating_add(1);
        if state.keeping == Keeping::Kept {
            // Where it fails now it fails with the first line, and that is reported.
            state.file = self.reopened().ok();
        }
        for line in lines {
            self.append(&mut state, line);
        }
        let seq = state.seq;
        drop(state);
        self.on_kept(seq, is_begun);
    }

    /// The turn never had a session: it is as if it had not been asked. A conversation that was begun for it is gone.
    pub(super) fn abandon_turn(&self, turn: &str, error: Option<&str>) {
        let store = self.store.upgrade();
        let mut known = store.as_ref().map(|store| store.known());
        let mut state = self.state();
        if !state.busy.as_ref().is_some_and(|busy| busy.turn == turn && busy.waiting.is_some()) {
            return;
        }
        state.busy = None;
        let is_new = match state.keeping {
            Keeping::Provisional => true,
            Keeping::Unkept => state.so_far.turns == 0,
            Keeping::Kept | Keeping::Cut | Keeping::Removed => false,
        };
        if is_new {
            state.keeping = Keeping::Removed;
            known.as_mut().map(|known| known.remove(self.id()));
        }
        if let Some(error) = error {
            state.so_far.last_error = Some(error.to_owned());
        }
        let seq = state.seq;
        drop((state, known));
        self.told.send_replace(seq);
    }

    /// Whether it can be looked at by its id.
    pub fn is_listed(&self) -> bool {
        self.state().keeping != Keeping::Removed
    }

    /// How the turn under way can be broken off.
    pub fn stoppable(&self, turn: &str, stop: CancellationToken) {
        if let Some(busy) = &mut self.state().busy
            && busy.turn == turn
        {
            if busy.stop.is_cancelled() {
                stop.cancel();
            }
            busy.stop = stop;
        }
    }

    /// Breaks off the turn under way, or that one if one is named. False if there is none.
    pub fn stop(&self, turn: Option<&str>) -> bool {
        let state = self.state();
        let busy = state.busy.as_ref().filter(|busy| turn.is_none_or(|turn| busy.turn == turn));
        if let Some(busy) = busy {
            busy.stop.cancel();
        }
        busy.is_some()
    }

    fn reopened(&self) -> io::Result<File> {
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&self.path)?;
        if reading::is_torn(&mut file)? {
            file.write_all(b"\n")?;
        }
        Ok(file)
    }

    pub(super) fn spend(&self, usage: &Usage) {
        self.state().so_far.spend(usage);
    }

    /// Some words of a text: written down until the text is whole, and told to those who listen now.
    pub(super) fn on_piece(&self, heard: Heard) {
        let is_kept = self.state().keeping == Keeping::Kept;
        // Where there is no room for a piece there is none for the whole text, and that is reported.
        if is_kept && let Ok(room) = self.reserve(heard.text.len() as u64) {
            self.write_piece(&heard.text, room);
        }
        // Nobody need listen.
        if let Some(pieces) = self.pieces.get() {
            let _ = pieces.send(heard);
        }
    }

    fn write_piece(&self, text: &str, room: Room) {
        let mut state = self.state();
        if state.keeping != Keeping::Kept {
            return;
        }
        let after = state.seq;
        if state.partial.is_none() {
            state.partial = Partial::open(&self.path).map_err(|error| unkept_words(&error)).ok();
        }
        if let Some(Err(error)) = state.partial.as_mut().map(|partial| partial.append(after, text, room)) {
            unkept_words(&error);
        }
    }

    /// The text whose words came is whole, and written down.
    pub(super) fn on_whole(&self) {
        if let Some(Err(error)) = self.state().partial.as_mut().map(Partial::clear) {
            unkept_words(&error);
        }
    }

    /// Numbers what happened, and writes it down if it is kept and there is room.
    pub(super) fn write(&self, happened: &Happened) -> Result<(), QuotaExceeded> {
        self.number(self.prepare(happened, Claim::Refusable)?);
        Ok(())
    }

    /// The same for what is short and must be there.
    pub(super) fn write_needed(&self, happened: &Happened) {
        if let Ok(line) = self.prepare(happened, Claim::Needed) {
            self.number(line);
        }
    }

    fn number(&self, line: Prepared) {
        let mut state = self.state();
        self.append(&mut state, line);
        let seq = state.seq;
        drop(state);
        self.told.send_replace(seq);
    }

    fn append(&self, state: &mut State, line: Prepared) {
        state.seq += 1;
        let at = now();
        state.touched_at = at;
        if state.seq == 1 {
            // As whoever reads it later will have it.
            state.opened_at = at;
        }
        let Prepared { happened: Some(happened), mut room } = line else { return };
        if state.keeping != Keeping::Kept {
            return;
        }
        let line = WrittenLine { v: VERSION, seq: state.seq, at, happened: &happened };
        let Ok(mut bytes) = serde_json::to_vec(&line) else { return };
        bytes.push(b'\n');
        let length = bytes.len() as u64;
        if state.room.bytes().saturating_add(length) > LONGEST_JOURNAL {
            self.cut(state);
            return;
        }
        let written = match &mut state.file {
            Some(file) => file.write_all(&bytes),
            None => self.reopened().and_then(|mut file| file.write_all(&bytes)),
        };
        match written {
            Ok(()) => {
                room.shrink_to(length);
                state.room.absorb(room);
            }
            Err(error) => {
                lost(&error);
                self.cut(state);
            }
        }
    }

    /// Ends the turn. Without room for what it added, it has failed.
    pub(super) fn end_turn(
        &self,
        turn: &str,
        (ending, error): (Ending, Option<String>),
        added: Vec<Value>,
        known: Option<Known>,
    ) -> Result<(), QuotaExceeded> {
        let mut so_far = self.state().so_far.clone();
        let before = so_far.clone();
        so_far.last_error.clone_from(&error);
        if let Some(known) = known {
            so_far.known = Some(known.into());
        }
        let turn = turn.to_owned();
        let happened = Happened::TurnEnded { turn, ending, error, added, so_far: so_far.clone() };
        let prepared = self.prepare(&happened, Claim::Refusable);
        let (line, so_far, known, result) = match prepared {
            Ok(line) => (Some(line), so_far, known, Ok(())),
            Err(exceeded) => {
                let error = Some(exceeded.to_string());
                let so_far = SoFar { last_error: error.clone(), ..before };
                let happened = without_additions(happened, error, so_far.clone());
                (self.prepare(&happened, Claim::Needed).ok(), so_far, None, Err(exceeded))
            }
        };
        let mut state = self.state();
        state.so_far = so_far;
        state.known = known.or(state.known);
        if let Some(line) = line {
            self.append(&mut state, line);
        }
        (state.file, state.partial, state.busy) = (None, None, None);
        let seq = state.seq;
        drop(state);
        self.told.send_replace(seq);
        result
    }

    /// Tells the number of the last line, and every further one.
    pub fn listen(&self) -> (watch::Receiver<u64>, broadcast::Receiver<Heard>) {
        let pieces = self.pieces.get_or_init(|| broadcast::Sender::new(UNHEARD));
        (self.told.subscribe(), pieces.subscribe())
    }

    /// Where its lines are; nothing if it is not kept.
    pub fn journal(&self) -> Option<PathBuf> {
        (self.state().keeping == Keeping::Kept).then(|| self.path.clone())
    }

    /// What was said, up to the end of that turn if one is named. Reads the journal: it may take a while.
    pub fn history(&self, until: Option<&str>) -> Result<Vec<Message>, Unkept> {
        self.told(until)?.messages().ok_or(Unkept::Lost)
    }

    /// The same, as it is written for a provider.
    pub fn transcript(&self) -> Result<Vec<Value>, Unkept> {
        Ok(self.told(None)?.written())
    }

    fn told(&self, until: Option<&str>) -> Result<Told, Unkept> {
        if self.state().keeping == Keeping::Provisional && until.is_none() {
            return Ok(Told::default());
        }
        let path = self.journal().ok_or(Unkept::Lost)?;
        let (mut told, mut is_found) = (Told::default(), until.is_none());
        let mut is_over = false;
        reading::lines(&path, &mut |line| {
            if is_over {
                return;
            }
            let is_end =
                matches!(&line.happened, Happened::TurnEnded { turn, .. } if Some(turn.as_str()) == until);
            let is_sound = !matches!(&line.happened, Happened::TurnEnded { ending: Ending::Failed, .. });
            (is_over, is_found) = (is_end, is_found || (is_end && is_sound));
            told.hear(line.happened);
        })
        .map_err(|_| Unkept::Lost)?;
        if is_found { Ok(told) } else { Err(Unkept::NoSuchTurn) }
    }

    /// A turn that has no session yet.
    fn waiting_turn(&self, wanted: &str) -> Option<Kept> {
        let state = self.state();
        let busy = state.busy.as_ref().filter(|busy| busy.turn == wanted)?;
        let WaitingTurn { model, asked, at, .. } = busy.waiting.as_ref()?;
        let (model, asked) = (model.clone(), asked.clone());
        Some(Kept { model, at: *at, asked, events: Vec::new(), end: None })
    }

    /// A turn as it was written down. Reads the journal: it may take a while.
    pub fn turn(&self, wanted: &str) -> Result<Kept, Unkept> {
        if let Some(waiting) = self.waiting_turn(wanted) {
            return Ok(waiting);
        }
        let path = self.journal().ok_or(Unkept::Lost)?;
        let mut kept: Option<Kept> = None;
        reading::lines(&path, &mut |line| match (line.happened, &mut kept) {
            (Happened::TurnBegan { turn, model, asked, .. }, kept) if turn == wanted => {
                *kept = Some(Kept { model, at: line.at, asked, events: Vec::new(), end: None });
            }
            (Happened::Agent { turn, event }, Some(kept)) if turn == wanted => kept.events.push(event),
            (Happened::TurnEnded { turn, ending, error, .. }, Some(kept)) if turn == wanted => {
                kept.end = Some((ending, error));
            }
            _ => {}
        })
        .map_err(|_| Unkept::Lost)?;
        kept.ok_or(Unkept::NoSuchTurn)
    }
}

/// The end of a turn for which there is no room.
fn without_additions(ended: Happened, error: Option<String>, so_far: SoFar) -> Happened {
    match ended {
        Happened::TurnEnded { turn, .. } => {
            Happened::TurnEnded { turn, ending: Ending::Failed, error, added: Vec::new(), so_far }
        }
        other => other,
    }
}

fn unkept_words(error: &io::Error) {
    tracing::debug!(target: "ostler::http", %error, "words of a turn under way are not on disk");
}

fn lost(error: &io::Error) {
    tracing::warn!(target: "ostler::http", %error, "a conversation cannot be kept");
}
