//! `ostler run` and `ostler runs` with programs that are not agents: quick, and as unruly as wished.

mod bad_input;
mod causes;
mod descriptors;
mod endurance;
mod flood;
mod folders;
mod full_disk;
mod hostile;
mod kept;
mod killed;
mod limits;
mod probed;
mod slow_reader;
mod survivors;

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::ground::Ground;

fn ground() -> Ground {
    Ground::new().with("PATH", "/usr/bin:/bin")
}

fn outcome(stdout: &str) -> Value {
    serde_json::from_str(stdout.lines().last().unwrap()).unwrap()
}

/// A shell script as an agent, which may do everything: what it may do cannot be restricted.
fn script(ground: &Ground, text: &str) -> String {
    format!("command:sh {}", ground.put("agent.sh", text).display())
}

/// A command that sleeps for a day, and that no other test, in this process or another, has.
fn long_sleep(number: u32) -> String {
    format!("sleep {number}.{}", std::process::id())
}

/// Processes that were started with this command line.
fn living(words: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.map(|line| line.replace('\0', " ")).filter(|line| line.trim() == words).collect()
}

#[test]
fn a_program_that_reads_a_prompt_is_an_agent() {
    let ground = ground();
    let agent = script(&ground, "cat; echo; echo done > made.txt");
    let ended = ground.run(&["run", "-a", &agent, "--permissions", "all", "--json", "say this"]);
    let last = outcome(&ended.stdout);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let told = ["kind", "outcome", "exit_code", "turns", "resumes", "survivors", "usage", "rule", "missing"];
    let values: Vec<String> = told.iter().map(|name| last[*name].to_string()).collect();
    assert_eq!(values, ["\"outcome\"", "\"completed\"", "0", "1", "0", "0", "null", "null", "[]"]);
    assert_eq!(last["evidence"][0]["grade"], "reported");
    assert!(ended.stdout.contains("say this"), "{}", ended.stdout);
    assert_eq!(fs::read_to_string(ground.at("project/made.txt")).unwrap(), "done\n");

    let run = last["run"].as_str().unwrap();
    let raw = ground.run(&["runs", "raw", "last"]);
    assert_eq!(raw.stdout, "say this\n");
    let events = ground.run(&["runs", "events", run]);
    assert_eq!(events.stdout, ended.stdout, "the journal has what was printed");
    let listed: Value = serde_json::from_str(&ground.run(&["runs", "--json"]).stdout).unwrap();
    assert_eq!((&listed[0]["run"], &listed[0]["state"]), (&last["run"], &Value::from("completed")));
    assert!(ground.run(&["runs", "show", "last"]).stdout.contains("state    completed"));
    assert_eq!(ground.run(&["runs", "why", "last"]).code, Some(0));
}

/// As `ostler run … &` in a script and `nohup` start it. What ignores an interrupt cannot be asked to stop.
#[test]
fn an_agent_ignores_no_signal_because_ostler_was_started_in_the_background() {
    let ground = ground();
    let agent = script(
        &ground,
        "while read -r line; do case $line in SigIgn*) echo $line;; esac; done </proc/self/status",
    );
    let run = ground.command(&["run", "-a", &agent, "--permissions", "all", "--quiet", "x"]);
    let mut behind = Command::new("/bin/sh");
    behind
        .args(["-c", "trap '' HUP INT TERM; exec \"$0\" \"$@\""])
        .arg(run.get_program())
        .args(run.get_args());
    behind.env_clear().envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    behind.current_dir(run.get_current_dir().unwrap()).stdin(Stdio::null());
    assert_eq!(behind.status().unwrap().code(), Some(0));
    let told = ground.run(&["runs", "raw", "last"]).stdout;
    let ignored = u64::from_str_radix(told.trim().strip_prefix("SigIgn: ").unwrap(), 16).unwrap();
    let asked = [Signal::HUP, Signal::INT, Signal::TERM];
    let asked = asked.iter().fold(0, |mask, signal| mask | 1_u64 << (signal.as_raw() - 1));
    assert_eq!(ignored & asked, 0, "{told}");
}

#[test]
fn a_long_command_does_not_push_the_list_off_the_screen() {
    let ground = ground();
    let agent = format!("command:true {}", "x".repeat(200));
    assert_eq!(ground.run(&["run", "-a", &agent, "--permissions", "all", "--quiet", "x"]).code, Some(0));
    let list = ground.run(&["runs"]).stdout;
    assert!(list.contains("command:true xxx") && list.contains('…'), "{list}");
    assert!(list.lines().all(|line| line.chars().count() < 180), "{list}");
    assert!(ground.run(&["runs", "--json"]).stdout.contains(&agent), "programs get all of it");
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_is_written() {
    let ground = ground();
    let table: [(&[&str], &str); 7] = [
        (&["run", "-a", "command:cat", "--permissions", "all", "--rehearse", "x"], "cannot be rehearsed"),
        (&["run", "-a", "codex", "--engine", "terminal", "x"], "cannot be driven that way"),
        (&["run", "-a", "no-such-agent", "x"], "no agent is called"),
        (&["run", "-a", "command:cat", "--no-jail", "x"], "--permissions all"),
        (&["run", "-a", "command:cat", " "], "the prompt is empty"),
        (&["run", "-a", "command:cat", "--cwd", "nowhere", "x"], "there is no folder"),
        (&["run", "-a", "command:cat", "--silence", "soon", "x"], "--silence"),
    ];
    for (args, want) in table {
        let ended = ground.run(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(want), "{args:?}: {}", ended.stderr);
    }
    assert_eq!(ground.left(), Vec::<String>::new());
}

#[test]
fn a_program_that_fails_or_is_not_there_is_an_outcome() {
    let ground = ground();
    let failing = script(&ground, "echo broken >&2; exit 3");
    let table = [(failing.as_str(), "agent_failed", 10), ("command:/no/such/program", "never_started", 14)];
    for (agent, word, code) in table {
        let ended = ground.run(&["run", "-a", agent, "--permissions", "all", "--json", "x"]);
        assert_eq!((outcome(&ended.stdout)["outcome"].as_str(), ended.code), (Some(word), Some(code)));
    }
}

#[test]
fn a_silent_program_is_stopped_with_all_it_started() {
    let (ground, sleep) = (ground(), long_sleep(98_761));
    let agent = script(&ground, &format!("echo begun; setsid {sleep} & trap '' INT TERM; {sleep}; {sleep}"));
    let args = ["run", "-a", &agent, "--permissions", "all", "--json", "--silence", "1s", "x"];
    let ended = ground.run(&args);
    let last = outcome(&ended.stdout);
    assert_eq!((ended.code, &last["rule"], &last["survivors"]), (Some(12), &"silence".into(), &0.into()));
    assert_eq!(living(&sleep), Vec::<String>::new());
    let why = ground.run(&["runs", "why", "last"]);
    assert!(why.stdout.contains("fired    rule `silence`"), "{}", why.stdout);
    let why: Value = serde_json::from_str(&ground.run(&["runs", "why", "last", "--json"]).stdout).unwrap();
    assert_eq!(why["verdict"]["fired"], "silence");
    assert!(why["verdict"]["quiet_ms"].as_u64().is_some_and(|quiet| quiet >= 1_000), "{why}");
    assert!(why["verdict"]["seen"][0]["at_ms"].is_u64() && !why.to_string().contains("nanos"), "{why}");
}

/// Most programs end well when they are asked to end: that is not the end of their task.
#[test]
fn a_program_that_ends_well_because_it_was_stopped_has_not_completed() {
    let ground = ground();
    let agent = script(&ground, "echo begun; trap 'exit 0' INT TERM; while :; do sleep 0.05; done");
    for (flag, word, code) in [("--ceiling", "timed_out", 13), ("--silence", "stalled", 12)] {
        let ended = ground.run(&["run", "-a", &agent, "--permissions", "all", "--json", flag, "1s", "x"]);
        let last = outcome(&ended.stdout);
        assert_eq!((ended.code, last["outcome"].as_str()), (Some(code), Some(word)), "{last}");
    }
}

#[test]
fn the_ceiling_stops_a_program_that_never_ends() {
    let ground = ground();
    let agent = script(&ground, "while :; do echo on and on; sleep 0.05; done");
    let args = ["run", "-a", &agent, "--permissions", "all", "--json", "--ceiling", "1s", "x"];
    let ended = ground.run(&args);
    assert_eq!((ended.code, &outcome(&ended.stdout)["rule"]), (Some(13), &"ceiling".into()));
}

#[test]
fn a_second_ctrl_c_kills_now() {
    let ground = ground();
    let sleep = long_sleep(98_763);
    let agent = script(&ground, &format!("trap '' INT TERM; echo begun; while :; do {sleep}; done"));
    let mut command = ground.command(&["run", "-a", &agent, "--permissions", "all", "--json", "x"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut until =
        |word: &str| lines.by_ref().map(|line| line.unwrap()).find(|line| line.contains(word)).unwrap();
    until("begun");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    until("\"rung\":\"int\"");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let rest: Vec<String> = lines.map(|line| line.unwrap()).collect();
    assert_eq!(outcome(rest.last().unwrap())["outcome"], "cancelled");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // The rung between is left out: two signals that are ignored would have taken six seconds.
    let next = rest.iter().find(|line| line.contains("\"rung\":")).unwrap();
    assert!(next.contains("\"rung\":\"kill\""), "{next}");
    assert_eq!(living(&sleep), Vec::<String>::new());
}
