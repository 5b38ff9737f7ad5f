//! Candidates by their words: the rarest words of the question first, as many as the budget allows.

use std::collections::HashMap;

use rusqlite::types::Value;
use rusqlite::{OptionalExtension as _, params, params_from_iter};

use super::{CANDIDATES, Question};
use crate::store::{Store, StoreError};

/// How many messages the words of a question may occur in, all together: each of them is weighed.
const MOST_WEIGHED: i64 = 20_000;

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
    let words = affordable(store, &question.words())?;
    let by_words = if words.is_empty() {
        Scores::new()
    } else {
        let query: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        search(store, question, &query.join(" OR "))?
    };
    let mut exact = Scores::new();
    for phrase in question.exact() {
        // A phrase of a single common word would weigh half the store.
        if !phrase.chars().any(char::is_alphanumeric) {
            continue;
        }
        for id in search(store, question, &quoted(&phrase))?.into_keys() {
            *exact.entry(id).or_default() += 1.0;
        }
    }
    Ok(ByWords { words: by_words, exact })
}

/// The rarest words whose occurrences stay within the budget; at least one.
fn affordable(store: &Store, words: &[String]) -> Result<Vec<String>, StoreError> {
    let mut counted = Vec::new();
    for word in words {
        let count = occurrences(store, word)?;
        if count > 0 {
            counted.push((count, word));
        }
    }
    counted.sort();
    let mut sum = 0;
    let fits = |(count, _): &&(i64, &String)| {
        sum += count;
        sum <= MOST_WEIGHED
    };
    let mut chosen: Vec<String> = counted.iter().take_while(fits).map(|(_, word)| (*word).clone()).collect();
    if chosen.is_empty() {
        chosen.extend(counted.first().map(|(_, word)| (*word).clone()));
    }
    Ok(chosen)
}

/// In how many messages a word occurs, as the index sees it: by its stem.
fn occurrences(store: &Store, word: &str) -> Result<i64, StoreError> {
    store.db.execute_batch(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked USING fts5 (word, tokenize='porter unicode61');
         CREATE VIRTUAL TABLE IF NOT EXISTS temp.stems USING fts5vocab (temp, asked, row);
         DELETE FROM temp.asked;",
    )?;
    store.db.prepare_cached("INSERT INTO temp.asked (word) VALUES (?1)")?.execute([word])?;
    let stem: Option<String> = store
        .db
        .prepare_cached("SELECT term FROM temp.stems LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let Some(stem) = stem else { return Ok(0) };
    let count = store
        .db
        .prepare_cached("SELECT doc FROM seen WHERE term = ?1")?
        .query_row(params![stem], |row| row.get(0))
        .optional()?;
    Ok(count.unwrap_or(0))
}

/// As a phrase: nothing in it is syntax.
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('"', "\"\""))
}

fn search(store: &Store, question: &Question<'_>, query: &str) -> Result<Scores, StoreError> {
    let mut sql = format!("SELECT w.rowid, bm25(words, 1.0, {NAMES}) AS score FROM words w");
    let mut values: Vec<Value> = vec![query.to_owned().into()];
    if question.project.is_some() || question.since.is_some() {
        sql.push_str(" JOIN message m ON m.id = w.rowid JOIN session s ON s.id = m.session");
    }
    sql.push_str(" WHERE words MATCH ?1");
    if let Some(project) = question.project {
        values.push(project.to_owned().into());
        sql.push_str(&format!(" AND s.project = ?{}", values.len()));
    }
    if let Some(since) = question.since {
        values.push(since.into());
        sql.push_str(&format!(" AND m.at >= ?{}", values.len()));
    }
    sql.push_str(&format!(" ORDER BY score LIMIT {CANDIDATES}"));
    let mut statement = store.db.prepare_cached(&sql)?;
    let rows =
        statement.query_map(params_from_iter(values), |row| Ok((row.get(0)?, -row.get::<_, f64>(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
