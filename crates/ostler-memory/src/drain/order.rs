//! In which order files are drained: as was said in them. Their names have the time when they were written, by a clock that
//! may have been set back between two of them; so those of one transcript are ordered by the turns that they begin with.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader};

use serde::Deserialize;

use super::LONGEST_LINE;
use crate::deferral::Header;
use crate::private::PrivateFolder;

/// The files that wait, those first that are to be drained first.
pub(super) fn waiting(folder: &PrivateFolder) -> io::Result<Vec<String>> {
    let mut names = folder.names()?;
    names.retain(|name| name.ends_with(".jsonl"));
    // Of files of the same second, the one that was there first.
    let changed = |name: &String| folder.file(name).and_then(|file| file.metadata()?.modified()).ok();
    names.sort_by_cached_key(|name| (parts(name).1, changed(name), name.clone()));
    let mut sessions: HashMap<String, usize> = HashMap::new();
    for name in &names {
        *sessions.entry(session(name).to_owned()).or_default() += 1;
    }
    // One that is alone needs not be looked into.
    sessions.retain(|_, count| *count > 1);
    let is_one_of_many = |name: &&String| sessions.contains_key(session(name));
    let begins: HashMap<String, Begin> = names
        .iter()
        .filter(is_one_of_many)
        .filter_map(|name| Some((name.clone(), begin(folder, name)?)))
        .collect();
    Ok(by_turn(names, &begins))
}

/// The session in a file's name, as far as it got into it.
pub(super) fn session(name: &str) -> &str {
    parts(name).0
}

/// `<session>-<unix>[-<rand>].jsonl`: the session and the time.
fn parts(name: &str) -> (&str, u64) {
    let stem = name.strip_suffix(".jsonl").unwrap_or(name);
    let time = |part: &str| Some(part).filter(|part| part.len() >= 9).and_then(|part| part.parse().ok());
    let Some((before, last)) = stem.rsplit_once('-') else { return (stem, 0) };
    // A random part may happen to be all digits; it has eight.
    if let Some(time) = time(last) {
        return (before, time);
    }
    let earlier = before.rsplit_once('-').and_then(|(session, part)| Some((session, time(part)?)));
    earlier.unwrap_or((stem, 0))
}

/// Where in its transcript what is in a file begins.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Begin {
    session: String,
    transcript: String,
    turn: u64,
}

#[derive(Deserialize)]
struct Cue {
    #[serde(default)]
    cue: String,
}

/// By its header and its first line. Nothing if it has none, or one of somebody who counts no turns.
fn begin(folder: &PrivateFolder, name: &str) -> Option<Begin> {
    let mut reader = BufReader::new(folder.file(name).ok()?);
    let mut line = || {
        let mut line = Vec::new();
        io::Read::take(&mut reader, LONGEST_LINE).read_until(b'\n', &mut line).ok()?;
        Some(line)
    };
    let header: Header = serde_json::from_slice(&line()?).ok()?;
    let first: Cue = serde_json::from_slice(&line()?).ok()?;
    let turn = first.cue.rsplit_once(" turn ")?.1.parse().ok()?;
    Some(Begin { session: header.session_id, transcript: header.transcript, turn })
}

/// Those of one transcript change places with each other until their turns ascend; all others stay where they are.
fn by_turn(mut names: Vec<String>, begins: &HashMap<String, Begin>) -> Vec<String> {
    let mut transcripts: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    for (at, name) in names.iter().enumerate() {
        if let Some(begin) = begins.get(name) {
            transcripts.entry((&begin.session, &begin.transcript)).or_default().push(at);
        }
    }
    for places in transcripts.into_values() {
        let mut ordered: Vec<String> = places.iter().map(|at| names[*at].clone()).collect();
        ordered.sort_by_key(|name| begins.get(name).map(|begin| begin.turn));
        for (at, name) in places.into_iter().zip(ordered) {
            names[at] = name;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_session_and_a_time() {
        let table = [
            ("s-1700000000-0a1b2c3d.jsonl", ("s", 1_700_000_000)),
            ("s-1700000000.jsonl", ("s", 1_700_000_000)),
            // A random part of digits only, and a session with dashes and digits.
            ("01a1-b2-1700000000-12345678.jsonl", ("01a1-b2", 1_700_000_000)),
            ("odd.jsonl", ("odd", 0)),
            ("odd-name.jsonl", ("odd-name", 0)),
        ];
        for (name, want) in table {
            assert_eq!(parts(name), want, "{name}");
        }
    }

    #[test]
    fn turns_ascend_within_a_transcript_and_nothing_else_moves() {
        let begin = |transcript: &str, turn| Begin {
            session: "s".to_owned(),
            transcript: transcript.to_owned(),
            turn,
        };
        let begins = HashMap::from([
            ("a9".to_owned(), begin("a", 9)),
            ("a1".to_owned(), begin("a", 1)),
            ("a5".to_owned(), begin("a", 5)),
            // Another record of the same session, which counts anew.
            ("b2".to_owned(), begin("b", 2)),
        ]);
        let names = ["a9", "x", "b2", "a1", "y", "a5"].map(str::to_owned).to_vec();
        assert_eq!(by_turn(names, &begins), ["a1", "x", "b2", "a5", "y", "a9"]);
    }
}
