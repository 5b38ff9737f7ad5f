//! A process that writes records on its standard output: bytes into records, records into events.

use std::path::PathBuf;
use std::time::Duration;

use ostler_agent::agent::{Decoder, Source, Stdin};
use ostler_agent::framer::{Frame, Framer};
use ostler_agent::record::Record;
use ostler_agent::run_event::{Channel, RunEventKind};
use ostler_agent::source;
use ostler_agent::stopping::Ear;
use ostler_agent::watchdog::{EventKind, Input};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::time::Instant;

use super::Round;
use super::transcript::Transcript;
use crate::contain::Contained;
use crate::journal::{JournalError, Stream};
use crate::run::writer::Writer;

/// Read at once: as much as a pipe holds.
const CHUNK: usize = 64 * 1024;

/// Longest line of its standard error that is read; agents log whole requests there.
const LONGEST_LOG_LINE: usize = 64 * 1024;

/// How much of the end of its standard error is looked at for why an agent failed.
const TAIL: usize = 8 * 1024;

/// The pipes of one process, and its own record beside them.
pub(in crate::run) struct Pipes {
    pub(super) decoder: Box<dyn Decoder>,
    pub(super) stdout: Option<Receiver>,
    stderr: Option<Receiver>,
    pub(super) writer: Writer,
    pub(super) ear: Ear,
    framer: Framer,
    err_framer: Framer,
    /// The end of its standard error.
    pub(super) tail: Vec<u8>,
    pub(super) transcript: Transcript,
    out: Vec<u8>,
    err: Vec<u8>,
}

/// What arrived.
pub(super) enum Arrived {
    Bytes(Stream, usize),
    Grown(Vec<PathBuf>),
}

impl Pipes {
    pub(in crate::run) fn new(
        child: &mut Contained,
        stdin: Stdin,
        decoder: Box<dyn Decoder>,
        transcript: Transcript,
    ) -> Self {
        let (writer, ear) = Writer::start(child.stdin.take(), stdin);
        Self {
            decoder,
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            writer,
            ear,
            framer: Framer::default(),
            err_framer: Framer::with_longest(LONGEST_LOG_LINE),
            tail: Vec::new(),
            transcript,
            out: vec![0; CHUNK],
            err: vec![0; CHUNK],
        }
    }

    /// Cancel safe.
    pub(super) async fn next(&mut self) -> Arrived {
        tokio::select! {
            biased;
            count = read(&mut self.stdout, &mut self.out) => Arrived::Bytes(Stream::Stdout, count),
            count = read(&mut self.stderr, &mut self.err) => Arrived::Bytes(Stream::Stderr, count),
            files = self.transcript.grew() => Arrived::Grown(files),
        }
    }

    pub(super) fn wake_at(&self) -> Option<Duration> {
        self.transcript.wake_at()
    }
}

impl Round<'_, '_> {
    pub(super) async fn piped(&mut self, arrived: Arrived) -> Result<(), JournalError> {
        match arrived {
            Arrived::Bytes(Stream::Stdout, count) => self.said(count).await,
            Arrived::Bytes(Stream::Stderr | Stream::Terminal, count) => self.on_stderr(count).await,
            Arrived::Grown(files) => self.grew(&files).await,
        }
    }

    /// So many bytes of its standard output; none are its end.
    async fn said(&mut self, count: usize) -> Result<(), JournalError> {
        let Some(pipes) = self.contact.pipes() else { return Ok(()) };
        let bytes = &pipes.out[..count];
        self.run.desk.raw(Stream::Stdout, bytes)?;
        let mut records = Vec::new();
        let read = if self.run.plan.agent.writes_records() { Record::read } else { Record::text };
        let mut keep = |frame: Frame<'_>| {
            records.push(match frame {
                Frame::Line(line) => read(line),
                Frame::TooLong(length) => Record::Garbled(format!("a line of {length} bytes")),
            });
        };
        let is_end = bytes.is_empty();
        if is_end {
            pipes.framer.finish(&mut keep);
            pipes.stdout = None;
        } else {
            pipes.framer.feed(bytes, &mut keep);
        }
        for record in records {
            self.read(record).await?;
        }
        if is_end {
            self.note_source(source::Input::Closed);
            self.watch(Input::Eof).await?;
        }
        Ok(())
    }

    /// Standard error is no sign of life, but for the lines that the agent's decoder knows. Its end may show why an agent
    /// failed.
    async fn on_stderr(&mut self, count: usize) -> Result<(), JournalError> {
        let Some(pipes) = self.contact.pipes() else { return Ok(()) };
        let bytes = &pipes.err[..count];
        self.run.desk.raw(Stream::Stderr, bytes)?;
        let (mut events, decoder) = (Vec::new(), &mut pipes.decoder);
        let mut read = |frame: Frame<'_>| {
            if let Frame::Line(line) = frame {
                events.extend(decoder.stderr_line(&String::from_utf8_lossy(line)));
            }
        };
        if bytes.is_empty() {
            pipes.err_framer.finish(&mut read);
            pipes.stderr = None;
        } else {
            pipes.err_framer.feed(bytes, &mut read);
        }
        pipes.tail.extend_from_slice(bytes);
        let over = pipes.tail.len().saturating_sub(TAIL);
        pipes.tail.drain(..over);
        for event in events {
            self.heard(event).await?;
        }
        Ok(())
    }

    async fn read(&mut self, record: Record) -> Result<(), JournalError> {
        if record != Record::Blank {
            self.note_source(source::Input::Heard);
        }
        let events = match record {
            Record::Blank => return Ok(()),
            Record::Json(value) => {
                let events = self.contact.decoder().events(Source::Stdout, &value);
                if events.is_empty() {
                    self.seen(Channel::Stdout)?;
                    return self.watch(Input::Event(EventKind::Noted)).await;
                }
                events
            }
            Record::Noise(text) => {
                let events = self.contact.decoder().noise(&text);
                if events.is_empty() {
                    self.run.desk.tell(RunEventKind::Noise { text })?;
                }
                events
            }
            Record::Garbled(text) => {
                self.run.desk.tell(RunEventKind::Garbled { text })?;
                return self.watch(Input::Event(EventKind::Unknown)).await;
            }
        };
        for event in events {
            self.heard(event).await?;
        }
        Ok(())
    }

    /// Tells which of the two records is listened to what happened to the standard output.
    pub(super) fn note_source(&mut self, input: source::Input) {
        let now = self.run.desk.now();
        if let Some(pipes) = self.contact.pipes() {
            pipes.transcript.note(now, input);
        }
    }

    /// Reads what is left in the pipes, once nobody is left who could write.
    pub(super) async fn drain_pipes(&mut self, until: Instant) -> Result<(), JournalError> {
        loop {
            let Some(pipes) = self.contact.pipes() else { return Ok(()) };
            let (stream, rest) = if pipes.stdout.is_some() {
                let read = read(&mut pipes.stdout, &mut pipes.out);
                (Stream::Stdout, tokio::time::timeout_at(until, read).await)
            } else if pipes.stderr.is_some() {
                let read = read(&mut pipes.stderr, &mut pipes.err);
                (Stream::Stderr, tokio::time::timeout_at(until, read).await)
            } else {
                return Ok(());
            };
            // One that is still held, by whoever cannot be ended, is not waited for.
            self.piped(Arrived::Bytes(stream, rest.unwrap_or(0))).await?;
        }
    }
}

/// The next bytes; none at the end, which a broken pipe is too. Waits for ever without a pipe. Cancel safe.
async fn read(pipe: &mut Option<Receiver>, buffer: &mut [u8]) -> usize {
    match pipe {
        Some(pipe) => pipe.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}
