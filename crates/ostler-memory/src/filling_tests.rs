use super::*;
use crate::embedding::{DIMENSIONS, Vector};
use crate::meaning::Meaning;
use crate::place::Place;
use crate::recall::{ByMeaning, Question};
use crate::store::tests::{said, session};
use crate::store::{Forgotten, PATIENT};

/// Texts are near if they have letters in common.
#[derive(Debug)]
pub(crate) struct Letters {
    model: &'static str,
    asked: u64,
    broken: bool,
}

impl Letters {
    pub(crate) fn new(model: &'static str) -> Self {
        Self { model, asked: 0, broken: false }
    }
}

impl Embedder for Letters {
    fn model(&self) -> &str {
        self.model
    }

    fn question(&mut self, text: &str) -> Result<Vector, EmbedError> {
        let mut numbers = [-0.1_f32; DIMENSIONS];
        for letter in text.to_lowercase().bytes() {
            numbers[usize::from(letter)] += 1.0;
        }
        if self.broken { Err(EmbedError::Run("broken".into())) } else { Ok(Vector::of(&numbers).unwrap()) }
    }

    fn message(&mut self, text: &str) -> Result<Vec<Vector>, EmbedError> {
        self.asked += 1;
        Ok(vec![self.question(text)?])
    }
}

fn store(texts: &[&str]) -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&Place::new(folder.path().join("m")), PATIENT).unwrap();
    let events: Vec<_> =
        texts.iter().enumerate().map(|(at, text)| said(&at.to_string(), "user", text)).collect();
    store.insert(&session("s", "/p"), &events).unwrap();
    (folder, store)
}

fn many(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("message {at}")).collect()
}

#[test]
fn every_message_gets_its_vector_once() {
    let texts = many(40);
    let (_folder, mut store) = store(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let mut embedder = Letters::new("a");
    let mut told = Vec::new();
    let filled = fill(&mut store, &mut embedder, None, &mut |done| told.push(done)).unwrap();
    assert_eq!((filled, told), (Filled { done: 40, is_cut: false }, vec![16, 32, 40]));
    assert_eq!((store.totals().unwrap().vectors, store.vectors_missing().unwrap()), (40, 0));
    assert_eq!(fill(&mut store, &mut embedder, None, &mut |_| {}).unwrap(), Filled::default());
    assert_eq!(embedder.asked, 40);
}

#[test]
fn one_that_has_no_time_comes_to_the_end_all_the_same() {
    let (_folder, mut store) = store(&["one", "two", "three"]);
    let mut embedder = Letters::new("a");
    let over = Some(Instant::now());
    let each: Vec<Filled> =
        (0..4).map(|_| fill(&mut store, &mut embedder, over, &mut |_| {}).unwrap()).collect();
    let one = |is_cut| Filled { done: 1, is_cut };
    assert_eq!(each, [one(true), one(true), one(false), Filled::default()]);
}

#[test]
fn another_model_begins_anew() {
    let (_folder, mut store) = store(&["one", "two"]);
    fill(&mut store, &mut Letters::new("a"), None, &mut |_| {}).unwrap();
    let mut meaning = Meaning::new(Box::new(Letters::new("b")));
    let question = Question::new("one", 0, 5);
    let found = store.recall_with(&question, Some(&mut meaning)).unwrap();
    assert_eq!(found.by_meaning, ByMeaning::NoVectors);
    assert_eq!(fill(&mut store, &mut Letters::new("b"), None, &mut |_| {}).unwrap().done, 2);
    assert_eq!(store.reached().unwrap().unwrap().model, "b");
    assert_eq!(store.totals().unwrap().vectors, 2);
    assert_eq!(store.recall_with(&question, Some(&mut meaning)).unwrap().by_meaning, ByMeaning::Yes);
}

#[test]
fn what_is_forgotten_has_no_vector_and_its_number_can_be_used_again() {
    let (_folder, mut store) = store(&["one", "two", "three"]);
    let mut embedder = Letters::new("a");
    fill(&mut store, &mut embedder, None, &mut |_| {}).unwrap();
    let last = store.reached().unwrap().unwrap().upto;
    store.forget(&Forgotten::Message(last)).unwrap();
    assert_eq!((store.totals().unwrap().vectors, store.last_sign().unwrap()), (2, 2));
    // SQLite gives the number of the last row again.
    store.insert(&session("t", "/p"), &[said("x", "user", "four")]).unwrap();
    assert_eq!(fill(&mut store, &mut embedder, None, &mut |_| {}).unwrap().done, 1);
    assert_eq!(store.vectors([last]).unwrap().len(), 1);
}

#[test]
fn two_at_once_do_no_harm() {
    let (folder, mut one) = store(&["one", "two", "three"]);
    let mut other = Store::open(&Place::new(folder.path().join("m")), PATIENT).unwrap();
    let mut embedder = Letters::new("a");
    let begun = one.begin_vectors("a").unwrap();
    let made = |texts: &[(i64, &str)], embedder: &mut Letters| -> Vec<_> {
        texts.iter().map(|(id, text)| (*id, embedder.message(text).unwrap())).collect()
    };
    let both = [(1, "one"), (2, "two")];
    let after = other.keep_vectors(&begun, 2, &made(&both, &mut embedder)).unwrap().unwrap();
    assert_eq!(after.upto, 2);
    // The first one was slower, and had come less far.
    let after = one.keep_vectors(&begun, 1, &made(&both[..1], &mut embedder)).unwrap().unwrap();
    assert_eq!((after.upto, one.totals().unwrap().vectors), (2, 2));
}

#[test]
fn what_shares_no_word_is_found_by_its_meaning() {
    let (_folder, mut store) = store(&["zzz yyy xxx", "abc abc", "qqq rrr", "mmm nnn"]);
    let mut embedder = Letters::new("a");
    fill(&mut store, &mut embedder, None, &mut |_| {}).unwrap();
    let question = Question::new("cab bca", 0, 1);
    assert!(store.recall(&question).unwrap().hits.is_empty());
    let mut meaning = Meaning::new(Box::new(Letters::new("a")));
    let found = store.recall_with(&question, Some(&mut meaning)).unwrap();
    assert_eq!(found.hits[0].message.text, "abc abc");
    let parts = found.hits[0].parts;
    assert!(parts.words == 0.0 && parts.vector > 0.0 && parts.context > 0.0, "{parts:?}");
    // What is added later is found too, and within its project only.
    store.insert(&session("t", "/q"), &[said("x", "user", "bbb cca")]).unwrap();
    fill(&mut store, &mut embedder, None, &mut |_| {}).unwrap();
    let question = Question { project: Some("/q"), ..question };
    let found = store.recall_with(&question, Some(&mut meaning)).unwrap();
    assert_eq!(found.hits[0].message.text, "bbb cca");
}

#[test]
fn a_model_that_fails_leaves_the_words() {
    let (_folder, mut store) = store(&["the port is 80"]);
    fill(&mut store, &mut Letters::new("a"), None, &mut |_| {}).unwrap();
    let mut meaning = Meaning::new(Box::new(Letters { broken: true, ..Letters::new("a") }));
    let found = store.recall_with(&Question::new("port", 0, 5), Some(&mut meaning)).unwrap();
    assert_eq!((found.hits.len(), found.by_meaning.reason().is_some()), (1, true));
}
