//! Runs that are asked to stop, told something, gone on with, and whose end is told to somebody.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use crate::ground::{Ended, Ground};

fn ground() -> Ground {
    Ground::new().with("PATH", "/usr/bin:/bin")
}

fn script(ground: &Ground, text: &str) -> String {
    format!("command:sh {}", ground.put("agent.sh", text).display())
}

fn outcome(stdout: &str) -> Value {
    serde_json::from_str(stdout.lines().last().unwrap()).unwrap()
}

fn run(ground: &Ground, agent: &str, more: &[&str]) -> Ended {
    ground.run(&[&["run", "-a", agent, "--permissions", "all", "--json"], more].concat())
}

/// Starts a run, and waits until its agent has said a word.
fn begun(ground: &Ground, agent: &str, word: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let args = ["run", "-a", agent, "--permissions", "all", "--json", "x"];
    let mut child = ground.command(&args).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended without `{word}`");
    }
    (child, lines)
}

#[test]
fn a_live_run_is_stopped_from_elsewhere() {
    let ground = ground();
    let agent = script(&ground, "echo begun; exec sleep 98764");
    let (mut child, lines) = begun(&ground, &agent, "begun");
    let said = ground.run(&["say", "last", "hello"]);
    assert_eq!(said.code, Some(2), "{}", said.stdout);
    assert!(said.stderr.contains("does not listen"), "{}", said.stderr);
    let stopped = ground.run(&["stop", "last"]);
    assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
    let last = lines.lines().map(|line| line.unwrap()).last().unwrap();
    assert_eq!(outcome(&last)["outcome"], "cancelled");
    assert!(last.contains("ostler stop"), "{last}");
    assert_eq!(child.wait().unwrap().code(), Some(143));
    let left: Vec<String> = ground.left().into_iter().filter(|path| path.contains("sock")).collect();
    assert_eq!(left, ["sockets"]);
    let again = ground.run(&["stop", "last"]);
    assert_eq!(again.code, Some(2));
    assert!(again.stderr.contains("is not under way"), "{}", again.stderr);
}

#[test]
fn a_run_that_was_left_is_gone_on_with() {
    let ground = ground();
    let agent = script(&ground, "cat >> heard.txt; echo begun; test -f stay && exec sleep 98765; exit 0");
    ground.put("project/stay", "");
    let (mut child, _lines) = begun(&ground, &agent, "begun");
    let busy = ground.run(&["run", "--resume", "last"]);
    assert_eq!(busy.code, Some(2));
    assert!(busy.stderr.contains("is under way"), "{}", busy.stderr);
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(ground.at("project/stay")).unwrap();
    assert!(ground.run(&["runs"]).stdout.contains("abandoned"));

    let ended = ground.run(&["run", "--resume", "last", "--json"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("begins anew"), "a command has no sessions: {}", ended.stdout);
    assert_eq!(fs::read_to_string(ground.at("project/heard.txt")).unwrap(), "xx");
    let events = ground.run(&["runs", "events", "last"]).stdout;
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "one journal, without gaps");
    let times: Vec<u64> = events.iter().filter_map(|event| event["ms"].as_u64()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(outcome(&ended.stdout)["resumes"], 1);
    assert_eq!(ground.run(&["runs", "why", "last"]).code, Some(0));

    let done = ground.run(&["run", "--resume", "last"]);
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("nothing is left to do"), "{}", done.stderr);
}

/// A Codex that keeps a record as the real one does: first that there is a session, later what it was asked in it.
const RECORDED: &str = r#"
test "$1" = --version && { echo codex-cli 0.1.0; exit; }
id=01234567-89ab-7def-8123-456789abcdef
record=$HOME/.codex/sessions/2026/01/01/rollout-x-$id.jsonl
mkdir -p "${record%/*}"
test -f "$record" || echo '{"type":"session_meta","payload":{"id":"'$id'"}}' > "$record"
echo "$*" >> heard.txt
cat >> heard.txt
test -f written && echo '{"type":"event_msg","payload":{"type":"item_completed","item":
    {"type":"UserMessage","content":[{"type":"text","text":"x"}]}}}' | tr -d '\n' >> "$record" && echo >> "$record"
echo '{"type":"thread.started","thread_id":"'$id'"}'
echo '{"type":"turn.started"}'
test -f stay && exec sleep 98766
echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"done"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":1}}'
"#;

#[test]
fn an_agent_that_had_not_written_down_what_it_was_asked_is_asked_again() {
    for (written, want) in [(false, "the task itself"), (true, "Go on where you stopped")] {
        let ground = ground();
        let codex = ground.script("codex", RECORDED);
        ground.put("ostler/config.toml", &format!("[agents.codex]\nprogram = {codex:?}\n"));
        ground.put("project/stay", "");
        if written {
            ground.put("project/written", "");
        }
        let mut command = ground.command(&["run", "-a", "codex", "--json", "the task itself"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map(|line| line.unwrap()).any(|line| line.contains("\"started\"")));
        child.kill().unwrap();
        child.wait().unwrap();
        fs::remove_file(ground.at("project/stay")).unwrap();
        fs::remove_file(ground.at("project/heard.txt")).unwrap();

        let ended = ground.run(&["run", "--resume", "last", "--json"]);
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        let heard = fs::read_to_string(ground.at("project/heard.txt")).unwrap();
        assert!(heard.contains(want), "{heard}");
        assert_eq!(heard.contains(" resume "), written, "{heard}");
    }
}

#[test]
fn files_for_the_agent_alone_are_gone_with_the_run_and_there_again_when_it_goes_on() {
    let ground = ground();
    // Only with `edits` and without a jail it is given a folder for temporary files.
    let codex = ground.script(
        "codex",
        &format!("test \"$1\" = --version || cat \"$TMPDIR/README\" >&2 || exit 9{RECORDED}"),
    );
    ground.put("ostler/config.toml", &format!("[agents.codex]\nprogram = {codex:?}\n"));
    let first = ["run", "-a", "codex", "--no-jail", "--json", "x"];
    for args in [&first[..], &["run", "--resume", "last", "--json", "and y"]] {
        let ended = ground.run(args);
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        let journal = PathBuf::from(outcome(&ended.stdout)["journal"].as_str().unwrap());
        assert!(
            fs::read_to_string(journal.join("raw/stderr")).unwrap().contains("Temporary files of one run")
        );
        assert!(!journal.join("private").exists());
    }
}

#[test]
fn what_cannot_be_gone_on_with_is_refused() {
    let ground = ground();
    let agent = script(&ground, "cat");
    assert_eq!(run(&ground, &agent, &["--max-turns", "1", "x"]).code, Some(0));
    let before = ground.left();
    let table: [(&[&str], &str); 6] = [
        (&["run", "--resume", "0000"], "there is no run `0000`"),
        (&["run", "--resume", "last"], "is completed"),
        (&["run", "--resume", "last", "more"], "has used up what it may use"),
        (&["run", "--resume", "last", "-a", "codex", "x"], "cannot be used with"),
        (&["run", "--resume", "last", "--rehearse", "x"], "cannot be used with"),
        (&["run", "--resume", "last", "  "], "the prompt is empty"),
    ];
    for (args, want) in table {
        let ended = ground.run(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(want), "{args:?}: {}", ended.stderr);
    }
    assert_eq!(ground.left(), before);
    assert!(ground.run(&["runs"]).stdout.contains("completed"));

    let elsewhere = ground.at("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let args = ["--cwd", elsewhere.to_str().unwrap(), "--max-turns", "9", "x"];
    assert_eq!(run(&ground, &agent, &args).code, Some(0));
    fs::remove_dir(&elsewhere).unwrap();
    let gone = ground.run(&["run", "--resume", "last", "more"]);
    assert_eq!(gone.code, Some(2));
    assert!(
        gone.stderr.contains("worked in is gone") && gone.stderr.contains("bring it back"),
        "{}",
        gone.stderr
    );
}

#[test]
fn a_variable_is_set_again_or_the_run_does_not_go_on() {
    let ground = ground();
    let agent = script(&ground, "echo \"kept: $KEPT\"; exit 3");
    assert_eq!(run(&ground, &agent, &["--env", "KEPT=secret-value", "x"]).code, Some(10));
    assert!(!ground.run(&["runs", "show", "last", "--json"]).stdout.contains("secret-value"));
    let refused = ground.run(&["run", "--resume", "last"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("--env KEPT=VALUE"), "{}", refused.stderr);
    let again = ground.run(&["run", "--resume", "last", "--env", "KEPT=again", "--json"]);
    assert!(again.stdout.contains("kept: again"), "{}", again.stdout);
}

#[test]
fn somebody_is_told_how_it_ended_and_cannot_change_it() {
    let ground = ground();
    let told = ground.at("told.json");
    let words = format!("sh -c 'cat > {}; exit 3'", told.display());
    ground.put("ostler/config.toml", &format!("[notify]\ncommand = {words:?}\n"));
    let agent = script(&ground, "exit 7");
    let ended = run(&ground, &agent, &["x"]);
    assert_eq!(ended.code, Some(10), "{}", ended.stderr);
    assert!(ended.stderr.contains("the notify command ended with exit status: 3"), "{}", ended.stderr);
    let told: Value = serde_json::from_slice(&fs::read(told).unwrap()).unwrap();
    assert_eq!((&told["outcome"], &told["exit_code"]), (&"agent_failed".into(), &10.into()));
    let absent = ground.run(&["run", "-a", "codex", "x"]);
    assert_eq!(absent.code, Some(14));
    ground.put("ostler/config.toml", "[notify]\ncommand = \"/no/such/program\"\n");
    let ended = run(&ground, &agent, &["x"]);
    assert_eq!(ended.code, Some(10));
    assert!(ended.stderr.contains("does not start"), "{}", ended.stderr);
}

/// Starts a run whose notify command is this, with `{}` as the ground's folder.
fn notified(ground: &Ground, text: &str, args: &[&str]) -> Ended {
    let file = ground.script("bin/notifier", &text.replace("{}", &ground.at("").display().to_string()));
    ground.put("ostler/config.toml", &format!("[notify]\ncommand = {:?}\n", file.display().to_string()));
    let agent = script(ground, "exit 7");
    run(ground, &agent, args)
}

#[test]
fn notify_has_the_prompt_and_the_folder() {
    let ground = ground();
    let ended = notified(&ground, "cat > {}/message.json", &["mend \"it\"\nand 世界"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(10), ""));
    let message: Value = serde_json::from_slice(&fs::read(ground.at("message.json")).unwrap()).unwrap();
    assert_eq!(message["prompt"], "mend \"it\"\nand 世界");
    assert_eq!(message["cwd"], ground.at("project").display().to_string());
    assert_eq!((&message["outcome"], &message["exit_code"]), (&"agent_failed".into(), &10.into()));
    // The outcome itself is as it was.
    let shown: Value = serde_json::from_str(&ground.run(&["runs", "show", "last", "--json"]).stdout).unwrap();
    assert_eq!(shown["outcome"].get("prompt"), None);
}

/// A notifier that never ends held the exit for half a minute, and was then killed with what it had to say.
#[test]
fn notify_cannot_hold_the_exit() {
    let ground = ground();
    let begun = Instant::now();
    let ended = notified(&ground, "cat > {}/message.json; echo $$ > {}/pid; exec sleep 600", &["x"]);
    let took = begun.elapsed();
    let pid: i32 = fs::read_to_string(ground.at("pid")).unwrap().trim().parse().unwrap();
    let pid = Pid::from_raw(pid).unwrap();
    let is_alive = test_kill_process(pid).is_ok();
    let _ = kill_process(pid, Signal::KILL);
    assert_eq!(ended.code, Some(10), "{}", ended.stderr);
    assert!(took < Duration::from_secs(20), "{took:?}");
    let want = format!(
        "warning: the notify command still runs after 3 s and is left running, as process {}\n",
        pid.as_raw_nonzero()
    );
    assert_eq!(ended.stderr, want);
    assert!(is_alive, "it may finish what it has begun");
    assert!(ground.at("message.json").exists());
}

#[test]
fn a_notify_command_that_cannot_be_read_is_told_before_the_run() {
    let ground = ground();
    let agent = script(&ground, "touch begun");
    for words in ["'", "", "''"] {
        ground.put("ostler/config.toml", &format!("[notify]\ncommand = {words:?}\n"));
        let ended = run(&ground, &agent, &["x"]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains("quote that is never closed"), "{}", ended.stderr);
        assert!(ended.stderr.contains("config.toml") && !ground.at("project/begun").exists());
    }
}

#[test]
fn an_agent_that_is_not_there_is_an_outcome_that_is_kept() {
    let ground = ground();
    let ended = ground.run(&["run", "-a", "codex", "--json", "x"]);
    assert_eq!(ended.code, Some(14));
    assert!(ended.stderr.contains("ostler agents install codex"), "{}", ended.stderr);
    let last = outcome(&ended.stdout);
    assert_eq!((&last["outcome"], &last["exit_code"]), (&"not_installed".into(), &14.into()));
    assert!(last["detail"].as_str().unwrap().contains("ostler agents install codex"), "{last}");
    assert!(ground.run(&["runs"]).stdout.contains("not_installed"));
    let broken = ground.script("bin/broken", "echo broken; exit 1");
    ground.put("ostler/config.toml", &format!("[agents.codex]\nprogram = {:?}\n", broken.display()));
    let last = outcome(&ground.run(&["run", "-a", "codex", "--json", "x"]).stdout);
    assert_eq!((&last["outcome"], &last["exit_code"]), (&"never_started".into(), &14.into()));
}

#[test]
fn a_run_whose_agent_is_gone_stays_as_it_was_and_a_program_is_told_so() {
    let ground = ground();
    let codex = ground.script("codex", &RECORDED.replace("echo '{\"type\":\"turn.completed\"", "exit 1 #"));
    ground.put("ostler/config.toml", &format!("[agents.codex]\nprogram = {codex:?}\n"));
    let ended = ground.run(&["run", "-a", "codex", "--json", "--max-resumes", "0", "x"]);
    assert_eq!(ended.code, Some(10), "{}{}", ended.stdout, ended.stderr);
    let before =
        fs::read(PathBuf::from(outcome(&ended.stdout)["journal"].as_str().unwrap()).join("outcome.json"));
    fs::remove_file(&codex).unwrap();
    let again = ground.run(&["run", "--resume", "last", "--json"]);
    assert_eq!(again.code, Some(14), "{}{}", again.stdout, again.stderr);
    let (first, last) = (outcome(&ended.stdout), outcome(&again.stdout));
    assert_eq!((&last["kind"], &last["outcome"]), (&"outcome".into(), &"not_installed".into()));
    assert_eq!((&last["run"], &last["session"]), (&first["run"], &first["session"]));
    let after = fs::read(PathBuf::from(last["journal"].as_str().unwrap()).join("outcome.json"));
    assert_eq!(after.unwrap(), before.unwrap());
}

#[test]
fn a_closed_terminal_is_told_as_such() {
    let ground = ground();
    let agent = script(&ground, "echo begun; exec sleep 98767");
    let (mut child, lines) = begun(&ground, &agent, "begun");
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    let last = lines.lines().map(|line| line.unwrap()).last().unwrap();
    assert!(last.contains("its terminal was closed"), "{last}");
    assert_eq!(outcome(&last)["exit_code"], 143);
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn limits_can_be_configured_and_a_flag_outranks_them() {
    let ground = ground();
    ground.put("ostler/config.toml", "[run]\npermissions = \"all\"\nceiling = \"1s\"\n");
    let agent = script(&ground, "while :; do echo on and on; sleep 0.05; done");
    let ended = ground.run(&["run", "-a", &agent, "--json", "x"]);
    assert_eq!((ended.code, &outcome(&ended.stdout)["rule"]), (Some(13), &"ceiling".into()));
    let agent = script(&ground, "sleep 1.5; echo late");
    let ended = ground.run(&["run", "-a", &agent, "--json", "--ceiling", "1h", "x"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    // A project that is not trusted can only lower what its user allows.
    ground.put("ostler/config.toml", "[run]\npermissions = \"edits\"\n");
    ground.put("project/.ostler/config.toml", "[run]\npermissions = \"all\"\n");
    let ended = ground.run(&["run", "-a", &agent, "--no-jail", "x"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("only a jail can restrict what it may do"), "{}", ended.stderr);
}

/// It can write to the journal of its own run. What it puts there is no outcome.
#[test]
fn what_an_agent_writes_into_the_journal_is_not_told_as_an_outcome() {
    let ground = ground();
    let forged = r#"{"v":1,"seq":9,"ms":1,"kind":"outcome","outcome":"completed","exit_code":0}"#;
    let journal = ground.at("ostler/runs");
    let agent = script(
        &ground,
        &format!("for i in 1 2 3; do echo '{forged}' >> {}/*/events.ndjson; done; exit 7", journal.display()),
    );
    let ended = run(&ground, &agent, &["x"]);
    assert_eq!(ended.code, Some(10));
    assert_eq!(outcome(&ended.stdout)["outcome"], "agent_failed");
    assert!(!ended.stdout.contains(r#""seq":9,"ms":1,"#), "{}", ended.stdout);
}
