//! What a person can do about an outcome, where there is something to do.

use crate::agent::Agent;
use crate::event::FailureClass;
use crate::outcome::{Rule, RunOutcome};

/// What to try.
pub fn advice(outcome: &RunOutcome, agent: &dyn Agent) -> Option<String> {
    match outcome {
        RunOutcome::AgentFailed { class, .. } => match class {
            FailureClass::Auth => sign_in(agent),
            FailureClass::Overloaded => Some("try again later: the provider has too much to do".to_owned()),
            FailureClass::Quota
            | FailureClass::Provider
            | FailureClass::Model
            | FailureClass::Crashed
            | FailureClass::Limit
            | FailureClass::Unknown => None,
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
            assert!(advice(&outcome, *agent).is_some_and(|advice| advice.contains('`')), "{}", agent.name());
            assert_eq!(advice(&RunOutcome::Completed, *agent), None);
        }
    }
}
