//! What a jailed process never sees, whatever else covers it: credentials, keys, browser profiles, sockets, Ostler's own
//! records.

use std::path::{Path, PathBuf};

use super::facts::{CacheLayers, JailFacts};
use super::system::NO_FILES;
use crate::agents::AGENTS;
use crate::jail::state::{StateList, StatePlaces};

/// In the home directory.
const IN_HOME: &[&str] = &[
    // Keys and tokens.
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".oci",
    ".kube",
    ".docker/config.json",
    ".docker/contexts",
    ".docker/machine",
    ".docker/run",
    ".netrc",
    ".git-credentials",
    ".gitcookies",
    ".pypirc",
    ".boto",
    ".s3cfg",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".vault-token",
    ".terraform.d/credentials.tfrc.json",
    ".fly",
    ".op",
    ".password-store",
    ".pki",
    ".step",
    ".minikube",
    ".composer/auth.json",
    ".nuget/NuGet",
    ".Xauthority",
    ".ICEauthority",
    // Browsers and mail.
    ".mozilla",
    ".librewolf",
    ".thunderbird",
    ".zen",
    ".var/app",
    "snap/firefox",
    "snap/chromium",
    ".cache/mozilla",
    ".cache/google-chrome",
    ".cache/chromium",
    // What was typed before, secrets included.
    ".bash_history",
    ".zsh_history",
    ".histfile",
    ".python_history",
    ".node_repl_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".rediscli_history",
];

/// In the home directory, among the files of a toolchain that is readable otherwise.
const IN_TOOLCHAINS: &[&str] = &[
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings-security.xml",
    ".hex/hex.config",
    ".pub-cache/credentials.json",
    ".sbt/credentials",
    ".sbt/.credentials",
    ".ivy2/.credentials",
    ".stack/upload/credentials.json",
    ".config/git/credentials",
];

/// The same below a directory that a variable names.
const IN_NAMED_TOOLCHAINS: &[(&str, &str)] = &[
    ("CARGO_HOME", "credentials"),
    ("CARGO_HOME", "credentials.toml"),
    ("HEX_HOME", "hex.config"),
    ("PUB_CACHE", "credentials.json"),
    ("STACK_ROOT", "upload/credentials.json"),
    ("XDG_CONFIG_HOME", "git/credentials"),
];

/// Variables that name a file or directory which is never visible.
const NAMED: &[&str] =
    &["CLOUDSDK_CONFIG", "GNUPGHOME", "HISTFILE", "KUBECONFIG", "PASSWORD_STORE_DIR", "XDG_RUNTIME_DIR"];

/// In `XDG_CONFIG_HOME`.
const IN_CONFIG: &[&str] = &[
    "gh",
    "hub",
    "glab-cli",
    "github-copilot",
    "gcloud",
    "doctl",
    "rclone",
    "op",
    "1Password",
    "Bitwarden",
    "Bitwarden CLI",
    "keepassxc",
    "containers/auth.json",
    "dart/pub-credentials.json",
    "composer/auth.json",
    "google-chrome",
    "google-chrome-beta",
    "google-chrome-unstable",
    "chromium",
    "BraveSoftware",
    "microsoft-edge",
    "opera",
    "vivaldi",
    "Signal",
    "Slack",
    "discord",
    "Code",
    "Cursor",
];

/// In `XDG_DATA_HOME`.
const IN_DATA: &[&str] = &["keyrings", "kwalletd", "fish/fish_history", "atuin", "TelegramDesktop"];

/// Configuration that may hold a token, so that no toolchain's directory shows it. `[jail] read` opens it.
const IN_HOME_UNLESS_NAMED: &[&str] = &[
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".bunfig.toml",
    ".condarc",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".gradle/init.gradle",
    ".gradle/init.d",
    ".cabal/config",
    ".bundle/config",
    ".config/pip",
    ".pip",
];

/// Sockets through which a process acts as another user or outside its jail.
const SOCKETS: &[&str] = &[
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/containerd",
    "/run/podman",
    "/run/dbus",
    "/var/lib/docker",
];

/// Why a path may not be granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// It is in what is never visible.
    Inside(PathBuf),
    /// It is or contains what is never visible as a whole.
    Above(PathBuf),
    /// It is no directory of files.
    NoFiles,
}

/// What is never visible on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Boundary {
    /// With everything in it.
    pub(super) never: Vec<PathBuf>,
    /// The same in directories that may be granted as a whole.
    pub(super) in_toolchains: Vec<PathBuf>,
    /// `[jail] hide`, likewise.
    pub(super) hidden: Vec<PathBuf>,
    /// `OSTLER_HOME`.
    pub(super) ostler_homes: Vec<PathBuf>,
    /// It and Ostler's other directories, with everything in them but for `exempt`.
    pub(super) ostler: Vec<PathBuf>,
    /// What of them belongs to the run.
    pub(super) exempt: Vec<PathBuf>,
    /// Not visible unless `[jail] read` names it.
    pub(super) unless_named: Vec<PathBuf>,
    /// Home directories: not granted as a whole, while much in them is.
    pub(super) homes: Vec<PathBuf>,
}

impl Boundary {
    pub(super) fn new(facts: &JailFacts<'_>) -> Self {
        let with_real = |path: PathBuf| {
            let real = (facts.real_path)(&path).filter(|real| *real != path);
            [Some(path), real].into_iter().flatten()
        };
        let all = |paths: Vec<PathBuf>| {
            let mut all: Vec<PathBuf> = paths.into_iter().flat_map(with_real).collect();
            all.sort();
            all.dedup();
            all
        };
        let mut never: Vec<PathBuf> = SOCKETS.iter().map(PathBuf::from).collect();
        let (mut unless_named, mut in_toolchains) = (Vec::new(), Vec::new());
        let homes = all(vec![facts.home.to_owned(), facts.user_home.to_owned()]);
        let users = all(vec![facts.user_home.to_owned()]);
        let folder =
            |variable| (facts.variable)(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        for home in &users {
            let below = |folder: &Path, names: &[&str]| -> Vec<PathBuf> {
                names.iter().map(|name| folder.join(name)).collect()
            };
            never.extend(below(home, IN_HOME));
            never.extend(below(&home.join(".config"), IN_CONFIG));
            never.extend(below(&home.join(".local/share"), IN_DATA));
            never.extend(folder("XDG_CONFIG_HOME").iter().flat_map(|folder| below(folder, IN_CONFIG)));
            never.extend(folder("XDG_DATA_HOME").iter().flat_map(|folder| below(folder, IN_DATA)));
            in_toolchains.extend(below(home, IN_TOOLCHAINS));
            unless_named.extend(below(home, IN_HOME_UNLESS_NAMED));
        }
        never.extend(NAMED.iter().filter_map(|variable| folder(variable)));
        let named = IN_NAMED_TOOLCHAINS.iter();
        in_toolchains.extend(named.filter_map(|(variable, name)| Some(folder(variable)?.join(name))));
        unless_named.extend(folder("GRADLE_USER_HOME").map(|folder| folder.join("gradle.properties")));
        never.extend(other_sign_ins(facts));
        Self {
            never: all(never),
            in_toolchains: all(in_toolchains),
            hidden: all(facts.hide.to_vec()),
            ostler_homes: all(vec![facts.ostler_home.to_owned()]),
            ostler: all([&[facts.ostler_home.to_owned()], facts.ostler_elsewhere].concat()),
            exempt: exempt(facts),
            unless_named: all(unless_named),
            homes,
        }
    }

    /// What is never visible and contains `path`.
    pub(super) fn around(&self, path: &Path) -> Option<&PathBuf> {
        let contains = |roots: &'_ &PathBuf| path.starts_with(roots.as_path());
        let ostler = || {
            let is_exempt = self.exempt.iter().any(|exempt| path.starts_with(exempt));
            self.ostler.iter().find(contains).filter(|_| !is_exempt)
        };
        let mut never = self.never.iter().chain(&self.in_toolchains).chain(&self.hidden);
        never.find(contains).or_else(ostler)
    }

    /// What is never visible and is `path` or in it. `[jail] hide` does not count: it takes away from what is granted.
    fn within(&self, path: &Path) -> Option<&PathBuf> {
        let all = self.homes.iter().chain(&self.ostler).chain(&self.never);
        all.into_iter().find(|root| root.starts_with(path))
    }

    /// Why a path may not be granted as a whole.
    pub(super) fn obstacle(&self, path: &Path) -> Option<Obstacle> {
        if let Some(root) = self.around(path) {
            return Some(Obstacle::Inside(root.clone()));
        }
        if let Some(root) = self.within(path) {
            return Some(Obstacle::Above(root.clone()));
        }
        NO_FILES.iter().any(|root| path.starts_with(root)).then_some(Obstacle::NoFiles)
    }
}

/// What of Ostler's directory a run may see: its own directories, the layers of its project, the agent's installation.
fn exempt(facts: &JailFacts<'_>) -> Vec<PathBuf> {
    let mut exempt = vec![facts.private.to_owned(), super::program::tree(facts.program)];
    exempt.push(facts.ostler_program.to_owned());
    exempt.push(super::decision::sign_in_folder(facts));
    exempt.extend_from_slice(facts.own);
    if let CacheLayers::Variables(layers) = facts.caches {
        exempt.push(layers.to_owned());
    }
    exempt
}

/// The sign-ins of agents that do not take part.
fn other_sign_ins(facts: &JailFacts<'_>) -> Vec<PathBuf> {
    let slot = facts.agent.package().slot;
    let places = StatePlaces { home: facts.user_home, variable: facts.variable, workspace: facts.workspace };
    let others = AGENTS.iter().filter(|agent| agent.package().slot != slot);
    let entries = others.flat_map(|agent| agent.state(&places).entries);
    entries.filter(|entry| entry.list == StateList::Credentials).map(|entry| entry.path).collect()
}
