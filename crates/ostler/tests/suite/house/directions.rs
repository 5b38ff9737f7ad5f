//! Directions between our crates, as ARCHITECTURE.md draws them.

use cargo_metadata::{DependencyKind, Package};

use super::{METADATA, NOTHING};

/// Who may use whom, in tests too. A new crate or a new arrow needs an ADR, and then a word here.
const ARROWS: &[(&str, &[&str])] = &[
    ("ostler-agent", &[]),
    ("ostler-process", &["ostler-agent"]),
    ("ostler-sqlcipher", &[]),
    ("ostler-memory", &["ostler-agent", "ostler-sqlcipher"]),
    ("ostler-rehearsal", &["ostler-agent"]),
    ("ostler-fake-agent", &["ostler-agent"]),
    ("ostler-bridge", &["ostler-agent", "ostler-process", "ostler-memory"]),
    ("ostler-gateway", &["ostler-agent", "ostler-process", "ostler-memory", "ostler-bridge"]),
    (
        "ostler",
        &[
            "ostler-agent",
            "ostler-process",
            "ostler-memory",
            "ostler-sqlcipher",
            "ostler-rehearsal",
            "ostler-bridge",
            "ostler-gateway",
        ],
    ),
];

/// Signs of an operating system, a clock, randomness or a runtime in a crate that should have none.
const IMPURE: &[&str] = &[
    "axum",
    "chrono",
    "getrandom",
    "hyper",
    "jiff",
    "libc",
    "mio",
    "nix",
    "rand",
    "reqwest",
    "rustix",
    "tempfile",
    "time",
    "tokio",
    "tracing",
    "which",
    "windows-sys",
];

fn complaint(user: &str, used: &str) -> Option<String> {
    match ARROWS.iter().find(|(name, _)| *name == user) {
        None => Some(format!("{user} is a new crate: write an ADR, then add it to ARROWS")),
        Some((_, allowed)) if allowed.contains(&used) => None,
        Some(_) => Some(format!("{user} may not use {used}: a new arrow needs an ADR")),
    }
}

fn is_ours(name: &str) -> bool {
    name == "ostler" || name.starts_with("ostler-")
}

/// Everything that a crate's own code is linked with.
fn closure(name: &str) -> Vec<&'static Package> {
    let nodes = &METADATA.resolve.as_ref().expect("the graph is resolved").nodes;
    let start = METADATA.workspace_packages().into_iter().find(|package| *package.name == name);
    let mut found = vec![start.expect("the crate is in the workspace").id.clone()];
    let mut next = 0;
    while let Some(id) = found.get(next) {
        let node = nodes.iter().find(|node| node.id == *id).expect("every package has a node");
        for dep in &node.deps {
            let is_linked = dep.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal);
            if is_linked && !found.contains(&dep.pkg) {
                found.push(dep.pkg.clone());
            }
        }
        next += 1;
    }
    found.iter().map(|id| &METADATA[id]).collect()
}

#[test]
fn crates_use_each_other_only_in_the_drawn_directions() {
    let found: Vec<String> = METADATA
        .workspace_packages()
        .iter()
        .flat_map(|user| {
            let ours = user.dependencies.iter().filter(|used| is_ours(&used.name));
            ours.filter_map(|used| complaint(&user.name, &used.name))
        })
        .collect();
    assert_eq!(found, NOTHING);
}

#[test]
fn every_crate_has_its_directions() {
    let packages = METADATA.workspace_packages();
    let is_known = |name: &str| ARROWS.iter().any(|(known, _)| *known == name);
    let new: Vec<&str> =
        packages.iter().map(|package| package.name.as_str()).filter(|name| !is_known(name)).collect();
    assert!(new.is_empty(), "{new:?}: a new crate needs an ADR, and its line in ARROWS");
}

#[test]
fn a_wrong_direction_is_noticed() {
    let table = [
        ("ostler-gateway", "ostler-bridge", None),
        ("ostler-agent", "ostler-process", Some("ostler-agent may not use ostler-process")),
        ("ostler-process", "ostler-memory", Some("ostler-process may not use ostler-memory")),
        ("ostler-memory", "ostler-process", Some("ostler-memory may not use ostler-process")),
        ("ostler-rehearsal", "ostler-process", Some("ostler-rehearsal may not use ostler-process")),
        ("ostler-tools", "ostler-agent", Some("ostler-tools is a new crate: write an ADR")),
    ];
    for (user, used, want) in table {
        let found = complaint(user, used);
        match want {
            None => assert_eq!(found, None),
            Some(start) => assert!(found.is_some_and(|text| text.starts_with(start)), "{start}"),
        }
    }
}

#[test]
fn the_pure_crate_is_linked_with_nothing_that_touches_the_world() {
    let linked: Vec<&str> = closure("ostler-agent").iter().map(|package| package.name.as_str()).collect();
    let found: Vec<&&str> = linked.iter().filter(|name| IMPURE.contains(name)).collect();
    assert!(found.is_empty(), "ostler-agent is linked with {found:?}");
}

#[test]
fn a_crate_that_touches_the_world_is_recognised() {
    assert!(closure("ostler-process").iter().any(|package| IMPURE.contains(&package.name.as_str())));
}
