//! How a process of the run is reached: over pipes, or on a terminal.

use std::time::Duration;

use ostler_agent::agent::{Decoder, Exit};
use ostler_agent::stopping::Ear;

use super::on_terminal::OnTerminal;
use super::pipes::{self, Pipes};
use crate::run::NoTerminal;
use crate::terminal::driver;
use crate::terminal::seat::Seat;

/// The way to one process of the agent.
pub(in crate::run) enum Contact<'a> {
    /// It writes records, and may listen on its standard input.
    Pipes(Box<Pipes>),
    /// It is a program for a person, who is played.
    Terminal(Box<OnTerminal<'a>>),
}

/// What arrived from it.
pub(super) enum Arrived {
    Pipes(pipes::Arrived),
    Terminal(driver::Arrived),
}

impl<'a> Contact<'a> {
    /// Waits for what arrives next. Cancel safe.
    pub(super) async fn next(&mut self) -> Arrived {
        match self {
            Self::Pipes(pipes) => Arrived::Pipes(pipes.next().await),
            Self::Terminal(terminal) => Arrived::Terminal(terminal.driver.next().await),
        }
    }

    /// When it wants to be looked at.
    pub(super) fn wake_at(&self) -> Option<Duration> {
        match self {
            Self::Pipes(pipes) => pipes.wake_at(),
            Self::Terminal(terminal) => terminal.wake_at(),
        }
    }

    /// How it can be told to stop.
    pub(super) fn ear(&self) -> Ear {
        match self {
            Self::Pipes(pipes) => pipes.ear,
            Self::Terminal(_) => Ear::Terminal,
        }
    }

    /// Whether all that it will ever say was read.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Pipes(pipes) => pipes.stdout.is_none(),
            Self::Terminal(terminal) => terminal.driver.is_over(),
        }
    }

    /// What reads its records.
    pub(super) fn decoder(&mut self) -> &mut dyn Decoder {
        match self {
            Self::Pipes(pipes) => pipes.decoder.as_mut(),
            Self::Terminal(terminal) => terminal.driver.decoder(),
        }
    }

    /// The end of what it said beside its records, which may tell why it failed.
    pub(super) fn last_chatter(&self, exit: Exit) -> String {
        match (self, exit) {
            (Self::Pipes(pipes), _) => String::from_utf8_lossy(&pipes.tail).into_owned(),
            (Self::Terminal(terminal), exit) => terminal.driver.printed_last(exit),
        }
    }

    /// A seat at its terminal.
    pub(super) fn seat(&self) -> Result<Seat, NoTerminal> {
        match self {
            Self::Pipes(_) => Err(NoTerminal::Pipes),
            Self::Terminal(terminal) => Ok(terminal.driver.seat().clone()),
        }
    }

    /// The pipes, if it is reached over them.
    pub(super) fn pipes(&mut self) -> Option<&mut Pipes> {
        match self {
            Self::Pipes(pipes) => Some(pipes),
            Self::Terminal(_) => None,
        }
    }

    /// The terminal, if it is on one.
    pub(super) fn terminal(&mut self) -> Option<&mut OnTerminal<'a>> {
        match self {
            Self::Terminal(terminal) => Some(terminal),
            Self::Pipes(_) => None,
        }
    }
}
