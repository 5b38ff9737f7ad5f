//! What is said to Claude Code on its standard input: prompts, and the control protocol.

use serde_json::{Value, json};

use crate::agent::{Decision, Order};
use crate::offering;

/// Opens the control protocol. The appended system prompt goes this way because arguments are bounded and anybody on
/// the machine can read them.
pub(super) fn initialize(system_prompt: Option<&str>, offers: bool) -> String {
    let mut request = json!({"subtype": "initialize"});
    if offers {
        request["sdkMcpServers"] = json!([offering::SERVER]);
    }
    if let Some(system_prompt) = system_prompt {
        request["appendSystemPrompt"] = json!(system_prompt);
    }
    request_line("ostler-initialize", &request)
}

/// The line for a prompt.
pub(super) fn prompt(text: &str) -> String {
    content(&json!(text))
}

/// The line for a prompt that is more than words.
fn content(content: &Value) -> String {
    json!({"type": "user", "message": {"role": "user", "content": content}}).to_string()
}

/// The line for an order.
pub(super) fn line(order: &Order) -> String {
    match order {
        Order::Prompt(text) => prompt(text),
        Order::Content(blocks) => content(blocks),
        Order::Interrupt => request_line("ostler-interrupt", &json!({"subtype": "interrupt"})),
        Order::End => request_line("ostler-end", &json!({"subtype": "end_session"})),
        Order::Answer { request, decision } => {
            let answer = match decision {
                Decision::Allow(input) => json!({"behavior": "allow", "updatedInput": input}),
                Decision::Deny(reason) => json!({"behavior": "deny", "message": reason}),
            };
            answer_line(request, &answer)
        }
        Order::Routed { request, message } => answer_line(request, &json!({"mcp_response": message})),
    }
}

fn answer_line(request: &str, answer: &Value) -> String {
    let response = json!({"subtype": "success", "request_id": request, "response": answer});
    json!({"type": "control_response", "response": response}).to_string()
}

fn request_line(id: &str, request: &Value) -> String {
    json!({"type": "control_request", "request_id": id, "request": request}).to_string()
}
