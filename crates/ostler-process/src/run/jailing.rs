//! The wall around the processes of a run: the agent, and what the host runs for it.
//!
//! The first process builds it, and the others get behind the same one: what one of them writes to a cache, the next
//! one finds there.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ostler_agent::jail::{Access, JailKind, JailPolicy, JailReport, Rule, RunJail};
use tokio::sync::Mutex;

use crate::contain::{Ahead, Contained, Spawn, StartError};
use crate::file_scope::FileScope;
use crate::jail::facts::{copy_state, create_directories, real_path};
use crate::jail::layers::Layers;
use crate::jail::{Canary, Jail, Namespaces, SignInSync};

/// The wall around the processes of a run, as it was decided.
#[derive(Debug)]
pub struct PlannedJail {
    /// Which wall.
    pub kind: JailKind,
    /// What it lets through.
    pub decision: RunJail,
    /// Which files the host opens for the processes.
    pub files: FileScope,
    /// What the processes must not reach. It is there as long as the run.
    pub canary: Canary,
    wall: Mutex<Wall>,
    /// Where empty directories are that stand in the place of masked ones.
    empty: PathBuf,
    /// Begins with the first process.
    sign_in: OnceLock<Option<SignInSync>>,
    /// Held by this run alone. Released after the namespaces in which they are mounted.
    _layers: Option<Layers>,
}

/// The wall, once the first process stands behind it.
#[derive(Debug, Default)]
struct Wall {
    /// All processes of the run share them.
    namespaces: Option<Arc<Namespaces>>,
    /// The decision that holds instead, where layers cannot be mounted.
    without_layers: Option<RunJail>,
    /// What is hidden besides: files of a repository that is not trusted, which agents would load.
    masks: Vec<PathBuf>,
}

impl PlannedJail {
    /// What is in force and what is not, once the kernel has said what it enforces.
    pub fn report(&self, mut enforced: JailReport) -> JailReport {
        enforced.not_enforced.extend(self.decision.not_enforced.iter().cloned());
        enforced
    }

    /// A wall that no process stands behind yet.
    pub fn new(kind: JailKind, decision: RunJail, canary: Canary) -> Self {
        let (wall, sign_in) = (Mutex::default(), OnceLock::new());
        let files = FileScope::Anywhere;
        Self { kind, decision, files, canary, wall, empty: PathBuf::new(), sign_in, _layers: None }
    }

    /// With only these files opened for the processes.
    pub fn with_files(self, files: FileScope) -> Self {
        Self { files, ..self }
    }

    /// With the layers that its decision names.
    pub fn with_layers(self, layers: Option<Layers>) -> Self {
        Self { _layers: layers, ..self }
    }

    /// With these files and directories hidden besides. An empty directory below `private` is in the place of each
    /// directory: an agent may want to write there.
    pub fn with_masks(mut self, masks: Vec<PathBuf>, private: &Path) -> Self {
        self.wall.get_mut().masks = masks;
        self.empty = private.join("masks");
        self
    }

    /// With a directory of its own in the place of `path`, which exists: what is written there is in `source`. Only
    /// namespaces can do that.
    pub fn with_own_directory(mut self, path: PathBuf, source: PathBuf) -> Self {
        if self.kind == JailKind::Namespace {
            self.decision.create.push(source.clone());
            self.decision.policy.rules.push(Rule { path, access: Access::Substitute { source } });
        }
        self
    }

    /// Hides these files from the processes that are started from now on. If they are visible behind the wall that stands,
    /// the next process builds another one; without layers, which no two walls can share.
    pub async fn mask(&self, masks: Vec<PathBuf>) {
        let mut wall = self.wall.lock().await;
        if masks.iter().all(|mask| wall.masks.contains(mask)) {
            return;
        }
        if wall.namespaces.take().is_some() && wall.without_layers.is_none() {
            wall.without_layers = Some(self.decision.without_layers());
        }
        wall.masks.extend(masks);
    }

    /// Starts a process behind the wall, with its environment changed as the wall needs it. Dropping the future ends what
    /// was started so far.
    pub async fn start(&self, spawn: Spawn<'_>, ahead: Option<Ahead>) -> Result<Contained, StartError> {
        if self.kind == JailKind::Landlock {
            return Contained::start_ahead(self.jailed(spawn, &self.decision, &[])?, ahead).await;
        }
        // Others wait until the first one has built the wall.
        let mut wall = self.wall.lock().await;
        let decision = wall.without_layers.as_ref().unwrap_or(&self.decision);
        if let Some(namespaces) = wall.namespaces.clone() {
            let spawn = self.jailed(spawn, decision, &wall.masks)?;
            drop(wall);
            return Contained::start_joined(spawn, ahead, &namespaces).await;
        }
        let first = Contained::start_ahead(self.jailed(spawn.clone(), decision, &wall.masks)?, ahead).await;
        let mut child = match first {
            Err(StartError::Layer { detail, source }) if wall.without_layers.is_none() => {
                tracing::debug!(target: "ostler::run", detail, %source, "layers do not work here");
                let Wall { without_layers, masks, .. } = &mut *wall;
                let decision = without_layers.insert(self.decision.without_layers());
                Contained::start_ahead(self.jailed(spawn, decision, masks)?, None).await?
            }
            first => first?,
        };
        wall.namespaces = child.take_namespaces().map(Arc::new);
        Ok(child)
    }

    fn jailed<'a>(
        &self,
        mut spawn: Spawn<'a>,
        decision: &RunJail,
        masks: &[PathBuf],
    ) -> Result<Spawn<'a>, StartError> {
        let fault = |detail: &str| {
            let (kind, detail) = (self.kind, detail.to_owned());
            move |source| StartError::Jail { kind, detail, source: Some(source) }
        };
        let make = |folders: &[PathBuf]| {
            create_directories(folders).map_err(fault("could not make its directories"))
        };
        make(&decision.create)?;
        copy_state(&decision.copies).map_err(fault("could not copy the agent's own files"))?;
        self.share_sign_in();
        decision.environment.change(&mut spawn.env);
        let mut policy = decision.policy.clone();
        for (index, path) in masks.iter().enumerate() {
            let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
            let access = match is_directory {
                true => {
                    let source = self.empty.join(index.to_string());
                    make(std::slice::from_ref(&source))?;
                    Access::Substitute { source }
                }
                false => Access::Hidden,
            };
            policy.rules.push(Rule { path: path.clone(), access });
        }
        spawn.jail = Some(Jail { kind: self.kind, policy });
        Ok(spawn)
    }

    /// Keeps the agent's sign-in in step with the user's, from the first process on. Without it a run can use the sign-in
    /// all the same.
    fn share_sign_in(&self) {
        self.sign_in.get_or_init(|| {
            let started = SignInSync::start(self.decision.sign_in.as_ref()?);
            let fault = |error: &io::Error| {
                tracing::warn!(target: "ostler::run", %error, "the sign-in of a jailed agent is not kept in step");
            };
            started.inspect_err(fault).ok()
        });
    }

    /// Changes the variables of a process as the wall needs it. Idempotent.
    pub fn change_environment(&self, env: &mut Vec<(OsString, OsString)>) {
        self.decision.environment.change(env);
    }

    /// Where the host has what a process behind the wall finds at `path`.
    pub fn host_path(&self, path: &Path) -> PathBuf {
        self.substitutes().map_or_else(|| path.to_owned(), |policy| policy.host_path(path))
    }

    /// The policy, if other files are in the place of some.
    pub fn substitutes(&self) -> Option<&JailPolicy> {
        (self.kind == JailKind::Namespace).then_some(&self.decision.policy)
    }

    /// The program that a command would start outside, if it is not visible inside.
    pub fn hidden_program(
        &self,
        program: &str,
        env: &[(OsString, OsString)],
        workspace: &Path,
    ) -> Option<PathBuf> {
        let folders = env.iter().find(|(name, _)| name == "PATH").map(|(_, folders)| folders);
        self.hidden_path(&which::which_in(program, folders, workspace).ok()?)
    }

    /// What an absolute path leads to outside, if that is not visible inside.
    pub fn hidden_path(&self, path: &Path) -> Option<PathBuf> {
        let real = real_path(path).filter(|_| path.is_absolute())?;
        (!self.decision.shows(&real)).then_some(real)
    }
}

/// Starts a process behind the wall of its run, if that has one.
pub async fn start_in(
    jail: Option<&PlannedJail>,
    spawn: Spawn<'_>,
    ahead: Option<Ahead>,
) -> Result<Contained, StartError> {
    match jail {
        Some(jail) => jail.start(spawn, ahead).await,
        None => Contained::start_ahead(spawn, ahead).await,
    }
}
