//! The one line at the bottom of a terminal that moves. Pure: what to write so that it is below everything durable, and
//! never part of it.
//!
//! The cursor stays in its first column, visible. So there is nothing to restore, whatever ends us; and whatever a
//! terminal made of the line when it was resized, all of it lies behind the cursor and is erased with it.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::words;

/// Erases from the cursor on: the line itself, and what a narrower window made of it.
const ERASE: &str = "\r\u{1b}[J";

/// What is behind the right edge stays there, instead of becoming a second line.
const WITHOUT_WRAP: (&str, &str) = ("\u{1b}[?7l", "\u{1b}[?7h");

/// Whether there is one on this process's terminal, for the one who would write over it: a panic.
static IS_SHOWN: AtomicBool = AtomicBool::new(false);

/// What says the line, given the columns there are. Nothing leaves the line out.
pub(crate) type Words = Box<dyn Fn(usize) -> Option<String> + Send>;

/// A line that moves, below those that stay.
pub(crate) struct StatusLine {
    words: Words,
    is_drawn: bool,
}

impl StatusLine {
    pub(crate) fn new(words: Words) -> Self {
        Self { words, is_drawn: false }
    }

    /// Durable lines, and the line below them as it is now. Without durable lines it is only drawn anew.
    pub(crate) fn below(&mut self, durable: &str, columns: usize) -> String {
        let mut text = self.cleared().to_owned();
        text.push_str(durable);
        // A durable text that is not a whole line would be torn.
        if !durable.is_empty() && !durable.ends_with('\n') {
            text.push('\n');
        }
        let (off, on) = WITHOUT_WRAP;
        if let Some(line) = (self.words)(columns) {
            text.push_str(&format!("{off}{line}{on}\r"));
            self.is_drawn = true;
            IS_SHOWN.store(true, Ordering::Relaxed);
        }
        text
    }

    /// What takes the line away, if it is there.
    pub(crate) fn cleared(&mut self) -> &'static str {
        IS_SHOWN.store(false, Ordering::Relaxed);
        if std::mem::take(&mut self.is_drawn) { ERASE } else { "" }
    }
}

/// A panic speaks for itself, on the same terminal: it gets a line of its own.
pub(crate) fn clear_before_a_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if IS_SHOWN.swap(false, Ordering::Relaxed) {
            let _ = std::io::Write::write_all(&mut std::io::stderr(), ERASE.as_bytes());
        }
        before(panic);
    }));
}

/// Parts of a line in the order in which they stand, with the most important first to be given room. All that find
/// room are there; one that may be cut takes what is left.
pub(crate) fn fitted(parts: &[Part], between: &str, columns: usize) -> String {
    let gap = words::width(between);
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|index| parts[*index].rank);
    let mut kept: Vec<Option<String>> = vec![None; parts.len()];
    let mut left = columns;
    for index in order {
        let part = &parts[index];
        let gap = if kept.iter().any(Option::is_some) { gap } else { 0 };
        let wide = words::width(&part.text);
        if wide + gap <= left {
            kept[index] = Some(part.text.clone());
            left -= wide + gap;
        } else if part.least.is_some_and(|least| least + gap <= left) {
            kept[index] = Some(words::cut(&part.text, left - gap));
            left = 0;
        }
    }
    kept.into_iter().flatten().collect::<Vec<_>>().join(between)
}

/// A part of the line.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// What it says.
    pub(crate) text: String,
    /// Who gets room first: the smallest.
    pub(crate) rank: u8,
    /// To how few columns it may be cut, if it may.
    pub(crate) least: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durable_lines_stand_above_and_the_line_is_erased_first() {
        let mut line = StatusLine::new(Box::new(|columns| (columns > 5).then(|| format!(" at {columns}"))));
        let (off, on) = WITHOUT_WRAP;
        assert_eq!(line.below("one\n", 20), format!("one\n{off} at 20{on}\r"));
        assert_eq!(line.below("torn", 20), format!("{ERASE}torn\n{off} at 20{on}\r"));
        assert_eq!(line.below("", 5), ERASE);
        assert_eq!(line.below("two\n", 5), "two\n");
        assert_eq!(line.cleared(), "");
        line.below("", 20);
        assert_eq!((line.cleared(), line.cleared()), (ERASE, ""));
    }

    #[test]
    fn what_matters_most_finds_room_first() {
        let part = |text: &str, rank, least| Part { text: text.to_owned(), rank, least };
        let parts = [
            part("codex", 0, Some(1)),
            part("12s", 1, None),
            part("世界 npm test", 3, Some(6)),
            part("66k tokens", 4, None),
            part("quiet 40s", 2, None),
        ];
        let table = [
            (80, "codex · 12s · 世界 npm test · 66k tokens · quiet 40s"),
            (40, "codex · 12s · 世界 npm test · quiet 40s"),
            (32, "codex · 12s · 世界 … · quiet 40s"),
            (25, "codex · 12s · quiet 40s"),
            (12, "codex · 12s"),
            (4, "cod…"),
            (0, ""),
        ];
        for (columns, want) in table {
            let line = fitted(&parts, " · ", columns);
            assert_eq!(line, want, "in {columns}");
            assert!(words::width(&line) <= columns);
        }
    }
}
