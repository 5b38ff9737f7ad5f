use std::os::unix::fs::symlink;

use ostler_agent::jail::Rule;

use super::*;

/// A directory with files (names without a slash at their end) and directories.
struct Tree {
    root: PathBuf,
    _folder: tempfile::TempDir,
}

impl Tree {
    fn new(entries: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for entry in entries {
            let path = root.join(entry);
            if entry.ends_with('/') {
                fs::create_dir_all(path).unwrap();
            } else {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "").unwrap();
            }
        }
        Self { root, _folder: folder }
    }

    fn policy(&self, rules: &[(&str, Access)]) -> JailPolicy {
        let rule =
            |(path, access): &(&str, Access)| Rule { path: self.root.join(path), access: access.clone() };
        JailPolicy { rules: rules.iter().map(rule).collect(), canary: self.root.join("canary") }
    }

    /// What is granted in the tree, in the order of paths, and what is not enforced, with paths from the top.
    fn plan(&self, rules: &[(&str, Access)]) -> (Vec<(String, Rights)>, Vec<String>) {
        let plan = plan_only_wall(&self.policy(rules)).unwrap();
        let relative = |grant: Grant| {
            let path = grant.path.strip_prefix(&self.root).ok()?;
            Some((path.display().to_string(), grant.rights))
        };
        let mut grants: Vec<_> = plan.grants.into_iter().filter_map(relative).collect();
        grants.sort_by(|one, other| one.0.cmp(&other.0));
        let root = self.root.display().to_string();
        let phrases = plan.not_enforced.into_iter().map(|phrase| phrase.replace(&root, "TOP"));
        (grants, phrases.collect())
    }
}

fn want(rows: &[(&str, Rights)]) -> Vec<(String, Rights)> {
    rows.iter().map(|(path, rights)| ((*path).to_owned(), *rights)).collect()
}

#[test]
fn a_readable_directory_is_split_around_what_is_hidden() {
    use Access::{Hidden, Read};
    let tree = Tree::new(&["etc/passwd", "etc/shadow", "etc/ssl/certs/", "etc/ssl/key", "etc/apt/", "usr/"]);
    symlink(tree.root.join("etc/shadow"), tree.root.join("etc/link")).unwrap();
    let (grants, not_enforced) =
        tree.plan(&[("etc", Read), ("etc/shadow", Hidden), ("etc/ssl/key", Hidden), ("usr", Read)]);
    let rows = [
        ("etc", Rights::List),
        ("etc/apt", Rights::Read),
        ("etc/passwd", Rights::Read),
        ("etc/ssl", Rights::List),
        ("etc/ssl/certs", Rights::Read),
        ("usr", Rights::Read),
    ];
    assert_eq!(grants, want(&rows));
    assert_eq!(not_enforced, [""; 0]);
}

#[test]
fn names_in_a_hidden_directory_are_not_listed_by_a_right_from_above() {
    use Access::{Hidden, Read};
    let tree = Tree::new(&["home/notes", "home/.ssh/id", "home/docs/", "home/missing/"]);
    fs::remove_dir(tree.root.join("home/missing")).unwrap();
    let (grants, _) = tree.plan(&[("home", Read), ("home/.ssh", Hidden), ("home/missing", Hidden)]);
    assert_eq!(grants, want(&[("home/docs", Rights::Read), ("home/notes", Rights::Read)]));
}

#[test]
fn rules_below_a_split_directory_keep_their_own_grant() {
    use Access::{Guarded, Hidden, Read, Write};
    let tree = Tree::new(&["home/a/deep/x", "home/secret", "home/work/", "home/conf/"]);
    let rules = [
        ("home", Read),
        ("home/secret", Hidden),
        ("home/a", Hidden),
        ("home/a/deep", Read),
        ("home/work", Write),
        ("home/conf", Guarded),
    ];
    let rows = [("home/a/deep", Rights::Read), ("home/conf", Rights::Read), ("home/work", Rights::Write)];
    let (grants, not_enforced) = tree.plan(&rules);
    assert_eq!(grants, want(&rows));
    assert_eq!(not_enforced, [""; 0]);
}

#[test]
fn a_writable_directory_stays_whole_and_what_it_holds_is_reported() {
    use Access::{Guarded, Hidden, Read, Write};
    let tree = Tree::new(&["w/.git/hooks/", "w/.git/config", "w/.env", "w/vendor/", "w/src/"]);
    let rules = [
        ("w", Write),
        ("w/.git/hooks", Guarded),
        ("w/.git/config", Guarded),
        ("w/.claude", Guarded),
        ("w/.env", Hidden),
        ("w/vendor", Read),
        ("w/src", Write),
    ];
    let (grants, not_enforced) = tree.plan(&rules);
    let rows = [("w", Rights::Write), ("w/src", Rights::Write), ("w/vendor", Rights::Read)];
    assert_eq!(grants, want(&rows));
    let phrases = ["guarded files in TOP/w: .git/config, .git/hooks, vendor", "hidden files in TOP/w: .env"];
    assert_eq!(not_enforced, phrases);
}

#[test]
fn a_substitute_is_granted_where_it_is_and_the_original_is_hidden() {
    use Access::{Read, Substitute};
    let tree = Tree::new(&["home/.cache/old", "home/notes", "run/cache/"]);
    let source = tree.root.join("run/cache");
    let (grants, not_enforced) = tree.plan(&[("home", Read), ("home/.cache", Substitute { source })]);
    assert_eq!(grants, want(&[("home/notes", Rights::Read), ("run/cache", Rights::Write)]));
    assert_eq!(not_enforced, [""; 0]);
    let source = tree.root.join("run/cache");
    let (grants, _) = tree.plan(&[("absent", Substitute { source })]);
    assert_eq!(grants, want(&[("run/cache", Rights::Write)]));
    let source = tree.root.join("gone");
    assert!(plan_only_wall(&tree.policy(&[("home", Substitute { source })])).is_err());
}

#[test]
fn a_directory_whose_changes_are_to_be_kept_apart_is_changed_itself() {
    let tree = Tree::new(&["cargo/", "upper/", "work/"]);
    let access = Access::CopyOnWrite { upper: tree.root.join("upper"), work: tree.root.join("work") };
    let (grants, not_enforced) = tree.plan(&[("cargo", access)]);
    assert_eq!(grants, want(&[("cargo", Rights::Write)]));
    assert_eq!(not_enforced, ["changes kept apart: TOP/cargo"]);
}

#[test]
fn the_later_rule_holds_for_what_two_names_lead_to() {
    use Access::{Read, Write};
    let tree = Tree::new(&["usr/bin/"]);
    symlink("usr/bin", tree.root.join("bin")).unwrap();
    symlink("nowhere", tree.root.join("broken")).unwrap();
    let (grants, _) = tree.plan(&[("bin", Write), ("usr/bin", Read), ("broken", Write), ("none", Read)]);
    assert_eq!(grants, want(&[("usr/bin", Rights::Read)]));
}

#[test]
fn long_lists_are_cut_in_a_phrase() {
    let names: Vec<String> = (0..MOST_NAMED + 3).map(|number| format!("f{number:02}")).collect();
    let paths: Vec<&Path> = names.iter().map(Path::new).collect();
    let phrase = enumerate(&paths);
    assert!(phrase.starts_with("f00, f01, ") && phrase.ends_with(", f11, and 3 more"), "{phrase}");
}

#[test]
fn inside_a_namespace_only_writing_is_restricted() {
    use Access::{Guarded, Hidden, Read, Substitute, Write};
    let tree = Tree::new(&["w/.git/", "home/", "usr/"]);
    let source = PathBuf::from("/elsewhere/home");
    let rules = [
        ("w", Write),
        ("w/.git", Guarded),
        ("usr", Read),
        ("home", Substitute { source }),
        ("gone", Write),
        ("x", Hidden),
    ];
    let plan = plan_second_wall(&tree.policy(&rules));
    assert_eq!(plan.grants[0], Grant { path: "/".into(), rights: Rights::ReadAndConnect });
    let of_tree: Vec<&Grant> =
        plan.grants.iter().filter(|grant| grant.path.starts_with(&tree.root)).collect();
    let rows = ["w", "home"].map(|path| Grant { path: tree.root.join(path), rights: Rights::Write });
    assert_eq!(of_tree, rows.iter().collect::<Vec<_>>());
    assert_eq!(plan.not_enforced, [""; 0]);
}

#[test]
fn what_is_hidden_of_the_machine_is_hidden_and_of_processes_is_reported() {
    let rule = |path: &str, access| Rule { path: path.into(), access };
    let rights = |rules: Vec<Rule>, path: &str| {
        let plan = plan_only_wall(&JailPolicy { rules, canary: "/canary".into() }).unwrap();
        let grant = plan.grants.iter().find(|grant| grant.path == Path::new(path)).map(|grant| grant.rights);
        (grant, plan.not_enforced)
    };
    assert_eq!(rights(Vec::new(), "/sys"), (Some(Rights::Read), Vec::new()));
    assert_eq!(rights(vec![rule("/sys", Access::Hidden)], "/sys"), (None, Vec::new()));
    // Some machines forbid to list it, and then hiding it takes nothing away from what is above.
    let (grant, not_enforced) = rights(vec![rule("/sys/kernel", Access::Hidden)], "/sys");
    assert!(grant != Some(Rights::Read) && not_enforced.is_empty(), "{grant:?} {not_enforced:?}");
    let (grant, not_enforced) = rights(vec![rule("/proc/sys", Access::Hidden)], "/proc");
    assert_eq!((grant, not_enforced), (Some(Rights::Read), vec!["hidden files in /proc: sys".to_owned()]));
    let (_, not_enforced) = rights(vec![rule("/proc/sys", Access::Guarded)], "/proc");
    assert_eq!(not_enforced, [""; 0]);
}
