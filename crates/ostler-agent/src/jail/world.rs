//! A machine for tests: which paths exist, which are links.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{
    CacheLayers, ConfigWrites, GitFacts, Grant, JailFacts, JailKind, JailLevel, JailRefusal, Repository,
    Resident, RunJail,
};
use crate::agent::Agent;
use crate::agents::Claude;

#[derive(Clone)]
pub(super) struct World {
    pub(super) kind: JailKind,
    pub(super) agent: &'static dyn Agent,
    pub(super) resident: Resident,
    pub(super) level: JailLevel,
    pub(super) config_writes: ConfigWrites,
    pub(super) paths: Vec<PathBuf>,
    pub(super) links: BTreeMap<PathBuf, PathBuf>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) workspace: PathBuf,
    pub(super) git: GitFacts,
    pub(super) home: PathBuf,
    pub(super) ostler_home: PathBuf,
    pub(super) own: Vec<PathBuf>,
    pub(super) program: PathBuf,
    pub(super) read: Vec<PathBuf>,
    pub(super) hide: Vec<PathBuf>,
    pub(super) has_overlay: bool,
}

/// The user's home directory.
pub(super) const HOME: &str = "/home/me";

/// The private directory of the run.
pub(super) const PRIVATE: &str = "/home/me/.local/share/ostler/runs/1/private";

impl Default for World {
    fn default() -> Self {
        let paths = [
            "/usr/bin/git",
            "/usr/lib/libc.so",
            "/etc/passwd",
            "/etc/shadow",
            "/etc/ssl/private/key.pem",
            "/opt/tool",
            "/tmp",
            "/var/tmp",
            "/run/systemd/resolve/stub-resolv.conf",
            "/home/me/.ssh/id_ed25519",
            "/home/me/.aws/credentials",
            "/home/me/.cargo/bin/cargo",
            "/home/me/.cargo/credentials.toml",
            "/home/me/.rustup/toolchains",
            "/home/me/.gradle/gradle.properties",
            "/home/me/.gitconfig",
            "/home/me/.claude/projects/-home-me-other",
            "/home/me/.claude/.credentials.json",
            "/home/me/.claude/settings.json",
            "/home/me/.claude.json",
            "/home/me/.codex/auth.json",
            "/home/me/.local/share/opencode/auth.json",
            "/home/me/.local/bin/tool",
            "/home/me/.config/chromium/Default",
            "/home/me/other/secret",
            "/home/me/work/.git/config",
            "/home/me/work/src",
            "/home/me/work/.env",
            "/home/me/.local/share/ostler/runs/1/private",
            "/home/me/.local/share/ostler/runs/1/journal.ndjson",
            "/home/me/.local/share/ostler/agents/claude/2/node_modules/@anthropic-ai/x/claude",
        ];
        let links = [
            ("/bin", "/usr/bin"),
            ("/lib", "/usr/lib"),
            ("/etc/resolv.conf", "/run/systemd/resolve/stub-resolv.conf"),
        ];
        let program = "/home/me/.local/share/ostler/agents/claude/2/node_modules/@anthropic-ai/x/claude";
        Self {
            kind: JailKind::Namespace,
            agent: &Claude,
            resident: Resident::User,
            level: JailLevel::Edits,
            config_writes: ConfigWrites::Guarded,
            paths: paths.map(PathBuf::from).into(),
            links: links.map(|(path, target)| (path.into(), target.into())).into(),
            env: [("PATH".to_owned(), "/home/me/.cargo/bin:/home/me/.local/bin:/usr/bin:.".to_owned())]
                .into(),
            workspace: "/home/me/work".into(),
            git: GitFacts {
                repository: Some(repository("/home/me/work")),
                is_complete: true,
                ..GitFacts::default()
            },
            home: HOME.into(),
            ostler_home: "/home/me/.local/share/ostler".into(),
            own: Vec::new(),
            program: program.into(),
            read: Vec::new(),
            hide: Vec::new(),
            has_overlay: true,
        }
    }
}

/// A repository with an ordinary `.git`.
pub(super) fn repository(root: &str) -> Repository {
    let (root, dot_git) = (PathBuf::from(root), Path::new(root).join(".git"));
    Repository {
        root,
        git_dir: dot_git.clone(),
        common_dir: dot_git.clone(),
        dot_git,
        modules: Vec::new(),
        worktrees: Vec::new(),
        hooks_path: None,
    }
}

impl World {
    pub(super) fn set(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(super) fn with(mut self, paths: &[&str]) -> Self {
        self.paths.extend(paths.iter().map(PathBuf::from));
        self
    }

    pub(super) fn link(mut self, path: &str, target: &str) -> Self {
        self.links.insert(path.into(), target.into());
        self
    }

    pub(super) fn works_in(mut self, workspace: &str) -> Self {
        self.workspace = workspace.into();
        self.paths.push(workspace.into());
        self.git = GitFacts { is_complete: true, ..GitFacts::default() };
        self
    }

    pub(super) fn real_path(&self, path: &Path) -> Option<PathBuf> {
        let real = self.resolve(path, 8)?;
        self.paths.iter().any(|known| known.starts_with(&real)).then_some(real)
    }

    /// The names in a directory.
    fn entries(&self, folder: &Path) -> Vec<OsString> {
        let paths = self.paths.iter().chain(self.links.keys());
        let below = paths.filter_map(|path| path.strip_prefix(folder).ok()?.components().next());
        let names: BTreeSet<OsString> = below.map(|name| name.as_os_str().to_owned()).collect();
        names.into_iter().collect()
    }

    /// A path without its links; nothing if they lead in circles.
    fn resolve(&self, path: &Path, links_left: usize) -> Option<PathBuf> {
        let mut real = PathBuf::new();
        for part in path.components() {
            real.push(part);
            if let Some(target) = self.links.get(&real) {
                real = self.resolve(target, links_left.checked_sub(1)?)?;
            }
        }
        Some(real)
    }

    pub(super) fn decide(&self) -> Result<RunJail, JailRefusal> {
        let layers = Path::new("/home/me/.local/share/ostler/layers/work");
        RunJail::decide(&JailFacts {
            kind: self.kind,
            agent: self.agent,
            resident: self.resident,
            level: self.level,
            config_writes: self.config_writes,
            workspace: &self.workspace,
            git: &self.git,
            home: &self.home,
            user_home: Path::new(HOME),
            variable: &|name| self.env.get(name).cloned(),
            ostler_home: &self.ostler_home,
            ostler_elsewhere: &["/home/me/.config/ostler".into()],
            private: Path::new(PRIVATE),
            own: &self.own,
            program: &self.program,
            ostler_program: Path::new("/home/me/bin/ostler"),
            read: &self.read,
            hide: &self.hide,
            caches: match self.has_overlay {
                true => CacheLayers::Overlay(layers),
                false => CacheLayers::Variables(layers),
            },
            canary: Path::new("/home/me/.local/share/ostler/runs/1/canary"),
            real_path: &|path| self.real_path(path),
            entries: &|folder| self.entries(folder),
        })
    }

    pub(super) fn jail(&self) -> RunJail {
        self.decide().unwrap()
    }

    /// Checks what is granted at each path.
    pub(super) fn assert_grants(&self, table: &[(&str, Grant)]) {
        let jail = self.jail();
        for (path, want) in table {
            assert_eq!(jail.policy.grant(Path::new(path)), *want, "{path}");
        }
    }
}
