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
    /// How much is looked at.
    pub effort: Effort,
}

/// How much is looked at to find something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// As much as an answer is worth that somebody asked for.
    Full,
    /// Little: somebody waits who asked for nothing. Only words that are rare take part, or only what is new.
    Quick,
}

impl<'a> Question<'a> {
    /// A question everywhere and at any time.
    pub fn new(text: &'a str, now: i64, limit: usize) -> Self {
        Self { text, project: None, here: None, since: None, now, limit, effort: Effort::Full }
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

/// A day in milliseconds.
const DAY: i64 = 86_400_000;

/// From the day with which 1970 began.
const WEEKDAYS: [&str; 7] = ["thursday", "friday", "saturday", "sunday", "monday", "tuesday", "wednesday"];

/// A number in digits or, if it is small, in letters; not one that is larger than any time that is remembered.
fn number(word: &str) -> Option<i64> {
    const SMALL: [&str; 10] = ["a", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    let small = SMALL.iter().position(|name| *name == word || (word == "an" && *name == "a"));
    let in_letters = small.and_then(|at| i64::try_from(at + 1).ok());
    in_letters.or_else(|| word.parse().ok()).filter(|count| (0..10_000).contains(count))
}

impl Question<'_> {
    /// The time that its words name, in milliseconds since 1970: from, and until. Days are those of UTC.
    pub(super) fn window(&self) -> Option<(i64, i64)> {
        let text = format!(
            " {} ",
            self.text.to_lowercase().replace(|letter: char| !letter.is_alphanumeric() && letter != '-', " ")
        );
        let today = self.now - self.now.rem_euclid(DAY);
        let days = |from: i64, until: i64| Some((today - from * DAY, today - until * DAY));
        let has = |words: &str| text.contains(&format!(" {words} "));
        let named: [(&[&str], i64, i64); 8] = [
            (&["today", "this morning", "tonight"], 0, -1),
            (&["yesterday", "last night"], 1, 0),
            (&["last week"], 14, 0),
            (&["this week"], 7, -1),
            (&["last month"], 61, 0),
            (&["this month"], 31, -1),
            (&["last year"], 730, 0),
            (&["recently", "lately"], 14, -1),
        ];
        if let Some((_, from, until)) = named.iter().find(|(said, _, _)| said.iter().any(|said| has(said))) {
            return days(*from, *until);
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let ago = words.windows(3).find(|words| words[2] == "ago").and_then(|words| {
            let count = number(words[0])?;
            match words[1].trim_end_matches('s') {
                // The day it was then, and today.
                "hour" => Some((count / 24 + 1, -1)),
                "day" => Some((count, count - 1)),
                "week" => Some((7 * count + 3, 7 * count - 4)),
                "month" => Some((30 * count + 15, 30 * count - 16)),
                "year" => Some((365 * count + 180, 365 * count - 180)),
                _ => None,
            }
        });
        if let Some((from, until)) = ago {
            return days(from, until);
        }
        // The last such day before today. The first of January 1970 was a Thursday.
        let weekday = words.iter().find_map(|word| WEEKDAYS.iter().position(|day| day == word));
        if let Some(weekday) = weekday {
            let ago = (today / DAY - weekday as i64 - 1).rem_euclid(7) + 1;
            return days(ago, ago - 1);
        }
        let day = words.iter().find_map(|word| format!("{word}T00:00:00Z").parse::<jiff::Timestamp>().ok());
        day.map(|day| (day.as_millisecond(), day.as_millisecond() + DAY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_time_name_a_window() {
        let now = 10 * DAY + 5;
        let table = [
            ("what did we do yesterday?", Some((9 * DAY, 10 * DAY))),
            ("Today: the port", Some((10 * DAY, 11 * DAY))),
            ("the bug of 3 days ago", Some((7 * DAY, 8 * DAY))),
            ("two days ago", Some((8 * DAY, 9 * DAY))),
            ("an hour ago", Some((9 * DAY, 11 * DAY))),
            ("decided on 1970-01-03", Some((2 * DAY, 3 * DAY))),
            // The tenth day after Thursday is a Sunday.
            ("what we said on Saturday", Some((9 * DAY, 10 * DAY))),
            ("since Sunday", Some((3 * DAY, 4 * DAY))),
            ("monday's build", Some((4 * DAY, 5 * DAY))),
            ("the day after", None),
            ("99999999999999999999 days ago", None),
        ];
        for (text, want) in table {
            assert_eq!(Question::new(text, now, 1).window(), want, "{text}");
        }
    }

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
