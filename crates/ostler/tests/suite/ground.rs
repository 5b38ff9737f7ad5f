//! Where a test takes place: a home, an `OSTLER_HOME`, a project and a `PATH` of its own, and an otherwise empty
//! environment. Everything that varies is made constant here, and nowhere else.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long a command may take. The longest wait of Ostler's own that a test provokes is a few seconds; a machine
/// that is busy with everything else makes that longer.
const DEADLINE: Duration = Duration::from_secs(120);

/// How long a command that is too late may take to end what it started, before it is killed.
const GRACE: Duration = Duration::from_secs(5);

pub(crate) struct Ground {
    _folder: TempDir,
    root: PathBuf,
    variables: Vec<(String, String)>,
    has_jail: bool,
}

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["home", "bin", "project"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        Self { root, _folder: folder, variables: Vec::new(), has_jail: true }
    }

    /// With runs that have no jail.
    pub(crate) fn unjailed(self) -> Self {
        Self { has_jail: false, ..self }
    }

    /// With a variable set, or set differently.
    pub(crate) fn with(mut self, name: &str, value: impl AsRef<Path>) -> Self {
        self.variables.push((name.to_owned(), value.as_ref().display().to_string()));
        self
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Writes a file below the ground.
    pub(crate) fn put(&self, path: &str, text: &str) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Puts a shell script on `PATH`.
    pub(crate) fn program(&self, name: &str, script: &str) -> PathBuf {
        self.script(&format!("bin/{name}"), &format!("PATH=/usr/bin:/bin\n{script}"))
    }

    /// Writes a shell script below the ground. Another process writes it: were it us, a child that another test
    /// starts meanwhile would inherit the open file, and the kernel refuses to start what is open for writing.
    pub(crate) fn script(&self, path: &str, script: &str) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", r#"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod 755 "$1""#, "sh"]);
        assert!(shell.arg(&path).arg(script).stdin(Stdio::null()).status().unwrap().success());
        path
    }

    /// The command, ready to be started in the project.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        command.args(args).current_dir(self.at("project")).stdin(Stdio::null()).env_clear();
        command
            .env("HOME", self.at("home"))
            .env("OSTLER_HOME", self.at("ostler"))
            .env("PATH", self.at("bin"));
        if args.first() == Some(&"run") {
            // Whether this machine has a network must not matter.
            command.env("OSTLER_CFG__NETWORK__PROBE", "off");
            // The agents here are scripts, which know nothing of a bridge.
            command.env("OSTLER_CFG__RUN__BRIDGE", "false");
            command.args((!self.has_jail).then_some("--no-jail"));
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        let child = self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = ended(child);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Runs, and compares all of it with what is on record.
    pub(crate) fn check(&self, name: &str, args: &[&str]) -> Ended {
        let ended = self.run(args);
        let mut record = format!("$ ostler {}\n[exit {:?}]\n", args.join(" "), ended.code.unwrap());
        for (stream, text) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
            if !text.is_empty() {
                let _ = write!(record, "--- {stream}\n{text}");
            }
        }
        let mut settings = insta::Settings::clone_current();
        settings.set_omit_expression(true);
        settings.set_prepend_module_to_snapshot(false);
        settings.add_filter(&regex_of(&self.root.display().to_string()), "[ROOT]");
        settings.add_filter(&regex_of(env!("CARGO_PKG_VERSION")), "[VERSION]");
        settings.add_filter(r"codex-(linux|darwin)-\S+/bin/codex", "[NATIVE]");
        settings.add_filter(r"\.installing-\w+", ".installing-[RANDOM]");
        settings.add_filter(r"\d+\.\d GB free", "[FREE]");
        settings.bind(|| insta::assert_snapshot!(name, record));
        ended
    }

    /// Every file and folder that Ostler left in its home, sorted. Locks are not state, nor is which wall this machine has.
    pub(crate) fn left(&self) -> Vec<String> {
        fn walk(folder: &Path, root: &Path, found: &mut Vec<String>) {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if ![".lock", "jail-works"].iter().any(|name| entry.file_name() == *name) {
                    found.push(entry.path().strip_prefix(root).unwrap().display().to_string());
                    if entry.metadata().unwrap().is_dir() {
                        walk(&entry.path(), root, found);
                    }
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.at("ostler"), &self.at("ostler"), &mut found);
        found.sort();
        found
    }
}

/// What a child said, and how it ended. One that does not end in time is ended, and so is the test.
pub(crate) fn ended(child: Child) -> Output {
    ended_within(DEADLINE, child)
}

fn ended_within(deadline: Duration, child: Child) -> Output {
    let pid = Pid::from_child(&child);
    // One message, which nobody waits to send.
    let (tell, told) = mpsc::sync_channel(1);
    thread::spawn(move || tell.send(child.wait_with_output()));
    let output = told.recv_timeout(deadline);
    if output.is_err() {
        let _ = kill_process(pid, Signal::TERM);
        if told.recv_timeout(GRACE).is_err() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    assert!(output.is_ok(), "it did not end within {deadline:?}");
    output.unwrap().unwrap()
}

#[test]
#[should_panic(expected = "it did not end within 1ms")]
fn a_command_that_does_not_end_is_ended_and_fails_its_test() {
    let child =
        Command::new("/bin/sh").args(["-c", "exec sleep 600"]).stdout(Stdio::piped()).spawn().unwrap();
    ended_within(Duration::from_millis(1), child);
}

fn regex_of(literal: &str) -> String {
    literal
        .chars()
        .map(|letter| if letter.is_alphanumeric() { letter.to_string() } else { format!("\\{letter}") })
        .collect()
}
