use proptest::prelude::*;

use super::*;

const RUN: &str = "0199-run";

fn fields(kind: &str) -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), Value::from(kind))])
}

/// A chain of four lines: opened, two artifacts, the claim.
fn chain(folder: &Path) -> Chain {
    let path = folder.join("receipts.ndjson");
    let (mut chain, past) = Chain::open(&path, RUN, 1, Key::random().unwrap(), None).unwrap();
    assert_eq!(past, Past::None);
    chain.append(ReceiptKind::Artifact, fields("plan")).unwrap();
    chain.append(ReceiptKind::Artifact, fields("result")).unwrap();
    chain.append(ReceiptKind::Complete, Map::new()).unwrap();
    chain
}

fn lines(chain: &Chain) -> Vec<String> {
    std::fs::read_to_string(&chain.path).unwrap().lines().map(str::to_owned).collect()
}

fn written(chain: &Chain, lines: &[String]) {
    std::fs::write(&chain.path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
}

/// What the process with the key says, what a reader with the outcome says, and what a reader without it says.
fn told(chain: &Chain) -> [String; 3] {
    let text = std::fs::read(&chain.path).unwrap();
    let told = |found: Result<Verified, Broken>| match found {
        Ok(found) => format!("ok, {} of {}", found.seals, found.receipts.len()),
        Err(broken) => format!("{}: {:?}", broken.line, broken.flaw),
    };
    [
        told(chain.audit().unwrap()),
        told(verify(&text, RUN, None, Some(chain.head()))),
        told(verify(&text, RUN, None, None)),
    ]
}

#[test]
fn a_chain_as_it_was_written_is_whole_for_everybody() {
    let folder = tempfile::tempdir().unwrap();
    let chain = chain(folder.path());
    assert_eq!(told(&chain), ["ok, 4 of 4", "ok, 0 of 4", "ok, 0 of 4"]);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&chain.path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn every_edit_by_hand_is_told_with_its_line() {
    type Edit = fn(&mut Vec<String>);
    let table: [(&str, Edit, [&str; 3]); 9] = [
        (
            "a word in the middle",
            |lines| lines[1] = lines[1].replace("plan", "plum"),
            ["2: Seal", "3: DoesNotFollow", "3: DoesNotFollow"],
        ),
        (
            "a word in the last line",
            |lines| lines[3] = lines[3].replace("complete", "artifact"),
            ["4: Seal", "4: LastLine", "ok, 0 of 4"],
        ),
        (
            "a line is taken out",
            |lines| drop(lines.remove(1)),
            ["2: Number(3)", "2: Number(3)", "2: Number(3)"],
        ),
        (
            "two lines change places",
            |lines| lines.swap(1, 2),
            ["2: Number(3)", "2: Number(3)", "2: Number(3)"],
        ),
        (
            "the end is cut off",
            |lines| lines.truncate(2),
            ["3: CutOff { lines: 4 }", "3: CutOff { lines: 4 }", "ok, 0 of 2"],
        ),
        ("all is gone", Vec::clear, ["1: CutOff { lines: 4 }", "1: CutOff { lines: 4 }", "ok, 0 of 0"]),
        (
            "words that are no receipt",
            |lines| lines.insert(0, "done".to_owned()),
            ["1: NotAReceipt", "1: NotAReceipt", "1: NotAReceipt"],
        ),
        (
            "a version that is not ours",
            |lines| lines[0] = lines[0].replace("\"v\":1", "\"v\":2"),
            ["1: Version(2)", "1: Version(2)", "1: Version(2)"],
        ),
        (
            "a line that a forger chained, without the key",
            |lines| {
                let entry = Entry {
                    v: 1,
                    seq: 5,
                    at: "now".to_owned(),
                    kind: ReceiptKind::Complete,
                    fields: Map::new(),
                    prev: digest(lines[3].as_bytes()),
                };
                lines.push(entry.seal(&Key::random().unwrap()).text);
            },
            ["5: Seal", "5: Added", "ok, 0 of 5"],
        ),
    ];
    for (name, edit, want) in table {
        let folder = tempfile::tempdir().unwrap();
        let chain = chain(folder.path());
        let mut all = lines(&chain);
        edit(&mut all);
        written(&chain, &all);
        assert_eq!(told(&chain), want, "{name}");
    }
}

#[test]
fn the_chain_of_another_run_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read(&chain(folder.path()).path).unwrap();
    let broken = verify(&text, "another", None, None).unwrap_err();
    assert_eq!(broken, Broken { line: 1, flaw: Flaw::DoesNotFollow });
    assert!(broken.to_string().starts_with("the chain of receipts is broken at line 1: it does not follow"));
}

#[test]
fn a_resumed_run_goes_on_with_the_chain_under_a_new_key() {
    let folder = tempfile::tempdir().unwrap();
    let first = chain(folder.path());
    let (mut second, past) =
        Chain::open(&first.path, RUN, 2, Key::random().unwrap(), Some(first.head())).unwrap();
    let Past::Confirmed(receipts) = past else { panic!("{past:?}") };
    assert_eq!(receipts.len(), 4);
    second.append(ReceiptKind::Complete, Map::new()).unwrap();
    assert_eq!(told(&second), ["ok, 2 of 6", "ok, 0 of 6", "ok, 0 of 6"]);
}

#[test]
fn a_chain_without_an_outcome_does_not_count_and_a_torn_line_is_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let first = chain(folder.path());
    let mut text = std::fs::read(&first.path).unwrap();
    text.extend_from_slice(b"{\"v\":1,\"seq\":5,");
    std::fs::write(&first.path, text).unwrap();
    let (second, past) = Chain::open(&first.path, RUN, 2, Key::random().unwrap(), None).unwrap();
    assert!(matches!(past, Past::Unconfirmed(receipts) if receipts.len() == 4));
    assert_eq!(told(&second)[0], "ok, 1 of 5");
    assert!(lines(&second)[4].contains("\"torn_bytes\":15"));
}

#[test]
fn a_broken_chain_is_put_aside_and_a_new_one_begun() {
    let folder = tempfile::tempdir().unwrap();
    let first = chain(folder.path());
    let mut all = lines(&first);
    all.remove(1);
    written(&first, &all);
    let (second, past) =
        Chain::open(&first.path, RUN, 2, Key::random().unwrap(), Some(first.head())).unwrap();
    let Past::Broken { broken, aside } = past else { panic!("{past:?}") };
    assert_eq!(broken.line, 2);
    assert_eq!(std::fs::read_to_string(aside).unwrap().lines().count(), 3);
    assert_eq!(told(&second)[0], "ok, 1 of 1");
}

proptest! {
    #[test]
    fn no_bytes_make_a_verification_panic(text in proptest::collection::vec(any::<u8>(), 0..400)) {
        let key = Key::random().unwrap();
        let _ = verify(&text, RUN, Some((&key, 1)), None);
    }

    #[test]
    fn every_byte_of_a_chain_counts(at in 0_usize..2000, flip in 1_u8..=255) {
        let folder = tempfile::tempdir().unwrap();
        let chain = chain(folder.path());
        let mut text = std::fs::read(&chain.path).unwrap();
        let at = at % text.len();
        text[at] ^= flip;
        // A line that only lost its end is told apart from nothing: the empty line is no line.
        prop_assume!(at + 1 < text.len());
        std::fs::write(&chain.path, &text).unwrap();
        prop_assert!(chain.audit().unwrap().is_err());
    }
}
