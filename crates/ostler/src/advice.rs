//! What to try after a run that did not go well: commands to paste, each with what it does.

use serde_json::Value;

/// What the advice is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case<'a> {
    /// The outcome as it is kept.
    pub(crate) outcome: &'a Value,
    /// What names the run.
    pub(crate) run: &'a str,
    /// The agent's name.
    pub(crate) agent: &'a str,
    /// The command that logs in, if the agent has one.
    pub(crate) login: Option<&'a str>,
    /// Whether the model was scripted.
    pub(crate) is_rehearsed: bool,
    /// Whether it was to wait for a quota.
    pub(crate) waits_for_quota: bool,
}

/// The best first. Nothing for a run that went well.
pub(crate) fn advice(case: &Case<'_>) -> Vec<String> {
    let word = |name: &str| case.outcome[name].as_str();
    let run = case.run;
    let resume = |why: &str| format!("ostler run --resume {run}{why}");
    // Without a session there is nothing to go on with.
    let resumed = |why: &str| word("session").map(|_| resume(why));
    let tried: Vec<Option<String>> = match word("outcome").unwrap_or_default() {
        "agent_failed" => failed(case, word("class").unwrap_or_default()),
        "incomplete" => vec![
            (case.outcome["bridge"]["contact"] == "none")
                .then(|| "--no-bridge, if the agent cannot use MCP servers here".to_owned()),
            resumed("   goes on in the same session"),
        ],
        "stalled" => vec![
            Some(format!("ostler runs why {run}   what was last heard, and the rule that fired")),
            resumed("   goes on in the same session"),
            flag(word("rule").unwrap_or_default()).map(|flag| format!("{flag}, if it was only slow")),
        ],
        "timed_out" => {
            let flag = flag(word("rule").unwrap_or_default());
            let more = flag
                .and_then(|flag| resumed(&format!(" {flag}   goes on in the same session, with more room")));
            vec![more.or(flag.map(|flag| format!("{flag}, for more room")))]
        }
        "not_installed" => vec![Some(format!("ostler agents install {}", case.agent))],
        "never_started" => {
            vec![word("hint").map(str::to_owned), Some("ostler doctor   what is missing here".to_owned())]
        }
        "blocked" => vec![
            // What it may do has nothing to do with it: only a person can answer.
            word("hint").map(str::to_owned),
            resumed("   goes on in the same session"),
        ],
        "quota" => vec![waiting(case), resumed("   once the limit is reset")],
        "cancelled" => vec![resumed("   goes on in the same session")],
        _ => Vec::new(),
    };
    tried.into_iter().flatten().collect()
}

fn failed(case: &Case<'_>, class: &str) -> Vec<Option<String>> {
    let run = case.run;
    let is_known = !case.agent.starts_with("command:");
    let last_words = Some(format!("ostler runs raw {run}   what it wrote, to the last byte"));
    match class {
        // A scripted key cannot be mended.
        "auth" if !case.is_rehearsed => {
            vec![case.login.map(|login| format!("{login}   or mend the key that it uses"))]
        }
        "quota" => vec![waiting(case)],
        "overloaded" | "provider" => {
            vec![Some(format!("ostler run --resume {run}   later, in the same session"))]
        }
        "model" if is_known && !case.is_rehearsed => {
            vec![Some(format!("-a {}/MODEL for another model", case.agent)), last_words]
        }
        "crashed" if is_known => {
            let has_session = case.outcome["session"].is_string();
            let resume = |why: &str| Some(format!("ostler run --resume {run}   {why}"));
            let check = Some(format!("ostler agents check {}   whether it starts at all", case.agent));
            if has_session {
                vec![resume("continues in the same session"), last_words, check]
            } else {
                vec![last_words, check, resume("gives it the task again")]
            }
        }
        _ => vec![last_words],
    }
}

/// How to wait for a quota. Whoever did must wait longer, if it is known how long.
fn waiting(case: &Case<'_>) -> Option<String> {
    match (case.waits_for_quota, case.outcome["resets_at"].is_i64()) {
        (false, _) => Some("--wait-for-quota waits for the reset and goes on by itself".to_owned()),
        (true, true) => Some("--max-wait TIME, to wait until the reset: it is later than that".to_owned()),
        (true, false) => None,
    }
}

/// The flag that moves a limit.
fn flag(rule: &str) -> Option<&'static str> {
    Some(match rule {
        "start" => "--start TIME",
        "silence" => "--silence TIME",
        "open_call" => "--open-call TIME",
        "ceiling" => "--ceiling TIME",
        "max_wait" => "--max-wait TIME",
        "max_cost" => "--max-cost USD",
        "max_tokens" => "--max-tokens N",
        "max_turns" => "--max-turns N",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn case<'a>(outcome: &'a Value, login: Option<&'a str>) -> Case<'a> {
        Case { outcome, run: "01a1", agent: "codex", login, is_rehearsed: false, waits_for_quota: false }
    }

    #[test]
    fn whoever_waits_for_a_quota_is_not_told_to() {
        let told = |outcome: &Value| advice(&Case { waits_for_quota: true, ..case(outcome, None) });
        let known = json!({"outcome": "quota", "session": "s", "resets_at": 1_800_000_000});
        let resume = "ostler run --resume 01a1   once the limit is reset";
        assert_eq!(told(&known), ["--max-wait TIME, to wait until the reset: it is later than that", resume]);
        assert_eq!(told(&json!({"outcome": "quota", "session": "s", "resets_at": null})), [resume]);
    }

    #[test]
    fn every_ending_but_a_good_one_has_something_to_try() {
        let table = [
            (json!({"outcome": "completed", "session": "s"}), ""),
            (
                json!({"outcome": "agent_failed", "class": "auth"}),
                "codex login   or mend the key that it uses",
            ),
            (
                json!({"outcome": "agent_failed", "class": "overloaded"}),
                "ostler run --resume 01a1   later, in the same session",
            ),
            (json!({"outcome": "agent_failed", "class": "model"}), "-a codex/MODEL for another model"),
            (
                json!({"outcome": "agent_failed", "class": "crashed"}),
                "ostler runs raw 01a1   what it wrote, to the last byte",
            ),
            (
                json!({"outcome": "agent_failed", "class": "crashed", "session": "s"}),
                "ostler run --resume 01a1   continues in the same session",
            ),
            (json!({"outcome": "agent_failed"}), "ostler runs raw 01a1   what it wrote, to the last byte"),
            (
                json!({"outcome": "incomplete", "session": "s"}),
                "ostler run --resume 01a1   goes on in the same session",
            ),
            (
                json!({"outcome": "stalled", "rule": "silence"}),
                "ostler runs why 01a1   what was last heard, and the rule that fired",
            ),
            (json!({"outcome": "timed_out", "rule": "ceiling"}), "--ceiling TIME, for more room"),
            (json!({"outcome": "not_installed"}), "ostler agents install codex"),
            (json!({"outcome": "never_started"}), "ostler doctor   what is missing here"),
            (json!({"outcome": "blocked", "hint": "answer it once"}), "answer it once"),
            (json!({"outcome": "quota"}), "--wait-for-quota waits for the reset and goes on by itself"),
            (
                json!({"outcome": "cancelled", "session": "s"}),
                "ostler run --resume 01a1   goes on in the same session",
            ),
            (json!({"outcome": "cancelled", "session": null}), ""),
        ];
        for (outcome, want) in table {
            let login = Some("codex login");
            let case = case(&outcome, login);
            assert_eq!(advice(&case).first().map_or("", String::as_str), want, "{outcome}");
        }
    }

    #[test]
    fn a_stalled_run_is_explained_resumed_or_given_time() {
        let outcome = json!({"outcome": "stalled", "rule": "open_call", "session": "s"});
        assert_eq!(
            advice(&case(&outcome, None)),
            [
                "ostler runs why 01a1   what was last heard, and the rule that fired",
                "ostler run --resume 01a1   goes on in the same session",
                "--open-call TIME, if it was only slow",
            ]
        );
    }
}
