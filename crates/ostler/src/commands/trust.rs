//! `ostler trust`: lets agents load what a repository brings, in the state that it is in now.

mod listing;

use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ostler_agent::repository_config::{effect, loaders};
use ostler_process::trust::repository::Repository;
use ostler_process::trust::store::{Snapshot, Store};
use ostler_process::trust::{Change, Inspection};
use serde::Serialize;

use crate::config::{Trust, folder};
use crate::display;
use crate::failure::Failure;
use crate::home::HomeError;
use crate::surroundings::Surroundings;
use crate::words::counted;

/// The format of the JSON.
const VERSION: u32 = 1;

/// Files that a list shows; more than a person reads are counted.
const SHOWN_FILES: usize = 100;

/// Arguments of `ostler trust`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler trust                    show what this repository brings, and ask
  ostler trust --yes ~/work/mine  trust it without a question
  ostler trust --list             what is trusted
  ostler trust --revoke ~/work/mine

Agents load hooks, plugins, MCP servers, settings and commands of a repository
only if it is trusted. Trust is bound to the content of these files: when one of
them changes, Ostler asks again. Worktrees of one repository share it. With
--json nothing is asked: the state is printed, and --yes trusts.")]
pub(crate) struct Args {
    /// The folder that agents work in [default: the current one].
    dir: Option<PathBuf>,
    /// List what is trusted.
    #[arg(long, conflicts_with_all = ["dir", "revoke", "yes"])]
    list: bool,
    /// Trust the repository no longer, in any state.
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,
    /// Trust without a question.
    #[arg(long)]
    yes: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// By which name the command was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CalledAs {
    /// `ostler trust`.
    Trust,
    /// `ostler config trust`, which asked nothing in 0.1: without a terminal it still does not.
    ConfigTrust,
}

/// Why a repository is not trusted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustUsage {
    #[error("{} cannot be trusted: {why}", .path.display())]
    Untrustable { path: PathBuf, why: String },
    #[error("nobody can be asked whether to trust {}: standard input is not a terminal", .path.display())]
    NoTerminal { path: PathBuf },
}

impl TrustUsage {
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Untrustable { .. } => "remove what is named, or make it readable".to_owned(),
            Self::NoTerminal { .. } => "add --yes to trust it without a question".to_owned(),
        })
    }
}

/// The state of a repository, for programs.
#[derive(Debug, Serialize)]
struct State<'a> {
    v: u32,
    directory: &'a Path,
    root: &'a Path,
    /// Whether all files are trusted; also if there are none.
    trusted: bool,
    files: Vec<FileState<'a>>,
    /// Why it cannot be trusted.
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct FileState<'a> {
    path: String,
    agents: Vec<&'static str>,
    effect: &'static str,
    digest: &'a str,
    /// `new`, `changed` or `removed` since it was trusted last.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'static str>,
}

/// What is trusted, for programs.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    v: u32,
    repositories: &'a [Snapshot],
    /// Folders whose `.ostler/config.toml` 0.1 trusted, whatever it says.
    projects: &'a [PathBuf],
}

/// Runs it.
pub(crate) fn run(args: &Args, called_as: CalledAs, here: &Surroundings) -> Result<ExitCode, Failure> {
    here.home.check_format().map_err(HomeError::from)?;
    if args.list {
        return list(args, here);
    }
    let dir = here.cwd.join(args.dir.as_deref().unwrap_or(Path::new("")));
    if args.revoke {
        return revoke(args, &dir, here);
    }
    let directory = folder(&dir)?;
    let inspection = here.gate().inspect(&directory);
    let store = Store::read(&here.home.trusted_repositories())?;
    let is_trusted = inspection.is_trusted(&store);
    let changes = inspection.changes(&store).unwrap_or_default();
    if !is_trusted && let Some(problem) = &inspection.problem {
        let failure = TrustUsage::Untrustable { path: directory.clone(), why: problem.to_string() };
        if args.json && !args.yes {
            show_json(&directory, &inspection, is_trusted, &changes)?;
            return Ok(ExitCode::SUCCESS);
        }
        return Err(failure.into());
    }
    if args.json {
        let is_trusted = is_trusted || (args.yes && trust(&inspection, here)?);
        show_json(&directory, &inspection, is_trusted, &changes)?;
        return Ok(ExitCode::SUCCESS);
    }
    if inspection.is_empty() {
        let text = format!("{} brings nothing that agents would load.\n", directory.display());
        return display::text(&text).map(|()| ExitCode::SUCCESS);
    }
    display::text(&listing::listing(&directory, &inspection, &changes))?;
    if is_trusted {
        return display::text("\nIt is trusted.\n").map(|()| ExitCode::SUCCESS);
    }
    let is_confirmed = match (args.yes, io::stdin().is_terminal(), called_as) {
        (true, ..) | (false, false, CalledAs::ConfigTrust) => true,
        (false, true, _) => confirm("\nTrust it, and let agents load these files? [y/N] ")?,
        (false, false, CalledAs::Trust) => return Err(TrustUsage::NoTerminal { path: directory }.into()),
    };
    if !is_confirmed {
        display::text("It is not trusted.\n")?;
        return Ok(ExitCode::FAILURE);
    }
    trust(&inspection, here)?;
    display::text("\nIt is trusted now, until one of these files changes.\n")?;
    Ok(ExitCode::SUCCESS)
}

/// Stores that the repository is trusted as it was inspected, not as it may be by now.
pub(crate) fn trust(inspection: &Inspection, here: &Surroundings) -> Result<bool, Failure> {
    here.home.create()?;
    Store::change(&here.home.trusted_repositories(), |store| store.add(inspection.snapshots()))?;
    Ok(true)
}

/// Asks a question at the terminal. Anything but yes is no.
pub(crate) fn confirm(question: &str) -> Result<bool, Failure> {
    let mut err = display::stderr();
    err.write_all(question.as_bytes()).and_then(|()| err.flush()).map_err(Failure::Output)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(Failure::Output)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// What a repository brings, as `ostler run` shows it too.
pub(crate) fn listing(
    directory: &Path,
    inspection: &Inspection,
    here: &Surroundings,
) -> Result<String, Failure> {
    let store = Store::read(&here.home.trusted_repositories())?;
    let changes = inspection.changes(&store).unwrap_or_default();
    Ok(listing::listing(directory, inspection, &changes))
}

fn show_json(
    directory: &Path,
    inspection: &Inspection,
    trusted: bool,
    changes: &[(String, Change)],
) -> Result<(), Failure> {
    let loaders = loaders();
    let mut files = Vec::new();
    for place in inspection.places.iter().rev() {
        for (path, digest) in &place.files {
            let shown = inspection.shown(place, path);
            let by: Vec<_> =
                loaders.iter().filter_map(|loader| Some((loader, effect(loader, path)?))).collect();
            files.push(FileState {
                agents: by.iter().map(|(loader, _)| loader.name).collect(),
                effect: by.first().map_or("", |(_, entry)| entry.effect),
                digest,
                change: changes.iter().find(|(of, _)| *of == shown).map(|(_, change)| change.name()),
                path: shown,
            });
        }
    }
    display::json(&State {
        v: VERSION,
        directory,
        root: &inspection.repository.root,
        trusted,
        files,
        problem: inspection.problem.as_ref().map(ToString::to_string),
    })
}

fn list(args: &Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    let store = Store::read(&here.home.trusted_repositories())?;
    let before = Trust::read(&here.home.trusted())?;
    if args.json {
        let (repositories, projects) = (store.snapshots(), before.projects());
        display::json(&Listed { v: VERSION, repositories, projects })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for snapshot in store.snapshots() {
        let directory = match snapshot.directory.as_str() {
            "" => String::new(),
            directory => format!(", in {directory}"),
        };
        let files = counted(snapshot.files.len() as u64, "file");
        let (repository, at) = (snapshot.repository.display(), &snapshot.trusted_at);
        let _ = writeln!(text, "{repository}{directory}: {files}, {}, {at}", short_hash(&snapshot.hash));
    }
    for project in before.projects() {
        let _ = writeln!(text, "{}: only .ostler/config.toml, by its path", project.display());
    }
    if text.is_empty() {
        text.push_str("Nothing is trusted.\n");
    }
    display::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The beginning of a hash, as people tell them apart.
fn short_hash(hash: &str) -> &str {
    hash.get(..19).unwrap_or(hash)
}

fn revoke(args: &Args, dir: &Path, here: &Surroundings) -> Result<ExitCode, Failure> {
    here.home.create()?;
    // It may no longer exist.
    let directory = folder(dir).unwrap_or_else(|_| dir.to_owned());
    let repository = Repository::of(&directory);
    let named = [repository.name(), repository.root.clone(), repository.root.join(".git"), directory.clone()];
    let removed = Store::change(&here.home.trusted_repositories(), |store| {
        named.iter().map(|name| store.remove(name)).sum::<usize>()
    })?;
    let was_listed = Trust::change(&here.home.trusted(), |trust| {
        let of_root = trust.remove(&repository.root);
        trust.remove(&directory) || of_root
    })?;
    if args.json {
        let revoked = removed > 0 || was_listed;
        display::json(&serde_json::json!({"v": VERSION, "directory": directory, "revoked": revoked}))?;
        return Ok(ExitCode::SUCCESS);
    }
    display::text(&format!("{} is not trusted.\n", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}
