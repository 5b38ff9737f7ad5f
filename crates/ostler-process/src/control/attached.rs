//! A connection at which somebody sits at an agent's terminal. One JSON object a line, bytes in base64.
//!
//! To the viewer: `{"shown":"anew","rows":40,"columns":120,"bytes":"…"}` (forget what was shown; an empty terminal of that
//! size, fed these bytes, shows the same) and `{"shown":"bytes","bytes":"…"}` (what the program wrote since). The
//! connection ends when the terminal is closed. From one who holds it: `{"do":"type","bytes":"…"}` and
//! `{"do":"resize","rows":24,"columns":80}`. Closing the connection gives the seat back.

use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::LONGEST_LINE;
use crate::terminal::pty::Size;
use crate::terminal::seat::{Hold, Shown, Viewer};

/// How long a viewer may take nothing of what it is shown. One that is stopped must not keep the keys for ever.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes that are typed in one line.
const MOST_TYPED: usize = 48 * 1024;

/// Bytes that may wait to be sent by whoever types: a large paste.
const MOST_UNSENT: usize = 2 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "shown", rename_all = "snake_case")]
enum Told {
    Anew { rows: u16, columns: u16, bytes: String },
    Bytes { bytes: String },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum Done {
    Type { bytes: String },
    Resize { rows: u16, columns: u16 },
}

/// Our end: somebody who was let in.
pub(super) struct Seated {
    pub(super) reader: BufReader<OwnedReadHalf>,
    pub(super) writer: OwnedWriteHalf,
    pub(super) viewer: Viewer,
    pub(super) hold: Option<Hold>,
}

impl Seated {
    /// Until they leave, or the terminal is closed.
    pub(super) async fn sit(self) {
        let Self { reader, writer, viewer, hold } = self;
        tokio::select! {
            () = show(viewer, writer) => {}
            () = hear(reader, hold.as_ref()) => {}
        }
    }
}

async fn show(mut viewer: Viewer, mut writer: OwnedWriteHalf) {
    while let Some(shown) = viewer.next().await {
        let told = match shown {
            Shown::Anew { size: Size { columns, rows }, bytes } => {
                Told::Anew { rows, columns, bytes: STANDARD.encode(bytes) }
            }
            Shown::Bytes(bytes) => Told::Bytes { bytes: STANDARD.encode(bytes) },
        };
        let Ok(mut line) = serde_json::to_vec(&told) else { return };
        line.push(b'\n');
        if !matches!(tokio::time::timeout(PATIENCE, writer.write_all(&line)).await, Ok(Ok(()))) {
            return;
        }
    }
}

async fn hear(reader: BufReader<OwnedReadHalf>, hold: Option<&Hold>) {
    let mut lines = Lines::new(reader);
    while let Some(done) = lines.next::<Done>().await {
        // Whoever only watches is not listened to.
        let Some(hold) = hold else { continue };
        match done {
            Done::Type { bytes } => {
                let Ok(bytes) = STANDARD.decode(bytes) else { return };
                if hold.type_in(&bytes).await.is_err() {
                    return;
                }
            }
            Done::Resize { rows, columns } => hold.resize(Size { columns, rows }),
        }
    }
}

/// Lines of JSON, as they come.
#[derive(Debug)]
struct Lines {
    reader: BufReader<OwnedReadHalf>,
    /// The beginning of the next one.
    line: Vec<u8>,
}

impl Lines {
    fn new(reader: BufReader<OwnedReadHalf>) -> Self {
        Self { reader, line: Vec::new() }
    }

    /// The next one. Nothing at the end, which nonsense is too. Cancel safe.
    async fn next<T: for<'a> Deserialize<'a>>(&mut self) -> Option<T> {
        let room = LONGEST_LINE.saturating_sub(self.line.len());
        // What was read of it stays in the line when this is dropped.
        (&mut self.reader).take(room as u64).read_until(b'\n', &mut self.line).await.ok()?;
        let line = std::mem::take(&mut self.line);
        serde_json::from_slice(&line).ok()
    }
}

/// A viewer's end.
#[derive(Debug)]
pub struct Attached {
    /// What is shown.
    pub eyes: Eyes,
    /// What is typed.
    pub fingers: Fingers,
}

/// Where what is shown comes from.
#[derive(Debug)]
pub struct Eyes {
    lines: Lines,
}

/// Where what is typed goes.
#[derive(Debug)]
pub struct Fingers {
    writer: OwnedWriteHalf,
    unsent: Vec<u8>,
}

impl Attached {
    pub(super) fn new(reader: BufReader<OwnedReadHalf>, writer: OwnedWriteHalf) -> Self {
        let eyes = Eyes { lines: Lines::new(reader) };
        Self { eyes, fingers: Fingers { writer, unsent: Vec::new() } }
    }
}

impl Eyes {
    /// What is shown next. Nothing once the terminal is closed, or whoever runs the agent is gone. Cancel safe.
    pub async fn next(&mut self) -> Option<Shown> {
        match self.lines.next::<Told>().await? {
            Told::Anew { rows, columns, bytes } => {
                Some(Shown::Anew { size: Size { columns, rows }, bytes: STANDARD.decode(bytes).ok()? })
            }
            Told::Bytes { bytes } => Some(Shown::Bytes(STANDARD.decode(bytes).ok()?)),
        }
    }
}

impl Fingers {
    /// Has bytes typed as they are, in the order of the calls. Never blocks: [`Fingers::send`] sends them. What is typed
    /// while an agent leaves very much unread is dropped.
    pub fn type_in(&mut self, bytes: &[u8]) {
        if self.unsent.len() + bytes.len() > MOST_UNSENT {
            return;
        }
        for piece in bytes.chunks(MOST_TYPED) {
            self.push(&Done::Type { bytes: STANDARD.encode(piece) });
        }
    }

    /// The window has another size.
    pub fn resize(&mut self, Size { columns, rows }: Size) {
        self.push(&Done::Resize { rows, columns });
    }

    fn push(&mut self, done: &Done) {
        if let Ok(line) = serde_json::to_vec(done) {
            self.unsent.extend(line);
            self.unsent.push(b'\n');
        }
    }

    /// Sends some of what waits. Waits for ever if nothing does. Cancel safe.
    pub async fn send(&mut self) -> io::Result<()> {
        if self.unsent.is_empty() {
            return std::future::pending().await;
        }
        let sent = self.writer.write(&self.unsent).await?;
        self.unsent.drain(..sent);
        Ok(())
    }

    /// Sends all that waits.
    pub async fn finish(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            self.send().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "attached_tests.rs"]
mod tests;
