//! What a person can do about an outcome, where there is something to do.

use crate::agent::Agent;
use crate::event::FailureClass;
use crate::outcome::{Rule, RunOutcome};

/// What to try after the run of this id.
pub fn advice(outcome: &RunOutcome, agent: &dyn Agent, run: &str) -> Option<String> {
    let resume = |when: &str| Some(format!("`ostler run --resume {run}` continues{when}"));
    match outcome {
        RunOutcome::AgentFailed { class, .. } => match class {
            FailureClass::Auth => sign_in(agent),
            FailureClass::Overloaded | FailureClass::Provider => resume(" once the provider answers again"),
            FailureClass::Crashed => resume(" where it stopped"),
            FailureClass::Quota | FailureClass::Model | FailureClass::Limit | FailureClass::Unknown => None,
        },
        RunOutcome::Blocked { .. } => {
            Some(format!("start {} by hand and answer it once, then run again", agent.title()))
        }
        RunOutcome::Stalled { rule: Rule::OpenCall, .. } => {
            Some("give its tools more time with --open-call".to_owned())
        }
        RunOutcome::Completed
        | RunOutcome::Incomplete { .. }
        | RunOutcome::Stalled { .. }
        | RunOutcome::TimedOut { .. }
        | RunOutcome::NotInstalled { .. }
        | RunOutcome::NeverStarted { .. }
        | RunOutcome::Quota { .. }
        | RunOutcome::Cancelled { .. } => None,
    }
}

fn sign_in(agent: &dyn Agent) -> Option<String> {
    let (program, words) = (agent.package().program, agent.login());
    (!words.is_empty())
        .then(|| format!("sign in with `{program} {}`, or check the key that it uses", words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::AGENTS;

    #[test]
    fn a_rejected_key_has_a_way_out_for_every_agent() {
        let outcome = RunOutcome::AgentFailed { class: FailureClass::Auth, detail: String::new() };
        for agent in AGENTS {
            let found = advice(&outcome, *agent, "01a1");
            assert!(found.is_some_and(|advice| advice.contains('`')), "{}", agent.name());
            assert_eq!(advice(&RunOutcome::Completed, *agent, "01a1"), None);
        }
    }

    #[test]
    fn the_advice_after_an_outage_or_a_crash_names_resume() {
        let failed = |class| RunOutcome::AgentFailed { class, detail: String::new() };
        for outcome in
            [failed(FailureClass::Overloaded), failed(FailureClass::Provider), failed(FailureClass::Crashed)]
        {
            let found = advice(&outcome, AGENTS[0], "01a1").unwrap();
            assert!(found.contains("`ostler run --resume 01a1`"), "{outcome:?}: {found}");
        }
    }
}
