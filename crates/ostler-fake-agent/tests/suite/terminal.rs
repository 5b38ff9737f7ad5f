//! The `tui` dialect: what is on its screen against recorded terminals, its two files, and its keys.

use std::fs;

use anyhow::{Context, Result};
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::Value;

use super::recordings::{self, Grammar};
use super::stand::{Stand, until};
use super::tty::{Tui, recorded};

const IDLE: &[&str] = &["❯", "? for shortcuts · ← for agents"];

#[test]
fn screens_show_what_the_recorded_ones_show() -> Result<()> {
    let write =
        r#"{ permission_ask = "Write", arguments = { file_path = "/w/new.txt", content = "line1\nline2" } }"#;
    let tool = r#"{ think = "…" }, { say = "Let me run it." },
        { tool = "Bash", arguments = { command = "echo hi-tool; sleep 1" }, output = "hi-tool" },
        { say = "All finished now. FINALWORD" }"#;
    let step = |items: &str| format!("v = 1\n[[step]]\ndo = [{items}]\n");
    let table: &[(&str, String, Option<&str>, &[&str])] = &[
        (
            "claude/pty-startup.bin",
            step(""),
            None,
            &["╭─── Claude Code v2.1.197 ───", "Welcome back!", "❯", "? for shortcuts · ← for agents"],
        ),
        (
            "claude/pty-trust-dialog.bin",
            "v = 1\nstart = [{ trust_screen = true }]\n".to_owned(),
            None,
            &[
                " Accessing workspace:",
                " Quick safety check: Is this a project you created or one you trust? (Like your own code, a well-known open source",
                " project, or work from your team). If not, take a moment to review what's in this folder first.",
                " Claude Code'll be able to read, edit, and execute files here.",
                " Security guide",
                " ❯ 1. Yes, I trust this folder\n   2. No, exit",
                " Enter to confirm · Esc to cancel",
            ],
        ),
        (
            "claude/pty-permission-dialog.bin",
            step(write),
            Some("write a file"),
            &[
                "❯ write a file",
                "● Write(new.txt)",
                " Create file\n new.txt\n╌╌╌",
                "  1 line1\n  2 line2\n╌╌╌",
                " Do you want to create new.txt?\n ❯ 1. Yes\n   2. Yes, allow all edits during this session (shift+tab)\n   3. No",
                " Esc to cancel · Tab to amend",
            ],
        ),
        (
            "claude/pty-simple-turn.bin",
            step(r#"{ say = "hello there, this is a slow answer", chunk = 5 }"#),
            Some("hi"),
            &[
                "❯ hi",
                "● hello there, this is a slow answer",
                "\n✻ ",
                " for 0s",
                "? for shortcuts · ← for agents",
            ],
        ),
        (
            "claude/pty-turn-with-tool.bin",
            step(tool),
            Some("please run the tool"),
            &[
                "❯ please run the tool",
                "  Thought for 1s (ctrl+o to expand)",
                "● Let me run it.",
                "● Bash(echo hi-tool; sleep 1)\n  ⎿  hi-tool",
                "● All finished now. FINALWORD",
            ],
        ),
        // No terminal was recorded at a usage limit; a failed request is drawn in the same way.
        (
            "claude/pty-api-retry.bin",
            step("{ limit_banner = true }"),
            Some("go"),
            &["❯ go", "● API Error: Re", "? for shortcuts · ← for agents"],
        ),
    ];
    for (recording, script, prompt, landmarks) in table {
        let screen = recorded(recording)?;
        let lost: Vec<_> = landmarks.iter().filter(|landmark| !screen.contains(**landmark)).collect();
        assert!(lost.is_empty(), "{recording} does not show {lost:?}:\n{screen}");
        let stand = Stand::new(script)?;
        let mut tui = Tui::start(&stand, &[])?;
        if let Some(prompt) = prompt {
            tui.sees(IDLE)?;
            tui.press(&format!("{prompt}\r"))?;
        }
        tui.sees(landmarks).with_context(|| (*recording).to_owned())?;
    }
    Ok(())
}

#[test]
fn an_interrupted_answer_shows_what_the_recorded_one_shows() -> Result<()> {
    let landmarks = [
        "❯ go slow",
        "● slow text",
        "  ⎿  Interrupted · What should Claude do instead?",
        "❯ and now",
        "● second FINX",
    ];
    let screen = recorded("claude/pty-esc-streaming.bin")?;
    assert!(landmarks.iter().all(|landmark| screen.contains(landmark)), "{screen}");
    let stand = Stand::new(
        r#"
        v = 1
        [[step]]
        expect = { contains = "slow" }
        do = [{ say = "slow text never whole", chunk = 10, gap = "1h" }]
        [[step]]
        do = [{ say = "second FINX" }]
        "#,
    )?;
    let mut tui = Tui::start(&stand, &[])?;
    tui.sees(IDLE)?;
    tui.press("go slow\r")?;
    tui.sees(&["● slow text", "esc to interrupt"])?;
    tui.press("\x1b")?;
    tui.sees(&[landmarks[2], "? for shortcuts"])?;
    tui.press("and now\r")?;
    tui.sees(&landmarks)?;
    Ok(())
}

#[test]
fn phrases_are_not_in_its_bytes_as_in_the_recorded_ones() -> Result<()> {
    let phrase = b"I trust this folder";
    let has = |bytes: &[u8]| bytes.windows(phrase.len()).any(|window| window == phrase);
    assert!(!has(&fs::read(recordings::path("claude/pty-trust-dialog.bin"))?));
    let stand = Stand::new("v = 1\nstart = [{ trust_screen = true }]\n")?;
    let tui = Tui::start(&stand, &[])?;
    tui.sees(&["I trust this folder"])?;
    assert!(!has(&tui.drawn.bytes()));
    Ok(())
}

#[test]
fn the_trust_screen_is_answered_by_keys() -> Result<()> {
    for (keys, code) in [("\x1b", Some(1)), ("2", Some(1)), ("\x1b[B\r", Some(1)), ("\r", None), ("1", None)]
    {
        let stand = Stand::new(
            "v = 1\nstart = [{ trust_screen = true }]\n[[step]]\ndo = [{ say = \"{{prompt}}!\" }]\n",
        )?;
        let mut tui = Tui::start(&stand, &[])?;
        tui.sees(&["❯ 1. Yes, I trust this folder"])?;
        assert!(stand.files_below(".claude/sessions", ".json").is_empty(), "no state is told before trust");
        tui.press(keys)?;
        match code {
            Some(code) => assert_eq!(tui.wait()?.code(), Some(code), "{keys:?}"),
            None => {
                tui.sees(IDLE)?;
                tui.press("hello\r")?;
                tui.sees(&["● hello!"])?;
            }
        }
    }
    Ok(())
}

fn state(stand: &Stand) -> Option<Value> {
    let file = stand.files_below(".claude/sessions", ".json").pop()?;
    serde_json::from_str(&fs::read_to_string(file).ok()?).ok()
}

fn is_state(stand: &Stand, status: &str) -> bool {
    state(stand).is_some_and(|state| state["status"] == status)
}

fn transcript(stand: &Stand) -> Result<Vec<Value>> {
    let file = stand.files_below(".claude/projects", ".jsonl").pop().context("a transcript")?;
    let text = fs::read_to_string(file)?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

#[test]
fn the_state_file_follows_and_goes() -> Result<()> {
    let stand = Stand::doing(
        r#"{ wait_for_file = "go" }, { permission_ask = "Bash", arguments = { command = "rm x" }, output = "gone" }, { say = "you said {{answer}}" }"#,
    )?;
    let mut tui = Tui::start(&stand, &["--session-id", "cccccccc-0000-4000-8000-000000000001"])?;
    until("idle", || is_state(&stand, "idle"))?;
    let keys = |state: &Value| state.as_object().map(|table| table.keys().cloned().collect::<Vec<_>>());
    let want = [
        "cwd",
        "entrypoint",
        "kind",
        "pid",
        "procStart",
        "sessionId",
        "startedAt",
        "status",
        "statusUpdatedAt",
        "updatedAt",
        "version",
    ];
    assert_eq!(state(&stand).as_ref().and_then(keys), Some(want.map(str::to_owned).to_vec()));
    tui.press("go\r")?;
    until("busy", || is_state(&stand, "busy"))?;
    fs::write(stand.file("go"), "")?;
    until("waiting", || is_state(&stand, "waiting"))?;
    assert_eq!(state(&stand).map(|state| state["waitingFor"].clone()), Some("permission prompt".into()));
    tui.sees(&["Do you want to proceed?", "❯ 1. Yes"])?;
    tui.press("1")?;
    tui.sees(&["⎿  gone", "● you said allow"])?;
    until("idle", || is_state(&stand, "idle"))?;
    tui.press("/exit\r")?;
    assert_eq!(tui.wait()?.code(), Some(0));
    until("a farewell", || {
        tui.drawn.screen().contains("claude --resume cccccccc-0000-4000-8000-000000000001")
    })?;
    assert_eq!(state(&stand), None);
    Ok(())
}

fn transcript_kind(record: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let content = &record["message"]["content"];
    let detail = match record["type"].as_str() {
        Some("assistant") if record["message"]["model"] == "<synthetic>" => {
            if record["isApiErrorMessage"] == true { "api error" } else { "cut short" }.to_owned()
        }
        Some("user") if content.is_string() => "prompt".to_owned(),
        Some("assistant" | "user") => text(&content[0]["type"]),
        Some("queue-operation") => text(&record["operation"]),
        _ => text(&record["subtype"]),
    };
    format!("{}/{detail}", text(&record["type"]))
}

const TRANSCRIPT: Grammar = Grammar {
    kind: transcript_kind,
    opaque: &["message.content[].input"],
    // An interrupt between two messages has no message to name; the recorded ones all were in one.
    left_out: &["user/text: interruptedMessageId"],
};

const REAL: &[&str] = &[
    "claude/session-interactive-tool.jsonl",
    "claude/session-permission.jsonl",
    "claude/session-esc-streaming.jsonl",
    "claude/session-esc-tool.jsonl",
    "claude/session-api-error.jsonl",
    "claude/session-headless-manual-compact-tail.jsonl",
];

#[test]
fn the_transcript_looks_like_the_recorded_one() -> Result<()> {
    let stand = Stand::new(
        r#"
        v = 1
        [[step]]
        expect = { contains = "tool" }
        do = [
          { think = "thinking about it" }, { say = "Let me run it." },
          { tool = "Bash", arguments = { command = "echo hi" }, output = "hi" },
          { say = "All finished now." },
        ]
        [[step]]
        expect = { contains = "limit" }
        do = [{ limit_banner = true }]
        [[step]]
        do = [{ permission_ask = "Bash", arguments = { command = "rm x" } }]
        "#,
    )?;
    let mut tui = Tui::start(&stand, &["please run the tool"])?;
    tui.sees(&["● All finished now.", "? for shortcuts"])?;
    tui.press("limit\r")?;
    tui.sees(&["usage limit reached", "? for shortcuts"])?;
    tui.press("ask\r")?;
    tui.sees(&["Do you want to proceed?"])?;
    tui.press("3")?;
    tui.sees(&["Interrupted · What should Claude do instead?"])?;
    let ours = transcript(&stand)?;
    TRANSCRIPT.compare(&recordings::all_records(REAL)?, &ours)?;

    // Titles, listings and hooks are the real one's own affair, and so is the last line that it writes on exit.
    let shared = |kind: &String| {
        !["ai-title", "attachment", "system/stop_hook_summary", "last-prompt"]
            .iter()
            .any(|own| kind.starts_with(own))
    };
    let real: Vec<String> =
        TRANSCRIPT.kinds(&recordings::records(REAL[0])?).into_iter().filter(shared).collect();
    let kinds = TRANSCRIPT.kinds(&ours);
    assert_eq!(kinds[..real.len()], real);
    let rest = ["file-history-snapshot/-", "user/prompt", "assistant/api error", "system/turn_duration"];
    let refused =
        ["file-history-snapshot/-", "user/prompt", "assistant/tool_use", "user/tool_result", "user/text"];
    assert_eq!(kinds[real.len()..], [&rest[..], &refused[..]].concat());

    let chained: Vec<&Value> = ours.iter().filter(|record| record.get("parentUuid").is_some()).collect();
    assert_eq!(chained[0]["parentUuid"], Value::Null);
    assert!(chained.windows(2).all(|pair| pair[1]["parentUuid"] == pair[0]["uuid"]));
    Ok(())
}

#[test]
fn a_headless_transcript_looks_like_the_recorded_one() -> Result<()> {
    let stand =
        Stand::doing(r#"{ tool = "Bash", arguments = { command = "ls" }, output = "a" }, { say = "done" }"#)?;
    stand.run("claude", &["-p", "go"])?;
    let ours = transcript(&stand)?;
    TRANSCRIPT.compare(&recordings::all_records(REAL)?, &ours)?;
    let kinds = TRANSCRIPT.kinds(&ours);
    assert_eq!(kinds[..2], ["queue-operation/enqueue", "queue-operation/dequeue"]);
    assert!(!kinds.contains(&"system/turn_duration".to_owned()), "{kinds:?}");
    Ok(())
}

#[test]
fn a_paste_is_one_prompt_and_a_lost_enter_can_be_pressed_again() -> Result<()> {
    let stand = Stand::new(
        r#"
        v = 1
        start = [{ lose_enter = 1 }]
        [[step]]
        expect = { matches = "(?s)^one\ntwo\nthree\nfour$" }
        do = [{ say = "four lines" }]
        "#,
    )?;
    let mut tui = Tui::start(&stand, &[])?;
    tui.sees(IDLE)?;
    tui.press("\x1b[200~one\ntwo\nthree\nfour\x1b[201~")?;
    tui.sees(&["❯ [Pasted text #1 +3 lines]"])?;
    tui.press("\r")?;
    tui.press("\r")?;
    tui.sees(&["● four lines"])?;
    Ok(())
}

#[test]
fn a_prompt_goes_back_into_the_box_when_nothing_was_said() -> Result<()> {
    let stand = Stand::doing(r#"{ stall = "forever" }"#)?;
    let mut tui = Tui::start(&stand, &[])?;
    tui.sees(IDLE)?;
    tui.press("think hard\r")?;
    tui.sees(&["esc to interrupt"])?;
    tui.press("\x1b")?;
    tui.sees(&["────\n❯ think hard\n────", "? for shortcuts"])?;
    assert!(!tui.drawn.screen().contains("Interrupted"));
    tui.press("\x03\x03\x03")?;
    assert_eq!(tui.wait()?.code(), Some(0));
    Ok(())
}

#[test]
fn a_session_is_shown_again_when_it_is_resumed() -> Result<()> {
    let stand = Stand::doing(r#"{ say = "answer {{turn}}" }"#)?;
    let id = "cccccccc-0000-4000-8000-000000000002";
    let mut tui = Tui::start(&stand, &["--session-id", id, "question one"])?;
    tui.sees(&["● answer 1", "? for shortcuts"])?;
    tui.press("\x04\x04")?;
    assert_eq!(tui.wait()?.code(), Some(0));
    let mut tui = Tui::start(&stand, &["--resume", id])?;
    tui.sees(&["❯ question one", "● answer 1", "? for shortcuts"])?;
    tui.press("question two\r")?;
    tui.sees(&["● answer 2"])?;
    let mut tui = Tui::start(&stand, &["--resume", "cccccccc-0000-4000-8000-00000000000f"])?;
    assert_eq!(tui.wait()?.code(), Some(1));
    Ok(())
}

#[test]
fn the_terminal_is_raw_meanwhile_and_restored_after() -> Result<()> {
    let stand = Stand::doing("")?;
    let mut tui = Tui::start(&stand, &[])?;
    tui.sees(IDLE)?;
    let tty = tui.tty.take().context("a terminal")?;
    let is_cooked =
        || tcgetattr(&tty).is_ok_and(|settings| settings.local_modes.contains(LocalModes::ICANON));
    assert!(!is_cooked());
    tui.press("exit\r")?;
    assert_eq!(tui.wait()?.code(), Some(0));
    assert!(is_cooked());
    Ok(())
}

#[test]
fn claude_without_a_pipe_is_the_terminal_program() -> Result<()> {
    let stand = Stand::doing(r#"{ say = "drawn" }"#)?;
    let tui = Tui::on_terminal(stand.command("claude", &["hello"]))?;
    tui.sees(&["❯ hello", "● drawn", "? for shortcuts"])?;
    Ok(())
}

#[test]
fn pipes_serve_as_well_as_a_terminal() -> Result<()> {
    let stand = Stand::doing(
        r#"{ permission_ask = "Bash", arguments = { command = "ls" } }, { say = "{{answer}}ed" }"#,
    )?;
    let mut tui = Tui::on_pipes(stand.command("tui", &[]))?;
    tui.sees(IDLE)?;
    tui.press("hi\r")?;
    tui.sees(&["Do you want to proceed?"])?;
    tui.press("\r")?;
    tui.sees(&["● allowed", "? for shortcuts"])?;
    tui.keyboard = Box::new(std::io::sink());
    assert_eq!(tui.wait()?.code(), Some(0));
    Ok(())
}
