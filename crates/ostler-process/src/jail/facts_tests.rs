use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use ostler_agent::jail::{GitFacts, NestedRepository, Repository, Wanted};
use tempfile::TempDir;

use super::{DEEPEST, could, create_directories, git_facts};

fn git(directory: &Path, args: &[&str]) {
    let mut program = Program::new("git");
    program.current_dir(directory).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    program.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    let who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"];
    let output = program.args(who).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A directory without links in its path.
fn yard() -> (TempDir, PathBuf) {
    let yard = tempfile::tempdir().unwrap();
    let path = yard.path().canonicalize().unwrap();
    (yard, path)
}

fn init(path: &Path) {
    fs::create_dir_all(path).unwrap();
    git(path, &["init", "-q"]);
    git(path, &["commit", "-q", "--allow-empty", "-m", "x"]);
}

fn repository(workspace: &Path) -> Option<Repository> {
    git_facts(workspace).repository
}

#[test]
fn a_repository_is_found_from_its_root_and_from_below() {
    let (_yard, path) = yard();
    init(&path.join("r"));
    fs::create_dir_all(path.join("r/a/b")).unwrap();
    for workspace in ["r", "r/a/b"] {
        let found = repository(&path.join(workspace)).unwrap();
        assert_eq!(found.root, path.join("r"));
        assert_eq!([&found.dot_git, &found.git_dir, &found.common_dir], [&path.join("r/.git"); 3]);
    }
    let facts = git_facts(&path.join("r"));
    assert!(facts.is_complete && facts.nested.is_empty() && facts.configuration.is_empty());
    fs::create_dir_all(path.join("plain")).unwrap();
    assert_eq!(git_facts(&path.join("plain")), GitFacts { is_complete: true, ..GitFacts::default() });
}

#[test]
fn a_linked_worktree_leads_to_the_main_repository() {
    let (_yard, path) = yard();
    init(&path.join("main"));
    git(&path.join("main"), &["worktree", "add", "-q", "../feature"]);
    let found = repository(&path.join("feature")).unwrap();
    let git_dir = path.join("main/.git/worktrees/feature");
    assert_eq!(found.root, path.join("feature"));
    assert_eq!(found.dot_git, path.join("feature/.git"));
    assert_eq!((&found.git_dir, &found.common_dir), (&git_dir, &path.join("main/.git")));
    assert_eq!(repository(&path.join("main")).unwrap().worktrees, [git_dir]);
}

#[test]
fn a_submodule_leads_to_the_repository_around_it() {
    let (_yard, path) = yard();
    init(&path.join("lib"));
    init(&path.join("super"));
    let lib = path.join("lib").display().to_string();
    git(&path.join("super"), &["submodule", "add", "-q", &lib, "deps/lib"]);
    let module = path.join("super/.git/modules/deps/lib");
    let found = repository(&path.join("super/deps/lib")).unwrap();
    assert_eq!((&found.git_dir, &found.common_dir), (&module, &module));
    let facts = git_facts(&path.join("super"));
    assert_eq!(facts.repository.unwrap().modules, [module]);
    assert_eq!(facts.nested, [NestedRepository::File(path.join("super/deps/lib/.git"))]);
}

/// A repository can hold any `.git` file, if it is unpacked rather than cloned, or is the submodule of another.
#[test]
fn a_git_file_that_names_what_does_not_name_it_in_return_is_ignored() {
    let (_yard, path) = yard();
    init(&path.join("victim"));
    git(&path.join("victim"), &["worktree", "add", "-q", "../theirs"]);
    fs::create_dir_all(path.join("home/.ssh")).unwrap();
    // With all that a git directory has, but what leads back.
    for name in ["home/.ssh/objects", "home/.ssh/refs"] {
        fs::create_dir_all(path.join(name)).unwrap();
    }
    fs::write(path.join("home/.ssh/HEAD"), "ref: refs/heads/x\n").unwrap();
    let hostile = path.join("hostile");
    fs::create_dir_all(&hostile).unwrap();
    let named = [
        path.join("home/.ssh").display().to_string(),
        "../home/.ssh".to_owned(),
        path.join("victim/.git").display().to_string(),
        path.join("victim/.git/worktrees/theirs").display().to_string(),
        path.display().to_string(),
        "/".to_owned(),
        "/nowhere".to_owned(),
        String::new(),
    ];
    for named in named {
        fs::write(hostile.join(".git"), format!("gitdir: {named}\n")).unwrap();
        assert_eq!(repository(&hostile), None, "{named}");
    }
    fs::remove_file(hostile.join(".git")).unwrap();
    for target in ["home/.ssh", "victim/.git"] {
        symlink(path.join(target), hostile.join(".git")).unwrap();
        assert_eq!(repository(&hostile), None, "{target}");
        fs::remove_file(hostile.join(".git")).unwrap();
    }
}

/// The way back alone is not enough: the directory must be what it says it is.
#[test]
fn a_forged_worktree_does_not_choose_the_common_directory() {
    let (_yard, path) = yard();
    init(&path.join("victim"));
    let (hostile, forged) = (path.join("hostile"), path.join("forged/worktrees/x"));
    fs::create_dir_all(&hostile).unwrap();
    fs::create_dir_all(&forged).unwrap();
    fs::write(hostile.join(".git"), format!("gitdir: {}\n", forged.display())).unwrap();
    fs::write(forged.join("gitdir"), hostile.join(".git").display().to_string()).unwrap();
    fs::write(forged.join("commondir"), path.join("victim/.git").display().to_string()).unwrap();
    assert_eq!(repository(&hostile), None);
}

#[test]
fn a_forged_submodule_of_another_repository_is_ignored() {
    let (_yard, path) = yard();
    init(&path.join("lib"));
    init(&path.join("victim"));
    let lib = path.join("lib").display().to_string();
    git(&path.join("victim"), &["submodule", "add", "-q", &lib, "lib"]);
    init(&path.join("hostile"));
    let sub = path.join("hostile/sub");
    fs::create_dir_all(&sub).unwrap();
    let module = path.join("victim/.git/modules/lib");
    fs::write(sub.join(".git"), format!("gitdir: {}\n", module.display())).unwrap();
    assert_eq!(repository(&sub), None);
    // Even where the other one names it.
    git(&module, &["config", "core.worktree", &sub.display().to_string()]);
    assert_eq!(repository(&sub), None);
}

#[test]
fn hooks_in_the_working_tree_are_found_where_git_looks_for_them() {
    let (_yard, path) = yard();
    init(&path);
    let hooks = |value: &str| {
        git(&path, &["config", "core.hooksPath", value]);
        repository(&path).unwrap().hooks_path
    };
    assert_eq!(hooks(".githooks"), Some(path.join(".githooks")));
    fs::create_dir_all(path.join(".husky/_")).unwrap();
    assert_eq!(hooks(".husky/_"), Some(path.join(".husky")));
    assert_eq!(hooks("../elsewhere"), None);
    assert_eq!(hooks("/etc"), None);
    assert_eq!(hooks("."), None);
}

#[test]
fn nested_repositories_and_configuration_are_found_whatever_the_workspace_says() {
    let (_yard, path) = yard();
    init(&path);
    init(&path.join("vendor/a"));
    init(&path.join("node_modules/b"));
    git(&path, &["init", "-q", "--bare", "mirror.git"]);
    for name in ["apps/web/.claude", "apps/web/src", ".claude", "docs"] {
        fs::create_dir_all(path.join(name)).unwrap();
    }
    fs::write(path.join("docs/opencode.jsonc"), "{}").unwrap();
    fs::write(path.join(".gitignore"), "*\n").unwrap();
    symlink("/usr", path.join("link")).unwrap();
    let mut facts = git_facts(&path);
    facts.configuration.sort();
    facts.nested.sort_by_key(|nested| format!("{nested:?}"));
    assert_eq!(facts.configuration, [path.join("apps/web/.claude"), path.join("docs/opencode.jsonc")]);
    let want = ["mirror.git", "node_modules/b/.git", "vendor/a/.git"];
    assert_eq!(facts.nested, want.map(|name| NestedRepository::Directory(path.join(name))));
    assert!(facts.is_complete);
}

#[test]
fn a_search_that_ends_before_the_bottom_says_so() {
    let (_yard, path) = yard();
    let deep = (0..=DEEPEST).fold(path.clone(), |path, _| path.join("d"));
    fs::create_dir_all(&deep).unwrap();
    assert!(!git_facts(&path).is_complete);
    assert!(git_facts(&path.join("d")).is_complete);
}

#[test]
fn directories_are_made_for_their_owner_and_not_through_links() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_yard, path) = yard();
    create_directories(&[path.join("a/b"), path.join("a/b")]).unwrap();
    let mode = fs::metadata(path.join("a/b")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    symlink(path.join("a"), path.join("link")).unwrap();
    assert!(create_directories(&[path.join("link/c")]).is_err());
}

#[test]
fn what_could_be_made_could_be_written() {
    let (_yard, path) = yard();
    assert!(could(&path.join("new"), Wanted::Write) && could(&path, Wanted::Read));
    assert!(!could(&path.join("new"), Wanted::Read));
    assert!(!could(&path.join("new/deeper"), Wanted::Write));
}
