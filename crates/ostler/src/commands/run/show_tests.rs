use ostler_agent::event::{Failure, FailureClass};
use serde_json::json;

use super::*;

fn show() -> Show {
    Show::new("01a1e1c3-2685-70e7-873a-60c896a0199c", "/w", Speech::Paragraphs, || 80)
}

fn told(show: &mut Show, events: impl IntoIterator<Item = (u64, RunEventKind)>) -> String {
    let events = events.into_iter().map(|(ms, kind)| RunEvent { seq: 1, ms, kind });
    let lines: String = events.filter_map(|event| show.line(&event)).collect();
    anstream::adapter::strip_str(&lines).to_string()
}

fn agent(event: AgentEvent) -> RunEventKind {
    RunEventKind::Agent(event)
}

fn said(text: &str, within: Option<&str>) -> RunEventKind {
    agent(AgentEvent::Said { text: text.to_owned(), part: Part::Whole, within: within.map(str::to_owned) })
}

fn opened(call: &str, tool: &str, input: Value, within: Option<&str>) -> RunEventKind {
    let (call, tool, within) = (call.to_owned(), tool.to_owned(), within.map(str::to_owned));
    agent(AgentEvent::ToolStarted { call, tool, input, within })
}

fn closed(call: &str, failed: bool, exit_code: Option<i64>, text: &str) -> RunEventKind {
    let result = ToolResult { failed, exit_code, text: text.to_owned() };
    agent(AgentEvent::ToolEnded { call: call.to_owned(), result })
}

fn spawned(command: &str) -> RunEventKind {
    let (containment, command) = ("cgroup".to_owned(), command.to_owned());
    RunEventKind::Spawned { pid: 7, attempt: 1, containment, command }
}

#[test]
fn a_run_is_told_in_lines_and_paragraphs() {
    let many: String = (1..=30).map(|line| format!("error {line}\n")).collect();
    let wide = "echo 世界世界世界世界世界世界世界世界世界世界世界世界世界世界世界世界世界世界世界世界 done";
    let events = [
        (0, spawned("/opt/agents/codex exec --json -")),
        (10, agent(AgentEvent::Started { session: "s-1".to_owned(), model: Some("big".to_owned()) })),
        (15, agent(AgentEvent::Started { session: "s-1".to_owned(), model: None })),
        (20, said("I will look first.\nThen act.", None)),
        (30, said("A second paragraph.", None)),
        (100, opened("a", "Read", json!({"file_path": "/w/src/main.rs"}), None)),
        (400, closed("a", false, None, "fn main() {}")),
        (500, opened("b", "command_execution", json!({"command": "/bin/bash -lc 'cargo test --all'"}), None)),
        (65_500, closed("b", true, Some(101), &many)),
        (65_600, opened("t", "Task", json!({"description": "ask another"}), None)),
        (65_700, opened("c", "Bash", json!({"command": wide}), Some("t"))),
        (65_800, closed("c", false, Some(0), "")),
        (65_900, said("I am the other.\nI am done.", Some("t"))),
        (66_000, closed("t", false, None, "")),
        (66_100, opened("d", "TodoWrite", json!({}), None)),
        (66_200, closed("d", false, None, "")),
        (66_300, RunEventKind::Warn { text: "nothing was heard for 180 s".to_owned() }),
        (66_400, RunEventKind::Noise { text: "a line \u{1b}[1mthat is no record".to_owned() }),
        (
            66_500,
            RunEventKind::Resumed {
                attempt: 2,
                reason: "it was cut off".to_owned(),
                by: ostler_agent::run_event::ResumedBy::Run,
            },
        ),
        (66_600, spawned("/opt/agents/codex exec resume s-1 -")),
        (66_700, said("All is well.", None)),
        (66_800, RunEventKind::Stopping { rung: "int".to_owned(), reason: "cancelled".to_owned() }),
        (66_900, RunEventKind::Stopping { rung: "verify".to_owned(), reason: "cancelled".to_owned() }),
    ];
    insta::assert_snapshot!(told(&mut show(), events));
}

#[test]
fn a_call_is_one_line_and_cannot_paint_the_terminal() {
    let input = json!({"command": "echo \u{1b}[31mred\u{7}\n  twice"});
    let events = [
        (1_000, opened("c", "Bash", input, None)),
        (2_500, closed("c", true, Some(2), "no\u{1b}]0;x\u{7}\nway")),
    ];
    assert_eq!(told(&mut show(), events), "✗ Bash echo red twice (1.5s, exit 2)\n  no\n  way\n");
}

#[test]
fn a_call_fits_whatever_the_terminal_has() {
    for columns in [|| 40, || 80, || 200] {
        let mut show = Show::new("01a1e1c3-2685-70e7-873a-60c896a0199c", "/w", Speech::Paragraphs, columns);
        let input = json!({"command": "世界 ".repeat(100)});
        let events = [(0, opened("c", "Bash", input, None)), (900_000, closed("c", false, None, ""))];
        let line = told(&mut show, events);
        assert!(words::width(line.trim_end()) <= columns(), "{line}");
        assert!(words::width(line.trim_end()) >= columns() - 1, "{line}");
    }
}

#[test]
fn a_speech_that_nobody_would_read_is_folded() {
    let text = "line\n".repeat(1_000);
    let told = told(&mut show(), [(0, said(&text, None))]);
    assert!(told.ends_with("line\n… 880 more lines: ostler runs events 01a1e1c3-2685\n"), "{told}");
}

#[test]
fn a_failure_is_told_in_full_and_once() {
    let failed = |detail: &str| {
        let detail = detail.to_owned();
        agent(AgentEvent::TurnEnded(TurnOutcome::Failed(Failure {
            class: FailureClass::Auth,
            detail,
            resets_at: None,
            cut_short: None,
        })))
    };
    let long = "because ".repeat(1_000);
    assert_eq!(told(&mut show(), [(0, failed(&long))]).trim_end(), long.trim_end());
    assert_eq!(told(&mut show(), [(0, said("no key", None)), (1, failed("no key"))]), "\nno key\n");
}

#[test]
fn the_output_of_a_program_is_shown_line_by_line() {
    let mut show = Show::new("01a1e1c3-2685-70e7-873a-60c896a0199c", "/w", Speech::Lines, || 80);
    let events = [(0, said("one", None)), (1, said("", None)), (2, said("  two\u{1b}[K", None))];
    assert_eq!(told(&mut show, events), "one\n\n  two\n");
}
