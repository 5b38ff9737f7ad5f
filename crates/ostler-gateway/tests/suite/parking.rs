//! Sessions whose process is gone: their conversations go on in the same session, whatever ended the process.

use std::path::Path;
use std::time::Duration;

use ostler_agent::leasing::Limits;
use ostler_gateway::pool::{Pool, Shelf, State};
use serde_json::Value;

use crate::pool::{assistant, at_work, heard, patience, said, states, turn, until, user};
use crate::scripted::Stage;

fn pool(stage: &Stage, folder: &Path, limits: Limits) -> Pool<Stage> {
    let shelf = Shelf::open(folder).unwrap();
    assert!(shelf.is_some(), "nobody else has it");
    Pool::with_shelf(stage.clone(), limits, patience(), shelf)
}

/// The first turn of a conversation, and all up to its second question.
fn talk(number: usize) -> [Value; 3] {
    [user(&format!("say {number}")), assistant(&number.to_string()), user(&format!("say again {number}"))]
}

#[tokio::test]
async fn twenty_conversations_go_on_after_a_restart() {
    let (stage, folder) = (Stage::default(), tempfile::tempdir().unwrap());
    // Some of them are parked already when the server ends.
    let limits = Limits { live: 30, live_of_tenant: 30, idle: 15, ..Limits::default() };
    let first = pool(&stage, folder.path(), limits);
    for number in 0..20 {
        said(&first, "a", &talk(number)[..1]).await;
    }
    first.close(Duration::ZERO).await;
    drop(first);
    stage.log(|log| assert_eq!((log.parked.len(), log.closed.len(), log.started.len()), (20, 0, 20)));
    let second = pool(&stage, folder.path(), limits);
    for number in 0..20 {
        assert_eq!(said(&second, "a", &talk(number)).await, format!("again {number}"));
    }
    stage.log(|log| {
        assert_eq!((log.revived.len(), log.started.len()), (20, 20), "nothing was told twice");
        // Only what is new was asked, of the session that knows the rest.
        for (number, (session, pid)) in log.revived.iter().enumerate() {
            assert_eq!(*session, format!("session-{}", number + 1));
            assert!(log.asked.contains(&(*pid, format!("say again {number}"))));
        }
    });
    second.close(Duration::ZERO).await;
}

#[tokio::test]
async fn twenty_conversations_go_on_after_a_kill() {
    let (stage, folder) = (Stage::default(), tempfile::tempdir().unwrap());
    let limits = Limits { live: 30, live_of_tenant: 30, idle: 30, ..Limits::default() };
    let first = pool(&stage, folder.path(), limits);
    for number in 0..20 {
        said(&first, "a", &talk(number)[..1]).await;
    }
    // One is in the middle of its second turn, and its record is ahead of what anybody was told.
    let busy = at_work(&first, &stage, &[&talk(7)[..2], &[user("wait")]].concat()).await;
    stage.records.lock().unwrap().get_mut("session-8").unwrap().truncate(1);
    // Nothing is closed: as with a process that is killed, its locks go, and what it had in mind.
    drop((first, busy));
    until("all are gone", || stage.log(|log| log.dropped.len() + log.closed.len() + log.parked.len() == 20))
        .await;
    let second = until_free(&stage, folder.path(), limits).await;
    for number in 0..20 {
        assert_eq!(said(&second, "a", &talk(number)).await, format!("again {number}"));
    }
    stage.log(|log| {
        assert_eq!(log.revived.len(), 19);
        assert!(
            log.revived.iter().all(|(session, _)| session != "session-8"),
            "it does not know what it should"
        );
        assert_eq!((log.started.len(), log.started[20].len()), (21, 2), "it is told to a new one");
    });
    second.close(Duration::ZERO).await;
}

/// The tasks of a pool that is dropped let go of the shelf a moment later.
async fn until_free(stage: &Stage, folder: &Path, limits: Limits) -> Pool<Stage> {
    loop {
        if let Some(shelf) = Shelf::open(folder).unwrap() {
            return Pool::with_shelf(stage.clone(), limits, patience(), Some(shelf));
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_session_that_waited_too_long_is_parked_and_comes_back() {
    let (stage, folder) = (Stage::default(), tempfile::tempdir().unwrap());
    let pool = pool(&stage, folder.path(), Limits { rest: Duration::from_millis(1), ..Limits::default() });
    said(&pool, "a", &talk(1)[..1]).await;
    until("it is parked", || stage.log(|log| log.parked == [1])).await;
    until("it can be taken", || states(&pool).is_empty()).await;
    // Another key never gets it.
    said(&pool, "b", &talk(1)).await;
    stage.log(|log| assert_eq!(log.revived, []));
    let again = async {
        loop {
            // It may take a moment until it is on the shelf.
            said(&pool, "a", &talk(1)).await;
            if stage.log(|log| log.revived.iter().any(|(session, _)| session == "session-1")) {
                return;
            }
        }
    };
    tokio::time::timeout(crate::pool::DEADLINE, again).await.unwrap();
    pool.close(Duration::ZERO).await;
}

#[tokio::test]
async fn what_failed_or_never_spoke_is_not_parked() {
    let (stage, folder) = (Stage::default(), tempfile::tempdir().unwrap());
    let pool = pool(&stage, folder.path(), Limits::default());
    said(&pool, "a", &talk(1)[..1]).await;
    // One that ends without a word is replaced; the second one fails as well.
    let failed = heard(pool.complete(turn("a", &[&talk(1)[..2], &[user("die")]].concat()))).await;
    assert!(failed.is_err());
    pool.warm(&crate::pool::terms("a"), 1);
    until("a spare waits", || states(&pool).iter().any(|(_, state, _)| *state == State::Spare)).await;
    pool.close(Duration::ZERO).await;
    drop(pool);
    stage.log(|log| assert_eq!((log.parked.len(), log.closed.len()), (0, 3)));
    assert_eq!(Shelf::open(folder.path()).unwrap().unwrap().parked(), []);
}

/// An agent may have put very many files there: while they are removed everybody else is served.
#[test]
fn the_folder_of_a_session_is_not_removed_on_the_runtimes_own_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    let (shelf, folders) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let stage = Stage { folders: Some(folders.path().to_owned()), ..Stage::default() };
    let own = |number: u32| folders.path().join(format!("session-{number}"));
    runtime.unwrap().block_on(async {
        let first = pool(&stage, shelf.path(), Limits::default());
        said(&first, "a", &talk(1)[..1]).await;
        first.close(Duration::ZERO).await;
        drop(first);
        let pool = pool(&stage, shelf.path(), Limits::default());
        // It will not be revived: its record is of another conversation.
        stage.records.lock().unwrap().clear();
        let noted = shelf.path().join("session-1.json");
        assert!(noted.exists() && own(1).exists());
        // Whatever may block has to wait.
        let (free, taken) = std::sync::mpsc::sync_channel::<()>(1);
        let busy = tokio::task::spawn_blocking(move || taken.recv());
        assert_eq!(said(&pool, "a", &talk(1)).await, "again 1", "an answer does not wait for it");
        assert!(!noted.exists() && own(1).exists(), "it is not removed on this thread");
        let dying = pool.complete(turn("a", &[&talk(1)[..], &[assistant("again 1"), user("die")]].concat()));
        until("it is closed", || stage.log(|log| log.closed == [2])).await;
        assert!(own(2).exists(), "nor here");
        free.send(()).unwrap();
        assert!(busy.await.is_ok_and(|taken| taken.is_ok()));
        assert!(heard(dying).await.is_err());
        pool.close(Duration::ZERO).await;
        assert!(!own(1).exists() && !own(2).exists(), "a pool that is closed has left nothing");
    });
}
