//! Programs that are run for an agent: contained, limited, and gone when the call is over.

use std::time::Duration;

use ostler_bridge::event::{BridgeEvent, Ended, ProgramEnd, Touched};
use ostler_process::contain::{Contained, Spawn, StartError, Stdin, Tier};
use serde_json::json;
use tokio::task::JoinSet;

use super::ground::{DEADLINE, Events, Ground, RUN, guard};

/// What was told of the next program that ran.
#[derive(Debug)]
struct Ran {
    command: String,
    ended: ProgramEnd,
    containment: String,
    left: usize,
    survivors: u32,
}

async fn ran(events: &mut Events) -> Ran {
    events
        .find(|event| match event {
            BridgeEvent::Touched(Touched::Ran { command, ended, containment, left, survivors, .. }) => {
                Some(Ran { command, ended, containment, left, survivors })
            }
            _ => None,
        })
        .await
}

/// Processes whose command line contains a word that nobody else uses.
fn alive(word: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.parse::<u32>().is_ok())
        .filter(|name| {
            let line = std::fs::read(format!("/proc/{name}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(word)
        })
        .collect()
}

/// Waits for a fact.
async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.expect("it becomes so");
}

fn word(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

#[tokio::test]
async fn a_command_is_run_in_the_workspace_and_told() {
    let ground = Ground::new().await;
    ground.put("src/a.txt", "");
    let (_route, mut events, guest) = ground.works(RUN, "exec");
    let run = |command: &str| json!({ "command": command });
    let timeless = |said: String| {
        let (head, rest) = said.split_once('\n').unwrap();
        (head.split(" after ").next().unwrap().to_owned(), rest.to_owned())
    };
    let table = [
        (run("ls"), "ok: Exit code 0,", "--- stdout\nsrc\n"),
        (run("echo out; echo err >&2; exit 7"), "ok: Exit code 7,", "--- stdout\nout\n--- stderr\nerr\n"),
        (run("printf x"), "ok: Exit code 0,", "--- stdout\nx\n"),
        (run("true"), "ok: Exit code 0,", "It printed nothing.\n"),
        (run("kill -9 $$"), "ok: Ended by signal 9,", "It printed nothing.\n"),
        (json!({ "command": "ls", "cwd": "src" }), "ok: Exit code 0,", "--- stdout\na.txt\n"),
        // Nobody is there to type.
        (run("read line || echo nothing"), "ok: Exit code 0,", "--- stdout\nnothing\n"),
        (run(r"printf '\377\376'"), "ok: Exit code 0,", "--- stdout\n\u{fffd}\u{fffd}\n"),
    ];
    for (arguments, head, rest) in table {
        let said = timeless(guest.says("exec", arguments.clone()).await);
        assert_eq!((said.0.as_str(), said.1.as_str()), (head, rest), "{arguments}");
    }
    let first = ran(&mut events).await;
    assert_eq!((first.command.as_str(), first.ended), ("ls", ProgramEnd::Code(0)));
    assert_eq!((first.left, first.survivors), (0, 0));
    let missing = guest.says("exec", json!({ "command": "ls", "cwd": "src/a.txt" })).await;
    assert_eq!(missing, "failed: `src/a.txt` is not a folder. Name one, or leave `cwd` out.");
    let nul = guest.says("exec", run("echo \0")).await;
    assert!(nul.starts_with("failed: Nothing was run: an argument or a variable"), "{nul}");
}

#[tokio::test]
async fn a_command_finds_the_environment_that_it_is_given_and_no_other() {
    let ground = Ground::new().await;
    let (_route, _events, guest) = ground.works(RUN, "exec");
    let said = guest.says("exec", json!({ "command": "env | cut -d= -f1 | sort" })).await;
    let names: Vec<&str> = said.lines().skip(2).collect();
    assert_eq!(names, ["HOME", "OSTLER_RUN_MARK", "PATH", "PWD"]);
}

/// The tiers that work here.
async fn tiers() -> Vec<Tier> {
    let mut found = Vec::new();
    for tier in Tier::ALL {
        let spawn = Spawn {
            program: "/bin/true".into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: "/".into(),
            stdin: Stdin::Null,
            run: "tiers",
            tier: Some(tier),
            jail: None,
            guard: guard(),
        };
        match Contained::start(spawn).await {
            Ok(mut contained) => {
                let _ = contained.kill_all().await;
                found.push(tier);
            }
            Err(error) => assert!(matches!(error, StartError::Tier { .. }), "{error:?}"),
        }
    }
    assert!(found.contains(&Tier::Sweep), "the last tier works everywhere");
    found
}

#[tokio::test]
async fn a_daemon_is_ended_with_the_call_in_every_tier() {
    let ground = Ground::new().await;
    for tier in tiers().await {
        let programs = ground.programs().contained_by(tier);
        let (route, mut events, guest) = ground.works_with(RUN, "exec", programs);
        let word = word(&format!("daemon-{}", tier.name()));
        // Forked twice, with a session of its own and without our mark, as daemons do.
        let command = format!(
            "rm -f ready; (setsid env -i /bin/sh -c 'touch ready; exec sleep 1000' {word} </dev/null >/dev/null \
             2>&1 &); (setsid env -i /bin/sh -c 'while :; do sleep 1; done' {word} &) ; until [ -e ready ]; do sleep \
             0.01; done; echo started"
        );
        let said = guest.says("exec", json!({ "command": command })).await;
        assert!(said.contains("--- stdout\nstarted\n"), "{said}");
        assert!(said.contains("processes running. They were ended: nothing outlives a call."), "{said}");
        assert_eq!(alive(&word), Vec::<String>::new());
        let ran = ran(&mut events).await;
        assert_eq!((ran.containment.as_str(), ran.survivors), (tier.name(), 0), "{ran:?}");
        assert!(ran.left >= 2, "{ran:?}");
        drop(route);
    }
}

#[tokio::test]
async fn what_takes_too_long_is_ended_and_what_it_said_is_told() {
    let ground = Ground::new().await;
    let (_route, mut events, guest) = ground.works(RUN, "exec");
    let word = word("slow");
    let command = format!("echo begun; sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1; done' {word}");
    let said = guest.says("exec", json!({ "command": command, "timeout": 1 })).await;
    assert_eq!(
        said,
        "failed: Not done within 1 seconds, so it was ended with everything it had started. Run less at once, or give \
         a longer `timeout`, at most 300.\n--- stdout\nbegun\n"
    );
    assert_eq!(alive(&word), Vec::<String>::new());
    let ran = ran(&mut events).await;
    assert_eq!((ran.ended, ran.survivors), (ProgramEnd::TimedOut, 0));
}

#[tokio::test]
async fn of_ten_megabytes_the_end_is_told() {
    let ground = Ground::new().await;
    let (_route, _events, guest) = ground.works(RUN, "exec");
    let command = "yes 0123456789 | head -c 10000000; echo; echo out; yes err | head -c 10000000 >&2; echo; echo last >&2";
    let said = guest.says("exec", json!({ "command": command })).await;
    assert!(said.len() < 70_000, "{}", said.len());
    let (out, err) = said.split_once("--- stderr\n").unwrap();
    assert!(out.contains("--- stdout\n[Cut: 99"), "{}", &out[..200]);
    assert!(out.ends_with("0123456789\nout\n\n"), "{}", &out[out.len() - 100..]);
    assert!(err.starts_with("[Cut: 99") && err.ends_with("err\nlast\n"), "{}", &err[err.len() - 100..]);
}

#[tokio::test]
async fn a_call_that_is_taken_back_ends_its_program() {
    let ground = Ground::new().await;
    let (_route, mut events, guest) = ground.works(RUN, "exec");
    let session = guest.greet("2025-06-18").await.session.expect("a session is given");
    let mine = guest.with("mcp-session-id", &session);
    let word = word("taken-back");
    let command = format!("touch begun; sh -c 'while :; do sleep 1; done' {word}");
    let mut calls = JoinSet::new();
    let calling = mine.clone();
    calls.spawn(async move { calling.says("exec", json!({ "command": command })).await });
    let begun = ground.workspace().join("begun");
    until(|| begun.exists()).await;
    assert_ne!(alive(&word), Vec::<String>::new());
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    assert_eq!(mine.post(cancel.to_string()).await.status, 202);
    let said = calls.join_next().await.unwrap().unwrap();
    assert!(said.starts_with("failed: The call was withdrawn, and the command ended.\n"), "{said}");
    assert_eq!(alive(&word), Vec::<String>::new());
    assert_eq!(ran(&mut events).await.ended, ProgramEnd::Withdrawn);
    let ended = events.find(|event| match event {
        BridgeEvent::Answered { ended, .. } => Some(ended),
        _ => None,
    });
    assert_eq!(ended.await, Ended::Cancelled);
}

#[tokio::test]
async fn a_client_that_goes_away_and_a_run_that_ends_leave_no_program() {
    let ground = Ground::new().await;
    for leaves in ["client", "run"] {
        let (route, mut events, guest) = ground.works(RUN, "exec");
        let word = word(&format!("left-by-{leaves}"));
        let command = format!("touch {word}; sleep 1000; : {word}");
        let mut calls = JoinSet::new();
        calls.spawn(async move { guest.call("exec", json!({ "command": command })).await.status });
        let begun = ground.workspace().join(&word);
        until(|| begun.exists()).await;
        if leaves == "client" {
            calls.shutdown().await;
            assert_eq!(ran(&mut events).await.ended, ProgramEnd::Withdrawn);
        }
        drop(route);
        until(|| alive(&word).is_empty()).await;
    }
}

#[tokio::test]
async fn too_many_programs_at_once_are_refused_in_words() {
    let ground = Ground::new().await;
    let (route, _events, guest) = ground.works(RUN, "exec");
    let word = word("crowd");
    let mut calls = JoinSet::new();
    for number in 0..16 {
        let (guest, command) = (guest.clone(), format!("touch {number}; sleep 1000; : {word}"));
        calls.spawn(async move { guest.call("exec", json!({ "command": command })).await.status });
    }
    let workspace = ground.workspace();
    until(|| (0..16).all(|number: u32| workspace.join(number.to_string()).exists())).await;
    let said = guest.says("exec", json!({ "command": "true" })).await;
    assert_eq!(
        said,
        "failed: 16 programs are running for you already. Wait for one of them, then call again."
    );
    drop(route);
    until(|| alive(&word).is_empty()).await;
}
