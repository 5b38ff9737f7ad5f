//! Prints on a thread of its own: somebody who does not read must not hold up the work, nor its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use crate::display;

/// Lines that wait to be printed. When it is full, further ones are left out and counted: a log or a journal has them.
const WAITING_LINES: usize = 1024;

/// How long the end waits for a reader to take what is left.
const LAST_LINES: Duration = Duration::from_millis(500);

/// Takes lines and prints them in order, as far as somebody reads.
#[derive(Clone)]
pub(crate) struct Teller {
    lines: SyncSender<String>,
    skipped: Arc<AtomicUsize>,
}

/// The printing thread's end.
pub(crate) struct Printing {
    done: Receiver<()>,
}

impl Teller {
    /// Starts the thread. It ends when every teller is gone.
    pub(crate) fn start() -> (Self, Printing) {
        let (lines, waiting) = sync_channel::<String>(WAITING_LINES);
        let (end, done) = sync_channel(1);
        let skipped = Arc::new(AtomicUsize::new(0));
        let left_out = Arc::clone(&skipped);
        std::thread::spawn(move || {
            for line in waiting {
                let count = left_out.swap(0, Ordering::Relaxed);
                if count > 0 {
                    display::tell(&format!("note: {count} lines were left out, because nobody read them"));
                }
                // A reader who is gone does not end what is told.
                let _ = display::bytes(line.as_bytes());
            }
            let _ = end.send(());
        });
        (Self { lines, skipped }, Printing { done })
    }

    /// Prints a text some time soon. Never blocks.
    pub(crate) fn tell(&self, text: String) {
        if self.lines.try_send(text).is_err() {
            self.skipped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Printing {
    /// Waits until all is printed, but not for long. Drop every teller first.
    pub(crate) fn finish(self) {
        let _ = self.done.recv_timeout(LAST_LINES);
    }
}
