//! The end of `events.ndjson`, found from behind: a journal may be gigabytes long.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use serde_json::{Map, Value};

/// Read at once, from behind. Most lines are shorter.
const STEP: usize = 64 * 1024;

/// The number of the last event that can be read; zero if there is none. Holds as much of the file as that event and
/// what is torn after it take.
pub(super) fn last_seq(file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let (mut begin, mut bytes) = (length, Vec::new());
    loop {
        // Everything before the first end of a line may be the rest of one that began earlier.
        let whole = match begin {
            0 => 0,
            _ => bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1),
        };
        if let Some(seq) = last_of(&bytes[whole..]) {
            return Ok(seq);
        }
        if begin == 0 {
            return Ok(0);
        }
        // Twice as much each time, so that a long line is not read over and over.
        let step = u64::try_from(bytes.len().max(STEP)).unwrap_or(u64::MAX).min(begin);
        begin -= step;
        bytes.resize(usize::try_from(length - begin).map_err(io::Error::other)?, 0);
        file.read_exact_at(&mut bytes, begin)?;
    }
}

/// Whether the last line has its end.
pub(super) fn ends_a_line(file: &File) -> io::Result<bool> {
    let Some(at) = file.metadata()?.len().checked_sub(1) else { return Ok(true) };
    let mut last = [0];
    file.read_exact_at(&mut last, at)?;
    Ok(last == *b"\n")
}

/// The number of the last event among whole lines. An event of a kind that is new to us has a number too.
fn last_of(bytes: &[u8]) -> Option<u64> {
    let mut end = bytes.iter().rposition(|byte| *byte == b'\n')? + 1;
    while end > 0 {
        let begin = bytes[..end - 1].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line: Option<Map<String, Value>> = serde_json::from_slice(&bytes[begin..end]).ok();
        if let Some(seq) = line.and_then(|fields| fields.get("seq")?.as_u64()) {
            return Some(seq);
        }
        end = begin;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_last_event_is_found_before_what_is_torn() {
        let line =
            |seq: u64, length: usize| format!("{{\"seq\":{seq},\"text\":\"{}\"}}\n", "x".repeat(length));
        let torn = "y".repeat(400_000);
        let table = [
            (String::new(), 0),
            (line(1, 1), 1),
            ("{\"seq\":1,".to_owned(), 0),
            (line(1, 3) + &line(2, 5) + "{\"seq\":3", 2),
            (line(1, 200_000) + &line(2, 300_000), 2),
            (line(7, 3) + &torn, 7),
            (line(7, 70_000) + &torn + "\nz\n", 7),
            // As long as a step, and as two.
            (line(1, STEP - 19) + &line(2, STEP - 19), 2),
        ];
        for (text, want) in table {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            assert_eq!(last_seq(&file).unwrap(), want, "{} bytes", text.len());
        }
    }
}
