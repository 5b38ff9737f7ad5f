//! What the documents and pins promise.

use std::collections::BTreeMap;
use std::fs;

use ostler_agent::agents::AGENTS;
use serde_json::Value;

use super::{METADATA, NOTHING, read, root};

/// A map that is longer is no longer read.
const MAP_LINES: usize = 150;

const ADR_SECTIONS: [&str; 4] = ["## Context", "## Choice", "## Consequences", "## Rejected"];

/// Documents that a reader starts from.
const DOCUMENTS: [&str; 4] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

fn adr_names() -> Vec<String> {
    let entries = fs::read_dir(root().join("docs/adr")).expect("there are ADRs");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry can be read").file_name().display().to_string()).collect();
    names.sort();
    names
}

/// What is wrong with the decision that stands in the given place of the list.
fn adr_complaints(number: usize, name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if !name.starts_with(&format!("{number:04}-")) || !name.ends_with(".md") {
        found.push(format!("{name}: number {number:04} is next"));
    }
    if !text.starts_with(&format!("# {number:04}: ")) {
        found.push(format!("{name}: the title is `# {number:04}: …`"));
    }
    let sections: Vec<&str> = text.lines().filter(|line| line.starts_with("## ")).collect();
    if sections != ADR_SECTIONS {
        found.push(format!("{name}: the sections are {ADR_SECTIONS:?}"));
    }
    found
}

/// Targets of Markdown links to places in the tree.
fn local_links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|target| !target.is_empty() && !target.contains("://"))
}

fn json(path: &str) -> Value {
    serde_json::from_str(&read(path)).expect("a pin file is JSON")
}

#[test]
fn the_map_is_short_and_names_every_crate() {
    let map = read("ARCHITECTURE.md");
    assert!(map.lines().count() <= MAP_LINES, "ARCHITECTURE.md has more than {MAP_LINES} lines");
    for package in METADATA.workspace_packages() {
        assert!(
            map.contains(&format!("{}/", package.name)),
            "ARCHITECTURE.md does not name {}/",
            package.name
        );
    }
}

#[test]
fn decisions_are_numbered_without_gaps_and_say_why() {
    let found: Vec<String> = adr_names()
        .iter()
        .enumerate()
        .flat_map(|(index, name)| adr_complaints(index + 1, name, &read(&format!("docs/adr/{name}"))))
        .collect();
    assert_eq!(found, NOTHING);
}

#[test]
fn a_badly_written_decision_is_noticed() {
    let good = format!("# 0007: A choice\n\n{}\n", ADR_SECTIONS.join("\n\nWords.\n\n"));
    assert_eq!(adr_complaints(7, "0007-a-choice.md", &good), NOTHING);
    assert_eq!(adr_complaints(8, "0007-a-choice.md", &good).len(), 2);
    assert_eq!(adr_complaints(7, "0007-a-choice.md", &good.replace("## Rejected", "")).len(), 1);
}

#[test]
fn links_in_documents_lead_somewhere() {
    for document in DOCUMENTS {
        let text = read(document);
        for target in local_links(&text) {
            assert!(root().join(target).exists(), "{document} links to {target}, which is not there");
        }
    }
}

#[test]
fn the_pinned_agents_are_the_ones_ostler_was_proven_with() {
    let proven: BTreeMap<&str, &str> =
        AGENTS.iter().map(|agent| (agent.package().npm, agent.package().verified)).collect();
    let pins = json("agents/package.json");
    let pinned: BTreeMap<&str, &str> = pins["dependencies"]
        .as_object()
        .expect("agents are dependencies")
        .iter()
        .map(|(name, version)| (name.as_str(), version.as_str().unwrap_or_default()))
        .collect();
    assert_eq!(pinned, proven);
    let lock = json("agents/package-lock.json");
    for (npm, version) in proven {
        assert_eq!(lock["packages"][format!("node_modules/{npm}")]["version"], version, "{npm}");
    }
}

#[test]
fn locks_of_npm_packages_leave_the_registry_open() {
    for folder in ["agents", "agents/newer", "clients"] {
        let lock = json(&format!("{folder}/package-lock.json"));
        let packages = lock["packages"].as_object().expect("the lock lists packages");
        let has_registry = |entry: &Value| entry.get("resolved").is_some();
        let bound: Vec<&String> =
            packages.iter().filter(|(_, entry)| has_registry(entry)).map(|(name, _)| name).collect();
        assert!(
            bound.is_empty(),
            "{folder}: {bound:?}: write the lock with `npm install --omit-lockfile-registry-resolved`"
        );
    }
}

#[test]
fn clients_of_others_are_pinned_exactly() {
    let (pins, lock) = (json("clients/package.json"), json("clients/package-lock.json"));
    for (npm, version) in pins["dependencies"].as_object().expect("clients are dependencies") {
        assert_eq!(&lock["packages"][format!("node_modules/{npm}")]["version"], version, "{npm}");
    }
}

/// A name, one version, and at least one hash for each; no place to get it from.
#[test]
fn python_packages_are_pinned_by_their_hashes() {
    let text = read("clients/requirements.txt").replace("\\\n", " ");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let is_pinned = |line: &&&str| line.contains("==") && line.contains("--hash=sha256:");
    let loose: Vec<&&str> = lines.iter().filter(|line| !is_pinned(line)).collect();
    assert_eq!(loose, Vec::<&&str>::new());
    for library in ["anthropic==", "openai=="] {
        assert!(lines.iter().any(|line| line.starts_with(library)), "{library} is missing");
    }
}

/// The workspace has two binaries; without a default, the readme's first command fails before it builds anything.
#[test]
fn cargo_run_means_ostler() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the root manifest can be read");
    let manifest: toml::Table = manifest.parse().expect("the root manifest is TOML");
    assert_eq!(manifest["workspace"]["default-members"], toml::Value::from(vec!["crates/ostler"]));
}
