//! npm's lock of one agent's package: which packages an install may bring, each with the sha512 of its tarball.
//!
//! A lock comes from this release, from the record of an earlier install, or from the registry. npm compares every
//! tarball with it before it unpacks anything. What is written for npm names no registry (the user's settings do), and
//! no program of a package.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::package::Package;

/// The locks that the agents of Ostler's own tests are installed by.
const PINNED: [&str; 2] = [
    include_str!("../../../../agents/package-lock.json"),
    include_str!("../../../../agents/newer/package-lock.json"),
];

const MODULES: &str = "node_modules/";

/// What is taken over from an entry of npm's lock. Not `resolved`, `bin`, `engines` and what is said of scripts.
const FIELDS: [&str; 11] = [
    "name",
    "version",
    "integrity",
    "inBundle",
    "optional",
    "os",
    "cpu",
    "libc",
    "dependencies",
    "optionalDependencies",
    "peerDependencies",
];

/// The beginning of a hash that counts, and its length: 64 bytes in base64.
const SHA512: &str = "sha512-";
const SHA512_CHARS: usize = SHA512.len() + 88;

/// The packages of one version of an agent, by their location below the folder of an install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageLock {
    npm: &'static str,
    version: String,
    entries: BTreeMap<String, Map<String, Value>>,
}

/// The two files that `npm ci` reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// `package.json`
    pub manifest: String,
    /// `package-lock.json`
    pub lock: String,
}

/// A package that has another hash than it should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Its name.
    pub package: String,
    /// Its version.
    pub version: String,
    /// The hash that it should have.
    pub expected: String,
    /// The hash that it has.
    pub received: String,
}

/// Why a lock cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// It is something else, or an npm wrote it that is too old.
    #[error("it is not a package lock as npm 7 and newer write it")]
    NotALock,
    /// It is the lock of something else.
    #[error("it does not list `{package}` in version `{version}`")]
    Other {
        /// Name in the registry.
        package: &'static str,
        /// Which version should be in it.
        version: String,
    },
    /// A package cannot be verified.
    #[error("it has no sha512 for `{package}`")]
    NoHash {
        /// Its name.
        package: String,
    },
    /// A package is not in a registry: a folder, a repository.
    #[error("`{package}` is not a package of a registry")]
    NotInRegistry {
        /// Its name.
        package: String,
    },
    /// A pinned package has another hash.
    #[error("`{}` has another hash than this release pins", .0.package)]
    Differs(Box<Mismatch>),
}

impl PackageLock {
    /// What this release knows of that version. It may lack packages for other platforms.
    pub fn pinned(package: &Package, version: &str) -> Option<Self> {
        PINNED.into_iter().find_map(|text| {
            let all = read_entries(text).ok()?;
            let root = all.get(&location(package.npm))?;
            (text_of(root, "version") == Some(version)).then(|| Self {
                npm: package.npm,
                version: version.to_owned(),
                entries: reachable(&all, package.npm),
            })
        })
    }

    /// Reads what npm wrote, or what was recorded. Hashes that are pinned must be the same, and hold where the lock has
    /// none; every other package must have a sha512 of its own.
    pub fn parse(
        package: &Package,
        version: &str,
        text: &str,
        pins: Option<&Self>,
    ) -> Result<Self, LockError> {
        let mut entries = read_entries(text)?;
        entries.remove("");
        let root = entries.get(&location(package.npm)).and_then(|entry| text_of(entry, "version"));
        if root != Some(version) {
            return Err(LockError::Other { package: package.npm, version: version.to_owned() });
        }
        for (place, entry) in &mut entries {
            let name = name_at(place);
            let is_foreign = entry.get("link").is_some_and(|link| *link == Value::Bool(true))
                || text_of(entry, "resolved").is_some_and(|from| !from.starts_with("http"));
            if is_foreign {
                return Err(LockError::NotInRegistry { package: name.to_owned() });
            }
            let is_bundled = entry.get("inBundle").is_some_and(|bundled| *bundled == Value::Bool(true));
            let received = text_of(entry, "integrity").and_then(strongest);
            let hash = match (pins.and_then(|pins| pins.hash_of(name)), received) {
                (Some(expected), Some(received)) if expected != received => {
                    return Err(LockError::Differs(Box::new(Mismatch {
                        package: name.to_owned(),
                        version: text_of(entry, "version").unwrap_or_default().to_owned(),
                        expected: expected.to_owned(),
                        received,
                    })));
                }
                (Some(expected), _) => expected.to_owned(),
                (None, Some(received)) => received,
                // It is a part of another package's tarball.
                (None, None) if is_bundled => continue,
                (None, None) => return Err(LockError::NoHash { package: name.to_owned() }),
            };
            entry.insert("integrity".to_owned(), hash.into());
        }
        for entry in entries.values_mut() {
            entry.retain(|field, _| FIELDS.contains(&field.as_str()));
        }
        Ok(Self { npm: package.npm, version: version.to_owned(), entries })
    }

    /// Whether every package that may hold the native program for that platform is in it.
    pub fn covers(&self, package: &Package, os: &str, arch: &str) -> bool {
        let mut natives = package.natives.iter().filter(|native| native.os == os && native.arch == arch);
        natives.all(|native| self.entries.contains_key(&location(native.package())))
    }

    /// Without the packages for other platforms: a registry need not have them.
    #[must_use]
    pub fn for_platform(&self, os: &str, arch: &str) -> Self {
        let (os, cpu) = (npm_os(os), npm_cpu(arch));
        let mut lock = self.clone();
        lock.entries
            .retain(|_, entry| !is_optional(entry) || (is_for(entry, "os", os) && is_for(entry, "cpu", cpu)));
        let names: BTreeSet<String> = lock.entries.keys().map(|place| name_at(place).to_owned()).collect();
        for entry in lock.entries.values_mut() {
            if let Some(Value::Object(optional)) = entry.get_mut("optionalDependencies") {
                optional.retain(|name, _| names.contains(name));
            }
        }
        lock
    }

    /// What `npm ci` is given to install all of it.
    pub fn project(&self) -> Project {
        project(&json!({ self.npm: self.version }), &self.entries)
    }

    /// What `npm ci` is given to install the package of that location and nothing else. npm forgives an optional package
    /// that it could not install; as the only one, it is required, and npm says what is wrong with it.
    pub fn project_of(&self, place: &str) -> Option<Project> {
        let mut entry = self.entries.get(place)?.clone();
        let version = text_of(&entry, "version")?;
        let spec = match text_of(&entry, "name") {
            Some(real) => format!("npm:{real}@{version}"),
            None => version.to_owned(),
        };
        entry.retain(|field, _| field != "optional" && !field.ends_with("ependencies"));
        let name = name_at(place);
        Some(project(&json!({ name: spec }), &BTreeMap::from([(location(name), entry)])))
    }

    /// The locations of optional packages that npm left out, and not because they are for another C library than those
    /// that it installed.
    pub fn left_out(&self, is_installed: impl Fn(&str) -> bool) -> Vec<&str> {
        let optional = || self.entries.iter().filter(|(_, entry)| is_optional(entry));
        let libraries: Vec<&Value> = optional()
            .filter(|(place, _)| is_installed(place))
            .filter_map(|(_, entry)| entry.get("libc"))
            .collect();
        let is_for_another = |entry: &Map<String, Value>| {
            entry.get("libc").is_some_and(|libc| !libraries.is_empty() && !libraries.contains(&libc))
        };
        let absent = optional().filter(|(place, entry)| !is_installed(place) && !is_for_another(entry));
        absent.map(|(place, _)| place.as_str()).collect()
    }

    /// Every package with its hash, by location. Those that come inside another one have none.
    pub fn hashes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().filter_map(|(place, entry)| Some((place.as_str(), text_of(entry, "integrity")?)))
    }

    /// What npm found wrong, in its words `wanted HASH but got HASH`.
    pub fn mismatch_in(&self, words: &str) -> Option<Mismatch> {
        let (before, after) = words.split_once(" but got ")?;
        let expected = strongest(before.rsplit_once("wanted ")?.1)?;
        let received = after.split_whitespace().next()?.trim_end_matches('.').to_owned();
        let (place, entry) =
            self.entries.iter().find(|(_, entry)| text_of(entry, "integrity") == Some(expected.as_str()))?;
        let version = text_of(entry, "version")?.to_owned();
        Some(Mismatch { package: name_at(place).to_owned(), version, expected, received })
    }

    /// The first package that the other lock has with another hash.
    pub fn difference(&self, other: &Self) -> Option<Mismatch> {
        self.entries.iter().find_map(|(place, entry)| {
            let (expected, received) = (text_of(entry, "integrity")?, other.hash_of(name_at(place))?);
            (expected != received).then(|| Mismatch {
                package: name_at(place).to_owned(),
                version: text_of(entry, "version").unwrap_or_default().to_owned(),
                expected: expected.to_owned(),
                received: received.to_owned(),
            })
        })
    }

    /// The hash of the package of that name, if it is in the lock.
    pub fn hash_of(&self, name: &str) -> Option<&str> {
        self.entries
            .iter()
            .find(|(place, _)| name_at(place) == name)
            .and_then(|(_, entry)| text_of(entry, "integrity"))
    }
}

/// A project that depends on these packages and has them all in its lock.
fn project(dependencies: &Value, entries: &BTreeMap<String, Map<String, Value>>) -> Project {
    let manifest = json!({"private": true, "dependencies": dependencies});
    let mut packages = Map::from_iter([(String::new(), json!({"dependencies": dependencies}))]);
    packages.extend(entries.iter().map(|(place, entry)| (place.clone(), Value::Object(entry.clone()))));
    let lock = json!({"lockfileVersion": 3, "requires": true, "packages": packages});
    Project { manifest: format!("{manifest:#}\n"), lock: format!("{lock:#}\n") }
}

fn read_entries(text: &str) -> Result<BTreeMap<String, Map<String, Value>>, LockError> {
    let mut lock: Value = serde_json::from_str(text).map_err(|_| LockError::NotALock)?;
    let Some(Value::Object(packages)) = lock.get_mut("packages").map(Value::take) else {
        return Err(LockError::NotALock);
    };
    let entries = packages.into_iter().map(|(place, entry)| match entry {
        Value::Object(entry) => Ok((place, entry)),
        _ => Err(LockError::NotALock),
    });
    entries.collect()
}

/// A package with all that it depends on, of a lock in which each package is there once.
fn reachable(all: &BTreeMap<String, Map<String, Value>>, npm: &str) -> BTreeMap<String, Map<String, Value>> {
    let (mut found, mut open) = (BTreeMap::new(), vec![npm.to_owned()]);
    while let Some(name) = open.pop() {
        let place = location(&name);
        let Some(entry) = all.get(&place).filter(|_| !found.contains_key(&place)) else { continue };
        for field in ["dependencies", "optionalDependencies"] {
            open.extend(
                entry
                    .get(field)
                    .and_then(Value::as_object)
                    .into_iter()
                    .flatten()
                    .map(|(name, _)| name.clone()),
            );
        }
        let mut entry = entry.clone();
        entry.retain(|field, _| FIELDS.contains(&field.as_str()));
        found.insert(place, entry);
    }
    found
}

fn location(name: &str) -> String {
    format!("{MODULES}{name}")
}

fn name_at(place: &str) -> &str {
    place.rsplit_once(MODULES).map_or(place, |(_, name)| name)
}

fn text_of<'a>(entry: &'a Map<String, Value>, field: &str) -> Option<&'a str> {
    entry.get(field).and_then(Value::as_str)
}

fn is_optional(entry: &Map<String, Value>) -> bool {
    entry.get("optional") == Some(&Value::Bool(true))
}

/// The sha512 among the hashes of a package.
fn strongest(integrity: &str) -> Option<String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "+/=-".contains(letter);
    let is_hash =
        |word: &&str| word.starts_with(SHA512) && word.len() == SHA512_CHARS && word.chars().all(plain);
    integrity.split_whitespace().find(is_hash).map(str::to_owned)
}

/// Whether a list such as `["linux", "darwin"]` or `["!win32"]` allows it. No list allows everything.
fn is_for(entry: &Map<String, Value>, field: &str, name: &str) -> bool {
    let Some(Value::Array(list)) = entry.get(field) else { return true };
    let words: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
    let is_excluded = words.iter().any(|word| word.strip_prefix('!') == Some(name));
    !is_excluded && (words.iter().all(|word| word.starts_with('!')) || words.contains(&name))
}

fn npm_os(os: &str) -> &str {
    match os {
        "macos" => "darwin",
        same => same,
    }
}

fn npm_cpu(arch: &str) -> &str {
    match arch {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        same => same,
    }
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
