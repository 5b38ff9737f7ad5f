use ostler_agent::agent::{Engine, Permissions};
use ostler_agent::event::Part;
use ostler_agent::leasing::Place;

use super::*;

fn terms(key: &str) -> Terms {
    Terms {
        kind: ostler_agent::access::KeyKind::Owner,
        memory: ostler_agent::access::KeyMemory::Off,
        tenant: key.to_owned(),
        agent: "claude-headless".to_owned(),
        engine: Engine::Stream,
        model: None,
        workspace: Place::Own,
        system_prompt: None,
        permissions: Permissions::Deny,
        asks_client: false,
        allow: Vec::new(),
        tools: String::new(),
    }
}

fn usage(input: u64, cached: u64, output: u64, cost: f64) -> Usage {
    Usage {
        input_tokens: Some(input),
        output_tokens: Some(output),
        cached_tokens: Some(cached),
        cost_usd: Some(cost),
    }
}

/// The samples of these names, as they are written.
fn samples(metrics: &Metrics, names: &[&str]) -> Vec<String> {
    let text = metrics.text(Vec::new()).unwrap();
    let is_one = |line: &&str| names.iter().any(|name| line.starts_with(&format!("{name}{{")));
    text.lines().filter(is_one).map(str::to_owned).collect()
}

fn measure(events: &[AgentEvent]) -> Vec<String> {
    let metrics = Arc::new(Metrics::new(["claude"]).unwrap());
    let terms = terms("one");
    let mut meter = TurnMeter::begin(Some(&metrics), &terms);
    meter.leased(StartKind::Warm);
    events.iter().for_each(|event| meter.on_event(event));
    meter.count();
    drop(meter);
    samples(&metrics, &["ostler_turns_total", "ostler_tokens_total", "ostler_cost_usd_total"])
}

fn ended(outcome: TurnOutcome) -> AgentEvent {
    AgentEvent::TurnEnded(outcome)
}

#[test]
fn usage_is_counted_once_and_by_kind() {
    let done = || ended(TurnOutcome::Done { text: String::new() });
    let (first, second) = (usage(10, 4, 1, 0.5), usage(30, 4, 2, 1.5));
    let turn = |outcome: &str| {
        format!("ostler_turns_total{{agent=\"claude\",key=\"one\",outcome=\"{outcome}\",start=\"warm\"}} 1")
    };
    let spent = |input: u64, cached: u64, output: u64, cost: f64| {
        let tokens = |kind: &str, count: u64| {
            format!("ostler_tokens_total{{agent=\"claude\",key=\"one\",kind=\"{kind}\"}} {count}")
        };
        vec![
            format!("ostler_cost_usd_total{{agent=\"claude\",key=\"one\"}} {cost}"),
            tokens("cached_input", cached),
            tokens("input", input),
            tokens("output", output),
        ]
    };
    let table = [
        ("a total", vec![AgentEvent::Spent(second), done()], spent(26, 4, 2, 1.5), "done"),
        (
            "a total takes the place of what ran up",
            vec![
                AgentEvent::SpentSoFar(first),
                AgentEvent::SpentSoFar(second),
                AgentEvent::Spent(second),
                done(),
            ],
            spent(26, 4, 2, 1.5),
            "done",
        ),
        (
            "what ran up in a turn without a total",
            vec![AgentEvent::SpentSoFar(first), ended(TurnOutcome::Interrupted)],
            spent(6, 4, 1, 0.5),
            "interrupted",
        ),
        (
            "calls of the client: the total follows",
            vec![AgentEvent::SpentSoFar(first), ended(TurnOutcome::Called)],
            Vec::new(),
            "tool_calls",
        ),
        (
            "a cost that falls is not counted",
            vec![AgentEvent::Spent(Usage { cost_usd: Some(-1.0), ..Usage::default() }), done()],
            Vec::new(),
            "done",
        ),
    ];
    for (name, events, mut want, outcome) in table {
        want.push(turn(outcome));
        assert_eq!(measure(&events), want, "{name}");
    }
}

#[test]
fn a_turn_that_is_dropped_was_interrupted_and_one_without_a_session_has_no_start() {
    let metrics = Arc::new(Metrics::new(["claude"]).unwrap());
    let terms = terms("one");
    drop(TurnMeter::begin(Some(&metrics), &terms));
    let mut refused = TurnMeter::begin(Some(&metrics), &terms);
    refused.on_error(&TurnError::Refused(ostler_agent::leasing::Refused::Full, None));
    drop(refused);
    let turn = |outcome: &str| {
        format!("ostler_turns_total{{agent=\"claude\",key=\"one\",outcome=\"{outcome}\",start=\"none\"}} 1")
    };
    assert_eq!(samples(&metrics, &["ostler_turns_total"]), [turn("interrupted"), turn("refused")]);
    assert_eq!(samples(&metrics, &["ostler_turn_seconds_count"]), Vec::<String>::new());
}

#[test]
fn the_first_token_is_the_first_text_of_the_answer_itself() {
    let said = |text: &str, within: Option<&str>| AgentEvent::Said {
        text: text.to_owned(),
        part: Part::Delta,
        within: within.map(str::to_owned),
    };
    for (events, want) in
        [(vec![said("", None), said("sub", Some("call"))], 0), (vec![said("a", None), said("b", None)], 1)]
    {
        let metrics = Arc::new(Metrics::new(["claude"]).unwrap());
        let terms = terms("one");
        let mut meter = TurnMeter::begin(Some(&metrics), &terms);
        meter.leased(StartKind::Cold);
        events.iter().for_each(|event| meter.on_event(event));
        drop(meter);
        let count = samples(&metrics, &["ostler_first_token_seconds_count"]);
        assert_eq!(count.len(), want, "{events:?}: {count:?}");
    }
}

#[test]
fn keys_beyond_a_number_share_one_label() {
    let metrics = Metrics::new([]).unwrap();
    for number in 0..LABELLED_KEYS + 10 {
        metrics.refused(Some(&format!("key-{number}")), "rate_limit");
    }
    metrics.refused(Some("key-0"), "rate_limit");
    metrics.refused(None, "invalid_api_key");
    let found = samples(&metrics, &["ostler_refusals_total"]);
    assert_eq!(found.len(), LABELLED_KEYS + 2);
    for line in [
        "ostler_refusals_total{key=\"key-0\",reason=\"rate_limit\"} 2",
        "ostler_refusals_total{key=\"other\",reason=\"rate_limit\"} 10",
        "ostler_refusals_total{key=\"none\",reason=\"invalid_api_key\"} 1",
    ] {
        assert!(found.iter().any(|sample| sample == line), "{line}: {found:#?}");
    }
}

#[test]
fn responses_are_sorted_into_buckets() {
    let metrics = Metrics::new([]).unwrap();
    for took in [0.0005, 0.3, 700.0] {
        metrics.answered("GET", "/v1/models", "200", Duration::from_secs_f64(took));
    }
    let text = metrics.text(Vec::new()).unwrap();
    let labels = "method=\"GET\",route=\"/v1/models\",status=\"200\"";
    for (end, count) in [("0.001", 1), ("0.5", 2), ("1", 2), ("600", 2), ("+Inf", 3)] {
        let line = format!("ostler_http_request_seconds_bucket{{{labels},le=\"{end}\"}} {count}\n");
        assert!(text.contains(&line), "{line}{text}");
    }
}
