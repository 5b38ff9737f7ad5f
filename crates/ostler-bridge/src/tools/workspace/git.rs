//! `git_status`, `git_diff`, `git_log` and `git_show`: what git says, without running what a repository names.
//!
//! Paths are taken literally and below the workspace; commits are peeled to commits, so that no word of an agent is an
//! option, a range, or an object of another part of the repository.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path};
use std::time::Duration;

use ostler_process::workspace::harmless::{LIST_SETTINGS, SETTINGS, VARIABLES, without_filters};
use tokio_util::sync::CancellationToken;

use super::arguments::{Diff, Log, Show};
use super::beneath::Fault;
use super::output::Keep;
use super::programs::{Finished, Order, Programs, run};
use super::{MOST_ANSWER_BYTES, Outcome, exec};
use crate::event::{Barred, ProgramEnd};
use crate::route::Room;
use crate::tools::wording::Said;

/// How long git may take. What takes longer has a workspace without end before it.
const WITHIN: Duration = Duration::from_secs(60);

/// How many commits are told, unless the agent says otherwise, and at most.
const COMMITS: u64 = 20;
const MOST_COMMITS: u64 = 200;

/// What a name of a commit may have.
const MOST_NAME_BYTES: usize = 250;

/// What is kept of what git says when it fails, and of the list of settings.
const STDERR_BYTES: usize = 4 * 1024;
const LIST_BYTES: usize = 128 * 1024;

/// Beside what makes git harmless: a workspace that only looks like a repository is none, and names are told as they
/// are.
const OWN_SETTINGS: [&str; 3] =
    ["safe.bareRepository=explicit", "core.quotePath=false", "status.relativePaths=true"];

/// For everything that shows differences.
const PLAIN_DIFF: [&str; 5] =
    ["--no-color", "--no-ext-diff", "--no-textconv", "--relative", "--ignore-submodules=all"];

/// Variables of a person that say who they are to git, and where programs are.
const KEPT_VARIABLES: [&str; 2] = ["HOME", "XDG_CONFIG_HOME"];

/// A question to git.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    args: Vec<OsString>,
    /// What is said if git says nothing.
    nothing: &'static str,
}

pub(super) fn status() -> Asked {
    let args = ["status", "--short", "--branch", "--ignore-submodules=all", "--", "."];
    Asked { args: args.map(OsString::from).to_vec(), nothing: "Nothing has changed." }
}

pub(super) fn diff(given: &Diff) -> Result<Asked, Fault> {
    let mut args: Vec<OsString> = vec!["diff".into()];
    args.extend(PLAIN_DIFF.map(OsString::from));
    args.extend(given.staged.then(|| "--cached".into()));
    if given.to.is_some() && (given.from.is_none() || given.staged) {
        let words = "`to` needs a `from`, and cannot be compared with what is staged. Leave one of them out.";
        return Err(Fault::Failed(words.to_owned()));
    }
    for rev in [&given.from, &given.to].into_iter().flatten() {
        args.push(commit(rev)?);
    }
    args.extend(["--".into(), below(given.path.as_deref().unwrap_or("."))?]);
    Ok(Asked { args, nothing: "There is no difference." })
}

pub(super) fn log(given: &Log) -> Result<Asked, Fault> {
    let count = given.count.unwrap_or(COMMITS).clamp(1, MOST_COMMITS);
    let mut args: Vec<OsString> =
        ["log", "--no-color", "--no-show-signature", "--date=iso-strict"].map(OsString::from).to_vec();
    args.extend([format!("--max-count={count}").into(), "--format=%h %ad %an: %s".into()]);
    args.push(commit(given.rev.as_deref().unwrap_or("HEAD"))?);
    args.push("--".into());
    if let Some(path) = &given.path {
        args.push(below(path)?);
    }
    Ok(Asked { args, nothing: "There is no such commit." })
}

pub(super) fn show(given: &Show) -> Result<Asked, Fault> {
    let mut args: Vec<OsString> = vec!["show".into(), "--no-show-signature".into()];
    args.extend(PLAIN_DIFF.map(OsString::from));
    let mut rev = commit(&given.rev)?;
    match &given.path {
        Some(path) => {
            let path = below(path)?;
            rev.push(":./");
            rev.push(path.to_string_lossy().trim_start_matches("./"));
            args.push(rev);
        }
        None => args.extend([rev, "--".into(), ".".into()]),
    }
    Ok(Asked { args, nothing: "It is empty." })
}

/// A commit by any of its names, and nothing else.
fn commit(name: &str) -> Result<OsString, Fault> {
    let is_odd = |char: char| char.is_whitespace() || char.is_control() || char == ':';
    if name.is_empty()
        || name.len() > MOST_NAME_BYTES
        || name.starts_with(['-', '^'])
        || name.contains("..")
        || name.contains(is_odd)
    {
        let words = format!(
            "`{}` is not the name of one commit. Give a branch, a tag or a hash.",
            super::short(name)
        );
        return Err(Fault::Failed(words));
    }
    Ok(format!("{name}^{{commit}}").into())
}

/// A path that stays below the workspace. It need not be there: it may have been once.
fn below(path: &str) -> Result<OsString, Fault> {
    let barred = |why| Err(Fault::Barred { path: path.to_owned(), why });
    for part in Path::new(path).components() {
        match part {
            Component::RootDir | Component::Prefix(_) => return barred(Barred::Absolute),
            Component::ParentDir => return barred(Barred::Parent),
            Component::CurDir | Component::Normal(_) => {}
        }
    }
    Ok(if path.is_empty() { ".".into() } else { path.into() })
}

/// Asks git.
pub(super) async fn ask(
    room: &Room,
    programs: &Programs,
    asked: Asked,
    cancelled: &CancellationToken,
) -> Outcome {
    let reads_files = asked.args.first().is_some_and(|word| word == "status" || word == "diff");
    let mut filters = Vec::new();
    if reads_files {
        let listing = order(room, programs, LIST_SETTINGS.map(OsString::from).to_vec(), &[], LIST_BYTES);
        let listed = match run(room, programs, listing, cancelled).await {
            Ok(listed) => listed,
            Err(unrun) => return Outcome::failed(unrun.words()),
        };
        let names = if is_well(&listed) { without_filters(&listed.stdout.text()) } else { None };
        match names {
            Some(off) => filters = off,
            None => return Outcome { said: failed(&listed), event: None },
        }
    }
    let shown = asked.args.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let order = order(room, programs, asked.args, &filters, MOST_ANSWER_BYTES);
    match run(room, programs, order, cancelled).await {
        Ok(finished) => {
            let event = Some(exec::ran(super::short(&format!("git {shown}")), &finished));
            let said = match is_well(&finished) {
                true if finished.stdout.total() == 0 => Said::Done(asked.nothing.to_owned()),
                true if finished.stdout.is_binary() => {
                    let bytes = finished.stdout.total();
                    Said::Failed(format!("That is binary, {bytes} bytes, and is not shown."))
                }
                true => Said::Done(finished.stdout.text()),
                false => failed(&finished),
            };
            Outcome { said, event }
        }
        Err(unrun) => Outcome::failed(unrun.words()),
    }
}

fn is_well(finished: &Finished) -> bool {
    finished.ended == ProgramEnd::Code(0)
}

fn failed(finished: &Finished) -> Said {
    let said = finished.stderr.text();
    let said = said.lines().next().unwrap_or_default().trim();
    Said::Failed(match finished.ended {
        ProgramEnd::TimedOut => {
            format!(
                "git was not done within {} seconds. Ask for less: one path, fewer commits.",
                WITHIN.as_secs()
            )
        }
        ProgramEnd::Withdrawn => "The call was withdrawn.".to_owned(),
        ProgramEnd::Code(0) => {
            "This repository has settings that cannot be switched off, so git is not asked here.".to_owned()
        }
        ProgramEnd::Code(_) | ProgramEnd::Signal(_) | ProgramEnd::Unknown if said.is_empty() => {
            "git has no answer, and does not say why.".to_owned()
        }
        ProgramEnd::Code(_) | ProgramEnd::Signal(_) | ProgramEnd::Unknown => {
            format!("git has no answer: {said}")
        }
    })
}

fn order(room: &Room, programs: &Programs, asked: Vec<OsString>, filters: &[String], most: usize) -> Order {
    let mut args: Vec<OsString> = vec!["--no-pager".into(), "--literal-pathspecs".into()];
    let settings = SETTINGS.into_iter().chain(OWN_SETTINGS).chain(filters.iter().map(String::as_str));
    for setting in settings {
        args.extend(["-c".into(), setting.into()]);
    }
    args.extend(asked);
    Order {
        program: "git".into(),
        args,
        env: variables(programs.env()),
        cwd: room.terms.workspace.clone(),
        within: WITHIN,
        stdout: Keep::Head(most),
        stderr: Keep::Head(STDERR_BYTES),
    }
}

/// What git finds around itself. Absolute places only: `.` on the `PATH` would be the workspace.
fn variables(ours: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let find = |wanted: &str| ours.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    let folders = find("PATH").map(OsString::as_os_str).unwrap_or(OsStr::new("/usr/bin:/bin"));
    let folders = std::env::split_paths(folders).filter(|folder| folder.is_absolute());
    let path = std::env::join_paths(folders).unwrap_or_default();
    let kept = KEPT_VARIABLES.into_iter().filter_map(|name| Some((name.into(), find(name)?.clone())));
    let set = VARIABLES.into_iter().chain([("LC_ALL", "C")]);
    let set = set.map(|(name, value)| (name.into(), value.into()));
    [("PATH".into(), path)].into_iter().chain(kept).chain(set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_of_an_agent_is_an_option_a_range_or_a_way_out() {
        for name in ["", "-p", "--output=x", "a..b", "^main", "HEAD:x", "a b", "a\nb", &"x".repeat(300)] {
            assert!(commit(name).is_err(), "{name}");
        }
        for name in ["HEAD", "HEAD~2", "v1.0", "origin/main", "@{u}"] {
            assert_eq!(commit(name).unwrap(), OsString::from(format!("{name}^{{commit}}")));
        }
        for (path, why) in [("/etc", Barred::Absolute), ("a/../../b", Barred::Parent)] {
            assert_eq!(below(path), Err(Fault::Barred { path: path.to_owned(), why }));
        }
        assert_eq!(below("a/./b").unwrap(), "a/./b");
    }

    #[test]
    fn git_finds_no_program_in_the_workspace_and_no_key_in_its_environment() {
        let ours = [("PATH", ".:/bin::/usr/bin:bin"), ("HOME", "/h"), ("API_KEY", "k"), ("GIT_DIR", "/x")];
        let ours = ours.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let found = variables(&ours);
        let names: Vec<_> = found.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(found[0].1, "/bin:/usr/bin");
        assert!(
            names.contains(&"HOME") && !names.contains(&"API_KEY") && !names.contains(&"GIT_DIR"),
            "{names:?}"
        );
    }
}
