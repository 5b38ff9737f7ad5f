//! Showing a terminal in the window of a person, which may have another size.
//!
//! The bytes of the program never reach that window: they are drawn on a screen of its own, and of that only cells,
//! the cursor and a few modes are painted, cut to the window. So the window is in a known state at any time, and can be
//! left as it was found.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::pty::Size;
use super::screen::Screen;
use super::seat::Shown;
use super::style::style_of;

/// Takes the window over: its title is kept by the terminal, and what it shows is hidden below another screen.
const ENTER: &str = "\x1b[22;0t\x1b[?1049h\x1b[m\x1b[2J\x1b[H";

/// Gives it back. What comes before makes the modes as they were.
const LEAVE: &str = "\x1b[m\x1b[?25h\x1b[?1049l\x1b[23;0t";

/// Whether the window also types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    /// It only shows.
    View,
    /// Its keys go to the program, so that it must send them as the program wants them.
    Hold,
}

/// Paints a terminal in a window.
#[derive(Debug)]
pub struct Painter {
    manner: Manner,
    window: Size,
    screen: Option<Screen>,
    painted: Option<Painted>,
}

/// What is in the window.
struct Painted {
    screen: vt100::Screen,
    size: Size,
    /// The first row of the terminal that is in the window.
    top: u16,
    title: String,
}

impl std::fmt::Debug for Painted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Painted").field("size", &self.size).field("top", &self.top).finish_non_exhaustive()
    }
}

impl Painter {
    /// For a window of that size.
    pub fn new(manner: Manner, window: Size) -> Self {
        Self { manner, window, screen: None, painted: None }
    }

    /// What to write to the window first.
    pub fn enter(&self) -> &'static [u8] {
        ENTER.as_bytes()
    }

    /// What makes the window as it was, whatever was painted.
    pub fn leave(&self) -> Vec<u8> {
        let mut bytes = String::new();
        if let (Manner::Hold, Some(painted)) = (self.manner, &self.painted) {
            bytes.push_str(&blank(painted.size).input_mode_diff(&painted.screen));
        }
        bytes.push_str(LEAVE);
        bytes.into_bytes()
    }

    /// Takes in what is to be shown.
    pub fn show(&mut self, shown: &Shown) {
        match shown {
            Shown::Anew { size, bytes } => {
                let mut screen = Screen::new(*size);
                screen.feed(bytes);
                self.screen = Some(screen);
            }
            Shown::Bytes(bytes) => {
                if let Some(screen) = &mut self.screen {
                    screen.feed(bytes);
                    // The program was answered where it runs.
                    screen.replies();
                }
            }
        }
    }

    /// The window has another size.
    pub fn resize(&mut self, window: Size) {
        self.window = window;
        // What is left in it is not known.
        if let Some(painted) = &mut self.painted {
            painted.size = Size { columns: 0, rows: 0 };
        }
    }

    /// What to write to the window, so that it shows what the terminal does. Nothing if it does, or while the program
    /// is in the middle of a frame.
    pub fn paint(&mut self) -> Vec<u8> {
        let Some(screen) = &self.screen else { return Vec::new() };
        if screen.is_mid_frame() {
            return Vec::new();
        }
        let (now, size) = (screen.shown(), screen.size());
        let top = top(now, size, self.window);
        let width = size.columns.min(self.window.columns);
        let before = self.painted.as_ref().filter(|painted| painted.size == size && painted.top == top);
        let mut bytes = String::new();
        if before.is_none() {
            bytes.push_str("\x1b[m\x1b[2J");
        }
        for row in 0..self.window.rows.min(size.rows - top) {
            let is_same = before.is_some_and(|before| same(now, &before.screen, top + row, width));
            if !is_same {
                paint_row(now, top + row, row, width, self.window.columns, &mut bytes);
            }
        }
        let title = screen.title();
        if !title.is_empty() && self.painted.as_ref().is_none_or(|painted| painted.title != title) {
            bytes.extend(["\x1b]2;", title, "\x07"]);
        }
        if self.manner == Manner::Hold {
            match &self.painted {
                Some(painted) => bytes.push_str(&now.input_mode_diff(&painted.screen)),
                None => bytes.push_str(&now.input_mode_diff(&blank(size))),
            }
        }
        let (row, column) = now.cursor_position();
        let (row, column) = (row.saturating_sub(top), column.min(width.saturating_sub(1)));
        let is_hidden = now.hide_cursor() || row >= self.window.rows;
        let moved = before.is_none_or(|before| {
            before.screen.cursor_position() != now.cursor_position()
                || before.screen.hide_cursor() != now.hide_cursor()
        });
        if bytes.is_empty() && !moved {
            return Vec::new();
        }
        let visible = if is_hidden { 'l' } else { 'h' };
        // Writing to a string does not fail.
        let _ = write!(bytes, "\x1b[m\x1b[{};{}H\x1b[?25{visible}", row + 1, column + 1);
        self.painted = Some(Painted { screen: now.clone(), size, top, title: title.to_owned() });
        // A window that can shows it at once.
        format!("\x1b[?2026h\x1b[?25l{bytes}\x1b[?2026l").into_bytes()
    }
}

/// The first row to show in a window that is too low: the one with which the cursor, or the last text, is still in it.
fn top(screen: &vt100::Screen, size: Size, window: Size) -> u16 {
    if size.rows <= window.rows {
        return 0;
    }
    let has_text = |row: &u16| {
        (0..size.columns).any(|column| screen.cell(*row, column).is_some_and(vt100::Cell::has_contents))
    };
    let last = (0..size.rows).rev().find(has_text).unwrap_or(0);
    let last = if screen.hide_cursor() { last } else { last.max(screen.cursor_position().0) };
    (last + 1).saturating_sub(window.rows)
}

fn blank(size: Size) -> vt100::Screen {
    Screen::new(size).shown().clone()
}

fn same(one: &vt100::Screen, other: &vt100::Screen, row: u16, width: u16) -> bool {
    (0..width).all(|column| one.cell(row, column) == other.cell(row, column))
}

fn paint_row(screen: &vt100::Screen, from: u16, to: u16, width: u16, window: u16, bytes: &mut String) {
    let _ = write!(bytes, "\x1b[{};1H\x1b[m", to + 1);
    let mut style = String::from("\x1b[m");
    for column in 0..width {
        let Some(cell) = screen.cell(from, column) else { break };
        if cell.is_wide_continuation() {
            continue;
        }
        let wanted = style_of(cell);
        if wanted != style {
            bytes.push_str(&wanted);
            style = wanted;
        }
        let is_cut = cell.is_wide() && column + 1 >= width;
        bytes.push_str(if cell.has_contents() && !is_cut { cell.contents() } else { " " });
    }
    if width < window {
        bytes.push_str("\x1b[m\x1b[K");
    }
}

#[cfg(test)]
#[path = "painter_tests.rs"]
mod tests;
