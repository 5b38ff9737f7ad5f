//! One process of a run: which one it is, what it is told, and whose session it goes on with.

use ostler_agent::completion::CUT_OFF;

use crate::journal::Past;

/// One process of the run, before it is started.
pub(super) struct Attempt {
    pub(super) number: u32,
    pub(super) prompt: String,
    pub(super) resumed: Option<String>,
}

impl Attempt {
    pub(super) fn first(prompt: &str) -> Self {
        Self { number: 1, prompt: prompt.to_owned(), resumed: None }
    }

    /// The next one of a run that is resumed, and the reason for the journal. `calls` is what the agent should know of
    /// its last tool calls.
    pub(super) fn after(
        past: &Past,
        original: &str,
        prompt: Option<&str>,
        calls: Option<&str>,
    ) -> (Self, String) {
        let number = past.attempts.saturating_add(1);
        match (&past.session, prompt) {
            (Some(session), prompt) => {
                let prompt = with_calls(prompt.unwrap_or(CUT_OFF).to_owned(), calls);
                (Self { number, prompt, resumed: Some(session.clone()) }, "somebody asked for it".to_owned())
            }
            (None, prompt) => {
                let prompt = prompt.map(|prompt| format!("{original}\n\n{prompt}"));
                let prompt = with_calls(prompt.unwrap_or_else(|| original.to_owned()), calls);
                let reason = "somebody asked for it; it begins anew, since the agent has no session of it";
                (Self { number, prompt, resumed: None }, reason.to_owned())
            }
        }
    }

    /// The next one of the same run. Without a session in which it was asked, the agent is asked again.
    pub(super) fn next(
        self,
        prompt: String,
        session: Option<String>,
        original: &str,
        calls: Option<&str>,
    ) -> Self {
        let number = self.number + 1;
        match (session, self.resumed) {
            (Some(session), _) => Self { number, prompt: with_calls(prompt, calls), resumed: Some(session) },
            (None, None) => Self { number, prompt: with_calls(self.prompt, calls), resumed: None },
            (None, Some(_)) => Self { number, prompt: with_calls(original.to_owned(), calls), resumed: None },
        }
    }
}

/// A prompt, followed by what the agent should know of its last tool calls.
fn with_calls(prompt: String, calls: Option<&str>) -> String {
    match calls {
        Some(calls) => format!("{prompt}\n\n{calls}"),
        None => prompt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_has_no_session_is_asked_again() {
        let next = |attempt: Attempt, session: Option<&str>| {
            let next = attempt.next("go on".to_owned(), session.map(str::to_owned), "do it", None);
            (next.number, next.prompt, next.resumed)
        };
        let text = str::to_owned;
        let first = || Attempt::first("do it, and quickly");
        assert_eq!(next(first(), Some("s")), (2, text("go on"), Some(text("s"))));
        assert_eq!(next(first(), None), (2, text("do it, and quickly"), None));
        let second = Attempt { number: 2, prompt: text("go on"), resumed: Some(text("s")) };
        assert_eq!(next(second, None), (3, text("do it"), None));
        let anew = first().next(text("go on"), None, "do it", Some("- a call"));
        assert_eq!((anew.prompt, anew.resumed), (text("do it, and quickly\n\n- a call"), None));
    }

    #[test]
    fn a_resumed_agent_is_told_of_its_last_calls_after_the_prompt() {
        let told = |session: Option<&str>, prompt: Option<&str>| {
            let past = Past { session: session.map(str::to_owned), ..Past::default() };
            Attempt::after(&past, "do it", prompt, Some("- a call")).0.prompt
        };
        assert_eq!(told(Some("s"), None), format!("{CUT_OFF}\n\n- a call"));
        assert_eq!(told(Some("s"), Some("and test it")), "and test it\n\n- a call");
        assert_eq!(told(None, None), "do it\n\n- a call");
        let second = Attempt { number: 2, prompt: "go on".to_owned(), resumed: Some("s".to_owned()) };
        let third = second.next("go on".to_owned(), Some("s".to_owned()), "do it", Some("- a call"));
        assert_eq!(third.prompt, "go on\n\n- a call");
    }
}
