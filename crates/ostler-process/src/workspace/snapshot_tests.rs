use std::os::unix::fs::symlink;

use super::super::tests::{DEADLINE, pipe, unreadable, workspace, write};
use super::*;

async fn taken(workspace: &Workspace) -> Snapshot {
    Snapshot::take_within(workspace, DEADLINE).await
}

async fn changes(before: &Snapshot) -> Changes {
    before.changes_within(DEADLINE).await
}

fn paths(first: &[&str]) -> Paths {
    Paths { first: first.iter().map(PathBuf::from).collect(), more: 0 }
}

#[tokio::test]
async fn what_was_created_changed_and_removed_is_told() {
    let (folder, mut workspace) = workspace(&[
        ("same", "1"),
        ("longer", "1"),
        ("gone", "1"),
        ("src/gone.rs", "1"),
        ("becomes_a_folder", "1"),
        (".gitignore", "*.log\n"),
    ]);
    workspace.own.push(folder.path().join("state"));
    let before = taken(&workspace).await;
    let write = |path, text| write(folder.path(), path, text);
    for path in ["new", "deep/down/new", "a.log", "deep/b.log"] {
        write(path, "2");
    }
    for unseen in [".git/x", "node_modules/x", "deep/target/x", ".ostler/x", "state/runs/x"] {
        write(unseen, "2");
    }
    write("longer", "12");
    fs::remove_file(folder.path().join("gone")).unwrap();
    fs::remove_dir_all(folder.path().join("src")).unwrap();
    fs::remove_file(folder.path().join("becomes_a_folder")).unwrap();
    write("becomes_a_folder/x", "3");
    let want = Changes {
        created: paths(&["becomes_a_folder/x", "deep/down/new", "new"]),
        changed: paths(&["longer"]),
        removed: paths(&["becomes_a_folder", "gone", "src/gone.rs"]),
        extent: Extent::Whole,
        diff: None,
    };
    assert_eq!(changes(&before).await, want);
    assert_eq!(changes(&before).await, want, "asking changes nothing");
}

/// The agent is started while the look is under way.
#[tokio::test]
async fn what_changes_before_it_is_looked_at_is_told() {
    let (folder, workspace) = workspace(&[("old", "1"), ("same", "1")]);
    let look = Snapshot::take_within(&workspace, DEADLINE);
    // A whole tick of the file system's clock, which is no process's to wait for.
    let began = SystemTime::now();
    while began.elapsed().unwrap_or_default() < CLOCK_SLACK / 50 {
        std::thread::yield_now();
    }
    write(folder.path(), "old", "22");
    write(folder.path(), "new", "2");
    let before = look.await;
    let found = changes(&before).await;
    assert_eq!((found.created, found.changed, found.removed), (paths(&["new"]), paths(&["old"]), paths(&[])));
    assert_eq!(found.extent, Extent::Whole);
}

#[tokio::test]
async fn five_thousand_files_are_counted_and_the_first_are_named() {
    let (folder, workspace) = workspace(&[]);
    let before = taken(&workspace).await;
    for folder_number in 0..50 {
        let below = folder.path().join(format!("{folder_number:02}"));
        fs::create_dir(&below).unwrap();
        (0..100).for_each(|number| fs::write(below.join(format!("{number:02}")), "").unwrap());
    }
    let found = changes(&before).await;
    assert_eq!((found.created.count(), found.created.first.len()), (5_000, MOST_TOLD));
    assert_eq!(found.created.first[..2], [PathBuf::from("00/00"), PathBuf::from("00/01")]);
    assert_eq!(found.extent, Extent::Whole);
}

#[tokio::test]
async fn links_are_not_followed_and_special_files_not_opened() {
    let (folder, workspace) = workspace(&[("a/file", "1")]);
    symlink(".", folder.path().join("a/loop")).unwrap();
    symlink("/", folder.path().join("everything")).unwrap();
    pipe(&folder.path().join("pipe"));
    let before = taken(&workspace).await;
    assert_eq!(before.0.files.stamps.len(), 4);
    fs::remove_file(folder.path().join("a/loop")).unwrap();
    symlink("..", folder.path().join("a/loop")).unwrap();
    pipe(&folder.path().join("pipe 2"));
    let found = changes(&before).await;
    assert_eq!((found.created, found.changed), (paths(&["pipe 2"]), paths(&["a/loop"])));
}

#[tokio::test]
async fn a_folder_that_cannot_be_read_makes_it_partial() {
    let (folder, workspace) = workspace(&[("file", "1")]);
    unreadable(folder.path());
    let before = taken(&workspace).await;
    assert_eq!(before.extent(), Extent::Partial);
    write(folder.path(), "new", "1");
    let found = changes(&before).await;
    assert_eq!((found.created, found.extent), (paths(&["new"]), Extent::Partial));
}

#[tokio::test]
async fn a_workspace_that_is_not_there_has_nothing() {
    let (folder, mut workspace) = workspace(&[]);
    workspace.root.push("absent");
    let before = taken(&workspace).await;
    let found = changes(&before).await;
    assert_eq!((before.extent(), found.created.count(), found.extent), (Extent::Partial, 0, Extent::Partial));
    drop(folder);
}

/// As if it had been taken in an hour: what is there now is old.
async fn taken_later(workspace: &Workspace, leash: &Leash) -> Taken {
    let began = SystemTime::now() + Duration::from_secs(3600);
    Taken { workspace: workspace.clone(), files: look(workspace, began, leash), began, standing: None }
}

#[tokio::test]
async fn other_rules_are_no_change_of_files() {
    let (folder, workspace) = workspace(&[(".gitignore", "ignored\n"), ("ignored", "1"), ("seen", "1")]);
    let before = taken_later(&workspace, &Leash::default()).await;
    write(folder.path(), ".gitignore", "seen\nmore\n");
    let found = compare(&before, &Leash::default());
    assert_eq!((found.created, found.removed), (vec![], vec![]));
    assert_eq!(found.changed, [PathBuf::from(".gitignore")]);
}

#[tokio::test]
async fn what_was_not_reached_in_time_is_not_new() {
    let (folder, workspace) = workspace(&[("old", "1"), ("old 2", "1")]);
    let before = taken_later(&workspace, &Leash::for_at_most(Duration::ZERO)).await;
    assert_eq!((before.files.stamps.len(), before.files.extent), (0, Extent::Partial));
    assert!(compare(&before, &Leash::default()).created.is_empty());
    let before = Taken { began: SystemTime::now(), ..before };
    write(folder.path(), "new", "1");
    let found = compare(&before, &Leash::default());
    assert!(found.created.contains(&PathBuf::from("new")), "{found:?}");
    assert_eq!(found.extent, Extent::Partial);
}

#[tokio::test]
async fn what_is_not_reached_at_the_end_is_not_gone() {
    let (_folder, workspace) = workspace(&[("a", "1"), ("b", "1")]);
    let before = taken_later(&workspace, &Leash::default()).await;
    let found = compare(&before, &Leash::for_at_most(Duration::ZERO));
    assert_eq!((found.removed, found.extent), (vec![], Extent::Partial));
}
