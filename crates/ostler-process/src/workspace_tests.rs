use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::*;
use crate::tail::{Lines, Place, Tail};

/// Longer than anything here takes, on a machine that does much else.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// A workspace with these files; the folder it is in is gone with the first value.
pub(super) fn workspace(files: &[(&str, &str)]) -> (TempDir, Workspace) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        write(folder.path(), path, text);
    }
    let workspace = Workspace { root: folder.path().to_owned(), own: Vec::new() };
    (folder, workspace)
}

pub(super) fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub(super) fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Folders one in the other, until the path of the last is longer than the system takes: nobody can read it by its
/// path, not even root.
pub(super) fn unreadable(root: &Path) {
    let name = "d".repeat(250);
    let mut folder = fs::File::open(root).unwrap();
    for _ in 0..18 {
        rustix::fs::mkdirat(&folder, &name, Mode::RWXU).unwrap();
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        folder = fs::File::from(rustix::fs::openat(&folder, &name, flags, Mode::empty()).unwrap());
    }
}

#[tokio::test]
async fn what_takes_too_long_is_not_waited_for() {
    let began = Instant::now();
    let (held, hold) = std::sync::mpsc::sync_channel::<()>(0);
    let found = aside(Duration::from_millis(10), move |_| hold.recv().is_err()).await;
    assert_eq!(found, None);
    assert!(began.elapsed() < DEADLINE);
    drop(held);
}

#[tokio::test]
async fn whoever_looks_is_told_when_nobody_waits_any_more() {
    let (told, is_told) = std::sync::mpsc::sync_channel(1);
    let look = aside(DEADLINE, move |leash| {
        while !leash.is_pulled() {
            std::thread::yield_now();
        }
        told.send(()).unwrap();
    });
    assert!(tokio::time::timeout(Duration::from_millis(10), look).await.is_err());
    is_told.recv_timeout(DEADLINE / 2).unwrap();
}

fn entries(folder: &str) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// In a process of its own: other tests have threads and descriptors too.
#[test]
fn nothing_is_left_when_all_is_dropped() {
    const ALONE: &str = "OSTLER_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let path = "workspace::tests::nothing_is_left_when_all_is_dropped";
        let mut test = Command::new(std::env::current_exe().unwrap());
        let done = test.args(["--exact", path, "--test-threads=1"]).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (folder, workspace) = workspace(&[("a/b/c", "x"), ("d", "y")]);
    let round = || {
        runtime.block_on(async {
            let before = Snapshot::take(&workspace).await;
            let mut monitor = Monitor::start(&workspace);
            let mut tail = Tail::new([
                Place::File(folder.path().join("later/t.jsonl")),
                Place::Below { folder: folder.path().to_owned(), name: "*".to_owned() },
            ]);
            write(folder.path(), "later/t.jsonl", "1\n");
            tokio::time::timeout(DEADLINE, tail.grew()).await.unwrap();
            let _ = Lines::at(folder.path().join("later/t.jsonl"), 0).read(|_| {}).unwrap();
            let _ = tokio::time::timeout(Duration::from_millis(1), monitor.changed()).await;
            before.changes().await;
            fs::remove_dir_all(folder.path().join("later")).unwrap();
        });
    };
    let count = || (entries("/proc/self/fd"), entries("/proc/self/task"));
    // What the runtime opens once is not ours.
    round();
    let deadline = Instant::now() + DEADLINE;
    let before = count();
    for _ in 0..10 {
        round();
    }
    // A thread that has handed over its answer needs a moment to end.
    while count() != before && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(count(), before);
}
