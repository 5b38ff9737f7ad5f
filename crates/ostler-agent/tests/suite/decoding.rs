//! What agents' records mean, proven on recordings of real ones.

use std::collections::BTreeSet;

use ostler_agent::agent::{Agent, Clock, Exit, Source};
use ostler_agent::agents::{AGENTS, Claude, Codex, Command, OpenCode};
use ostler_agent::event::{AgentEvent, Blocked, CutShort, Failure, FailureClass, TurnOutcome, Usage};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::recordings::{self, FOLDERS, Recording, events};
use crate::shown::line;

/// Records of the recordings that mean nothing to us: ways of answering that Ostler does not ask for.
const UNKNOWN: [&str; 1] = ["control_request/hook_callback"];

#[test]
fn every_recording_is_read() {
    for (folder, agent, source) in FOLDERS {
        let mut text = String::new();
        for recording in recordings::of(folder, source) {
            text.push_str(&format!("== {} ({:?})\n", recording.name, recording.exit));
            for event in events(agent, &recording, &[]) {
                text.push_str(&format!("{}\n", line(&event)));
            }
        }
        insta::assert_snapshot!(folder.replace('/', "-"), text);
    }
}

#[test]
fn every_agent_has_recordings() {
    for agent in AGENTS {
        let slot = agent.package().slot;
        let folders = FOLDERS.iter().filter(|(folder, ..)| folder.split('/').next() == Some(slot));
        assert!(folders.clone().count() > 0, "{slot}");
        for (folder, _, source) in folders {
            assert!(!recordings::of(folder, *source).is_empty(), "{folder}");
        }
    }
}

#[test]
fn no_recorded_kind_is_unknown_but_these() {
    let mut found = BTreeSet::new();
    for (folder, agent, source) in FOLDERS {
        for recording in recordings::of(folder, source) {
            for event in events(agent, &recording, &[]) {
                if let AgentEvent::Unknown { kind } = event {
                    found.insert(kind);
                }
            }
        }
    }
    assert_eq!(found.into_iter().collect::<Vec<_>>(), UNKNOWN);
}

#[test]
fn a_refusal_and_an_answer_that_is_too_long_are_told_as_such() {
    let table = [("h-refusal", CutShort::Refusal), ("h-max-tokens", CutShort::MaxTokens)];
    for (name, want) in table {
        let mut all = recordings::of("claude/stdout", Source::Stdout).into_iter();
        let recording = all.find(|one| one.name == name).unwrap();
        let cut_short = events(&Claude, &recording, &[]).into_iter().find_map(|event| match event {
            AgentEvent::TurnEnded(TurnOutcome::Failed(failure)) => failure.cut_short,
            _ => None,
        });
        assert_eq!(cut_short, Some(want), "{name}");
    }
}

#[test]
fn an_unknown_record_says_what_it_is() {
    let table = [
        (
            &Claude as &dyn ostler_agent::agent::Agent,
            json!({"type": "system", "subtype": "foo"}),
            "system/foo",
        ),
        (&Claude, json!({"type": "novelty"}), "novelty"),
        (&Claude, json!({}), "untyped"),
        (&Claude, json!({"type": "stream_event", "event": {"type": "pong"}}), "stream_event/pong"),
        (&Codex, json!({"type": "item.started", "item": {"type": "dance"}}), "item.started/dance"),
        (&Codex, json!({"type": "turn.paused"}), "turn.paused"),
        (&OpenCode, json!({"type": "patch"}), "patch"),
    ];
    for (agent, record, want) in table {
        let events = agent.decoder(None).events(Source::Stdout, &record);
        assert_eq!(events, [AgentEvent::Unknown { kind: want.to_owned() }], "{record}");
    }
}

/// Standard output may die while the session goes on. Then the transcript is read from its beginning, and what was
/// heard before is not said twice.
#[test]
fn the_transcript_goes_on_where_stdout_broke_off() {
    let named = |folder, source| {
        recordings::of(folder, source)
            .into_iter()
            .find(|recording: &Recording| recording.name == "launched")
            .unwrap()
    };
    let stdout = named("claude/stdout", Source::Stdout);
    let transcript = named("claude/transcript", Source::Transcript);
    let values = |recording: &Recording| -> Vec<Value> {
        let text = String::from_utf8(recording.bytes.clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let stdout = values(&stdout);
    let whole: Vec<String> = told(stdout.len(), &stdout, &[]);
    for cut in 4..stdout.len() {
        let both = told(cut, &stdout, &values(&transcript));
        assert_eq!(both, whole, "stdout broke off after {cut} records");
        // Then it comes back, with all that it had kept to itself.
        let back = values(&transcript).into_iter().map(|record| (Source::Transcript, record));
        let back: Vec<_> =
            back.chain(stdout[cut..].iter().map(|record| (Source::Stdout, record.clone()))).collect();
        assert_eq!(told_then(cut, &stdout, &back), whole, "it came back after {cut} records");
    }
}

/// What was said and called and how it ended, of that many records and of a transcript.
fn told(count: usize, stdout: &[Value], transcript: &[Value]) -> Vec<String> {
    let then: Vec<_> = transcript.iter().map(|record| (Source::Transcript, record.clone())).collect();
    told_then(count, stdout, &then)
}

/// The same, of that many records and of whatever came then.
fn told_then(count: usize, stdout: &[Value], then: &[(Source, Value)]) -> Vec<String> {
    let mut decoder = Claude.decoder(None);
    let heard = stdout[..count].iter().map(|record| (Source::Stdout, record));
    let records = heard.chain(then.iter().map(|(source, record)| (*source, record)));
    let events: Vec<AgentEvent> =
        records.flat_map(|(source, record)| decoder.events(source, record)).collect();
    let is_told = |event: &&AgentEvent| match event {
        AgentEvent::Said { part, .. } => *part == ostler_agent::event::Part::Whole,
        AgentEvent::ToolStarted { .. } | AgentEvent::ToolEnded { .. } | AgentEvent::TurnEnded(_) => true,
        _ => false,
    };
    events.iter().filter(is_told).map(line).collect()
}

#[test]
fn codex_tells_sums_and_a_resumed_thread_is_charged_what_it_added() {
    let before = Usage {
        input_tokens: Some(1_200),
        output_tokens: Some(50),
        cached_tokens: Some(1_000),
        cost_usd: None,
    };
    let mut decoder = Codex.decoder(Some(before));
    let completed = |input: u64| json!({"type": "turn.completed", "usage": {"input_tokens": input, "cached_input_tokens": 1_000, "output_tokens": 60}});
    let spent = |events: Vec<AgentEvent>| match events.first() {
        Some(AgentEvent::Spent(usage)) => (usage.input_tokens, usage.output_tokens),
        other => panic!("{other:?}"),
    };
    assert_eq!(spent(decoder.events(Source::Stdout, &completed(4_800))), (Some(3_600), Some(10)));
    assert_eq!(spent(decoder.events(Source::Stdout, &completed(5_000))), (Some(200), Some(0)));
    // The transcript tells the same sums, so that a change of the source counts nothing twice.
    let record = json!({"type": "token_usage_record", "payload": {"thread_token_usage": {"input_tokens": 5_000, "output_tokens": 60}}});
    assert_eq!(decoder.events(Source::Transcript, &record), []);
}

#[test]
fn codex_tells_its_reset_time_by_the_clock_of_the_machine() {
    let record = json!({"type": "turn.failed", "error": {"message": "You’ve hit your usage limit. Try again at Nov 18th, 2026 11:06 AM."}});
    let mut decoder = Codex.decoder(None);
    decoder.clock(Clock { now: None, east: -5 * 3_600 });
    let events = decoder.events(Source::Stdout, &record);
    let Some(AgentEvent::TurnEnded(TurnOutcome::Failed(failure))) = events.last() else {
        panic!("{events:?}")
    };
    assert_eq!(failure.resets_at, Some(1_795_000_019 + 5 * 3_600));
}

#[test]
fn claude_tells_the_reset_time_of_a_quota_beforehand() {
    let mut decoder = Claude.decoder(None);
    let limit = json!({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1_800_000_000}});
    assert_eq!(decoder.events(Source::Stdout, &limit), []);
    let result = json!({"type": "result", "subtype": "success", "is_error": true, "api_error_status": 429,
        "result": "You've hit your limit · resets 3pm (UTC)"});
    let events = decoder.events(Source::Stdout, &result);
    let [AgentEvent::TurnEnded(TurnOutcome::Failed(failure))] = &events[..] else { panic!("{events:?}") };
    assert_eq!(failure.resets_at, Some(1_800_000_000));
}

/// 2026-11-17 22:00:00 UTC.
const NOW: i64 = 1_794_952_800;

/// The failure that a record means, for a decoder that is asked then.
fn failure(agent: &dyn Agent, source: Source, record: &Value) -> Failure {
    let mut decoder = agent.decoder(None);
    decoder.clock(Clock { now: Some(NOW), east: 0 });
    let events = [decoder.events(source, record), decoder.quiet()].concat();
    match events.last() {
        Some(AgentEvent::TurnEnded(TurnOutcome::Failed(failure))) => failure.clone(),
        other => panic!("{other:?}"),
    }
}

/// Records as OpenCode 1.18.33 and Claude Code 2.1.197 and 2.1.325 wrote them for a 429.
#[test]
fn a_rate_limit_is_a_quota_with_its_reset_time() {
    let opencode = |headers: Value| {
        json!({"type": "error", "timestamp": 1_794_953_091_103_i64, "sessionID": "ses_e1", "error": {"name": "APIError",
            "data": {"message": "Rate limit reached for requests", "statusCode": 429, "isRetryable": true,
            "responseHeaders": headers, "responseBody": "{\"error\":{\"message\":\"Rate limit reached for requests\",\"type\":\"requests\",\"code\":\"rate_limit_exceeded\"}}"}}})
    };
    let claude = |words: &str, limits: Value| {
        json!({"type": "assistant", "uuid": "u", "entrypoint": "sdk-cli", "sessionId": "s", "isSidechain": false,
            "message": {"model": "<synthetic>", "stop_reason": "stop_sequence", "content": [{"type": "text", "text": words}]},
            "error": "rate_limit", "isApiErrorMessage": true, "apiErrorStatus": 429, "quotaLimits": limits})
    };
    let session = "You've hit your session limit · resets 12:10am (UTC)";
    let (stdout, transcript) = (Source::Stdout, Source::Transcript);
    let table: [(&dyn Agent, Source, Value, Option<i64>); 8] = [
        (&OpenCode, stdout, opencode(json!({"retry-after": "600"})), Some(NOW + 600)),
        (&OpenCode, stdout, opencode(json!({"x-ratelimit-reset-requests": "10m0s"})), Some(NOW + 600)),
        (&OpenCode, stdout, opencode(json!({"content-length": "102"})), None),
        (&Claude, transcript, claude(session, Value::Null), Some(NOW + 7_859)),
        (&Claude, transcript, claude(session, json!({"resetsAt": NOW + 7_834})), Some(NOW + 7_834)),
        (
            &Claude,
            transcript,
            claude(
                "API Error: Request rejected (429) · This request would exceed your rate limit.",
                Value::Null,
            ),
            None,
        ),
        (
            &Claude,
            stdout,
            json!({"type": "result", "subtype": "success", "is_error": true, "api_error_status": 429,
                "result": "API Error: Request rejected (429) · Rate limit reached. Please try again in 20s."}),
            Some(NOW + 20),
        ),
        (
            &Codex,
            stdout,
            json!({"type": "turn.failed", "error": {"message": "exceeded retry limit, last status: 429 Too Many Requests"}}),
            None,
        ),
    ];
    for (agent, source, record, resets_at) in table {
        let failure = failure(agent, source, &record);
        assert_eq!((failure.class, failure.resets_at), (FailureClass::Quota, resets_at), "{record}");
    }
}

/// OpenCode tells of failed requests in its log alone, and of its session only there until the model answers.
#[test]
fn opencode_tells_its_session_and_its_retries_on_its_standard_error() {
    let turn = "timestamp=2026-11-17T22:03:38.993Z level=INFO run=e1 message=loop session.id=ses_e1 step=0";
    let error = |text: &str| {
        format!(
            "timestamp=2026-11-17T22:03:40.708Z level=ERROR run=e1 message=\"stream error\" providerID=mock \
             modelID=m session.id=ses_e1 small=false agent=build mode=primary error.error=\"AI_APICallError: {text}\""
        )
    };
    let retrying = |attempt, class, reason: &str| {
        let reason = reason.to_owned();
        AgentEvent::Blocked(Blocked::Retrying { attempt, limit: None, delay: None, reason, class })
    };
    let started = AgentEvent::Started { session: "ses_e1".to_owned(), model: None };
    let mut decoder = OpenCode.decoder(None);
    let table = [
        (turn.to_owned(), vec![started]),
        (turn.replace("ses_e1", "ses_sub"), Vec::new()),
        (error("Rate limit reached"), vec![retrying(1, FailureClass::Quota, "Rate limit reached")]),
        (error("Internal Server Error"), vec![retrying(2, FailureClass::Provider, "Internal Server Error")]),
        (error("Overloaded"), vec![retrying(3, FailureClass::Overloaded, "Overloaded")]),
        // Not tried again: an error record follows.
        (error("Incorrect API key provided"), Vec::new()),
        ("Error: something else".to_owned(), Vec::new()),
    ];
    for (line, want) in table {
        assert_eq!(decoder.stderr_line(&line), want, "{line}");
    }
    let begun = json!({"type": "step_start", "sessionID": "ses_e1", "part": {}});
    assert_eq!(decoder.events(Source::Stdout, &begun), []);
    let again = decoder.stderr_line(&error("Overloaded"));
    assert_eq!(again, [retrying(1, FailureClass::Overloaded, "Overloaded")], "a row is over once it answers");
    assert_eq!(OpenCode.decoder(None).stderr_line(&error("Overloaded")).len(), 2, "without the first line");
}

/// Killed by the kernel: what was printed before is not why.
#[test]
fn a_signal_is_a_crash_whatever_was_printed_before() {
    for agent in AGENTS {
        let events = agent.decoder(None).exited(Exit::Signal(9), "Error: rate limit, try again in 20s");
        let Some(AgentEvent::TurnEnded(TurnOutcome::Failed(failure))) = events.last() else {
            panic!("{events:?}")
        };
        assert_eq!((failure.class, failure.resets_at), (FailureClass::Crashed, None), "{}", agent.name());
        assert!(failure.detail.starts_with("was ended by signal 9 "), "{}", failure.detail);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_chunking_of_a_recording_gives_the_same_events(
        folder in 0..FOLDERS.len(),
        which in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(1usize..2_000, 1..20),
    ) {
        let (folder, agent, source) = FOLDERS[folder];
        let all = recordings::of(folder, source);
        let recording = which.get(&all);
        prop_assert_eq!(events(agent, recording, &cuts), events(agent, recording, &[]));
    }
}

/// Words that decoders look for, so that arbitrary records come where they look.
const WORDS: [&str; 40] = [
    "type",
    "subtype",
    "message",
    "content",
    "item",
    "part",
    "state",
    "payload",
    "system",
    "assistant",
    "user",
    "result",
    "stream_event",
    "event",
    "delta",
    "text",
    "tool_use",
    "tool_result",
    "is_error",
    "error",
    "usage",
    "modelUsage",
    "input_tokens",
    "turn.completed",
    "turn.failed",
    "item.completed",
    "item.started",
    "step_finish",
    "tokens",
    "cache",
    "event_msg",
    "response_item",
    "item_completed",
    "init",
    "api_retry",
    "retry_delay_ms",
    "id",
    "permission_denials",
    "uuid",
    "sessionID",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![4 => prop::sample::select(&WORDS[..]).prop_map(str::to_owned), 1 => ".{0,12}"]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Puts `new` at some place of a record.
fn changed(record: &mut Value, steps: &[prop::sample::Index], new: Value) {
    let Some((step, steps)) = steps.split_first() else {
        *record = new;
        return;
    };
    match record {
        Value::Array(items) if !items.is_empty() => {
            let at = step.index(items.len());
            changed(&mut items[at], steps, new);
        }
        Value::Object(fields) if !fields.is_empty() => {
            let at = step.index(fields.len());
            if let Some((_, value)) = fields.iter_mut().nth(at) {
                changed(value, steps, new);
            }
        }
        _ => *record = new,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_json_makes_a_decoder_panic(records in prop::collection::vec(json(), 1..6)) {
        let command = Command::parse("x").unwrap();
        let agents = AGENTS.iter().copied().chain([&command as &dyn ostler_agent::agent::Agent]);
        for agent in agents {
            let mut decoder = agent.decoder(None);
            for record in &records {
                decoder.events(Source::Stdout, record);
                decoder.events(Source::Transcript, record);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_change_of_a_recording_makes_a_decoder_panic(
        folder in 0..FOLDERS.len(),
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::collection::vec(any::<prop::sample::Index>(), 1..5), json()),
            1..12,
        ),
    ) {
        let (folder, agent, source) = FOLDERS[folder];
        let all = recordings::of(folder, source);
        let text = String::from_utf8(which.get(&all).bytes.clone()).unwrap();
        let mut records: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        prop_assume!(!records.is_empty());
        for (at, steps, new) in changes {
            let at = at.index(records.len());
            changed(&mut records[at], &steps, new);
        }
        let mut decoder = agent.decoder(None);
        for record in &records {
            decoder.events(source, record);
        }
    }
}

/// What is asked of a person is told apart from what is asked of policy.
#[test]
fn claude_code_asks_persons_and_policy() {
    let asked = |request: Value| {
        let record = json!({"type": "control_request", "request_id": "q", "request": request});
        Claude.decoder(None).events(Source::Stdout, &record)
    };
    let input = json!({"questions": [{"question": "Which?"}, {"question": "How many?"}]});
    let table = [
        (
            json!({"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": input}),
            Blocked::Question { request: "q".to_owned(), text: "Which? How many?".to_owned() },
        ),
        (
            json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}}),
            Blocked::Permission {
                request: "q".to_owned(),
                tool: "Bash".to_owned(),
                input: json!({"command": "ls"}),
            },
        ),
        (
            json!({"subtype": "elicitation", "mcp_server_name": "vault", "message": "The code?"}),
            Blocked::Dialog { text: "the MCP server `vault` asks: The code?".to_owned() },
        ),
        (
            json!({"subtype": "request_user_dialog", "dialog_kind": "upsell"}),
            Blocked::Dialog { text: "a dialog: upsell".to_owned() },
        ),
    ];
    for (request, want) in table {
        assert_eq!(asked(request), [AgentEvent::Blocked(want)]);
    }
}

/// Of a transcript that was the source for days only the last records are remembered; the rest was told all the same.
#[test]
fn what_a_long_transcript_told_is_not_told_again_by_an_output_that_comes_back() {
    let said = |number: usize| {
        let content = json!([{"type": "text", "text": format!("word {number}")}]);
        json!({"type": "assistant", "uuid": format!("id-{number}"), "message": {"content": content}})
    };
    let mut decoder = Claude.decoder(None);
    let most = 50_000;
    for number in 0..most {
        assert!(!decoder.events(Source::Transcript, &said(number)).is_empty());
    }
    for number in [0, 1, 20_000, most - 2, most - 1] {
        assert_eq!(decoder.events(Source::Stdout, &said(number)), [], "{number}");
    }
    assert_eq!(decoder.events(Source::Stdout, &said(most)).len(), 1);
}
