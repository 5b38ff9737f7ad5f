//! What goes through a terminal: what the program draws is read without pause, what is typed waits until there is room.

use std::io;

use super::pty::{Pty, Size};

/// Read at once. The kernel hands out at most 4 KiB of a terminal at a time.
const CHUNK: usize = 16 * 1024;

/// What may wait to be typed. A prompt of the largest size has room in it, with all that is typed around it; what more
/// is typed is refused.
const MOST_UNREAD: usize = 16 * 1024 * 1024;

/// How much is written at once: a terminal takes 4 KiB.
const WRITE_AT_ONCE: usize = 4 * 1024;

/// What arrived at a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrived {
    /// So many bytes were drawn; none once nobody has the other end any more.
    Drawn(usize),
    /// Some of what was to be typed was taken.
    Taken,
}

/// The way to and from a terminal program.
#[derive(Debug)]
pub(super) struct Pump {
    pty: Pty,
    buffer: Vec<u8>,
    unread: Vec<u8>,
    /// How much of that was taken.
    taken: usize,
    is_over: bool,
}

impl Pump {
    pub(super) fn new(pty: Pty) -> Self {
        Self { pty, buffer: vec![0; CHUNK], unread: Vec::new(), taken: 0, is_over: false }
    }

    /// Waits for the next thing. For ever once all is over. Cancel safe.
    pub(super) async fn next(&mut self) -> Arrived {
        if self.is_over {
            return std::future::pending().await;
        }
        let end = self.unread.len().min(self.taken + WRITE_AT_ONCE);
        let rest = &self.unread[self.taken..end];
        tokio::select! {
            biased;
            read = self.pty.read(&mut self.buffer) => {
                // Whatever else is wrong with it, nothing more will come.
                let count = read.unwrap_or(0);
                self.is_over = count == 0;
                Arrived::Drawn(count)
            }
            written = self.pty.write(rest), if !rest.is_empty() => {
                self.took(written);
                Arrived::Taken
            }
        }
    }

    fn took(&mut self, written: io::Result<usize>) {
        match written {
            Ok(count) => self.taken += count,
            // Nobody reads any more, which is told by the end of what is drawn.
            Err(_) => self.taken = self.unread.len(),
        }
        if self.taken >= self.unread.len() {
            self.unread = Vec::new();
            self.taken = 0;
        }
    }

    /// The bytes that arrived last.
    pub(super) fn drawn(&self, count: usize) -> &[u8] {
        &self.buffer[..count]
    }

    /// Types bytes, behind those that wait. Never blocks. Whether there was room.
    pub(super) fn type_in(&mut self, bytes: &[u8]) -> bool {
        let has_room = self.unread.len().saturating_add(bytes.len()) <= MOST_UNREAD;
        if has_room {
            self.unread.extend_from_slice(bytes);
        }
        has_room
    }

    /// Whether all that was typed was taken.
    pub(super) fn is_taken(&self) -> bool {
        self.unread.is_empty()
    }

    /// Whether nothing more will be drawn.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn resize(&self, size: Size) -> io::Result<()> {
        self.pty.resize(size)
    }
}

#[cfg(test)]
mod tests {
    use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

    use super::*;

    #[tokio::test]
    async fn a_megabyte_is_typed_while_as_much_is_drawn() {
        let (pty, program_end) = Pty::open(Size::USUAL).unwrap();
        let mut raw = tcgetattr(&program_end).unwrap();
        raw.make_raw();
        tcsetattr(&program_end, OptionalActions::Now, &raw).unwrap();
        let text: Vec<u8> = (b'a'..=b'z').cycle().take(1_000_000).collect();
        let wanted = text.len();
        // Draws all that it reads, and reads on only when that is drawn.
        let program = std::thread::spawn(move || {
            let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
            while read.len() < wanted {
                let count = rustix::io::read(&program_end, &mut buffer).unwrap();
                read.extend_from_slice(&buffer[..count]);
                let mut rest = &buffer[..count];
                while !rest.is_empty() {
                    rest = &rest[rustix::io::write(&program_end, rest).unwrap()..];
                }
            }
            read
        });
        let mut pump = Pump::new(pty);
        assert!(pump.type_in(&text) && !pump.type_in(&vec![0; MOST_UNREAD]));
        let mut drawn = Vec::new();
        while drawn.len() < wanted {
            if let Arrived::Drawn(count) = pump.next().await {
                assert!(count > 0, "it ended after {} bytes", drawn.len());
                drawn.extend_from_slice(pump.drawn(count));
            }
        }
        assert!(program.join().unwrap() == text && drawn == text && pump.is_taken());
        while !pump.is_over() {
            let _ = pump.next().await;
        }
    }
}
