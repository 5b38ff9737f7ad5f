//! What there is room for on disk, at every write.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use ostler_agent::event::{AgentEvent, Part};

use super::tests::{done, opening, terms, text_event, turn, user};
use super::*;

const KB: usize = 1024;

/// A hundred kilobytes for a tenant, and so many for all.
fn open(folder: &Path, all: usize) -> Conversations {
    let bounds = Bounds { bytes: 100 * KB as u64, total_bytes: (all * KB) as u64, ..Bounds::default() };
    Conversations::open(folder, bounds).unwrap()
}

/// A conversation in which so many kilobytes were said: a text is there as an event, and in the end of its turn.
fn filled(store: &Conversations, tenant: &str, kilobytes: usize) -> Arc<Conversation> {
    let conversation = store.begin(opening(tenant));
    turn(&conversation, "?", &[text_event(&"x".repeat(kilobytes * KB / 2)), done()]);
    conversation
}

fn bytes_in(folder: &Path) -> u64 {
    let mut bytes = 0;
    for tenant in std::fs::read_dir(folder).unwrap() {
        for file in std::fs::read_dir(tenant.unwrap().path()).unwrap() {
            bytes += file.unwrap().metadata().unwrap().len();
        }
    }
    bytes
}

fn is_there(store: &Conversations, conversation: &Conversation) -> bool {
    let is_on_disk = conversation.path().exists();
    assert_eq!(store.find(None, conversation.id()).is_some(), is_on_disk);
    is_on_disk
}

#[test]
fn a_write_in_a_turn_removes_idle_conversations_of_its_own_key_only() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1000);
    let theirs = filled(&store, "two", 90);
    let (oldest, older) = (filled(&store, "one", 40), filled(&store, "one", 40));
    let conversation = store.begin(opening("one"));
    let mut recorder = conversation.begin_turn(("claude", &terms()), (&[], 0), &user("?")).unwrap();
    recorder.hear(&text_event(&"x".repeat(10 * KB))).unwrap();
    assert!(is_there(&store, &oldest), "there is room for it");
    recorder.hear(&text_event(&"x".repeat(15 * KB))).unwrap();
    assert!(!is_there(&store, &oldest) && is_there(&store, &older) && is_there(&store, &theirs));
    recorder.hear(&done()).unwrap();
    assert!(is_there(&store, &older) && is_there(&store, &theirs));
    assert!(bytes_in(folder.path()) <= 200 * KB as u64);
    // What is on disk counts after a restart too.
    drop(store);
    let store = open(folder.path(), 1000);
    filled(&store, "one", 40);
    assert_eq!((store.list(Some("one")).len(), store.list(Some("two")).len()), (2, 1));
}

#[test]
fn without_an_idle_conversation_the_turn_fails_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1000);
    let (busy, small) = (filled(&store, "one", 40), filled(&store, "one", 2));
    let theirs = filled(&store, "two", 40);
    let mut first = busy.begin_turn(("claude", &terms()), (&[], 0), &user("?")).unwrap();
    first.hear(&text_event(&"x".repeat(20 * KB))).unwrap();
    let mut second = small.begin_turn(("claude", &terms()), (&[], 0), &user("?")).unwrap();
    second.hear(&text_event("a word")).unwrap();
    let refused = second.hear(&text_event(&"x".repeat(50 * KB)));
    assert_eq!(refused, Err(QuotaExceeded::OfTenant(100 * KB as u64)));
    let failed = small.turn(second.turn()).unwrap();
    let (ending, error) = failed.end.unwrap();
    assert_eq!((ending, failed.events.len()), (Ending::Failed, 1));
    assert!(error.as_ref().is_some_and(|error| error.contains("this key")), "{error:?}");
    assert_eq!(small.summary().so_far.last_error, error);
    // A turn that begins has no room either, and leaves nothing.
    let long = user(&"x".repeat(90 * KB));
    let refused = small.begin_turn(("claude", &terms()), (&[], 0), &long);
    assert!(matches!(refused, Err(Unkept::Full(QuotaExceeded::OfTenant(_)))), "{refused:?}");
    let new = store.begin_provisional(opening("one"));
    assert!(matches!(new.begin_turn(("claude", &terms()), (&[], 0), &long), Err(Unkept::Full(_))));
    assert!(!new.is_listed() && !is_there(&store, &new));
    // The others are as they were, and so is this one.
    first.hear(&done()).unwrap();
    assert!(is_there(&store, &busy) && is_there(&store, &theirs));
    turn(&small, "again?", &[text_event("yes"), done()]);
    assert_eq!(small.history(None).unwrap().len(), 4);
}

/// What is said is written as it comes and once more at the end.
#[test]
fn an_end_without_room_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1000);
    let conversation = filled(&store, "one", 2);
    let mut recorder = conversation.begin_turn(("claude", &terms()), (&[], 0), &user("?")).unwrap();
    recorder.hear(&text_event(&"x".repeat(60 * KB))).unwrap();
    assert!(matches!(recorder.hear(&done()), Err(QuotaExceeded::OfTenant(_))));
    drop(recorder);
    assert_eq!((conversation.summary().turn, conversation.history(None).unwrap().len()), (None, 2));
    assert!(bytes_in(folder.path()) <= 100 * KB as u64);
}

#[test]
fn all_keys_together_keep_to_their_budget_and_live_sessions_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 150);
    let (oldest, live) = (filled(&store, "one", 40), filled(&store, "one", 40));
    let id = live.id().to_owned();
    store.protect(move || HashSet::from([id.clone()]));
    let theirs = filled(&store, "two", 60);
    assert!(is_there(&store, &oldest));
    // The key that has the most loses its oldest one, although another key writes.
    let third = filled(&store, "three", 30);
    assert!(!is_there(&store, &oldest) && is_there(&store, &live) && is_there(&store, &theirs));
    // Now the live ones alone are in the way.
    let mut at_work = theirs.begin_turn(("claude", &terms()), (&[], 0), &user("?")).unwrap();
    let mut also = third.begin_turn(("claude", &terms()), (&[], 0), &user("?")).unwrap();
    assert_eq!(also.hear(&text_event(&"x".repeat(30 * KB))), Err(QuotaExceeded::OfAll(150 * KB as u64)));
    assert!(is_there(&store, &live) && is_there(&store, &theirs) && is_there(&store, &third));
    at_work.hear(&done()).unwrap();
    assert!(bytes_in(folder.path()) <= 150 * KB as u64);
    drop((at_work, also, store));
    // A smaller budget holds from the next start on.
    let store = open(folder.path(), 70);
    assert!(bytes_in(folder.path()) <= 70 * KB as u64);
    assert!(!store.list(None).is_empty());
}

/// Words of a text that is not whole count as well.
#[test]
fn words_on_their_way_count() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1000);
    let conversation = store.begin(opening("one"));
    let mut recorder = conversation.begin_turn(("claude", &terms()), (&[], 0), &user("?")).unwrap();
    let piece = "x".repeat(10 * KB);
    for _ in 0..20 {
        let heard = AgentEvent::Said { text: piece.clone(), part: Part::Delta, within: None };
        recorder.hear(&heard).unwrap();
        assert!(bytes_in(folder.path()) <= 101 * KB as u64);
    }
    drop(recorder);
    assert!(bytes_in(folder.path()) <= 100 * KB as u64);
}
