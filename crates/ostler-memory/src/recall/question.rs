//! What is asked: its words without those that tell nothing, its quoted parts and names, its times.

/// Words that are in every second sentence.
const COMMON: &[&str] = &[
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been",
    "before", "but", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "he",
    "her", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "me", "my", "no", "not",
    "of", "on", "or", "our", "she", "so", "some", "than", "that", "the", "their", "them", "then", "there",
    "these", "they", "this", "to", "us", "was", "we", "were", "what", "when", "where", "which", "who", "why",
    "will", "with", "would", "you", "your",
];

/// How many different words of a question are looked for.
const MOST_WORDS: usize = 40;

/// A question, and where and when it looks.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// In anybody's words.
    pub text: &'a str,
    /// Only in this project.
    pub project: Option<&'a str>,
    /// This project is preferred.
    pub here: Option<&'a str>,
    /// Only since then, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Now, likewise.
    pub now: i64,
    /// How many hits.
    pub limit: usize,
}

impl<'a> Question<'a> {
    /// A question everywhere and at any time.
    pub fn new(text: &'a str, now: i64, limit: usize) -> Self {
        Self { text, project: None, here: None, since: None, now, limit }
    }

    /// Its telling words, in small letters, once each. If it has none, all of its words.
    pub(super) fn words(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for word in self.text.split(|letter: char| !letter.is_alphanumeric()) {
            let word = word.to_lowercase();
            if !word.is_empty() && !all.contains(&word) {
                all.push(word);
            }
            if all.len() >= MOST_WORDS {
                break;
            }
        }
        let telling: Vec<String> =
            all.iter().filter(|word| !COMMON.contains(&word.as_str())).cloned().collect();
        if telling.is_empty() { all } else { telling }
    }

    /// What is meant to the letter: quoted parts, paths, names with `_`, `::` or digits in them, hashes.
    pub(super) fn exact(&self) -> Vec<String> {
        let mut found: Vec<String> = self
            .text
            .split(['"', '`'])
            .skip(1)
            .step_by(2)
            .map(str::trim)
            .filter(|quoted| quoted.len() > 2)
            .map(str::to_owned)
            .collect();
        let is_edge = |letter: char| !letter.is_alphanumeric();
        for word in self.text.split_whitespace().map(|word| word.trim_matches(is_edge)) {
            let has = |is: fn(char) -> bool| word.chars().any(is);
            let is_name = word.contains('_')
                || word.contains("::")
                || (word.contains(['/', '.']) && word.len() > 4)
                || (has(char::is_numeric) && has(char::is_alphabetic) && word.len() > 3);
            if is_name && !found.iter().any(|known| known == word) {
                found.push(word.to_owned());
            }
        }
        found.truncate(8);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_taken_apart() {
        let table: [(&str, &[&str], &[&str]); 5] = [
            ("Where did we put the retry limit?", &["put", "retry", "limit"], &[]),
            ("who are you", &["who", "are", "you"], &[]),
            (
                "error E0277 in src/main.rs",
                &["error", "e0277", "src", "main", "rs"],
                &["E0277", "src/main.rs"],
            ),
            ("say \"hello there\" OR NEAR(", &["say", "hello", "near"], &["hello there"]),
            ("", &[], &[]),
        ];
        for (text, words, exact) in table {
            let question = Question::new(text, 0, 10);
            assert_eq!(
                (question.words(), question.exact()),
                (
                    words.iter().map(|word| (*word).to_owned()).collect(),
                    exact.iter().map(|word| (*word).to_owned()).collect(),
                ),
                "{text}"
            );
        }
    }
}
