//! A yard: a workspace, an Ostler with a home of its own, and one agent that it knows the place of.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::player::Player;

/// The slowest run here takes under two minutes alone; three times that and more under load.
const DEADLINE: Duration = Duration::from_secs(400);

/// A process that was killed needs a moment to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// How long a run that is too late may take to end what it started, before it is killed.
const GRACE: Duration = Duration::from_secs(20);

/// Writes a program that is the fake agent, and knows whom to play also when it is only asked for its version.
const WRAPPER: &str = r#"printf '#!/bin/sh\nexport OSTLER_FAKE_DIALECT=%s\nexec "%s" "$@"\n' "$2" "$3" > "$1" && chmod 755 "$1""#;

/// A workspace, and an Ostler that knows where the agent is.
pub(crate) struct Yard {
    /// What is run: an agent's name, or `command:` and a program.
    agent: String,
    folder: TempDir,
    variables: Vec<(&'static str, PathBuf)>,
    /// Whether its agents have a bridge. Most tests are about something else, and their scripts declare nothing.
    has_bridge: bool,
    /// Whether its runs are jailed, where their permissions ask for it. A program in the place of an agent is steered by
    /// files that the jail does not show.
    has_jail: bool,
}

/// What a run printed, and how it ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) lines: Vec<Value>,
}

impl Yard {
    /// For a real agent, or nothing if it is missing and may be.
    pub(crate) fn of(player: Player) -> Option<Self> {
        let binary = player.binary()?;
        Some(Self::with(player.agent().name(), &binary, player.agent().name()))
    }

    /// For a real agent that has a bridge, as agents have unless told otherwise.
    pub(crate) fn bridged(player: Player) -> Option<Self> {
        Some(Self::of(player)?.with_bridge())
    }

    /// With a bridge.
    pub(crate) fn with_bridge(self) -> Self {
        Self { has_bridge: true, ..self }
    }

    /// For the fake agent in the place of a real one, with a script of its own format.
    pub(crate) fn of_fake(player: Player, script: &str) -> Self {
        let fake = Path::new(env!("CARGO_BIN_EXE_ostler")).with_file_name("ostler-fake-agent");
        assert!(fake.is_file(), "{} is built by ./test build", fake.display());
        let agent = player.agent();
        let mut yard = Self::with(agent.name(), Path::new(""), agent.name());
        let program = yard.at(agent.package().program);
        // Another process writes it: were it us, a child that another test starts meanwhile would inherit the open
        // file, and the kernel refuses to start what is open for writing.
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", WRAPPER, "sh"]).arg(&program).arg(agent.package().program).arg(fake);
        assert!(shell.stdin(Stdio::null()).status().unwrap().success());
        yard.has_jail = false;
        yard.configure(agent.name(), &program);
        std::fs::write(yard.at("fake.toml"), format!("v = 1\n{script}")).unwrap();
        yard.variables = vec![
            ("OSTLER_FAKE_SCRIPT", yard.at("fake.toml")),
            ("OSTLER_FAKE_STATE", yard.at("state")),
            ("HOME", yard.at("home")),
        ];
        yard
    }

    /// For a real agent behind a program that does these lines of shell first, and may change its arguments.
    pub(crate) fn behind(player: Player, lines: &str) -> Option<Self> {
        let mut yard = Self::of(player)?;
        let program = yard.at("behind");
        yard.has_jail = false;
        let text = format!("#!/bin/sh\n{lines}\nexec \"{}\" \"$@\"\n", player.binary()?.display());
        // Another process writes it, for the reason above.
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", r#"printf '%s' "$2" > "$1" && chmod 755 "$1""#, "sh"]).arg(&program).arg(text);
        assert!(shell.stdin(Stdio::null()).status().unwrap().success());
        yard.configure(player.agent().name(), &program);
        Some(yard)
    }

    /// For any program.
    pub(crate) fn of_command(command: &str) -> Self {
        let yard = Self::with("codex", Path::new("/nowhere"), &format!("command:{command}"));
        Self { variables: vec![("OSTLER_E2E_YARD", yard.at("workspace"))], ..yard }
    }

    fn with(name: &str, program: &Path, agent: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("ostler-run-").tempdir().unwrap();
        for name in ["workspace", "ostler"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let yard = Self {
            agent: agent.to_owned(),
            folder,
            variables: Vec::new(),
            has_bridge: false,
            has_jail: true,
        };
        yard.configure(name, program);
        yard
    }

    fn configure(&self, name: &str, program: &Path) {
        let config = format!("[agents.{name}]\nprogram = {:?}\n", program.display().to_string());
        std::fs::write(self.at("ostler/config.toml"), config).unwrap();
    }

    /// Adds to the configuration.
    pub(crate) fn configure_also(&self, text: &str) {
        let before = std::fs::read_to_string(self.at("ostler/config.toml")).unwrap();
        std::fs::write(self.at("ostler/config.toml"), format!("{before}\n{text}")).unwrap();
    }

    /// What `ostler runs show` says of the last run.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8(self.ostler(&["runs", "show", "last"]).output().unwrap().stdout).unwrap()
    }

    /// A place below the yard, beside the workspace.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.at("workspace")
    }

    /// Writes a script for the model, and says how to play it.
    pub(crate) fn script(&self, text: &str) -> String {
        let path = self.at("script.toml");
        std::fs::write(&path, format!("v = 1\n{text}")).unwrap();
        format!("--rehearse={}", path.display())
    }

    pub(crate) fn ostler(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        command.args(args).env("OSTLER_HOME", self.at("ostler")).current_dir(self.workspace());
        if args.first() == Some(&"run") && !self.has_jail {
            command.arg("--no-jail");
        }
        // Whether this machine has a network must not matter.
        command.env("OSTLER_CFG__NETWORK__PROBE", "off");
        command.env("OSTLER_CFG__RUN__BRIDGE", self.has_bridge.to_string());
        // Pauses before a resume, which are minutes otherwise.
        command.env("OSTLER_CFG__RUN__RESUME_PAUSE", "100ms");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stderr(Stdio::inherit());
        command
    }

    /// Trusts what the workspace brings for agents.
    pub(crate) fn trust(&self) {
        let trusted = self.ostler(&["trust", "--yes", "--json"]).arg(self.workspace()).output().unwrap();
        assert!(trusted.status.success());
    }

    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let mut command = self.ostler(&["run", "-a", &self.agent, "--json"]);
        command.args(args).stdout(Stdio::piped()).spawn().unwrap()
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        Ended::of(ended(self.start(args)))
    }

    /// What a run that is not run says on standard error.
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        let mut command = self.ostler(&["run", "-a", &self.agent]);
        let output = ended(command.args(args).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// What `ostler runs why` says of the last run, with `Ns` for times, without the line that has the run's id, and
    /// without the channels of which something may be seen or not, as the agent happens to write its files.
    pub(crate) fn why(&self) -> String {
        let output = self.ostler(&["runs", "why", "last"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        const CHANCE: [&str; 8] = [
            "run ",
            "seen     transcript",
            "seen     screen",
            "seen     spinner",
            "seen     connection",
            "seen     keep_alive",
            "seen     workspace",
            "seen     tree",
        ];
        let lines = text.lines().filter(|line| CHANCE.iter().all(|chance| !line.starts_with(chance)));
        lines.map(|line| untimed(line) + "\n").collect()
    }

    /// What the scripted model was asked in the last run, as its log has it.
    pub(crate) fn requests(&self, ended: &Ended) -> Vec<Value> {
        let journal = Path::new(ended.outcome()["journal"].as_str().unwrap());
        let log = std::fs::read_to_string(journal.join("requests.ndjson")).unwrap();
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Rehearsed agents have everything below the run's folder in their environment: whoever has not ended shows it.
    pub(crate) fn left(&self) -> Vec<String> {
        let home = self.folder.path().display().to_string();
        let is_ours = |pid: &Path| {
            let environ = std::fs::read(pid.join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environ).contains(&home)
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        all.filter(|pid| is_ours(pid)).map(|pid| pid.display().to_string()).collect()
    }

    /// Waits until all are gone who were there when Ostler was killed: that takes them a moment.
    pub(crate) fn is_deserted(&self) {
        let until = Instant::now() + GONE_WITHIN;
        while !self.left().is_empty() && Instant::now() < until {
            std::thread::yield_now();
        }
        self.is_empty();
    }

    pub(crate) fn is_empty(&self) {
        assert_eq!(self.left(), Vec::<String>::new(), "{} left processes behind", self.agent);
    }
}

impl Ended {
    pub(crate) fn of(output: Output) -> Self {
        let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let lines = lines.map(|line| serde_json::from_slice(line).unwrap()).collect();
        Self { code: output.status.code(), lines }
    }

    pub(crate) fn outcome(&self) -> &Value {
        let last = self.lines.last().unwrap();
        assert_eq!(last["kind"], "outcome", "{last}");
        last
    }

    pub(crate) fn ends(&self, word: &str, code: i32) {
        let outcome = self.outcome();
        assert_eq!((outcome["outcome"].as_str(), self.code), (Some(word), Some(code)), "{:#?}", self.lines);
        assert_eq!((&outcome["exit_code"], &outcome["survivors"]), (&code.into(), &0.into()));
    }

    /// The events in which a field has this value.
    pub(crate) fn with<'a>(&'a self, field: &'a str, value: &'a str) -> impl Iterator<Item = &'a Value> {
        self.lines.iter().filter(move |line| line[field] == value)
    }

    /// All that the agent said in whole.
    pub(crate) fn said(&self) -> Vec<&str> {
        self.with("part", "whole").filter_map(|line| line["text"].as_str()).collect()
    }
}

/// What a child said, and how it ended. One that does not end in time is ended, and so is the test.
pub(crate) fn ended(child: Child) -> Output {
    let pid = Pid::from_child(&child);
    // One message, which nobody waits to send.
    let (tell, told) = mpsc::sync_channel(1);
    std::thread::spawn(move || tell.send(child.wait_with_output()));
    if let Ok(output) = told.recv_timeout(DEADLINE) {
        return output.unwrap();
    }
    // Twice: the first asks the agent to stop.
    let _ = [Signal::TERM, Signal::TERM].map(|signal| kill_process(pid, signal));
    let output = told.recv_timeout(GRACE);
    let _ = writeln!(std::io::stderr(), "{output:?}");
    panic!("it did not end within {DEADLINE:?}");
}

/// A line without its times, as `why` writes them. Of a number of seconds in a sentence the whole ones stay: how many tenths
/// more it takes depends on what else the machine does.
fn untimed(line: &str) -> String {
    let whole_seconds = |word: &str| {
        let (whole, part) = word.split_once('.')?;
        let is_number =
            !part.is_empty() && format!("{whole}{part}").bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| whole.to_owned())
    };
    let words: Vec<&str> = line.split(' ').collect();
    let followers = words.iter().skip(1).copied().chain([""]);
    let plain = words.iter().zip(followers).map(|(word, next)| {
        let bare = word.trim_end_matches([';', ',', ':']);
        match (bare.strip_suffix('s').and_then(whole_seconds), whole_seconds(word)) {
            (Some(_), _) => word.replace(bare, "Ns"),
            (None, Some(whole)) if next == "s" => format!("{whole}.0"),
            (None, _) => (*word).to_owned(),
        }
    });
    plain.collect::<Vec<_>>().join(" ")
}
