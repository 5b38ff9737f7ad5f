//! One process of a run: which one it is, what it is told, and whose session it goes on with.

use ostler_agent::completion::CUT_OFF;

use crate::journal::Past;

/// One process of the run, before it is started.
pub(super) struct Attempt {
    pub(super) number: u32,
    pub(super) prompt: String,
    pub(super) resumed: Option<String>,
}

/// What a further process receives besides its task.
#[derive(Clone, Copy, Default)]
pub(super) struct Besides<'a> {
    /// What somebody said to the agent of the run.
    pub(super) words: &'a [String],
    /// What it should know of its last tool calls.
    pub(super) calls: Option<&'a str>,
}

impl Besides<'_> {
    /// A prompt with all of it.
    pub(super) fn added_to(self, prompt: &str) -> String {
        let words = self.words.iter().map(String::as_str);
        let parts = std::iter::once(prompt).chain(words).chain(self.calls);
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
    }
}

impl Attempt {
    pub(super) fn first(prompt: &str) -> Self {
        Self { number: 1, prompt: prompt.to_owned(), resumed: None }
    }

    /// The next one of a run that somebody resumes, and the reason for the journal. `prompt` is what they say to the
    /// agent, if they do, and among the words already.
    pub(super) fn after(
        past: &Past,
        original: &str,
        prompt: Option<&str>,
        besides: Besides<'_>,
    ) -> (Self, String) {
        let number = past.attempts.saturating_add(1);
        let reason = match past.session {
            Some(_) => "somebody asked for it",
            None => "somebody asked for it; it begins anew, since the agent has no session of it",
        };
        let prompt = match (&past.session, prompt) {
            (Some(_), Some(_)) => "",
            (Some(_), None) => CUT_OFF,
            (None, _) => original,
        };
        (Self { number, prompt: besides.added_to(prompt), resumed: past.session.clone() }, reason.to_owned())
    }

    /// The next one of the same run. Without a session in which it was asked, the agent is given its task again.
    pub(super) fn next(
        self,
        prompt: &str,
        session: Option<String>,
        original: &str,
        besides: Besides<'_>,
    ) -> Self {
        let prompt = if session.is_some() { prompt } else { original };
        Self { number: self.number + 1, prompt: besides.added_to(prompt), resumed: session }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_has_no_session_is_asked_again() {
        let words = ["and quickly".to_owned()];
        let next = |attempt: Attempt, session: Option<&str>, words: &[String]| {
            let besides = Besides { words, calls: None };
            let next = attempt.next("go on", session.map(str::to_owned), "do it", besides);
            (next.number, next.prompt, next.resumed)
        };
        let text = str::to_owned;
        let first = || Attempt::first("do it");
        assert_eq!(next(first(), Some("s"), &[]), (2, text("go on"), Some(text("s"))));
        assert_eq!(next(first(), Some("s"), &words), (2, text("go on\n\nand quickly"), Some(text("s"))));
        assert_eq!(next(first(), None, &[]), (2, text("do it"), None));
        assert_eq!(next(first(), None, &words), (2, text("do it\n\nand quickly"), None));
        let second = Attempt { number: 2, prompt: text("go on"), resumed: Some(text("s")) };
        assert_eq!(next(second, None, &words), (3, text("do it\n\nand quickly"), None));
        let besides = Besides { words: &words, calls: Some("- a call") };
        let anew = first().next("go on", None, "do it", besides).next("go on", None, "do it", besides);
        assert_eq!((anew.prompt, anew.resumed), (text("do it\n\nand quickly\n\n- a call"), None));
    }

    #[test]
    fn a_resumed_agent_is_told_of_its_last_calls_after_the_prompt() {
        let told = |session: Option<&str>, prompt: Option<&str>| {
            let past = Past { session: session.map(str::to_owned), ..Past::default() };
            let words: Vec<String> = prompt.map(str::to_owned).into_iter().collect();
            let besides = Besides { words: &words, calls: Some("- a call") };
            Attempt::after(&past, "do it", prompt, besides).0.prompt
        };
        assert_eq!(told(Some("s"), None), format!("{CUT_OFF}\n\n- a call"));
        assert_eq!(told(Some("s"), Some("and test it")), "and test it\n\n- a call");
        assert_eq!(told(None, None), "do it\n\n- a call");
        assert_eq!(told(None, Some("and test it")), "do it\n\nand test it\n\n- a call");
        let second = Attempt { number: 2, prompt: "go on".to_owned(), resumed: Some("s".to_owned()) };
        let besides = Besides { words: &[], calls: Some("- a call") };
        let third = second.next("go on", Some("s".to_owned()), "do it", besides);
        assert_eq!(third.prompt, "go on\n\n- a call");
    }
}
