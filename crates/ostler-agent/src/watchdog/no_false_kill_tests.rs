//! A working agent is never stopped: recordings of real agents, and scripts of what they do on long days.
//!
//! `recordings/liveness` holds what the agents wrote, without what is of no interest here. The clock is ours: every
//! recording is played as written and as by the slowest agent that is still alive, each pause just below the limit.

use serde_json::Value;

use super::tests::{SAID, closed, opened, secs, task_closed, task_opened};
use super::*;
use crate::event::{AgentEvent, Part, ToolResult, TurnOutcome};

const RECORDINGS: &[(&str, &str)] = &[
    ("claude background", include_str!("../../recordings/liveness/claude-s-bash-background.ndjson")),
    ("claude sub-agent", include_str!("../../recordings/liveness/claude-h-subagent.ndjson")),
    ("claude parallel", include_str!("../../recordings/liveness/claude-h-parallel.ndjson")),
    ("claude two prompts", include_str!("../../recordings/liveness/claude-s-two-queued.ndjson")),
    ("claude thinking", include_str!("../../recordings/liveness/claude-h-thinking-tool.ndjson")),
    ("claude overloaded", include_str!("../../recordings/liveness/claude-h-529-giveup-default.ndjson")),
    ("claude states", include_str!("../../recordings/liveness/claude-s-session-state-events.ndjson")),
    ("claude hooks", include_str!("../../recordings/liveness/claude-h-hooks.ndjson")),
    ("codex sub-agent", include_str!("../../recordings/liveness/codex-plan_spawn.ndjson")),
    ("codex mcp", include_str!("../../recordings/liveness/codex-mcp_mock-model.ndjson")),
    ("codex retries", include_str!("../../recordings/liveness/codex-cut_defaults.ndjson")),
    ("opencode tools", include_str!("../../recordings/liveness/opencode-tools.ndjson")),
    ("opencode retries", include_str!("../../recordings/liveness/opencode-stall_chunktimeout.ndjson")),
];

/// What a record means, as far as liveness goes. One table for three agents: their kinds of records do not overlap.
fn events(record: &Value) -> Vec<AgentEvent> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let started = || vec![AgentEvent::Started { session: text(&record["session_id"]), model: None }];
    let over = || vec![AgentEvent::TurnEnded(TurnOutcome::Done { text: String::new() })];
    let said = || AgentEvent::Said { text: String::new(), part: Part::Whole, within: None };
    match (record["type"].as_str().unwrap_or_default(), record["subtype"].as_str().unwrap_or_default()) {
        ("system", "init") | ("thread.started" | "turn.started" | "step_start", _) => started(),
        ("system", "task_started") => vec![AgentEvent::TaskOpened { task: text(&record["task_id"]) }],
        ("system", "task_notification") => vec![AgentEvent::TaskClosed { task: text(&record["task_id"]) }],
        ("assistant" | "user", _) => {
            let within = record["parent_tool_use_id"].as_str().map(str::to_owned);
            let blocks = record["message"]["content"].as_array().into_iter().flatten();
            blocks.map(|block| claude_block(block, within.clone())).collect()
        }
        ("result" | "turn.completed" | "turn.failed", _) => over(),
        ("step_finish", _) if record["part"]["reason"] == "stop" => over(),
        ("item.started", _) => vec![AgentEvent::ToolStarted {
            call: text(&record["item"]["id"]),
            tool: text(&record["item"]["type"]),
            input: record["item"]["command"].clone(),
            within: None,
        }],
        ("item.completed", _) => match record["item"]["type"].as_str() {
            Some("agent_message" | "reasoning") => vec![said()],
            _ => vec![ended(text(&record["item"]["id"]), &record["item"])],
        },
        ("tool_use", _) => {
            let (call, state) = (text(&record["part"]["callID"]), &record["part"]["state"]);
            let tool = text(&record["part"]["tool"]);
            let started = AgentEvent::ToolStarted {
                call: call.clone(),
                tool,
                input: state["input"].clone(),
                within: None,
            };
            vec![started, ended(call, &state["output"])]
        }
        ("text" | "reasoning", _) => vec![said()],
        (kind, _) => vec![AgentEvent::Unknown { kind: kind.to_owned() }],
    }
}

fn claude_block(block: &Value, within: Option<String>) -> AgentEvent {
    match block["type"].as_str() {
        Some("tool_use") => AgentEvent::ToolStarted {
            call: block["id"].as_str().unwrap_or_default().to_owned(),
            tool: block["name"].as_str().unwrap_or_default().to_owned(),
            input: block["input"].clone(),
            within,
        },
        Some("tool_result") => {
            ended(block["tool_use_id"].as_str().unwrap_or_default().to_owned(), &block["content"])
        }
        Some("thinking") => AgentEvent::Thought { text: String::new() },
        _ => AgentEvent::Said { text: String::new(), part: Part::Whole, within },
    }
}

fn ended(call: String, result: &Value) -> AgentEvent {
    let text = canonical(result);
    AgentEvent::ToolEnded { call, result: ToolResult { failed: false, exit_code: None, text } }
}

/// What descendants do while nothing is heard.
#[derive(Clone, Copy)]
enum Descendants {
    Idle,
    Busy,
}

/// Follows every wake-up until `now`, as a run loop does, and complains about a stop.
fn wait(dog: &mut Watchdog, now: Duration, descendants: Descendants, name: &str) {
    while let Some(wake) = dog.wake_at().filter(|wake| *wake < now) {
        match dog.step(wake, Input::Tick) {
            Action::Stop(rule) => panic!("{name}: {rule:?} at {wake:?}: {:?}", dog.why(wake)),
            Action::Sample => {
                let cpu = match descendants {
                    Descendants::Idle => Duration::ZERO,
                    Descendants::Busy => secs(100),
                };
                let _ = dog.step(wake, Input::TreeSample { cpu, io: 0 });
            }
            Action::Nothing | Action::Warn(_) => {}
        }
    }
}

fn tell(dog: &mut Watchdog, now: Duration, input: Input, name: &str) {
    let shown = format!("{input:?}");
    if let Action::Stop(rule) = dog.step(now, input) {
        panic!("{name}: {rule:?} at {now:?}, {shown}: {:?}", dog.why(now));
    }
}

/// The longest pause that is still honest where the run is.
fn just_below_the_limit(dog: &Watchdog, limits: &Limits) -> Duration {
    let limit = match dog.state() {
        State::Starting => limits.start,
        State::Working => limits.silence,
        State::Waiting => limits.open_call,
        State::Ending => limits.after_result,
        State::Absent | State::Parked | State::Exited | State::Stopped => Duration::ZERO,
    };
    limit.saturating_sub(Duration::from_millis(1))
}

fn play(name: &str, text: &str, limits: Limits, pause: impl Fn(&Watchdog, &Limits) -> Duration) {
    let mut dog = Watchdog::new(limits);
    let mut now = Duration::ZERO;
    tell(&mut dog, now, Input::Spawned, name);
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        now += pause(&dog, &limits);
        wait(&mut dog, now, Descendants::Idle, name);
        for event in events(&record) {
            tell(&mut dog, now, Input::of(&event), name);
        }
    }
    assert_eq!(dog.why(now).open_tasks, Vec::<String>::new(), "{name}");
    now += Duration::from_millis(500);
    wait(&mut dog, now, Descendants::Idle, name);
    tell(&mut dog, now, Input::Exited, name);
    tell(&mut dog, now, Input::Eof, name);
    assert_eq!((dog.state(), dog.wake_at()), (State::Absent, None), "{name}");
}

#[test]
fn recordings_of_real_agents_are_left_alone() {
    for (name, text) in RECORDINGS {
        play(name, text, Limits::default(), |_, _| Duration::from_millis(200));
        // The ceiling is about all of a run, not about a pause.
        let patient = Limits { ceiling: Duration::MAX, ..Limits::default() };
        play(name, text, patient, just_below_the_limit);
    }
}

/// A script: pauses in seconds, each with what ends it.
fn perform(name: &str, descendants: Descendants, script: Vec<(u64, Input)>) {
    let mut dog = Watchdog::new(Limits::default());
    let mut now = Duration::ZERO;
    tell(&mut dog, now, Input::Spawned, name);
    for (pause, input) in script {
        now += secs(pause);
        wait(&mut dog, now, descendants, name);
        tell(&mut dog, now, input, name);
    }
}

fn times(count: usize, inputs: impl Fn(usize) -> Vec<(u64, Input)>) -> Vec<(u64, Input)> {
    (0..count).flat_map(inputs).collect()
}

#[test]
fn long_days_of_agents_are_left_alone() {
    use Descendants::{Busy, Idle};
    use Input::{
        BridgeCall, Eof, Exited, Parked, Prompted, ResultSeen, TranscriptGrew, Unparked, WorkspaceChanged,
    };
    let event = |kind| Input::Event(kind);
    let sub_agent = || event(EventKind::SubAgent);
    let end = || vec![(1, ResultSeen), (3, Exited), (0, Eof)];
    let script = |middle: Vec<(u64, Input)>| [vec![(1, event(EventKind::Started))], middle, end()].concat();

    perform("the first token takes 100 s, and so does the start", Idle, vec![(100, SAID)]);
    perform("a slow first token", Idle, script(vec![(100, event(EventKind::Thought)), (300, SAID)]));
    perform("thinking only", Idle, script(times(100, |_| vec![(30, event(EventKind::Thought))])));
    let build = vec![(5, opened("a", "make")), (3000, closed("a", "ok"))];
    perform("a build of 50 minutes", Busy, script(build));
    let wait_for_ci = vec![(5, opened("a", "gh run watch")), (1700, closed("a", "ok"))];
    perform("a command that sleeps for 28 minutes", Idle, script(wait_for_ci));
    let written = [vec![(5, opened("a", "train"))], times(30, |_| vec![(100, WorkspaceChanged)])].concat();
    perform("a tool that only writes files", Idle, script(written));
    let working = [vec![(5, opened("a", "task"))], times(60, |_| vec![(50, sub_agent())])].concat();
    perform("a sub-agent at work", Idle, script(working));
    let unseen = [vec![(5, opened("a", "task"))], times(30, |_| vec![(100, TranscriptGrew)])].concat();
    perform("a sub-agent that only its transcript shows", Idle, script(unseen));
    let dead = [vec![(5, SAID), (1, Eof)], times(30, |_| vec![(100, TranscriptGrew)])].concat();
    perform("stdout is dead and the transcript goes on", Idle, script(dead));
    perform("only the bridge hears of it", Idle, script(times(30, |_| vec![(100, BridgeCall)])));
    perform("descendants are busy between two records", Busy, script(vec![(700, SAID)]));
    let background = vec![
        (5, task_opened("t")),
        (1, ResultSeen),
        (1500, task_closed("t")),
        (8, event(EventKind::Started)),
        (200, SAID),
    ];
    perform("a background command outlives the turn, and a turn follows", Idle, script(background));
    let prompted = vec![(5, SAID), (1, ResultSeen), (9, Prompted), (300, SAID)];
    perform("a further prompt", Idle, script(prompted));
    let parked = vec![(5, SAID), (300, Parked), (40_000, Unparked), (350, SAID)];
    perform("parked for eleven hours", Idle, script(parked));
    let polls =
        times(15, |index| vec![(30, opened("a", "status")), (60, closed("a", &(index / 12).to_string()))]);
    perform("polls the same thing a dozen times", Idle, script(polls));
    let edits = times(50, |index| {
        let id = index.to_string();
        vec![(1, opened(&id, "cargo test")), (1, closed(&id, &format!("{index} errors left")))]
    });
    perform("tests again and again, and gets on", Idle, script(edits));
}
