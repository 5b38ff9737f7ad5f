//! Recordings of the real agents, and the shape of a record: which keys it has, however deep.
//!
//! A fake record of some kind may have no key that no real one has, and must have every key that all real ones have.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

type Keys = BTreeSet<String>;

pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/recordings").join(name)
}

/// The records of a recording.
pub(crate) fn records(name: &str) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path(name)).with_context(|| name.to_owned())?;
    text.lines().filter(|line| line.starts_with('{')).map(|line| Ok(serde_json::from_str(line)?)).collect()
}

pub(crate) fn all_records(names: &[&str]) -> Result<Vec<Value>> {
    let each: Result<Vec<Vec<Value>>> = names.iter().map(|name| records(name)).collect();
    Ok(each?.concat())
}

/// How the records of one dialect are told apart and compared.
pub(crate) struct Grammar {
    /// What kind a record is of.
    pub(crate) kind: fn(&Value) -> String,
    /// Values whose inside is free: what a tool was called with, what a host offers.
    pub(crate) opaque: &'static [&'static str],
    /// `kind: key` that the fake leaves out although all recordings have it, each for a reason that stands beside it.
    pub(crate) left_out: &'static [&'static str],
}

impl Grammar {
    /// Holds what a fake printed against what the real one was recorded with.
    pub(crate) fn compare(&self, real: &[Value], fake: &[Value]) -> Result<()> {
        let real = self.by_kind(real);
        let mut complaints = Vec::new();
        for (kind, fakes) in self.by_kind(fake) {
            let Some(reals) = real.get(&kind) else {
                complaints.push(format!("{kind}: no real record is of this kind"));
                continue;
            };
            let known: Keys = reals.iter().flatten().cloned().collect();
            let needed = reals.iter().skip(1).fold(reals[0].clone(), |common, keys| &common & keys);
            for keys in &fakes {
                complaints.extend(keys.difference(&known).map(|key| format!("{kind}: invented {key}")));
                let missing = needed.difference(keys).map(|key| format!("{kind}: {key}"));
                let unexplained = missing.filter(|one| !self.left_out.contains(&one.as_str()));
                complaints.extend(unexplained.map(|one| format!("missing {one}")));
            }
        }
        complaints.sort();
        complaints.dedup();
        ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
        Ok(())
    }

    /// The kinds in order.
    pub(crate) fn kinds(&self, records: &[Value]) -> Vec<String> {
        records.iter().map(self.kind).collect()
    }

    fn by_kind(&self, records: &[Value]) -> BTreeMap<String, Vec<Keys>> {
        let mut kinds: BTreeMap<String, Vec<Keys>> = BTreeMap::new();
        for record in records {
            let mut keys = Keys::new();
            self.collect(record, "", &mut keys);
            kinds.entry((self.kind)(record)).or_default().push(keys);
        }
        kinds
    }

    fn collect(&self, value: &Value, place: &str, keys: &mut Keys) {
        if self.opaque.contains(&place) {
            return;
        }
        match value {
            Value::Object(table) => {
                for (key, inner) in table {
                    let place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
                    self.collect(inner, &place, keys);
                    keys.insert(place);
                }
            }
            Value::Array(list) => {
                for inner in list {
                    self.collect(inner, &format!("{place}[]"), keys);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fake_neither_invents_nor_forgets_keys() {
        let grammar = Grammar {
            kind: |record| record["type"].as_str().unwrap_or_default().to_owned(),
            opaque: &["free"],
            left_out: &["a: long"],
        };
        let real = [
            json!({"type": "a", "x": {"y": 1}, "free": {"any": 1}, "long": []}),
            json!({"type": "a", "x": {"y": 1}, "z": 1, "free": {}, "long": []}),
        ];
        let table = [
            (json!({"type": "a", "x": {"y": 2}, "free": {"other": 1}}), ""),
            (json!({"type": "a", "x": {"y": 2}, "free": 1, "z": 0}), ""),
            (json!({"type": "a", "x": {}, "free": 1}), "missing a: x.y"),
            (json!({"type": "a", "x": {"y": 1}, "w": 1, "free": 1}), "a: invented w"),
            (json!({"type": "b"}), "b: no real record is of this kind"),
        ];
        for (fake, want) in table {
            let got = grammar
                .compare(&real, std::slice::from_ref(&fake))
                .err()
                .map_or(String::new(), |error| error.to_string());
            assert_eq!(got, want, "{fake}");
        }
    }
}
