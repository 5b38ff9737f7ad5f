//! A file system that holds only what is granted, in a mount namespace of its own.
//!
//! The process moves into a new user and mount namespace, builds a root directory from mounts of the host's files, and
//! makes it its root. What is not mounted there cannot be named.

use std::ffi::CString;
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use ostler_agent::jail::{Access, JailPolicy};
use rustix::fs::{CWD, Mode};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen,
    mount, mount_bind_recursive, mount_change, move_mount, open_tree, unmount,
};
use rustix::process::{Pid, chdir, getppid, pivot_root, umask};
use rustix::thread::move_into_link_name_space;

use super::layout::{FileKind, Link, Placement, place};
use super::mounts::{MountTable, add_flags, below, bind};
use super::network::{self, JailNetwork};
use super::{JailError, Namespaces};

/// Where the new root is built. Any directory that exists will do: it is covered in this namespace only, and only until
/// the root has changed.
const STAGES: [&str; 2] = ["/tmp", "/proc"];

/// While the root is built: where the host's root is, where the new one is, and what hidden paths are covered with.
const HOST: &str = "/host";
const ROOT: &str = "/root";
const EMPTY_DIRECTORY: &str = "/empty";
const EMPTY_FILE: &str = "/empty-file";

/// Devices that programs expect. None of them reaches anything but the process itself.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Files of the kernel that root could change without any capability.
const KERNEL_SETTINGS: [&str; 6] =
    ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/acpi", "/proc/scsi"];

/// Nothing is executed with the rights of its owner, and no device is opened.
const HARMLESS: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// What fails where the kernel or a file system cannot keep changes apart.
pub(super) const ADD_LAYER: &str = "add a layer above";

/// Moves the calling process, which has one thread, into the file system of an earlier one. Its working directory is then
/// the root.
pub(super) fn join(namespaces: &Namespaces) -> Result<(), JailError> {
    let processes = Path::new("/proc");
    let failed = |action| JailError::at::<rustix::io::Errno>(action, processes);
    // The first of a PID namespace is its guardian. There the earlier `/proc` would list the processes of another one.
    let own = match getppid() {
        Some(parent) if parent == Pid::INIT => {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
            Some(open_tree(CWD, processes, flags).map_err(failed("copy the mount of"))?)
        }
        _ => None,
    };
    for (namespace, kind) in namespaces.to_join() {
        move_into_link_name_space(namespace, Some(kind))
            .map_err(JailError::at("join the namespaces of", Path::new("the run")))?;
    }
    let Some(own) = own else { return Ok(()) };
    unshare(CloneFlags::CLONE_NEWNS).map_err(JailError::at("make a mount namespace for", processes))?;
    move_mount(&own, c"", CWD, processes, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(failed("mount"))?;
    let flags = HARMLESS | MountFlags::NOEXEC;
    add_flags(processes, flags).map_err(JailError::at("close", processes))?;
    for path in KERNEL_SETTINGS.map(Path::new).into_iter().filter(|path| path.exists()) {
        mount_bind_recursive(path, path).map_err(JailError::at("mount", path))?;
        add_flags(path, flags | MountFlags::RDONLY).map_err(JailError::at("close", path))?;
    }
    Ok(())
}

/// Moves the calling process, which has one thread, into a file system that holds only what `policy` grants, and into a
/// network of its own if there is one for it, whose sockets are passed out. Its working directory is then the root.
pub(super) fn enter(
    policy: &JailPolicy,
    network: Option<(&JailNetwork, BorrowedFd<'_>)>,
    request_id_maps: impl FnOnce() -> io::Result<()>,
) -> Result<(), JailError> {
    let placements = place(policy)?;
    let table = MountTable::read().map_err(JailError::at("read", Path::new("/proc/self/mountinfo")))?;
    let own = Path::new("/proc/self");
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)
        .map_err(JailError::at("make a user namespace for", own))?;
    if network.is_some() {
        unshare(CloneFlags::CLONE_NEWNET).map_err(JailError::at("make a network namespace for", own))?;
    }
    request_id_maps().map_err(JailError::at("map the user of", own))?;
    if let Some((network, outlet)) = network {
        network::set_up(network, outlet)?;
    }
    let mask = umask(Mode::WGRP | Mode::WOTH);
    let built = Root::build(&table, &placements);
    umask(mask);
    built
}

/// The root that is being built.
struct Root<'a> {
    table: &'a MountTable,
}

impl<'a> Root<'a> {
    fn build(table: &'a MountTable, placements: &[Placement]) -> Result<(), JailError> {
        stage()?;
        let root = Self { table };
        root.add_kernel_files()?;
        root.add_devices()?;
        let mut covers = Vec::new();
        for (index, placement) in placements.iter().enumerate() {
            // What is below a path comes right after it.
            let next = placements.get(index + 1);
            let is_cover = placement.access == Access::Hidden
                && next.is_some_and(|next| next.path.starts_with(&placement.path));
            if is_cover {
                covers.push(cover(placement)?);
            } else {
                root.add(placement)?;
            }
        }
        for path in &covers {
            add_flags(path, HARMLESS | MountFlags::RDONLY).map_err(JailError::at("close", path))?;
        }
        change_root()
    }

    fn add(&self, placement: &Placement) -> Result<(), JailError> {
        for link in &placement.links {
            make_link(link)?;
        }
        let path = placement.path.as_path();
        let target = below(Path::new(ROOT), path);
        match &placement.access {
            Access::Read => self.bind(path, path, placement.kind, HARMLESS | MountFlags::RDONLY),
            Access::Write => self.bind(path, path, placement.kind, HARMLESS),
            Access::Substitute { source } => self.bind(source, path, placement.kind, HARMLESS),
            Access::CopyOnWrite { upper, work } => {
                make_mount_point(&target, FileKind::Directory)?;
                mount_layers(path, upper, work, &target).map_err(JailError::at(ADD_LAYER, path))
            }
            Access::Guarded => {
                let is_there = target.symlink_metadata().is_ok_and(|found| !found.is_symlink());
                if !is_there {
                    return Ok(());
                }
                mount_bind_recursive(&target, &target).map_err(JailError::at("guard", path))?;
                add_flags(&target, HARMLESS | MountFlags::RDONLY).map_err(JailError::at("guard", path))
            }
            Access::Hidden => {
                if target.symlink_metadata().is_err() {
                    return Ok(());
                }
                let cover = match placement.kind {
                    FileKind::Directory => EMPTY_DIRECTORY,
                    FileKind::Other => EMPTY_FILE,
                };
                mount_bind_recursive(cover, &target).map_err(JailError::at("hide", path))?;
                add_flags(&target, HARMLESS | MountFlags::RDONLY).map_err(JailError::at("hide", path))
            }
        }
    }

    /// Puts what the host has at `source` at `path` in the new root.
    fn bind(&self, source: &Path, path: &Path, kind: FileKind, flags: MountFlags) -> Result<(), JailError> {
        let target = below(Path::new(ROOT), path);
        make_mount_point(&target, kind)?;
        bind(self.table, Path::new(HOST), source, &target, flags).map_err(JailError::at("mount", source))
    }

    /// Adds `/proc` and `/sys`. Processes outside are listed there, but the user namespace keeps their memory, environment
    /// and files closed.
    fn add_kernel_files(&self) -> Result<(), JailError> {
        let (proc, sys) = (Path::new("/proc"), Path::new("/sys"));
        self.bind(proc, proc, FileKind::Directory, HARMLESS | MountFlags::NOEXEC)?;
        for path in KERNEL_SETTINGS.map(Path::new) {
            let Ok(found) = below(Path::new(HOST), path).symlink_metadata() else { continue };
            let kind = if found.is_dir() { FileKind::Directory } else { FileKind::Other };
            self.bind(path, path, kind, HARMLESS | MountFlags::NOEXEC | MountFlags::RDONLY)?;
        }
        if below(Path::new(HOST), sys).is_dir() {
            self.bind(sys, sys, FileKind::Directory, HARMLESS | MountFlags::NOEXEC | MountFlags::RDONLY)?;
        }
        Ok(())
    }

    /// Adds `/dev` with harmless devices and terminals of its own: nobody else's can be opened by name.
    fn add_devices(&self) -> Result<(), JailError> {
        let devices = below(Path::new(ROOT), Path::new("/dev"));
        make_directory(&devices)?;
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
        let failed = |path: &Path| JailError::at("mount", path);
        mount("tmpfs", &devices, "tmpfs", flags, c"mode=0755").map_err(failed(&devices))?;
        for name in DEVICES {
            let source = Path::new("/dev").join(name);
            if below(Path::new(HOST), &source).exists() {
                let target = devices.join(name);
                make_mount_point(&target, FileKind::Other)?;
                let from = below(Path::new(HOST), &source);
                mount_bind_recursive(&from, &target).map_err(failed(&source))?;
            }
        }
        for (name, target) in DEVICE_LINKS {
            let path = devices.join(name);
            symlink(target, &path).map_err(JailError::at("make the link", &path))?;
        }
        let (shared, terminals) = (devices.join("shm"), devices.join("pts"));
        make_directory(&shared)?;
        mount("tmpfs", &shared, "tmpfs", flags | MountFlags::NODEV, c"mode=1777").map_err(failed(&shared))?;
        make_directory(&terminals)?;
        let options = c"newinstance,ptmxmode=0666,mode=0620";
        mount("devpts", &terminals, "devpts", flags, options).map_err(failed(&terminals))
    }
}

/// Covers a directory that hides everything but what is granted below it. It stays open until that is in place.
fn cover(placement: &Placement) -> Result<PathBuf, JailError> {
    let target = below(Path::new(ROOT), &placement.path);
    mount("tmpfs", &target, "tmpfs", HARMLESS, c"mode=0755")
        .map_err(JailError::at("hide", &placement.path))?;
    Ok(target)
}

/// Makes an empty file system the root, with the host's below it.
fn stage() -> Result<(), JailError> {
    let top = Path::new("/");
    // Nothing that is mounted here shows outside, and the other way round.
    mount_change(top, MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(JailError::at("detach the mounts of", top))?;
    let stage = STAGES.map(Path::new).into_iter().find(|path| path.is_dir()).unwrap_or(top);
    let failed = |path: &Path| JailError::at::<rustix::io::Errno>("mount a new root at", path);
    mount("tmpfs", stage, "tmpfs", HARMLESS, c"mode=0755").map_err(failed(stage))?;
    let host = below(stage, Path::new(HOST));
    make_directory(&host)?;
    pivot_root(stage, &host).map_err(failed(stage))?;
    chdir(top).map_err(failed(top))?;
    for path in [ROOT, EMPTY_DIRECTORY].map(Path::new) {
        make_directory(path)?;
    }
    make_mount_point(Path::new(EMPTY_FILE), FileKind::Other)?;
    mount("tmpfs", ROOT, "tmpfs", HARMLESS, c"mode=0755").map_err(failed(Path::new(ROOT)))
}

/// Makes the new root the root, and forgets the host's.
fn change_root() -> Result<(), JailError> {
    let top = Path::new("/");
    let failed = || JailError::at::<rustix::io::Errno>("change the root to", Path::new(ROOT));
    chdir(ROOT).map_err(failed())?;
    // The old root is stacked on the new one, and taken away from there.
    pivot_root(c".", c".").map_err(failed())?;
    unmount(c".", UnmountFlags::DETACH).map_err(JailError::at("unmount the old", top))?;
    chdir(top).map_err(failed())?;
    add_flags(top, HARMLESS | MountFlags::RDONLY).map_err(JailError::at("close", top))
}

/// Makes a directory and those above it.
fn make_directory(path: &Path) -> Result<(), JailError> {
    DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(JailError::at("make", path))
}

/// Makes something to mount on, unless it is there: what is mounted covers it.
fn make_mount_point(path: &Path, kind: FileKind) -> Result<(), JailError> {
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    match (kind, path.parent()) {
        (FileKind::Directory, _) | (FileKind::Other, None) => make_directory(path),
        (FileKind::Other, Some(parent)) => {
            make_directory(parent)?;
            let made = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
            made.map(drop).map_err(JailError::at("make", path))
        }
    }
}

/// Makes a link of the host in the new root, unless it came with a directory that is mounted already.
fn make_link(link: &Link) -> Result<(), JailError> {
    let path = below(Path::new(ROOT), &link.path);
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_directory(parent)?;
    }
    symlink(&link.target, &path).map_err(JailError::at("make the link", &link.path))
}

/// Mounts the host's directory `path` with a layer above that takes all changes.
fn mount_layers(path: &Path, upper: &Path, work: &Path, target: &Path) -> io::Result<()> {
    let host = |path: &Path| below(Path::new(HOST), path);
    let layers = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&layers, "lowerdir", escape_layer(&host(path))?)?;
    fsconfig_set_string(&layers, "upperdir", escape_layer(&host(upper))?)?;
    fsconfig_set_string(&layers, "workdir", escape_layer(&host(work))?)?;
    // The attributes that a user may set.
    fsconfig_set_flag(&layers, "userxattr")?;
    fsconfig_create(&layers)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let mounted = fsmount(&layers, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    Ok(move_mount(&mounted, c"", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Colons divide the list of lower directories, and in all of these paths a backslash escapes what follows it.
fn escape_layer(path: &Path) -> io::Result<CString> {
    let mut bytes = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b':' | b'\\') {
            bytes.push(b'\\');
        }
        bytes.push(*byte);
    }
    Ok(CString::new(bytes)?)
}
