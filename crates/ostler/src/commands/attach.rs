//! `ostler attach`: watch the terminal of a live run's agent, or take it over.

mod window;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use ostler_process::control::attach;
use ostler_process::control::attached::Attached;
use ostler_process::journal::{Kept, find};
use ostler_process::terminal::painter::{Manner, Painter};
use ostler_process::terminal::pty::Size;
use ostler_process::terminal::seat::Shown;
use tokio::signal::unix::{SignalKind, signal};
use window::Window;

use crate::display;
use crate::failure::Failure;
use crate::interrupt::{Interrupted, Signals};
use crate::surroundings::Surroundings;

/// Ctrl-]: as telnet has it. Agents do not use it.
const DETACH: u8 = 0x1d;

/// Ctrl-C, and the letter with which pagers are left: whoever only watches has no other use for them.
const QUIT: [u8; 3] = [DETACH, 0x03, b'q'];

/// How long what was typed last may take to get away.
const LAST_KEYS: Duration = Duration::from_secs(2);

/// Arguments of `ostler attach`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler attach last             take it over: your keys go to the agent, Ostler does not type
  ostler attach last --view      only watch; several can
  ostler sessions                which runs have a terminal

Ctrl-] leaves, and the run goes on. Only runs with the terminal engine have a terminal:
`ostler run -a claude`. What is in the agent's box when you leave stays there: send it or clear it.")]
pub(crate) struct Args {
    /// The run: its id, the beginning of it, or `last`.
    #[arg(value_name = "ID")]
    run: String,

    /// Only watch: type nothing, and leave its size as it is.
    #[arg(long)]
    view: bool,
}

/// Why nobody can sit down.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttachError {
    /// There is no window to show it in.
    #[error("`ostler attach` wants a terminal")]
    NoTerminal(#[source] io::Error),
    /// It broke on the way.
    #[error("could not go on showing the terminal")]
    Window(#[source] io::Error),
}

impl AttachError {
    /// What to try.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::NoTerminal(_) => {
                Some("`ostler sessions show ID` prints what its terminal shows".to_owned())
            }
            Self::Window(_) => None,
        }
    }
}

/// How it ended.
enum Left {
    Detached,
    Closed,
    By(Interrupted),
}

/// Runs it.
pub(crate) async fn run(args: Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    let kept = find(&here.home.runs(), &args.run)?;
    let manner = if args.view { Manner::View } else { Manner::Hold };
    let window = Window::open().map_err(AttachError::NoTerminal)?;
    let size = window.size().map_err(AttachError::NoTerminal)?;
    let attached = attach(&kept, manner, size).await?;
    let left = sit(window, manner, size, attached).await?;
    tell(&kept, &left)?;
    Ok(match left {
        Left::Detached | Left::Closed => ExitCode::SUCCESS,
        Left::By(by) => ExitCode::from(by.exit_code()),
    })
}

fn tell(kept: &Kept, left: &Left) -> Result<(), Failure> {
    let run = &kept.facts.run;
    match left {
        Left::Detached | Left::By(_) => {
            display::text(&format!("left the terminal of run {run}, which goes on\n"))
        }
        Left::Closed => display::text(&format!(
            "the terminal of run {run} is closed: `ostler runs show {run}` tells more\n"
        )),
    }
}

/// Shows it, and types for whoever holds it, until one of both ends.
async fn sit(window: Window, manner: Manner, size: Size, attached: Attached) -> Result<Left, Failure> {
    let mut signals = Signals::listen().map_err(Failure::Runtime)?;
    let mut resized = signal(SignalKind::window_change()).map_err(Failure::Runtime)?;
    let Attached { mut eyes, mut fingers } = attached;
    let mut painter = Painter::new(manner, size);
    let mut taken = window.take(&painter).map_err(AttachError::NoTerminal)?;
    loop {
        let arrived = tokio::select! {
            biased;
            by = signals.next() => Arrived::Left(Left::By(by)),
            _ = resized.recv() => Arrived::Resized,
            keys = taken.keys() => Arrived::Keys(keys.map_err(AttachError::Window)?),
            sent = fingers.send() => Arrived::Sent(sent),
            // A window that is slow is shown the end of it: what comes waits where the agent runs.
            count = taken.paint(), if taken.has_unpainted() => Arrived::Painted(count),
            shown = eyes.next(), if !taken.has_unpainted() => Arrived::Shown(shown),
        };
        match arrived {
            Arrived::Left(left) => return Ok(left),
            Arrived::Resized => {
                let size = taken.size().map_err(AttachError::Window)?;
                painter.resize(size);
                if manner == Manner::Hold {
                    fingers.resize(size);
                }
            }
            Arrived::Keys(keys) => match end_in(&keys, manner) {
                Some(end) => {
                    if manner == Manner::Hold {
                        fingers.type_in(&keys[..end]);
                        // What was typed before is not held up for ever by an agent that does not read.
                        let _ = tokio::time::timeout(LAST_KEYS, fingers.finish()).await;
                    }
                    return Ok(Left::Detached);
                }
                None if manner == Manner::Hold => fingers.type_in(&keys),
                None => {}
            },
            Arrived::Shown(Some(shown)) => painter.show(&shown),
            Arrived::Shown(None) | Arrived::Sent(Err(_)) => return Ok(Left::Closed),
            Arrived::Painted(count) => taken.painted(count.map_err(AttachError::Window)?),
            Arrived::Sent(Ok(())) => {}
        }
        if !taken.has_unpainted() {
            taken.show(painter.paint());
        }
        taken.note(painter.leave());
    }
}

/// Where among the keys is the one that leaves.
fn end_in(keys: &[u8], manner: Manner) -> Option<usize> {
    keys.iter().position(|key| match manner {
        Manner::Hold => *key == DETACH,
        Manner::View => QUIT.contains(key),
    })
}

/// What the loop waits for.
enum Arrived {
    Left(Left),
    Resized,
    Keys(Vec<u8>),
    Sent(io::Result<()>),
    Painted(io::Result<usize>),
    Shown(Option<Shown>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_that_leaves_is_found_among_others() {
        let table = [
            ("abc", Manner::Hold, None),
            ("ab\u{1d}c", Manner::Hold, Some(2)),
            ("q\u{3}", Manner::Hold, None),
            ("q", Manner::View, Some(0)),
            ("x\u{3}", Manner::View, Some(1)),
            ("\u{1d}", Manner::View, Some(0)),
        ];
        for (keys, manner, want) in table {
            assert_eq!(end_in(keys.as_bytes(), manner), want, "{keys:?}");
        }
    }
}
