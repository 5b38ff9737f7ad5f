//! `read_file`: some lines of a text, within bounds.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;

use super::MOST_ANSWER_BYTES;
use super::arguments::Read;
use super::beneath::{Beneath, Fault};

/// How many lines are read unless the agent says otherwise.
const LINES: u64 = 2000;

/// How far into a file the first line is looked for.
const MOST_SKIPPED_BYTES: u64 = 256 * 1024 * 1024;

/// How much of a file tells whether it is text.
const SAMPLE_BYTES: usize = 8 * 1024;

pub(super) fn read(beneath: &Beneath, given: &Read) -> Result<String, Fault> {
    let path = &given.path;
    let (file, stat) = beneath.file(path)?;
    let lost = |error: io::Error| Fault::Failed(format!("`{path}` cannot be read: {error}. Try once more."));
    if is_binary(&file).map_err(lost)? {
        let words = format!("`{path}` is a binary file of {} bytes, which is not shown.", stat.st_size);
        return Err(Fault::Failed(words));
    }
    let first = given.offset.unwrap_or(1).max(1);
    let mut reader = BufReader::new(file);
    match skip(&mut reader, first - 1).map_err(lost)? {
        Skipped::All => {}
        Skipped::Ended { lines: 0 } => {}
        Skipped::Ended { lines } => {
            let words = format!("`{path}` has {lines} lines; line {first} is beyond its end.");
            return Err(Fault::Failed(words));
        }
        Skipped::TooFar => {
            return Err(Fault::Failed(format!(
                "Line {first} of `{path}` is more than {} MiB into it, and is not looked for.",
                MOST_SKIPPED_BYTES / 1024 / 1024
            )));
        }
    }
    let most = given.limit.unwrap_or(LINES).max(1);
    let taken = take(&mut reader, most).map_err(lost)?;
    Ok(told(path, first, &taken))
}

/// Whether a file is something else than text: then there is a NUL near its beginning.
pub(super) fn is_binary(file: &File) -> io::Result<bool> {
    let mut sample = vec![0; SAMPLE_BYTES];
    let count = file.read_at(&mut sample, 0)?;
    Ok(sample[..count].contains(&0))
}

enum Skipped {
    All,
    /// The file is over, after so many lines.
    Ended {
        lines: u64,
    },
    TooFar,
}

fn skip(reader: &mut BufReader<File>, lines: u64) -> io::Result<Skipped> {
    let mut left = MOST_SKIPPED_BYTES;
    for skipped in 0..lines {
        let count = reader.by_ref().take(left).skip_until(b'\n')?;
        left -= count as u64;
        if left == 0 {
            return Ok(Skipped::TooFar);
        }
        if count == 0 {
            return Ok(Skipped::Ended { lines: skipped });
        }
    }
    let is_over = lines > 0 && reader.fill_buf()?.is_empty();
    Ok(if is_over { Skipped::Ended { lines } } else { Skipped::All })
}

struct Taken {
    bytes: Vec<u8>,
    lines: u64,
    rest: Rest,
}

/// What comes after what was taken.
enum Rest {
    Nothing,
    Lines,
    /// The rest of a line that is too long to be shown.
    OfALine,
}

fn take(reader: &mut BufReader<File>, most: u64) -> io::Result<Taken> {
    let (mut bytes, mut lines) = (Vec::new(), 0);
    while lines < most {
        let before = bytes.len();
        let room = (MOST_ANSWER_BYTES - before) as u64;
        let count = reader.by_ref().take(room).read_until(b'\n', &mut bytes)?;
        let is_whole = bytes.last() == Some(&b'\n') || reader.fill_buf()?.is_empty();
        if count > 0 && is_whole {
            lines += 1;
        } else if count == 0 && reader.fill_buf()?.is_empty() {
            break;
        } else if before > 0 {
            // The line does not fit any more: it comes with the next call.
            bytes.truncate(before);
            return Ok(Taken { bytes, lines, rest: Rest::Lines });
        } else {
            return Ok(Taken { bytes, lines: 1, rest: Rest::OfALine });
        }
    }
    let rest = if reader.fill_buf()?.is_empty() { Rest::Nothing } else { Rest::Lines };
    Ok(Taken { bytes, lines, rest })
}

fn told(path: &str, first: u64, taken: &Taken) -> String {
    if taken.bytes.is_empty() {
        return format!("`{path}` is empty.");
    }
    let mut text = String::from_utf8_lossy(&taken.bytes).into_owned();
    let mut note = |words: String| {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[{words}]"));
    };
    let last = first + taken.lines.saturating_sub(1);
    match taken.rest {
        Rest::Nothing => {}
        Rest::Lines => {
            note(format!("Cut: these are lines {first} to {last}. Go on with `offset` {}.", last + 1));
        }
        Rest::OfALine => note(format!(
            "Cut: line {first} has more than {MOST_ANSWER_BYTES} bytes. Go on after it with `offset` {}.",
            first + 1
        )),
    }
    if std::str::from_utf8(&taken.bytes).is_err() && !matches!(taken.rest, Rest::OfALine) {
        note("Not all of it is UTF-8: \u{fffd} stands for what is not.".to_owned());
    }
    text
}
