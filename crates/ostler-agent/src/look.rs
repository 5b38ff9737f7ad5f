//! What a terminal shows, as text: the one thing that decisions about a screen are made from.
//!
//! A plain value. The emulator that makes it of an agent's bytes is in `ostler-process`; what an agent's screen means is
//! in `agents/*`.

/// A terminal at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// Its rows from the top, blanks at their ends cut.
    pub rows: Vec<String>,
    /// How wide it is.
    pub columns: u16,
    /// Where the cursor is, as row and column from zero. None while it is hidden.
    pub cursor: Option<(u16, u16)>,
    /// The title that the program gave its window.
    pub title: String,
}

impl Look {
    /// Rows that end in no blank, without the empty ones at the bottom: what is kept of it when a run is blocked.
    pub fn dump(&self) -> String {
        let used = self.rows.iter().rposition(|row| !row.trim().is_empty()).map_or(0, |last| last + 1);
        let rows: Vec<&str> = self.rows.iter().take(used).map(|row| row.trim_end()).collect();
        rows.join("\n")
    }
}

/// What changed from one screen to the next. It proves that the agent is alive, never what its answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScreenChange {
    /// Nothing that shows a sign of life.
    Nothing,
    /// Only what moves by itself while the program works: a spinner, a clock, the window title.
    Spinner,
    /// Something that comes from the model or a tool: lines of text, a count of tokens that grows.
    Text,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_has_no_blank_ends() {
        let rows = ["", " one  ", "", "two", "", "  "].map(str::to_owned).to_vec();
        let look = Look { rows, columns: 8, ..Look::default() };
        assert_eq!(look.dump(), "\n one\n\ntwo");
        assert_eq!(Look::default().dump(), "");
    }
}
