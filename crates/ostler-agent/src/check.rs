//! Checks: what the host itself tries after an agent's claim, and what the agent is told when it fails.

use serde::{Deserialize, Serialize};

use crate::completion::{Evidence, Grade};

/// Something about a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CheckEvent {
    /// It was begun.
    Running {
        /// The command.
        command: String,
    },
    /// It is over.
    Ended(Checked),
}

/// A check that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// The command.
    pub command: String,
    /// Whether it exited with 0.
    pub passed: bool,
    /// Its code, if it ended by itself.
    pub exit_code: Option<i32>,
    /// How it ended, if not by itself.
    pub trouble: Option<String>,
    /// How long it took.
    pub ms: u64,
    /// The end of what it printed.
    pub tail: String,
    /// All of what it printed: a file in the run's folder.
    pub output: Option<String>,
}

impl Checked {
    /// That it passed, as evidence.
    pub fn evidence(&self) -> Evidence {
        Evidence { fact: format!("`{}` {}", self.command, self.end()), grade: Grade::Checked }
    }

    /// That it failed, as something that is missing.
    pub fn missing(&self) -> String {
        format!("the check `{}`, which {}", self.command, self.end())
    }

    /// How it ended.
    pub fn end(&self) -> String {
        match (&self.trouble, self.exit_code) {
            (Some(trouble), _) => trouble.clone(),
            (None, Some(code)) => format!("exited with code {code}"),
            (None, None) => "ended, nobody knows how".to_owned(),
        }
    }
}

/// What a session is resumed with whose claim did not hold. `declare` is the tool that declares completion, if the agent
/// has one.
pub fn going_on<'a>(failed: impl Iterator<Item = &'a Checked>, declare: Option<&str>) -> String {
    let mut text = "You said that the task is done, but what was then checked is not so.".to_owned();
    for check in failed {
        text.push_str(&format!("\n\n$ {}\n", check.command));
        match check.tail.trim_end() {
            "" => text.push_str("(it printed nothing)\n"),
            tail => {
                text.push_str(tail);
                text.push('\n');
            }
        }
        text.push_str(&format!("It {}.", check.end()));
    }
    text.push_str("\n\nMend what is wrong, not the check.");
    if let Some(declare) = declare {
        text.push_str(&format!(" When it holds, call `{declare}` again."));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, exit_code: Option<i32>, trouble: Option<&str>, tail: &str) -> Checked {
        Checked {
            command: command.to_owned(),
            passed: exit_code == Some(0),
            exit_code,
            trouble: trouble.map(str::to_owned),
            ms: 1_200,
            tail: tail.to_owned(),
            output: None,
        }
    }

    #[test]
    fn an_agent_is_told_what_failed_and_how() {
        let failed = [
            check("cargo test", Some(101), None, "test a ... FAILED\n\n"),
            check("./slow", None, Some("was not done within 30 min"), ""),
        ];
        insta::assert_snapshot!(going_on(failed.iter(), Some("mcp__ostler__declare_complete")));
        assert!(!going_on(failed.iter(), None).contains("call `"));
    }

    #[test]
    fn a_check_that_passed_outranks_all_other_evidence() {
        let passed = check("cargo test", Some(0), None, "");
        assert_eq!(passed.evidence().fact, "`cargo test` exited with code 0");
        assert!(passed.evidence().grade > Grade::Wire);
    }
}
