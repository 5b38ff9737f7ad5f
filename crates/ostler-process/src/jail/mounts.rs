//! Single mounts: bound with all that is mounted below, and flagged.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, StatVfsMountFlags, openat2, statvfs};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount_remount, move_mount, open_tree};

/// The mount points of the host.
pub(super) struct MountTable {
    points: Vec<PathBuf>,
}

impl MountTable {
    pub(super) fn read() -> io::Result<Self> {
        let text = std::fs::read("/proc/self/mountinfo")?;
        let points = text.split(|byte| *byte == b'\n').filter_map(|line| {
            let point = line.split(|byte| *byte == b' ').nth(4)?;
            Some(PathBuf::from(unescape(point)))
        });
        Ok(Self { points: points.collect() })
    }

    /// The mounts below `path`, relative to it.
    fn below<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Path> + 'a {
        let below = self.points.iter().filter_map(move |point| point.strip_prefix(path).ok());
        below.filter(|relative| !relative.as_os_str().is_empty())
    }
}

/// Spaces, tabs, newlines and backslashes are octal there.
fn unescape(text: &[u8]) -> OsString {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.filter(|_| *first == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes)
}

/// Puts what the host has at `path` at `target`, with all that is mounted below it, and adds `flags` to every one of
/// these mounts. `host` is where the root of the host is now.
pub(super) fn bind(
    table: &MountTable,
    host: &Path,
    path: &Path,
    target: &Path,
    flags: MountFlags,
) -> io::Result<()> {
    bind_without_links(&below(host, path), target)?;
    add_flags(target, flags)?;
    for mount in table.below(path) {
        match add_flags(&target.join(mount), flags) {
            Ok(()) => {}
            // Another mount covers it, or the user may not get there: the agent cannot either.
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::ACCESS)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Mounts a path whose links were resolved when the policy was decided. If one of its directories has become a link since,
/// somebody replaced it: the link is not followed, because it may lead to what the policy does not grant.
fn bind_without_links(source: &Path, target: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let source = openat2(CWD, source, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(&source, c"", flags)?;
    Ok(move_mount(&tree, c"", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Adds flags to a mount. The kernel insists that those it has are named again.
pub(super) fn add_flags(target: &Path, flags: MountFlags) -> io::Result<()> {
    let found = statvfs(target)?.f_flag;
    let kept = [
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
    ];
    let kept = kept.into_iter().filter(|(has, _)| found.contains(*has)).map(|(_, flag)| flag);
    let flags = kept.fold(flags | MountFlags::BIND, |all, flag| all | flag);
    Ok(mount_remount(target, flags, c"")?)
}

/// An absolute path of the jail or the host, seen from where that is mounted now.
pub(super) fn below(root: &Path, path: &Path) -> PathBuf {
    let mut bytes = root.as_os_str().as_bytes().to_vec();
    bytes.extend_from_slice(path.as_os_str().as_bytes());
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_unescaped() {
        for (text, want) in [
            (&b"/a\\040b\\011c"[..], "/a b\tc"),
            (b"/back\\134slash", "/back\\slash"),
            (b"/end\\04", "/end\\04"),
            (b"/", "/"),
        ] {
            assert_eq!(unescape(text), OsString::from(want));
        }
    }

    #[test]
    fn mounts_below_are_relative_and_never_the_path_itself() {
        let table = MountTable { points: ["/", "/a", "/a/b", "/ab"].map(PathBuf::from).to_vec() };
        let below: Vec<&Path> = table.below(Path::new("/a")).collect();
        assert_eq!(below, [Path::new("b")]);
    }
}
