//! Files: how they are named, and what none of them says.

use std::fs;
use std::path::{Path, PathBuf};

use super::{NOTHING, root};

/// Words that tell a reader nothing.
const EMPTY_NAMES: [&str; 8] = ["utils", "common", "core", "manager", "helpers", "types", "imp", "misc"];

/// Folders below `/` in which somebody's machine begins.
const HOMES: [&str; 4] = ["root", "work", "home", "Users"];

/// What was recorded names places on the machine of the recording. Rules about home directories are tested with one that
/// looks like any other.
const MAY_NAME_HOMES: &[&str] = &[
    "crates/ostler-agent/src/jail/agent_state_tests.rs",
    "crates/ostler-agent/src/jail/decision_tests.rs",
    "crates/ostler-agent/src/jail/denial_tests.rs",
    "crates/ostler-agent/src/jail/named_paths.rs",
    "crates/ostler-agent/src/jail/tenant_tests.rs",
    "crates/ostler-agent/src/jail/world.rs",
    "crates/ostler-agent/recordings/",
    "crates/ostler-agent/tests/suite/snapshots/",
    "crates/ostler-fake-agent/fixtures/recordings/",
];

/// Paths from the top of every file that belongs to the tree.
fn files() -> Vec<String> {
    let mut found = Vec::new();
    collect(&root(), &mut found);
    let top = root();
    let relative = |path: &Path| path.strip_prefix(&top).expect("collected below").display().to_string();
    let mut paths: Vec<String> = found.iter().map(|path| relative(path)).collect();
    paths.sort();
    paths
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder can be listed") {
        let path = entry.expect("an entry can be read").path();
        let name = path.file_name().unwrap_or_default();
        let is_made = name == "target" || path.join("CACHEDIR.TAG").exists();
        if name == ".git" || name == "node_modules" || is_made {
            continue;
        }
        if path.is_dir() { collect(&path, found) } else { found.push(path) }
    }
}

/// Each line of each text file, as `path:number` and its words.
fn lines(wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = (String, String)> {
    let text = |path: String| Some((fs::read_to_string(root().join(&path)).ok()?, path));
    files().into_iter().filter(move |path| wanted(path)).filter_map(text).flat_map(|(text, path)| {
        let numbered =
            text.lines().enumerate().map(|(index, line)| (format!("{path}:{}", index + 1), line.to_owned()));
        numbered.collect::<Vec<_>>()
    })
}

fn is_empty_name(name: &str) -> bool {
    name.split(['_', '-']).any(|word| EMPTY_NAMES.contains(&word))
}

/// The module that a line of Rust declares.
fn declared_module(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "mod").filter(|at| *at <= 1)?;
    words.get(at + 1).map(|name| name.trim_end_matches([';', '{']))
}

/// Whether a line names a place on somebody's machine, rather than one below some other folder.
fn names_a_home(line: &str) -> bool {
    HOMES.iter().any(|home| {
        line.match_indices(&format!("/{home}/")).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|char| char.is_alphanumeric() || "_-.~}>)]*".contains(char))
        })
    })
}

#[test]
fn names_say_what_is_inside() {
    let is_source = |path: &&String| path.starts_with("crates/") && path.contains("/src/");
    let parts = |path: &String| path.trim_end_matches(".rs").split('/').skip(1).any(is_empty_name);
    let found: Vec<String> = files().iter().filter(is_source).filter(|path| parts(path)).cloned().collect();
    assert_eq!(found, NOTHING, "{EMPTY_NAMES:?} tell nothing");

    let modules = lines(|path| path.ends_with(".rs") && path.contains("/src/"));
    let found: Vec<String> = modules
        .filter(|(_, line)| declared_module(line).is_some_and(is_empty_name))
        .map(|(place, _)| place)
        .collect();
    assert_eq!(found, NOTHING, "{EMPTY_NAMES:?} tell nothing");
}

#[test]
fn a_module_is_named_by_its_file() {
    let found: Vec<String> = files().into_iter().filter(|path| path.ends_with("/mod.rs")).collect();
    assert_eq!(found, NOTHING, "`foo.rs` beside `foo/`");
}

#[test]
fn no_test_is_ignored() {
    let attribute = concat!("#[", "ignore");
    let ignored = lines(|path| path.ends_with(".rs")).filter(|(_, line)| line.contains(attribute));
    assert_eq!(ignored.map(|(place, _)| place).collect::<Vec<_>>(), NOTHING);
}

#[test]
fn no_file_names_a_place_on_somebodys_machine() {
    let named = lines(|path| !MAY_NAME_HOMES.iter().any(|folder| path.starts_with(folder)))
        .filter(|(_, line)| names_a_home(line));
    assert_eq!(named.map(|(place, _)| place).collect::<Vec<_>>(), NOTHING);
}

#[test]
fn empty_names_and_machine_paths_are_recognised() {
    let names = [("utils", true), ("session_manager", true), ("ostler-core", true), ("coreless", false)];
    for (name, want) in names {
        assert_eq!(is_empty_name(name), want, "{name}");
    }
    let modules =
        [("mod misc;", Some("misc")), ("pub mod imp {", Some("imp")), ("the mod is", None), ("modern", None)];
    for (line, want) in modules {
        assert_eq!(declared_module(line).filter(|name| is_empty_name(name)), want, "{line}");
    }
    for home in HOMES {
        assert!(names_a_home(&format!("cd \"/{home}/someone\"")), "{home}");
        assert!(
            !names_a_home(&format!("https://example.com/{home}/page, ./{home}/x, ${{HOME}}/{home}/x")),
            "{home}"
        );
    }
}
