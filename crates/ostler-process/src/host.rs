//! What this machine offers: space, access, and the kernel's means to contain a run. Reads only; states only what was
//! looked at.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// What is known of control groups, version 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cgroup2 {
    /// Not mounted.
    Absent,
    /// Mounted, and the permissions of our own group let us make groups below it.
    Writable(PathBuf),
    /// Mounted, and our own group does not.
    Closed(PathBuf),
}

/// What is known of user namespaces for unprivileged processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserNamespaces {
    /// No setting that we know of forbids them.
    NotForbidden,
    /// This setting does.
    Forbidden(&'static str),
    /// The kernel does not say.
    Unknown,
}

/// Free bytes for this user on the file system of `path`.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Whether this process can create files in the folder. Tried with a file that has no name and is gone at once:
/// permissions alone say yes to root where a read-only or special file system says no.
pub fn try_writing(folder: &Path) -> io::Result<()> {
    tempfile::tempfile_in(folder).map(drop)
}

/// Looks for the mount by its type, because on hybrid hosts `/sys/fs/cgroup` itself is an ordinary folder.
pub fn cgroup2() -> Cgroup2 {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let Some((root, mount)) = cgroup2_mount(&read("/proc/self/mountinfo")) else { return Cgroup2::Absent };
    let groups = read("/proc/self/cgroup");
    let Some(group) = own_group(&groups).and_then(|own| below(&root, &mount, own)) else {
        return Cgroup2::Closed(mount);
    };
    // Nothing but groups can be created there, so here the permissions have to do.
    match rustix::fs::access(&group, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Cgroup2::Writable(group),
        Err(_) => Cgroup2::Closed(group),
    }
}

/// Whether a process can be held by a descriptor instead of its number. Tried on ourselves.
#[cfg(target_os = "linux")]
pub fn has_pidfd() -> bool {
    rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty()).is_ok()
}

/// Whether a process can be held by a descriptor instead of its number.
#[cfg(not(target_os = "linux"))]
pub fn has_pidfd() -> bool {
    false
}

/// What the kernel's settings say about user namespaces.
pub fn user_namespaces() -> UserNamespaces {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let forbidding = [
        ("/proc/sys/user/max_user_namespaces", "user.max_user_namespaces", "0"),
        ("/proc/sys/kernel/unprivileged_userns_clone", "kernel.unprivileged_userns_clone", "0"),
        (
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "kernel.apparmor_restrict_unprivileged_userns",
            "1",
        ),
    ];
    if read(forbidding[0].0).is_none() {
        return UserNamespaces::Unknown;
    }
    match forbidding.iter().find(|(path, _, value)| read(path).as_deref() == Some(value)) {
        Some((_, name, _)) => UserNamespaces::Forbidden(name),
        None => UserNamespaces::NotForbidden,
    }
}

/// Which part of the hierarchy is mounted, and where.
fn cgroup2_mount(mountinfo: &str) -> Option<(String, PathBuf)> {
    mountinfo.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, mount) = (fields.next()?, fields.next()?);
        let is_cgroup2 = after.split(' ').next() == Some("cgroup2");
        is_cgroup2.then(|| (root.to_owned(), PathBuf::from(mount)))
    })
}

fn own_group(cgroup: &str) -> Option<&str> {
    cgroup.lines().find_map(|line| line.strip_prefix("0::"))
}

/// Where our own group is below the mount. A container may mount only its own part of the hierarchy; a group outside
/// of what is mounted has no place there.
fn below(root: &str, mount: &Path, own: &str) -> Option<PathBuf> {
    let inside = Path::new(own).strip_prefix(root).ok()?;
    let is_plain = inside.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    // A join with nothing would end in a slash.
    if inside.as_os_str().is_empty() { Some(mount.to_owned()) } else { is_plain.then(|| mount.join(inside)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_found_by_its_type() {
        let hybrid = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                      32 31 0:29 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw shared:1 master:2 - cgroup2 cgroup2 rw\n";
        assert_eq!(cgroup2_mount(hybrid), Some(("/".to_owned(), PathBuf::from("/sys/fs/cgroup/unified"))));
        assert_eq!(cgroup2_mount("31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"), None);
    }

    #[test]
    fn our_own_group_is_the_unified_one() {
        assert_eq!(own_group("12:pids:/a\n0::/user.slice/x.scope\n"), Some("/user.slice/x.scope"));
        assert_eq!(own_group("12:pids:/a\n"), None);
    }

    #[test]
    fn our_own_group_is_looked_for_below_what_is_mounted() {
        let mount = Path::new("/sys/fs/cgroup");
        for (root, own, want) in [
            ("/", "/", Some("/sys/fs/cgroup")),
            ("/", "/user.slice/x.scope", Some("/sys/fs/cgroup/user.slice/x.scope")),
            ("/docker/1", "/docker/1", Some("/sys/fs/cgroup")),
            ("/docker/1", "/docker/1/init", Some("/sys/fs/cgroup/init")),
            ("/docker/1", "/docker/2", None),
            ("/", "/../outside", None),
        ] {
            assert_eq!(below(root, mount, own), want.map(PathBuf::from), "{own} in {root}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_an_error_that_says_why() {
        assert!(try_writing(Path::new("/proc")).is_err());
        assert!(try_writing(&std::env::temp_dir()).is_ok());
        assert!(free_bytes(Path::new("/")).unwrap() > 0);
    }
}
