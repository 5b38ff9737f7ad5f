//! What is reported of a run besides its rules: a process that a signal stopped, a workspace that was deleted.

use std::fs;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::hostile::wait_until;
use super::{ground, outcome, script};
use crate::ground::{Ground, ended};

fn why(ground: &Ground) -> String {
    ground.run(&["runs", "why", "last"]).stdout
}

#[test]
fn a_process_that_a_signal_stopped_is_called_stopped() {
    let ground = ground();
    let agent = script(&ground, "echo begun; kill -STOP $$; echo continued");
    // It is looked at after an eighth of the silence, at most after ten seconds.
    let args = ["run", "-a", &agent, "--permissions", "all", "--json", "--silence", "16s", "x"];
    let run = ground.command(&args).stdout(Stdio::piped()).spawn().unwrap();
    wait_until("the process is reported as stopped", || why(&ground).contains("cause    "));
    let live: Value = serde_json::from_str(&ground.run(&["runs", "why", "last", "--json"]).stdout).unwrap();
    let pid = live["cause"]["pid"].as_i64().unwrap();
    let words = why(&ground);
    let want = format!("cause    the agent's process is stopped (SIGSTOP), pid {pid}, for ");
    assert!(words.contains(&want) && words.contains("state    live"), "{words}");
    assert!(words.contains("next     rule `silence`"), "{words}");

    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::CONT).unwrap();
    let told = ended(run);
    assert_eq!(told.status.code(), Some(0), "{}", String::from_utf8_lossy(&told.stdout));
    let told = String::from_utf8(told.stdout).unwrap();
    let lines = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let causes: Vec<Value> = lines.filter(|line| line["kind"] == "quiet").collect();
    assert_eq!((causes.len(), &causes[0]["cause"]), (1, &"process_stopped".into()), "{told}");
    let words = why(&ground);
    assert!(!words.contains("cause ") && !words.contains("next "), "{words}");
}

#[test]
fn a_stall_of_a_stopped_process_says_so() {
    let ground = ground();
    let agent = script(&ground, "echo begun; kill -STOP $$");
    let args = ["run", "-a", &agent, "--permissions", "all", "--json", "--silence", "1s", "x"];
    let last = outcome(&ground.run(&args).stdout);
    assert_eq!((&last["outcome"], &last["cause"]["cause"]), (&"stalled".into(), &"process_stopped".into()));
    let detail = last["detail"].as_str().unwrap();
    assert!(detail.contains("(rule `silence`): the agent's process is stopped (SIGSTOP), pid "), "{detail}");
    let words = why(&ground);
    assert!(words.contains("fired    rule `silence`") && !words.contains("next "), "{words}");
}

#[test]
fn a_workspace_deleted_under_the_agent_is_not_completed_without_a_word() {
    let ground = ground();
    let table = [
        ("cd /; rm -r \"$OLDPWD\"; echo done", "incomplete", 11, "gone", "was deleted while"),
        (
            "cd /; mv \"$OLDPWD\" \"$OLDPWD.old\"; mkdir \"$OLDPWD\"",
            "completed",
            0,
            "replaced",
            "was replaced by",
        ),
        ("echo done > done.txt", "completed", 0, "present", ""),
    ];
    for (text, word, code, workspace, warning) in table {
        let folder = ground.at("project/work");
        let _ = fs::create_dir(&folder);
        let (agent, folder) = (script(&ground, text), folder.display().to_string());
        let ended =
            ground.run(&["run", "-a", &agent, "--permissions", "all", "--cwd", &folder, "--json", "x"]);
        let last = outcome(&ended.stdout);
        assert_eq!((last["outcome"].as_str(), ended.code), (Some(word), Some(code)), "{text}: {last}");
        assert_eq!(last["workspace"], workspace, "{text}");
        let lines = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let warned: Vec<String> = lines
            .filter(|line| line["kind"] == "warn")
            .map(|line| line["text"].as_str().unwrap().to_owned())
            .collect();
        let is_warned = warned.iter().any(|text| text.contains("the workspace") && text.contains(warning));
        assert_eq!(is_warned, workspace != "present", "{text}: {warned:?}");
        if workspace == "gone" {
            let missing = format!("the workspace {folder}, which no longer exists");
            assert_eq!(last["missing"], serde_json::json!([missing]), "{text}");
        }
    }
}

#[test]
fn a_change_right_before_the_end_is_recorded() {
    let ground = ground();
    // Nothing is left to wait for after the write, so the watch on the folder mostly comes too late.
    let agent = script(&ground, "echo done; exec >file");
    let args = ["run", "-a", &agent, "--permissions", "all", "--json", "--watch-at-once", "x"];
    for _ in 0..5 {
        let told = ground.run(&args).stdout;
        let events = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let seen = events.filter(|event| event["kind"] == "seen" && event["channel"] == "workspace").count();
        assert_eq!(seen, 1, "{told}");
        fs::remove_file(ground.at("project/file")).unwrap();
    }
}
