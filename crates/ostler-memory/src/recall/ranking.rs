//! From candidates to hits: neighbours, one scale, and what else counts. Every part of a score can be told.

use std::collections::{HashMap, HashSet};

use super::dense::{self, Meant};
use super::lexical::{ByWords, Scores};
use super::{CANDIDATES, Question};
use crate::meaning::Asked;
use crate::store::{Message, Store, StoreError};

/// What a neighbour's match counts for a message, by how many turns the message comes after it. Chosen on the development
/// half of LoCoMo, where it finds three quarters of what words alone find five eighths of: see bench/memory.
const NEIGHBOURS: [(i64, f64); 4] = [(1, 0.5), (-1, 0.3), (2, 0.2), (-2, 0.2)];

/// What is added for a match to the letter, for the project at hand, for being fresh, for being pinned or a
/// fact, for being of the time that the question names.
const EXACT: f64 = 0.25;
const HERE: f64 = 0.05;
const FRESH: f64 = 0.03;
const KEPT: f64 = 0.05;
const THEN: f64 = 0.15;

/// What does not hold any more counts this much of itself: it stands below its correction, and is still found.
const CORRECTED: f64 = 0.95;

/// Of all words of two messages, which share of them both have if they say the same.
const SAME: f64 = 0.9;

/// After this long, being fresh counts half.
const HALF_LIFE_DAYS: f64 = 30.0;

const DAY: f64 = 86_400_000.0;

/// Something that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// What.
    pub message: Message,
    /// How well it fits; only for comparison within one answer.
    pub score: f64,
    /// What that is made of.
    pub parts: Parts,
}

/// What a score is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Parts {
    /// Its words, and its neighbours'.
    pub words: f64,
    /// A match to the letter.
    pub exact: f64,
    /// Its meaning, by vector.
    pub vector: f64,
    /// Its meaning together with what was said before it.
    pub context: f64,
    /// Fresh.
    pub fresh: f64,
    /// Of the time that the question names.
    pub then: f64,
    /// Of the project at hand.
    pub here: f64,
    /// Pinned, or a fact.
    pub kept: f64,
    /// What a correction takes away.
    pub corrected: f64,
}

impl Parts {
    /// All together.
    pub fn sum(self) -> f64 {
        let found = self.words + self.exact + self.vector + self.context;
        found + self.fresh + self.then + self.here + self.kept + self.corrected
    }
}

pub(super) fn ranked(
    store: &Store,
    question: &Question<'_>,
    found: &ByWords,
    asked: Option<&Asked>,
) -> Result<Vec<Hit>, StoreError> {
    let near = asked.map_or(&[][..], |asked| &asked.nearest);
    let ids: HashSet<i64> = found.words.keys().chain(found.exact.keys()).chain(near).copied().collect();
    let places = places(store, &ids)?;
    let words = scaled(&smoothed(&places, &found.words));
    let meaning = match asked {
        Some(asked) => dense::scores(store, asked, &places)?,
        None => Meant::default(),
    };
    let lists = Lists { words: &words, exact: &found.exact, meaning: &meaning };
    let candidates: HashSet<i64> =
        words.keys().chain(found.exact.keys()).chain(meaning.turn.keys()).copied().collect();
    let mut best: Vec<(i64, f64)> = candidates.into_iter().map(|id| (id, lists.of(id).sum())).collect();
    best.sort_by(|left, right| right.1.total_cmp(&left.1).then(right.0.cmp(&left.0)));
    // What is added below moves a message by a few places, not by many. Who asks for one project or time passes over the
    // messages of others first.
    let is_bounded = question.project.is_some() || question.since.is_some();
    best.truncate(if is_bounded { best.len() } else { (4 * question.limit).clamp(60, CANDIDATES) });
    let mut hits = Vec::new();
    for (id, _) in best {
        let Some(message) = store.message(id)?.filter(|message| is_wanted(question, message)) else {
            continue;
        };
        let parts = parts(question, &message, &lists);
        if parts.words + parts.exact > 0.0 || meaning.near.contains(&id) {
            hits.push(Hit { score: parts.sum(), parts, message });
        }
        if hits.len() >= CANDIDATES {
            break;
        }
    }
    best_first(&mut hits);
    corrections_first(store, &mut hits)?;
    Ok(different(hits, question.limit))
}

/// What each list says, on one scale.
struct Lists<'a> {
    words: &'a Scores,
    exact: &'a Scores,
    meaning: &'a Meant,
}

impl Lists<'_> {
    /// What of a score is a matter of the question and the text alone.
    fn of(&self, id: i64) -> Parts {
        let score = |scores: &Scores| scores.get(&id).copied().unwrap_or(0.0);
        Parts {
            words: score(self.words),
            exact: if self.exact.contains_key(&id) { EXACT } else { 0.0 },
            vector: dense::TURN * score(&self.meaning.turn),
            context: dense::CONTEXT * score(&self.meaning.context),
            ..Parts::default()
        }
    }
}

fn best_first(hits: &mut [Hit]) {
    hits.sort_by(|left, right| {
        right.score.total_cmp(&left.score).then(right.message.at.cmp(&left.message.at))
    });
}

fn is_wanted(question: &Question<'_>, message: &Message) -> bool {
    matches!(message.mark.as_str(), "" | "sidechain" | "summary")
        && question.project.is_none_or(|project| message.project == project)
        && question.since.is_none_or(|since| message.at >= since)
}

/// Messages by session and place in it.
pub(super) type Places = HashMap<(i64, i64), i64>;

/// Where in its session each of these messages is, and each that is near one.
fn places(store: &Store, ids: &HashSet<i64>) -> Result<Places, StoreError> {
    let mut statement = store.db.prepare_cached(
        "SELECT m.session, m.ordinal, m.id FROM message c JOIN message m ON m.session = c.session
         AND m.ordinal BETWEEN c.ordinal - 2 AND c.ordinal + 2 WHERE c.id = ?1",
    )?;
    let mut found = HashMap::new();
    for id in ids {
        let rows = statement.query_map([id], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))?;
        for row in rows {
            let (place, id) = row?;
            found.insert(place, id);
        }
    }
    Ok(found)
}

fn smoothed(places: &Places, scores: &Scores) -> Scores {
    let score = |session: i64, ordinal: i64| {
        places.get(&(session, ordinal)).and_then(|id| scores.get(id)).copied().unwrap_or(0.0)
    };
    let sum = |(place, id): (&(i64, i64), &i64)| {
        let (session, ordinal) = *place;
        let near: f64 = NEIGHBOURS.iter().map(|(after, share)| share * score(session, ordinal - after)).sum();
        (*id, score(session, ordinal) + near)
    };
    places.iter().map(sum).collect()
}

/// From 0, the worst, to 1, the best.
fn scaled(scores: &Scores) -> Scores {
    let most = scores.values().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return Scores::new();
    }
    scores.iter().map(|(id, score)| (*id, score / most)).collect()
}

fn parts(question: &Question<'_>, message: &Message, lists: &Lists<'_>) -> Parts {
    let age_days = ((question.now - message.at).max(0)) as f64 / DAY;
    let is_here = question.here.is_some_and(|here| here == message.project);
    let is_then = question.window().is_some_and(|(from, until)| (from..until).contains(&message.at));
    let is_kept = message.pinned || (message.kind == "fact" && message.replaced_by.is_none());
    let mut parts = Parts {
        fresh: FRESH * 0.5_f64.powf(age_days / HALF_LIFE_DAYS),
        then: if is_then { THEN } else { 0.0 },
        here: if is_here { HERE } else { 0.0 },
        kept: if is_kept { KEPT } else { 0.0 },
        ..lists.of(message.id)
    };
    if message.replaced_by.is_some() {
        parts.corrected = -(1.0 - CORRECTED) * parts.sum();
    }
    parts
}

/// What was corrected brings its correction along, and stands below it.
fn corrections_first(store: &Store, hits: &mut Vec<Hit>) -> Result<(), StoreError> {
    let mut at = 0;
    while at < hits.len() {
        let (mut next, best) = (hits[at].message.replaced_by, hits[at].score - hits[at].parts.corrected);
        let mut last = None;
        // A correction may have been corrected too. A chain is no longer than this.
        for _ in 0..16 {
            let Some(id) = next else { break };
            let Some(message) = store.message(id)? else { break };
            next = message.replaced_by;
            last = Some(message);
        }
        if let Some(message) = last {
            let known = hits.iter().position(|hit| hit.message.id == message.id);
            let top = best + KEPT;
            match known {
                Some(known) if hits[known].score >= top => {}
                Some(known) => {
                    hits[known].parts.kept += top - hits[known].score;
                    hits[known].score = top;
                }
                None => {
                    let parts = Parts { kept: top, ..Parts::default() };
                    hits.push(Hit { message, score: top, parts });
                }
            }
        }
        at += 1;
        // What was added is looked at too, but is never corrected itself.
        if at > 2 * CANDIDATES {
            break;
        }
    }
    best_first(hits);
    Ok(())
}

/// The same is told once: messages whose words are nearly those of a better one are left out. What was corrected stays
/// beside its correction.
fn different(hits: Vec<Hit>, limit: usize) -> Vec<Hit> {
    let mut told: Vec<(HashSet<String>, Hit)> = Vec::new();
    for hit in hits {
        let words = words_of(&hit.message.text);
        let is_told = |(known, better): &(HashSet<String>, Hit)| {
            let is_pair = hit.message.replaced_by.is_some() || better.message.replaced_by.is_some();
            better.message.text == hit.message.text || (!is_pair && is_nearly(known, &words))
        };
        if !told.iter().any(is_told) {
            told.push((words, hit));
        }
        if told.len() >= limit {
            break;
        }
    }
    told.into_iter().map(|(_, hit)| hit).collect()
}

fn words_of(text: &str) -> HashSet<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    // A long text is told from another by its beginning.
    words.take(200).map(str::to_lowercase).collect()
}

fn is_nearly(one: &HashSet<String>, other: &HashSet<String>) -> bool {
    let shared = one.intersection(other).count();
    let all = one.len() + other.len() - shared;
    all == 0 || shared as f64 >= SAME * all as f64
}
