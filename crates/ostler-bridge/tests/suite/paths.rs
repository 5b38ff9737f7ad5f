//! Paths that lead out of the workspace, or to what is no file: refused in words, and told to the run.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ostler_bridge::event::{Barred, BridgeEvent, Touched};
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use serde_json::{Value, json};

use super::ground::{Events, Ground, Guest, RUN};

/// A workspace with a secret beside it, and every way to it.
fn traps(ground: &Ground) {
    let workspace = ground.workspace();
    std::fs::write(ground.folder.path().join("secret"), "secret\n").unwrap();
    ground.put("src/a.txt", "word\n");
    for (link, target) in [
        ("to-file", ground.folder.path().join("secret")),
        ("to-folder", ground.folder.path().to_owned()),
        ("up", "..".into()),
        ("src/up", "../../secret".into()),
        ("self-environ", "/proc/self/environ".into()),
        ("root", "/".into()),
        ("circle", "circle".into()),
        ("inside", "src".into()),
        ("absolute-inside", workspace.join("src")),
    ] {
        symlink(target, workspace.join(link)).unwrap();
    }
    mknodat(CWD, workspace.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    std::os::unix::net::UnixListener::bind(workspace.join("socket")).unwrap();
}

/// What a call was answered, and what the run was told of it.
async fn barred(
    guest: &Guest,
    events: &mut Events,
    tool: &str,
    arguments: Value,
) -> (String, Option<Barred>) {
    let said = guest.says(tool, arguments).await;
    let told = events.all().into_iter().find_map(|event| match event {
        BridgeEvent::Touched(Touched::Barred { tool: by, why, .. }) => {
            assert_eq!(by, tool);
            Some(why)
        }
        _ => None,
    });
    (said, told)
}

#[tokio::test]
async fn no_path_leads_out_of_the_workspace() {
    let ground = Ground::new().await;
    traps(&ground);
    let (_route, mut events, guest) = ground.works(RUN, "files:rw,exec");
    let absolute = "is absolute. Give the path from the top of the workspace: `src/main.rs`.";
    let parent = "goes up by `..`. Give the path from the top of the workspace, without `..`.";
    let outside = "leads out of the workspace. Only what is in the workspace can be reached here.";
    let table = [
        ("/etc/passwd", Barred::Absolute, absolute),
        ("/proc/self/environ", Barred::Absolute, absolute),
        ("//proc/self/environ", Barred::Absolute, absolute),
        ("../secret", Barred::Parent, parent),
        ("src/../../secret", Barred::Parent, parent),
        ("src/..", Barred::Parent, parent),
        ("to-file", Barred::Outside, outside),
        ("to-folder/secret", Barred::Outside, outside),
        ("up/secret", Barred::Outside, outside),
        ("src/up", Barred::Outside, outside),
        ("self-environ", Barred::Outside, outside),
        ("root/proc/self/environ", Barred::Outside, outside),
        ("absolute-inside/a.txt", Barred::Outside, outside),
        (
            "circle",
            Barred::Link,
            "leads through a link that is not followed. Name the file itself, where the link leads.",
        ),
        ("pipe", Barred::Special, "is neither a file nor a folder. Only files can be read and written here."),
        ("socket", Barred::Special, "is neither a file nor a folder."),
    ];
    for (path, why, words) in table {
        let read = barred(&guest, &mut events, "read_file", json!({ "path": path })).await;
        assert_eq!(read.1, Some(why), "{path}: {}", read.0);
        assert!(read.0.starts_with(&format!("failed: `{path}` {words}")), "{}", read.0);
        assert!(!read.0.contains("secret\n"), "{}", read.0);
        let edit = json!({ "path": path, "old": "secret", "new": "open" });
        assert_eq!(barred(&guest, &mut events, "edit_file", edit).await.1, Some(why), "{path}");
        for (tool, arguments) in [
            ("write_file", json!({ "path": path, "content": "x" })),
            ("list_files", json!({ "path": path })),
            ("search_files", json!({ "path": path, "pattern": "." })),
            ("exec", json!({ "cwd": path, "command": "pwd" })),
        ] {
            let (said, _) = barred(&guest, &mut events, tool, arguments).await;
            assert!(said.starts_with("failed: "), "{tool} {path}: {said}");
        }
    }
    assert_eq!(std::fs::read_to_string(ground.folder.path().join("secret")).unwrap(), "secret\n");
    // A link that stays inside is as good as where it leads, for a reader.
    assert_eq!(guest.says("read_file", json!({ "path": "inside/a.txt" })).await, "ok: word\n");
    let meant = guest.says("read_file", json!({ "path": ground.workspace().join("src/a.txt") })).await;
    assert!(meant.ends_with(" Did you mean `src/a.txt`?"), "{meant}");
}

#[tokio::test]
async fn walks_follow_no_link_and_open_no_pipe() {
    let ground = Ground::new().await;
    traps(&ground);
    let (_route, _events, guest) = ground.works(RUN, "files:ro");
    let found = guest.says("search_files", json!({ "pattern": "secret|word" })).await;
    assert_eq!(found, "ok: src/a.txt:1: word\n");
    let list = guest.says("list_files", json!({ "depth": 99 })).await;
    assert!(list.contains("pipe (neither a file nor a folder)\n"), "{list}");
    assert!(list.contains("self-environ -> /proc/self/environ\n"), "{list}");
    assert!(!list.contains("to-folder/"), "{list}");
}

#[tokio::test]
async fn nothing_is_written_through_links_or_into_git() {
    let ground = Ground::new().await;
    traps(&ground);
    ground.put(".git/config", "[core]\n");
    ground.put("sub/.git/config", "[core]\n");
    symlink(".git/hooks", ground.workspace().join("hooks")).unwrap();
    let (_route, mut events, guest) = ground.works(RUN, "files:rw");
    let table = [
        ("inside/b.txt", Barred::Link),
        ("inside", Barred::Link),
        ("hooks/pre-commit", Barred::Link),
        ("pipe", Barred::Special),
        ("socket", Barred::Special),
        (".git/hooks/pre-commit", Barred::Repository),
        (".git/config", Barred::Repository),
        (".GIT/config", Barred::Repository),
        ("./.git/../.git/config", Barred::Parent),
        ("sub/.git/config", Barred::Repository),
        (".git", Barred::Repository),
        ("new/.git", Barred::Repository),
    ];
    for (path, why) in table {
        let write = json!({ "path": path, "content": "x" });
        let (said, told) = barred(&guest, &mut events, "write_file", write).await;
        assert_eq!(told, Some(why), "{path}: {said}");
    }
    let edit = json!({ "path": ".git/config", "old": "[core]", "new": "[core]\n\tpager = evil" });
    let (said, told) = barred(&guest, &mut events, "edit_file", edit).await;
    assert_eq!(told, Some(Barred::Repository));
    assert_eq!(said, "failed: `.git/config` belongs to git itself. Nothing is written there by this tool.");
    assert_eq!(std::fs::read_to_string(ground.workspace().join(".git/config")).unwrap(), "[core]\n");
    assert!(!ground.workspace().join(".git/hooks").exists() && !ground.workspace().join("new").exists());
    // To read it is no harm.
    assert_eq!(guest.says("read_file", json!({ "path": ".git/config" })).await, "ok: [core]\n");
}

/// Swaps two names for each other as fast as it can, until it is dropped.
struct Swapping {
    stop: Arc<AtomicBool>,
    times: Arc<AtomicUsize>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Swapping {
    fn begin(one: std::path::PathBuf, other: std::path::PathBuf) -> Self {
        let (stop, times) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&times));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { stop, times, thread: Some(thread) }
    }

    fn times(&self) -> usize {
        self.times.load(Ordering::Relaxed)
    }
}

impl Drop for Swapping {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

#[tokio::test]
async fn a_folder_that_becomes_a_link_in_the_meantime_leads_nowhere() {
    let ground = Ground::new().await;
    let outside = ground.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "outside\n").unwrap();
    ground.put("swap/file", "inside\n");
    symlink(&outside, ground.workspace().join("other")).unwrap();
    let (_route, mut events, guest) = ground.works(RUN, "files:rw");
    let swapping = Swapping::begin(ground.workspace().join("swap"), ground.workspace().join("other"));
    let (mut reached, mut refused) = (0, 0);
    // Until both have been seen, and often enough that a gap would be.
    while reached < 20 || refused < 20 || swapping.times() < 1000 {
        for (tool, arguments) in [
            ("read_file", json!({ "path": "swap/file" })),
            ("search_files", json!({ "pattern": "side", "path": "swap" })),
            ("list_files", json!({ "path": "swap" })),
            ("write_file", json!({ "path": "swap/new", "content": "x" })),
            ("edit_file", json!({ "path": "swap/file", "old": "inside", "new": "inside" })),
        ] {
            let said = guest.says(tool, arguments).await;
            assert!(!said.contains("outside\n"), "{tool}: {said}");
            if said.starts_with("ok: ") {
                reached += 1;
            } else {
                refused += 1;
            }
            events.all();
        }
    }
    drop(swapping);
    let left: Vec<_> = std::fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["file"]);
    assert_eq!(std::fs::read_to_string(outside.join("file")).unwrap(), "outside\n");
}
