//! The message under way, as its pieces tell it: whether it calls tools of whoever asked, and what it took. The end of
//! such a message is the end of what is told: the agent waits then, and its own result comes after all calls.

use serde_json::Value;

use crate::event::{AgentEvent, Usage};
use crate::offering;

#[derive(Debug, Default)]
pub(super) struct UnderWay {
    calls: bool,
    /// What the messages of this turn took since that was last told.
    spent: Usage,
    /// What this message has written, as it was last told.
    output: u64,
}

impl UnderWay {
    /// A block of the message.
    pub(super) fn hear(&mut self, event: &AgentEvent) {
        if let AgentEvent::ToolStarted { tool, within: None, .. } = event {
            self.calls |= offering::named(tool).is_some();
        }
    }

    /// A piece of it. At the end of a message that calls such tools: what was spent so far.
    pub(super) fn piece(&mut self, event: &Value) -> Option<Usage> {
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                let usage = &event["message"]["usage"];
                let cached = number(&usage["cache_read_input_tokens"]);
                let input = number(&usage["input_tokens"])
                    .saturating_add(cached)
                    .saturating_add(number(&usage["cache_creation_input_tokens"]));
                add(&mut self.spent.input_tokens, input);
                add(&mut self.spent.cached_tokens, cached);
                (self.calls, self.output) = (false, number(&usage["output_tokens"]));
            }
            "message_delta" => {
                self.output = event["usage"]["output_tokens"].as_u64().unwrap_or(self.output);
            }
            "message_stop" => {
                add(&mut self.spent.output_tokens, std::mem::take(&mut self.output));
                if std::mem::take(&mut self.calls) {
                    return Some(std::mem::take(&mut self.spent));
                }
            }
            _ => {}
        }
        None
    }

    /// The turn is over, and all of it was told.
    pub(super) fn over(&mut self) {
        *self = Self::default();
    }
}

fn add(sum: &mut Option<u64>, more: u64) {
    *sum = Some(sum.unwrap_or(0).saturating_add(more));
}
