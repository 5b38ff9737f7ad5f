//! The agent itself, kept running: what the gateway is held against.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use ostler_agent::agent::{Agent as _, Order, Stdin, Task};
use ostler_agent::agents::Claude;
use serde_json::Value;

use super::door::Heard;
use crate::agent::Player;

/// A process of the agent that takes one prompt after the other.
pub(crate) struct Bare {
    child: Child,
    stdin: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl Bare {
    pub(crate) fn start(player: &Player) -> Self {
        let (workspace, private) = (player.root().join("workspace"), player.root().join("private"));
        let launch = Claude.launch(&Task::new("", &workspace, &private)).unwrap();
        for file in &launch.files {
            std::fs::create_dir_all(file.path.parent().unwrap()).unwrap();
            std::fs::write(&file.path, &file.content).unwrap();
        }
        let mut command = Command::new(&player.program);
        command.args(&launch.args).env_clear().envs(player.launched().1).current_dir(workspace);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        if let Stdin::Spoken(lines) = launch.stdin {
            for line in lines {
                writeln!(stdin, "{line}").unwrap();
            }
        }
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, lines }
    }

    pub(crate) fn ask(&mut self, prompt: &str) -> Heard {
        let line = Claude.speak(&Order::Prompt(prompt.to_owned())).unwrap();
        let began = Instant::now();
        self.stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        let (mut first, mut line) = (None, String::new());
        loop {
            line.clear();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the agent ended");
            if first.is_none() && line.contains("\"text_delta\"") {
                first = Some(began.elapsed());
            }
            if line.starts_with("{\"type\":\"result\"") {
                let whole = began.elapsed();
                let result: Value = serde_json::from_str(&line).unwrap();
                let text = result["result"].as_str().unwrap().to_owned();
                return Heard { first: first.unwrap_or(whole), whole, text };
            }
        }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
