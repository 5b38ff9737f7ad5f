//! An answer being played: what is sent next, and when. Pure; the server sends and waits.

use std::collections::VecDeque;
use std::time::Duration;

use crate::ask::Ask;
use crate::director::{Answer, Beat, Speech};
use crate::script::{StopReason, Usage};
use crate::wire::{self, Encoder, Part};

/// A comment of server-sent events: every reader passes over it.
const KEEP_ALIVE: &str = ": keep-alive\n\n";

/// What the server does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Send this.
    Send(String),
    /// Wait this long.
    Wait(Duration),
    /// Wait until the client leaves.
    Hang,
    /// Drop the connection.
    Cut,
}

/// A streamed answer. Never holds more than one beat's text beyond what the wire format itself repeats.
pub(crate) struct Performance {
    encoder: Box<dyn Encoder>,
    beats: VecDeque<Beat>,
    ready: VecDeque<Act>,
    speech: Option<Reading>,
    stop: StopReason,
    usage: Usage,
    reported: Option<Usage>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Before,
    Playing,
    Over,
}

struct Reading {
    speech: Speech,
    at: usize,
    aside: bool,
}

impl Performance {
    /// `input` is the estimate of the request's tokens, used where the script reports none.
    pub(crate) fn new(answer: Answer, ask: &Ask, input: u64) -> Self {
        let estimate = Usage { input, ..Usage::default() };
        Self {
            encoder: wire::encoder(ask, answer.usage.unwrap_or(estimate)),
            beats: answer.beats.into(),
            ready: VecDeque::new(),
            speech: None,
            stop: answer.stop,
            usage: estimate,
            reported: answer.usage,
            state: State::Before,
        }
    }

    fn beat(&mut self, beat: Beat) {
        match beat {
            Beat::Text(speech) => self.speech = Some(Reading { speech, at: 0, aside: false }),
            Beat::Thought(speech) => self.speech = Some(Reading { speech, at: 0, aside: true }),
            Beat::Call(call) => {
                self.usage.output += 16;
                let frame = self.encoder.call(&call);
                self.ready.push_back(Act::Send(frame));
            }
            Beat::Silence(Some(duration)) => self.ready.push_back(Act::Wait(duration)),
            Beat::Silence(None) => self.ready.push_back(Act::Hang),
            Beat::KeepAlives { every, left } => self.keep_alive(every, left),
            Beat::Cut => self.ready.push_back(Act::Cut),
        }
    }

    /// Sends one, and the next ones if there is time left.
    fn keep_alive(&mut self, every: Duration, left: Option<Duration>) {
        self.ready.push_back(Act::Send(KEEP_ALIVE.to_owned()));
        self.ready.push_back(Act::Wait(left.map_or(every, |left| left.min(every))));
        let left = left.map(|left| left.saturating_sub(every));
        if left.is_none_or(|left| !left.is_zero()) {
            self.beats.push_front(Beat::KeepAlives { every, left });
        }
    }

    fn read_on(&mut self) -> Option<()> {
        let reading = self.speech.as_mut()?;
        let Speech { text, chunk, gap, repeat } = &mut reading.speech;
        let mut delta = String::new();
        let mut room = *chunk;
        // A short text that is said many times is dealt out in full chunks all the same.
        while room > 0 && *repeat > 0 {
            let rest = &text[reading.at..];
            let end = rest.char_indices().nth(room).map_or(rest.len(), |(end, _)| end);
            room -= rest[..end].chars().count();
            delta.push_str(&rest[..end]);
            reading.at += end;
            if reading.at >= text.len() {
                reading.at = 0;
                *repeat = if text.is_empty() { 0 } else { *repeat - 1 };
            }
        }
        let (gap, is_over, aside) = (*gap, *repeat == 0, reading.aside);
        if !delta.is_empty() {
            self.usage.output += tokens(delta.len());
            let frame = if aside { self.encoder.thought(&delta) } else { self.encoder.text(&delta) };
            self.ready.push_back(Act::Send(frame));
            if !gap.is_zero() {
                self.ready.push_back(Act::Wait(gap));
            }
        }
        if is_over {
            self.speech = None;
        }
        Some(())
    }
}

impl Iterator for Performance {
    type Item = Act;

    fn next(&mut self) -> Option<Act> {
        loop {
            if let Some(act) = self.ready.pop_front() {
                return Some(act);
            }
            match self.state {
                State::Over => return None,
                State::Before => {
                    self.state = State::Playing;
                    return Some(Act::Send(self.encoder.open()));
                }
                State::Playing => {}
            }
            if self.read_on().is_some() {
                continue;
            }
            match self.beats.pop_front() {
                Some(beat) => self.beat(beat),
                None => {
                    self.state = State::Over;
                    let usage = self.reported.unwrap_or(self.usage);
                    return Some(Act::Send(self.encoder.close(self.stop, usage)));
                }
            }
        }
    }
}

/// What an answer comes to when it is sent in one piece.
#[derive(Debug, PartialEq)]
pub(crate) enum Whole {
    /// After these waits, this body.
    Body(Vec<Duration>, Box<serde_json::Value>),
    /// After these waits, nothing any more.
    Hang,
    /// After these waits, the connection is dropped.
    Cut,
}

/// The answer in one piece.
pub(crate) fn whole(answer: Answer, ask: &Ask, input: u64) -> Whole {
    let mut parts: Vec<Part> = Vec::new();
    let mut waits = Vec::new();
    let mut usage = Usage { input, ..Usage::default() };
    for beat in answer.beats {
        match beat {
            Beat::Text(speech) => match parts.last_mut() {
                Some(Part::Text(text)) => text.push_str(&speech.text.repeat(speech.repeat)),
                Some(_) | None => parts.push(Part::Text(speech.text.repeat(speech.repeat))),
            },
            Beat::Thought(speech) => parts.push(Part::Thought(speech.text)),
            Beat::Call(call) => parts.push(Part::Call(call)),
            Beat::Silence(Some(duration)) | Beat::KeepAlives { left: Some(duration), .. } => {
                waits.push(duration);
            }
            Beat::Silence(None) | Beat::KeepAlives { left: None, .. } => return Whole::Hang,
            Beat::Cut => return Whole::Cut,
        }
    }
    usage.output = parts
        .iter()
        .map(|part| match part {
            Part::Text(text) | Part::Thought(text) => tokens(text.len()),
            Part::Call(_) => 16,
        })
        .sum();
    Whole::Body(waits, Box::new(wire::whole(ask, &parts, answer.stop, answer.usage.unwrap_or(usage))))
}

/// A rough count: four bytes a token.
pub(crate) fn tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4)
}
