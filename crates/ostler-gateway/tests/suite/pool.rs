//! The pool, with sessions that do what their prompt says.

use std::time::Duration;

use ostler_agent::access::{KeyKind, KeyMemory};
use ostler_agent::agent::{Engine, Permissions};
use ostler_agent::canonical::read;
use ostler_agent::event::{AgentEvent, Part, TurnOutcome, Usage};
use ostler_agent::history::History;
use ostler_agent::leasing::{Limits, Place, Refused, Terms};
use ostler_gateway::live::Phase;
use ostler_gateway::pool::{Answer, BrokenOff, Limit, Patience, Pool, State, Turn, TurnError};
use ostler_process::terminal::pty::Size;
use serde_json::{Value, json};

use crate::scripted::Stage;

/// Nothing here takes longer than a few looks; a loaded machine needs many times that.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) fn terms(tenant: &str) -> Terms {
    Terms {
        tenant: tenant.to_owned(),
        kind: KeyKind::Owner,
        memory: KeyMemory::Off,
        agent: "scripted".to_owned(),
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

pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub(crate) fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

pub(crate) fn turn(tenant: &str, messages: &[Value]) -> Turn {
    Turn::of(terms(tenant), History::of(read(messages).unwrap()).unwrap())
}

/// A session that settles does so at once, but on a busy machine that may take a while.
pub(crate) fn patience() -> Patience {
    Patience { settle: DEADLINE, ..Patience::default() }
}

/// For sessions that never settle.
fn impatience() -> Patience {
    Patience { settle: Duration::from_millis(50), ..Patience::default() }
}

fn pool(stage: &Stage, limits: Limits) -> Pool<Stage> {
    Pool::new(stage.clone(), limits, patience())
}

/// All words, and how it ended.
pub(crate) async fn heard(mut answer: Answer) -> Result<(String, TurnOutcome), TurnError> {
    let all = async {
        let mut words = String::new();
        while let Some(event) = answer.next().await {
            match event? {
                AgentEvent::Said { text, part: Part::Whole, .. } => words.push_str(&text),
                AgentEvent::TurnEnded(end) => {
                    assert!(answer.next().await.is_none(), "the end is the last");
                    return Ok((words, end));
                }
                _ => {}
            }
        }
        panic!("it has no end");
    };
    tokio::time::timeout(DEADLINE, all).await.unwrap()
}

pub(crate) async fn said(pool: &Pool<Stage>, tenant: &str, messages: &[Value]) -> String {
    heard(pool.complete(turn(tenant, messages))).await.unwrap().0
}

pub(crate) fn states(pool: &Pool<Stage>) -> Vec<(Option<u32>, State, u32)> {
    pool.sessions().into_iter().map(|listed| (listed.pid, listed.state, listed.turns)).collect()
}

/// Waits until it holds: a task of the pool gets it there.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let looked = tokio::time::timeout(DEADLINE, async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    });
    looked.await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// A session that is at work.
pub(crate) async fn at_work(pool: &Pool<Stage>, stage: &Stage, messages: &[Value]) -> Answer {
    let before = stage.log(|log| log.asked.len());
    let answer = pool.complete(turn("a", messages));
    until("it is asked", || stage.log(|log| log.asked.len()) > before).await;
    answer
}

#[tokio::test]
async fn a_conversation_that_goes_on_finds_its_session() {
    let stage = Stage::default();
    let pool = pool(&stage, Limits::default());
    assert_eq!(said(&pool, "a", &[user("say one")]).await, "one");
    assert_eq!(states(&pool), [(Some(1), State::Idle, 1)]);
    assert_eq!(said(&pool, "a", &[user("say one"), assistant("one"), user("say two")]).await, "two");
    assert_eq!(states(&pool), [(Some(1), State::Idle, 2)]);
    let asked = [(1, "say one".to_owned()), (1, "say two".to_owned())];
    stage.log(|log| assert_eq!((log.started.len(), &log.asked[..]), (1, &asked[..])));
    pool.close(Duration::ZERO).await;
    assert_eq!(states(&pool), []);
    stage.log(|log| assert_eq!((&log.closed[..], log.dropped.len()), (&[1][..], 0)));
}

#[tokio::test]
async fn an_edited_conversation_gets_a_session_that_is_told_it() {
    let stage = Stage::default();
    let pool = pool(&stage, Limits::default());
    said(&pool, "a", &[user("say one")]).await;
    let edited = [user("say 1"), assistant("one"), user("say two")];
    assert_eq!(said(&pool, "a", &edited).await, "two");
    let told = json!([{"role": "user", "content": "say 1"},
        {"role": "assistant", "content": [{"type": "text", "text": "one"}]}]);
    stage.log(|log| assert_eq!(json!(log.started[1]), told));
    // The first one is as it was.
    said(&pool, "a", &[user("say one"), assistant("one"), user("say two")]).await;
    stage.log(|log| assert_eq!(log.asked.last().map(|(pid, _)| *pid), Some(1)));
    pool.close(Duration::ZERO).await;
}

#[tokio::test]
async fn equal_conversations_do_not_meet_and_tenants_never_do() {
    let stage = Stage::default();
    let pool = pool(&stage, Limits::default());
    for tenant in ["a", "a", "b"] {
        said(&pool, tenant, &[user("say one")]).await;
    }
    assert_eq!(states(&pool).len(), 3);
    let on = [user("say one"), assistant("one"), user("say two")];
    // Of all that know it the one that was used last is taken: that is the one of `b` when `a` asks first.
    for tenant in ["a", "b", "a"] {
        said(&pool, tenant, &on).await;
    }
    let asked: Vec<u32> = stage.log(|log| log.asked.iter().map(|(pid, _)| *pid).collect());
    assert_eq!(asked, [1, 2, 3, 2, 3, 1]);
    stage.log(|log| assert_eq!(log.started.len(), 3));
    pool.close(Duration::ZERO).await;
}

#[tokio::test]
async fn turns_run_side_by_side() {
    let stage = Stage::default();
    let pool = pool(&stage, Limits::default());
    let slow = at_work(&pool, &stage, &[user("wait")]).await;
    assert_eq!(states(&pool), [(Some(1), State::Busy, 1)]);
    assert_eq!(said(&pool, "a", &[user("say quick")]).await, "quick");
    stage.gate.notify_one();
    assert_eq!(heard(slow).await.unwrap().1, TurnOutcome::Done { text: "waited".to_owned() });
    pool.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_turn_that_is_broken_off_leaves_a_session_that_knows_what_was_heard() {
    let stage = Stage::default();
    let pool = pool(&stage, Limits::default());
    let mut answer = pool.complete(turn("a", &[user("hang")]));
    assert!(matches!(answer.next().await, Some(Ok(AgentEvent::Said { .. }))));
    answer.cancel().await;
    assert_eq!(states(&pool), [(Some(1), State::Idle, 1)]);
    said(&pool, "a", &[user("hang"), assistant("half"), user("say on")]).await;
    stage.log(|log| assert_eq!((log.started.len(), &log.interrupted[..]), (1, &[1][..])));
    // The same if whoever listened is just gone.
    let answer = at_work(&pool, &stage, &[user("hang")]).await;
    drop(answer);
    until("it waits", || states(&pool).iter().all(|(_, state, _)| *state == State::Idle)).await;
    stage.log(|log| assert_eq!(log.closed.len(), 0));
    pool.close(Duration::ZERO).await;
}

#[tokio::test]
async fn one_that_does_not_settle_is_gone_when_the_cancel_returns() {
    let stage = Stage::default();
    let pool = Pool::new(stage.clone(), Limits::default(), impatience());
    let answer = at_work(&pool, &stage, &[user("deaf")]).await;
    answer.cancel().await;
    assert_eq!(states(&pool), []);
    stage.log(|log| assert_eq!((&log.interrupted[..], &log.closed[..]), (&[1][..], &[1][..])));
    // The same of one that is still being asked.
    let answer = at_work(&pool, &stage, &[user("slow")]).await;
    answer.cancel().await;
    assert_eq!(states(&pool), []);
    stage.log(|log| assert_eq!((&log.interrupted[..], &log.closed[..]), (&[1][..], &[1, 2][..])));
    assert_eq!(said(&pool, "a", &[user("say on")]).await, "on");
    pool.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_failure_ends_the_session_and_reaches_who_asked() {
    let stage = Stage::default();
    let pool = pool(&stage, Limits::default());
    let failed = heard(pool.complete(turn("a", &[user("fail")]))).await.unwrap().1;
    assert!(matches!(failed, TurnOutcome::Failed(_)), "{failed:?}");
    let died = heard(pool.complete(turn("a", &[user("die")]))).await;
    assert!(matches!(&died, Err(TurnError::Session(failure)) if failure.phase == Phase::Answer), "{died:?}");
    let mut unstartable = turn("a", &[user("say x")]);
    unstartable.terms.model = Some("unstartable".to_owned());
    let never = heard(pool.complete(unstartable)).await;
    assert!(matches!(&never, Err(TurnError::Session(failure)) if failure.phase == Phase::Start), "{never:?}");
    // One that has work beside its turn would go on by itself.
    said(&pool, "a", &[user("task")]).await;
    assert_eq!(states(&pool), []);
    stage.log(|log| assert_eq!(log.closed, [1, 2, 3]));
    assert_eq!(said(&pool, "a", &[user("say on")]).await, "on");
    pool.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_session_that_ended_while_it_waited_is_replaced() {
    let stage = Stage::default();
    let pool = pool(&stage, Limits::default());
    // It is noticed when it is looked at, or when it is asked.
    for talk in ["1", "2"] {
        let begin = format!("say {talk} and die");
        said(&pool, "a", &[user(&begin)]).await;
    }
    for talk in ["1", "2"] {
        let (begin, answer) = (format!("say {talk} and die"), format!("{talk} and die"));
        assert_eq!(said(&pool, "a", &[user(&begin), assistant(&answer), user("say on")]).await, "on");
    }
    stage.log(|log| {
        assert_eq!((log.started.len(), log.started[2].len(), log.started[3].len()), (4, 2, 2));
        assert_eq!(log.closed, [1, 2]);
    });
    pool.close(Duration::ZERO).await;
}

#[tokio::test]
async fn who_finds_no_room_waits_or_is_sent_away() {
    let stage = Stage::default();
    let limits = Limits { live: 1, waiting: 1, ..Limits::default() };
    let pool = pool(&stage, limits);
    let first = at_work(&pool, &stage, &[user("wait")]).await;
    let second = pool.complete(turn("a", &[user("say second")]));
    // The second is in the queue once the third is refused.
    let refused = loop {
        let mut third = pool.complete(turn("a", &[user("say third")]));
        tokio::select! {
            biased;
            told = third.next() => break told,
            () = tokio::time::sleep(Duration::from_millis(20)) => third.cancel().await,
        }
    };
    assert!(matches!(refused, Some(Err(TurnError::Refused(Refused::Full, Some(_))))), "{refused:?}");
    stage.gate.notify_one();
    heard(first).await.unwrap();
    assert_eq!(heard(second).await.unwrap().0, "second");
    // The first one had to go for it.
    stage.log(|log| assert_eq!((&log.closed[..], log.started.len()), (&[1][..], 2)));
    pool.close(Duration::ZERO).await;
}

/// A person at a terminal is not thrown out for anybody; when they leave, whoever waits is served.
#[tokio::test(start_paused = true)]
async fn what_a_person_sits_at_is_left_to_them() {
    let stage = Stage::default();
    let pool = pool(&stage, Limits { live: 1, rest: Duration::from_secs(60), ..Limits::default() });
    let mut seated = turn("a", &[user("say one")]);
    seated.terms.model = Some("terminal".to_owned());
    heard(pool.complete(seated)).await.unwrap();
    let (seat, wishes) = stage.terminal.lock().unwrap().take().unwrap();
    let hold = seat.hold(Size::USUAL).await.unwrap();
    let waits = pool.complete(turn("a", &[user("say two")]));
    // Longer than a session may wait for anybody.
    tokio::time::sleep(Duration::from_secs(600)).await;
    stage.log(|log| assert_eq!((log.started.len(), &log.closed[..]), (1, &[][..])));
    drop(hold);
    assert_eq!(heard(waits).await.unwrap().0, "two");
    stage.log(|log| assert_eq!(log.closed, [1]));
    drop(wishes);
    pool.close(Duration::ZERO).await;
}

#[tokio::test]
async fn who_leaves_the_queue_takes_nobodys_turn() {
    let stage = Stage::default();
    let pool = pool(&stage, Limits { live: 1, ..Limits::default() });
    let first = at_work(&pool, &stage, &[user("wait")]).await;
    let leaves = pool.complete(turn("a", &[user("say gone")]));
    let stays = pool.complete(turn("a", &[user("say stays")]));
    leaves.cancel().await;
    stage.gate.notify_one();
    heard(first).await.unwrap();
    assert_eq!(heard(stays).await.unwrap().0, "stays");
    stage.log(|log| assert!(log.asked.iter().all(|(_, text)| text != "say gone"), "{log:?}"));
    pool.close(Duration::ZERO).await;
}

#[tokio::test]
async fn sessions_that_wait_too_long_go() {
    let stage = Stage::default();
    let pool = pool(&stage, Limits { rest: Duration::from_millis(30), ..Limits::default() });
    said(&pool, "a", &[user("say one")]).await;
    until("it is gone", || states(&pool).is_empty()).await;
    until("it is closed", || stage.log(|log| log.closed == [1])).await;
    pool.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_spare_is_there_before_it_is_asked_for() {
    let stage = Stage::default();
    let pool = pool(&stage, Limits::default());
    pool.warm(&terms("a"), 1);
    until("it waits", || states(&pool) == [(Some(1), State::Spare, 0)]).await;
    said(&pool, "a", &[user("say one")]).await;
    stage.log(|log| assert_eq!(log.asked[0].0, 1));
    until("it is replaced", || states(&pool).iter().any(|(_, state, _)| *state == State::Spare)).await;
    stage.log(|log| assert_eq!(log.started.len(), 2));
    pool.close(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_shows_life_is_not_silent() {
    let stage = Stage::default();
    let silence = Duration::from_secs(3);
    let pool = Pool::new(stage.clone(), Limits::default(), Patience { silence, ..impatience() });
    let began = tokio::time::Instant::now();
    let streamed = heard(pool.complete(turn("a", &[user("stream 9")]))).await;
    assert!(streamed.is_ok() && began.elapsed() >= silence * 3, "{streamed:?} after {:?}", began.elapsed());
    // A spinner also turns over a dead connection.
    let began = tokio::time::Instant::now();
    let spun = heard(pool.complete(turn("b", &[user("spin")]))).await;
    assert_eq!(spun, Err(TurnError::TooLong(Limit::Silence, silence)));
    assert_eq!(began.elapsed().as_secs(), 6);
    pool.close(Duration::ZERO).await;
}

#[tokio::test]
async fn limits_of_time_are_told() {
    let stage = Stage::default();
    let short = Patience { silence: Duration::from_millis(30), ..impatience() };
    let pool = Pool::new(stage.clone(), Limits::default(), short);
    let late = heard(pool.complete(turn("a", &[user("deaf")]))).await;
    assert_eq!(late, Err(TurnError::TooLong(Limit::Silence, short.silence)));
    assert_eq!(states(&pool), []);
    pool.close(Duration::ZERO).await;
    // Not a moment without a word, and no end.
    let short = Patience { turn: Duration::from_millis(30), ..impatience() };
    let pool = Pool::new(stage.clone(), Limits::default(), short);
    let late = heard(pool.complete(turn("a", &[user("chatter")]))).await;
    assert_eq!(late, Err(TurnError::TooLong(Limit::Turn, short.turn)));
    assert_eq!(states(&pool), []);
    pool.close(Duration::ZERO).await;
    let short = Patience { start: Duration::from_millis(30), ..impatience() };
    let pool = Pool::new(stage.clone(), Limits::default(), short);
    let mut never = turn("a", &[user("say one")]);
    never.terms.model = Some("never there".to_owned());
    let late = heard(pool.complete(never)).await;
    assert_eq!(late, Err(TurnError::TooLong(Limit::Start, short.start)));
    assert_eq!(states(&pool), [], "its seat is free");
    pool.close(Duration::ZERO).await;
    stage.log(|log| assert_eq!((&log.closed[..], log.pids), (&[1, 2][..], 2)));
}

/// Somebody's wish and the end of the pool are two things, also where the agent does not say how far it had come.
#[tokio::test]
async fn why_a_turn_was_broken_off_is_told() {
    for (prompt, ended) in [("hang", true), ("deaf", false)] {
        for by in [BrokenOff::Asked, BrokenOff::Closing] {
            let (stage, patience) = (Stage::default(), if ended { patience() } else { impatience() });
            let pool = Pool::new(stage.clone(), Limits::default(), patience);
            let mut answer = pool.complete(turn("a", &[user(prompt)]));
            until("it is asked", || stage.log(|log| !log.asked.is_empty())).await;
            assert_eq!(answer.broken_off(), None);
            let stop = answer.stopper();
            let last = async {
                let mut last = None;
                while let Some(event) = answer.next().await {
                    last = Some(event);
                }
                last.unwrap()
            };
            let closing = async {
                match by {
                    BrokenOff::Asked => stop.cancel(),
                    BrokenOff::Closing => pool.close(Duration::ZERO).await,
                }
            };
            let (last, ()) = tokio::join!(last, closing);
            assert_eq!(answer.broken_off(), Some(by));
            match ended {
                true => assert_eq!(last, Ok(AgentEvent::TurnEnded(TurnOutcome::Interrupted))),
                false => assert_eq!(last, Err(TurnError::BrokenOff(by, patience.settle))),
            }
            pool.close(Duration::ZERO).await;
        }
    }
}

/// Who takes nothing is broken off like one who is gone; who takes a little now and then is not.
#[tokio::test(start_paused = true)]
async fn who_takes_nothing_is_taken_for_gone() {
    let stage = Stage::default();
    let patience = patience();
    let pool = Pool::new(stage.clone(), Limits { live: 1, ..Limits::default() }, patience);
    let nearly = patience.unread - Duration::from_secs(1);
    let mut reader = at_work(&pool, &stage, &[user("flood")]).await;
    for _ in 0..3 {
        tokio::time::sleep(nearly).await;
        stage.log(|log| assert!(log.interrupted.is_empty(), "{log:?}"));
        assert!(matches!(reader.next().await, Some(Ok(AgentEvent::Said { .. }))));
    }
    tokio::time::sleep(patience.unread).await;
    until("it is broken off", || stage.log(|log| log.interrupted == [1])).await;
    until("its session waits", || states(&pool) == [(Some(1), State::Idle, 1)]).await;
    // There is one seat, and it is free while he still has his answer.
    assert_eq!(said(&pool, "a", &[user("say on")]).await, "on");
    // What waited for him is there, without an end.
    let mut rest = 0;
    while let Some(event) = reader.next().await {
        assert!(matches!(event, Ok(AgentEvent::Said { .. })), "{event:?}");
        rest += 1;
    }
    assert!(rest > 1, "{rest}");
    pool.close(Duration::ZERO).await;
}

#[tokio::test]
async fn closing_it_ends_all_and_can_be_repeated() {
    let stage = Stage::default();
    // Long enough for the one that settles, and not too long for the one that does not.
    let patience = Patience { settle: Duration::from_secs(2), ..Patience::default() };
    let pool = Pool::new(stage.clone(), Limits::default(), patience);
    said(&pool, "a", &[user("say one")]).await;
    let hanging = at_work(&pool, &stage, &[user("hang")]).await;
    let deaf = at_work(&pool, &stage, &[user("deaf")]).await;
    pool.close(Duration::ZERO).await;
    assert_eq!(heard(hanging).await.unwrap().1, TurnOutcome::Interrupted);
    assert!(heard(deaf).await.is_err());
    assert_eq!(states(&pool), []);
    let mut closed = stage.log(|log| log.closed.clone());
    closed.sort_unstable();
    assert_eq!(closed, [1, 2, 3]);
    pool.close(Duration::ZERO).await;
    let refused = heard(pool.complete(turn("a", &[user("say late")]))).await;
    assert_eq!(refused, Err(TurnError::Refused(Refused::Closing, None)));
}

#[tokio::test]
async fn what_is_under_way_may_end_before_it_closes() {
    let stage = Stage::default();
    let pool = pool(&stage, Limits::default());
    let slow = at_work(&pool, &stage, &[user("wait")]).await;
    stage.gate.notify_one();
    pool.close(DEADLINE).await;
    assert_eq!(heard(slow).await.unwrap().1, TurnOutcome::Done { text: "waited".to_owned() });
    stage.log(|log| assert_eq!((log.closed.len(), log.interrupted.len()), (1, 0)));
}

/// Whoever goes away, whenever: every session is closed, and the next one is served.
#[tokio::test]
async fn a_thousand_cancels_leave_nothing() {
    let stage = Stage::default();
    let limits = Limits { live: 4, waiting: 5_000, waiting_of_tenant: 5_000, ..Limits::default() };
    let pool = Pool::new(stage.clone(), limits, impatience());
    let prompts = ["say x", "hang", "wait", "fail", "die", "say y and die"];
    for round in 0..1000_usize {
        let prompt = prompts[round % prompts.len()];
        let mut answer = pool.complete(turn("a", &[user(prompt)]));
        for _ in 0..round % 7 {
            tokio::task::yield_now().await;
        }
        match round % 3 {
            0 => drop(answer),
            1 => answer.cancel().await,
            _ => {
                let _ = tokio::time::timeout(Duration::from_micros(50), answer.next()).await;
            }
        }
    }
    assert_eq!(said(&pool, "a", &[user("say still here")]).await, "still here");
    tokio::time::timeout(DEADLINE, pool.close(Duration::ZERO)).await.unwrap();
    assert_eq!(states(&pool), []);
    stage.log(|log| assert_eq!(log.closed.len() + log.dropped.len(), log.started.len(), "{:?}", log.dropped));
}

/// The answer has none of it, its conversation continues in another session, and its usage is not lost.
#[tokio::test]
async fn what_a_session_does_outside_a_turn_is_accounted_and_not_answered() {
    let stage = Stage::default();
    let pool = pool(&stage, Limits::default());
    assert_eq!(said(&pool, "a", &[user("later by myself")]).await, "later");
    let mut answer =
        pool.complete(turn("a", &[user("later by myself"), assistant("later"), user("say two")]));
    let all = async {
        let (mut words, mut used) = (String::new(), Vec::new());
        while let Some(event) = answer.next().await {
            match event.unwrap() {
                AgentEvent::Said { text, part: Part::Whole, .. } => words.push_str(&text),
                AgentEvent::Spent(usage) => used.push(usage),
                _ => {}
            }
        }
        (words, used)
    };
    let (words, used) = tokio::time::timeout(DEADLINE, all).await.unwrap();
    let outside = Usage { input_tokens: Some(7), output_tokens: Some(3), ..Usage::default() };
    assert_eq!((words.as_str(), used), ("two", vec![outside]));
    stage.log(|log| assert_eq!(log.asked.last(), Some(&(2, "say two".to_owned()))));
    pool.close(Duration::ZERO).await;
}
