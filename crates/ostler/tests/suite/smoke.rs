//! `ostler smoke` where there is little to try: agents that are missing or broken, and what cannot be asked for.

use serde_json::Value;

use crate::ground::{Ended, Ground};

fn results(ended: &Ended) -> Vec<Value> {
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(told["v"], 1);
    told["results"].as_array().unwrap().clone()
}

/// Whether this machine has a network must not matter.
fn offline() -> Ground {
    Ground::new().with("OSTLER_CFG__NETWORK__PROBE", "off")
}

#[test]
fn nothing_is_installed_so_nothing_is_green() {
    let ground = Ground::new();
    ground.check("smoke_nothing", &["smoke"]);
    ground.check("smoke_nothing_json", &["smoke", "--json"]);
    assert!(!ground.at("ostler").exists(), "nothing is installed unasked, and nothing is written");
}

#[test]
fn what_cannot_be_asked_for_is_refused_before_anything_is_started() {
    let ground = Ground::new();
    ground.program("codex", "echo codex-cli 0.166.0");
    ground.put("project/broken.toml", "v = 1\n[[conversation]]\n");
    ground.check("smoke_unknown", &["smoke", "codx"]);
    ground.check("smoke_broken_script", &["smoke", "--script", "broken.toml"]);
    ground.check("smoke_no_place_for_a_report", &["smoke", "--report", "none/report.md"]);
    assert_eq!(ground.run(&["smoke", "--live", "--script", "hello"]).code, Some(2));
    assert!(!ground.at("ostler/runs").exists());
}

#[test]
fn an_agent_that_is_missing_is_named_with_how_to_get_it() {
    let ground = Ground::new();
    ground.program("opencode", "echo 'no AVX here' >&2; exit 4");
    let ended = ground.run(&["smoke", "codex", "opencode", "codex", "--json"]);
    assert_eq!(ended.code, Some(20), "{}", ended.stderr);
    let results = results(&ended);
    assert_eq!(results.len(), 2, "each once");
    for (result, what, hint) in [
        (&results[0], "agent `codex` is not installed", "`ostler agents install codex`"),
        (&results[1], "no AVX here", ""),
    ] {
        assert_eq!((&result["verdict"], &result["run"]), (&"FAIL".into(), &Value::Null), "{result:#}");
        let breaks = result["breaks"].as_array().unwrap();
        assert_eq!(breaks.len(), 1, "all else follows from that: {breaks:#?}");
        let text = |field: &str| breaks[0][field].as_str().unwrap().to_owned();
        assert!(text("what").contains(what) && text("try").contains(hint), "{breaks:#?}");
    }
    let ended = ground.run(&["smoke", "codex"]);
    assert!(
        ended.stdout.contains("✗ codex: FAIL\n  broke    no crash: there was no run: "),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("0 of 1 agent passes"), "{}", ended.stdout);
    assert!(!ground.at("ostler/runs").exists());
}

/// It starts, says its version, and then nothing that can be understood.
#[test]
fn an_agent_that_breaks_at_once_is_a_row_and_not_the_end() {
    let ground = offline();
    ground.program(
        "codex",
        "[ \"$1\" = --version ] && echo codex-cli 0.166.0 && exit; echo 'Segmentation fault' >&2; exit 139",
    );
    let ended = ground.run(&["smoke", "--json"]);
    assert_eq!(ended.code, Some(20), "{}", ended.stderr);
    let results = results(&ended);
    assert_eq!((&results[0]["verdict"], &results[0]["outcome"]), (&"FAIL".into(), &"agent_failed".into()));
    assert_eq!(results[0]["survivors"], 0);
    assert!(!ground.at("ostler/smoke-matrix.json").exists(), "only what is green is kept");
}

/// Claude Code over pipes was tried, and in its terminal it was not.
#[test]
fn smoke_without_arguments_includes_the_terminal_engine() {
    let ground = offline();
    ground.program(
        "claude",
        "[ \"$1\" = --version ] && echo '2.1.197 (Claude Code)' && exit; echo 'Segmentation fault' >&2; exit 139",
    );
    let ended = ground.run(&["smoke", "--json"]);
    assert_eq!(ended.code, Some(20), "{}", ended.stderr);
    let results = results(&ended);
    let tried: Vec<(&str, &str)> = results
        .iter()
        .map(|result| (result["agent"].as_str().unwrap(), result["engine"].as_str().unwrap()))
        .collect();
    assert_eq!(tried, [("claude", "terminal"), ("claude-headless", "stream")]);
}

/// Nobody here has an account: it is said what it would cost, and the agent's own refusal is told.
#[test]
fn what_live_costs_is_said_before_anything_is_spent() {
    let ground = offline();
    ground.program(
        "codex",
        "[ \"$1\" = --version ] && echo codex-cli 0.166.0 && exit; echo 'Not logged in' >&2; exit 1",
    );
    let ended = ground.run(&["smoke", "codex", "--live"]);
    assert_eq!(ended.code, Some(20), "{}", ended.stderr);
    let first = ended.stderr.lines().next().unwrap();
    assert!(
        first.starts_with("note: --live asks the real provider with your own account and spends your tokens"),
        "{first}"
    );
    assert!(first.contains("Codex"), "{first}");
    assert!(
        ended.stdout.contains("The model was the provider's, with your own account."),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("✗ codex 0.166.0: FAIL"), "{}", ended.stdout);
}

#[test]
fn the_schema_is_printed_as_it_is_published() {
    let ended = Ground::new().run(&["smoke", "--schema"]);
    let published = include_str!("../../../../docs/schema/smoke.schema.json");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), published));
}
