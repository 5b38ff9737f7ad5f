use std::fs;

use super::super::tests::{pipe, workspace};
use super::*;

/// Whether each path is ignored, by the rules of the folder it is in.
fn ignored(root: &Path, path: &str) -> bool {
    let path = root.join(path);
    let mut folders: Vec<&Path> =
        path.ancestors().skip(1).take_while(|folder| folder.starts_with(root)).collect();
    folders.reverse();
    let rules = folders.iter().fold(Rules::above(root), |above, folder| Rules::inside(folder, above));
    rules.is_some_and(|rules| rules.ignores(&path, path.is_dir()))
}

#[test]
fn the_nearest_rule_decides() {
    let (folder, workspace) = workspace(&[
        (".git/info/exclude", "mine.txt\n"),
        (".gitignore", "*.log\n/build/\n# words\n[\n"),
        ("deep/.gitignore", "!kept.log\nnotes\n"),
        ("build/x", ""),
    ]);
    let table = [
        ("a.log", true),
        ("deep/a.log", true),
        ("deep/kept.log", false),
        ("kept.log", true),
        ("deep/notes", true),
        ("notes", false),
        ("build", true),
        ("mine.txt", true),
        ("src/main.rs", false),
    ];
    for (path, want) in table {
        assert_eq!(ignored(&workspace.root, path), want, "{path}");
    }
    drop(folder);
}

#[test]
fn rules_above_the_workspace_count_up_to_the_repository() {
    let (_folder, workspace) =
        workspace(&[("repo/.git/HEAD", ""), ("repo/.gitignore", "*.tmp\n/sub/out\n"), (".gitignore", "*\n")]);
    let root = workspace.root.join("repo/sub");
    fs::create_dir(&root).unwrap();
    assert!(ignored(&root, "a.tmp") && ignored(&root, "out"));
    assert!(!ignored(&root, "a.rs"));
}

#[test]
fn what_is_no_file_holds_nobody() {
    let (_folder, workspace) = workspace(&[("real", "*\n")]);
    pipe(&workspace.root.join(RULES_FILE));
    assert!(!ignored(&workspace.root, "a"));
    fs::remove_file(workspace.root.join(RULES_FILE)).unwrap();
    std::os::unix::fs::symlink("real", workspace.root.join(RULES_FILE)).unwrap();
    assert!(!ignored(&workspace.root, "a"));
}
