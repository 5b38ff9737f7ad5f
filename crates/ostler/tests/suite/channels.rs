//! The ways besides its standard output in which an agent shows life, with the fake agent.

use std::path::PathBuf;

use serde_json::Value;

use crate::ground::{Ended, Ground};

/// A ground on which `claude-headless` is the fake agent with this script.
pub(crate) fn ground(script: &str) -> Ground {
    let agent = PathBuf::from(env!("CARGO_BIN_EXE_ostler")).with_file_name("ostler-fake-agent");
    assert!(agent.exists(), "build it first: cargo build -p ostler-rehearsal");
    // It is steered by files that a jail does not show.
    let ground = Ground::new().unjailed();
    ground.put("script.toml", &format!("v = 1\n{script}"));
    // It is asked for its version in an empty environment, so a variable of ours would not reach it.
    let agent = format!("OSTLER_FAKE_DIALECT=claude exec {} \"$@\"", agent.display());
    let program = ground.script("bin/claude", &agent);
    let config = format!("[agents.claude-headless]\nprogram = {:?}\n", program.display().to_string());
    ground.put("ostler/config.toml", &config);
    let (script, state, settings) = (ground.at("script.toml"), ground.at("state"), ground.at("home/.claude"));
    ground
        .with("PATH", "/usr/bin:/bin")
        .with("OSTLER_CFG__NETWORK__PROBE", "off")
        .with("OSTLER_FAKE_SCRIPT", script)
        .with("OSTLER_FAKE_STATE", state)
        .with("CLAUDE_CONFIG_DIR", settings)
}

fn lines(ended: &Ended) -> Vec<Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn run(ground: &Ground, args: &[&str]) -> (Ended, Vec<Value>) {
    let mut all = vec!["run", "-a", "claude-headless", "--json"];
    all.extend_from_slice(args);
    let ended = ground.run(&all);
    let lines = lines(&ended);
    (ended, lines)
}

fn said(lines: &[Value]) -> Vec<&str> {
    let whole = |line: &&Value| line["event"] == "said" && line["part"] == "whole";
    lines.iter().filter(whole).map(|line| line["text"].as_str().unwrap()).collect()
}

/// claude-code #17248: the standard output stops in mid-turn, the session goes on.
#[test]
fn h3_a_session_that_goes_on_without_its_output_is_read_from_its_transcript() {
    let ground = ground(
        r#"
        [[step]]
        do = [
          { say = "Begun." },
          { tool = "Bash", arguments = { command = "one" }, output = "1", for = "10ms" },
          { drop_stdout_keep_transcript = true },
          { tool = "Bash", arguments = { command = "two" }, output = "2", for = "2s" },
          { tool = "Bash", arguments = { command = "three" }, output = "3", for = "2s" },
          { tool = "Bash", arguments = { command = "four" }, output = "4", for = "2s" },
          { say = "All done." },
        ]
        "#,
    );
    let limits = ["--silence", "4s", "--open-call", "4s", "--max-resumes", "0"];
    let (ended, lines) = run(&ground, &[&limits[..], &["go"]].concat());
    let last = lines.last().unwrap();
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert_eq!((&last["outcome"], &last["rule"]), (&"completed".into(), &Value::Null));
    assert_eq!(last["evidence"][0]["grade"], "transcript", "{last}");
    assert_eq!((&last["turns"], &last["survivors"]), (&1.into(), &0.into()));
    assert_eq!(said(&lines), ["Begun.", "All done."], "nothing is told twice");
    let calls = lines.iter().filter(|line| line["event"] == "tool_started");
    let commands: Vec<&str> = calls.map(|line| line["input"]["command"].as_str().unwrap()).collect();
    assert_eq!(commands, ["one", "two", "three", "four"]);
    assert!(lines.iter().any(|line| line["channel"] == "transcript"), "{}", ended.stdout);
    let why = ground.run(&["runs", "why", "last"]).stdout;
    assert!(why.contains("seen     transcript at") && !why.contains("fired"), "{why}");
}

#[test]
fn a_session_whose_transcript_does_not_grow_is_stuck() {
    let ground = ground(
        r#"
        [[step]]
        do = [{ say = "Begun." }, { drop_stdout_keep_transcript = true }, { stall = "forever" }]
        "#,
    );
    let (ended, lines) = run(&ground, &["--silence", "2s", "--max-resumes", "0", "go"]);
    let last = lines.last().unwrap();
    assert_eq!((ended.code, &last["rule"]), (Some(12), &"silence".into()), "{}", ended.stdout);
    assert_eq!(last["outcome"], "stalled");
    let why = ground.run(&["runs", "why", "last"]).stdout;
    assert!(why.contains("fired    rule `silence`"), "{why}");
}

#[test]
fn what_the_agent_changed_is_told_before_the_outcome() {
    let ground = ground(
        r#"
        [[step]]
        do = [
          { say = "Begun." },
          { write_file = "made.txt", content = "made" },
          { write_file = "old.txt", content = "new content" },
        ]
        "#,
    );
    ground.put("project/old.txt", "old");
    let (ended, lines) = run(&ground, &["go"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let changes = &lines[lines.len() - 2];
    assert_eq!(changes["kind"], "changes", "{}", ended.stdout);
    assert_eq!(changes["created"]["first"], serde_json::json!(["made.txt"]), "{changes}");
    assert_eq!(changes["changed"]["first"], serde_json::json!(["old.txt"]), "{changes}");
    assert_eq!((&changes["removed"]["count"], &changes["partial"]), (&0.into(), &false.into()));
}

/// While a call is open, files that it writes are life: nothing else is heard of it for twice as long as is allowed.
#[test]
fn a_silent_tool_that_writes_files_is_left_alone() {
    let ground = ground(
        r#"
        [[step]]
        do = [
          { tool = "Bash", arguments = { command = "long" }, output = "ok", for = "9s" },
          { say = "Done." },
        ]
        "#,
    );
    let mut command = ground.command(&["run", "-a", "claude-headless", "--json", "--open-call", "4s", "go"]);
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    // Somebody writes twice a second, for as long as the tool is open.
    let (project, stop) =
        (ground.at("project"), std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let stopped = stop.clone();
    let writing = std::thread::spawn(move || {
        for number in 0..u32::MAX {
            if stopped.load(std::sync::atomic::Ordering::Relaxed) {
                return;
            }
            std::fs::write(project.join("log"), number.to_string()).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
    });
    let output = crate::ground::ended(child);
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writing.join().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    assert!(stdout.contains("\"channel\":\"workspace\""), "{stdout}");
    let why = ground.run(&["runs", "why", "last"]).stdout;
    assert!(why.contains("seen     workspace at"), "{why}");
}

/// While a call is open, descendants that use the processor are life.
#[test]
fn a_silent_tool_whose_processes_are_busy_is_left_alone() {
    let ground = ground(
        r#"
        [[step]]
        do = [
          { setsid_child = { count = 1, busy = true, life = "60s" } },
          { tool = "Bash", arguments = { command = "long" }, output = "ok", for = "15s" },
          { say = "Done." },
        ]
        "#,
    );
    let (ended, lines) = run(&ground, &["--open-call", "6s", "go"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(lines.iter().any(|line| line["channel"] == "tree"), "{}", ended.stdout);
    let why = ground.run(&["runs", "why", "last"]).stdout;
    assert!(why.contains("seen     tree at"), "{why}");
}

/// It says that it will try again in longer than it may be silent, and does.
#[test]
fn an_announced_wait_is_not_a_stall() {
    let ground = ground(
        r#"
        [[step]]
        do = [
          { unknown_frame = "system", body = { subtype = "api_retry", attempt = 1, max_retries = 10, retry_delay_ms = 7000, error_status = 529, error = "overloaded" } },
          { stall = "7s" },
          { say = "Done." },
        ]
        "#,
    );
    let (ended, lines) = run(&ground, &["--silence", "3s", "--max-resumes", "0", "go"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(
        lines.iter().all(|line| line["kind"] != "parked"),
        "it is the agent's own time: {}",
        ended.stdout
    );
}

#[test]
fn an_announced_wait_does_not_defer_the_ceiling() {
    let ground = ground(
        r#"
        [[step]]
        do = [
          { unknown_frame = "system", body = { subtype = "api_retry", attempt = 1, max_retries = 10, retry_delay_ms = 600000, error_status = 529, error = "overloaded" } },
          { stall = "forever" },
        ]
        "#,
    );
    let (ended, lines) = run(&ground, &["--silence", "2s", "--ceiling", "4s", "go"]);
    let last = lines.last().unwrap();
    assert_eq!((ended.code, &last["rule"]), (Some(13), &"ceiling".into()), "{}", ended.stdout);
    assert_eq!((&last["resumes"], &last["survivors"]), (&0.into(), &0.into()));
}

/// H12, with an agent that goes on trying by itself: its clock stands still until the network is back.
#[test]
fn an_agent_that_is_offline_is_waited_for_and_not_touched() {
    let door = Door::shut();
    let ground = ground(
        r#"
        [[step]]
        do = [
          { unknown_frame = "system", body = { subtype = "api_retry", attempt = 1, max_retries = 10, retry_delay_ms = 500, error = "unknown" } },
          { wait_for_file = "back", within = "100s" },
          { say = "Done." },
        ]
        "#,
    )
    .with("OSTLER_CFG__NETWORK__PROBE", door.address());
    let args = ["run", "-a", "claude-headless", "--json", "--silence", "3s", "--max-resumes", "1", "go"];
    let mut child = ground.command(&args).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut lines = lines.map(|line| line.unwrap());
    let parked = lines.find(|line| line.contains("\"kind\":\"parked\"")).unwrap();
    assert!(parked.contains(&format!("offline: cannot reach {} (", door.address())), "{parked}");
    door.open(|| {
        lines.find(|line| line.contains("\"kind\":\"unparked\"")).unwrap();
        ground.put("project/back", "");
        let last = lines.by_ref().last().unwrap();
        assert!(last.contains("\"outcome\":\"completed\"") && last.contains("\"resumes\":0"), "{last}");
    });
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// An address on loopback where nobody answers until it is opened. It is ours all the while.
struct Door {
    socket: tokio::net::TcpSocket,
}

impl Door {
    fn shut() -> Self {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        Self { socket }
    }

    fn address(&self) -> String {
        self.socket.local_addr().unwrap().to_string()
    }

    /// Somebody answers for as long as this goes on.
    fn open(self, meanwhile: impl FnOnce()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let inside = runtime.enter();
        let listener = self.socket.listen(8).unwrap();
        meanwhile();
        drop((listener, inside));
    }
}

/// Real agents have been seen to exit while the last of their output was on its way into the pipe.
#[test]
fn an_end_that_was_only_written_down_is_found_after_the_exit() {
    let ground = ground(
        r#"
        [[step]]
        do = [{ say = "Begun." }, { drop_stdout_keep_transcript = true }, { say = "All done." }, { exit = 0 }]
        "#,
    );
    let (ended, lines) = run(&ground, &["--max-resumes", "0", "go"]);
    let last = lines.last().unwrap();
    assert_eq!((ended.code, &last["outcome"]), (Some(0), &"completed".into()), "{}", ended.stdout);
    assert_eq!(last["evidence"][0]["grade"], "transcript", "{last}");
}
