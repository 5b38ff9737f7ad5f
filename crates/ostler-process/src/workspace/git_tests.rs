use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command as Program;

use super::super::tests::{workspace, write};
use super::*;

fn git(root: &Path, arguments: &[&str]) {
    let mut program = Program::new("git");
    program.args(["-c", "user.name=Somebody", "-c", "user.email=somebody@example.com"]);
    program.args(arguments).current_dir(root).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for name in ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"] {
        program.env_remove(name);
    }
    let done = program.output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn committed(root: &Path, message: &str) {
    git(root, &["add", "--all"]);
    git(root, &["commit", "--quiet", "--no-verify", "--message", message]);
}

#[tokio::test]
async fn figures_are_since_the_commit_at_the_start() {
    let (folder, workspace) = workspace(&[("a", "1\n2\n"), ("b", "1\n"), ("c", "1\n")]);
    let root = &workspace.root;
    assert!(standing(root).await.is_none(), "no repository");
    git(root, &["init", "--quiet"]);
    assert!(standing(root).await.is_none(), "no commit");
    committed(root, "one");
    write(root, "a", "1\n2\n3\n");
    let standing = standing(root).await.unwrap();
    write(root, "b", "1\n2\n3\n");
    committed(root, "two");
    fs::remove_file(root.join("c")).unwrap();
    write(root, "unknown to git", "1\n");
    let want = Diff {
        since: standing.commit.clone(),
        before: Some(DiffStat { files: 1, inserted: 1, deleted: 0 }),
        now: DiffStat { files: 3, inserted: 3, deleted: 1 },
    };
    assert_eq!(diff(root, &standing).await, Some(want));
    drop(folder);
}

#[tokio::test]
async fn a_folder_of_a_repository_has_its_own_figures() {
    let (_folder, workspace) = workspace(&[("sub/a", "1\n"), ("b", "1\n")]);
    git(&workspace.root, &["init", "--quiet"]);
    committed(&workspace.root, "one");
    let standing = standing(&workspace.root.join("sub")).await.unwrap();
    write(&workspace.root, "sub/a", "2\n");
    write(&workspace.root, "b", "2\n");
    let found = diff(&workspace.root.join("sub"), &standing).await.unwrap();
    assert_eq!(found.now, DiffStat { files: 1, inserted: 1, deleted: 1 });
}

#[tokio::test]
async fn nothing_runs_that_the_repository_names() {
    let (folder, workspace) = workspace(&[("a", "1\n"), ("b", "1\n")]);
    let root = &workspace.root;
    git(root, &["init", "--quiet"]);
    committed(root, "one");
    let standing = standing(root).await.unwrap();
    let traps = tempfile::tempdir().unwrap();
    let (trap, ran) = (traps.path().join("trap"), traps.path().join("ran"));
    fs::write(&trap, format!("#!/bin/sh\necho \"$@\" >> '{}'\ncat\n", ran.display())).unwrap();
    fs::set_permissions(&trap, fs::Permissions::from_mode(0o700)).unwrap();
    let trap = trap.to_str().unwrap();
    for key in [
        "core.fsmonitor",
        "core.pager",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.one.clean",
        "filter.evil.one.process",
        "filter.Other.clean",
        "core.sshCommand",
    ] {
        git(root, &["config", key, trap]);
    }
    git(root, &["config", "filter.Other.required", "true"]);
    write(root, ".git/info/attributes", "a diff=evil filter=evil.one\nb filter=Other\n");
    fs::create_dir_all(root.join(".git/hooks")).unwrap();
    fs::copy(trap, root.join(".git/hooks/post-index-change")).unwrap();
    write(root, "a", "1\n2\n");
    write(root, "b", "2\n");
    let found = diff(root, &standing).await.unwrap();
    assert_eq!(fs::read_to_string(&ran).unwrap_or_default(), "");
    assert_eq!(found.now, DiffStat { files: 2, inserted: 2, deleted: 1 });
    // The traps are traps.
    let mut program = Program::new("git");
    program.args(["diff", "--stat"]).current_dir(root).env("GIT_CONFIG_GLOBAL", "/dev/null");
    program.output().unwrap();
    assert_ne!(fs::read_to_string(&ran).unwrap_or_default(), "");
    drop(folder);
}

#[test]
fn what_git_says_is_read() {
    let stat = |files, inserted, deleted| Some(DiffStat { files, inserted, deleted });
    let table = [
        ("", stat(0, 0, 0)),
        (" 1 file changed, 1 insertion(+)\n", stat(1, 1, 0)),
        (" 3 files changed, 10 insertions(+), 2 deletions(-)\n", stat(3, 10, 2)),
        (" 2 files changed\n", stat(2, 0, 0)),
        (" 2 Dateien geändert\n", None),
        ("warning\n", None),
    ];
    for (said, want) in table {
        assert_eq!(shortstat(said), want, "{said}");
    }
}
