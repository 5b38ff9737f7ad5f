//! A run that is killed at any moment is gone on with: its journal is whole, the session is the same one, and what was
//! done is not done again.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::player::Player;
use crate::yard::Yard;

/// Five pieces of work, each of which leaves a line. The model goes on where it was, as a real one would.
const FIVE: &str = r#"
[[conversation]]
goes_on = "Go on where you stopped"
[[conversation.step]]
repeat = 5
reply = [
    { text = "Piece {{round}}, and on.", chunk = 2, gap = "10ms" },
    { tool_by_role = "shell", command = "echo piece {{round}} >> done.txt" },
]
[[conversation.step]]
reply = [{ text = "All is done.", chunk = 2, gap = "10ms" }]
"#;

/// How often it is killed before it is left in peace.
const KILLS: u64 = 3;

/// After which of the lines that follow the first word of the agent it is killed: another each time, always the same.
fn moment(player: Player, kill: u64) -> usize {
    let seed = player.agent().name().bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
    let mixed = (seed + kill).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    usize::try_from(mixed % 9).unwrap()
}

/// Starts it, kills it some lines after the agent's first word, and answers whether it had ended before that.
fn killed(yard: &Yard, args: &[&str], after: usize) -> bool {
    let mut command = yard.ostler(&["run", "--json"]);
    let mut child = command.args(args).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let mut lines = lines.skip_while(|line| !line.contains("\"event\":\"started\"")).skip(after);
    let is_over = lines.next().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    is_over
}

/// Whole lines that say what happened, numbered without gaps; the last may be torn.
fn journal(yard: &Yard) -> Vec<Value> {
    let text = yard.ostler(&["runs", "events", "last"]).output().unwrap().stdout;
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    let events: Vec<Value> = lines.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let torn = lines.len() - events.len();
    assert!(torn <= usize::try_from(KILLS).unwrap(), "{torn} of {} lines cannot be read", lines.len());
    let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    events
}

/// How much of a journal is shown when a test fails.
const SHOWN: usize = 40;

/// Says what the run came to, should the test fail: it is another each time.
struct Witness<'a>(&'a Yard);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let said =
            |args: &[&str]| self.0.ostler(args).output().map(|output| output.stdout).unwrap_or_default();
        let (why, events) = (said(&["runs", "why", "last"]), said(&["runs", "events", "last"]));
        let events = String::from_utf8_lossy(&events).into_owned();
        let first = events.lines().count().saturating_sub(SHOWN);
        let tail: Vec<&str> = events.lines().skip(first).collect();
        let _ = writeln!(std::io::stderr(), "{}\n{}", String::from_utf8_lossy(&why), tail.join("\n"));
    }
}

fn goes_on_after_every_kill(player: Player) {
    let Some(yard) = Yard::of(player) else { return };
    let _witness = Witness(&yard);
    let script = yard.script(FIVE);
    let first = ["-a", player.agent().name(), "--permissions", "all", &script, "Do the five pieces."];
    assert!(!killed(&yard, &first, moment(player, 0)), "it ended too soon to be killed");
    for kill in 1..KILLS {
        yard.is_deserted();
        let why = yard.ostler(&["runs", "why", "last"]).output().unwrap();
        let why = String::from_utf8(why.stdout).unwrap();
        assert!(why.contains("abandoned") && why.contains("it was killed"), "{why}");
        journal(&yard);
        if killed(&yard, &["--resume", "last"], moment(player, kill)) {
            break;
        }
    }
    yard.is_deserted();
    let ended = yard.ostler(&["run", "--resume", "last", "--json"]).output().unwrap();
    let last = String::from_utf8(ended.stdout).unwrap();
    let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    assert_eq!((ended.status.code(), &last["outcome"]), (Some(0), &"completed".into()), "{last}");

    let events = journal(&yard);
    // A session is only begun anew if the agent was killed before it had written down what it was asked.
    let is_anew = |event: &Value| event["reason"].as_str().is_some_and(|why| why.contains("begins anew"));
    let first = events.iter().rposition(is_anew).unwrap_or(0);
    // Pieces of an answer come before Claude Code has written down what it was asked.
    let is_work = |event: &Value| event["part"] == "whole" || event["event"] == "tool_started";
    assert!(!events[..first].iter().any(is_work), "begun anew after it had worked: {events:#?}");
    let sessions = events[first..].iter().filter(|event| event["event"] == "started");
    assert!(
        sessions.map(|event| &event["session"]).all(|session| *session == last["session"]),
        "another session: {events:#?}"
    );
    // A call is not made again once the agent went on after it. Before that it may not have written down its end: Codex
    // tells it first.
    let (mut open, mut told, mut over) = (Vec::new(), Vec::new(), Vec::new());
    for event in &events {
        let call = event["call"].as_str().unwrap_or_default().to_owned();
        match (event["kind"].as_str(), event["event"].as_str()) {
            (Some("spawned"), _) => (open, told) = (Vec::new(), Vec::new()),
            (_, Some("tool_started")) => {
                over.append(&mut told);
                let piece = event["input"].to_string();
                assert!(!over.contains(&piece), "done twice: {piece}");
                open.push((call, piece));
            }
            (_, Some("said")) => over.append(&mut told),
            (_, Some("tool_ended")) => {
                told.extend(open.iter().find(|(id, _)| *id == call).map(|(_, piece)| piece.clone()));
            }
            _ => {}
        }
    }
    let done = std::fs::read_to_string(yard.workspace().join("done.txt")).unwrap();
    // Each kill may hit one piece in its middle, which then counts as made.
    let least = 5 - usize::try_from(KILLS).unwrap();
    assert!(done.lines().count() >= least, "more is missing than was killed in its middle: {done}");
    yard.is_empty();
}

/// A step that finishes, and one that lasts until it is let go.
const INTERRUPTED: &str = r#"
[[conversation]]
[[conversation.step]]
expect = { matches = '(?s)TOLD' }
reply = [{ tool_by_role = "shell", command = "grep -qx two done.txt || echo two >> done.txt" }]
[[conversation.step]]
reply = [{ text = "All is done." }]

[[conversation]]
[[conversation.step]]
expect = { contains = "Do both." }
reply = [{ tool_by_role = "shell", command = "echo one >> done.txt" }]
[[conversation.step]]
reply = [{ tool_by_role = "shell", command = "touch begun; while [ ! -e go ]; do sleep 0.05; done; echo two >> done.txt" }]
"#;

/// How long a run may take to come to its second step.
const BEGUN_WITHIN: Duration = Duration::from_secs(120);

/// Runs until the second step is under way, kills Ostler, changes what the agent has written down, and resumes. The agent
/// must be told what matches `told`: no other prompt is answered.
fn interrupted(player: Player, told: &str, lose: impl Fn(&Yard)) {
    let Some(yard) = Yard::of(player) else { return };
    let _witness = Witness(&yard);
    let script = yard.script(&INTERRUPTED.replace("TOLD", told));
    let mut child = yard.start(&["--permissions", "all", &script, "Do both."]);
    let deadline = Instant::now() + BEGUN_WITHIN;
    // A terminal program writes a call down a moment after it began. What the journal lacks cannot be reported.
    let reported = if player == Player::OpenCode { 1 } else { 2 };
    while !yard.workspace().join("begun").exists() || started_calls(&yard) < reported {
        assert!(Instant::now() < deadline, "the second step did not begin");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    yard.is_deserted();
    lose(&yard);
    let output = yard.ostler(&["run", "--resume", "last", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let ended = crate::yard::Ended::of(crate::yard::ended(output));
    ended.ends("completed", 0);
    let done = std::fs::read_to_string(yard.workspace().join("done.txt")).unwrap();
    assert_eq!(done, "one\ntwo\n", "each step is done once");
    yard.is_empty();
}

/// How many calls the journal of the only run has as started.
fn started_calls(yard: &Yard) -> usize {
    let runs = std::fs::read_dir(yard.at("ostler/runs")).into_iter().flatten().flatten();
    let journals = runs.filter_map(|run| std::fs::read_to_string(run.path().join("events.ndjson")).ok());
    journals.map(|text| text.matches(r#""event":"tool_started""#).count()).sum()
}

/// Leaves of the transcript what Claude Code had written before its first call: it writes a moment late.
fn lose_calls(yard: &Yard) {
    let projects = "home/.claude/projects";
    let mut lost = 0;
    let runs = std::fs::read_dir(yard.at("ostler/runs")).unwrap().flatten();
    for project in runs.flat_map(|run| std::fs::read_dir(run.path().join(projects)).into_iter().flatten()) {
        let files = std::fs::read_dir(project.unwrap().path()).unwrap().flatten();
        for file in files.filter(|file| file.path().is_file()) {
            let text = std::fs::read_to_string(file.path()).unwrap();
            let kept: Vec<&str> = text.lines().take_while(|line| !line.contains("tool_use")).collect();
            lost += text.lines().count() - kept.len();
            std::fs::write(file.path(), kept.join("\n") + "\n").unwrap();
        }
    }
    assert!(lost > 0, "there was no transcript");
}

const WAS_INTERRUPTED: &str = "was interrupted: it may have run completely";

/// An agent that is killed in the middle of a call is told which one it was.
mod an_interrupted_call_is_reported {
    use super::*;

    #[test]
    fn to_claude() {
        interrupted(Player::ClaudeStream, WAS_INTERRUPTED, |_| ());
    }
    #[test]
    fn to_claude_on_a_terminal() {
        interrupted(Player::ClaudeTerminal, WAS_INTERRUPTED, |_| ());
    }
    #[test]
    fn to_codex() {
        interrupted(Player::Codex, WAS_INTERRUPTED, |_| ());
    }
    /// It reports a call only when it is over, and tells its model itself which one was interrupted.
    #[test]
    fn to_opencode() {
        interrupted(Player::OpenCode, "check what it did, and finish that step", |_| ());
    }
}

/// A call that finished is not repeated because the agent was killed before it had written that down.
#[test]
fn a_finished_call_that_the_transcript_lacks_is_reported_to_claude() {
    let told = format!("echo one >> done.txt.* finished: do not repeat it.*{WAS_INTERRUPTED}");
    interrupted(Player::ClaudeStream, &told, lose_calls);
}

mod goes_on {
    use super::{Player, goes_on_after_every_kill};

    #[test]
    fn claude() {
        goes_on_after_every_kill(Player::ClaudeStream);
    }
    #[test]
    fn codex() {
        goes_on_after_every_kill(Player::Codex);
    }
    #[test]
    fn opencode() {
        goes_on_after_every_kill(Player::OpenCode);
    }
}
