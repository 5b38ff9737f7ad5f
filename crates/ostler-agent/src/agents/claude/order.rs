//! The causal order of a terminal session's records. The file is written in batches whose order is not that of what
//! happened: in a first turn the answer, and even the end of the turn, may come before the prompt (5 of 49 on 2.1.197).
//! Each record names the one it follows from; one that came before that is kept back until it comes.

use std::collections::{HashSet, VecDeque};

use serde_json::Value;

/// How many ids are remembered. What a record follows from was written just before it, or is the end of the turn before.
const REMEMBERED: usize = 4096;

/// How many records wait at most. With more, what they wait for will not come: a batch is a few dozen.
const MOST_KEPT: usize = 1024;

/// Records that wait for others.
#[derive(Debug, Default)]
pub(super) struct Order {
    known: HashSet<String>,
    /// The same, the oldest first.
    age: VecDeque<String>,
    kept: Vec<Value>,
}

impl Order {
    /// Whether the record came before what it follows from, and waits. If not, it is to be read now, and then all that
    /// [`Self::freed`] gives.
    pub(super) fn keeps(&mut self, record: &Value) -> bool {
        let Some(id) = record["uuid"].as_str() else { return false };
        if self.waits(record) {
            self.kept.push(record.clone());
            return true;
        }
        self.note(id);
        false
    }

    /// The next record that no longer waits.
    pub(super) fn freed(&mut self) -> Option<Value> {
        let is_crowded = self.kept.len() > MOST_KEPT;
        let at = self.kept.iter().position(|record| is_crowded || !self.waits(record))?;
        Some(self.release(at))
    }

    /// The next record of those that waited in vain: one that follows from none of the others.
    pub(super) fn given_up(&mut self) -> Option<Value> {
        let awaited = |record: &Value| {
            let parent = record["parentUuid"].as_str();
            self.kept.iter().any(|other| other["uuid"].as_str() == parent)
        };
        let at = self.kept.iter().position(|record| !awaited(record)).or(match self.kept.is_empty() {
            true => None,
            // A circle.
            false => Some(0),
        })?;
        Some(self.release(at))
    }

    fn release(&mut self, at: usize) -> Value {
        let record = self.kept.remove(at);
        if let Some(id) = record["uuid"].as_str() {
            self.note(id);
        }
        record
    }

    fn waits(&self, record: &Value) -> bool {
        // Headless the order is right, and a sub-agent's file is its own.
        if record["entrypoint"] != "cli" || record["isSidechain"] == true {
            return false;
        }
        match record["parentUuid"].as_str() {
            None => false,
            Some(parent) if self.known.contains(parent) => false,
            Some(_) => !self.known.is_empty() || !is_beginning(record),
        }
    }

    fn note(&mut self, id: &str) {
        if self.known.insert(id.to_owned()) {
            self.age.push_back(id.to_owned());
        }
        if self.age.len() > REMEMBERED
            && let Some(oldest) = self.age.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// Whether it can be the first record that is read of a session that is gone on with: what it follows from was written
/// before. An answer, a result, what is attached to a prompt and the end of a turn follow from something that is yet to
/// come.
fn is_beginning(record: &Value) -> bool {
    match record["type"].as_str().unwrap_or_default() {
        "assistant" | "attachment" => false,
        "system" => record["subtype"] != "turn_duration" && record["subtype"] != "stop_hook_summary",
        "user" => record["sourceToolAssistantUUID"].is_null(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn record(id: &str, parent: Option<&str>) -> Value {
        json!({"type": "assistant", "entrypoint": "cli", "uuid": id, "parentUuid": parent})
    }

    /// The order in which records are read; what waits in vain comes last.
    fn read(records: &[Value]) -> Vec<String> {
        let (mut order, mut read) = (Order::default(), Vec::new());
        for record in records {
            if order.keeps(record) {
                continue;
            }
            read.push(record.clone());
            read.extend(std::iter::from_fn(|| order.freed()));
        }
        while let Some(record) = order.given_up() {
            read.push(record);
            read.extend(std::iter::from_fn(|| order.freed()));
        }
        read.iter().map(|record| record["uuid"].as_str().unwrap_or("-").to_owned()).collect()
    }

    #[test]
    fn what_came_too_early_waits() {
        let table: [(&str, Vec<Value>, &str); 5] = [
            ("in order", vec![record("a", None), record("b", Some("a"))], "a b"),
            (
                "the answer first",
                vec![record("c", Some("b")), record("a", None), record("b", Some("a"))],
                "a b c",
            ),
            ("what it follows from never comes", vec![record("a", None), record("c", Some("x"))], "a c"),
            ("a circle", vec![record("a", Some("b")), record("b", Some("a"))], "a b"),
            ("no id", vec![json!({"type": "mode"}), record("a", None)], "- a"),
        ];
        for (name, records, want) in table {
            assert_eq!(read(&records).join(" "), want, "{name}");
        }
    }

    #[test]
    fn a_session_that_is_gone_on_with_begins_with_a_prompt() {
        let prompt = json!({"type": "user", "entrypoint": "cli", "uuid": "p", "parentUuid": "before"});
        assert_eq!(read(&[prompt.clone(), record("a", Some("p"))]).join(" "), "p a");
        assert_eq!(read(&[record("a", Some("p")), prompt]).join(" "), "p a");
    }

    proptest! {
        #[test]
        fn every_order_of_a_chain_is_read_in_its_own(shuffled in Just((0..30_usize).collect::<Vec<_>>()).prop_shuffle()) {
            let name = |number: usize| format!("r{number:02}");
            let records: Vec<Value> = shuffled
                .iter()
                .map(|number| {
                    let parent = number.checked_sub(1).map(name);
                    record(&name(*number), parent.as_deref())
                })
                .collect();
            prop_assert_eq!(read(&records), (0..30).map(name).collect::<Vec<_>>());
        }

        #[test]
        fn nothing_is_lost_and_nothing_is_told_twice(parents in proptest::collection::vec(proptest::option::of(0..40_usize), 0..40)) {
            let records: Vec<Value> = parents
                .iter()
                .enumerate()
                .map(|(number, parent)| record(&number.to_string(), parent.map(|parent| parent.to_string()).as_deref()))
                .collect();
            let mut read = read(&records);
            read.sort();
            let mut want: Vec<String> = (0..records.len()).map(|number| number.to_string()).collect();
            want.sort();
            prop_assert_eq!(read, want);
        }
    }
}
