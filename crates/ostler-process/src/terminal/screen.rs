//! What a program shows on its terminal.
//!
//! The screen is drawn by `vt100`. Around it: bytes may come in any pieces, questions of the program are answered,
//! a frame that the program holds together is shown when it is whole, and what is shown can be drawn again elsewhere
//! ([`Screen::restore`]). Where `vt100` does otherwise than xterm, sequences are put so that it does the same; what
//! is left of such differences is told in `docs/design/terminal.md`.

use std::num::NonZero;
use std::time::{Duration, Instant};

use ostler_agent::look::Look;

use super::asked::{self, Now};
use super::background;
use super::csi::Csi;
use super::memory::Memory;
use super::pty::Size;
use super::ring::Ring;
use super::tokens::{Cutter, Token};

/// How many of the last bytes are kept: some screens full, with their colours.
const RING: usize = 128 * 1024;

/// How long a program may hold a frame together. One that died in the middle of a frame must not hide what it showed.
const LONGEST_FRAME: Duration = Duration::from_secs(1);

/// Answers that may wait to be written. A program that asks more without reading is answered no further.
const MOST_REPLIES: usize = 4 * 1024;

/// Longest title that is kept.
const LONGEST_TITLE: usize = 1024;

/// A terminal's screen.
pub struct Screen {
    parser: vt100::Parser,
    cutter: Cutter,
    ring: Ring,
    memory: Memory,
    title: String,
    /// What was shown when the program began a frame that is not whole yet.
    frame: Option<(Instant, Box<vt100::Screen>)>,
    replies: Vec<u8>,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen")
            .field("size", &self.size())
            .field("title", &self.title)
            .finish_non_exhaustive()
    }
}

impl Screen {
    /// An empty one.
    pub fn new(size: Size) -> Self {
        let (rows, columns) = sides(size);
        Self {
            parser: vt100::Parser::new(rows, columns, 0),
            cutter: Cutter::default(),
            ring: Ring::new(RING),
            memory: Memory::default(),
            title: String::new(),
            frame: None,
            replies: Vec::new(),
        }
    }

    /// Draws what the program wrote. The pieces may be cut anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.ring.push(bytes);
        let mut cutter = std::mem::take(&mut self.cutter);
        cutter.cut(bytes, |token| match token {
            Token::Text(text) => self.draw(text),
            Token::Sequence(sequence) => self.obey(sequence),
        });
        self.cutter = cutter;
    }

    /// What is to be written back to the program, because it asked. At most once.
    pub fn replies(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.replies)
    }

    /// What is shown: the last whole frame, if the program holds frames together.
    pub fn look(&self) -> Look {
        let screen = self.shown();
        let size = self.size();
        let (row, column) = screen.cursor_position();
        Look {
            rows: screen.rows(0, size.columns).map(|row| row.trim_end().to_owned()).collect(),
            columns: size.columns,
            cursor: (!screen.hide_cursor()).then_some((row, column.min(size.columns - 1))),
            title: self.title.clone(),
        }
    }

    /// The title that the program gave its window.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// How large it is.
    pub fn size(&self) -> Size {
        let (rows, columns) = self.parser.screen().size();
        Size { columns: columns.get(), rows: rows.get() }
    }

    /// Makes it another size. What does not fit any more is cut, as a terminal does; the program draws anew.
    pub fn resize(&mut self, size: Size) {
        let (rows, columns) = sides(size);
        self.parser.set_size(rows, columns);
        self.memory.resized();
        self.frame = None;
    }

    /// The last bytes that came, as they came.
    pub fn recent(&self) -> Vec<u8> {
        self.ring.to_vec()
    }

    /// Whether the program is in the middle of a frame that it holds together.
    pub fn is_mid_frame(&self) -> bool {
        self.frame.as_ref().is_some_and(|(since, _)| since.elapsed() < LONGEST_FRAME)
    }

    /// The cells as they are drawn, whole or not.
    #[cfg(test)]
    pub(super) fn drawn(&self) -> &vt100::Screen {
        self.parser.screen()
    }

    /// The cells as they are to be seen: the last whole frame.
    pub(super) fn shown(&self) -> &vt100::Screen {
        match &self.frame {
            Some((since, before)) if since.elapsed() < LONGEST_FRAME => before,
            Some(_) | None => self.parser.screen(),
        }
    }

    /// Bytes that make an empty terminal of the same size show the same, and go on in the same way with what comes
    /// next.
    pub fn restore(&mut self) -> Vec<u8> {
        let mut drawn = String::new();
        let is_alternate = self.parser.screen().alternate_screen();
        let saved_there = self.memory.saved_there();
        if !saved_there.is_empty() {
            drawn.extend(["\x1b[?1049h", &saved_there, "\x1b[?1049l"]);
        }
        if is_alternate {
            // Both have a cursor of their own, which going over and back leaves alone.
            self.parser.process(b"\x1b[?47l");
            self.memory.draw_below(self.parser.screen(), &mut drawn);
            self.parser.process(b"\x1b[?47h");
        }
        self.memory.draw(self.parser.screen(), &mut drawn);
        if !self.title.is_empty() {
            drawn.extend(["\x1b]2;", &self.title, "\x07"]);
        }
        if self.frame.is_some() {
            drawn.push_str("\x1b[?2026h");
        }
        let mut bytes = drawn.into_bytes();
        bytes.extend_from_slice(self.cutter.held());
        bytes
    }

    fn draw(&mut self, text: &[u8]) {
        let bottom = self.memory.bottom(self.parser.screen());
        background::draw(&mut self.parser, text, bottom);
    }

    /// One whole sequence.
    fn obey(&mut self, sequence: &[u8]) {
        if let Some(answer) = asked::answer(sequence, self.now()) {
            if self.replies.len() + answer.len() <= MOST_REPLIES {
                self.replies.extend_from_slice(answer.as_bytes());
            }
            return;
        }
        match sequence {
            [0x08] => {
                self.end_waiting();
                self.parser.process(sequence);
            }
            [0x1b, b'[', ..] => match Csi::of(sequence) {
                Some(csi) => self.control(csi, sequence),
                None => self.parser.process(sequence),
            },
            [0x1b, b']', body @ ..] => self.name(body),
            // To the next row, and to its beginning. `vt100` does not know them.
            b"\x1bD" => self.draw(b"\n"),
            b"\x1bE" => self.draw(b"\r\n"),
            b"\x1b7" => {
                self.memory.save(self.parser.screen());
                self.parser.process(sequence);
            }
            b"\x1b8" => self.back_to_saved(sequence),
            b"\x1bc" => {
                self.parser.process(sequence);
                self.memory = Memory::default();
                self.title.clear();
                self.frame = None;
            }
            _ => self.parser.process(sequence),
        }
    }

    fn control(&mut self, csi: Csi<'_>, sequence: &[u8]) {
        match (csi.mark, csi.intermediate, csi.action) {
            // Moves within a row begin in the last column, and moves to another row end there.
            (None, None, b'A' | b'B' | b'D' | b'd' | b'@' | b'P' | b'X') => {
                self.end_waiting();
                self.parser.process(sequence);
            }
            (None, None, b'J') if csi.first() == 0 => {
                self.end_waiting();
                self.erase(csi, sequence);
            }
            (None, None, b'K') => self.erase(csi, sequence),
            (None, None, b's') => {
                self.memory.save(self.parser.screen());
                self.parser.process(b"\x1b7");
            }
            (None, None, b'u') => self.back_to_saved(b"\x1b8"),
            (None, None, b'r') => {
                self.memory.region(self.parser.screen(), csi);
                self.parser.process(sequence);
            }
            (Some(b'?'), None, b'h' | b'l') => {
                let is_set = csi.action == b'h';
                for mode in csi.numbers() {
                    self.set(mode, is_set);
                }
            }
            _ => self.parser.process(sequence),
        }
    }

    /// Erases from the cursor, or up to it. Of a wide letter both halves go, in the same colour.
    fn erase(&mut self, csi: Csi<'_>, sequence: &[u8]) {
        let screen = self.parser.screen();
        let (row, column) = screen.cursor_position();
        let is = |half: fn(&vt100::Cell) -> bool| screen.cell(row, column).is_some_and(half);
        let around: [&[u8]; 2] = match csi.first() {
            0 if is(vt100::Cell::is_wide_continuation) => [b"\x1b[D", b"\x1b[C"],
            1 if is(vt100::Cell::is_wide) => [b"\x1b[C\x1b[X\x1b[D", b""],
            _ => [b"", b""],
        };
        self.parser.process(around[0]);
        self.parser.process(sequence);
        self.parser.process(around[1]);
    }

    /// One mode, so that those which `vt100` does not know are kept here.
    fn set(&mut self, mode: u16, is_set: bool) {
        let action = if is_set { 'h' } else { 'l' };
        match (mode, is_set) {
            (2026, true) => {
                let before = self.shown().clone();
                self.frame = Some((Instant::now(), Box::new(before)));
            }
            (2026, false) => self.frame = None,
            (1049, true) if self.parser.screen().alternate_screen() => {}
            (1049, true) => {
                let (row, column) = self.parser.screen().cursor_position();
                let style = self.parser.screen().attributes_formatted();
                self.memory.save(self.parser.screen());
                self.memory.cleared();
                self.parser.process(b"\x1b[?1049h");
                // What was saved there is still saved; it is empty in the colour of now, and the cursor is where it was.
                let saved = self.memory.saved_there();
                let drawn = format!("{saved}{style}\x1b[2J\x1b[{};{}H", row + 1, column + 1);
                self.parser.process(drawn.as_bytes());
            }
            (1049, false) => self.back_to_saved(b"\x1b[?1049l"),
            (mode, is_set) => {
                self.memory.mode(mode, is_set);
                self.parser.process(format!("\x1b[?{mode}{action}").as_bytes());
            }
        }
    }

    /// The cursor is where it was saved on this screen, and writes as it did then. `vt100` has one memory of how it
    /// wrote for both screens.
    fn back_to_saved(&mut self, sequence: &[u8]) {
        self.parser.process(sequence);
        let writes = self.memory.saved_style(self.parser.screen()).to_owned();
        self.parser.process(writes.as_bytes());
    }

    /// The title. Other things that a program names (folders, links, marks in the output) are not shown.
    fn name(&mut self, body: &[u8]) {
        let body = body.strip_suffix(b"\x07").or_else(|| body.strip_suffix(b"\x1b\\")).unwrap_or(body);
        let title = body.strip_prefix(b"0;").or_else(|| body.strip_prefix(b"2;"));
        if let Some(title) = title {
            let title = String::from_utf8_lossy(title);
            self.title = title.chars().filter(|letter| !letter.is_control()).take(LONGEST_TITLE).collect();
        }
    }

    /// After a letter in the last column the cursor waits there. `vt100` has it one further, where it counts as a column.
    fn end_waiting(&mut self) {
        let columns = self.size().columns;
        if self.parser.screen().cursor_position().1 >= columns {
            self.parser.process(format!("\x1b[{columns}G").as_bytes());
        }
    }

    fn now(&self) -> Now {
        let (screen, size) = (self.parser.screen(), self.size());
        Now {
            cursor: screen.cursor_position(),
            rows: size.rows,
            columns: size.columns,
            is_synchronized: self.frame.is_some(),
            has_bracketed_paste: screen.bracketed_paste(),
            is_cursor_hidden: screen.hide_cursor(),
        }
    }
}

/// A terminal has at least one cell.
fn sides(size: Size) -> (NonZero<u16>, NonZero<u16>) {
    let one = NonZero::<u16>::MIN;
    (NonZero::new(size.rows).unwrap_or(one), NonZero::new(size.columns).unwrap_or(one))
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
