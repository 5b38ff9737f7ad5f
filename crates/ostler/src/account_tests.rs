use ostler_agent::run_event::Diff;
use serde_json::json;

use super::*;

fn told(outcome: &Value, changes: Option<&Changes>, is_rehearsed: bool) -> String {
    let mut rows = Rows::new("  ", 80);
    facts(&mut rows, outcome, changes, is_rehearsed);
    anstream::adapter::strip_str(&format!("{}{}", headline(outcome), rows.into_text())).to_string()
}

fn listed(names: &[&str], count: u64) -> Listed {
    Listed { count, first: names.iter().map(|name| (*name).to_owned()).collect() }
}

#[test]
fn a_run_that_went_well() {
    let outcome = json!({
        "outcome": "completed", "exit_code": 0, "ms": 72_400, "turns": 2, "resumes": 1, "survivors": 0,
        "usage": {"input_tokens": 66_181, "output_tokens": 1_068, "cached_tokens": 50_000, "cost_usd": 0.33264},
        "evidence": [{"fact": "the agent ended its turn as done", "grade": "reported"}], "missing": [],
    });
    let changes = Changes {
        created: listed(&["todo.html", "todo.js"], 2),
        changed: listed(&["a/rather/long/folder/with/a/file.rs", "another/long/folder/file.rs", "z.rs"], 140),
        removed: listed(&["old\u{1b}[31m\nname.txt"], 1),
        partial: true,
        diff: Some(Diff { files: 143, insertions: 4_210, deletions: 17, before: None }),
    };
    let told = told(&outcome, Some(&changes), false);
    assert!(told.lines().all(|line| width(line) <= 80), "{told}");
    insta::assert_snapshot!(told);
}

#[test]
fn a_rehearsal_that_changed_nothing() {
    let outcome = json!({
        "outcome": "completed", "exit_code": 0, "ms": 1_310, "turns": 1, "resumes": 0,
        "usage": {"input_tokens": 41_320, "output_tokens": 135, "cost_usd": 0.33},
        "evidence": [{"fact": "the agent ended its turn as done", "grade": "reported"}],
    });
    let told = told(&outcome, Some(&Changes::default()), true);
    assert!(told.lines().all(|line| width(line) <= 80), "{told}");
    insta::assert_snapshot!(told);
}

#[test]
fn what_is_not_known_is_not_told() {
    let outcome = json!({
        "outcome": "stalled", "exit_code": 12, "ms": 400_000, "usage": null, "survivors": 1, "turns": 0,
        "detail": "it was stuck: nothing was heard for 6 min (rule `silence`)",
    });
    assert_eq!(
        told(&outcome, None, true),
        "✗ stalled: it was stuck: nothing was heard for 6 min (rule `silence`) (6m40s)\n  \
         left     1 process could not be ended\n"
    );
    let outcome = json!({"outcome": "incomplete", "exit_code": 11, "ms": 5, "missing": ["a plan", "a test"]});
    assert_eq!(
        told(&outcome, None, false),
        "✗ incomplete: it ended, and is still missing: a plan, a test (0.0s)\n"
    );
}

#[test]
fn prose_is_broken_between_words_and_commands_are_not() {
    let mut rows = Rows::new("  ", 40);
    rows.add("evidence", "the agent ended its turn as done (reported)");
    rows.add_whole("try", "ostler run --resume 01a1e1c3-2685   goes on");
    assert_eq!(
        anstream::adapter::strip_str(&rows.into_text()).to_string(),
        "  evidence the agent ended its turn as\n           done (reported)\n  \
         try      ostler run --resume 01a1e1c3-2685   goes on\n"
    );
}
