//! Every package, on all platforms and for tests too, has a licence that goes with ours.

use std::iter::Peekable;

use super::METADATA;

/// Permissive licences that some package needs. A new one is a decision: see docs/adr/0006.
const ALLOWED: &[&str] = &[
    "Apache-2.0",
    "BSD-3-Clause",
    // Root certificates as data, on platforms that have none of their own.
    "CDLA-Permissive-2.0",
    // As MIT, in fewer words: what TLS is built of.
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    // LibTomCrypt, which lies beside the source of SQLCipher and is not built.
    "WTFPL",
    "Zlib",
    // SQLite: no rights are kept.
    "blessing",
];

/// Whether one may choose among what the expression offers (`A OR B`, `A AND B`, `A/B`, `A WITH exception`).
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any_of(&mut words) && words.next().is_none()
}

fn any_of<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>) -> bool {
    let mut allowed = all_of(words);
    while words.next_if_eq(&"OR").is_some() {
        allowed |= all_of(words);
    }
    allowed
}

fn all_of<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>) -> bool {
    let mut allowed = one(words);
    while words.next_if_eq(&"AND").is_some() {
        allowed &= one(words);
    }
    allowed
}

fn one<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let allowed = any_of(words);
        return words.next() == Some(")") && allowed;
    }
    let allowed = words.next().is_some_and(|name| ALLOWED.contains(&name));
    // An exception only ever permits more.
    if words.next_if_eq(&"WITH").is_some() {
        words.next();
    }
    allowed
}

#[test]
fn every_package_has_an_allowed_licence() {
    let found: Vec<String> = METADATA
        .packages
        .iter()
        .filter(|package| !package.license.as_deref().is_some_and(is_allowed))
        .map(|package| {
            format!("{}: {}", package.name, package.license.as_deref().unwrap_or("no licence named"))
        })
        .collect();
    assert!(found.is_empty(), "not allowed: {found:#?}");
}

#[test]
fn licence_expressions_are_read_as_meant() {
    let table = [
        ("MIT", true),
        ("GPL-3.0-only", false),
        ("GPL-3.0-only OR MIT", true),
        ("MIT/GPL-3.0-only", true),
        ("MIT AND GPL-3.0-only", false),
        ("(MIT OR GPL-3.0-only) AND Unicode-3.0", true),
        ("GPL-3.0-only OR MIT AND MPL-2.0", false),
        ("Apache-2.0 WITH LLVM-exception OR GPL-3.0-only", true),
        ("(MIT", false),
        ("MIT MIT", false),
        ("", false),
    ];
    for (expression, want) in table {
        assert_eq!(is_allowed(expression), want, "{expression}");
    }
}
