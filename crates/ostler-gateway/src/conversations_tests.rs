use ostler_agent::agent::{Engine, Permissions};
use ostler_agent::canonical::{Block, Message, Role, read};
use ostler_agent::event::{AgentEvent, Failure, FailureClass, Part, ToolResult, TurnOutcome, Usage};
use ostler_agent::history::History;
use ostler_agent::leasing::{Place, Terms};
use serde_json::{Value, json};

use super::*;
use crate::pool::known_on;

/// What is said of a turn that a killed server left open.
const KILLED: &str = "the server ended during this turn: the answer is incomplete";

pub(super) fn opening(tenant: &str) -> Opening {
    Opening {
        conversation: String::new(),
        tenant: tenant.to_owned(),
        model: "claude".to_owned(),
        cwd: None,
        system: None,
        carried: None,
        permissions: "deny".to_owned(),
        ask: false,
        engine: "stream".to_owned(),
        origin: "chat".to_owned(),
    }
}

pub(super) fn terms() -> Terms {
    Terms {
        kind: ostler_agent::access::KeyKind::Owner,
        memory: ostler_agent::access::KeyMemory::Off,
        tenant: "one".to_owned(),
        agent: "claude-headless".to_owned(),
        engine: Engine::Stream,
        model: None,
        workspace: Place::Own,
        system_prompt: None,
        permissions: Permissions::Deny,
        asks_client: false,
        allow: Vec::new(),
        tools: String::new(),
    }
}

pub(super) fn user(text: &str) -> Message {
    read(&[json!({"role": "user", "content": text})]).unwrap().remove(0)
}

pub(super) fn text_event(text: &str) -> AgentEvent {
    AgentEvent::Said { text: text.to_owned(), part: Part::Whole, within: None }
}

pub(super) fn done() -> AgentEvent {
    AgentEvent::TurnEnded(TurnOutcome::Done { text: String::new() })
}

/// Asks, and is answered.
pub(super) fn turn(conversation: &Arc<Conversation>, asked: &str, events: &[AgentEvent]) -> String {
    let prior = conversation.history(None).unwrap_or_default();
    let mut recorder =
        conversation.begin_turn(("claude", &terms()), (&prior, prior.len()), &user(asked)).unwrap();
    events.iter().for_each(|event| recorder.hear(event).unwrap());
    recorder.turn().to_owned()
}

fn written(messages: &[Message]) -> Vec<Value> {
    messages.iter().map(Message::written).collect()
}

#[test]
fn a_conversation_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = Conversations::open(folder.path(), Bounds::default()).unwrap();
    let conversation = store.begin(opening("one"));
    let usage = Usage { input_tokens: Some(7), cost_usd: Some(0.5), ..Usage::default() };
    let call = AgentEvent::ToolStarted {
        call: "c".to_owned(),
        tool: "Bash".to_owned(),
        input: json!({"command": "ls"}),
        within: None,
    };
    let result = ToolResult { failed: false, exit_code: None, text: "files".to_owned() };
    let result = AgentEvent::ToolEnded { call: "c".to_owned(), result };
    turn(&conversation, "one?", &[call, result, text_event("one"), AgentEvent::Spent(usage), done()]);
    let second = turn(&conversation, "two?", &[text_event("two"), AgentEvent::Spent(usage), done()]);
    let (all, summary) = (conversation.history(None).unwrap(), conversation.summary());
    assert_eq!(all.len(), 6, "{:?}", written(&all));
    let store = Conversations::open(folder.path(), Bounds::default()).unwrap();
    let found = store.find(Some("one"), conversation.id()).unwrap();
    assert_eq!((found.summary(), found.opening.clone()), (summary, conversation.opening.clone()));
    assert_eq!(found.summary().so_far.cost_usd, Some(1.0));
    assert_eq!(found.history(None).unwrap(), all);
    // It is found by what was said, also by its words alone, and only by its tenant.
    let words = ostler_agent::fingerprint::words(&all);
    for sent in [&all, &words] {
        assert_eq!(store.knowing("one", &known_on(&terms(), sent)).unwrap().id(), conversation.id());
        assert!(store.knowing("two", &known_on(&terms(), sent)).is_none());
    }
    assert!(found.knows_whole(&known_on(&terms(), &all)) && !found.knows_whole(&known_on(&terms(), &words)));
    assert!(
        store.find(Some("two"), conversation.id()).is_none() && store.find(None, conversation.id()).is_some()
    );
    assert_eq!(store.of_turn(Some("one"), &second).unwrap().id(), conversation.id());
    assert!(store.of_turn(Some("one"), "é").is_none());
    let kept = found.turn(&second).unwrap();
    assert_eq!(
        (kept.end, kept.asked),
        (Some((Ending::Done, None)), json!({"role": "user", "content": "two?"}))
    );
}

#[test]
fn what_failed_does_not_count_and_what_was_broken_off_does() {
    let folder = tempfile::tempdir().unwrap();
    let store = Conversations::open(folder.path(), Bounds::default()).unwrap();
    let conversation = store.begin(opening("one"));
    let failure = Failure {
        class: FailureClass::Provider,
        detail: "gone".to_owned(),
        resets_at: None,
        cut_short: None,
    };
    let failed = turn(
        &conversation,
        "bad?",
        &[text_event("half"), AgentEvent::TurnEnded(TurnOutcome::Failed(failure))],
    );
    assert_eq!(conversation.history(None).unwrap(), []);
    assert_eq!(conversation.summary().so_far.last_error.as_deref(), Some("gone"));
    assert_eq!(conversation.history(Some(&failed)), Err(Unkept::NoSuchTurn));
    // Nobody listened to the end.
    let piece = AgentEvent::Said { text: "hal".to_owned(), part: Part::Delta, within: None };
    turn(&conversation, "long?", &[piece]);
    let said = written(&conversation.history(None).unwrap());
    let half = json!({"role": "assistant", "content": [{"type": "text", "text": "hal"}]});
    assert_eq!(said, [json!({"role": "user", "content": "long?"}), half]);
    assert_eq!(conversation.summary().turn, None);
}

#[test]
fn a_torn_line_is_passed_over_and_nothing_is_glued_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Conversations::open(folder.path(), Bounds::default()).unwrap();
    let conversation = store.begin(opening("one"));
    turn(&conversation, "one?", &[text_event("one"), done()]);
    let path = conversation.journal().unwrap();
    let whole = std::fs::read(&path).unwrap();
    // Whatever of the last line a crash has left.
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for end in (last..whole.len()).step_by(7) {
        std::fs::write(&path, &whole[..end]).unwrap();
        let store = Conversations::open(folder.path(), Bounds::default()).unwrap();
        let found = store.find(Some("one"), conversation.id()).unwrap();
        // The turn has no end, but what was said in it is there.
        assert_eq!((found.history(None).unwrap().len(), found.summary().so_far.turns), (2, 1), "at {end}");
        assert_eq!(found.summary().so_far.last_error.as_deref(), Some(KILLED), "at {end}");
        turn(&found, "again?", &[text_event("yes"), done()]);
        assert_eq!(found.history(None).unwrap().len(), 4, "at {end}");
    }
}

#[test]
fn one_asks_at_a_time_and_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let store = Conversations::open(folder.path(), Bounds::default()).unwrap();
    let conversation = store.begin(opening("one"));
    let recorder = conversation.begin_turn(("claude", &terms()), (&[], 0), &user("one?")).unwrap();
    assert_eq!(
        conversation.begin_turn(("claude", &terms()), (&[], 0), &user("two?")).err(),
        Some(Unkept::Busy)
    );
    let stop = tokio_util::sync::CancellationToken::new();
    assert!(conversation.stop(None), "it is stopped also before it is known how");
    conversation.stoppable(recorder.turn(), stop.clone());
    assert!(stop.is_cancelled() && !conversation.stop(Some("another")));
    drop(recorder);
    assert!(!conversation.stop(None));
    assert!(conversation.begin_turn(("claude", &terms()), (&[], 0), &user("two?")).is_ok());
}

#[test]
fn only_so_much_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = Conversations::open(
        folder.path(),
        Bounds { count: 3, empty: 3, unkept: 3, bytes: 1 << 20, ..Bounds::default() },
    )
    .unwrap();
    let other = store.begin(opening("two"));
    for _ in 0..4 * PRUNED_EVERY {
        store.begin(opening("one"));
    }
    assert!(store.list(Some("one")).len() <= 3 + PRUNED_EVERY);
    assert_eq!(store.list(Some("two")).len(), 1, "another's are not touched");
    let files = || {
        let tenants = std::fs::read_dir(folder.path()).unwrap();
        tenants.flat_map(|tenant| std::fs::read_dir(tenant.unwrap().path()).unwrap()).count()
    };
    assert_eq!(files(), store.list(None).len());
    store.remove(&other);
    assert_eq!((store.list(Some("two")).len(), files()), (0, store.list(None).len()));
}

/// Both begin as many, and each is looked after.
#[test]
fn every_tenant_has_its_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds { count: 3, empty: 3, unkept: 3, bytes: 1 << 20, ..Bounds::default() };
    let store = Conversations::open(folder.path(), bounds).unwrap();
    for _ in 0..4 * PRUNED_EVERY {
        for tenant in ["one", "two"] {
            store.begin(opening(tenant));
        }
    }
    for tenant in ["one", "two"] {
        assert!(store.list(Some(tenant)).len() <= 3 + PRUNED_EVERY, "{tenant}");
    }
    // And those that are there when a server starts.
    for _ in 1..PRUNED_EVERY {
        store.begin(opening("two"));
    }
    let store = Conversations::open(folder.path(), bounds).unwrap();
    assert_eq!((store.list(Some("one")).len(), store.list(Some("two")).len()), (3, 3));
}

/// The id of a new conversation of this name.
fn new_id(store: &Conversations, tenant: &str, name: &str) -> String {
    match store.named(tenant, name) {
        Named::New(id) => id,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_name_is_the_same_conversation_for_the_same_tenant() {
    let folder = tempfile::tempdir().unwrap();
    let store = Conversations::open(folder.path(), Bounds::default()).unwrap();
    let id = |tenant: &str, name: &str| new_id(&store, tenant, name);
    assert_eq!(id("one", "mine"), id("one", "mine"));
    assert_ne!(id("one", "mine"), id("two", "mine"));
    assert_eq!(id("one", "../../etc").len(), 32);
    assert!(id("one", "../../etc").bytes().all(|byte| byte.is_ascii_hexdigit()));
    let named = store.begin(Opening { conversation: id("one", "mine"), ..opening("one") });
    for name in ["mine", named.id()] {
        let found = store.named("one", name);
        assert!(matches!(&found, Named::Found(found) if Arc::ptr_eq(found, &named)), "it has an id besides");
    }
    let again = store.begin(Opening { conversation: named.id().to_owned(), ..opening("one") });
    assert!(Arc::ptr_eq(&named, &again), "who comes second has the same");
}

#[test]
fn an_id_of_somebody_elses_is_a_name_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let store = Conversations::open(folder.path(), Bounds::default()).unwrap();
    let theirs = store.begin(opening("one"));
    assert_ne!(new_id(&store, "two", theirs.id()), theirs.id());
    // And whatever is asked for, nobody's place is taken.
    let forced = store.begin(Opening { conversation: theirs.id().to_owned(), ..opening("two") });
    assert_ne!(forced.id(), theirs.id());
    assert!(Arc::ptr_eq(&store.find(Some("one"), theirs.id()).unwrap(), &theirs));
}

/// Files of all conversations, and of what is remembered of them.
fn files(folder: &Path) -> Vec<String> {
    let tenants = std::fs::read_dir(folder).unwrap().map(|tenant| tenant.unwrap().path());
    let files = tenants.flat_map(|tenant| std::fs::read_dir(tenant).unwrap());
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_turn_without_a_session_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Conversations::open(folder.path(), Bounds::default()).unwrap();
    let endings: [fn(&mut Recorder); 3] = [Recorder::refused, |recorder| recorder.failed("no"), |_| ()];
    for ends in endings {
        for kind in 0..3 {
            let conversation = match kind {
                0 => store.begin_provisional(opening("one")),
                1 => store.begin_unkept(opening("one")),
                _ => {
                    let conversation = new_id(&store, "one", "mine");
                    store.begin_provisional(Opening { conversation, ..opening("one") })
                }
            };
            let began = conversation.begin_turn(("claude", &terms()), (&[], 0), &user("one?"));
            let mut recorder = began.unwrap();
            assert_eq!(conversation.turn(recorder.turn()).unwrap().end, None, "it is under way");
            ends(&mut recorder);
            drop(recorder);
            assert_eq!((store.list(None).len(), files(folder.path()).len()), (0, 0));
            let again = conversation.begin_turn(("claude", &terms()), (&[], 0), &user("one?"));
            assert_eq!(again.err(), Some(Unkept::Removed), "nobody asks in one that is not listed");
        }
    }
    // One that was there before is as it was, but for why its last turn failed.
    let conversation = store.begin(opening("one"));
    turn(&conversation, "one?", &[text_event("one"), done()]);
    let before = (conversation.summary(), std::fs::read(conversation.journal().unwrap()).unwrap());
    let began = conversation.begin_turn(("claude", &terms()), (&[], 0), &user("two?"));
    began.unwrap().refused();
    let after = (conversation.summary(), std::fs::read(conversation.journal().unwrap()).unwrap());
    assert_eq!(before, after);
    let began = conversation.begin_turn(("claude", &terms()), (&[], 0), &user("two?"));
    began.unwrap().failed("the agent does not start");
    let so_far = conversation.summary().so_far;
    assert_eq!((so_far.turns, so_far.last_error.as_deref()), (1, Some("the agent does not start")));
}

#[test]
fn what_only_failed_does_not_evict_what_was_said() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds { count: 3, empty: 3, unkept: 3, bytes: 1 << 20, ..Bounds::default() };
    let store = Conversations::open(folder.path(), bounds).unwrap();
    let real = store.begin(opening("one"));
    turn(&real, "one?", &[text_event("one"), done()]);
    for _ in 0..4 * PRUNED_EVERY {
        let failed = store.begin_provisional(opening("one"));
        let failure = AgentEvent::TurnEnded(TurnOutcome::Failed(Failure {
            class: FailureClass::Provider,
            detail: "gone".to_owned(),
            resets_at: None,
            cut_short: None,
        }));
        turn(&failed, "bad?", &[failure]);
        turn(&store.begin_unkept(opening("one")), "one?", &[text_event("one"), done()]);
    }
    assert!(store.find(Some("one"), real.id()).is_some());
    let store = Conversations::open(folder.path(), bounds).unwrap();
    assert_eq!(store.list(Some("one")).len(), 1 + 3);
    assert_eq!(store.find(Some("one"), real.id()).unwrap().history(None).unwrap().len(), 2);
}

/// However it went, and also after a restart: no client continues an empty one.
#[test]
fn a_name_whose_conversation_is_gone_is_not_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds { count: 2, empty: 2, unkept: 2, bytes: 1 << 20, ..Bounds::default() };
    let mut store = Conversations::open(folder.path(), bounds).unwrap();
    let begun = |store: &Conversations, name: &str| {
        let id = new_id(store, "one", name);
        let conversation = store.begin_provisional(Opening { conversation: id, ..opening("one") });
        turn(&conversation, "one?", &[text_event("one"), done()]);
        conversation.id().to_owned()
    };
    let deleted = begun(&store, "deleted");
    store.remove(&store.find(None, &deleted).unwrap());
    let evicted = begun(&store, "evicted");
    let broken = begun(&store, "broken");
    std::fs::write(store.find(None, &broken).unwrap().journal().unwrap(), "{").unwrap();
    let made = store.begin_provisional(opening("one"));
    turn(&made, "one?", &[text_event("one"), done()]);
    store.remove(&made);
    for number in 0..2 * PRUNED_EVERY {
        begun(&store, &format!("other {number}"));
    }
    for restarts in 0..2 {
        let gone = |name: &str| matches!(store.named("one", name), Named::Gone(_));
        for name in ["deleted", &deleted, "evicted", &evicted, made.id()] {
            assert!(gone(name), "{name} after {restarts} restarts");
        }
        assert!(matches!(store.named("one", "never"), Named::New(_)));
        assert!(matches!(store.named("two", "deleted"), Named::New(_)), "another's name is another's");
        store = Conversations::open(folder.path(), bounds).unwrap();
        assert!(matches!(store.named("one", "broken"), Named::Gone(_)));
    }
    // A client that sends all of it begins it again.
    let Named::Gone(Some(id)) = store.named("one", "evicted") else { panic!("it is gone") };
    assert_eq!(id, evicted);
    let again = store.begin_provisional(Opening { conversation: id, ..opening("one") });
    turn(&again, "two?", &[text_event("two"), done()]);
    assert!(matches!(store.named("one", "evicted"), Named::Found(_)));
    // What only ever failed held nothing: its name is free.
    let id = new_id(&store, "one", "failed");
    let failed = store.begin(Opening { conversation: id, ..opening("one") });
    store.remove(&failed);
    assert!(matches!(store.named("one", "failed"), Named::New(_)));
}

/// A turn that is under way when the server is killed: its words are those that a client has, and it has an error.
#[test]
fn a_turn_that_a_killed_server_left_open_has_its_words_and_an_error() {
    let piece = |text: &str| AgentEvent::Said { text: text.to_owned(), part: Part::Delta, within: None };
    let call = AgentEvent::ToolStarted {
        call: "c".to_owned(),
        tool: "Bash".to_owned(),
        input: json!({"command": "ls"}),
        within: None,
    };
    let result = ToolResult { failed: false, exit_code: None, text: "files".to_owned() };
    let result = AgentEvent::ToolEnded { call: "c".to_owned(), result };
    let usage = AgentEvent::Spent(Usage { input_tokens: Some(7), ..Usage::default() });
    type Row<'a> = (&'a str, Vec<AgentEvent>, &'a [&'a str]);
    let table: [Row<'_>; 6] = [
        ("nothing was said", vec![], &[]),
        ("in the middle of a text", vec![piece("ha"), piece("lf")], &["half"]),
        ("after a whole text", vec![piece("whole"), text_event("whole")], &["whole"]),
        (
            "in a second text that begins like the first",
            vec![piece("whole"), text_event("whole"), call.clone(), result, piece("who")],
            &["whole", "files", "who"],
        ),
        ("while a tool runs", vec![text_event("I look."), call], &["I look."]),
        ("after it was told what it costs", vec![usage, piece("half")], &["half"]),
    ];
    for (what, events, want) in table {
        let folder = tempfile::tempdir().unwrap();
        let store = Conversations::open(folder.path(), Bounds::default()).unwrap();
        let conversation = store.begin_provisional(opening("one"));
        turn(&conversation, "one?", &[text_event("one"), done()]);
        let prior = conversation.history(None).unwrap();
        let mut recorder = conversation.begin_turn(("claude", &terms()), (&prior, 2), &user("two?")).unwrap();
        recorder.commit();
        events.iter().for_each(|event| recorder.hear(event).unwrap());
        let spent = conversation.summary().so_far.input_tokens;
        let open = recorder.turn().to_owned();
        // Nothing runs any more: neither an end nor a file that is removed.
        std::mem::forget((recorder, conversation.clone()));
        let copy = tempfile::tempdir().unwrap();
        copy_folder(folder.path(), copy.path());
        // The second start finds what the first one mended.
        for _ in 0..2 {
            let store = Conversations::open(copy.path(), Bounds::default()).unwrap();
            let found = store.find(Some("one"), conversation.id()).unwrap();
            let so_far = found.summary().so_far;
            assert_eq!((so_far.turns, so_far.input_tokens), (2, spent), "{what}");
            assert_eq!(so_far.last_error.as_deref(), Some(KILLED), "{what}");
            let said = found.history(None).unwrap();
            assert_eq!(
                (&said[2], texts(&said[3..])),
                (&user("two?"), want.iter().map(|text| (*text).to_owned()).collect()),
                "{what}"
            );
            let end = found.turn(&open).unwrap().end;
            assert_eq!(end, Some((Ending::Interrupted, Some(KILLED.to_owned()))), "{what}");
            assert!(store.knowing("one", &known_on(&terms(), &said)).is_some(), "{what}: it goes on");
            let next = History::of([&said[..], &[user("three?")]].concat()).unwrap();
            assert_eq!(next.paired(), Ok(()), "{what}");
        }
        assert!(!files(copy.path()).iter().any(|file| file.ends_with("partial")), "{what}");
    }
}

/// What was said, and what came of calls.
fn texts(messages: &[Message]) -> Vec<String> {
    let blocks = messages.iter().flat_map(|message| &message.blocks);
    let texts = blocks.filter_map(|block| match block {
        Block::Text(text) => Some(text.clone()),
        Block::Outcome { blocks, .. } => Some(Message { role: Role::User, blocks: blocks.clone() }.text()),
        _ => None,
    });
    texts.collect()
}

fn copy_folder(from: &Path, to: &Path) {
    for tenant in std::fs::read_dir(from).unwrap() {
        let tenant = tenant.unwrap();
        let into = to.join(tenant.file_name());
        std::fs::create_dir(&into).unwrap();
        for file in std::fs::read_dir(tenant.path()).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), into.join(file.file_name())).unwrap();
        }
    }
}

/// What is on disk is a part of it: nobody may go on with that.
#[test]
fn what_could_not_be_kept_whole_is_not_gone_on_with_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = Conversations::open(folder.path(), Bounds::default()).unwrap();
    let conversation = store.begin(opening("one"));
    turn(&conversation, "one?", &[text_event("one"), done()]);
    let (before, path) = (conversation.history(None).unwrap(), conversation.journal().unwrap());
    // One word makes it too long.
    let long = "x".repeat(33 << 20);
    let mut recorder =
        conversation.begin_turn(("claude", &terms()), (&before, before.len()), &user("two?")).unwrap();
    recorder.hear(&text_event(&long)).unwrap();
    recorder.hear(&done()).unwrap();
    assert_eq!(conversation.history(None), Err(Unkept::Lost));
    assert!(!path.exists() && path.with_extension(CUT).exists(), "what there is stays");
    let store = Conversations::open(folder.path(), Bounds::default()).unwrap();
    let found = store.find(Some("one"), conversation.id()).unwrap();
    assert_eq!(found.history(None), Err(Unkept::Lost));
    assert!(store.knowing("one", &known_on(&terms(), &before)).is_none());
    store.remove(&found);
    assert!(!path.with_extension(CUT).exists());
}
