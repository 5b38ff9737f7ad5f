//! The page that says which test shows what the gateway promises: it is whole, and the tests are there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{NOTHING, read, root};

/// The requirements: how each kind is called, and how many there are of it.
const REQUIREMENTS: [(&str, usize); 9] = [
    ("PATH", 7),
    ("WATCH", 12),
    ("EVT", 13),
    ("PTY", 13),
    ("TURN", 14),
    ("INJ", 15),
    ("BE", 18),
    ("SYN", 4),
    ("GW", 15),
];

/// Less than this is no reason.
const SHORTEST_REASON: usize = 20;

/// The functions of each file with tests, by its name without folder and ending. There may be several of one name.
fn functions() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    collect(&root().join("crates"), &mut found);
    found
}

fn collect(folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("a folder can be listed") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).expect("sources are text");
            let is_of_tests =
                ["#[test]", "#[tokio::test", "for_every_"].iter().any(|mark| text.contains(mark))
                    || path.components().any(|part| part.as_os_str() == "tests");
            if is_of_tests {
                let stem = path.file_stem().unwrap_or_default().display().to_string();
                found.entry(stem).or_default().push_str(&text);
            }
        }
    }
}

/// What is wrong with the page.
fn complaints(page: &str, functions: &BTreeMap<String, String>) -> Vec<String> {
    let numbers = REQUIREMENTS
        .into_iter()
        .flat_map(|(kind, count)| (1..=count).map(move |number| format!("{kind}-{number}")));
    let mut wanted: Vec<String> = numbers.collect();
    let mut found = Vec::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", number, _, tests, ""] = cells[..] else { continue };
        if !number.contains('-') || number.starts_with("--") {
            continue;
        }
        match wanted.iter().position(|known| known == number) {
            Some(at) => drop(wanted.remove(at)),
            None => found.push(format!("{number} is there twice, or is none")),
        }
        let named: Vec<&str> =
            tests.split('`').skip(1).step_by(2).filter(|name| name.contains("::")).collect();
        let is_reason = tests.starts_with("not") && tests.len() > SHORTEST_REASON;
        if named.is_empty() && !is_reason {
            found.push(format!("{number} has neither a test nor a reason"));
        }
        for name in named {
            let Some((file, function)) = name.split_once("::") else { continue };
            let is_there = functions.get(file).is_some_and(|text| text.contains(&format!("fn {function}(")));
            if !is_there {
                found.push(format!("{number}: there is no test `{name}`"));
            }
        }
    }
    found.extend(wanted.into_iter().map(|number| format!("{number} is missing")));
    found
}

#[test]
fn every_requirement_of_the_gateway_has_its_tests() {
    assert_eq!(complaints(&read("docs/gateway-conformance.md"), &functions()), NOTHING);
}

#[test]
fn a_page_that_promises_too_much_is_noticed() {
    let functions = BTreeMap::from([("pool".to_owned(), "async fn it_works() {".to_owned())]);
    let told = |line: &str| {
        let all = complaints(line, &functions);
        all.into_iter().filter(|complaint| !complaint.ends_with("is missing")).collect::<Vec<_>>()
    };
    assert_eq!(told("| BE-1 | x | `pool::it_works` |"), NOTHING);
    assert_eq!(told("| BE-1 | x | not: it is an issue of its own. |"), NOTHING);
    assert_eq!(told("| BE-1 | x | `pool::it_work` |"), ["BE-1: there is no test `pool::it_work`"]);
    assert_eq!(told("| BE-1 | x | not yet |"), ["BE-1 has neither a test nor a reason"]);
    assert_eq!(told("| BE-19 | x | `pool::it_works` |"), ["BE-19 is there twice, or is none"]);
    let all: usize = REQUIREMENTS.iter().map(|(_, count)| count).sum();
    assert_eq!(complaints("", &functions).len(), all);
}
