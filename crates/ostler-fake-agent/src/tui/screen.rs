//! Drawing: finished lines that scroll away, and below them a live part (prompt box or dialog) that is redrawn.
//!
//! Like the real one it draws on the main screen and puts cursor moves where others put spaces, so that nobody can
//! find a phrase in its raw bytes.

use std::fmt::Write;

/// The width without a terminal to ask.
const USUAL_COLUMNS: usize = 120;
/// Dialogs stay legible down to this width.
const FEWEST_COLUMNS: usize = 20;

/// Bracketed paste, focus and colour-scheme reports on, cursor hidden.
const BEGIN: &str = "\x1b7\x1b[r\x1b8\x1b[?25h\x1b[?25l\x1b[?2004h\x1b[?1004h\x1b[?2031h";
/// Who are you, and what can you do: asked, but no answer is needed.
const QUESTIONS: &str = "\x1b[>0q\x1b[c";
const END: &str = "\x1b[?2031l\x1b[?1004l\x1b[?2004l\x1b[?25h";

/// What is on the terminal, as far as it will be redrawn.
#[derive(Debug)]
pub(super) struct Screen {
    columns: usize,
    live_rows: usize,
}

impl Screen {
    pub(super) fn new(columns: Option<u16>) -> Self {
        let columns = columns.map_or(USUAL_COLUMNS, usize::from).max(FEWEST_COLUMNS);
        Self { columns, live_rows: 0 }
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// The bytes that make a terminal ready.
    pub(super) fn begin() -> Vec<u8> {
        format!("{BEGIN}{QUESTIONS}").into_bytes()
    }

    /// The bytes that leave a terminal as it was.
    pub(super) fn end() -> Vec<u8> {
        END.as_bytes().to_vec()
    }

    /// The bytes that set the window's title.
    pub(super) fn title(mark: char, text: &str) -> Vec<u8> {
        format!("\x1b]0;{mark} {text}\x07").into_bytes()
    }

    /// The bytes that add finished lines and draw the live part anew below them.
    pub(super) fn show(&mut self, finished: &[String], live: &[String]) -> Vec<u8> {
        let mut bytes = String::new();
        if self.live_rows > 0 {
            let _ = write!(bytes, "\x1b[{}A", self.live_rows);
        }
        bytes.push_str("\r\x1b[J");
        for line in finished.iter().chain(live) {
            self.draw(&mut bytes, line);
        }
        self.live_rows = live.len();
        bytes.into_bytes()
    }

    /// A line across the whole width.
    pub(super) fn rule(&self, character: char) -> String {
        character.to_string().repeat(self.columns)
    }

    fn draw(&self, bytes: &mut String, line: &str) {
        let mut column = 0;
        let mut skipped = false;
        for character in line.chars().take(self.columns) {
            column += 1;
            if character == ' ' {
                skipped = true;
                continue;
            }
            if std::mem::take(&mut skipped) {
                // Writing to a String cannot fail.
                let _ = write!(bytes, "\x1b[{column}G");
            }
            bytes.push(character);
        }
        bytes.push_str("\r\n");
    }
}

/// Lines of at most `columns`, broken at words, the first after `first` and the others after as many blanks.
pub(super) fn wrapped(text: &str, first: &str, columns: usize) -> Vec<String> {
    let indent = first.chars().count();
    let room = columns.saturating_sub(indent + 1).max(1);
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            let mut word: Vec<char> = word.chars().collect();
            if !line.is_empty() && line.chars().count() + 1 + word.len() > room {
                lines.push(std::mem::take(&mut line));
            } else if !line.is_empty() {
                line.push(' ');
            }
            while word.len() > room {
                lines.push(word.drain(..room).collect());
            }
            line.extend(word);
        }
        lines.push(line);
    }
    let blank = " ".repeat(indent);
    let prefix = |nth: usize| if nth == 0 { first } else { blank.as_str() };
    lines.iter().enumerate().map(|(nth, line)| format!("{}{line}", prefix(nth))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_words() {
        let table: &[(&str, &[&str])] = &[
            ("one", &["● one"]),
            ("one two three", &["● one two", "  three"]),
            ("a\n\nb", &["● a", "  ", "  b"]),
            ("abcdefghijklm", &["● abcdefghi", "  jklm"]),
        ];
        for (text, want) in table {
            assert_eq!(wrapped(text, "● ", 12), *want, "{text}");
        }
    }

    #[test]
    fn blanks_are_drawn_as_moves() {
        let drawn = Screen::new(None).show(&["a  b".to_owned()], &[]);
        assert_eq!(String::from_utf8_lossy(&drawn), "\r\x1b[Ja\x1b[4Gb\r\n");
    }
}
