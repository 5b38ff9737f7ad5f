//! What `vt100` knows of a screen and does not tell: saved cursors, regions that scroll, modes that it passes over.
//! With it a screen can be drawn again elsewhere.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::csi::Csi;
use super::style::style_of;

/// Modes that whoever shows the screen must know: it tells of focus, of colours, of its wheel.
const TOLD: [u16; 4] = [12, 1004, 1007, 2031];

/// Of the main screen and of the alternate one.
#[derive(Debug, Default)]
pub(super) struct Memory {
    main: Side,
    alternate: Side,
    modes: BTreeSet<u16>,
}

#[derive(Debug, Default)]
struct Side {
    /// Where the saved cursor is, and how it would write.
    saved: Option<((u16, u16), String)>,
    /// First and last row of the part that scrolls.
    region: Option<(u16, u16)>,
}

impl Memory {
    fn side(&mut self, screen: &vt100::Screen) -> &mut Side {
        if screen.alternate_screen() { &mut self.alternate } else { &mut self.main }
    }

    /// The cursor is saved.
    pub(super) fn save(&mut self, screen: &vt100::Screen) {
        self.side(screen).saved = Some((screen.cursor_position(), screen.attributes_formatted()));
    }

    /// How the saved cursor writes.
    pub(super) fn saved_style(&self, screen: &vt100::Screen) -> &str {
        let side = if screen.alternate_screen() { &self.alternate } else { &self.main };
        side.saved.as_ref().map_or("\x1b[m", |(_, style)| style)
    }

    /// Which rows scroll is set.
    pub(super) fn region(&mut self, screen: &vt100::Screen, csi: Csi<'_>) {
        let rows = screen.size().0.get();
        let mut numbers = csi.numbers();
        let first = numbers.next().unwrap_or(0).max(1);
        let last = match numbers.next().unwrap_or(0) {
            0 => rows,
            last => last.min(rows),
        };
        let is_part = first < last && (first, last) != (1, rows);
        self.side(screen).region = is_part.then_some((first, last));
    }

    /// A mode is set or reset.
    pub(super) fn mode(&mut self, mode: u16, is_set: bool) {
        if !TOLD.contains(&mode) {
            return;
        }
        if is_set {
            self.modes.insert(mode);
        } else {
            self.modes.remove(&mode);
        }
    }

    /// The last row that scrolls.
    pub(super) fn bottom(&self, screen: &vt100::Screen) -> u16 {
        let side = if screen.alternate_screen() { &self.alternate } else { &self.main };
        side.region.map_or(screen.size().0.get(), |(_, last)| last) - 1
    }

    /// The alternate screen is new. The cursor that was saved there is not.
    pub(super) fn cleared(&mut self) {
        self.alternate.region = None;
    }

    /// Saves the cursor again that was saved on the alternate screen, if one was. For that screen while it is empty.
    pub(super) fn saved_there(&self) -> String {
        let Some(((row, column), style)) = &self.alternate.saved else { return String::new() };
        // A blank after the last column is none, and brings one that waited to where it waits.
        format!("{style}\x1b[{};{column}H \x1b7", row + 1)
    }

    /// With its size a terminal forgets which rows scroll.
    pub(super) fn resized(&mut self) {
        self.main.region = None;
        self.alternate.region = None;
    }

    /// Draws the main screen, which the alternate one hides, and goes over to that.
    pub(super) fn draw_below(&self, screen: &vt100::Screen, drawn: &mut String) {
        self.main.draw(screen, drawn);
        if let Some(saved) = &self.main.saved {
            place(saved, screen, drawn);
        }
        // This saves the cursor as it is.
        drawn.push_str("\x1b[?1049h");
    }

    /// Draws what is shown.
    pub(super) fn draw(&self, screen: &vt100::Screen, drawn: &mut String) {
        let side = if screen.alternate_screen() { &self.alternate } else { &self.main };
        side.draw(screen, drawn);
        if let Some(saved) = &side.saved {
            place(saved, screen, drawn);
            drawn.push_str("\x1b7");
        }
        place(&(screen.cursor_position(), screen.attributes_formatted()), screen, drawn);
        drawn.push_str(if screen.hide_cursor() { "\x1b[?25l" } else { "\x1b[?25h" });
        drawn.push_str(&screen.input_mode_formatted());
        for mode in &self.modes {
            // Writing to a string does not fail.
            let _ = write!(drawn, "\x1b[?{mode}h");
        }
    }
}

impl Side {
    fn draw(&self, screen: &vt100::Screen, drawn: &mut String) {
        drawn.push_str("\x1b[m\x1b[2J");
        let columns = screen.size().1.get();
        for (number, row) in screen.rows_formatted(0, columns).enumerate() {
            let _ = write!(drawn, "\x1b[{};1H\x1b[m{row}", number + 1);
        }
        if let Some((first, last)) = self.region {
            let _ = write!(drawn, "\x1b[{first};{last}r");
        }
    }
}

/// Brings the cursor there, and makes it write so.
fn place(((row, column), writes): &((u16, u16), String), screen: &vt100::Screen, drawn: &mut String) {
    let columns = screen.size().1.get();
    let at = (*column).min(columns - 1);
    let cell = |column| screen.cell(*row, column);
    // After a letter in the last column the cursor waits there, and only a letter brings it there again.
    let waits = *column >= columns;
    let at = at - u16::from(waits && cell(at).is_some_and(vt100::Cell::is_wide_continuation));
    let _ = write!(drawn, "\x1b[{};{}H", row + 1, at + 1);
    if let Some(cell) = cell(at).filter(|_| waits) {
        drawn.push_str(&style_of(cell));
        drawn.push_str(if cell.has_contents() { cell.contents() } else { " " });
    }
    drawn.push_str(writes);
}
