use std::fs::{self, OpenOptions};
use std::io::Write as _;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

struct Growing {
    _folder: TempDir,
    path: PathBuf,
}

impl Growing {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { path: folder.path().join("t.jsonl"), _folder: folder }
    }

    fn append(&self, text: impl AsRef<[u8]>) {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path).unwrap();
        file.write_all(text.as_ref()).unwrap();
    }
}

/// One call.
fn read(lines: &mut Lines) -> (Vec<String>, Progress) {
    let mut found = Vec::new();
    let progress = lines.read(|frame| match frame {
        Frame::Line(line) => found.push(String::from_utf8_lossy(line).into_owned()),
        Frame::TooLong(length) => found.push(format!("too long: {length}")),
    });
    (found, progress.unwrap())
}

fn caught_up(lines: &[&str]) -> (Vec<String>, Progress) {
    (lines.iter().map(|line| (*line).to_owned()).collect(), Progress::CaughtUp)
}

fn started_over() -> (Vec<String>, Progress) {
    (vec![], Progress::StartedOver)
}

#[test]
fn a_torn_line_is_left_for_later() {
    let file = Growing::new();
    let mut lines = Lines::at(&file.path, 0);
    assert_eq!(read(&mut lines), caught_up(&[]), "not there yet");
    file.append("");
    assert_eq!(read(&mut lines), caught_up(&[]), "empty");
    file.append("one\ntw");
    assert_eq!(read(&mut lines), caught_up(&["one"]));
    assert_eq!(lines.offset(), 4);
    assert_eq!(read(&mut lines), caught_up(&[]));
    file.append("o\r\nthree\n");
    assert_eq!(read(&mut lines), caught_up(&["two", "three"]));
    assert_eq!(lines.offset(), 15);
    file.append("é".as_bytes().split_at(1).0);
    assert_eq!(read(&mut lines), caught_up(&[]));
    file.append("é".as_bytes().split_at(1).1);
    file.append("\n");
    assert_eq!(read(&mut lines), caught_up(&["é"]));
}

#[test]
fn it_begins_at_an_offset_but_not_within_a_line() {
    let file = Growing::new();
    file.append("one\ntwo\nthr");
    for (offset, want) in [(0, vec!["one", "two", "three"]), (4, vec!["two", "three"]), (8, vec!["three"])] {
        let mut lines = Lines::at(&file.path, offset);
        let mut found = read(&mut lines).0;
        let rest = Growing { _folder: tempfile::tempdir().unwrap(), path: file.path.clone() };
        if fs::read(&file.path).unwrap().ends_with(b"thr") {
            rest.append("ee\n");
        }
        found.extend(read(&mut lines).0);
        assert_eq!(found, want, "{offset}");
    }
    assert_eq!(read(&mut Lines::at(&file.path, 10)), caught_up(&["three"]), "within the third");
    assert_eq!(read(&mut Lines::at(&file.path, 14)), caught_up(&[]), "at the end");
    let mut beyond = Lines::at(&file.path, 15);
    assert_eq!(read(&mut beyond), started_over(), "it was cut since");
    assert_eq!(read(&mut beyond).0.len(), 3);
}

#[test]
fn a_file_that_is_cut_replaced_or_rewritten_is_read_from_its_beginning() {
    type Change = fn(&Path);
    let table: [(&str, Change); 5] = [
        ("cut", |path| fs::write(path, "new\n").unwrap()),
        ("rewritten, longer", |path| fs::write(path, "new\n".repeat(9)).unwrap()),
        ("replaced", |path| {
            fs::write(path.with_extension("tmp"), "old 1\nold 2\nnew\n").unwrap();
            fs::rename(path.with_extension("tmp"), path).unwrap();
        }),
        ("removed, made again", |path| {
            fs::remove_file(path).unwrap();
            fs::write(path, "other\nnew\n").unwrap();
        }),
        ("emptied", |path| {
            fs::write(path, "").unwrap();
        }),
    ];
    for (name, change) in table {
        let file = Growing::new();
        file.append("old 1\nold 2\nto");
        let mut lines = Lines::at(&file.path, 0);
        assert_eq!(read(&mut lines), caught_up(&["old 1", "old 2"]), "{name}");
        change(&file.path);
        assert_eq!(read(&mut lines), started_over(), "{name}");
        let want: Vec<String> = fs::read_to_string(&file.path).unwrap().lines().map(str::to_owned).collect();
        assert_eq!(read(&mut lines), (want, Progress::CaughtUp), "{name}");
        assert_eq!(read(&mut lines), caught_up(&[]), "{name}");
    }
}

#[test]
fn a_file_that_went_away_starts_over_once() {
    let file = Growing::new();
    file.append("one\n");
    let mut lines = Lines::at(&file.path, 0);
    assert_eq!(read(&mut lines), caught_up(&["one"]));
    fs::remove_file(&file.path).unwrap();
    assert_eq!(read(&mut lines), started_over());
    assert_eq!(read(&mut lines), caught_up(&[]));
    file.append("one\n");
    assert_eq!(read(&mut lines), caught_up(&["one"]));
}

#[test]
fn one_call_reads_only_so_much() {
    let file = Growing::new();
    let long = "x".repeat(READ_AT_MOST + 10);
    file.append(format!("{long}\nlast\n"));
    let mut lines = Lines::at(&file.path, 0);
    assert_eq!(read(&mut lines), (vec![], Progress::More));
    assert_eq!(read(&mut lines), (vec![long, "last".to_owned()], Progress::CaughtUp));
}

#[test]
fn what_is_no_file_is_an_error_and_holds_nobody() {
    let file = Growing::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &file.path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let error = Lines::at(&file.path, 0).read(|_| {}).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

/// What happens to the file, and to its reader.
#[derive(Debug, Clone)]
enum Act {
    Append(Vec<u8>),
    Read,
    /// Another reader goes on from where this one was.
    GoOn,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let byte = prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'x'), any::<u8>()];
    let act = prop_oneof![
        4 => prop::collection::vec(byte, 0..40).prop_map(Act::Append),
        2 => Just(Act::Read),
        1 => Just(Act::GoOn),
    ];
    prop::collection::vec(act, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_appends_and_any_reads_give_the_same_lines(acts in acts()) {
        let file = Growing::new();
        let (mut all, mut found) = (Vec::new(), Vec::new());
        let mut lines = Lines::at(&file.path, 0);
        let mut read = |lines: &mut Lines| {
            lines.read(|frame| {
                if let Frame::Line(line) = frame {
                    found.push(line.to_vec());
                }
            })
        };
        for act in acts {
            match act {
                Act::Append(bytes) => {
                    file.append(&bytes);
                    all.extend(bytes);
                }
                Act::Read => prop_assert_eq!(read(&mut lines).unwrap(), Progress::CaughtUp),
                Act::GoOn => lines = Lines::at(&file.path, lines.offset()),
            }
        }
        prop_assert_eq!(read(&mut lines).unwrap(), Progress::CaughtUp);
        let mut want: Vec<Vec<u8>> = all.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        want.pop();
        for line in &mut want {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
        }
        prop_assert_eq!(found, want);
    }
}
