//! What Claude Code asks by calling a program: a `PermissionRequest` hook that calls our own binary, which answers as the
//! permission level says. A refusal reaches the model as the tool's error and the turn goes on, while the same refusal on
//! the screen would end the turn. Seen on 2.1.197 and 2.1.325 for commands, files, pages and questions.
//!
//! If it cannot be called, or says nothing, the dialog is on the screen as ever.

use std::path::Path;

use serde_json::{Value, json};

use crate::agent::{Decision, Order, Permissions};
use crate::agents::reading::{items, text};
use crate::event::Blocked;
use crate::policy;

/// The word on the command line with which our binary is called.
pub(crate) const COMMAND: &str = "__hook";

/// How long Claude Code waits, in seconds. The answer takes milliseconds; a loaded machine may need longer.
const PATIENCE: u64 = 30;

/// The settings that make Claude Code ask the program at `answerer`.
pub(super) fn settings(answerer: &Path, permissions: Permissions) -> Value {
    let program = quoted(&answerer.display().to_string());
    let command = format!("{program} {COMMAND} claude {}", permissions.name());
    let hook = json!({"type": "command", "command": command, "timeout": PATIENCE});
    json!({"PermissionRequest": [{"matcher": "*", "hooks": [hook]}]})
}

/// The answer to what Claude Code wrote to the program: nothing if it is no question that policy answers.
pub(super) fn answer(input: &[u8], permissions: Permissions) -> Option<String> {
    let input: Value = serde_json::from_slice(input).ok()?;
    let Some(Order::Answer { decision, .. }) = policy::answer(permissions, &question(&input)?) else {
        return None;
    };
    let decision = match decision {
        Decision::Allow(_) => json!({"behavior": "allow"}),
        Decision::Deny(why) => json!({"behavior": "deny", "message": why}),
    };
    let output = json!({"hookEventName": "PermissionRequest", "decision": decision});
    Some(json!({"hookSpecificOutput": output}).to_string())
}

fn question(input: &Value) -> Option<Blocked> {
    if input["hook_event_name"] != "PermissionRequest" {
        return None;
    }
    let (tool, asked) = (text(&input["tool_name"]), &input["tool_input"]);
    Some(match tool.as_str() {
        "" => return None,
        // Not a matter of permission: allowed, it would wait for a person.
        "AskUserQuestion" => {
            let questions = items(&asked["questions"]).iter().map(|question| text(&question["question"]));
            Blocked::Question { request: String::new(), text: questions.collect::<Vec<_>>().join(" ") }
        }
        _ => Blocked::Permission { request: String::new(), tool, input: asked.clone() },
    })
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(input: &Value, permissions: Permissions) -> Value {
        let answer = answer(input.to_string().as_bytes(), permissions);
        let answer: Value = answer.and_then(|answer| serde_json::from_str(&answer).ok()).unwrap_or_default();
        answer["hookSpecificOutput"]["decision"].clone()
    }

    #[test]
    fn a_question_is_answered_by_the_permission_level() {
        let asks = |tool: &str| {
            json!({"hook_event_name": "PermissionRequest", "tool_name": tool, "tool_input": {"command": "rm x",
                "questions": [{"question": "Which colour?"}]}})
        };
        let table = [
            ("Bash", Permissions::All, "allow", ""),
            ("Bash", Permissions::Edits, "deny", "may only change files"),
            ("Write", Permissions::Deny, "deny", "may only read"),
            ("AskUserQuestion", Permissions::All, "deny", "nobody is there"),
            ("AskUserQuestion", Permissions::Deny, "deny", "nobody is there"),
        ];
        for (tool, permissions, behavior, words) in table {
            let decision = decided(&asks(tool), permissions);
            assert_eq!(decision["behavior"], behavior, "{tool} {permissions:?}");
            assert!(text(&decision["message"]).contains(words), "{tool} {permissions:?}: {decision}");
        }
    }

    #[test]
    fn what_is_no_question_gets_no_answer() {
        for input in
            ["", "{", "[]", r#"{"hook_event_name":"Stop"}"#, r#"{"hook_event_name":"PermissionRequest"}"#]
        {
            assert_eq!(answer(input.as_bytes(), Permissions::All), None, "{input}");
        }
    }

    #[test]
    fn a_path_is_one_word_for_the_shell() {
        let settings = settings(Path::new("/o'brien s/ostler"), Permissions::Edits);
        let command = &settings["PermissionRequest"][0]["hooks"][0]["command"];
        assert_eq!(command, r"'/o'\''brien s/ostler' __hook claude edits");
    }
}
