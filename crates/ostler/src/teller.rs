//! Prints on a thread of its own: somebody who does not read must not hold up the work, nor its end. The thread is the
//! only one that writes, so that on a terminal the line that moves stays below those that stay.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::display;
use crate::status_line::{StatusLine, Words, clear_before_a_panic};

/// Lines that wait to be printed. When it is full, further ones are left out and counted: a log or a journal has them.
const WAITING_LINES: usize = 1024;

/// How long the end waits for a reader to take what is left.
const LAST_LINES: Duration = Duration::from_millis(500);

/// How often the line that moves is drawn while nothing else is: seconds are what it counts.
const TICK: Duration = Duration::from_secs(1);

/// How much is written at once, if so much waits.
const LARGEST_WRITE: usize = 64 * 1024;

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

/// Where it is printed.
struct Sheet {
    write: Box<dyn FnMut(&str) + Send>,
    note: Box<dyn FnMut(&str) + Send>,
    columns: fn() -> usize,
    line: Option<StatusLine>,
}

impl Teller {
    /// Starts the thread. It ends when every teller is gone.
    pub(crate) fn start() -> (Self, Printing) {
        Self::start_on(Sheet::stdout(None))
    }

    fn start_on(mut sheet: Sheet) -> (Self, Printing) {
        let (lines, waiting) = sync_channel::<String>(WAITING_LINES);
        let (end, done) = sync_channel(1);
        let skipped = Arc::new(AtomicUsize::new(0));
        let left_out = Arc::clone(&skipped);
        std::thread::spawn(move || {
            sheet.fill(&waiting, &left_out);
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

/// A teller and its thread in one hand. However it is let go, what moves is taken off the terminal.
pub(crate) struct Page {
    open: Option<(Teller, Printing)>,
    moves: bool,
}

impl Page {
    /// A page on stdout, with a line that moves if one is given and stdout is a terminal that can move it.
    pub(crate) fn open(words: Option<Words>) -> Self {
        let line = words.filter(|_| can_move()).map(|words| {
            clear_before_a_panic();
            StatusLine::new(words)
        });
        Self { moves: line.is_some(), open: Some(Teller::start_on(Sheet::stdout(line))) }
    }

    /// Whether there is a line that moves.
    pub(crate) fn moves(&self) -> bool {
        self.moves
    }

    /// Prints a text some time soon. Never blocks.
    pub(crate) fn tell(&self, text: String) {
        if let Some((teller, _)) = &self.open {
            teller.tell(text);
        }
    }

    /// Prints a last text below all others, and waits until it is printed: that one is not left out.
    pub(crate) fn close(mut self, last: String) {
        if let Some((teller, printing)) = self.open.take() {
            // It fails if the thread broke, and then there is nobody to wait for.
            let _ = teller.lines.send(last);
            drop(teller);
            let _ = printing.done.recv();
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if let Some((teller, printing)) = self.open.take() {
            drop(teller);
            printing.finish();
        }
    }
}

impl Sheet {
    fn stdout(line: Option<StatusLine>) -> Self {
        Self {
            // A reader who is gone does not end what is told.
            write: Box::new(|text| {
                let _ = display::bytes(text.as_bytes());
            }),
            note: Box::new(display::tell),
            columns: display::terminal_columns,
            line,
        }
    }

    /// Prints until every teller is gone.
    fn fill(&mut self, waiting: &Receiver<String>, left_out: &AtomicUsize) {
        loop {
            let next = match self.line {
                Some(_) => waiting.recv_timeout(TICK),
                None => waiting.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match next {
                Ok(mut text) => {
                    while text.len() < LARGEST_WRITE
                        && let Ok(more) = waiting.try_recv()
                    {
                        text.push_str(&more);
                    }
                    self.put(text, left_out.swap(0, Ordering::Relaxed));
                }
                Err(RecvTimeoutError::Timeout) => self.put(String::new(), 0),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if let Some(line) = &mut self.line {
            (self.write)(line.cleared());
        }
    }

    fn put(&mut self, mut text: String, left_out: usize) {
        let note = format!("note: {left_out} lines were left out, because nobody read them");
        match &mut self.line {
            Some(line) => {
                if left_out > 0 {
                    text = format!("{note}\n{text}");
                }
                (self.write)(&line.below(&text, (self.columns)()));
            }
            None => {
                if left_out > 0 {
                    (self.note)(&note);
                }
                (self.write)(&text);
            }
        }
    }
}

/// Whether a line can move on stdout: a terminal that erases, and nobody else who writes on it.
fn can_move() -> bool {
    let term = std::env::var_os("TERM").unwrap_or_default();
    let erases = !term.is_empty() && term != "dumb";
    // What is logged goes to stderr by itself, and would be in the midst of it.
    let is_logging =
        tracing_subscriber::filter::LevelFilter::current() != tracing_subscriber::filter::LevelFilter::OFF;
    std::io::stdout().is_terminal() && erases && !(is_logging && std::io::stderr().is_terminal())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    type Written = Arc<Mutex<Vec<String>>>;

    fn sheet(line: Option<StatusLine>) -> (Sheet, Written) {
        let written = Written::default();
        let (text, notes) = (Arc::clone(&written), Arc::clone(&written));
        let sheet = Sheet {
            write: Box::new(move |words| text.lock().unwrap().push(words.to_owned())),
            note: Box::new(move |words| notes.lock().unwrap().push(format!("({words})"))),
            columns: || 40,
            line,
        };
        (sheet, written)
    }

    fn line() -> Option<StatusLine> {
        Some(StatusLine::new(Box::new(|_| Some(" moving".to_owned()))))
    }

    #[test]
    fn the_line_is_gone_before_the_last_words_are_and_stays_gone() {
        let (sheet, written) = sheet(line());
        let page = Page { open: Some(Teller::start_on(sheet)), moves: true };
        page.tell("one\n".to_owned());
        page.close("last\n".to_owned());
        let all = written.lock().unwrap().concat();
        let mut screen =
            vt100::Parser::new(std::num::NonZero::new(5).unwrap(), std::num::NonZero::new(40).unwrap(), 0);
        screen.process(all.replace('\n', "\r\n").as_bytes());
        assert_eq!(screen.screen().contents(), "one\nlast");
    }

    #[test]
    fn a_page_that_is_let_go_takes_the_line_away() {
        let (sheet, written) = sheet(line());
        let page = Page { open: Some(Teller::start_on(sheet)), moves: true };
        page.tell("one\n".to_owned());
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _page = page;
            std::panic::resume_unwind(Box::new("broken"));
        }));
        assert!(unwound.is_err());
        assert_eq!(written.lock().unwrap().last().map(String::as_str), Some("\r\u{1b}[J"));
    }

    /// Somebody who does not read: the thread hangs in its first write for as long as the test wishes.
    #[test]
    fn nobody_is_held_up_by_a_reader_who_does_not_read() {
        let (mut sheet, written) = sheet(None);
        let ((go, gate), (hangs, hanging)) = (sync_channel::<()>(1), sync_channel::<()>(1));
        let mut write = sheet.write;
        sheet.write = Box::new(move |text| {
            let _ = hangs.try_send(());
            let _ = gate.recv();
            write(text);
        });
        let (teller, printing) = Teller::start_on(sheet);
        teller.tell("first\n".to_owned());
        // Not before it hangs: until then it takes lines as fast as they come, and none may be left out.
        hanging.recv().unwrap();
        for number in 0..WAITING_LINES * 3 {
            teller.tell(format!("{number}\n"));
        }
        drop(go);
        teller.lines.send("last\n".to_owned()).unwrap();
        drop(teller);
        printing.done.recv().unwrap();
        let written = written.lock().unwrap();
        assert!(written.concat().starts_with("first\n"));
        assert!(written.concat().ends_with("last\n"));
        assert!(written.iter().any(|line| line.ends_with("lines were left out, because nobody read them)")));
    }
}
