//! A program of somebody else's: one of the official libraries, and what it is told to do with it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::DEADLINE;
use super::ground::Ground;

/// Which library, and which of its APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Library {
    pub(crate) language: Language,
    pub(crate) api: Api,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    JavaScript,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Messages,
    Chat,
    Responses,
}

impl Api {
    fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Chat => "chat",
            Self::Responses => "responses",
        }
    }

    /// How it says that an answer is at its end.
    pub(crate) fn done(self) -> &'static str {
        match self {
            Self::Messages => "end_turn",
            Self::Chat => "stop",
            Self::Responses => "completed",
        }
    }

    /// How it says that a tool is to be called.
    pub(crate) fn calling(self) -> &'static str {
        match self {
            Self::Messages => "tool_use",
            Self::Chat => "tool_calls",
            Self::Responses => "completed",
        }
    }
}

/// Where the libraries are. `None`, told, if they need not be there.
pub(crate) fn clients() -> Option<PathBuf> {
    let folder = std::env::var_os("OSTLER_TEST_CLIENTS").map(PathBuf::from);
    let found =
        folder.filter(|folder| folder.join("python").is_dir() && folder.join("node_modules").is_dir());
    if found.is_none() {
        let must = std::env::var_os("OSTLER_E2E").is_some_and(|value| value == "require");
        assert!(!must, "no libraries in OSTLER_TEST_CLIENTS: `./test clients` installs them");
        let _ = writeln!(std::io::stderr(), "SKIPPED: no libraries in OSTLER_TEST_CLIENTS; ./test runs this");
    }
    found
}

/// A running program, ended with the test.
pub(crate) struct Program {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// Asks that server, with this key.
    pub(crate) fn start(library: Library, ground: &Ground, key: &str) -> Option<Self> {
        let clients = clients()?;
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients");
        let mut command = match library.language {
            Language::Python => Command::new(clients.join("python/bin/python")),
            Language::JavaScript => Command::new("node"),
        };
        command.arg(sources.join(match library.language {
            Language::Python => "api.py",
            Language::JavaScript => "api.mjs",
        }));
        let mut child = command
            .args([library.api.name(), &ground.url])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            // Nothing is written beside the sources.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("OSTLER_TEST_CLIENTS", clients)
            .env("OSTLER_TEST_KEY", key)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Some(Self { child, stdin, lines })
    }

    /// Tells it what to do.
    pub(crate) async fn order(&mut self, order: Value) {
        self.stdin.write_all(format!("{order}\n").as_bytes()).await.unwrap();
    }

    /// What it says next.
    pub(crate) async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(DEADLINE, self.lines.next_line()).await.unwrap();
        let Some(line) = line.unwrap() else { panic!("the program ended") };
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        assert_eq!(told.get("failed"), None, "{told}");
        told
    }

    /// What came of an order, whatever it says while it is at it.
    pub(crate) async fn done(&mut self, order: Value) -> Value {
        self.order(order).await;
        loop {
            let told = self.next().await;
            if told.get("began").is_none() {
                return told;
            }
        }
    }

    /// What the agent says to this.
    pub(crate) async fn say(&mut self, talk: &str, text: &str, how: &str) -> Value {
        self.done(json!({"do": "say", "talk": talk, "text": text, "how": how})).await
    }

    /// It ends when nobody has orders for it.
    pub(crate) async fn end(self) {
        let Self { mut child, stdin, .. } = self;
        drop(stdin);
        let status = tokio::time::timeout(DEADLINE, child.wait()).await.unwrap().unwrap();
        assert!(status.success(), "{status}");
    }
}
