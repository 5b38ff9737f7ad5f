//! What an agent keeps on disk for itself, and what of it a run may change.

use std::path::{Path, PathBuf};

/// By what an agent finds its own files.
#[derive(Clone, Copy)]
pub struct StatePlaces<'a> {
    /// Its home directory.
    pub home: &'a Path,
    /// The variables that it is started with.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The directory it works in: links resolved.
    pub workspace: &'a Path,
}

impl StatePlaces<'_> {
    /// The directory that a variable names, or one below the home directory. A relative value is not one: what it names
    /// depends on where the agent is.
    pub(crate) fn folder(&self, variable: &str, below_home: &str) -> PathBuf {
        self.named(variable).unwrap_or_else(|| self.home.join(below_home))
    }

    /// The path that a variable names.
    pub(crate) fn named(&self, variable: &str) -> Option<PathBuf> {
        (self.variable)(variable).map(PathBuf::from).filter(|path| path.is_absolute())
    }
}

/// What an agent keeps on disk for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentState {
    /// Its directories. What is in them and in none of the entries is [`StateList::Settings`]: a setting may name a script
    /// anywhere in there.
    pub directories: Vec<PathBuf>,
    /// Those of its directories that are written through as a whole, because the records of sessions in them are a
    /// database, whose files come and go. What a later start obeys must not be in them.
    pub databases: Vec<PathBuf>,
    /// Files and directories in or beside them, each in the list that it belongs to.
    pub entries: Vec<StateEntry>,
    /// Directories that it makes itself when they are missing, and that must exist before it starts to be granted.
    pub create: Vec<PathBuf>,
    /// The sign-in that its processes refresh under a lock.
    pub sign_in: Option<SignIn>,
}

/// A sign-in that processes refresh under a lock: a directory beside the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignIn {
    /// The file with the tokens.
    pub file: PathBuf,
    /// The variable that names the directory of the file and of its locks.
    pub variable: &'static str,
    /// The names of the locks.
    pub locks: &'static [&'static str],
}

/// A file or directory of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateEntry {
    /// Where. With [`StateForm::Prefix`], the beginning of the path.
    pub path: PathBuf,
    /// What it stands for.
    pub form: StateForm,
    /// How a run may change it.
    pub list: StateList,
}

/// What a path of an agent's state stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateForm {
    /// One file.
    File,
    /// A directory with all in it.
    Directory,
    /// Every file whose path begins like this: a database with its log and index, of any version.
    Prefix,
}

/// How a run may change a file of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateList {
    /// Written through: refreshed tokens rotate, and a lost refresh signs the user out.
    Credentials,
    /// Written through: session records, of this project where they can be told apart.
    Sessions,
    /// Private per run, and not written by a run: settings and instructions that the agent obeys at its next start.
    Settings,
    /// Private per run, and empty at first: caches, locks, process ids.
    Private,
    /// Private per run, and at first a copy of the user's: what an agent reads and writes, trust entries among it.
    Copied,
    /// Hidden: session records of other projects.
    Hidden,
}

impl StateList {
    /// Whether changes reach the user's own files.
    pub fn is_written_through(self) -> bool {
        match self {
            Self::Credentials | Self::Sessions => true,
            Self::Settings | Self::Private | Self::Copied | Self::Hidden => false,
        }
    }
}

impl AgentState {
    /// Adds the names below `folder` to a list. A name that ends in `/` is a directory, in `*` a beginning.
    pub(crate) fn add(&mut self, list: StateList, folder: &Path, names: &[&str]) {
        self.entries.extend(names.iter().map(|name| {
            let (name, form) = match (name.strip_suffix('/'), name.strip_suffix('*')) {
                (Some(name), _) => (name, StateForm::Directory),
                (None, Some(name)) => (name, StateForm::Prefix),
                (None, None) => (*name, StateForm::File),
            };
            StateEntry { path: folder.join(name), form, list }
        }));
    }

    /// The list that a path belongs to; `None` if it is none of the agent's.
    pub fn list_of(&self, path: &Path) -> Option<StateList> {
        let holds = |entry: &&StateEntry| match entry.form {
            StateForm::File => path == entry.path,
            StateForm::Directory => path.starts_with(&entry.path),
            StateForm::Prefix => {
                path.as_os_str().as_encoded_bytes().starts_with(entry.path.as_os_str().as_encoded_bytes())
            }
        };
        let entries = self.entries.iter().filter(holds);
        let depth = |path: &Path| path.components().count();
        let deepest = entries.max_by_key(|entry| depth(&entry.path));
        let inside = self.directories.iter().filter(|folder| path.starts_with(folder));
        match (deepest, inside.max_by_key(|folder| depth(folder))) {
            (Some(entry), Some(folder)) if depth(&entry.path) < depth(folder) => Some(StateList::Settings),
            (Some(entry), _) => Some(entry.list),
            (None, Some(_)) => Some(StateList::Settings),
            (None, None) => None,
        }
    }
}
