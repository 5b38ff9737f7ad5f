//! The `claude` dialect: its shapes and orders against recordings of 2.1.197, and its ways with sessions.

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::recordings::{self, Grammar};
use super::stand::{Live, Stand};

const STREAM: &[&str] = &["-p", "--output-format", "stream-json", "--verbose"];
const CONVERSATION: &[&str] = &[
    "-p",
    "--output-format",
    "stream-json",
    "--verbose",
    "--input-format",
    "stream-json",
    "--permission-prompt-tool",
    "stdio",
];

const REAL: &[&str] = &[
    "claude/h-session-id.ndjson",
    "claude/h-tool-accept-edits.ndjson",
    "claude/h-thinking-tool.ndjson",
    "claude/h-resume.ndjson",
    "claude/h-resume-missing.ndjson",
    "claude/h-429-unified.ndjson",
    "claude/h-400.ndjson",
    "claude/h-max-turns.ndjson",
    "claude/h-partial.ndjson",
    "claude/h-tool-denied-default.ndjson",
    "claude/h-bash-timeout-nobg.ndjson",
    "claude/s-interrupt.ndjson",
    "claude/s-interrupt-tool.ndjson",
    "claude/s-permission-stdio.ndjson",
    "claude/s-permission-interrupt.ndjson",
    "claude/s-permission-stdin-close.ndjson",
    "claude/s-session-state-events.ndjson",
    "claude/s-replay.ndjson",
    "claude/s-control-misc.ndjson",
    "claude/s-steer-mid-turn.ndjson",
];

pub(crate) const GRAMMAR: Grammar = Grammar {
    kind,
    // What a tool was called with, and a table whose keys are model names.
    opaque: &["message.content[].input", "permission_denials[].tool_input", "request.input", "modelUsage"],
    left_out: &[],
};

fn kind(record: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let block = &record["message"]["content"][0]["type"];
    let detail = match record["type"].as_str() {
        Some("assistant") if record["message"]["model"] == "<synthetic>" => "synthetic".to_owned(),
        Some("user") if record["isReplay"] == true => "replay".to_owned(),
        Some("assistant" | "user") => text(block),
        Some("result") => format!("{}/is_error={}", text(&record["subtype"]), record["is_error"]),
        Some("control_response") if record["response"]["response"].get("commands").is_some() => {
            "initialized".to_owned()
        }
        Some("control_response") => text(&record["response"]["subtype"]),
        Some("control_request") => text(&record["request"]["subtype"]),
        Some("stream_event") => text(&record["event"]["type"]),
        _ => text(&record["subtype"]),
    };
    format!("{}/{detail}", text(&record["type"]))
}

/// Compares one fake stream with a recording: the same kinds in the same order, and every record's shape.
fn like(recording: &str, fake: &[Value]) -> Result<()> {
    let real = recordings::records(recording)?;
    assert_eq!(GRAMMAR.kinds(fake), GRAMMAR.kinds(&real), "{recording}");
    GRAMMAR.compare(&recordings::all_records(REAL)?, fake).with_context(|| recording.to_owned())
}

fn one_shot(items: &str) -> Result<Vec<Value>> {
    let stand = Stand::doing(items)?;
    stand.run("claude", &[STREAM, &["go"]].concat())?.records()
}

fn is_result(record: &Value) -> bool {
    record["type"] == "result"
}

fn user(text: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": text}})
}

fn control(id: &str, subtype: &str) -> Value {
    json!({"type": "control_request", "request_id": id, "request": {"subtype": subtype}})
}

fn decide(question: &Value, decision: Value) -> Value {
    let id = &question["request_id"];
    json!({"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": decision}})
}

#[test]
fn one_shot_turns_look_like_the_recorded_ones() -> Result<()> {
    let write = r#"{ tool = "Write", arguments = { file_path = "/w/a.txt", content = "x" }, output = "File created" }"#;
    let bash =
        r#"{ tool = "Bash", arguments = { command = "echo again", description = "a" }, output = "again" }"#;
    let denied = r#"{ permission_ask = "Write", arguments = { file_path = "/w/a.txt", content = "x" } }"#;
    let table = [
        ("claude/h-session-id.ndjson", r#"{ say = "one" }"#.to_owned()),
        ("claude/h-tool-accept-edits.ndjson", format!(r#"{write}, {{ say = "written." }}"#)),
        (
            "claude/h-thinking-tool.ndjson",
            format!(r#"{{ think = "I will run echo." }}, {{ say = "Running it." }}, {bash}, {{ say = "done." }}"#),
        ),
        ("claude/h-tool-denied-default.ndjson", format!(r#"{denied}, {{ say = "was denied." }}"#)),
        (
            "claude/h-bash-timeout-nobg.ndjson",
            r#"{ tool = "Bash", arguments = { command = "x" }, output = "timed out", exit_code = 143 }, { say = "end" }"#
                .to_owned(),
        ),
        ("claude/h-429-unified.ndjson", "{ limit_banner = true }".to_owned()),
        ("claude/h-400.ndjson", r#"{ result = "api_error", message = "API Error: 400 no", status = 400 }"#.to_owned()),
        ("claude/h-max-turns.ndjson", format!(r#"{bash}, {bash}, {{ result = "max_turns" }}"#)),
    ];
    for (recording, items) in table {
        like(recording, &one_shot(&items)?)?;
    }
    Ok(())
}

#[test]
fn a_limit_has_the_recorded_words_and_exit_code() -> Result<()> {
    let ended = Stand::doing("{ limit_banner = true }")?.run("claude", &[STREAM, &["go"]].concat())?;
    let real = recordings::records("claude/h-429-unified.ndjson")?;
    let words = |records: &[Value]| {
        records.last().map(|record| (record["result"].clone(), record["api_error_status"].clone()))
    };
    assert_eq!((words(&ended.records()?), ended.code()), (words(&real), Some(1)));
    Ok(())
}

#[test]
fn partial_messages_look_like_the_recorded_ones() -> Result<()> {
    let stand = Stand::doing(r#"{ think = "hmm hmm hmm" }, { say = "one two three four", chunk = 8 }"#)?;
    let ended = stand.run("claude", &[STREAM, &["--include-partial-messages", "go"]].concat())?;
    like("claude/h-partial.ndjson", &ended.records()?)
}

#[test]
fn a_resumed_turn_looks_like_the_recorded_one_and_counts_on() -> Result<()> {
    let stand = Stand::new(
        r#"
        v = 1
        [[step]]
        expect = { resumed = true, turn = 2 }
        do = [{ say = "turn {{turn}} of {{session}}" }]
        [[step]]
        expect = { turn = 1 }
        do = [{ say = "first" }]
        "#,
    )?;
    let id = "11111111-2222-4333-8444-555555555555";
    let first = stand.run("claude", &[STREAM, &["--session-id", id, "go"]].concat())?.records()?;
    assert_eq!(first[0]["session_id"], id);
    let second = stand.run("claude", &[STREAM, &["--resume", id, "go on"]].concat())?.records()?;
    like("claude/h-resume.ndjson", &second)?;
    assert_eq!(second[2]["result"], format!("turn 2 of {id}"));
    let taken = stand.run("claude", &[STREAM, &["--session-id", id, "go"]].concat())?;
    assert_eq!((taken.code(), taken.stderr.contains("is already in use")), (Some(1), true));
    Ok(())
}

#[test]
fn an_unknown_session_fails_as_the_recorded_one_did() -> Result<()> {
    let stand = Stand::doing(r#"{ say = "never" }"#)?;
    let id = "bbbbbbbb-0000-4000-8000-000000000001";
    let ended = stand.run("claude", &[STREAM, &["--resume", id, "go"]].concat())?;
    let records = ended.records()?;
    like("claude/h-resume-missing.ndjson", &records)?;
    let real = recordings::records("claude/h-resume-missing.ndjson")?;
    assert_eq!((&records[0]["errors"], ended.code()), (&real[0]["errors"], Some(1)));
    Ok(())
}

fn converse(script: &str) -> Result<(Stand, Live)> {
    let stand = Stand::new(script)?;
    let live = stand.start("claude", CONVERSATION)?;
    Ok((stand, live))
}

/// Says half of something, or opens a call, and waits for whatever comes; then it answers at once.
const SLOW_THEN_QUICK: &str = r#"
    v = 1
    [[step]]
    expect = { contains = "slow" }
    do = [{ say = "slow text here", chunk = 5, gap = "1h" }]
    [[step]]
    expect = { contains = "tool" }
    do = [{ tool = "Bash", arguments = { command = "sleep 60" }, for = "60s" }]
    [[step]]
    do = [{ say = "next answer" }]
"#;

#[test]
fn an_interrupt_looks_like_the_recorded_one_and_the_session_goes_on() -> Result<()> {
    let table = [("slow", "claude/s-interrupt.ndjson"), ("tool", "claude/s-interrupt-tool.ndjson")];
    for (prompt, recording) in table {
        let stand = Stand::new(SLOW_THEN_QUICK)?;
        // The deltas tell that the answer has begun; they are not in the recordings.
        let mut live = stand.start("claude", &[CONVERSATION, &["--include-partial-messages"]].concat())?;
        let real = recordings::records(recording)?;
        let mut seen = Vec::new();
        if kind(&real[0]).starts_with("control_response") {
            live.send(&control("init-1", "initialize"))?;
            seen.push(live.record()?);
        }
        live.send(&user(prompt))?;
        let has_begun =
            |record: &Value| record["event"]["delta"]["text"] == "slow " || record["type"] == "assistant";
        seen.extend(live.records_until(has_begun)?);
        live.send(&control("int-1", "interrupt"))?;
        seen.extend(live.records_until(is_result)?);
        live.send(&user("and now?"))?;
        seen.extend(live.records_until(is_result)?);
        live.close_stdin();
        assert_eq!(live.finish()?.code(), Some(0), "{recording}");
        seen.retain(|record| record["type"] != "stream_event" && record["subtype"] != "status");
        like(recording, &seen)?;
        let aborted = |records: &[Value]| {
            let result = records.iter().find(|record| is_result(record));
            result.map(|record| (record["terminal_reason"].clone(), record["num_turns"].clone()))
        };
        assert_eq!(aborted(&seen), aborted(&real), "{recording}");
        let half = seen.iter().find(|record| kind(record) == "assistant/text");
        if prompt == "slow" {
            assert_eq!(
                half.map(|record| record["message"]["content"][0]["text"].clone()),
                Some(json!("slow "))
            );
        }
    }
    Ok(())
}

#[test]
fn permission_questions_look_like_the_recorded_ones() -> Result<()> {
    let (_stand, mut live) = converse(
        r#"
        v = 1
        [[step]]
        do = [
          { permission_ask = "Write", arguments = { file_path = "/w/perm.txt", content = "x" }, output = "File created" },
          { permission_ask = "Bash", arguments = { command = "rm -f x", description = "rm" } },
          { permission_ask = "Bash", arguments = { command = "touch y", description = "touch" } },
          { say = "end" },
        ]
        "#,
    )?;
    live.send(&user("go"))?;
    let mut seen = Vec::new();
    let decisions = [
        json!({"behavior": "allow", "updatedInput": {}}),
        json!({"behavior": "deny", "message": "no rm please"}),
        json!({"behavior": "allow", "updatedInput": {}}),
    ];
    for decision in decisions {
        seen.extend(live.records_until(|record| record["type"] == "control_request")?);
        let question = seen.last().context("a question")?.clone();
        live.send(&decide(&question, decision))?;
    }
    seen.extend(live.records_until(is_result)?);
    like("claude/s-permission-stdio.ndjson", &seen)?;
    let last = seen.last().context("a result")?;
    assert_eq!(last["permission_denials"][0]["tool_input"]["command"], "rm -f x");
    Ok(())
}

#[test]
fn a_question_can_be_interrupted_or_left_alone() -> Result<()> {
    let script = r#"
        v = 1
        [[step]]
        do = [{ permission_ask = "Write", arguments = { file_path = "/w/a", content = "x" } }, { say = "after" }]
    "#;
    let is_question = |record: &Value| record["type"] == "control_request";
    let (_stand, mut live) = converse(script)?;
    live.send(&user("go"))?;
    let mut seen = live.records_until(is_question)?;
    live.send(&control("i1", "interrupt"))?;
    seen.extend(live.records_until(is_result)?);
    let real = recordings::records("claude/s-permission-interrupt.ndjson")?;
    assert_eq!(GRAMMAR.kinds(&seen), GRAMMAR.kinds(&real)[..seen.len()]);

    let (_stand, mut live) = converse(script)?;
    live.send(&user("go"))?;
    let mut seen = live.records_until(is_question)?;
    live.close_stdin();
    seen.extend(live.records_until(is_result)?);
    like("claude/s-permission-stdin-close.ndjson", &seen)
}

#[test]
fn session_states_are_printed_when_asked_for() -> Result<()> {
    let stand = Stand::doing(
        r#"{ permission_ask = "Write", arguments = { file_path = "/w/a", content = "x" }, output = "File created" }, { say = "ok" }"#,
    )?;
    let mut command = stand.command("claude", CONVERSATION);
    command.env("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1");
    let mut live = Live::start(command)?;
    live.send(&user("go"))?;
    let mut seen = live.records_until(|record| record["type"] == "control_request")?;
    let question = seen.last().context("a question")?.clone();
    live.send(&decide(&question, json!({"behavior": "allow", "updatedInput": {}})))?;
    seen.extend(live.records_until(|record| record["state"] == "idle")?);
    like("claude/s-session-state-events.ndjson", &seen)
}

#[test]
fn orders_are_answered_and_prompts_replayed() -> Result<()> {
    let stand = Stand::doing(r#"{ say = "answer one" }"#)?;
    let mut live = stand.start("claude", &[CONVERSATION, &["--replay-user-messages"]].concat())?;
    live.send(&json!({"type": "control_request", "request_id": "c0", "request": {"subtype": "set_permission_mode", "mode": "acceptEdits"}}))?;
    let mut seen = vec![live.record()?, live.record()?];
    for (id, subtype) in [
        ("c2", "set_max_thinking_tokens"),
        ("c3", "mcp_status"),
        ("c7", "no_such_thing"),
        ("c8", "interrupt"),
    ] {
        live.send(&control(id, subtype))?;
        seen.push(live.record()?);
    }
    GRAMMAR.compare(&recordings::all_records(REAL)?, &seen)?;
    assert_eq!(seen[4]["response"]["error"], "Unsupported control request subtype: no_such_thing");
    live.send(&json!({"type": "from the future"}))?;
    live.send(&user("first"))?;
    like("claude/s-replay.ndjson", &live.records_until(is_result)?)?;
    live.send(&control("bye", "end_session"))?;
    let ended = live.finish()?;
    assert_eq!((ended.code(), kind(&ended.records()?[0]).as_str()), (Some(0), "control_response/success"));
    Ok(())
}

#[test]
fn messages_sent_meanwhile_are_joined_or_swallowed() -> Result<()> {
    let (stand, mut live) = converse(
        r#"
        v = 1
        [[step]]
        expect = { contains = "talk" }
        do = [{ write_file = "talking" }, { wait_for_file = "go" }, { say = "talked" }]
        [[step]]
        expect = { contains = "tool" }
        do = [{ tool = "Bash", for = "300ms", output = "x" }, { say = "after tool" }]
        [[step]]
        do = [{ say = "{{prompt}}" }]
        "#,
    )?;
    live.send(&user("talk"))?;
    super::stand::until("talking", || stand.file("talking").exists())?;
    live.send(&user("two"))?;
    live.send(&user("three"))?;
    // The answer to this shows that the two before it were heard.
    live.send(&control("heard", "mcp_status"))?;
    live.records_until(|record| record["response"]["request_id"] == "heard")?;
    std::fs::write(stand.file("go"), "")?;
    live.records_until(is_result)?;
    assert_eq!(
        live.records_until(is_result)?.last().map(|last| last["result"].clone()),
        Some(json!("two\nthree"))
    );

    live.send(&user("tool"))?;
    let mut seen = live.records_until(|record| record["type"] == "assistant")?;
    live.send(&user("steer"))?;
    live.close_stdin();
    seen.extend(live.finish()?.records()?);
    like("claude/s-steer-mid-turn.ndjson", &seen)
}

#[test]
fn other_formats_and_bad_lines() -> Result<()> {
    let stand = Stand::doing(r#"{ say = "{{prompt}}!" }"#)?;
    let text = stand.run("claude", &["-p", "hi"])?;
    assert_eq!((text.code(), text.stdout.as_slice()), (Some(0), &b"hi!\n"[..]));
    let json = stand.run("claude", &["-p", "--output-format", "json", "hi"])?.records()?;
    assert_eq!(GRAMMAR.kinds(&json), ["result/success/is_error=false"]);
    let quiet = stand.run("claude", &["-p", "--output-format", "stream-json", "hi"])?;
    assert_eq!((quiet.code(), quiet.stdout.len()), (Some(1), 0));
    let nothing = stand.run("claude", &["-p"])?;
    assert_eq!((nothing.code(), nothing.stdout.len()), (Some(1), 0));
    let mut live = stand.start("claude", CONVERSATION)?;
    live.type_in(b"this is not json\n")?;
    let ended = live.finish()?;
    assert_eq!(
        (ended.code(), ended.stderr.starts_with("Error parsing streaming input line")),
        (Some(1), true)
    );
    let mut live = stand.start("claude", &["-p", "arg"])?;
    live.type_in(b"stdin\n")?;
    live.close_stdin();
    assert_eq!(live.finish()?.stdout, b"arg\nstdin!\n");
    Ok(())
}

#[test]
fn signals_end_it_as_they_end_the_real_one() -> Result<()> {
    let table = [(Signal::TERM, 143, 1), (Signal::HUP, 129, 1), (Signal::INT, 1, 3)];
    for (signal, code, records) in table {
        let stand = Stand::doing(r#"{ stall = "forever" }"#)?;
        let mut live = stand.start("claude", &[STREAM, &["go"]].concat())?;
        live.close_stdin();
        let init = live.record()?;
        live.signal(signal)?;
        let ended = live.finish()?;
        assert_eq!((ended.code(), 1 + ended.records()?.len()), (Some(code), records), "{signal:?} {init}");
        assert!(stand.files_below(".claude/sessions", ".json").is_empty(), "{signal:?}");
    }
    let (_stand, mut live) = converse(SLOW_THEN_QUICK)?;
    live.send(&control("c", "mcp_status"))?;
    live.record()?;
    live.signal(Signal::INT)?;
    assert_eq!(live.finish()?.code(), Some(0), "idle");
    Ok(())
}

#[test]
fn a_seeded_transcript_can_be_resumed() -> Result<()> {
    let stand = Stand::doing(r#"{ say = "turn {{turn}}" }"#)?;
    let id = "dddddddd-0000-4000-8000-000000000001";
    let slug: String = stand
        .work()
        .to_string_lossy()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let project = stand.home().join(".claude/projects").join(slug);
    std::fs::create_dir_all(&project)?;
    let question = json!({"type": "user", "uuid": "U1", "parentUuid": null, "timestamp": "2026-11-15T18:00:00.000Z", "message": {"role": "user", "content": "Q"}});
    let path = project.join(format!("{id}.jsonl"));
    std::fs::write(&path, format!("{question}\n"))?;
    let records = stand.run("claude", &[STREAM, &["--resume", id, "go"]].concat())?.records()?;
    assert_eq!(records.last().map(|last| last["result"].clone()), Some(json!("turn 2")));
    let text = std::fs::read_to_string(path)?;
    let first_own = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find(|record| record["sessionId"] == id && record["type"] == "user");
    assert_eq!(first_own.map(|record| record["parentUuid"].clone()), Some(json!("U1")));
    Ok(())
}

#[test]
fn versions_are_printed_in_each_agents_way() -> Result<()> {
    let table = [
        ("claude", "9.9.9 (Claude Code)\n"),
        ("tui", "9.9.9 (Claude Code)\n"),
        ("codex", "codex-cli 9.9.9\n"),
        ("acp", "9.9.9\n"),
    ];
    let stand = Stand::new("v = 1\nversion = \"9.9.9\"\nstart = [{ never_exit = true }]\n")?;
    for (dialect, want) in table {
        let ended = stand.run(dialect, &["--version"])?;
        assert_eq!(
            (ended.code(), String::from_utf8_lossy(&ended.stdout).as_ref()),
            (Some(0), want),
            "{dialect}"
        );
    }
    Ok(())
}
