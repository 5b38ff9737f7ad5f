//! The official client libraries of both providers, unmodified, against `ostler serve` with the real agent.
//!
//! What they are told to do is in `clients/api.py` and `clients/api.mjs`. Conversations are sent back as the libraries'
//! own objects. That a session was found again is told by the processes of the agent and by what the model was told.

mod agents;
mod calling;
mod ground;
mod leaving;
mod program;
mod talking;

use std::time::Duration;

/// A start, a turn and an end take a few seconds; a loaded machine needs many times that.
const DEADLINE: Duration = Duration::from_secs(240);

/// Says back what it is asked; holds in the middle; calls a tool of the agent's own, or of the program's; never ends;
/// breaks off.
const SCRIPT: &str = r#"
v = 1
[[conversation]]
name = "hold"
[[conversation.step]]
expect = { contains = "hold on" }
reply = [{ text = "before [hold] after", chunk = 7 }]

[[conversation]]
name = "look"
[[conversation.step]]
expect = { contains = "look around" }
reply = [{ text = "I look." }, { tool_by_role = "shell", command = "echo rehearsal" }]
[[conversation.step]]
reply = [{ text = "Seen." }]

[[conversation]]
name = "add"
[[conversation.step]]
expect = { contains = "add them up" }
reply = [
    { text = "I add." },
    { tool_by_role = "mcp:program/add", arguments = { a = 1, b = 2 } },
    { tool_by_role = "mcp:program/add", arguments = { a = 3, b = 4 } },
]
[[conversation.step]]
reply = [{ tool_by_role = "mcp:program/add", arguments = { a = 3, b = 7 } }]
[[conversation.step]]
reply = [{ text = "It is {{tool_result}}." }]

[[conversation]]
name = "stall"
[[conversation.step]]
expect = { contains = "never end" }
reply = [{ text = "I was about to say" }, { stall = "mid_text" }]

[[conversation]]
name = "break"
[[conversation.step]]
expect = { contains = "break off" }
reply = [{ text = "half of it" }, { cut = "mid_text" }]

[[conversation]]
name = "refuse"
[[conversation.step]]
expect = { contains = "would you" }
reply = [{ text = "I would not." }, { stop_reason = "refusal" }]

[[conversation]]
name = "echo"
[[conversation.step]]
reply = [{ text = "{{prompt}}!", chunk = 3 }]
"#;

/// One test for each library and API, named after it.
macro_rules! for_every_library {
    ($($(#[$note:meta])* async fn $name:ident($library:ident: Library) $body:block)*) => {$(
        $(#[$note])*
        mod $name {
            use super::*;

            async fn with(language: Language, api: Api) {
                let $library = Library { language, api };
                $body
            }

            #[tokio::test]
            async fn python_messages() {
                with(Language::Python, Api::Messages).await;
            }
            #[tokio::test]
            async fn python_chat() {
                with(Language::Python, Api::Chat).await;
            }
            #[tokio::test]
            async fn python_responses() {
                with(Language::Python, Api::Responses).await;
            }
            #[tokio::test]
            async fn javascript_messages() {
                with(Language::JavaScript, Api::Messages).await;
            }
            #[tokio::test]
            async fn javascript_chat() {
                with(Language::JavaScript, Api::Chat).await;
            }
            #[tokio::test]
            async fn javascript_responses() {
                with(Language::JavaScript, Api::Responses).await;
            }
        }
    )*};
}
use for_every_library;
