//! What the terminal program may not do: it asks our own binary, is refused with a reason, and the turn goes on.

use ostler_agent::agent::{Agent as _, Permissions, Session, Source};
use ostler_agent::agents::ClaudeTerminal;
use ostler_agent::event::{AgentEvent, Blocked, TurnOutcome};

use crate::bare::{Ground, programs};

const SCRIPT: &str = r#"
v = 1
[[conversation]]
[[conversation.step]]
reply = [{ tool = "Bash", arguments = { command = "touch made", description = "makes a file" } }]
[[conversation.step]]
reply = [{ tool = "AskUserQuestion", arguments = { questions = [{ question = "Which colour?", header = "Colour", multiSelect = false, options = [{ label = "Red", description = "r" }, { label = "Blue", description = "b" }] }] } }]
[[conversation.step]]
reply = [{ text = "I went on." }]
"#;

/// What happened in a turn at this level, and whether the file was made.
async fn played(program: &std::path::Path, permissions: Permissions) -> (Vec<AgentEvent>, bool) {
    let ground = Ground::of(&ClaudeTerminal, SCRIPT).await;
    let id = uuid::Uuid::new_v4().to_string();
    let records = ground.turn_on_a_terminal(program, Session::Minted(&id), permissions, "Make it.").await;
    let mut decoder = ClaudeTerminal.decoder(None);
    let events = records.iter().flat_map(|record| decoder.events(Source::Transcript, record)).collect();
    let is_made = ground.workspace().join("made").exists();
    ground.strike().await;
    (events, is_made)
}

#[tokio::test]
async fn what_is_refused_does_not_end_the_turn() {
    for program in programs() {
        for (permissions, is_allowed) in [(Permissions::Deny, false), (Permissions::All, true)] {
            let (events, is_made) = played(&program, permissions).await;
            assert_eq!(is_made, is_allowed, "{}: {events:#?}", program.display());
            let denied = events.iter().filter_map(|event| match event {
                AgentEvent::Blocked(Blocked::Denied { tool, reason }) => {
                    Some((tool.as_str(), reason.as_str()))
                }
                _ => None,
            });
            let command = ("Bash", "this run may only read; go on without it");
            let question = (
                "AskUserQuestion",
                "nobody is there to answer; choose what seems best, say what you chose, and go on",
            );
            let want = if is_allowed { vec![question] } else { vec![command, question] };
            assert_eq!(denied.collect::<Vec<_>>(), want, "{}", program.display());
            let done = AgentEvent::TurnEnded(TurnOutcome::Done { text: "I went on.".to_owned() });
            assert_eq!(events.last(), Some(&done), "{}", program.display());
        }
    }
}
