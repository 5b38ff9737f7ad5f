//! However a run ends, in whatever tier: the outcome is true, and nothing that the agent started is left.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use super::hostile::{Living, in_every_tier, stage};
use super::{living, long_sleep};

/// Neither told nor asked to stop does it stop.
const STUBBORN: &str = "start = [{ ignore_sigterm = true, sigint = true }]\n\
                        [[step]]\ndo = [{ say = \"begun\" }, { stall = \"forever\", deaf = true }]";

/// What is expected of an end.
struct Ending {
    script: &'static str,
    args: &'static [&'static str],
    act: fn(&mut Living),
    outcome: (&'static str, i32, Option<&'static str>),
}

fn nothing(_: &mut Living) {}

fn is_begun(line: &Value) -> bool {
    line["event"] == "said"
}

fn is_stopping(rung: &str) -> impl Fn(&Value) -> bool {
    move |line| line["kind"] == "stopping" && line["rung"] == rung
}

fn endures(ending: &Ending) {
    in_every_tier(|tier| {
        let mut living = Living::hostile(ending.script, tier, ending.args);
        let held = living.look(tier);
        living.go();
        (ending.act)(&mut living);
        let (told, code) = living.end();
        let last = told.last().unwrap();
        let (outcome, exit_code, rule) = ending.outcome;
        assert_eq!(
            (&last["outcome"], code, &last["rule"], &last["survivors"]),
            (&outcome.into(), Some(exit_code), &rule.into(), &0.into()),
            "{tier}: {last}"
        );
        let spawned: Vec<_> = told.iter().filter(|line| line["kind"] == "spawned").collect();
        assert_eq!((spawned.len(), &spawned[0]["containment"]), (1, &tier.into()));
        living.assert_nothing_is_left(&format!("{outcome} in {tier}"), &held);
    });
}

#[test]
fn a_run_that_completed_leaves_nothing() {
    endures(&Ending {
        script: "[[step]]\ndo = [{ say = \"done\" }]",
        args: &[],
        act: nothing,
        outcome: ("completed", 0, None),
    });
}

#[test]
fn an_agent_that_failed_leaves_nothing() {
    endures(&Ending {
        script: "[[step]]\ndo = [{ result = \"api_error\", message = \"API Error: 500\", status = 500 }]",
        args: &[],
        act: nothing,
        outcome: ("agent_failed", 10, None),
    });
}

#[test]
fn an_agent_that_crashed_leaves_nothing() {
    endures(&Ending {
        script: "[[step]]\ndo = [{ exit_without_result = 3 }]",
        args: &[],
        act: nothing,
        outcome: ("agent_failed", 10, None),
    });
}

#[test]
fn an_agent_that_was_interrupted_leaves_nothing() {
    endures(&Ending {
        // As if somebody had interrupted it from elsewhere.
        script: "[[step]]\ndo = [{ say = \"hm\" }, { garbage = '{\"type\":\"result\",\"is_error\":true,\
                 \"terminal_reason\":\"aborted_streaming\"}' }, { exit_without_result = 0 }]",
        args: &[],
        act: nothing,
        outcome: ("incomplete", 11, None),
    });
}

#[test]
fn an_agent_that_stalled_leaves_nothing() {
    endures(&Ending {
        script: STUBBORN,
        args: &["--silence", "1s"],
        act: nothing,
        outcome: ("stalled", 12, Some("silence")),
    });
}

#[test]
fn an_agent_at_the_ceiling_leaves_nothing() {
    endures(&Ending {
        script: STUBBORN,
        // Long enough for all its children to be born and looked at first.
        args: &["--ceiling", "30s"],
        act: nothing,
        outcome: ("timed_out", 13, Some("ceiling")),
    });
}

#[test]
fn an_agent_that_spent_its_turns_leaves_nothing() {
    endures(&Ending {
        script: "[[step]]\ndo = [{ result = \"max_turns\" }]",
        args: &["--max-turns", "1"],
        act: nothing,
        outcome: ("timed_out", 13, Some("max_turns")),
    });
}

#[test]
fn an_agent_without_quota_leaves_nothing() {
    endures(&Ending {
        script: "[[step]]\ndo = [{ limit_banner = true }]",
        args: &[],
        act: nothing,
        outcome: ("quota", 16, None),
    });
}

#[test]
fn an_agent_that_asks_what_nobody_answers_leaves_nothing() {
    endures(&Ending {
        script: "[[step]]\ndo = [{ say = \"hm\" }, { garbage = '{\"type\":\"control_request\",\"request_id\":\"r\",\
                 \"request\":{\"subtype\":\"request_user_dialog\",\"dialog_kind\":\"trust\"}}' }, \
                 { stall = \"forever\" }]",
        args: &[],
        act: nothing,
        outcome: ("blocked", 15, None),
    });
}

/// What an agent's program does when it is asked for its version, and how a run ends that comes no further.
fn unstarted(number: u32, version: &str, outcome: &str) {
    let sleep = long_sleep(number);
    in_every_tier(|tier| {
        let daemon = format!("(setsid {sleep} >/dev/null 2>&1 &)");
        let ground = stage(&format!("{daemon}\n{version}"), "").with("OSTLER_FORCE_TIER", tier);
        if version.is_empty() {
            fs::remove_file(ground.at("agent")).unwrap();
        }
        let mut run = Living::start(ground, &[]);
        let (told, code) = run.end();
        let last = told.last().unwrap();
        let want = (&Value::from(outcome), Some(14), &Value::from(0));
        assert_eq!((&last["outcome"], code, &last["survivors"]), want, "{tier}: {last}");
        run.assert_nothing_is_left(&format!("{outcome} in {tier}"), &[]);
    });
    assert_eq!(living(&sleep), [""; 0], "{outcome}");
}

#[test]
fn an_agent_that_is_not_installed_leaves_nothing() {
    unstarted(98_774, "", "not_installed");
}

#[test]
fn an_agent_that_never_starts_leaves_nothing() {
    unstarted(98_775, "echo 'no AVX2' >&2; exit 4", "never_started");
    unstarted(98_776, "kill -9 $$", "never_started");
}

#[test]
fn ctrl_c_leaves_nothing() {
    endures(&Ending {
        script: "[[step]]\ndo = [{ say = \"begun\" }, { stall = \"forever\" }]",
        args: &[],
        act: |living| {
            living.until(is_begun);
            living.signal(Signal::INT);
        },
        outcome: ("cancelled", 130, None),
    });
}

#[test]
fn a_second_ctrl_c_leaves_nothing() {
    endures(&Ending {
        script: STUBBORN,
        args: &[],
        act: |living| {
            living.until(is_begun);
            living.signal(Signal::INT);
            living.until(is_stopping("interrupt"));
            living.signal(Signal::INT);
            living.until(is_stopping("kill"));
        },
        outcome: ("cancelled", 130, None),
    });
}

#[test]
fn sigterm_leaves_nothing_though_the_agent_ignores_every_rung() {
    endures(&Ending {
        script: STUBBORN,
        args: &[],
        act: |living| {
            living.until(is_begun);
            living.signal(Signal::TERM);
        },
        outcome: ("cancelled", 143, None),
    });
}

#[test]
fn a_terminal_that_is_closed_leaves_nothing() {
    endures(&Ending {
        script: "[[step]]\ndo = [{ say = \"begun\" }, { stall = \"forever\" }]",
        args: &[],
        act: |living| {
            living.until(is_begun);
            living.signal(Signal::HUP);
        },
        outcome: ("cancelled", 143, None),
    });
}
