//! Candidates by their words: the rarest words of the question first, as many as the budget allows.

use std::collections::HashMap;

use rusqlite::params_from_iter;
use rusqlite::types::Value;

use super::{CANDIDATES, Effort, Question};
use crate::store::{Store, StoreError};

/// How many messages the words of a question may occur in, all together: each of them is weighed.
fn budget(question: &Question<'_>) -> i64 {
    match question.effort {
        Effort::Full => 20_000,
        // A process that has just begun reads nearly each of them from the disk and decrypts it.
        Effort::Quick => 200,
    }
}

/// How many words take part where little is looked at. To find out how rare one is takes some thirty pages of the index in
/// a store of a million messages; long ones are likely to be rare.
const QUICK_WORDS: usize = 12;

/// Among how many of the newest messages words are looked for that are everywhere, where little is looked at.
const QUICK_REACH: i64 = 2_000;

/// Among how many of the newest messages a word is looked for first, to tell whether it is worth counting: the index has
/// no counts, and counting a word that is everywhere takes as long as weighing it.
const LOOKED_AT: i64 = 4_096;

/// What a match in the parts of names counts, beside one in the text.
const NAMES: f64 = 0.5;

/// Message to score; higher is better.
pub(super) type Scores = HashMap<i64, f64>;

/// By words, and by what is meant to the letter.
#[derive(Debug, Default)]
pub(super) struct ByWords {
    pub(super) words: Scores,
    pub(super) exact: Scores,
}

pub(super) fn candidates(store: &Store, question: &Question<'_>) -> Result<ByWords, StoreError> {
    let newest: Option<i64> =
        store.db.prepare_cached("SELECT max(id) FROM message")?.query_row([], |row| row.get(0))?;
    let mut counted = Vec::new();
    for word in looked_for(question) {
        let count = occurrences(store, &word, newest.unwrap_or(0), budget(question))?;
        if count > 0 {
            counted.push((count, word));
        }
    }
    counted.sort();
    let chosen = affordable(&counted, budget(question));
    let exact = to_the_letter(store, question, &chosen)?;
    let words = if chosen.is_empty() {
        everywhere(store, question, &counted, newest.unwrap_or(0))?
    } else {
        let query: Vec<String> = chosen.iter().map(|word| quoted(word)).collect();
        weighed(store, question, &query.join(" OR "))?
    };
    Ok(ByWords { words, exact })
}

/// The words that are worth looking for.
fn looked_for(question: &Question<'_>) -> Vec<String> {
    let mut words = question.words();
    if question.effort == Effort::Quick {
        words.sort_by_key(|word| std::cmp::Reverse(word.chars().count()));
        words.truncate(QUICK_WORDS);
    }
    words
}

/// What has the phrases of the question. With little effort only those in which a rare word is: to find one that is made
/// of frequent words takes as long as to read all of these.
fn to_the_letter(store: &Store, question: &Question<'_>, rare: &[&str]) -> Result<Scores, StoreError> {
    let mut found = Scores::new();
    for phrase in question.exact() {
        let words: Vec<String> = phrase
            .split(|letter: char| !letter.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        let is_affordable = match question.effort {
            Effort::Full => !words.is_empty(),
            Effort::Quick => words.iter().any(|word| rare.contains(&word.as_str())),
        };
        if !is_affordable {
            continue;
        }
        for id in newest_with(store, question, &quoted(&phrase), 0)? {
            *found.entry(id).or_default() += 1.0;
        }
    }
    Ok(found)
}

/// The rarest words whose occurrences stay within the budget.
fn affordable(counted: &[(i64, String)], budget: i64) -> Vec<&str> {
    let mut sum = 0;
    let fits = |(count, _): &&(i64, String)| {
        sum += count;
        sum <= budget
    };
    counted.iter().take_while(fits).map(|(_, word)| word.as_str()).collect()
}

/// In how many messages a word occurs, as the index sees it: by its stem. Exact within the budget; above it, about.
pub(super) fn occurrences(store: &Store, word: &str, newest: i64, budget: i64) -> Result<i64, StoreError> {
    let count = |after: i64, most: i64| -> Result<i64, StoreError> {
        let mut statement = store.db.prepare_cached(
            "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ?1 AND rowid > ?2 LIMIT ?3)",
        )?;
        Ok(statement.query_row((quoted(word), after, most), |row| row.get(0))?)
    };
    if newest > LOOKED_AT {
        let about = count(newest - LOOKED_AT, LOOKED_AT)?.saturating_mul(newest) / LOOKED_AT;
        if about > 2 * budget {
            return Ok(about);
        }
    }
    count(0, budget + 1)
}

/// What to find by if every word of a question is above the budget: the newest messages that have all of them, then the
/// newest that have one. How often a word that is everywhere occurs in one tells little.
pub(super) fn everywhere(
    store: &Store,
    question: &Question<'_>,
    counted: &[(i64, String)],
    newest: i64,
) -> Result<Scores, StoreError> {
    let Some((rarest, _)) = counted.first() else { return Ok(Scores::new()) };
    // As many messages as have the rarest word about as often as the budget allows.
    let reach = newest.saturating_mul(budget(question)) / (*rarest).max(1);
    let reach = match question.effort {
        Effort::Full => reach,
        Effort::Quick => reach.min(QUICK_REACH),
    };
    let words: Vec<String> = counted.iter().map(|(_, word)| quoted(word)).collect();
    let mut found = Scores::new();
    for (joined, score) in [(" OR ", 1.0 / words.len() as f64), (" AND ", 1.0)] {
        for id in newest_with(store, question, &words.join(joined), newest - reach)? {
            found.insert(id, score);
        }
    }
    Ok(found)
}

/// As a phrase: nothing in it is syntax.
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('"', "\"\""))
}

/// The best by BM25. Each message that matches is weighed.
fn weighed(store: &Store, question: &Question<'_>, query: &str) -> Result<Scores, StoreError> {
    let what = format!("SELECT w.rowid, bm25(words, 1.0, {NAMES}) AS score FROM words w");
    let (sql, values) = bounded(question, what, vec![query.to_owned().into()], "");
    let mut statement = store.db.prepare_cached(&format!("{sql} ORDER BY score LIMIT {CANDIDATES}"))?;
    let rows =
        statement.query_map(params_from_iter(values), |row| Ok((row.get(0)?, -row.get::<_, f64>(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The newest that match, after this number. No more are looked at than are found.
fn newest_with(
    store: &Store,
    question: &Question<'_>,
    query: &str,
    after: i64,
) -> Result<Vec<i64>, StoreError> {
    let what = "SELECT w.rowid FROM words w".to_owned();
    let values = vec![query.to_owned().into(), after.into()];
    let (sql, values) = bounded(question, what, values, " AND w.rowid > ?2");
    let mut statement =
        store.db.prepare_cached(&format!("{sql} ORDER BY w.rowid DESC LIMIT {CANDIDATES}"))?;
    let rows = statement.query_map(params_from_iter(values), |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// A search of the words, within the project and the time that are asked for. `CROSS` has SQLite begin with the words.
fn bounded(
    question: &Question<'_>,
    what: String,
    mut values: Vec<Value>,
    more: &str,
) -> (String, Vec<Value>) {
    let mut sql = what;
    if question.project.is_some() || question.since.is_some() {
        sql.push_str(" CROSS JOIN message m ON m.id = w.rowid CROSS JOIN session s ON s.id = m.session");
    }
    sql.push_str(" WHERE words MATCH ?1");
    sql.push_str(more);
    if let Some(project) = question.project {
        values.push(project.to_owned().into());
        sql.push_str(&format!(" AND s.project = ?{}", values.len()));
    }
    if let Some(since) = question.since {
        values.push(since.into());
        sql.push_str(&format!(" AND m.at >= ?{}", values.len()));
    }
    (sql, values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_little_effort_the_longest_words_are_looked_for() {
        let text = "ab cd ef gh ij kl mn op qr st uv wx yz long longer";
        let question = Question::new(text, 0, 1);
        assert_eq!(looked_for(&question).len(), 15);
        let words = looked_for(&Question { effort: Effort::Quick, ..question });
        assert_eq!(
            (words.len(), &words[..3]),
            (QUICK_WORDS, &["longer", "long", "ab"].map(str::to_owned)[..])
        );
    }

    #[test]
    fn the_rarest_words_are_chosen_within_the_budget() {
        type Counted = &'static [(i64, &'static str)];
        let table: [(Counted, &[&str]); 5] = [
            (&[(1, "a"), (2, "b")], &["a", "b"]),
            (&[(100, "a")], &["a"]),
            (&[(5, "a"), (95, "b"), (100, "c")], &["a", "b"]),
            (&[(101, "a"), (102, "b")], &[]),
            (&[], &[]),
        ];
        for (counted, want) in table {
            let counted: Vec<(i64, String)> =
                counted.iter().map(|(count, word)| (*count, (*word).to_owned())).collect();
            assert_eq!(affordable(&counted, 100), want, "{counted:?}");
        }
    }
}
