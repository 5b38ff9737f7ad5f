//! What `ostler rehearse` prints is what a person can paste: each command is given to a shell, as it stands.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::player::Player;

/// Ended with the test, however that ends.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn paste(player: Player) {
    let Some(binary) = player.binary() else { return };
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    let name = player.agent().name();
    let config = format!("[agents.{name}]\nprogram = {:?}\n", binary.display().to_string());
    std::fs::write(folder.path().join("config.toml"), config).unwrap();

    let mut child = Command::new(env!("CARGO_BIN_EXE_ostler"))
        .args(["rehearse", "--script", "tools", "--json"])
        .env("OSTLER_HOME", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let mut rehearsal = Ending(child);
    let listening: Value = serde_json::from_str(&first).unwrap();
    let agents = listening["agents"].as_array().unwrap();
    let direction = agents.iter().find(|agent| agent["name"] == name).unwrap();
    assert_eq!(direction["installed"], true);

    let pasted = Command::new("sh")
        .args(["-c", direction["command"].as_str().unwrap()])
        .current_dir(&workspace)
        .env("TERM", "dumb")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&pasted.stdout).into_owned();
    assert!(pasted.status.success(), "{said}{}", String::from_utf8_lossy(&pasted.stderr));
    assert!(said.contains("I wrote rehearsal.txt and read it back."), "{said}");
    assert_eq!(
        std::fs::read_to_string(workspace.join("rehearsal.txt")).unwrap(),
        "Written in a rehearsal.\n"
    );
    kill_process(Pid::from_child(&rehearsal.0), Signal::TERM).unwrap();
    assert!(rehearsal.0.wait().unwrap().success());
}

#[test]
fn claude() {
    paste(Player::ClaudeStream);
}

#[test]
fn codex() {
    paste(Player::Codex);
}

#[test]
fn opencode() {
    paste(Player::OpenCode);
}
