//! `ostler __shim`: waits until it is contained, then becomes the agent.
//!
//! It has a session of its own, so that an agent that signals its process group does not hit the guardian; and it dies
//! with the guardian, which has one thread and so cannot lose the one that this signal is tied to.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, fchdir, getppid, ioctl_tiocsctty, set_parent_process_death_signal, setsid,
};
use rustix::termios::isatty;

use super::plan::{self, Plan};
use super::wire::{self, Entry, Refusal, ShimBrief, ShimReport, Step};
use crate::jail::{self, Entrance, Jail, Namespaces};
use crate::working_directory::set_pwd;

/// Where an ELF header ends that says for which machine it is.
const MACHINE_END: usize = 20;

/// What is the same in all programs for one machine: the class, the byte order, and the machine itself.
const CLASS: std::ops::Range<usize> = 4..6;
const MACHINE: std::ops::Range<usize> = 18..MACHINE_END;

/// Becomes the agent, and so returns only if that failed.
pub(super) fn shim() -> ExitCode {
    // A copy that closes when the agent begins, which is how the guardian knows.
    let status = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map(UnixStream::from);
    let Ok(mut status) = status else { return ExitCode::FAILURE };
    let Err(refusal) = run(&mut status);
    if let Some(refusal) = refusal {
        // Without a guardian nobody needs to know.
        let _ = report(&mut status, &ShimReport::Refused(refusal));
    }
    ExitCode::FAILURE
}

/// Fails without a refusal when there is no guardian any more.
fn run(status: &mut UnixStream) -> Result<std::convert::Infallible, Option<Refusal>> {
    let at = |step| move |error: io::Error| Some(refused(step, &error));
    setsid().map_err(io::Error::from).map_err(at(Step::Contain))?;
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(io::Error::from)
        .map_err(at(Step::Contain))?;
    let received = wire::receive::<ShimBrief>(&*status).map_err(at(Step::Guard))?;
    let Some((brief, descriptors)) = received else { return Err(None) };
    // It may have died before the signal was asked for.
    if getppid().map(Pid::as_raw_pid) != Some(brief.guardian) {
        return Err(None);
    }
    let lost = || Some(refused(Step::Guard, &Errno::BADF.into()));
    let mut descriptors = descriptors.into_iter();
    let Some([plan, stdin, stdout, stderr]) = take(&mut descriptors) else { return Err(lost()) };
    let entrance: Vec<OwnedFd> = descriptors.collect();
    let mut plan = plan::read(plan).map_err(at(Step::Guard))?;
    let mut go = [0];
    if status.read(&mut go).map_err(at(Step::Guard))? == 0 {
        return Err(None);
    }
    if isatty(&stdin) {
        // One that was made for it. The session is new, so that it has none yet.
        ioctl_tiocsctty(&stdin).map_err(io::Error::from).map_err(at(Step::Contain))?;
    }
    // Our own program need not be there inside.
    let own = head_of_ourselves();
    if let Some(jail) = &plan.jail {
        enter(jail, (brief.entry, entrance), status)?;
    }
    enter_folder(&plan).map_err(at(Step::Folder))?;
    // Asked of the kernel, so that it is the directory that the agent is really in.
    set_pwd(&mut plan.environment, std::env::current_dir());
    check(&plan, &own).map_err(at(Step::Program))?;
    let mut command = Command::new(&plan.program);
    command.args(&plan.arguments).env_clear().envs(plan.environment);
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    Err(Some(refused(Step::Program, &command.exec())))
}

/// Makes the folder the working directory. The policy of a jail was decided for this path with its links resolved; what has
/// become a link since then leads to something that the policy does not grant.
fn enter_folder(plan: &Plan) -> io::Result<()> {
    if plan.jail.is_none() {
        return std::env::set_current_dir(&plan.folder);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat2(CWD, &plan.folder, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    Ok(fchdir(folder)?)
}

/// The next so many, or none.
fn take<const COUNT: usize>(descriptors: &mut impl Iterator<Item = OwnedFd>) -> Option<[OwnedFd; COUNT]> {
    let taken: Vec<OwnedFd> = descriptors.take(COUNT).collect();
    taken.try_into().ok()
}

/// Sets the wall, or gets behind the one of an earlier process, and reports it. The guardian writes the maps, because only a process outside may map more than one user.
fn enter(
    jail: &Jail,
    (entry, mut descriptors): (Entry, Vec<OwnedFd>),
    status: &mut UnixStream,
) -> Result<(), Refusal> {
    let (outlet, earlier) = match entry {
        Entry::New => (None, None),
        Entry::NewNetwork => (descriptors.pop(), None),
        Entry::Earlier => (None, Namespaces::from_fds(descriptors)),
    };
    let entrance = match &earlier {
        Some(earlier) => Entrance::Earlier(earlier),
        None => Entrance::New { outlet: outlet.as_ref().map(OwnedFd::as_fd) },
    };
    let entered = jail::enter(jail, &entrance, || {
        report(status, &ShimReport::NeedsIdMaps)?;
        let mut go = [0];
        status.read_exact(&mut go)
    });
    match entered {
        Ok(found) => report(status, &ShimReport::Jailed(found)).map_err(|error| refused(Step::Guard, &error)),
        Err(error) => {
            let step = if error.is_about_layer() { Step::Layer } else { Step::Jail };
            // Its cause is the error number.
            Err(Refusal { step, errno: error.errno(), detail: Some(error.to_string()) })
        }
    }
}

fn report(status: &mut UnixStream, report: &ShimReport) -> io::Result<()> {
    status.write_all(&wire::line(report)?)
}

fn refused(step: Step, error: &io::Error) -> Refusal {
    Refusal { step, errno: error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()), detail: None }
}

/// Says what the C library would hide: it gives a file that the kernel does not know to `/bin/sh`, which then complains
/// about the first bytes of, say, a program for another machine; and it calls a folder "permission denied".
fn check(plan: &Plan, own: &[u8]) -> io::Result<()> {
    let Some(path) = found(plan) else { return Ok(()) };
    if path.is_dir() {
        return Err(Errno::ISDIR.into());
    }
    let Ok(head) = head(&path) else { return Ok(()) };
    if is_runnable(&head, own) || has_other_formats() { Ok(()) } else { Err(Errno::NOEXEC.into()) }
}

/// The file that a name without a slash means.
fn found(plan: &Plan) -> Option<PathBuf> {
    let program = Path::new(&plan.program);
    if program.components().count() != 1 || program.is_absolute() {
        return Some(program.to_owned());
    }
    let (_, folders) = plan.environment.iter().find(|(name, _)| name == "PATH")?;
    std::env::split_paths(folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = vec![0; MACHINE_END];
    let count = File::open(path)?.read_at(&mut head, 0)?;
    head.truncate(count);
    Ok(head)
}

fn head_of_ourselves() -> Vec<u8> {
    head(Path::new("/proc/self/exe")).unwrap_or_default()
}

/// Scripts, and programs for the machine that we are for. Programs for an older kind of the same family (i386) pass
/// too: the kernel decides.
fn is_runnable(head: &[u8], own: &[u8]) -> bool {
    let is_elf = head.starts_with(b"\x7fELF") && head.len() >= MACHINE_END;
    let part = |bytes: &[u8], range: std::ops::Range<usize>| bytes.get(range).map(<[u8]>::to_vec);
    let is_ours = part(head, CLASS) == part(own, CLASS) && part(head, MACHINE) == part(own, MACHINE);
    let is_older = part(head, CLASS).is_some_and(|class| class.first() == Some(&1));
    head.starts_with(b"#!") || (is_elf && (is_ours || is_older))
}

/// Whether somebody taught the kernel more formats (binfmt_misc); then we cannot know better.
fn has_other_formats() -> bool {
    let formats = fs::read_dir("/proc/sys/fs/binfmt_misc").into_iter().flatten().flatten();
    formats.filter(|entry| entry.file_name() != "register" && entry.file_name() != "status").count() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_kernel_runs_is_runnable() {
        let own = head_of_ourselves();
        let mut foreign = own.clone();
        foreign[MACHINE].copy_from_slice(&[0xf7, 0x7f]);
        let mut older = foreign.clone();
        older[4] = 1;
        for (head, want) in [
            (own.as_slice(), true),
            (b"#!/bin/sh\n", true),
            (&foreign, false),
            (&older, true),
            (b"\x7fELF", false),
            (b"echo no first line", false),
            (b"", false),
        ] {
            assert_eq!(is_runnable(head, &own), want, "{head:?}");
        }
    }
}
