//! The agent's own record of its session, and those of its sub-agents: that they grow is life, and where the standard
//! output is dead the agent's is read instead. Which of the two is listened to is decided by [`Sources`].

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_agent::agent::{Agent, Source, TranscriptPlace, Whereabouts};
use ostler_agent::call_log::RecordedCalls;
use ostler_agent::event::AgentEvent;
use ostler_agent::framer::Frame;
use ostler_agent::record::Record;
use ostler_agent::run_event::{Channel, RunEventKind};
use ostler_agent::source::{Action, Input, Sources, Twins};
use ostler_agent::watchdog;

use super::Round;
use crate::journal::JournalError;
use crate::run::Plan;
use crate::run::saying::has_words;
use crate::tail::{Lines, Place, Progress, Tail};

/// What is said when the transcript becomes the source.
const TAKES_OVER: &str =
    "its standard output is silent while its transcript goes on: the transcript is read instead";

/// How often a file is read on in one go, 1 MiB each time. What is left is read when it grows again.
const MOST_READS: usize = 256;

/// The transcript of one process.
pub(in crate::run) struct Transcript {
    sources: Sources,
    pub(super) twins: Twins,
    /// None before the session is known.
    followed: Option<Followed>,
}

struct Followed {
    session: String,
    tail: Tail,
    reading: Reading,
    /// The same file, read for what model calls used, where the standard output does not report it in time.
    usage: Option<Lines>,
}

/// The file that can be read, besides those that only show life.
enum Reading {
    /// There is none.
    Nothing,
    /// It was not found yet: the one of this name, or the first that is found.
    Wanted(Option<PathBuf>),
    /// It was found.
    Found(Lines),
}

/// What is in a transcript when it is first looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// What this process wrote.
    Nothing,
    /// What was told before.
    All,
}

/// Whether the agent has a record of the session with what it was asked, as far as that can be told. A session that was
/// only begun has none: told to go on in it, the agent would not know with what.
pub(in crate::run) fn is_there(plan: &Plan<'_>, session: &str) -> bool {
    let Some((places, reading)) = places(plan, session) else { return true };
    let tail = Tail::late(places, Duration::ZERO);
    let mut followed = Followed { session: session.to_owned(), tail, reading, usage: None };
    followed.find(Known::Nothing);
    match followed.reading {
        Reading::Nothing => true,
        Reading::Wanted(_) => false,
        Reading::Found(lines) => was_asked(plan, lines),
    }
}

/// The calls that are in the agent's own record of the session, which is what a resumed session knows. Nothing if that
/// cannot be read.
pub(in crate::run) fn recorded_calls(plan: &Plan<'_>, session: &str) -> Option<RecordedCalls> {
    let (places, reading) = places(plan, session)?;
    let tail = Tail::late(places, Duration::ZERO);
    let mut followed = Followed { session: session.to_owned(), tail, reading, usage: None };
    followed.find(Known::Nothing);
    let Reading::Found(mut lines) = followed.reading else { return None };
    let mut decoder = plan.agent.decoder(None);
    let mut recorded = RecordedCalls::new(plan.agent.twins());
    // Record by record: a transcript may have hundreds of megabytes.
    for_each_record(&mut lines, |record| {
        if let Record::Json(value) = record {
            decoder.events(Source::Transcript, &value).iter().for_each(|event| recorded.on_event(event));
        }
    });
    decoder.quiet().iter().for_each(|event| recorded.on_event(event));
    Some(recorded)
}

/// Which of these words are in prompts of the agent's own record of the session. Nothing if that cannot be read.
pub(in crate::run) fn known_words(
    plan: &Plan<'_>,
    session: &str,
    words: &[&str],
) -> Option<BTreeSet<String>> {
    let (places, reading) = places(plan, session)?;
    let tail = Tail::late(places, Duration::ZERO);
    let mut followed = Followed { session: session.to_owned(), tail, reading, usage: None };
    followed.find(Known::Nothing);
    let mut lines = match followed.reading {
        Reading::Nothing => return None,
        Reading::Wanted(_) => return Some(BTreeSet::new()),
        Reading::Found(lines) => lines,
    };
    let mut decoder = plan.agent.decoder(None);
    let mut known = BTreeSet::new();
    let mut note = |events: Vec<AgentEvent>| {
        for event in events {
            let AgentEvent::Asked { text } = event else { continue };
            known.extend(
                words.iter().filter(|words| has_words(&text, words)).map(|words| (*words).to_owned()),
            );
        }
    };
    for_each_record(&mut lines, |record| {
        if let Record::Json(value) = record {
            note(decoder.events(Source::Transcript, &value));
        }
    });
    note(decoder.quiet());
    Some(known)
}

/// Whether a record has a prompt, or anything that follows from one. One that cannot be read may have.
fn was_asked(plan: &Plan<'_>, mut lines: Lines) -> bool {
    let mut decoder = plan.agent.decoder(None);
    for _ in 0..MOST_READS {
        let mut is_found = false;
        let read = lines.read(|frame| {
            let Frame::Line(line) = frame else { return };
            let Record::Json(value) = Record::read(line) else { return };
            let events = decoder.events(Source::Transcript, &value);
            is_found |=
                events.iter().any(|event| matches!(event, AgentEvent::Asked { .. }) || is_work(event));
        });
        match read {
            _ if is_found => return true,
            Ok(Progress::More | Progress::StartedOver) => {}
            Ok(Progress::CaughtUp) => return false,
            Err(_) => return true,
        }
    }
    true
}

impl Transcript {
    pub(in crate::run) fn new(plan: &Plan<'_>, session: Option<&str>) -> Self {
        let twins = plan.agent.twins();
        let sources = Sources::new(twins, plan.policy.limits.silence);
        let mut transcript = Self { sources, twins, followed: None };
        if let Some(session) = session {
            transcript.follow_from(plan, session, Known::All);
        }
        transcript
    }

    /// Follows the session, which this process has begun unless it was given it.
    pub(super) fn follow(&mut self, plan: &Plan<'_>, session: &str) {
        match &self.followed {
            Some(followed) if followed.session == session => {}
            // A session that was taken on under another id begins with what was told.
            Some(_) => self.follow_from(plan, session, Known::All),
            None => self.follow_from(plan, session, Known::Nothing),
        }
    }

    fn follow_from(&mut self, plan: &Plan<'_>, session: &str, known: Known) {
        let Some((places, reading)) = places(plan, session) else { return };
        let tail = Tail::late(places, plan.watch_after());
        let mut followed = Followed { session: session.to_owned(), tail, reading, usage: None };
        followed.find(known);
        self.followed = Some(followed);
    }

    /// When it wants to be looked at.
    pub(super) fn wake_at(&self) -> Option<Duration> {
        self.followed.as_ref().and_then(|_| self.sources.wake_at())
    }

    /// Waits until some of the files grew; for ever if none are followed. Cancel safe.
    pub(super) async fn grew(&mut self) -> Vec<PathBuf> {
        match &mut self.followed {
            Some(followed) => followed.tail.grew().await,
            None => std::future::pending().await,
        }
    }

    /// Nothing more is to be told while it grows: what there is can still be read.
    pub(super) fn rest(&mut self) {
        if let Some(followed) = &mut self.followed {
            followed.tail.rest();
        }
    }

    /// Takes what happened to the standard output.
    pub(super) fn note(&mut self, at: Duration, input: Input) {
        if self.sources.step(at, input) == Action::Skip
            && let Some(followed) = &mut self.followed
        {
            followed.skip();
        }
    }
}

impl Followed {
    /// Whether the file is the one that is read.
    fn reads(&self, path: &Path) -> bool {
        match &self.reading {
            Reading::Nothing => false,
            Reading::Wanted(wanted) => wanted.as_deref().is_none_or(|wanted| wanted == path),
            Reading::Found(lines) => lines.path() == path,
        }
    }

    /// Finds the file, if it is there by now.
    fn find(&mut self, known: Known) {
        if !matches!(self.reading, Reading::Wanted(_)) {
            return;
        }
        let present = self.tail.present();
        let found = present.iter().find(|(path, _)| self.reads(path));
        if let Some((path, length)) = found {
            let offset = match known {
                Known::Nothing => 0,
                Known::All => *length,
            };
            self.usage = Some(Lines::at(path, offset));
            self.reading = Reading::Found(Lines::at(path, offset));
        }
    }

    /// What the file has by now was told.
    fn skip(&mut self) {
        self.find(Known::Nothing);
        let present = self.tail.present();
        let found = present.iter().find(|(path, _)| self.reads(path));
        if let Some((path, length)) = found {
            self.reading = Reading::Found(Lines::at(path, *length));
        }
    }

    /// The records that are new.
    fn records(&mut self) -> Vec<Record> {
        self.find(Known::Nothing);
        match &mut self.reading {
            Reading::Found(lines) => read_on(lines),
            Reading::Nothing | Reading::Wanted(_) => Vec::new(),
        }
    }

    /// The records that were not read for what they say of usage.
    fn usage_records(&mut self) -> Vec<Record> {
        self.find(Known::Nothing);
        self.usage.as_mut().map(read_on).unwrap_or_default()
    }
}

/// What is new in a file.
fn read_on(lines: &mut Lines) -> Vec<Record> {
    let mut records = Vec::new();
    for_each_record(lines, |record| records.push(record));
    records
}

/// Passes on what is new in a file.
fn for_each_record(lines: &mut Lines, mut take: impl FnMut(Record)) {
    for _ in 0..MOST_READS {
        let read = lines.read(|frame| match frame {
            Frame::Line(line) => take(Record::read(line)),
            Frame::TooLong(_) => {}
        });
        match read {
            // What a file that was written anew repeats has the ids of what was told.
            Ok(Progress::More | Progress::StartedOver) => {}
            Ok(Progress::CaughtUp) => break,
            Err(error) => {
                tracing::debug!(target: "ostler::run", %error, "the transcript cannot be read");
                break;
            }
        }
    }
}

impl Round<'_, '_> {
    /// Files of the session grew: that is life, whatever is in them.
    pub(super) async fn grew(&mut self, files: &[PathBuf]) -> Result<(), JournalError> {
        self.seen(Channel::Transcript)?;
        self.watch(watchdog::Input::TranscriptGrew).await?;
        let followed = self.contact.pipes().and_then(|pipes| pipes.transcript.followed.as_ref());
        let is_read = followed.is_some_and(|followed| files.iter().any(|path| followed.reads(path)));
        if !is_read {
            return Ok(());
        }
        self.read_usage().await?;
        self.source(Input::Grew).await
    }

    /// Reads what model calls used, where the standard output reports it only when the turn has ended. Where records
    /// have ids of their own it reports the tokens in time, and only the cost is read here, if that is limited.
    pub(super) async fn read_usage(&mut self) -> Result<(), JournalError> {
        let is_limited = self.run.plan.budget.max_cost.is_some();
        let Some(pipes) = self.contact.pipes() else { return Ok(()) };
        if pipes.transcript.twins == Twins::Named && !is_limited {
            return Ok(());
        }
        let records = pipes.transcript.followed.as_mut().map(Followed::usage_records).unwrap_or_default();
        for record in records {
            let Record::Json(value) = record else { continue };
            for event in self.contact.decoder().usage(&value) {
                self.heard(event).await?;
            }
        }
        Ok(())
    }

    /// Tells what happened to the transcript, and does what follows.
    pub(super) async fn source(&mut self, input: Input) -> Result<(), JournalError> {
        let now = self.run.desk.now();
        let Some(pipes) = self.contact.pipes() else { return Ok(()) };
        match pipes.transcript.sources.step(now, input) {
            Action::Nothing | Action::Skip => Ok(()),
            Action::Read => {
                let events = self.written();
                self.tell_written(events).await
            }
            Action::Look => {
                let events = self.written();
                if !events.iter().any(is_work) {
                    self.note_source(Input::Vain);
                    return Ok(());
                }
                self.note_source(Input::Found);
                self.run.desk.tell(RunEventKind::Warn { text: TAKES_OVER.to_owned() })?;
                self.tell_written(events).await
            }
        }
    }

    /// The process is gone, and the end of its turn was not heard: it may have written it down. Only where what was
    /// heard before can be told from it.
    pub(super) async fn last_look(&mut self) -> Result<(), JournalError> {
        if self.turn.is_none() {
            self.read_usage().await?;
        }
        let is_named = self.contact.pipes().is_some_and(|pipes| pipes.transcript.twins == Twins::Named);
        if self.turn.is_some() || !is_named {
            return Ok(());
        }
        let events = self.written();
        if events.iter().any(is_work) { self.tell_written(events).await } else { Ok(()) }
    }

    /// What is new in the transcript.
    fn written(&mut self) -> Vec<AgentEvent> {
        let followed = self.contact.pipes().and_then(|pipes| pipes.transcript.followed.as_mut());
        let records = followed.map(Followed::records).unwrap_or_default();
        let read = |record| match record {
            Record::Json(value) => self.contact.decoder().events(Source::Transcript, &value),
            // A line that another program wrote there means nothing to us.
            Record::Blank | Record::Noise(_) | Record::Garbled(_) => Vec::new(),
        };
        records.into_iter().flat_map(read).collect()
    }

    async fn tell_written(&mut self, events: Vec<AgentEvent>) -> Result<(), JournalError> {
        for event in events {
            if matches!(event, AgentEvent::TurnEnded(_)) {
                self.told_by = Source::Transcript;
            }
            self.heard(event).await?;
        }
        Ok(())
    }
}

/// Whether it is something that the standard output would have told too.
pub(super) fn is_work(event: &AgentEvent) -> bool {
    match event {
        AgentEvent::Said { .. }
        | AgentEvent::Thought { .. }
        | AgentEvent::ToolStarted { .. }
        | AgentEvent::ToolEnded { .. }
        | AgentEvent::TurnEnded(_) => true,
        AgentEvent::Started { .. }
        | AgentEvent::Asked { .. }
        | AgentEvent::TaskOpened { .. }
        | AgentEvent::TaskClosed { .. }
        | AgentEvent::Spent(_)
        | AgentEvent::SpentSoFar(_)
        | AgentEvent::Unpriced { .. }
        | AgentEvent::Blocked(_)
        | AgentEvent::Noted { .. }
        | AgentEvent::Unknown { .. } => false,
    }
}

/// Where the files of a session are, and which of them can be read.
fn places(plan: &Plan<'_>, session: &str) -> Option<(Vec<Place>, Reading)> {
    Some(match place(plan, session)? {
        TranscriptPlace::File { path, beside } => {
            let beside = beside.map(|folder| Place::Below { folder, name: "*.jsonl".to_owned() });
            let places = std::iter::once(Place::File(path.clone())).chain(beside).collect();
            (places, Reading::Wanted(Some(path)))
        }
        TranscriptPlace::Below { folder, suffix } => {
            (vec![Place::Below { folder, name: format!("*{suffix}") }], Reading::Wanted(None))
        }
        TranscriptPlace::Growth { files } => (files.into_iter().map(Place::File).collect(), Reading::Nothing),
    })
}

/// The file with the agent's own record of the session, once it is there.
pub(in crate::run) fn transcript_file(plan: &Plan<'_>, session: &str) -> Option<PathBuf> {
    find_file(place(plan, session)?)
}

/// The agent's own record of a session, if there is one, for an agent with these variables in this directory.
pub fn session_transcript(
    agent: &dyn Agent,
    env: &[(OsString, OsString)],
    workspace: &Path,
    session: &str,
) -> Option<PathBuf> {
    find_file(place_for(agent, env, workspace, session)?)
}

fn find_file(place: TranscriptPlace) -> Option<PathBuf> {
    let file = match place {
        TranscriptPlace::File { path, .. } => Some(path),
        TranscriptPlace::Below { folder, suffix } => {
            let below = Place::Below { folder, name: format!("*{suffix}") };
            Tail::late(vec![below], Duration::ZERO).present().into_iter().map(|(path, _)| path).next()
        }
        TranscriptPlace::Growth { files } => files.into_iter().next_back(),
    };
    file.filter(|file| file.is_file())
}

fn place_for(
    agent: &dyn Agent,
    env: &[(OsString, OsString)],
    workspace: &Path,
    session: &str,
) -> Option<TranscriptPlace> {
    let variable = |name: &str| {
        let found = env.iter().rev().find(|(known, _)| known == OsStr::new(name));
        found.and_then(|(_, value)| value.to_str().map(str::to_owned))
    };
    let home = variable("HOME").map(PathBuf::from).or_else(std::env::home_dir).unwrap_or_default();
    agent.transcript(&Whereabouts { home: &home, variable: &variable, workspace, session })
}

/// Where the agent's own record of a session is.
fn place(plan: &Plan<'_>, session: &str) -> Option<TranscriptPlace> {
    let place = place_for(plan.agent, &plan.env, &plan.workspace, session)?;
    Some(match &plan.jail {
        Some(jail) => place.relocate(|path| jail.host_path(path)),
        None => place,
    })
}
