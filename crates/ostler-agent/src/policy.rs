//! What is said when an agent asks and nobody is there to answer: the permission level decides, or the run is blocked.

use crate::agent::{Decision, Order, Permissions};
use crate::event::Blocked;
use crate::stopping::StopReason;

/// What an agent is told that asks a person something.
pub(crate) const NOBODY: &str =
    "nobody is there to answer; choose what seems best, say what you chose, and go on";

/// What an agent is told that may not do what it asks for. None, if it may.
pub(crate) fn denial(permissions: Permissions) -> Option<&'static str> {
    match permissions {
        Permissions::All => None,
        Permissions::Edits => Some("this run may only change files in its workspace; go on without it"),
        Permissions::Deny => Some("this run may only read; go on without it"),
    }
}

/// The answer that policy gives. None, if nothing is asked, or if it is nothing that policy could answer.
pub fn answer(permissions: Permissions, blocked: &Blocked) -> Option<Order> {
    let denied = |why: &str| Decision::Deny(why.to_owned());
    let (request, decision) = match blocked {
        Blocked::Permission { request, input, .. } => match denial(permissions) {
            None => (request, Decision::Allow(input.clone())),
            Some(why) => (request, denied(why)),
        },
        Blocked::Question { request, .. } => (request, denied(NOBODY)),
        Blocked::Dialog { .. }
        | Blocked::Retrying { .. }
        | Blocked::Routed { .. }
        | Blocked::Withdrawn { .. }
        | Blocked::Denied { .. } => return None,
    };
    Some(Order::Answer { request: request.clone(), decision })
}

/// Why an agent that waits for a person is stopped: what only a person can give will not come.
pub fn unanswerable(blocked: &Blocked) -> Option<StopReason> {
    match blocked {
        Blocked::Dialog { text } => Some(StopReason::Blocked { dialog: text.clone() }),
        Blocked::Permission { .. }
        | Blocked::Question { .. }
        | Blocked::Retrying { .. }
        | Blocked::Routed { .. }
        | Blocked::Withdrawn { .. }
        | Blocked::Denied { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_question_is_answered_or_stops_the_run() {
        let input = json!({"command": "ls"});
        let permission =
            Blocked::Permission { request: "r".to_owned(), tool: "Bash".to_owned(), input: input.clone() };
        let question = Blocked::Question { request: "r".to_owned(), text: "Which?".to_owned() };
        let dialog = Blocked::Dialog { text: "Sign in".to_owned() };
        let decided = |permissions, blocked| match answer(permissions, blocked) {
            Some(Order::Answer { decision: Decision::Allow(input), .. }) => Ok(input),
            Some(Order::Answer { decision: Decision::Deny(why), .. }) => Err(why),
            other => Err(format!("{other:?}")),
        };
        assert_eq!(decided(Permissions::All, &permission), Ok(input));
        for permissions in [Permissions::Deny, Permissions::Edits] {
            assert!(decided(permissions, &permission).is_err_and(|why| why.contains("go on without it")));
        }
        for permissions in [Permissions::Deny, Permissions::Edits, Permissions::All] {
            assert!(decided(permissions, &question).is_err_and(|why| why.starts_with("nobody is there")));
            assert_eq!(answer(permissions, &dialog), None);
        }
        assert_eq!(unanswerable(&permission), None);
        assert_eq!(unanswerable(&dialog), Some(StopReason::Blocked { dialog: "Sign in".to_owned() }));
    }
}
