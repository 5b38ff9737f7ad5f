//! `ostler run -a claude`: the real terminal program, of two versions, driven to a true outcome.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::for_every_version;
use crate::player::Player;
use crate::yard::{Ended, Yard};

for_every_version!(
    completes,
    stalls,
    survives_what_its_stream_survives,
    is_cancelled,
    is_killed,
    is_gone_on_with,
    is_refused,
    finds_its_record_in_every_folder,
);

fn completes(player: Player) {
    let Some(yard) = Yard::bridged(player) else { return };
    let ended = yard.run(&["--rehearse=tools", "--permissions", "all", "Write the file."]);
    ended.ends("completed", 0);
    let written = std::fs::read_to_string(yard.workspace().join("rehearsal.txt")).unwrap();
    assert_eq!(written, "Written in a rehearsal.\n");
    let outcome = ended.outcome();
    assert_eq!((&outcome["turns"], &outcome["resumes"]), (&1.into(), &0.into()));
    let evidence: Vec<_> = outcome["evidence"].as_array().unwrap().iter().map(|one| &one["grade"]).collect();
    assert_eq!(evidence, ["wire", "transcript"], "the bridge saw it, and the agent wrote it down");
    assert!(ended.lines.iter().all(|line| line["event"] != "unknown"), "{:#?}", ended.lines);
    let count = |event: &str| ended.lines.iter().filter(|line| line["event"] == event).count();
    assert_eq!((count("asked"), count("tool_started"), count("tool_ended")), (1, 4, 4));
    assert_eq!(ended.said(), ["I will look around first.", "I wrote rehearsal.txt and read it back."]);
    let journal = Path::new(outcome["journal"].as_str().unwrap());
    assert!(std::fs::metadata(journal.join("raw/terminal")).unwrap().len() > 0);
    yard.is_empty();
}

fn stalls(player: Player) {
    let Some(yard) = Yard::of(player) else { return };
    // On a busy machine a spinner can stand still for seconds.
    let limits = ["--silence", "6s", "--open-call", "12s", "--max-resumes", "0"];
    let ended = yard.run(&[&["--rehearse=stall"], &limits[..], &["Say something."]].concat());
    ended.ends("stalled", 12);
    assert_eq!(ended.outcome()["rule"], "silence", "a spinner alone is no sign of life for longer than that");
    assert!(
        ended.outcome()["detail"].as_str().unwrap().contains("nothing was heard for 12."),
        "{:?}",
        ended.outcome()
    );
    let rungs: Vec<_> = ended.with("kind", "stopping").filter_map(|line| line["rung"].as_str()).collect();
    assert_eq!(rungs.first(), Some(&"interrupt"));
    assert!(!rungs.contains(&"close_stdin") && !rungs.contains(&"term"), "{rungs:?}");
    let screen = ended.with("kind", "screen").next().unwrap();
    assert!(screen["text"].as_str().unwrap().contains('❯'), "what its terminal showed is kept: {screen}");
    yard.is_empty();
}

/// Answers that stream for longer than `--silence`, and leave nothing in the transcript meanwhile.
const SLOW: [(&str, &str); 3] = [
    ("lines", r#"{ text = "- a line of it\n", repeat = 40, chunk = 10, gap = "180ms" }"#),
    ("a paragraph", r#"{ text = "word after word, ", repeat = 36, chunk = 10, gap = "180ms" }"#),
    ("thoughts", r#"{ thinking = "THOUGHTS", chunk = 10, gap = "180ms" }, { text = "Thought over." }"#),
];

/// What `claude-headless` survives, `claude` survives: the same scripts on both engines, all at once.
fn survives_what_its_stream_survives(player: Player) {
    let survives = |player: Player, name: &str, reply: &str| {
        let Some(yard) = Yard::of(player) else { return };
        let reply = reply.replace("THOUGHTS", &"I wonder about that. ".repeat(30));
        let script = yard.script(&format!("[[conversation]]\n[[conversation.step]]\nreply = [{reply}]"));
        let ended = yard.run(&[&script, "--silence", "6s", "--max-resumes", "0", "Say something."]);
        assert_eq!(ended.outcome()["outcome"], "completed", "{player:?}, {name}: {:#?}", ended.lines);
        assert_eq!(ended.with("kind", "stopping").count(), 0, "{player:?}, {name}: {:#?}", ended.lines);
        yard.is_empty();
    };
    let streamed = (player == Player::ClaudeTerminal).then_some(Player::ClaudeStream);
    std::thread::scope(|scope| {
        for (name, reply) in SLOW {
            for player in streamed.into_iter().chain([player]) {
                scope.spawn(move || survives(player, name, reply));
            }
        }
    });
}

/// Starts a run whose model never ends its answer, and waits until the agent has its prompt.
pub(crate) fn stalled(yard: &Yard) -> (Child, Vec<Value>, impl Iterator<Item = Value>) {
    let mut child = yard.start(&["--rehearse=stall", "--max-resumes", "0", "Say something."]);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let mut seen = Vec::new();
    while seen.last().is_none_or(|line: &Value| line["event"] != "asked") {
        seen.push(lines.next().unwrap_or_else(|| panic!("it never had its prompt: {seen:#?}")));
    }
    (child, seen, lines)
}

fn is_cancelled(player: Player) {
    let Some(yard) = Yard::of(player) else { return };
    let (mut child, _, lines) = stalled(&yard);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let lines: Vec<Value> = lines.collect();
    let ended = Ended { code: child.wait().unwrap().code(), lines };
    ended.ends("cancelled", 130);
    yard.is_empty();
}

/// How soon it is told that the program was killed: a second, and much more on a busy machine.
const TOLD_WITHIN: Duration = Duration::from_secs(10);

fn is_killed(player: Player) {
    let Some(yard) = Yard::of(player) else { return };
    let (mut child, seen, lines) = stalled(&yard);
    let pid = seen.iter().find_map(|line| line["pid"].as_i64()).unwrap();
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    let killed = Instant::now();
    let lines: Vec<Value> = lines.collect();
    assert!(killed.elapsed() < TOLD_WITHIN, "{:?}", killed.elapsed());
    let ended = Ended { code: child.wait().unwrap().code(), lines };
    ended.ends("agent_failed", 10);
    assert_eq!(ended.outcome()["class"], "crashed");
    let detail = ended.outcome()["detail"].as_str().unwrap();
    assert!(detail.contains("signal 9") && !detail.contains('❯'), "{detail}");
    assert!(ended.lines.iter().any(|line| line["signal"] == 9), "{:#?}", ended.lines);
    yard.is_empty();
}

const GOES_ON: &str = r#"
[[conversation]]
[[conversation.step]]
expect = { contains = "Go on with it." }
reply = [{ text = "I went on." }]

[[conversation]]
[[conversation.step]]
reply = [{ text = "I began." }]
"#;

fn is_gone_on_with(player: Player) {
    let Some(yard) = Yard::of(player) else { return };
    let script = yard.script(GOES_ON);
    let first = yard.run(&[&script, "Begin."]);
    first.ends("completed", 0);
    let mut command = yard.ostler(&["run", "--resume", "last", "--json", "Go on with it."]);
    let second = Ended::of(command.output().unwrap());
    second.ends("completed", 0);
    assert_eq!(second.said(), ["I went on."], "what was said before is not told again");
    assert_eq!(first.outcome()["session"], second.outcome()["session"]);
    let asked = yard.requests(&second);
    assert!(asked.iter().any(|request| request["prompts"] == 2), "it remembers: {asked:#?}");
    yard.is_empty();
}

/// What the program would take for a command of its own is refused before anything is started.
fn is_refused(player: Player) {
    let Some(yard) = Yard::of(player) else { return };
    let said = yard.refused(&["--rehearse=hello", "!touch danger"]);
    assert!(said.contains("cannot be run this way"), "{said}");
    assert!(!yard.workspace().join("danger").exists());
    yard.is_empty();
}

/// The folder of its record is named after the workspace, with links resolved.
fn finds_its_record_in_every_folder(player: Player) {
    let long = format!("{}/{}", "long ".repeat(30), "é".repeat(60));
    for name in ["dots.and_lines and blanks", "cafe\u{301} \u{72ac} \u{1f415}", &long] {
        let Some(yard) = Yard::of(player) else { return };
        let (folder, link) = (yard.workspace().join(name), yard.at("link"));
        std::fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        let name = player.agent().name();
        let mut command = yard.ostler(&["run", "-a", name, "--json", "--rehearse=hello", "Say hello."]);
        let ended = Ended::of(command.current_dir(&link).output().unwrap());
        ended.ends("completed", 0);
        let asked: Vec<_> = ended.with("event", "asked").filter_map(|line| line["text"].as_str()).collect();
        assert_eq!((asked, ended.said().len()), (vec!["Say hello."], 1), "{}", folder.display());
        yard.is_empty();
    }
}
