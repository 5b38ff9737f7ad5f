//! Where the rules of a policy go in a new file system: links resolved on the host, parents before what is below them.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use ostler_agent::jail::{Access, JailPolicy, Rule};
use rustix::io::Errno;

use super::JailError;

/// As many links as the kernel follows in one path.
const MOST_LINKS: usize = 40;

/// A symbolic link that leads to something granted, and is needed to get there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) path: PathBuf,
    pub(super) target: PathBuf,
}

/// A rule whose path was resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placement {
    /// Where it goes: free of links.
    pub(super) path: PathBuf,
    pub(super) access: Access,
    pub(super) kind: FileKind,
    /// The links on the way.
    pub(super) links: Vec<Link>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    Directory,
    Other,
}

/// A path with its links resolved.
struct Resolved {
    path: PathBuf,
    links: Vec<Link>,
    is_there: bool,
}

/// Where each rule goes, parents first. Rules for what does not exist are left out, and so are restrictions of what
/// nothing grants.
pub(super) fn place(policy: &JailPolicy) -> Result<Vec<Placement>, JailError> {
    let mut placements = BTreeMap::new();
    for rule in &policy.rules {
        if let Some(placement) = place_rule(rule).map_err(JailError::at("resolve", &rule.path))? {
            // The later rule holds, but each way to get there stays open.
            let links: Vec<Link> =
                placements.get(&placement.path).map_or_else(Vec::new, |old: &Placement| old.links.clone());
            let placement =
                Placement { links: links.into_iter().chain(placement.links).collect(), ..placement };
            placements.insert(placement.path.clone(), placement);
        }
    }
    // In the order of paths a directory comes before what is in it.
    let mut kept: Vec<Placement> = Vec::new();
    for placement in placements.into_values() {
        let above = kept.iter().rev().find(|above| placement.path.starts_with(&above.path));
        let is_needed = match (&placement.access, above.map(|above| &above.access)) {
            (Access::Guarded | Access::Hidden, None | Some(Access::Hidden)) => false,
            (Access::Guarded, Some(Access::Read)) => false,
            // Everything below is readable already; only the links may be missing.
            (Access::Read, Some(Access::Read)) => !placement.links.is_empty(),
            _ => true,
        };
        if is_needed {
            kept.push(placement);
        }
    }
    Ok(kept)
}

fn place_rule(rule: &Rule) -> io::Result<Option<Placement>> {
    let resolved = resolve(&rule.path)?;
    let access = match &rule.access {
        Access::Substitute { source } => Access::Substitute { source: source.canonicalize()? },
        Access::CopyOnWrite { upper, work } => {
            Access::CopyOnWrite { upper: upper.canonicalize()?, work: work.canonicalize()? }
        }
        other => other.clone(),
    };
    let source = match &access {
        Access::Substitute { source } => source,
        _ if !resolved.is_there => return Ok(None),
        _ => &resolved.path,
    };
    let kind = match source.metadata() {
        Ok(found) if found.is_dir() => FileKind::Directory,
        Ok(_) => FileKind::Other,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // A restriction opens no way.
    let links = match access {
        Access::Guarded | Access::Hidden => Vec::new(),
        _ => resolved.links,
    };
    Ok(Some(Placement { path: resolved.path, access, kind, links }))
}

/// Follows the links of a path, one component after the other. What does not exist stays as it is written.
fn resolve(path: &Path) -> io::Result<Resolved> {
    let mut left: VecDeque<OsString> = components(path);
    let (mut real, mut links, mut is_there) = (PathBuf::from("/"), Vec::new(), true);
    while let Some(part) = left.pop_front() {
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        match next.symlink_metadata() {
            Ok(found) if found.is_symlink() => {
                if links.len() == MOST_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let target = next.read_link()?;
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                for part in components(&target).into_iter().rev() {
                    left.push_front(part);
                }
                links.push(Link { path: next, target });
            }
            Ok(_) => real = next,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                is_there = false;
                real = next;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Resolved { path: real, links, is_there })
}

fn components(path: &Path) -> VecDeque<OsString> {
    let is_step =
        |component: &Component<'_>| matches!(component, Component::Normal(_) | Component::ParentDir);
    path.components().filter(is_step).map(|component| component.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn policy(root: &Path, rules: &[(&str, Access)]) -> JailPolicy {
        let rules = rules.iter().map(|(path, access)| Rule { path: root.join(path), access: access.clone() });
        JailPolicy { rules: rules.collect(), canary: root.join("canary") }
    }

    fn placed(root: &Path, rules: &[(&str, Access)]) -> Vec<(String, Access)> {
        let placements = place(&policy(root, rules)).unwrap();
        let relative = |path: &Path| path.strip_prefix(root).unwrap().display().to_string();
        placements.into_iter().map(|placement| (relative(&placement.path), placement.access)).collect()
    }

    #[test]
    fn parents_come_first_and_what_is_missing_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for path in ["a/b/c", "d", "e"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        symlink("a", root.join("link")).unwrap();
        let want = |rows: &[(&str, Access)]| {
            rows.iter().map(|(path, access)| ((*path).to_owned(), access.clone())).collect::<Vec<_>>()
        };
        use Access::{Guarded, Hidden, Read, Write};
        let rules = [("a/b", Guarded), ("link", Write), ("a/b/c", Hidden), ("missing", Write), ("e/x", Read)];
        assert_eq!(placed(&root, &rules), want(&[("a", Write), ("a/b", Guarded), ("a/b/c", Hidden)]));
        // What nothing grants is not there, so there is nothing to restrict.
        assert_eq!(placed(&root, &[("d", Guarded), ("e", Hidden)]), want(&[]));
        assert_eq!(placed(&root, &[("a", Read), ("a/b", Read), ("a/b/c", Guarded)]), want(&[("a", Read)]));
        assert_eq!(placed(&root, &[("d", Write), ("d", Read)]), want(&[("d", Read)]));
    }

    #[test]
    fn a_restriction_never_leads_through_a_link_to_something_new() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("work")).unwrap();
        fs::create_dir_all(root.join("secrets")).unwrap();
        symlink(root.join("secrets"), root.join("work/.claude")).unwrap();
        let found = placed(&root, &[("work", Access::Write), ("work/.claude", Access::Guarded)]);
        assert_eq!(found, [("work".to_owned(), Access::Write)]);
    }

    #[test]
    fn links_on_the_way_are_kept_and_loops_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("data/home/u")).unwrap();
        symlink("data/home", root.join("home")).unwrap();
        symlink("me", root.join("me")).unwrap();
        let placements = place(&policy(&root, &[("home/u", Access::Read)])).unwrap();
        assert_eq!(placements[0].path, root.join("data/home/u"));
        assert_eq!(
            placements[0].links,
            [Link { path: root.join("home"), target: PathBuf::from("data/home") }]
        );
        assert!(place(&policy(&root, &[("me/u", Access::Read)])).is_err());
    }
}
