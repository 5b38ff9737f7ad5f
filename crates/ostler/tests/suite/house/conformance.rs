//! The page that says which test shows what the gateway promises: it is whole, and the tests are there.

use std::collections::{BTreeMap, BTreeSet};
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

/// The tests of each file, by its name without folder and ending. There may be several files of one name.
type Tests = BTreeMap<String, BTreeSet<String>>;

fn tests() -> Tests {
    let mut sources = Vec::new();
    collect(&root().join("crates"), &mut sources);
    let makers: BTreeSet<&str> = sources.iter().flat_map(|(_, text)| makers(text)).collect();
    let mut found = Tests::new();
    for (stem, text) in &sources {
        found.entry(stem.clone()).or_default().extend(tests_of(text, &makers));
    }
    found
}

fn collect(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("a folder can be listed") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).expect("sources are text");
            found.push((path.file_stem().unwrap_or_default().display().to_string(), text));
        }
    }
}

fn is_mark(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("#[test]") || line.starts_with("#[tokio::test")
}

/// What stands between a line and the end of what it opens: the sources are formatted, so that is at the same column.
fn within<'a>(opening: &str, rest: &[&'a str]) -> Vec<&'a str> {
    let column = |line: &str| line.len() - line.trim_start().len();
    let is_end = |line: &&&str| !line.trim().is_empty() && column(line) <= column(opening);
    let end = rest.iter().position(|line| is_end(&line)).unwrap_or(rest.len());
    rest[..end].to_vec()
}

/// The macros of a file that make tests.
fn makers(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let named = lines.iter().enumerate().filter_map(|(at, line)| {
        let name = line.trim_start().strip_prefix("macro_rules! ")?.strip_suffix(" {")?;
        within(line, &lines[at + 1..]).iter().any(|line| is_mark(line)).then_some(name)
    });
    named.collect()
}

/// The name of the function that begins in a line.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
    Some(&line[..line.find('(')?])
}

/// The tests of a file: functions that are marked as such, and those that are given to a macro that makes tests of them,
/// whole or by name.
fn tests_of(text: &str, makers: &BTreeSet<&str>) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let (mut found, mut is_marked, mut at) = (Vec::new(), false, 0);
    while let Some(line) = lines.get(at) {
        at += 1;
        let trimmed = line.trim_start();
        let called = trimmed.split_once('!').filter(|(name, _)| makers.contains(name));
        if trimmed.starts_with("macro_rules! ") {
            // What it makes has another name.
            at += within(line, &lines[at..]).len();
        } else if let Some((_, given)) = called {
            let inside = within(line, &lines[at..]);
            at += inside.len();
            if given.trim_start().starts_with('{') {
                let outermost = inside.iter().filter_map(|line| function(line).map(|name| (line, name)));
                let first = inside.iter().find(|line| function(line).is_some());
                let column = first.map(|line| line.len() - line.trim_start().len());
                let outermost =
                    outermost.filter(|(line, _)| Some(line.len() - line.trim_start().len()) == column);
                found.extend(outermost.map(|(_, name)| name.to_owned()));
            } else {
                let given = format!("{given} {}", inside.join(" "));
                let names = given.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
                found.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
            }
        } else if is_mark(line) {
            is_marked = true;
        } else if let Some(name) = function(line) {
            if std::mem::take(&mut is_marked) {
                found.push(name.to_owned());
            }
        } else if !(trimmed.is_empty() || trimmed.starts_with("#[") || trimmed.starts_with("//")) {
            is_marked = false;
        }
    }
    found
}

/// What is wrong with the page.
fn complaints(page: &str, tests: &Tests) -> Vec<String> {
    let numbers = REQUIREMENTS
        .into_iter()
        .flat_map(|(kind, count)| (1..=count).map(move |number| format!("{kind}-{number}")));
    let mut wanted: Vec<String> = numbers.collect();
    let mut found = Vec::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", number, _, shown, ""] = cells[..] else { continue };
        if !number.contains('-') || number.starts_with("--") {
            continue;
        }
        match wanted.iter().position(|known| known == number) {
            Some(at) => drop(wanted.remove(at)),
            None => found.push(format!("{number} is there twice, or is none")),
        }
        let named: Vec<&str> =
            shown.split('`').skip(1).step_by(2).filter(|name| name.contains("::")).collect();
        let is_reason = shown.starts_with("not") && shown.len() > SHORTEST_REASON;
        if named.is_empty() && !is_reason {
            found.push(format!("{number} has neither a test nor a reason"));
        }
        for name in named {
            let Some((file, function)) = name.split_once("::") else { continue };
            if !tests.get(file).is_some_and(|tests| tests.contains(function)) {
                found.push(format!("{number}: there is no test `{name}`"));
            }
        }
    }
    found.extend(wanted.into_iter().map(|number| format!("{number} is missing")));
    found
}

#[test]
fn every_requirement_of_the_gateway_has_its_tests() {
    assert_eq!(complaints(&read("docs/gateway-conformance.md"), &tests()), NOTHING);
}

/// The tests that a page names and that are not there.
fn absent(page: &str, tests: &Tests) -> Vec<String> {
    let names = page.split('`').skip(1).step_by(2).filter_map(|name| name.split_once("::"));
    let is_absent =
        |(file, function): &(&str, &str)| !tests.get(*file).is_some_and(|tests| tests.contains(*function));
    names.filter(is_absent).map(|(file, function)| format!("there is no test `{file}::{function}`")).collect()
}

#[test]
fn every_promise_about_security_has_its_tests() {
    let (page, tests) = (read("docs/security.md"), tests());
    assert_eq!(absent(&page, &tests), NOTHING);
    let promises = page.split("## ").find(|part| part.starts_with("Promises")).unwrap_or_default();
    let rows = promises.lines().filter(|line| line.starts_with("| ")).skip(1);
    let unproven: Vec<&str> = rows.filter(|row| !row.contains("::")).collect();
    assert_eq!(unproven, NOTHING);
    assert_eq!(absent("`pool::it_work`", &tests), ["there is no test `pool::it_work`"]);
}

#[test]
fn a_page_that_promises_too_much_is_noticed() {
    let tests = Tests::from([("pool".to_owned(), BTreeSet::from(["it_works".to_owned()]))]);
    let told = |line: &str| {
        let all = complaints(line, &tests);
        all.into_iter().filter(|complaint| !complaint.ends_with("is missing")).collect::<Vec<_>>()
    };
    assert_eq!(told("| BE-1 | x | `pool::it_works` |"), NOTHING);
    assert_eq!(told("| BE-1 | x | not: it is an issue of its own. |"), NOTHING);
    assert_eq!(told("| BE-1 | x | `pool::it_work` |"), ["BE-1: there is no test `pool::it_work`"]);
    assert_eq!(told("| BE-1 | x | not yet |"), ["BE-1 has neither a test nor a reason"]);
    assert_eq!(told("| BE-19 | x | `pool::it_works` |"), ["BE-19 is there twice, or is none"]);
    let all: usize = REQUIREMENTS.iter().map(|(_, count)| count).sum();
    assert_eq!(complaints("", &tests).len(), all);
}

/// A helper is not, and neither is what a macro makes of a test.
#[test]
fn only_tests_are_tests() {
    let text = r#"
macro_rules! for_both {
    ($($name:ident),*) => {$(
        mod $name {
            #[tokio::test]
            async fn one() {}
        }
    )*};
}
macro_rules! each {
    () => {};
}
for_both!(named, named_too);
for_both!(
    in_a_list,
);
async fn named() {}
fn helper() {}
each! {
    fn no_test() {}
}
#[tokio::test(start_paused = true)]
#[cfg(unix)]
/// A note.
async fn marked() {
    fn inner() {}
}
fn after() {}
#[test]
const NOTHING: u8 = 0;
fn not_marked() {}
mod tests {
    proptest! {
        #[test]
        fn property(text in any::<String>()) {}
    }
}
for_both! {
    /// Whole.
    async fn given() {
        fn inner_of_given() {}
    }

    async fn given_too() {}
}
"#;
    let makers = BTreeSet::from_iter(makers(text));
    assert_eq!(makers, BTreeSet::from(["for_both"]));
    let found = ["named", "named_too", "in_a_list", "marked", "property", "given", "given_too"];
    assert_eq!(tests_of(text, &makers), found);
}
