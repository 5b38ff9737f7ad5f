use std::io::Write as _;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// Longer than anything here takes, and shorter than [`LOOK_ANYWAY`]: the kernel must have told.
const DEADLINE: Duration = Duration::from_secs(20);

/// A folder, and what is done in it.
struct Scene(TempDir);

impl Scene {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn append(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn file(&self, path: &str) -> Place {
        Place::File(self.path(path))
    }

    fn below(&self, folder: &str, name: &str) -> Place {
        Place::Below { folder: self.path(folder), name: name.to_owned() }
    }

    /// Exactly these grow, next.
    async fn grow(&self, tail: &mut Tail, paths: &[&str]) {
        let mut grown = tokio::time::timeout(DEADLINE, tail.grew()).await.unwrap();
        grown.sort();
        let want: Vec<PathBuf> = paths.iter().map(|path| self.path(path)).collect();
        assert_eq!(grown, want);
    }
}

/// None grows, as far as the kernel has told by now.
fn assert_still(tail: &mut Tail) {
    assert_eq!(tail.read_watches(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn only_growth_is_told_and_only_of_what_is_followed() {
    let scene = Scene::new();
    scene.append("a.jsonl", "old\n");
    let mut tail = Tail::new([scene.file("a.jsonl"), scene.file("b.jsonl")]);
    assert_eq!(tail.files().collect::<Vec<_>>(), [(scene.path("a.jsonl").as_path(), 4)]);
    scene.append("other.jsonl", "1\n");
    scene.append("b.jsonl", "");
    fs::create_dir(scene.path("folder")).unwrap();
    scene.append("a.jsonl", "new\n");
    scene.grow(&mut tail, &["a.jsonl"]).await;
    fs::write(scene.path("a.jsonl"), "").unwrap();
    scene.append("b.jsonl", "1\n");
    scene.grow(&mut tail, &["b.jsonl"]).await;
    scene.append("a.jsonl", "1\n");
    scene.append("b.jsonl", "1\n");
    scene.grow(&mut tail, &["a.jsonl", "b.jsonl"]).await;
    assert_still(&mut tail);
}

#[tokio::test]
async fn watches_that_begin_late_miss_nothing_and_can_rest() {
    let scene = Scene::new();
    scene.append("a.jsonl", "old\n");
    let mut tail = Tail::late([scene.file("a.jsonl")], Duration::from_millis(1));
    assert!(tail.watches.is_none(), "they have not begun");
    scene.append("a.jsonl", "new\n");
    scene.grow(&mut tail, &["a.jsonl"]).await;
    assert!(tail.watches.is_some(), "they have begun");
    scene.append("a.jsonl", "1\n");
    scene.grow(&mut tail, &["a.jsonl"]).await;
    tail.rest();
    assert!(tail.watches.is_none(), "they rest");
    assert_eq!(tail.files().collect::<Vec<_>>(), [(scene.path("a.jsonl").as_path(), 10)]);
}

/// A step of the same story, with watches and without.
type Step = (&'static str, fn(&Scene), &'static [&'static str]);

const STORY: [Step; 8] = [
    ("folders and file appear", |scene| scene.append("p/q/a.jsonl", "1\n"), &["p/q/a.jsonl"]),
    ("it grows", |scene| scene.append("p/q/a.jsonl", "2\n"), &["p/q/a.jsonl"]),
    (
        "a day's folder appears",
        |scene| scene.append("s/2026/01/31/r-1-id.x", "1\n"),
        &["s/2026/01/31/r-1-id.x"],
    ),
    ("another day's", |scene| scene.append("s/2026/02/01/r-2-id.x", "1\n"), &["s/2026/02/01/r-2-id.x"]),
    (
        "the file is removed and made again",
        |scene| {
            fs::remove_file(scene.path("p/q/a.jsonl")).unwrap();
            scene.append("p/q/a.jsonl", "1\n2\n3\n");
        },
        &["p/q/a.jsonl"],
    ),
    (
        "it is replaced",
        |scene| {
            scene.append("p/q/new", "1\n2\n");
            fs::rename(scene.path("p/q/new"), scene.path("p/q/a.jsonl")).unwrap();
        },
        &["p/q/a.jsonl"],
    ),
    (
        "its folder is replaced",
        |scene| {
            fs::rename(scene.path("p/q"), scene.path("p/old")).unwrap();
            scene.append("p/q/a.jsonl", "1\n2\n3\n4\n");
        },
        &["p/q/a.jsonl"],
    ),
    (
        "all folders are removed and made again",
        |scene| {
            fs::remove_dir_all(scene.path("p")).unwrap();
            scene.append("p/q/a.jsonl", "1\n");
        },
        &["p/q/a.jsonl"],
    ),
];

async fn play(tail: &mut Tail, scene: &Scene) {
    for (name, act, want) in STORY {
        act(scene);
        let mut grown = tokio::time::timeout(DEADLINE, tail.grew()).await.expect(name);
        grown.sort();
        assert_eq!(grown, want.iter().map(|path| scene.path(path)).collect::<Vec<_>>(), "{name}");
    }
}

#[tokio::test]
async fn files_and_folders_come_go_and_are_replaced() {
    let scene = Scene::new();
    let mut tail = Tail::new([scene.file("p/q/a.jsonl"), scene.below("s", "r-*-id.x")]);
    play(&mut tail, &scene).await;
    assert!(tail.watches.is_some());
}

#[tokio::test]
async fn without_watches_the_same_is_told() {
    let scene = Scene::new();
    let mut tail = Tail::new([scene.file("p/q/a.jsonl"), scene.below("s", "r-*-id.x")]);
    tail.watches = None;
    tail.look_at = Instant::now();
    play(&mut tail, &scene).await;
}

#[tokio::test]
async fn a_place_can_be_added_and_costs_no_growth_of_another() {
    let scene = Scene::new();
    scene.append("a", "1");
    scene.append("s/agent-1.x", "1");
    let mut tail = Tail::new([scene.file("a")]);
    scene.append("a", "2");
    tail.follow(scene.below("s", "agent-*.x"));
    scene.grow(&mut tail, &["a"]).await;
    scene.append("s/agent-2.x", "1");
    scene.append("s/agent-1.x", "1");
    scene.append("s/bgent-1.x", "1");
    scene.grow(&mut tail, &["s/agent-1.x", "s/agent-2.x"]).await;
}

#[tokio::test]
async fn links_above_a_file_are_followed_and_loops_below_a_place_are_not() {
    let scene = Scene::new();
    fs::create_dir_all(scene.path("real/sub")).unwrap();
    let mut tail = Tail::new([scene.file("link/a"), scene.below("real", "b")]);
    symlink(scene.path("real"), scene.path("link")).unwrap();
    symlink("..", scene.path("real/sub/loop")).unwrap();
    scene.append("real/a", "1");
    scene.grow(&mut tail, &["link/a"]).await;
    scene.append("real/sub/b", "1");
    scene.grow(&mut tail, &["real/sub/b"]).await;
    assert_eq!(tail.files().count(), 2);
}

#[tokio::test]
async fn a_wait_that_is_given_up_loses_nothing() {
    let scene = Scene::new();
    scene.append("a", "1");
    let mut tail = Tail::new([scene.file("a")]);
    for _ in 0..20 {
        assert!(tokio::time::timeout(Duration::from_millis(1), tail.grew()).await.is_err());
        scene.append("a", "1");
        scene.grow(&mut tail, &["a"]).await;
    }
}

#[tokio::test]
async fn what_is_not_needed_is_not_watched() {
    let scene = Scene::new();
    let mut tail = Tail::new([scene.file("p/q/a")]);
    assert_eq!(tail.folders.values().flatten().collect::<Vec<_>>(), [scene.0.path()]);
    scene.append("p/q/a", "1");
    scene.grow(&mut tail, &["p/q/a"]).await;
    assert_eq!(tail.folders.values().flatten().collect::<Vec<_>>(), [&scene.path("p/q")]);
    for number in 0..1000 {
        scene.append(&format!("noise-{number}"), "1");
    }
    assert_still(&mut tail);
}

#[tokio::test]
async fn what_the_kernel_loses_is_found_by_looking() {
    let scene = Scene::new();
    scene.append("noise", "1");
    let mut tail = Tail::new([scene.file("a")]);
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    for number in 0..=limit.trim().parse().unwrap() {
        let (from, to) = if number % 2 == 0 { ("noise", "silence") } else { ("silence", "noise") };
        fs::rename(scene.path(from), scene.path(to)).unwrap();
    }
    scene.append("a", "1");
    scene.grow(&mut tail, &["a"]).await;
}

#[tokio::test]
async fn many_old_folders_leave_the_newest_in_sight() {
    let scene = Scene::new();
    for number in 0..MOST_FOLDERS + 100 {
        fs::create_dir_all(scene.path(&format!("s/{number:05}"))).unwrap();
    }
    let mut tail = Tail::new([scene.below("s", "r-*")]);
    let newest = format!("s/{:05}/r-1", MOST_FOLDERS + 99);
    scene.append(&newest, "1");
    scene.grow(&mut tail, &[&newest]).await;
    assert!(tail.folders.len() <= MOST_FOLDERS);
}

/// Time that this thread has spent on a core.
fn time_spent() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split_whitespace().next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn to_wait_costs_nothing() {
    let scene = Scene::new();
    scene.append("s/a", "1");
    let mut tail = Tail::new([scene.below("s", "a"), scene.file("absent/b")]);
    let before = time_spent();
    assert!(tokio::time::timeout(Duration::from_millis(300), tail.grew()).await.is_err());
    let spent = time_spent() - before;
    assert!(spent < Duration::from_millis(30), "{spent:?}");
}
