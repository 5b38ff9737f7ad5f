//! Every verb as a process: what it does to stdout, stderr, files, signals and children.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::stand::{Live, Sleepers, Stand, until};

const CLAUDE: &[&str] = &["-p", "--output-format", "stream-json", "--verbose", "go"];
const CODEX: &[&str] = &["exec", "--json", "go"];

fn kinds(records: &[Value]) -> Vec<String> {
    records.iter().map(|record| record["type"].as_str().unwrap_or("-").to_owned()).collect()
}

fn start(stand: &Stand) -> Result<Live> {
    let mut live = stand.start("claude", CLAUDE)?;
    live.close_stdin();
    Ok(live)
}

#[test]
fn without_a_script_the_prompt_is_said_back() -> Result<()> {
    let stand = Stand::doing("")?;
    let mut command = stand.command("claude", &["-p", "echo me"]);
    command.env_remove("OSTLER_FAKE_SCRIPT").env_remove("OSTLER_FAKE_STATE");
    let mut live = Live::start(command)?;
    live.close_stdin();
    let ended = live.finish()?;
    assert_eq!((ended.code(), ended.stdout.as_slice()), (Some(0), &b"echo me\n"[..]));
    assert!(!stand.home().exists(), "nothing is written that no test asked for");
    Ok(())
}

#[test]
fn a_link_with_an_agents_name_plays_that_agent() -> Result<()> {
    let stand = Stand::doing(r#"{ say = "linked" }"#)?;
    let link = stand.file("codex");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ostler-fake-agent"), &link)?;
    let mut command = stand.command("claude", &[]);
    let mut linked = std::process::Command::new(&link);
    linked
        .args(["exec", "go"])
        .env_clear()
        .envs(command.get_envs().filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned()))));
    linked.env_remove("OSTLER_FAKE_DIALECT").stdin(std::process::Stdio::null());
    assert_eq!(linked.output()?.stdout, b"linked\n");
    command.env("OSTLER_FAKE_DIALECT", "cobol").stdin(std::process::Stdio::null());
    let refused = command.output()?;
    assert_eq!(refused.status.code(), Some(70));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("`cobol` is not one of claude, codex, acp, tui")
    );
    Ok(())
}

#[test]
fn a_broken_script_is_refused_with_its_place() -> Result<()> {
    let ended = Stand::doing(r#"{ stal = "1s" }"#)?.run("codex", CODEX)?;
    assert_eq!((ended.code(), ended.stdout.len()), (Some(70), 0));
    assert!(
        ended.stderr.contains("script.toml, line 3, `step[0].do[0]`: unknown key `stal`"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("did you mean `stall`?"), "{}", ended.stderr);
    Ok(())
}

#[test]
fn a_prompt_without_a_step_is_refused() -> Result<()> {
    let stand = Stand::new("v = 1\n[[step]]\nexpect = { contains = \"other\" }\n")?;
    let ended = stand.run("codex", CODEX)?;
    assert_eq!((ended.code(), ended.stdout.len()), (Some(70), 0));
    assert!(ended.stderr.contains("is for turn 1 with the prompt `go`"), "{}", ended.stderr);
    Ok(())
}

#[test]
fn never_exit_lives_on_after_the_result_until_a_signal() -> Result<()> {
    let stand = Stand::doing(
        r#"{ say = "done" }, { result = "success" }, { write_file = "after" }, { never_exit = true }"#,
    )?;
    let mut live = start(&stand)?;
    live.records_until(|record| record["type"] == "result")?;
    until("the item after the result", || stand.file("after").exists())?;
    assert!(live.is_running()?);
    live.signal(Signal::TERM)?;
    assert_eq!(live.finish()?.code(), Some(143));
    Ok(())
}

#[test]
fn exits_with_and_without_a_result() -> Result<()> {
    let table = [
        (r#"{ say = "x" }, { exit_without_result = 7 }"#, 7, vec!["system", "assistant"]),
        (r#"{ say = "x" }, { exit = 3 }"#, 3, vec!["system", "assistant", "result"]),
        (r#"{ result = "api_error" }, { exit = 0 }"#, 0, vec!["system", "assistant", "result"]),
    ];
    for (items, code, want) in table {
        let ended = Stand::doing(items)?.run("claude", CLAUDE)?;
        assert_eq!(
            (ended.code(), kinds(&ended.records()?)),
            (Some(code), want.iter().map(|k| (*k).to_owned()).collect()),
            "{items}"
        );
    }
    let started =
        Stand::new("v = 1\nstart = [{ stderr = \"no login\" }, { exit = 1 }]\n")?.run("codex", CODEX)?;
    assert_eq!((started.code(), started.stdout.len(), started.stderr.as_str()), (Some(1), 0, "no login\n"));
    Ok(())
}

#[test]
fn a_stall_lasts_hears_an_interrupt_and_can_be_deaf() -> Result<()> {
    let began = Instant::now();
    Stand::doing(r#"{ stall = "300ms" }"#)?.run("claude", CLAUDE)?;
    assert!(began.elapsed() >= Duration::from_millis(300));

    let stand = Stand::doing(r#"{ write_file = "stalling" }, { stall = "forever", deaf = true }"#)?;
    let live = start(&stand)?;
    until("stalling", || stand.file("stalling").exists())?;
    live.signal(Signal::INT)?;
    live.signal(Signal::TERM)?;
    let ended = live.finish()?;
    assert_eq!(
        (ended.code(), kinds(&ended.records()?)),
        (Some(143), vec!["system".to_owned()]),
        "SIGINT went unheard"
    );
    Ok(())
}

#[test]
fn dropped_stdout_goes_on_in_the_transcript() -> Result<()> {
    let stand = Stand::doing(
        r#"{ drop_stdout_keep_transcript = true }, { tool = "Bash", arguments = { command = "ls" }, output = "a" },
           { say = "unheard" }, { write_file = "said" }, { wait_for_file = "go" }"#,
    )?;
    let live = start(&stand)?;
    until("said", || stand.file("said").exists())?;
    let file = stand.files_below(".claude/projects", ".jsonl").pop().context("a transcript")?;
    assert!(fs::read_to_string(&file)?.contains("tool_use"), "it grows while stdout is dead");
    fs::write(stand.file("go"), "")?;
    let ended = live.finish()?;
    assert_eq!((ended.code(), kinds(&ended.records()?)), (Some(0), vec!["system".to_owned()]));
    assert!(fs::read_to_string(&file)?.contains("unheard"));
    Ok(())
}

#[test]
fn children_live_in_sessions_of_their_own_and_outlive_their_parent() -> Result<()> {
    for (options, count, is_daemon) in [("count = 3", 3, false), ("daemon = true, count = 2", 2, true)] {
        let stand = Stand::doing(&format!(
            r#"{{ setsid_child = {{ {options}, pids = "pids" }} }}, {{ wait_for_file = "go" }}"#
        ))?;
        let mut live = start(&stand)?;
        until("pids", || {
            fs::read_to_string(stand.file("pids")).is_ok_and(|text| text.lines().count() == count)
        })?;
        let sleepers = Sleepers::read(&stand.file("pids"))?;
        let own = i32::try_from(live.pid())?;
        let mut sessions = BTreeSet::new();
        for pid in &sleepers.0 {
            let (parent, group, session) = Sleepers::place(*pid)?;
            let raw = pid.as_raw_nonzero().get();
            assert_eq!(
                (parent == own, session == raw, group == raw),
                (!is_daemon, !is_daemon, !is_daemon),
                "{options}"
            );
            sessions.insert(session);
        }
        assert_eq!((sessions.len(), sessions.contains(&own)), (count, false), "{options}");
        fs::write(stand.file("go"), "")?;
        assert_eq!(live.wait()?.code(), Some(0));
        assert!(sleepers.are_alive(), "{options}");
    }
    Ok(())
}

#[test]
fn fifty_children_are_all_there_at_once() -> Result<()> {
    let stand = Stand::doing(r#"{ setsid_child = { count = 50, pids = "pids" } }"#)?;
    let ended = stand.run("claude", CLAUDE)?;
    let sleepers = Sleepers::read(&stand.file("pids"))?;
    assert_eq!((ended.code(), sleepers.0.len(), sleepers.are_alive()), (Some(0), 50, true));
    Ok(())
}

#[test]
fn a_childs_life_is_bounded_and_a_stubborn_one_survives_sigterm() -> Result<()> {
    let stand = Stand::doing(
        r#"{ setsid_child = { life = "50ms", busy = true, pids = "short" } },
           { setsid_child = { ignore_sigterm = true, pids = "stubborn" } }, { setsid_child = { pids = "meek" } }"#,
    )?;
    stand.run("claude", CLAUDE)?;
    let [short, stubborn, meek] = ["short", "stubborn", "meek"].map(|name| Sleepers::read(&stand.file(name)));
    let (short, stubborn, meek) = (short?, stubborn?, meek?);
    until("the end of a short life", || !running(short.0[0]))?;
    for sleepers in [&stubborn, &meek] {
        rustix::process::kill_process(sleepers.0[0], Signal::TERM)?;
    }
    until("the end of the meek", || !running(meek.0[0]))?;
    assert!(running(stubborn.0[0]));
    Ok(())
}

/// An orphan may stay a zombie where nobody reaps; it has ended all the same.
fn running(pid: rustix::process::Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[test]
fn a_child_can_hold_our_stdout_open() -> Result<()> {
    let stand = Stand::doing(r#"{ setsid_child = { holds_stdout = true, pids = "pids" } }"#)?;
    let mut live = start(&stand)?;
    assert_eq!(live.wait()?.code(), Some(0));
    let sleepers = Sleepers::read(&stand.file("pids"))?;
    live.records_until(|record| record["type"] == "result")?;
    let stdout = format!("/proc/{}/fd/1", sleepers.0[0].as_raw_nonzero());
    assert!(fs::read_link(stdout)?.to_string_lossy().starts_with("pipe:"));
    drop(sleepers);
    assert_eq!(live.line()?, None, "the pipe ends with the child");
    Ok(())
}

#[test]
fn sigterm_and_sigint_can_be_ignored() -> Result<()> {
    let table = [
        ("ignore_sigterm = true", vec![Signal::TERM]),
        ("ignore_sigterm = true, sigint = true", vec![Signal::TERM, Signal::INT]),
    ];
    for (item, signals) in table {
        for (dialect, arguments) in [("claude", CLAUDE), ("codex", CODEX)] {
            let stand = Stand::doing(&format!(
                r#"{{ {item} }}, {{ write_file = "ready" }}, {{ wait_for_file = "go" }}, {{ say = "still here" }}"#
            ))?;
            let mut live = stand.start(dialect, arguments)?;
            live.close_stdin();
            until("ready", || stand.file("ready").exists())?;
            for signal in &signals {
                live.signal(*signal)?;
            }
            fs::write(stand.file("go"), "")?;
            let ended = live.finish()?;
            assert_eq!((ended.code(), ended.status.signal()), (Some(0), None), "{dialect} {item}");
            assert!(String::from_utf8_lossy(&ended.stdout).contains("still here"), "{dialect} {item}");
        }
    }
    Ok(())
}

#[test]
fn a_character_is_split_over_two_writes() -> Result<()> {
    use std::io::Read;
    for (dialect, arguments) in [("claude", CLAUDE), ("codex", CODEX)] {
        let stand = Stand::doing(r#"{ split_utf8 = "déjà", gap = "500ms" }"#)?;
        let mut child = stand.command(dialect, arguments).stdin(std::process::Stdio::null()).spawn()?;
        let mut stdout = child.stdout.take().context("stdout")?;
        let (mut all, mut cuts, mut piece) = (Vec::new(), 0, [0; 65536]);
        loop {
            let read = stdout.read(&mut piece)?;
            if read == 0 {
                break;
            }
            all.extend_from_slice(&piece[..read]);
            cuts += usize::from(std::str::from_utf8(&all).is_err());
        }
        child.wait()?;
        assert_eq!(cuts, 1, "{dialect}");
        assert!(String::from_utf8(all)?.contains("déjà"), "{dialect}");
    }
    Ok(())
}

#[test]
fn a_line_can_be_longer_than_any_that_is_kept_whole() -> Result<()> {
    for (dialect, arguments) in [("claude", CLAUDE), ("codex", CODEX)] {
        let ended = Stand::doing(r#"{ long_line = {} }, { say = "after" }"#)?.run(dialect, arguments)?;
        let lines: Vec<&[u8]> = ended.stdout.split(|byte| *byte == b'\n').collect();
        let longest = lines.iter().max_by_key(|line| line.len()).context("a line")?;
        assert!(longest.len() > 64 * 1024 * 1024, "{dialect}: {}", longest.len());
        serde_json::from_slice::<serde::de::IgnoredAny>(longest)?;
        assert_eq!(ended.code(), Some(0), "{dialect}");
    }
    Ok(())
}

#[test]
fn a_flood_waits_for_its_reader_and_loses_nothing() -> Result<()> {
    let stand = Stand::doing(r#"{ flood = { records = 20000, bytes = 50 } }, { say = "over" }"#)?;
    let records = stand.run("codex", CODEX)?.records()?;
    let said: BTreeSet<String> =
        records.iter().filter_map(|record| record["item"]["id"].as_str().map(str::to_owned)).collect();
    assert_eq!(said.len(), 20_001);
    Ok(())
}

#[test]
fn a_full_pipe_does_not_make_it_deaf_to_sigterm() -> Result<()> {
    let stand = Stand::doing(r#"{ write_file = "flooding" }, { flood = { records = 1000000 } }"#)?;
    let mut child = stand.command("claude", CLAUDE).stdin(std::process::Stdio::null()).spawn()?;
    until("flooding", || stand.file("flooding").exists())?;
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::TERM)?;
    assert_eq!(child.wait()?.code(), Some(143));
    Ok(())
}

#[test]
fn noise_and_unknown_frames_stand_between_records() -> Result<()> {
    let items = r#"{ garbage = "Warning: {not json" }, { unknown_frame = "quantum_leap", body = { x = 1 } }, { stderr = "oh" }"#;
    let ended = Stand::doing(items)?.run("claude", CLAUDE)?;
    let text = String::from_utf8_lossy(&ended.stdout);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "Warning: {not json");
    let unknown: Value = serde_json::from_str(lines[2])?;
    assert_eq!((&unknown["type"], &unknown["x"]), (&json!("quantum_leap"), &json!(1)));
    assert_eq!((lines.len(), ended.stderr.as_str()), (4, "oh\n"));
    let codex = Stand::doing(items)?.run("codex", CODEX)?;
    assert!(String::from_utf8_lossy(&codex.stdout).contains(r#""type":"quantum_leap""#));
    Ok(())
}

#[test]
fn stdin_is_read_to_its_end_before_anything_is_said() -> Result<()> {
    let stand = Stand::new(
        r#"
        v = 1
        start = [{ write_file = "reading" }, { read_stdin_forever = true }]
        [[step]]
        do = [{ say = "prompt: {{prompt}}" }]
        "#,
    )?;
    for (dialect, arguments) in [("claude", ["-p", "go"]), ("codex", ["exec", "go"])] {
        let mut live = stand.start(dialect, &arguments)?;
        until("reading", || stand.file("reading").exists())?;
        live.type_in(b"never part of the prompt")?;
        live.close_stdin();
        assert_eq!(live.finish()?.stdout, b"prompt: go\n", "{dialect}");
        fs::remove_file(stand.file("reading"))?;
    }
    Ok(())
}

#[test]
fn files_are_written_and_waited_for() -> Result<()> {
    let stand = Stand::doing(
        r#"{ write_file = "seen-{{turn}}", content = "{{prompt}} in {{session}}" }, { wait_for_file = "never", within = "50ms" }"#,
    )?;
    let id = "eeeeeeee-0000-4000-8000-000000000001";
    let ended = stand.run("claude", &["-p", "--session-id", id, "go"])?;
    assert_eq!(fs::read_to_string(stand.file("seen-1"))?, format!("go in {id}"));
    assert_eq!(
        (ended.code(), ended.stderr.contains("the file never did not come")),
        (Some(70), true),
        "{}",
        ended.stderr
    );
    Ok(())
}

#[test]
fn a_killed_session_can_be_resumed() -> Result<()> {
    let stand = Stand::new(
        r#"
        v = 1
        [[step]]
        expect = { resumed = true }
        do = [{ say = "turn {{turn}}" }]
        [[step]]
        do = [{ stall = "forever" }]
        "#,
    )?;
    let id = "eeeeeeee-0000-4000-8000-000000000002";
    let mut live = stand
        .start("claude", &["-p", "--output-format", "stream-json", "--verbose", "--session-id", id, "go"])?;
    live.close_stdin();
    live.record()?;
    live.signal(Signal::KILL)?;
    live.wait()?;
    assert_eq!(stand.run("claude", &["-p", "--resume", id, "more"])?.stdout, b"turn 2\n");
    Ok(())
}
