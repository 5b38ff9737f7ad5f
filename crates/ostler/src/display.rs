//! All output for people and programs goes through here: colours as wished, tables, JSON on stdout.

use std::error::Error;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;
use serde::Serialize;

use crate::config::ColorWhen;
use crate::failure::Failure;

/// How wide a line may be on a terminal that does not tell.
const DEFAULT_COLUMNS: usize = 100;

/// Narrower than this, a table is not worth cutting.
const LEAST_COLUMNS: usize = 60;

const HEADING: Style = Style::new().bold();

/// Whether anything was printed on stdout.
static PRINTED: AtomicBool = AtomicBool::new(false);

/// Whether this process has printed on stdout, or has begun to.
pub(crate) fn has_printed() -> bool {
    PRINTED.load(Ordering::Relaxed)
}

/// Decides on colours for the rest of the process; `None` leaves it to the terminal and to `NO_COLOR`.
pub(crate) fn set_color(when: Option<ColorWhen>) {
    match when {
        None | Some(ColorWhen::Auto) => ColorChoice::Auto,
        Some(ColorWhen::Always) => ColorChoice::Always,
        Some(ColorWhen::Never) => ColorChoice::Never,
    }
    .write_global();
}

/// Whether colours were not refused.
pub(crate) fn may_color() -> bool {
    ColorChoice::global() != ColorChoice::Never
}

/// For what was asked for.
pub(crate) fn stdout() -> AutoStream<io::StdoutLock<'static>> {
    PRINTED.store(true, Ordering::Relaxed);
    AutoStream::auto(io::stdout().lock())
}

/// For everything else.
pub(crate) fn stderr() -> AutoStream<io::Stderr> {
    AutoStream::auto(io::stderr())
}

/// Prints one text on stdout.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    let mut out = stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Prints bytes on stdout as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    PRINTED.store(true, Ordering::Relaxed);
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Stdout itself, for whoever prints much, on a thread of its own. Nothing else may be printed there meanwhile.
pub(crate) fn unbuffered() -> io::Result<File> {
    PRINTED.store(true, Ordering::Relaxed);
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Prints one JSON document on stdout.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_vec_pretty(value).map_err(|error| Failure::Output(error.into()))?;
    line.push(b'\n');
    bytes(&line)
}

/// A text with or without its colours, as stdout wants it; for those who print by themselves.
pub(crate) fn styled(text: &str) -> String {
    match AutoStream::choice(&io::stdout()) {
        ColorChoice::Never => anstream::adapter::strip_str(text).to_string(),
        ColorChoice::Auto | ColorChoice::Always | ColorChoice::AlwaysAnsi => text.to_owned(),
    }
}

/// Tells a person on stderr. Nobody listening is not a failure.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

/// How many columns stdout has. What is not a terminal has no end: a file or a program gets whole paths.
pub(crate) fn columns() -> usize {
    let out = io::stdout();
    if !out.is_terminal() {
        return usize::MAX;
    }
    match rustix::termios::tcgetwinsize(&out) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col).max(LEAST_COLUMNS),
        Ok(_) | Err(_) => DEFAULT_COLUMNS,
    }
}

/// How many columns stdout has, however few; what is not a terminal has no end.
pub(crate) fn columns_or_endless() -> usize {
    if io::stdout().is_terminal() { terminal_columns() } else { usize::MAX }
}

/// How many columns the terminal has, however few. For what is drawn anew when they change.
pub(crate) fn terminal_columns() -> usize {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        Ok(_) | Err(_) => DEFAULT_COLUMNS,
    }
}

/// An error on one line.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let chain = std::iter::successors(Some(error), |error| (*error).source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A path with the home directory as `~`.
pub(crate) fn short(path: &Path) -> String {
    let below = std::env::home_dir().and_then(|home| Some(path.strip_prefix(home).ok()?.to_owned()));
    match below {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

/// Rows below headings, each column as wide as its widest cell. The last column is cut in its middle to fit.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>], columns: usize) -> String {
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let before_last: usize = widths.iter().rev().skip(1).map(|width| width + 2).sum();
    let room = columns.saturating_sub(before_last);
    let mut text =
        line(&headings.iter().map(|heading| (*heading).to_owned()).collect::<Vec<_>>(), &widths, room);
    text = format!("{HEADING}{}{HEADING:#}\n", text.trim_end());
    for row in rows {
        text.push_str(line(row, &widths, room).trim_end());
        text.push('\n');
    }
    text
}

fn line(cells: &[String], widths: &[usize], room: usize) -> String {
    let last = cells.len().saturating_sub(1);
    let padded = cells.iter().zip(widths).enumerate().map(|(index, (cell, &width))| {
        if index == last { cut(cell, room) } else { format!("{cell:width$}  ") }
    });
    padded.collect()
}

/// Keeps a short beginning and a long end, which tell more about a path than its middle.
fn cut(text: &str, room: usize) -> String {
    let count = text.chars().count();
    if count <= room {
        return text.to_owned();
    }
    let head = room / 4;
    let tail = room.saturating_sub(head + 1);
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_and_is_cut_in_the_middle() {
        let rows = vec![
            vec!["codex".to_owned(), "1.0.0".to_owned(), "/a/very/long/path/to/the/program/codex".to_owned()],
            vec!["opencode".to_owned(), "-".to_owned(), "-".to_owned()],
        ];
        let drawn = anstream::adapter::strip_str(&table(&["NAME", "VERSION", "PATH"], &rows, 40)).to_string();
        assert_eq!(
            drawn,
            "NAME      VERSION  PATH\ncodex     1.0.0    /a/ve…e/program/codex\nopencode  -        -\n"
        );
        assert!(drawn.lines().all(|line| line.chars().count() <= 40));
    }
}
