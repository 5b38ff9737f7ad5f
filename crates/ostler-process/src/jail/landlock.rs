//! Landlock: the kernel refuses what no rule grants, to the calling thread and all that it starts, for good.
//!
//! Rights are only ever added: what a rule grants for a directory, no other rule takes away below it. `grants` says what
//! follows from that for a policy. A rule is tied to the inode that was there when it was made: a file that is replaced
//! by another of the same name is not granted any more, unless its directory is.

mod grants;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, LandlockStatus, PathBeneath, RestrictSelf, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, make_bitflags,
};
use ostler_agent::jail::{JailKind, JailPolicy};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities};

use grants::{Grant, Rights};

/// The first that can refuse to truncate a file.
const LEAST_ABI: u32 = 3;

/// From here on there are scopes for signals and abstract sockets.
const SCOPES_ABI: u32 = 6;

/// From here on there is a right to connect to a socket that has a path.
pub(super) const SOCKETS_ABI: u32 = 9;

/// The rights that are refused unless granted; those that the kernel does not know are left out by the crate.
const HANDLED: ABI = ABI::V9;

/// What Landlock enforces for the calling process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandlockReport {
    /// The version of its interface, if it is in force.
    pub abi: Option<u32>,
    /// What the policy wants and is not enforced, a phrase each.
    pub not_enforced: Vec<String>,
}

/// Landlock could not be enforced. The process may be restricted already: it must exit.
#[derive(Debug, thiserror::Error)]
pub enum LandlockError {
    /// The kernel was built without it.
    #[error("this kernel has no Landlock")]
    NotImplemented,
    /// The kernel has it, and was booted without it.
    #[error("Landlock is not enabled in this kernel")]
    NotEnabled,
    /// An interface that cannot refuse everything that changes a file.
    #[error("this kernel has Landlock ABI {found}, and {LEAST_ABI} is needed")]
    OldAbi {
        /// The version of the interface.
        found: u32,
    },
    /// A step failed.
    #[error("could not {action} {}", .path.display())]
    Failed {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl LandlockError {
    fn at<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |error| Self::Failed { action, path, source: error.into() }
    }

    /// What failed, for a message that holds no text of its own.
    pub fn context(&self) -> &'static str {
        match self {
            Self::NotImplemented => "this kernel has no Landlock",
            Self::NotEnabled => "Landlock is not enabled in this kernel",
            Self::OldAbi { found: 1 } => "this kernel has Landlock ABI 1, and 3 is needed",
            Self::OldAbi { .. } => "this kernel has Landlock ABI 2, and 3 is needed",
            Self::Failed { action, .. } => action,
        }
    }

    /// The error number of the system call that failed, or the one that means the same.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            Self::NotImplemented => Errno::NOSYS,
            Self::NotEnabled => Errno::OPNOTSUPP,
            Self::OldAbi { .. } => Errno::PROTONOSUPPORT,
            Self::Failed { source, .. } => {
                return source.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
            }
        };
        errno.raw_os_error()
    }

    /// What a user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotImplemented | Self::OldAbi { .. } => {
                Some("use Linux 6.2 or newer, built with CONFIG_SECURITY_LANDLOCK".to_owned())
            }
            Self::NotEnabled => {
                Some("boot the kernel with landlock in its `lsm=` parameter, e.g. lsm=landlock,…".to_owned())
            }
            Self::Failed { .. } => None,
        }
    }
}

/// The version of Landlock's interface that this kernel has. Restricts nothing, and can be called anywhere.
pub fn find_abi() -> Result<u32, LandlockError> {
    // Without a flag it makes no system call but the one that asks for the version.
    let status = RestrictSelf::default().no_new_privs(false).apply();
    let status = status.map_err(to_io).map_err(LandlockError::at("look for", Path::new("Landlock")))?;
    abi_of(status.landlock)
}

/// What would let Landlock work on this machine, if it does not and that is known.
pub fn find_remedy() -> Option<String> {
    usable_abi(find_abi()).err()?.hint()
}

fn abi_of(status: LandlockStatus) -> Result<u32, LandlockError> {
    match status {
        LandlockStatus::NotEnabled => Err(LandlockError::NotEnabled),
        LandlockStatus::NotImplemented => Err(LandlockError::NotImplemented),
        // Newer ones than the crate knows are used like the newest that it knows.
        LandlockStatus::Available { effective_abi, .. } => Ok(effective_abi as u32),
    }
}

fn usable_abi(status: Result<u32, LandlockError>) -> Result<u32, LandlockError> {
    match status? {
        found if found < LEAST_ABI => Err(LandlockError::OldAbi { found }),
        abi => Ok(abi),
    }
}

/// Restricts the calling process, which has one thread, to what the policy grants. The program that it executes and all
/// that it starts inherit the restriction and cannot lift it. Descriptors that are open already stay as they are.
///
/// Capabilities stay as they are: the caller drops those of root before, because some lead past Landlock.
///
/// - [`JailKind::Landlock`]: the only wall. Fails where Landlock is missing or older than ABI 3.
/// - [`JailKind::Namespace`]: the second wall, set inside the new file system. Where Landlock is missing or too old the
///   first wall stands alone, and the report says what is not enforced then.
///
/// What a rule names and is missing grants nothing.
pub fn restrict(policy: &JailPolicy, wall: JailKind) -> Result<LandlockReport, LandlockError> {
    let abi = match (usable_abi(find_abi()), wall) {
        (Ok(abi), _) => Some(abi),
        (Err(error), JailKind::Landlock) => return Err(error),
        (Err(_), JailKind::Namespace) => None,
    };
    let plan = match wall {
        JailKind::Landlock => grants::plan_only_wall(policy)?,
        JailKind::Namespace => grants::plan_second_wall(policy),
    };
    if abi.is_some() {
        enforce(&plan.grants, handled(wall))?;
    }
    let mut not_enforced: Vec<String> =
        missing_features(wall, abi).map(str::to_owned).chain(plan.not_enforced).collect();
    if wall == JailKind::Landlock && has_capabilities_beyond_files()? {
        not_enforced.push("what capabilities allow beyond files".to_owned());
    }
    Ok(LandlockReport { abi, not_enforced })
}

/// Some capabilities lead past Landlock: with `CAP_PERFMON` Linux 6.18 lets a process read the environment of any other.
fn has_capabilities_beyond_files() -> Result<bool, LandlockError> {
    let of_files =
        CapabilitySet::CHOWN | CapabilitySet::DAC_OVERRIDE | CapabilitySet::FOWNER | CapabilitySet::FSETID;
    let sets =
        capabilities(None).map_err(LandlockError::at("read the capabilities of", Path::new("/proc/self")))?;
    Ok(!sets.permitted.difference(of_files).is_empty())
}

/// What Landlock cannot refuse in this version, and no other wall does.
fn missing_features(wall: JailKind, abi: Option<u32>) -> impl Iterator<Item = &'static str> {
    let is_only = wall == JailKind::Landlock;
    let abi = abi.unwrap_or(0);
    let table = [
        (is_only && abi < SOCKETS_ABI, "Unix sockets that have a path"),
        (is_only, "names, sizes and owners of files outside (stat)"),
        (
            is_only,
            "changes of mode, owner, times and attributes of files outside (chmod, chown, utime, setxattr)",
        ),
        (is_only, "other terminals of the user (/dev/pts)"),
        (is_only, "keys in the kernel's keyring of the user"),
        (is_only, "network"),
        (abi < SCOPES_ABI, "signals to processes outside"),
        (abi < SCOPES_ABI, "abstract Unix sockets"),
    ];
    table.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, phrase)| phrase)
}

/// What is refused unless a rule grants it.
///
/// Behind namespaces what can be read is what is there, so that Landlock need not look at it. Nor at truncation, which what
/// is mounted read-only refuses: the kernel would look for that right whenever a file is opened, from the file up to the
/// directory of the rule, and tools that read many files would take a tenth longer.
fn handled(wall: JailKind) -> BitFlags<AccessFs> {
    match wall {
        JailKind::Landlock => AccessFs::from_all(HANDLED),
        JailKind::Namespace => (AccessFs::from_write(HANDLED) | AccessFs::ResolveUnix) & !AccessFs::Truncate,
    }
}

fn enforce(grants: &[Grant], handled: BitFlags<AccessFs>) -> Result<(), LandlockError> {
    let root = Path::new("/");
    let ruleset = Ruleset::default()
        .handle_access(handled)
        .and_then(|ruleset| ruleset.scope(Scope::from_all(HANDLED)))
        .and_then(Ruleset::create);
    let mut ruleset = ruleset.map_err(to_io).map_err(LandlockError::at("make Landlock rules for", root))?;
    for grant in grants {
        let Some((file, kind)) = open(&grant.path)? else { continue };
        let granted = rights(grant.rights, kind) & handled;
        if granted.is_empty() {
            continue;
        }
        let rule = PathBeneath::new(file, granted);
        match (&mut ruleset).add_rule(rule).map(drop).map_err(to_io) {
            Ok(()) => {}
            // A file of the kernel's own, like a namespace that is mounted somewhere: Landlock does not restrict those.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BADFD) => {}
            Err(error) => return Err(LandlockError::at("add a Landlock rule for", &grant.path)(error)),
        }
    }
    let status = ruleset.restrict_self().map_err(to_io);
    let status = status.map_err(LandlockError::at("enforce Landlock rules for", root))?;
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        let refused = Errno::OPNOTSUPP;
        return Err(LandlockError::at("enforce Landlock rules for", root)(refused));
    }
    Ok(())
}

/// The file of a rule, whose path is free of links: one that has become a link since is not followed. `None` for what is
/// missing and what the process cannot get to.
fn open(path: &Path) -> Result<Option<(OwnedFd, FileType)>, LandlockError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    let found = opened.and_then(|file| {
        let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
        Ok((file, kind))
    });
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => Ok(None),
        Err(errno) => Err(LandlockError::at("open", path)(errno)),
    }
}

/// The kernel knows some rights only for directories, and refuses rules that give them to other files.
fn rights(rights: Rights, kind: FileType) -> BitFlags<AccessFs> {
    let all = match rights {
        Rights::List => AccessFs::ReadDir.into(),
        Rights::Read => AccessFs::from_read(HANDLED),
        Rights::ReadAndConnect => AccessFs::from_read(HANDLED) | AccessFs::ResolveUnix,
        Rights::UseDevice => {
            make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | Truncate | IoctlDev})
        }
        // Root could make a device of the whole disk, and then read it.
        Rights::Write => AccessFs::from_all(HANDLED) & !(AccessFs::MakeChar | AccessFs::MakeBlock),
    };
    if kind == FileType::Directory { all } else { all & AccessFs::from_file(HANDLED) }
}

fn to_io(error: RulesetError) -> io::Error {
    io::Error::from_raw_os_error(*landlock::Errno::from(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_cannot_refuse_truncation_is_too_old() {
        let available = |abi| LandlockStatus::Available { effective_abi: abi, kernel_abi: None };
        let table = [
            (LandlockStatus::NotImplemented, Err("this kernel has no Landlock")),
            (LandlockStatus::NotEnabled, Err("Landlock is not enabled in this kernel")),
            (available(ABI::V1), Err("this kernel has Landlock ABI 1, and 3 is needed")),
            (available(ABI::V2), Err("this kernel has Landlock ABI 2, and 3 is needed")),
            (available(ABI::V3), Ok(3)),
            (available(ABI::V7), Ok(7)),
            (LandlockStatus::Available { effective_abi: ABI::V9, kernel_abi: Some(12) }, Ok(9)),
        ];
        for (status, want) in table {
            let found = usable_abi(abi_of(status));
            assert_eq!(found.as_ref().map_err(LandlockError::context).copied(), want);
            if let Err(error) = found {
                assert_eq!(error.to_string(), error.context());
                assert!(error.hint().is_some());
            }
        }
    }

    #[test]
    fn what_a_version_lacks_is_listed() {
        let list = |wall, abi| missing_features(wall, abi).collect::<Vec<_>>();
        let scopes = ["signals to processes outside", "abstract Unix sockets"];
        let always = [
            "names, sizes and owners of files outside (stat)",
            "changes of mode, owner, times and attributes of files outside (chmod, chown, utime, setxattr)",
            "other terminals of the user (/dev/pts)",
            "keys in the kernel's keyring of the user",
            "network",
        ];
        let sockets = ["Unix sockets that have a path"];
        assert_eq!(list(JailKind::Namespace, None), scopes);
        assert_eq!(list(JailKind::Namespace, Some(5)), scopes);
        assert_eq!(list(JailKind::Namespace, Some(6)), [""; 0]);
        assert_eq!(list(JailKind::Landlock, Some(5)), [&sockets[..], &always, &scopes].concat());
        assert_eq!(list(JailKind::Landlock, Some(7)), [&sockets[..], &always].concat());
        assert_eq!(list(JailKind::Landlock, Some(9)), always);
    }

    #[test]
    fn files_get_no_rights_of_directories_and_devices_cannot_be_made() {
        let file = rights(Rights::Write, FileType::RegularFile);
        assert!(file.contains(AccessFs::WriteFile) && !file.contains(AccessFs::MakeReg));
        let directory = rights(Rights::Write, FileType::Directory);
        assert!(directory.contains(AccessFs::MakeReg | AccessFs::Refer | AccessFs::Truncate));
        assert!(!directory.intersects(AccessFs::MakeChar | AccessFs::MakeBlock));
        assert!(!rights(Rights::Read, FileType::Directory).intersects(AccessFs::from_write(HANDLED)));
    }
}
