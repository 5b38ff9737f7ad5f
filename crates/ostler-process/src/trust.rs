//! Whether the user trusts what a repository brings for an agent. The lists of such files are `ostler-agent`'s
//! `repository_config`; here they are found, hashed, and compared with what the user has trusted before.
//!
//! - [`repository`]: which repository a directory belongs to.
//! - [`scan`]: which files it brings, with their digests. Bounded; what cannot be read cannot be trusted.
//! - [`store`]: what the user has trusted.
//! - `instructions`: text of the repository for an agent that is kept from reading it by itself.
//!
//! A decision is taken at every start of a process, because an agent may have changed the files since the one before.

mod instructions;
pub mod repository;
pub mod scan;
pub mod store;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ostler_agent::agent::Agent;
use ostler_agent::repository_config::{
    Loader, Masking, OSTLER, RepositoryTrust, Stop, Trusted, Untrusted, effect, loaders,
};

use repository::Repository;
use scan::{Budget, Problem};
use store::{Snapshot, Store, TrustError};

/// Decides whether agents may load what a repository brings.
#[derive(Debug, Clone)]
pub struct Gate {
    /// Where the user's trust is kept. It need not exist.
    pub store: PathBuf,
    /// The user's home directory, and that of a rehearsal: what is there is not a repository's.
    pub homes: Vec<PathBuf>,
    /// Whether files that no option of an agent stops are masked where it runs.
    pub masking: Masking,
    /// Whose instructions are read for an agent that may not read them itself.
    pub instructions: InstructionScope,
}

/// From where instructions are read for an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InstructionScope {
    /// The repository around the workspace.
    #[default]
    Repository,
    /// The workspace alone: an agent of a tenant sees nothing above it.
    Workspace,
}

/// Whether an agent may load what a repository brings for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// There is nothing.
    Nothing,
    /// It may.
    Trusted(Trusted),
    /// It may not.
    Untrusted(Untrusted),
}

impl Decision {
    /// The same, for a launch.
    pub fn as_trust(&self) -> RepositoryTrust<'_> {
        match self {
            Self::Nothing => RepositoryTrust::Nothing,
            Self::Trusted(trusted) => RepositoryTrust::Trusted(trusted),
            Self::Untrusted(untrusted) => RepositoryTrust::Untrusted(untrusted),
        }
    }

    /// What must be hidden from the agent, because no option of it stops it from loading that.
    pub fn masks(&self) -> Vec<PathBuf> {
        match self {
            Self::Nothing | Self::Trusted(_) => Vec::new(),
            Self::Untrusted(untrusted) => untrusted.masks.clone(),
        }
    }

    /// What a person should know, if something is not loaded.
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::Nothing | Self::Trusted(_) => None,
            Self::Untrusted(untrusted) => Some(untrusted.warning()),
        }
    }
}

/// What a repository brings, for all agents.
#[derive(Debug)]
pub struct Inspection {
    /// The repository.
    pub repository: Repository,
    /// What is found in the workspace and in each directory above it, the workspace first.
    pub places: Vec<Place>,
    /// Why not all of it could be read.
    pub problem: Option<Problem>,
}

/// What one directory of a repository brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The directory.
    pub directory: PathBuf,
    /// The name of the repository in the store.
    pub repository: PathBuf,
    /// The directory, relative to the root of the repository.
    pub relative: String,
    /// The digest of each file, by its path relative to the directory.
    pub files: BTreeMap<String, String>,
}

/// How a file differs from what was trusted last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It was not there.
    New,
    /// It was another.
    Changed,
    /// It is gone.
    Removed,
}

impl Change {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }
}

impl Inspection {
    /// Whether the repository brings nothing.
    pub fn is_empty(&self) -> bool {
        self.problem.is_none() && self.places.iter().all(|place| place.files.is_empty())
    }

    /// A path as it is shown: relative to the root of the repository.
    pub fn shown(&self, place: &Place, path: &str) -> String {
        self.repository.shown(&place.directory.join(path))
    }

    /// Every file as it is shown, with its path in its directory.
    pub fn files(&self) -> Vec<(String, &str)> {
        let mut files = Vec::new();
        for place in self.places.iter().rev() {
            files.extend(place.files.keys().map(|path| (self.shown(place, path), path.as_str())));
        }
        files
    }

    /// What is different from what was trusted last in the same directories; nothing if none of it was.
    pub fn changes(&self, store: &Store) -> Option<Vec<(String, Change)>> {
        let last: Vec<_> = self.places.iter().map(|place| (place, store.last(place))).collect();
        if last.iter().all(|(_, snapshot)| snapshot.is_none()) {
            return None;
        }
        let mut changes = Vec::new();
        let none = BTreeMap::new();
        for (place, snapshot) in last.into_iter().rev() {
            let before = snapshot.map_or(&none, |snapshot| &snapshot.files);
            for (path, digest) in &place.files {
                match before.get(path) {
                    None => changes.push((self.shown(place, path), Change::New)),
                    Some(known) if known != digest => {
                        changes.push((self.shown(place, path), Change::Changed));
                    }
                    Some(_) => {}
                }
            }
            let gone = before.keys().filter(|path| !place.files.contains_key(*path));
            changes.extend(gone.map(|path| (self.shown(place, path), Change::Removed)));
        }
        Some(changes)
    }

    /// Whether all of it is trusted.
    pub fn is_trusted(&self, store: &Store) -> bool {
        self.problem.is_none() && self.places.iter().all(|place| store.trusts(place, |_| true))
    }

    /// What is to be stored so that all of it is trusted.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.places.iter().filter(|place| !place.files.is_empty()).map(Snapshot::of).collect()
    }
}

impl Gate {
    /// With the trust that is stored there, for a user with this home, and nothing masked.
    pub fn new(store: PathBuf, home: Option<PathBuf>) -> Self {
        let (masking, instructions) = (Masking::Unavailable, InstructionScope::Repository);
        Self { store, homes: home.into_iter().collect(), masking, instructions }
    }

    /// With another home besides.
    pub fn with_home(mut self, home: PathBuf) -> Self {
        self.homes.push(home);
        self
    }

    /// What the repository of a directory brings, in it and above it. The directory is absolute, with links resolved.
    pub fn inspect(&self, workspace: &Path) -> Inspection {
        let repository = Repository::of(workspace);
        let homes: Vec<PathBuf> = self.homes.iter().filter_map(|home| home.canonicalize().ok()).collect();
        let (mut budget, mut problem, mut places) = (Budget::default(), None, Vec::new());
        for directory in repository.directories(workspace) {
            if homes.iter().any(|home| home == directory) {
                continue;
            }
            let found = scan::scan(directory, &mut budget);
            let (identity, relative) = repository.place(directory);
            let place =
                Place { directory: directory.to_owned(), repository: identity, relative, files: found.files };
            if problem.is_none() {
                problem = found
                    .problem
                    .map(|found| Problem { shown: repository.shown(&directory.join(&found.path)), ..found });
            }
            places.push(place);
        }
        Inspection { repository, places, problem }
    }

    /// Whether an agent that works there may load what is for it. Reads the store only if there is something.
    pub fn decide(&self, agent: &dyn Agent, workspace: &Path) -> Result<Decision, TrustError> {
        let name = agent.package().slot;
        let loaders = loaders();
        let Some(loader) = loaders.iter().find(|loader| loader.name == name) else {
            return Ok(Decision::Nothing);
        };
        let inspection = self.inspect(workspace);
        let problem = inspection.problem.as_ref().filter(|problem| problem.concerns(loader));
        let files = files_for(loader, &inspection, problem);
        if files.is_empty() {
            return Ok(Decision::Nothing);
        }
        let directories = inspection.repository.trusted_directories(workspace);
        let is_trusted = problem.is_none() && {
            let store = Store::read(&self.store)?;
            let is_loaded = |path: &str| effect(loader, path).is_some();
            inspection.places.iter().all(|place| store.trusts(place, is_loaded))
        };
        if is_trusted {
            return Ok(Decision::Trusted(Trusted { directories }));
        }
        let only_masked = files.iter().filter(|(_, stop)| *stop == Stop::Mask);
        Ok(Decision::Untrusted(Untrusted {
            only_masked: only_masked.map(|(file, _)| file.clone()).collect(),
            problem: problem.map(Problem::to_string),
            instructions: self.read_instructions(agent, &inspection.repository, workspace),
            directories,
            directory: workspace.to_owned(),
            masking: self.masking,
            masks: masks_for(loader, &inspection, problem),
            files: files.into_iter().map(|(file, _)| file).collect(),
        }))
    }

    fn read_instructions(
        &self,
        agent: &dyn Agent,
        repository: &Repository,
        workspace: &Path,
    ) -> Option<String> {
        let files = agent.instruction_files();
        match self.instructions {
            InstructionScope::Repository => instructions::read(files, repository, workspace),
            InstructionScope::Workspace => instructions::read(files, &Repository::at(workspace), workspace),
        }
    }

    /// Whether the user trusts a project's own configuration of Ostler, with this content.
    pub fn trusts_config(&self, project: &Path, path: &str, content: &[u8]) -> Result<bool, TrustError> {
        let Ok(project) = project.canonicalize() else { return Ok(false) };
        let Ok(digest) = scan::digest_of(&project, path, content) else { return Ok(false) };
        let (repository, relative) = Repository::of(&project).place(&project);
        let files = BTreeMap::from([(path.to_owned(), digest)]);
        let place = Place { directory: project, repository, relative, files };
        let loaders = loaders();
        let is_own =
            |path: &str| loaders.iter().any(|loader| loader.name == OSTLER && effect(loader, path).is_some());
        Ok(Store::read(&self.store)?.trusts(&place, is_own))
    }
}

/// The files and directories to hide from a program that no option stops: the outermost name of each, so that what is
/// added beside it is hidden too.
fn masks_for(loader: &Loader, inspection: &Inspection, problem: Option<&Problem>) -> Vec<PathBuf> {
    let mut masks = Vec::new();
    for place in &inspection.places {
        let stopped = place
            .files
            .keys()
            .filter(|path| effect(loader, path).is_some_and(|entry| entry.stop == Stop::Mask));
        let unread = problem.iter().map(|problem| &problem.path);
        let outermost = |path: &String| path.split('/').next().map(|name| place.directory.join(name));
        masks.extend(stopped.chain(unread).filter_map(outermost));
    }
    masks.sort();
    masks.dedup();
    masks
}

/// The files that a program loads, as they are shown, with what stops it.
fn files_for(loader: &Loader, inspection: &Inspection, problem: Option<&Problem>) -> Vec<(String, Stop)> {
    let mut files: Vec<(String, Stop)> = Vec::new();
    for (shown, path) in inspection.files() {
        files.extend(effect(loader, path).map(|entry| (shown, entry.stop)));
    }
    if let Some(problem) = problem
        && !files.iter().any(|(file, _)| *file == problem.shown)
    {
        // What is not known may be of the worst kind.
        let stop = loader
            .entries
            .iter()
            .find(|entry| entry.stop == Stop::Mask)
            .map_or(Stop::Options, |_| Stop::Mask);
        let stop = effect(loader, &problem.path).map_or(stop, |entry| entry.stop);
        files.push((problem.shown.clone(), stop));
    }
    files
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
