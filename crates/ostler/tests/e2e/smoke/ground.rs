//! A home for smoke tests, with real agents or wrappers around them.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::player::Player;
use crate::yard::ended;

/// A process that was killed needs a moment to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// Writes a program. Another process writes it: see `Yard::of_fake`.
const WRITE: &str = r#"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod 755 "$1""#;

/// A part of a script: the file is written, as it should be.
pub(super) const WRITES: &str = r#"
[[conversation.step]]
reply = [
    { text = "One line.\nAnother line.\nA third line." },
    { tool_by_role = "write_file", path = "scratch/todo.js", content = "module.exports = { left: () => [] };\n" },
]
"#;

/// A part of a script: what is required is handed over.
pub(super) const SUBMITS: &str = r##"
[[conversation.step]]
reply = [{ tool_by_role = "mcp:ostler/submit_artifact", arguments = { type = "smoke_test_result", content = """
+++
status = "passed"
+++
# Smoke test result

## Worked
The file was written.

## Broke
Nothing.
""" } }]
"##;

/// A part of a script: completion is declared.
pub(super) const DECLARES: &str = r#"
[[conversation.step]]
reply = [{ tool_by_role = "mcp:ostler/declare_complete", arguments = { summary = "All is done." } }]
"#;

/// A part of a script: the last words.
pub(super) const ENDS: &str = r#"
[[conversation.step]]
reply = [{ text = "That is all." }]
"#;

/// What a model says that is resumed and can do no more.
const RESUMED: &str = r#"
v = 1
[[conversation]]
name = "resumed"
[[conversation.step]]
expect = { contains = "You stopped before finishing" }
reply = [{ text = "I can do no more." }]
[[conversation]]
name = "task"
"#;

/// A home, a place for temporary files, and agents.
pub(super) struct Ground {
    folder: TempDir,
    names: Vec<&'static str>,
}

/// What a smoke test told.
pub(super) struct Smoked {
    pub(super) code: Option<i32>,
    pub(super) json: Value,
    pub(super) stderr: String,
}

impl Ground {
    /// With the agents themselves, or nothing if one is missing and may be.
    pub(super) fn of(players: &[Player]) -> Option<Self> {
        let ground = Self::empty(players);
        let programs: Option<Vec<PathBuf>> = players.iter().map(|player| player.binary()).collect();
        ground.configure(&programs?);
        Some(ground)
    }

    /// With a program before the agent: `wrapper` is shell, in which `"$REAL"` is the agent. It is not in the way when
    /// only the version is asked for.
    pub(super) fn wrapped(player: Player, wrapper: &str) -> Option<Self> {
        let ground = Self::empty(&[player]);
        ground.wrap(player, wrapper)?;
        Some(ground)
    }

    /// Puts a program before the agent from now on.
    pub(super) fn wrap(&self, player: Player, wrapper: &str) -> Option<()> {
        let (real, program) = (player.binary()?, self.at(player.agent().package().program));
        let version = r#"case "$1" in --version) exec "$REAL" "$@";; esac"#;
        let script = format!("REAL='{}'\n{version}\n{wrapper}", real.display());
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", WRITE, "sh"]).arg(&program).arg(script).stdin(Stdio::null());
        assert!(shell.status().unwrap().success());
        self.configure(&[program]);
        std::fs::write(self.at("wrapped"), "").unwrap();
        Some(())
    }

    fn empty(players: &[Player]) -> Self {
        let folder = tempfile::Builder::new().prefix("ostler-smoke-e2e-").tempdir().unwrap();
        for name in ["ostler", "tmp", "here"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder, names: players.iter().map(|player| player.agent().name()).collect() }
    }

    fn configure(&self, programs: &[PathBuf]) {
        let sections = self.names.iter().zip(programs);
        let config: String = sections
            .map(|(name, program)| {
                format!("[agents.{name}]\nprogram = {:?}\n", program.display().to_string())
            })
            .collect();
        std::fs::write(self.at("ostler/config.toml"), config).unwrap();
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a smoke test of the agents here.
    pub(super) fn start(&self, args: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        command.arg("smoke").args(args).args(&self.names);
        command.env("OSTLER_HOME", self.at("ostler")).env("TMPDIR", self.at("tmp"));
        command.env("OSTLER_CFG__NETWORK__PROBE", "off").current_dir(self.at("here"));
        if self.at("wrapped").exists() {
            // What the wrapper starts and changes is not visible in a jail.
            command.env("OSTLER_FORCE_JAIL", "none");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs it to its end, with the script that comes with Ostler.
    pub(super) fn smoke(&self) -> Smoked {
        self.told(&["--json"])
    }

    /// Runs it to its end, with a model that plays these parts.
    pub(super) fn plays(&self, parts: &[&str]) -> Smoked {
        let script = self.at("script.toml");
        std::fs::write(&script, format!("{RESUMED}{}", parts.concat())).unwrap();
        self.told(&["--json", "--script", &script.display().to_string()])
    }

    fn told(&self, args: &[&str]) -> Smoked {
        let output = ended(self.start(args));
        let (stdout, stderr) = (output.stdout, String::from_utf8(output.stderr).unwrap());
        let json: Value = serde_json::from_slice(&stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
        is_as_published(&json);
        assert_eq!(self.left(), Vec::<String>::new(), "processes were left behind");
        Smoked { code: output.status.code(), json, stderr }
    }

    /// What one of the commands for people prints.
    pub(super) fn asked(&self, args: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        let output = command.args(args).env("OSTLER_HOME", self.at("ostler")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Rehearsed agents have everything below the run's folder in their environment: whoever has not ended shows it.
    fn left(&self) -> Vec<String> {
        let home = self.at("ostler").display().to_string();
        let is_ours = |pid: &Path| {
            let environ = std::fs::read(pid.join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environ).contains(&home)
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        all.filter(|pid| is_ours(pid)).map(|pid| pid.display().to_string()).collect()
    }

    /// Waits until all are gone.
    pub(super) fn is_deserted(&self) {
        let until = Instant::now() + GONE_WITHIN;
        while !self.left().is_empty() && Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(self.left(), Vec::<String>::new());
    }
}

impl Smoked {
    /// The result, of which there is one.
    pub(super) fn only(&self) -> &Value {
        let results = self.json["results"].as_array().unwrap();
        assert_eq!(results.len(), 1, "{results:#?}");
        &results[0]
    }

    /// It passed.
    pub(super) fn is_green(&self) {
        assert_eq!((self.code, self.broken()), (Some(0), Vec::new()), "{:#}\n{}", self.json, self.stderr);
        assert_eq!(self.only()["verdict"], "PASS");
    }

    /// Exactly these facts do not hold, with this verdict.
    pub(super) fn breaks(&self, verdict: &str, facts: &[&str]) {
        assert_eq!(self.broken(), facts, "{:#}\n{}", self.json, self.stderr);
        assert_eq!(
            (self.only()["verdict"].as_str(), self.code),
            (Some(verdict), Some(20)),
            "{:#}",
            self.json
        );
        assert_eq!(self.only()["survivors"], 0);
    }

    fn broken(&self) -> Vec<&str> {
        let facts = self.only()["facts"].as_array().unwrap().iter();
        facts.filter(|fact| fact["ok"] == false).map(|fact| fact["fact"].as_str().unwrap()).collect()
    }

    pub(super) fn fact(&self, name: &str) -> &Value {
        self.only()["facts"].as_array().unwrap().iter().find(|fact| fact["fact"] == name).unwrap()
    }

    /// What is said of a fact that does not hold, and what to do about it.
    pub(super) fn says(&self, fact: &str, what: &str) {
        let breaks = self.only()["breaks"].as_array().unwrap();
        let told = breaks.iter().find(|broken| broken["fact"] == fact).unwrap();
        assert!(told["what"].as_str().unwrap().contains(what), "{told:#}");
        assert!(!told["try"].as_str().unwrap().is_empty(), "{told:#}");
    }

    /// How the run inside ended.
    pub(super) fn ended(&self, outcome: &str, code: u64) {
        let result = self.only();
        assert_eq!(
            (result["outcome"].as_str(), result["exit_code"].as_u64()),
            (Some(outcome), Some(code)),
            "{result:#}"
        );
    }

    /// The folder of the run inside.
    pub(super) fn run(&self, ground: &Ground) -> PathBuf {
        ground.at("ostler/runs").join(self.only()["run"].as_str().unwrap())
    }
}

fn is_as_published(told: &Value) {
    let schema = include_str!("../../../../../docs/schema/smoke.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let faults: Vec<String> = schema.iter_errors(told).map(|fault| fault.to_string()).collect();
    assert_eq!(faults, Vec::<String>::new(), "{told:#}");
}

/// Reads what it tells on standard error until a line has this in it. The rest is read and forgotten by a thread.
pub(super) fn waits_for(child: &mut Child, words: &str) {
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended without `{words}`");
    }
    std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
}
