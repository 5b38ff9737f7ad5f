//! A home with secrets, a workspace, and a shell that is jailed in it.

use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ostler_agent::jail::{Access, JailKind, JailPolicy, Rule};
use ostler_process::contain::{self, Contained, Exit, Spawn};
use ostler_process::jail::{Canary, Jail};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;

/// Set for this binary when it is the other process: where the yard is, which wall, and what the shell is to do.
const ROOT: &str = "OSTLER_TEST_JAIL";
const KIND: &str = "OSTLER_TEST_JAIL_KIND";
const SCRIPT: &str = "OSTLER_TEST_JAIL_SCRIPT";

/// The user and group `nobody`, which every Linux has.
const NOBODY: u32 = 65534;

/// Who the jailed shell is outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum User {
    Root,
    Plain,
}

pub(super) struct Yard {
    folder: TempDir,
    user: User,
}

impl Yard {
    /// `None` if this test may not become that user.
    pub(super) fn of(user: User) -> Option<Self> {
        let is_root = rustix::process::geteuid().is_root();
        if user == User::Root && !is_root {
            return None;
        }
        let folder = TempDir::new().unwrap();
        let yard = Self { folder, user };
        for path in [
            "home/.ssh",
            "work/.git/hooks",
            "work/.claude",
            "work/src",
            "work/hidden/other",
            "work/hidden/open",
            "private/home",
            "private/tmp",
        ] {
            fs::create_dir_all(yard.at(path)).unwrap();
        }
        for (path, text) in [
            ("home/.ssh/id", "secret"),
            ("work/.git/config", "[core]\n"),
            ("work/.claude/settings.json", "{}"),
            ("work/src/main.rs", "fn main() {}"),
        ] {
            fs::write(yard.at(path), text).unwrap();
        }
        symlink(yard.at("home/.ssh/id"), yard.at("work/link")).unwrap();
        fs::set_permissions(yard.folder.path(), Permissions::from_mode(0o755)).unwrap();
        if user == User::Plain && is_root {
            give_away(yard.folder.path());
        }
        Some(yard)
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    /// What the shell prints, and how it ends.
    pub(super) async fn run(&self, kind: JailKind, script: &str) -> (String, Exit) {
        let is_root = rustix::process::geteuid().is_root();
        match self.user {
            User::Plain if is_root => self.run_as_nobody(kind, script),
            User::Root | User::Plain => {
                run_jailed(&self.at(""), env!("CARGO_BIN_EXE_ostler"), kind, script).await
            }
        }
    }

    /// This binary and Ostler's own, where that user may read them.
    fn run_as_nobody(&self, kind: JailKind, script: &str) -> (String, Exit) {
        let (suite, ostler) = (self.at("suite"), self.at("ostler"));
        for (from, to) in
            [(std::env::current_exe().unwrap(), &suite), (env!("CARGO_BIN_EXE_ostler").into(), &ostler)]
        {
            if !to.exists() && fs::hard_link(&from, to).is_err() {
                // By another process: one that this process writes could be busy for a child of another test.
                assert!(Command::new("cp").arg(&from).arg(to).status().unwrap().success());
            }
        }
        let id = NOBODY.to_string();
        let mut child = Command::new("setpriv")
            .args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"])
            .arg(&suite)
            .args(["--exact", "jail::yard::this_process_is_the_other_one", "--nocapture"])
            .env(ROOT, self.at(""))
            .env(KIND, kind.name())
            .env(SCRIPT, script)
            .current_dir(self.at("work"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut printed = String::new();
        child.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
        assert!(child.wait().unwrap().success(), "{printed}");
        (printed, Exit::Code(0))
    }
}

fn give_away(path: &Path) {
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.symlink_metadata().unwrap().is_dir() {
            give_away(&path);
        }
        std::os::unix::fs::lchown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
}

/// Does nothing in an ordinary test run.
#[tokio::test]
async fn this_process_is_the_other_one() {
    let Some(root) = std::env::var_os(ROOT) else { return };
    let kind = [JailKind::Namespace, JailKind::Landlock];
    let name = std::env::var(KIND).unwrap();
    let kind = kind.into_iter().find(|kind| kind.name() == name).unwrap();
    let root = PathBuf::from(root);
    let ostler = root.join("ostler");
    let script = std::env::var(SCRIPT).unwrap();
    let (printed, exit) = run_jailed(&root, &ostler.display().to_string(), kind, &script).await;
    eprint!("{printed}");
    assert_eq!(exit, Exit::Code(0));
}

async fn run_jailed(root: &Path, ostler: &str, kind: JailKind, script: &str) -> (String, Exit) {
    let mut contained = start_jailed(root, ostler, kind, script).await.unwrap();
    assert_eq!(contained.jail().unwrap().kind, kind);
    let (mut out, mut err) = (String::new(), String::new());
    let (mut stdout, mut stderr) = (contained.stdout.take().unwrap(), contained.stderr.take().unwrap());
    let both = tokio::try_join!(stdout.read_to_string(&mut out), stderr.read_to_string(&mut err));
    both.unwrap();
    let exit = contained.leader_exit().await;
    assert_eq!(contained.kill_all().await, contain::Survivors(0));
    assert!(err.is_empty(), "{err}");
    (out, exit)
}

pub(super) async fn start_jailed(
    root: &Path,
    ostler: &str,
    kind: JailKind,
    script: &str,
) -> Result<Contained, contain::StartError> {
    let canary = Canary::create(root).unwrap();
    let spawn = Spawn {
        program: PathBuf::from("/bin/sh"),
        args: vec!["-c".into(), script.into()],
        env: vec![
            ("PATH".into(), "/usr/bin:/bin".into()),
            ("HOME".into(), root.join("home").into()),
            ("R".into(), root.into()),
            ("HOST".into(), std::process::id().to_string().into()),
            ("CANARY".into(), canary.path().into()),
        ],
        cwd: root.join("work"),
        stdin: contain::Stdin::Null,
        run: "jail",
        tier: None,
        jail: Some(Jail { kind, policy: policy(root, &canary), network: None }),
        guard: PathBuf::from(ostler),
    };
    Contained::start(spawn).await
}

fn policy(root: &Path, canary: &Canary) -> JailPolicy {
    let rule = |path: PathBuf, access| Rule { path, access };
    let system = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"];
    let mut rules: Vec<Rule> = system.into_iter().map(|path| rule(path.into(), Access::Read)).collect();
    rules.push(rule("/etc/shadow".into(), Access::Hidden));
    let substitute = |path: &str| Access::Substitute { source: root.join("private").join(path) };
    rules.push(rule("/tmp".into(), substitute("tmp")));
    rules.push(rule(root.join("home"), substitute("home")));
    rules.push(rule(root.join("work"), Access::Write));
    rules.push(rule(root.join("work/.git"), Access::Write));
    rules.push(rule(root.join("work/hidden"), Access::Hidden));
    rules.push(rule(root.join("work/hidden/open"), Access::Write));
    for path in ["work/.git/hooks", "work/.git/config", "work/.claude", "work/missing"] {
        rules.push(rule(root.join(path), Access::Guarded));
    }
    JailPolicy { rules, canary: canary.path() }
}
