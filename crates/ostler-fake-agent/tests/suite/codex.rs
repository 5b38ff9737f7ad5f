//! The `codex` dialect: its shapes and orders against recordings of 0.166.0, and its ways with threads.

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt;

use super::recordings::{self, Grammar};
use super::stand::Stand;

const EXEC: &[&str] = &["exec", "--json", "--dangerously-bypass-approvals-and-sandbox"];

const REAL: &[&str] = &[
    "codex/text.ndjson",
    "codex/resume.ndjson",
    "codex/patch.ndjson",
    "codex/mcp_gpt-5.5.ndjson",
    "codex/mcp_noapproval.ndjson",
    "codex/h400.ndjson",
    "codex/usagelimit.ndjson",
];

const GRAMMAR: Grammar = Grammar { kind, opaque: &["item.arguments"], left_out: &[] };

const ROLLOUT: Grammar = Grammar { kind: rollout_kind, opaque: &[], left_out: &[] };

fn kind(record: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    match record.get("item") {
        Some(item) => format!("{}/{}", text(&record["type"]), text(&item["type"])),
        None => text(&record["type"]),
    }
}

fn rollout_kind(record: &Value) -> String {
    let payload = &record["payload"];
    format!("{} {} {}", record["type"], payload["type"], payload["item"]["type"])
}

fn like(recording: &str, fake: &[Value]) -> Result<()> {
    let real = recordings::records(recording)?;
    assert_eq!(GRAMMAR.kinds(fake), GRAMMAR.kinds(&real), "{recording}");
    GRAMMAR.compare(&recordings::all_records(REAL)?, fake).with_context(|| recording.to_owned())
}

#[test]
fn turns_look_like_the_recorded_ones() -> Result<()> {
    let mcp = |tool: &str, more: &str| {
        format!(r#"{{ tool = "mcp__lab__{tool}", arguments = {{ text = "hi" }}, {more} }}"#)
    };
    let ask = |tool: &str| format!(r#"{{ permission_ask = "mcp__lab__{tool}" }}"#);
    let table = [
        ("codex/text.ndjson", r#"{ think = "**Thinking**" }, { say = "Hello" }"#.to_owned(), 0),
        (
            "codex/resume.ndjson",
            r#"{ say = "Running a command." }, { tool = "Bash", arguments = { command = "ls" }, output = "a.txt" },
               { tool = "Bash", arguments = { command = "exit 3" }, exit_code = 3 }, { say = "All done." }"#
                .to_owned(),
            0,
        ),
        ("codex/patch.ndjson", r#"{ tool = "Edit", arguments = { file_path = "/w/a.txt" } }, { say = "patched" }"#.to_owned(), 0),
        (
            "codex/mcp_gpt-5.5.ndjson",
            format!(
                "{}, {}, {}, {{ say = \"mcp done\" }}",
                mcp("echo", r#"output = "echo:hi""#),
                mcp("fail", r#"output = "boom", is_error = true"#),
                mcp("slow", r#"output = "late", is_error = true"#)
            ),
            0,
        ),
        (
            "codex/mcp_noapproval.ndjson",
            format!("{}, {}, {}, {{ say = \"mcp done\" }}", mcp("echo", r#"output = "echo:hi""#), ask("fail"), ask("slow")),
            0,
        ),
        ("codex/h400.ndjson", r#"{ result = "api_error", message = "bad request thing" }"#.to_owned(), 1),
        ("codex/usagelimit.ndjson", "{ limit_banner = true }".to_owned(), 1),
    ];
    for (recording, items, code) in table {
        let ended = Stand::doing(&items)?.run("codex", &[EXEC, &["go"]].concat())?;
        like(recording, &ended.records()?)?;
        assert_eq!(ended.code(), Some(code), "{recording}");
    }
    Ok(())
}

#[test]
fn a_limit_has_the_recorded_words() -> Result<()> {
    let records =
        Stand::doing("{ limit_banner = true }")?.run("codex", &[EXEC, &["go"]].concat())?.records()?;
    let real = recordings::records("codex/usagelimit.ndjson")?;
    assert_eq!((&records[2], &records[3]), (&real[2], &real[3]));
    Ok(())
}

#[test]
fn a_thread_goes_on_and_its_usage_adds_up() -> Result<()> {
    let stand = Stand::new(
        r#"
        v = 1
        [[step]]
        expect = { resumed = true }
        do = [{ say = "turn {{turn}}" }]
        [[step]]
        do = [{ say = "first" }]
        "#,
    )?;
    let first = stand.run("codex", &[EXEC, &["go"]].concat())?.records()?;
    let id = first[0]["thread_id"].as_str().context("a thread id")?;
    for (number, arguments) in [
        (2, vec!["exec", "resume", "--json", id, "more"]),
        (3, vec!["exec", "--json", "resume", "--last", "more"]),
    ] {
        let again = stand.run("codex", &arguments)?.records()?;
        assert_eq!(again[0]["thread_id"], id);
        assert_eq!(again[2]["item"]["text"], format!("turn {number}"));
        assert_eq!(again[3]["usage"]["input_tokens"], 1200 * number);
    }
    let other = stand.run("codex", &["exec", "--json", "resume", "no-such-name", "more"])?.records()?;
    assert_ne!(other[0]["thread_id"], id, "a name that nothing has starts a new thread");
    Ok(())
}

#[test]
fn an_unknown_thread_fails_as_the_recorded_one_did() -> Result<()> {
    let stand = Stand::doing("")?;
    let ended =
        stand.run("codex", &["exec", "--json", "resume", "00000000-0000-0000-0000-000000000000", "go"])?;
    let real = std::fs::read_to_string(recordings::path("codex/resume_bad.stderr"))?;
    assert_eq!((ended.stderr.trim(), ended.stdout.len(), ended.code()), (real.trim(), 0, Some(1)));
    Ok(())
}

#[test]
fn the_rollout_looks_like_the_recorded_one() -> Result<()> {
    let stand = Stand::doing(r#"{ drop_stdout_keep_transcript = true }, { say = "unheard" }"#)?;
    stand.run("codex", &[EXEC, &["go"]].concat())?;
    let files = stand.files_below(".codex/sessions", ".jsonl");
    assert_eq!(files.len(), 1, "{files:?}");
    let text = std::fs::read_to_string(&files[0])?;
    let records: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    ROLLOUT.compare(&recordings::records("codex/rollout_file.jsonl")?, &records)?;
    assert_eq!(
        records.iter().map(|record| record["ordinal"].clone()).collect::<Vec<_>>(),
        [0, 1, 2, 3].map(|n| json!(n))
    );
    assert_eq!(records[3]["payload"]["last_agent_message"], "unheard");
    Ok(())
}

#[test]
fn prompts_come_from_the_line_from_stdin_or_from_both() -> Result<()> {
    let stand = Stand::doing(r#"{ say = "{{prompt}}" }"#)?;
    let table = [
        (vec!["exec", "-"], "typed"),
        (vec!["exec"], "typed"),
        (vec!["exec", "given"], "given\n\n<stdin>\ntyped\n</stdin>"),
    ];
    for (arguments, want) in table {
        let mut live = stand.start("codex", &arguments)?;
        live.type_in(b"typed\n")?;
        live.close_stdin();
        let ended = live.finish()?;
        assert_eq!(String::from_utf8_lossy(&ended.stdout).trim_end(), want, "{arguments:?}");
    }
    let folder = stand.work();
    let path = folder.join("last");
    let (folder, last) = (folder.to_string_lossy(), path.to_string_lossy());
    stand.run("codex", &["exec", "-C", &folder, "-o", &last, "kept"])?;
    assert_eq!(std::fs::read_to_string(&path)?, "kept");
    Ok(())
}

#[test]
fn signals_end_it_as_they_end_the_real_one() -> Result<()> {
    for (signal, code, by) in [(Signal::INT, Some(1), None), (Signal::TERM, None, Some(15))] {
        let stand = Stand::doing(r#"{ tool = "Bash", arguments = { command = "sleep 66" }, for = "66s" }"#)?;
        let mut live = stand.start("codex", &[EXEC, &["go"]].concat())?;
        live.close_stdin();
        live.records_until(|record| record["type"] == "item.started")?;
        live.signal(signal)?;
        let ended = live.finish()?;
        assert_eq!((ended.code(), ended.status.signal(), ended.stdout.len()), (code, by, 0), "{signal:?}");
    }
    Ok(())
}

#[test]
fn an_untrusted_folder_is_refused() -> Result<()> {
    let stand = Stand::new("v = 1\nstart = [{ trust_screen = true }]\n")?;
    let ended = stand.run("codex", &[EXEC, &["go"]].concat())?;
    assert_eq!((ended.code(), ended.stdout.len()), (Some(1), 0));
    assert!(ended.stderr.contains("Not inside a trusted directory"), "{}", ended.stderr);
    Ok(())
}
