//! What a request says and no agent can honour: it has no effect, and the response names it in `x-ostler-ignored`.

use std::collections::BTreeSet;

/// Names that are remembered. A body can have very many.
const MOST: usize = 256;

/// Longest name.
const LONGEST_NAME: usize = 64;

/// Longest list in a header. Some clients and proxies take heads of 8 kB altogether.
const LONGEST_LIST: usize = 1024;

/// The names, each once.
#[derive(Debug, Default)]
pub(super) struct Ignored(BTreeSet<String>);

impl Ignored {
    /// Adds a name. Clients choose names freely, so what has no place in a header is replaced.
    pub(super) fn add(&mut self, name: &str) {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.$@:/".contains(letter);
        if self.0.len() < MOST {
            let letters = name.chars().take(LONGEST_NAME);
            self.0.insert(letters.map(|letter| if is_plain(letter) { letter } else { '?' }).collect());
        }
    }

    /// Adds a kind of what stands in this field.
    pub(super) fn add_kind(&mut self, field: &str, kind: &str) {
        self.add(&format!("{field}.{kind}"));
    }

    /// In order.
    pub(super) fn into_names(self) -> Vec<String> {
        self.0.into_iter().collect()
    }
}

/// The names as the value of a header. What does not fit is counted.
pub(crate) fn list(names: &[String]) -> String {
    let mut list = String::new();
    for (at, name) in names.iter().enumerate() {
        if list.len() + name.len() > LONGEST_LIST {
            list.push_str(&format!(", and {} more", names.len() - at));
            break;
        }
        if at > 0 {
            list.push_str(", ");
        }
        list.push_str(name);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_has_its_place_in_a_header() {
        let mut ignored = Ignored::default();
        for name in ["num_ctx", "chat_id", "num_ctx", "a, b\r\nx: y", "ü"] {
            ignored.add(name);
        }
        ignored.add(&"x".repeat(500));
        let names = ignored.into_names();
        let long = "x".repeat(64);
        assert_eq!(list(&names), format!("?, a??b??x:?y, chat_id, num_ctx, {long}"));
        assert!(axum::http::HeaderValue::from_str(&list(&names)).is_ok());
    }

    #[test]
    fn a_header_names_so_many_and_counts_the_rest() {
        let mut ignored = Ignored::default();
        for number in 0..100_000 {
            ignored.add(&format!("field_{number:06}"));
        }
        let list = list(&ignored.into_names());
        assert!(list.len() < 1100 && list.ends_with(", and 183 more"), "{list}");
    }
}
