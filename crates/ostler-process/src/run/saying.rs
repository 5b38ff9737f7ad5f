//! What somebody says to an agent. One that does not listen while it works is told in a further turn. Words count as told
//! once the agent's session has them: what a process was given that died before reaches the next one.

use ostler_agent::completion::{Cause, Decision};
use ostler_agent::event::AgentEvent;
use ostler_agent::run_event::RunEventKind;

use super::Run;
use super::requests::{Said, Unsaid};
use super::round;
use crate::journal::JournalError;

/// Sayings that may wait for the end of a turn. Whoever says more is refused: somebody repeats himself.
const MOST_QUEUED: usize = 16;

/// Processes that are given the same words. An agent may record them in another form, a command for example: then its
/// session never seems to have them.
const MOST_GIVEN: usize = 3;

/// What was said to the agent of a run besides its task, by how far it came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sayings {
    /// The session has it.
    told: Vec<String>,
    /// The process that runs was given it.
    given: Vec<Given>,
    /// It waits for the end of a turn.
    queued: Vec<String>,
    /// Words that a process was given and its session did not have, once for each such process.
    missed: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Given {
    text: String,
    way: Way,
    /// Whether the process has shown that it received it.
    is_received: bool,
}

/// How words are given to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// In the prompt that it is started with.
    Prompt,
    /// While it works.
    Pipe,
}

impl Sayings {
    /// Puts words where they wait for the next prompt.
    pub(crate) fn queue(&mut self, text: String) {
        self.queued.push(text);
    }

    pub(super) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Words that a living process is given.
    pub(super) fn give_now(&mut self, text: String) {
        self.given.push(Given { text, way: Way::Pipe, is_received: false });
    }

    /// The words that the next process is to be given with its prompt. A new session knows nothing of what was said.
    pub(crate) fn give(&mut self, session: Option<&str>) -> Vec<String> {
        if session.is_none() {
            self.queued.splice(..0, std::mem::take(&mut self.told));
        }
        let words = std::mem::take(&mut self.queued);
        let given = |text: &String| Given { text: text.clone(), way: Way::Prompt, is_received: false };
        self.given.extend(words.iter().map(given));
        words
    }

    /// Notes what the agent shows that it has received: it repeats a prompt, or works on the one it was started with.
    pub(crate) fn on_event(&mut self, event: &AgentEvent) {
        for given in &mut self.given {
            given.is_received |= match (event, given.way) {
                (AgentEvent::Asked { text }, _) => has_words(text, &given.text),
                (
                    AgentEvent::Said { within: None, .. }
                    | AgentEvent::Thought { .. }
                    | AgentEvent::ToolStarted { within: None, .. },
                    Way::Prompt,
                ) => true,
                _ => false,
            };
        }
    }

    /// The process has ended. Words that its session does not have wait for the next one, before all that was said
    /// later. Where its record cannot be read (`None`), what the process showed decides.
    pub(crate) fn settle(&mut self, has_words: impl Fn(&str) -> Option<bool>) {
        let mut lost = Vec::new();
        for given in std::mem::take(&mut self.given) {
            let times = self.missed.iter().filter(|missed| **missed == given.text).count() + 1;
            let is_told = has_words(&given.text).unwrap_or(given.is_received) || times >= MOST_GIVEN;
            if !is_told {
                self.missed.push(given.text.clone());
            }
            if is_told { &mut self.told } else { &mut lost }.push(given.text);
        }
        self.queued.splice(..0, lost);
    }
}

/// Whether a prompt has these words, however its lines are broken.
pub(super) fn has_words(prompt: &str, words: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    plain(prompt).contains(&plain(words))
}

impl Run<'_> {
    /// Keeps it for a further turn, if the agent has sessions that can be gone on with.
    pub(super) fn queue(&mut self, text: String) -> Result<Result<Said, Unsaid>, JournalError> {
        if !self.plan.agent.writes_records() {
            return Ok(Err(Unsaid::Deaf));
        }
        if self.sayings.queued.len() >= MOST_QUEUED {
            return Ok(Err(Unsaid::Full));
        }
        self.desk.tell(RunEventKind::Queued { text: text.clone() })?;
        self.sayings.queue(text);
        Ok(Ok(Said::NextTurn))
    }

    /// A process has ended: finds out which words its session has.
    pub(super) fn settle_sayings(&mut self) {
        let given: Vec<&str> = self.sayings.given.iter().map(|given| given.text.as_str()).collect();
        if given.is_empty() {
            return;
        }
        let known = self.session.as_ref().and_then(|session| round::known_words(self.plan, session, &given));
        self.sayings.settle(|text| known.as_ref().map(|known| known.contains(text)));
    }

    /// What becomes of the run with what waits to be said. That it is done was claimed before that was heard.
    pub(super) fn hear_out(&mut self, decision: Decision) -> Result<Decision, JournalError> {
        if !self.sayings.has_queued() {
            return Ok(decision);
        }
        let may_go_on = self.requests.stop.is_none()
            && self.ledger.forbids_a_turn().is_none()
            && self.resumable().is_some();
        match decision {
            Decision::Complete { .. } if may_go_on => {
                self.resumes = self.resumes.saturating_add(1);
                Ok(Decision::Resume { prompt: String::new(), missing: Vec::new(), cause: Cause::Said })
            }
            goes_on @ (Decision::Resume { .. } | Decision::Park { .. }) => Ok(goes_on),
            over @ (Decision::Complete { .. } | Decision::Outcome(_)) => {
                let words = self.sayings.queued.join("\n\n");
                let text = format!("the run is over, and its agent was never told: {words}");
                self.desk.tell(RunEventKind::Warn { text })?;
                Ok(over)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ostler_agent::event::Part;

    use super::*;

    fn asked(text: &str) -> AgentEvent {
        AgentEvent::Asked { text: text.to_owned() }
    }

    fn work() -> AgentEvent {
        AgentEvent::Said { text: "x".to_owned(), part: Part::Whole, within: None }
    }

    fn sayings(queued: &[&str]) -> Sayings {
        let mut sayings = Sayings::default();
        queued.iter().for_each(|text| sayings.queue((*text).to_owned()));
        sayings
    }

    #[test]
    fn words_reach_one_process_once() {
        let mut sayings = sayings(&["be quick", "be kind"]);
        assert_eq!(sayings.give(Some("s")), ["be quick", "be kind"]);
        sayings.on_event(&asked("Go on.\n\nbe\nquick\n\nbe kind"));
        sayings.settle(|_| None);
        assert!(sayings.give(Some("s")).is_empty());
    }

    #[test]
    fn words_that_no_session_ever_has_are_not_given_for_ever() {
        let mut sayings = sayings(&["/compact"]);
        for _ in 0..MOST_GIVEN {
            assert_eq!(sayings.give(Some("s")), ["/compact"]);
            sayings.settle(|_| Some(false));
        }
        assert!(!sayings.has_queued());
    }

    #[test]
    fn words_that_a_dead_process_was_given_reach_the_next_one() {
        let mut sayings = sayings(&["be quick"]);
        assert_eq!(sayings.give(None), ["be quick"]);
        sayings.give_now("be kind".to_owned());
        sayings.settle(|_| None);
        sayings.queue("be brief".to_owned());
        assert_eq!(sayings.give(None), ["be quick", "be kind", "be brief"]);
    }

    #[test]
    fn work_shows_that_a_prompt_was_received_and_not_what_was_said_meanwhile() {
        let mut sayings = sayings(&["be quick"]);
        sayings.give(Some("s"));
        sayings.give_now("be kind".to_owned());
        sayings.on_event(&work());
        sayings.settle(|_| None);
        assert_eq!(sayings.give(Some("s")), ["be kind"]);
    }

    /// An agent may repeat a prompt, and be killed before it has written it down.
    #[test]
    fn the_record_of_the_session_decides_where_it_can_be_read() {
        let mut sayings = sayings(&["be quick", "be kind"]);
        sayings.give(Some("s"));
        sayings.on_event(&asked("be quick be kind"));
        sayings.settle(|text| Some(text == "be kind"));
        assert_eq!(sayings.give(Some("s")), ["be quick"]);
    }

    #[test]
    fn a_new_session_is_told_everything_again() {
        let mut sayings = sayings(&["be quick"]);
        sayings.give(Some("s"));
        sayings.settle(|_| Some(true));
        sayings.queue("be kind".to_owned());
        assert_eq!(sayings.give(None), ["be quick", "be kind"]);
    }
}
