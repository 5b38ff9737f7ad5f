use ostler_agent::document::Format;
use serde_json::json;

use super::*;
use crate::ask::Wire;
use crate::script::parse;
use crate::wire::{self, Headers};

fn director(script: &str) -> Director {
    let play = parse("play", &format!("v = 1\n{script}"), Format::Toml).unwrap();
    Director::new(play, "run-1".to_owned(), None)
}

/// A request of the Chat format: a prompt, then one round of calls and results for each result given.
fn ask(prompt: &str, tools: &[&str], results: &[&str]) -> Ask {
    let mut messages = vec![
        json!({"role": "system", "content": "env\n  Working directory: /ws\n"}),
        json!({"role": "user", "content": prompt}),
    ];
    for result in results {
        messages.push(json!({"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}));
        messages.push(json!({"role": "tool", "content": result}));
    }
    let tools: Vec<_> =
        tools.iter().map(|name| json!({"type": "function", "function": {"name": name}})).collect();
    wire::read(Wire::Chat, &Headers::new(), &json!({"model": "m", "messages": messages, "tools": tools}))
        .unwrap()
}

const TWO: &str = r#"
[[conversation]]
name = "greeting"
[[conversation.step]]
expect = { contains = "hello" }
reply = [{ text = "hi" }]

[[conversation]]
name = "work"
[[conversation.step]]
expect = { matches = "^do .+" }
repeat = 2
reply = [{ tool_by_role = "shell", command = "echo {{round}}" }]
[[conversation.step]]
when = { offered = "mcp:declare_complete" }
reply = [{ tool_by_role = "mcp:declare_complete", arguments = { summary = "did {{prompt}}" } }]
[[conversation.step]]
expect = { result_contains = "fine" }
reply = [{ text = "done in {{workspace}} for {{run}}: {{tool_result}}" }]
"#;

#[test]
fn the_place_is_found_from_the_conversation_itself() {
    let director = director(TWO);
    let bash: &[&str] = &["bash"];
    let bridged: &[&str] = &["bash", "ostler_declare_complete"];
    let table: [(_, _, &[&str], _); 6] = [
        ("say hello", bash, &[], (0, 0)),
        ("do it", bash, &[], (1, 0)),
        ("do it", bash, &["0"], (1, 0)),
        ("do it", bash, &["0", "fine"], (1, 2)),
        ("do it", bridged, &["0", "1"], (1, 1)),
        ("do it", bridged, &["0", "1", "fine"], (1, 2)),
    ];
    for (prompt, tools, results, want) in table {
        let cue = director.cue(&ask(prompt, tools, results)).unwrap();
        assert_eq!((cue.conversation, cue.step), want, "{prompt} {results:?}");
    }
}

#[test]
fn what_no_step_matches_is_explained() {
    let director = director(TWO);
    let table: &[(&str, &[&str], &str)] = &[
        (
            "sing",
            &[],
            "script `play`: no conversation expects this prompt. Expected: a prompt with `hello` (greeting); or a prompt \
             that matches `^do .+` (work). Came: prompt `sing`, 0 rounds since",
        ),
        (
            "do it",
            &["0", "bad"],
            "script `play`, work, step 3: expected a tool result with `fine`. Came: prompt `do it`, 2 rounds since, last \
             tool result `bad`",
        ),
        (
            "do it",
            &["0", "1", "2"],
            "script `play`, work: it has 3 rounds and all were played, but the agent came back for round 4. Came: prompt \
             `do it`, 3 rounds since, last tool result `2`",
        ),
    ];
    for (prompt, results, want) in table {
        assert_eq!(director.cue(&ask(prompt, &["bash"], results)).unwrap_err(), *want);
    }
}

#[test]
fn templates_and_roles_become_what_the_agent_understands() {
    let director = director(TWO);
    let play = |ask: &Ask| director.answer(director.cue(ask).unwrap(), ask).unwrap();
    let first = play(&ask("do it", &["bash"], &["0"]));
    let Beat::Call(call) = &first.beats[0] else { panic!("{first:?}") };
    assert_eq!(
        call.input,
        CallInput::Arguments(json!({"command": "echo 1", "description": "Run a command"}))
    );
    assert_eq!(first.stop, StopReason::ToolUse);

    let bridged = play(&ask("do it", &["bash", "ostler_declare_complete"], &["0", "1"]));
    let Beat::Call(call) = &bridged.beats[0] else { panic!("{bridged:?}") };
    assert_eq!(
        (call.name.as_str(), &call.input),
        ("ostler_declare_complete", &CallInput::Arguments(json!({"summary": "did do it"})))
    );

    let last = play(&ask("do it", &["bash"], &["0", "fine"]));
    let Beat::Text(speech) = &last.beats[0] else { panic!("{last:?}") };
    assert_eq!(speech.text, "done in /ws for run-1: fine");
    assert_eq!(last.stop, StopReason::EndTurn);

    let ask = ask("do it", &["nothing"], &[]);
    let error = director.answer(director.cue(&ask).unwrap(), &ask).unwrap_err();
    assert!(
        error.contains(
            "the role `shell` needs Bash or bash or exec_command, but the tools on offer are: nothing"
        ),
        "{error}"
    );
}

#[test]
fn faults_happen_as_often_as_they_should_for_each_session() {
    let director = director(
        r#"
[[conversation]]
[[conversation.step]]
reply = [
    { http = 429, times = 2 },
    { stall = "before_headers", for = "1ms", times = 1 },
    { text = "a" },
    { cut = "mid_text", times = 1 },
    { text = "b" },
]
"#,
    );
    let mut one = ask("x", &[], &[]);
    let mut other = one.clone();
    one.session = Some("one".to_owned());
    other.session = Some("other".to_owned());
    let kind = |ask: &Ask| {
        let answer = director.answer(director.cue(ask).unwrap(), ask).unwrap();
        let opening = match answer.opening {
            Opening::Answer => "answer",
            Opening::Error(_) => "error",
            Opening::Cut => "cut",
        };
        (opening, answer.delays.len(), answer.beats.len(), answer.beats.last() == Some(&Beat::Cut))
    };
    let error = ("error", 0, 0, false);
    assert_eq!([kind(&one), kind(&other), kind(&one), kind(&other)], [error; 4]);
    assert_eq!([kind(&one), kind(&one)], [("answer", 1, 2, true), ("answer", 0, 2, false)]);
    assert_eq!([kind(&other), kind(&other)], [("answer", 1, 2, true), ("answer", 0, 2, false)]);
}

#[test]
fn a_sub_agent_gets_only_what_is_meant_for_it() {
    let director = director(
        r#"
[[conversation]]
[[conversation.step]]
expect = { contains = "little" }
reply = [{ text = "for the little one" }]
[[conversation]]
[[conversation.step]]
reply = [{ text = "for anybody" }]
"#,
    );
    let mut little = ask("little one", &[], &[]);
    let mut other = ask("other one", &[], &[]);
    (little.side, other.side) = (Some(Side::SubAgent), Some(Side::SubAgent));
    assert_eq!(director.cue(&little).unwrap().conversation, 0);
    assert!(director.cue(&other).is_err());
}

#[test]
fn the_oldest_faults_are_forgotten_not_all() {
    let mut faults = Faults::default();
    let key = |number: usize| number as u64;
    for number in 0..=REMEMBERED {
        assert!(faults.happen(key(number), 1));
    }
    assert_eq!(faults.counts.len(), REMEMBERED);
    assert!(!faults.happen(key(REMEMBERED), 1), "the newest is remembered");
    assert!(faults.happen(key(0), 1), "the oldest was forgotten");
}

#[test]
fn a_conversation_goes_on_where_it_stood() {
    let director = director(
        r#"
        [[conversation]]
        name = "other"
        [[conversation.step]]
        expect = { contains = "hello" }
        reply = [{ text = "hi" }]
        [[conversation]]
        name = "work"
        goes_on = "Go on"
        [[conversation.step]]
        expect = { contains = "do it" }
        repeat = 2
        reply = [{ tool_by_role = "shell", command = "echo {{round}}" }]
        [[conversation.step]]
        reply = [{ text = "done" }]
        "#,
    );
    // Prompts, each with the rounds of calls that it led to.
    let asked = |turns: &[(&str, usize)]| {
        let mut messages = Vec::new();
        for (prompt, rounds) in turns {
            messages.push(json!({"role": "user", "content": prompt}));
            for _ in 0..*rounds {
                messages.push(json!({"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}));
                messages.push(json!({"role": "tool", "content": "fine"}));
            }
        }
        wire::read(Wire::Chat, &Headers::new(), &json!({"model": "m", "messages": messages})).unwrap()
    };
    let place = |turns: &[(&str, usize)]| {
        director.cue(&asked(turns)).map(|cue| (cue.conversation, cue.step, cue.round)).ok()
    };
    assert_eq!(place(&[("do it", 1)]), Some((1, 0, 1)));
    assert_eq!(place(&[("do it", 1), ("Go on, please", 0)]), Some((1, 0, 1)));
    assert_eq!(place(&[("do it", 1), ("Go on", 0), ("Go on", 1)]), Some((1, 1, 2)));
    assert_eq!(place(&[("hello", 0), ("Go on", 0)]), None, "that was another conversation");
    assert_eq!(
        place(&[("do it", 2), ("hello", 0)]),
        Some((0, 0, 0)),
        "whoever asks for something else gets it"
    );
}
