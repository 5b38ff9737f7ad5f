//! Files, sockets and a process, some granted and some not, and a process that tries to reach them.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ostler_agent::jail::JailKind;
use ostler_process::jail::{Canary, find_abi};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Owns nothing on a usual machine.
const PLAIN_USER: u32 = 65534;

/// Who makes the attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum User {
    /// Whoever runs the tests.
    Same,
    Plain,
}

impl User {
    /// Only root can become somebody else.
    pub(super) fn all() -> Vec<Self> {
        if is_root() { vec![Self::Same, Self::Plain] } else { vec![Self::Same] }
    }

    pub(super) fn is_root(self) -> bool {
        self == Self::Same && is_root()
    }

    fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if self == Self::Plain {
            command.uid(PLAIN_USER).gid(PLAIN_USER);
        }
        command
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The version of Landlock's interface. Says so if there is none: then a test of it cannot run.
pub(super) fn landlock_abi() -> Option<u32> {
    find_abi().inspect_err(|error| eprintln!("left out: {error}")).ok()
}

/// A copy of the program where a plain user can execute it.
pub(super) struct Program {
    path: PathBuf,
    _folder: TempDir,
}

impl Program {
    pub(super) fn new() -> Self {
        let folder = open_folder();
        let path = folder.path().join("jailed");
        copy_program(env!("CARGO_BIN_EXE_ostler-jailed").as_ref(), &path);
        Self { path, _folder: folder }
    }
}

/// Copies by another process: a program that this one writes can be inherited, open, by a child of another test, and
/// is then busy.
fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

fn open_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    folder
}

/// What there is to reach: `ws` may be changed, `ro` and `split` may be read, `split/hidden*` is hidden, `out` is not
/// granted. All belong to the user who makes the attempts.
pub(super) struct Scene {
    user: User,
    capabilities: &'static str,
    root: PathBuf,
    sleeper: Child,
    abstract_name: String,
    network: TcpListener,
    canary: Canary,
    _listeners: [UnixListener; 3],
    _folder: TempDir,
}

impl Scene {
    pub(super) fn new(user: User) -> Self {
        let folder = open_folder();
        let root = folder.path().canonicalize().unwrap();
        for directory in ["ws/dir", "ro", "out/dir", "split/hidden-dir", "split/open-dir", "home", "original"]
        {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for file in [
            "ws/file",
            "ws/guarded",
            "ro/file",
            "out/secret",
            "split/hidden",
            "split/open",
            "split/hidden-dir/name",
            "home/file",
            "original/file",
        ] {
            fs::write(root.join(file), "text").unwrap();
        }
        for tool in ["ws/tool", "ro/tool", "out/tool"] {
            copy_program("/bin/true".as_ref(), &root.join(tool));
        }
        symlink(root.join("out/secret"), root.join("ws/link")).unwrap();
        symlink("../out", root.join("ws/link-dir")).unwrap();
        let abstract_name = root.display().to_string();
        let listeners = [
            UnixListener::bind(root.join("out/socket")).unwrap(),
            // An entry that is neither a file nor a directory is granted, too.
            UnixListener::bind(root.join("split/socket")).unwrap(),
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name).unwrap()).unwrap(),
        ];
        let canary = Canary::create(&root.join("out/dir")).unwrap();
        if user == User::Plain {
            give_away(&root);
        }
        let sleeper = user.command(Path::new("sleep")).arg("600").stdin(Stdio::null()).spawn().unwrap();
        Self {
            user,
            capabilities: "drop",
            root,
            sleeper,
            abstract_name,
            network: TcpListener::bind("127.0.0.1:0").unwrap(),
            canary,
            _listeners: listeners,
            _folder: folder,
        }
    }

    /// The wall is set by a process that keeps what root may do.
    pub(super) fn with_capabilities(self) -> Self {
        let mut scene = self;
        scene.capabilities = "keep";
        scene
    }

    pub(super) fn rules(&self) -> Vec<Value> {
        let system = ["/usr", "/bin", "/lib", "/lib64", "/etc"].map(|path| json!([path, "read", null]));
        let own = [("ws", "write"), ("ws/guarded", "guarded"), ("ro", "read"), ("split", "read")];
        let hidden = [("split/hidden", "hidden"), ("split/hidden-dir", "hidden")];
        let own = own.into_iter().chain(hidden);
        let own = own.map(|(path, access)| json!([self.root.join(path), access, null]));
        let shadow = json!(["/etc/shadow", "hidden", null]);
        let home = json!([self.root.join("original"), "substitute", self.root.join("home")]);
        system.into_iter().chain(own).chain([shadow, home]).collect()
    }

    /// What the program prints. In its words, `TOP` is the folder of the scene, `PID` the process outside, `NAME` the
    /// abstract socket, `TTY` a terminal, `ADDRESS` a TCP listener.
    pub(super) fn try_all(
        &self,
        program: &Program,
        wall: Option<JailKind>,
        rules: &[Value],
        attempts: &[&[&str]],
    ) -> Value {
        // Closing one takes milliseconds, so only where it is needed.
        let needs_terminal = attempts.iter().any(|words| words.contains(&"TTY"));
        let (_terminal, terminal_path) = needs_terminal.then(|| open_terminal(self.user)).unzip();
        let names = [
            ("TOP", self.root.display().to_string()),
            ("PID", self.sleeper.id().to_string()),
            ("NAME", self.abstract_name.clone()),
            ("TTY", terminal_path.unwrap_or_default()),
            ("ADDRESS", self.network.local_addr().unwrap().to_string()),
        ];
        let word = |word: &&str| {
            names.iter().fold((*word).to_owned(), |word, (name, value)| word.replace(name, value))
        };
        let attempts: Vec<Vec<String>> =
            attempts.iter().map(|words| words.iter().map(word).collect()).collect();
        let task = json!({"wall": wall, "capabilities": self.capabilities, "rules": rules, "canary": self.canary.path(), "attempts": attempts});
        let mut command = self.user.command(&program.path);
        command.env_clear().env("PATH", "/usr/bin:/bin").current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(task.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{task}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // A child that was not waited for, so its number is still its own.
        let _ = self.sleeper.kill();
        let _ = self.sleeper.wait();
    }
}

/// A terminal that is nothing to the process behind the wall.
fn open_terminal(owner: User) -> (OwnedFd, String) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let path = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    if owner == User::Plain {
        give_away(Path::new(&path));
    }
    (terminal, path)
}

fn give_away(path: &Path) {
    lchown(path, Some(PLAIN_USER), Some(PLAIN_USER)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give_away(&entry.unwrap().path());
        }
    }
}
