//! Limits on costs and tokens that cannot be enforced are refused before anything starts.

use super::{ground, outcome};
use crate::ground::Ground;

/// OpenCode, as a script that knows two models, one of which has a price, and uses one of them.
fn opencode(model: &str, more: &str) -> Ground {
    let ground = ground();
    let script = format!(
        r#"case "$1" in
--version) echo 1.18.33 ;;
debug) echo '{{"model": "{model}"}}' ;;
models) printf 'own/plain\n{{"cost": {{"input": 0, "output": 0}}}}\nown/priced\n{{"cost": {{"input": 5, "output": 25}}}}\n' ;;
*) touch {started}
   echo '{{"type":"step_start","sessionID":"ses_1","part":{{}}}}'
   echo '{{"type":"step_finish","sessionID":"ses_1","part":{{"reason":"tool-calls","cost":'"$COST"',"tokens":{{"input":50000,"output":1,"reasoning":0,"cache":{{"read":0,"write":0}}}}}}}}'
   sleep 60 ;;
esac"#,
        started = ground.at("started").display()
    );
    let program = ground.script("opencode", &script);
    ground.put("ostler/config.toml", &format!("[agents.opencode]\nprogram = {program:?}\n{more}"));
    ground
}

#[test]
fn a_model_that_opencode_has_no_price_for_is_refused() {
    let ground = opencode("own/plain", "");
    for agent in ["opencode", "opencode/own/plain"] {
        let ended = ground.run(&["run", "-a", agent, "--max-cost", "0.01", "x"]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        let want =
            "error: --max-cost cannot be enforced: opencode reports no cost for the model `own/plain`\n";
        assert!(ended.stderr.starts_with(want), "{}", ended.stderr);
        assert!(ended.stderr.contains("set [prices.\"own/plain\"] in config.toml"), "{}", ended.stderr);
    }
    assert!(!ground.at("started").exists() && !ground.at("ostler/runs").exists(), "nothing was started");
}

#[test]
fn a_model_that_opencode_has_a_price_for_is_stopped_by_it() {
    let ground = opencode("own/priced", "").with("COST", "0.25");
    let ended = ground.run(&["run", "-a", "opencode", "--json", "--max-cost", "0.01", "x"]);
    let outcome = outcome(&ended.stdout);
    assert_eq!((ended.code, &outcome["rule"]), (Some(13), &"max_cost".into()), "{outcome}");
    assert_eq!((&outcome["cost_usd"], &outcome["usage"]["input_tokens"]), (&0.25.into(), &50_000.into()));
}

#[test]
fn a_configured_price_stands_in_for_one_that_opencode_has_not() {
    let ground = opencode("own/plain", "[prices.\"own/plain\"]\ninput = 2\noutput = 10\n").with("COST", "0");
    let ended = ground.run(&["run", "-a", "opencode", "--json", "--max-cost", "0.01", "x"]);
    let outcome = outcome(&ended.stdout);
    assert_eq!((ended.code, &outcome["rule"]), (Some(13), &"max_cost".into()), "{outcome}");
    assert!((outcome["cost_usd"].as_f64().unwrap() - 0.100_01).abs() < 1e-9, "{outcome}");
}

#[test]
fn a_program_that_reports_nothing_cannot_be_limited() {
    let ground = ground();
    for (flag, what) in [("--max-cost", "cost"), ("--max-tokens", "tokens")] {
        let ended = ground.run(&["run", "-a", "command:true", "--permissions", "all", flag, "1", "x"]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        let want = format!("error: {flag} cannot be enforced: command reports no {what}\n");
        assert!(ended.stderr.starts_with(&want), "{}", ended.stderr);
    }
}

/// A project could make every model cheap.
#[test]
fn a_project_that_is_not_trusted_sets_no_prices() {
    let ground = ground();
    ground.put("project/.ostler/config.toml", "[prices.\"gpt-5.5\"]\ninput = 0\noutput = 0\n");
    let ended = ground.run(&["run", "-a", "command:true", "--permissions", "all", "--json", "x"]);
    assert_eq!(ended.code, Some(0));
    assert!(ended.stdout.contains("`prices.\\\"gpt-5.5\\\".input`"), "{}", ended.stdout);
}
