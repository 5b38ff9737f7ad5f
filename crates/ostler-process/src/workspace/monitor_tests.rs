use std::fs;

use super::super::tests::{DEADLINE, unreadable, workspace, write};
use super::*;

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.unwrap()
}

async fn looks(monitor: &Monitor, method: Method) {
    soon(async {
        while monitor.method() != method {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_change_is_told_however_deep_and_however_new_its_folder() {
    let (folder, workspace) = workspace(&[("a/b/c", "1")]);
    let mut monitor = Monitor::start(&workspace);
    looks(&monitor, Method::Watching).await;
    write(folder.path(), "a/b/c", "2");
    soon(monitor.changed()).await;
    write(folder.path(), "new/folder/file", "1");
    soon(monitor.changed()).await;
    // The new folder is watched a moment after it was told: then whatever is written there is told again.
    let append = async {
        loop {
            write(folder.path(), "new/folder/file", "22");
            tokio::task::yield_now().await;
        }
    };
    soon(async {
        tokio::select! { () = monitor.changed() => {}, () = append => {} }
    })
    .await;
}

#[tokio::test]
async fn a_wait_that_is_given_up_loses_nothing() {
    let (folder, workspace) = workspace(&[]);
    let mut monitor = Monitor::start(&workspace);
    looks(&monitor, Method::Watching).await;
    assert!(tokio::time::timeout(Duration::from_millis(1), monitor.changed()).await.is_err());
    for number in 0..100 {
        write(folder.path(), &number.to_string(), "1");
    }
    soon(monitor.changed()).await;
}

#[tokio::test]
async fn with_too_many_folders_it_samples() {
    let (folder, workspace) = workspace(&[("a/1", "1"), ("b/1", "1"), ("c/1", "1")]);
    let bounds = Bounds { watches: 2, sample_every: Duration::from_millis(5) };
    let mut monitor = Monitor::start_within(&workspace, bounds, Duration::ZERO);
    looks(&monitor, Method::Sampling).await;
    let mut number = 0;
    let change = async {
        loop {
            number += 1;
            write(folder.path(), "b/1", &"x".repeat(number));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    soon(async {
        tokio::select! { () = monitor.changed() => {}, () = change => {} }
    })
    .await;
}

#[tokio::test]
async fn it_goes_over_to_sampling_when_folders_become_too_many() {
    let (folder, workspace) = workspace(&[]);
    let bounds = Bounds { watches: 10, sample_every: Duration::from_millis(5) };
    let mut monitor = Monitor::start_within(&workspace, bounds, Duration::ZERO);
    looks(&monitor, Method::Watching).await;
    for number in 0..20 {
        fs::create_dir(folder.path().join(number.to_string())).unwrap();
    }
    soon(monitor.changed()).await;
    looks(&monitor, Method::Sampling).await;
}

#[tokio::test]
async fn looking_that_was_put_off_begins_late_or_never() {
    let (folder, workspace) = workspace(&[("a/b", "1")]);
    let mut monitor = Monitor::start_after(&workspace, Duration::from_millis(1));
    looks(&monitor, Method::Watching).await;
    write(folder.path(), "a/b", "2");
    soon(monitor.changed()).await;
    let mut monitor = Monitor::start_after(&workspace, Duration::from_secs(3600));
    assert_eq!(monitor.method(), Method::Starting);
    monitor.rest();
    looks(&monitor, Method::Blind).await;
}

#[tokio::test]
async fn without_a_folder_it_is_blind_and_silent() {
    let (_folder, mut workspace) = workspace(&[]);
    workspace.root.push("absent");
    let mut monitor = Monitor::start(&workspace);
    looks(&monitor, Method::Blind).await;
    assert!(tokio::time::timeout(Duration::from_millis(1), monitor.changed()).await.is_err());
}

#[tokio::test]
async fn it_ends_when_the_workspace_is_removed() {
    let (folder, workspace) = workspace(&[("a/b", "1")]);
    let monitor = Monitor::start(&workspace);
    looks(&monitor, Method::Watching).await;
    folder.close().unwrap();
    looks(&monitor, Method::Blind).await;
}

/// Watches that are read by hand: the kernel has them in its queue when the call that caused them returns.
struct Hand {
    ground: Ground,
    watched: Watched,
}

impl Hand {
    fn on(workspace: &Workspace) -> Self {
        let ground = Ground::of(workspace).unwrap();
        let watched = Watched::set(&ground, &Leash::default(), BOUNDS.watches).unwrap();
        Self { ground, watched }
    }

    /// Whether something changed; what came is watched from now on, none means that all is set anew.
    fn read(&mut self) -> (bool, Option<usize>) {
        let news = self.watched.read(&self.ground).unwrap();
        let Arrivals::Folders(came) = news.arrivals else { return (news.is_change, None) };
        let count = came.len();
        for folder in came {
            self.watched.add(&self.ground, folder, &Leash::default()).unwrap();
        }
        (news.is_change, Some(count))
    }
}

#[test]
fn what_is_not_looked_at_is_not_told() {
    let (folder, mut workspace) =
        workspace(&[(".gitignore", "*.log\nbuild/\n"), ("src/a", "1"), (".git/HEAD", "1")]);
    workspace.own.push(folder.path().join("state"));
    fs::create_dir(folder.path().join("state")).unwrap();
    let mut hand = Hand::on(&workspace);
    for path in
        ["a.log", "src/b.log", "build/x", "node_modules/x", "src/target/x", ".ostler/x", ".git/x", "state/x"]
    {
        write(folder.path(), path, "1");
        assert_eq!(hand.read(), (false, Some(0)), "{path}");
    }
    for path in ["b", "src/a", "src/b"] {
        write(folder.path(), path, "1");
        assert_eq!(hand.read(), (true, Some(0)), "{path}");
    }
    write(folder.path(), ".gitignore", "");
    assert_eq!(hand.read(), (true, None), "new rules");
}

#[test]
fn a_folder_that_is_moved_out_is_not_watched_any_more() {
    let (folder, workspace) = workspace(&[("a/b/c", "1")]);
    let elsewhere = tempfile::tempdir().unwrap();
    let mut hand = Hand::on(&workspace);
    assert_eq!(hand.watched.folders.len(), 3);
    fs::rename(folder.path().join("a"), folder.path().join("z")).unwrap();
    assert_eq!(hand.read(), (true, Some(1)));
    write(folder.path(), "z/b/c", "2");
    assert_eq!(hand.read(), (true, Some(0)), "within, it is still watched");
    fs::rename(folder.path().join("z"), elsewhere.path().join("z")).unwrap();
    assert_eq!(hand.read(), (true, Some(0)));
    assert_eq!(hand.watched.folders.len(), 1);
    write(elsewhere.path(), "z/b/c", "3");
    assert_eq!(hand.read(), (false, Some(0)));
}

#[test]
fn folders_that_come_and_go_leave_no_watch() {
    let (folder, workspace) = workspace(&[]);
    let mut hand = Hand::on(&workspace);
    for round in 0..3 {
        for number in 0..100 {
            write(folder.path(), &format!("{number}/deep/file"), "1");
        }
        assert_eq!(hand.read(), (true, Some(100)));
        assert_eq!(hand.watched.folders.len(), 201, "{round}");
        for number in 0..100 {
            fs::remove_dir_all(folder.path().join(number.to_string())).unwrap();
        }
        assert_eq!(hand.read(), (true, Some(0)));
        assert_eq!(hand.watched.folders.len(), 1, "{round}");
    }
}

/// One more than the kernel keeps.
fn more_than_is_queued() -> usize {
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    limit.trim().parse::<usize>().unwrap() + 1
}

#[test]
fn what_the_kernel_loses_is_a_change_and_all_is_set_anew() {
    let (folder, workspace) = workspace(&[("one", ""), ("two", "")]);
    let mut hand = Hand::on(&workspace);
    // Two in turn: the kernel counts the same thing twice in a row only once.
    for number in 0..more_than_is_queued() {
        let (from, to) = if number % 2 == 0 { ("one", "1") } else { ("1", "one") };
        fs::rename(folder.path().join(from), folder.path().join(to)).unwrap();
    }
    assert_eq!(hand.read(), (true, None));
}

#[test]
fn unreadable_folders_and_loops_hold_nobody() {
    let (folder, workspace) = workspace(&[("file", "1")]);
    unreadable(folder.path());
    std::os::unix::fs::symlink("..", folder.path().join("loop")).unwrap();
    let mut hand = Hand::on(&workspace);
    write(folder.path(), "file", "2");
    assert!(hand.read().0);
}

#[test]
fn the_sum_is_of_all_files_in_any_order() {
    let (folder, workspace) = workspace(&[("a/1", "1"), ("b/2", "1")]);
    let ground = Ground::of(&workspace).unwrap();
    let before = sum(&ground, &Leash::default());
    assert_eq!(sum(&ground, &Leash::default()), before);
    write(folder.path(), "a/1", "12");
    assert_ne!(sum(&ground, &Leash::default()), before);
}
