//! Codex's stream: one record a finished item, no pieces.

use serde_json::{Map, Value, json};

use super::rollout::Rollout;
use crate::dialect::{Answer, Call, Ending, Outcome, Speech, Voice};
use crate::play::pause;
use crate::script::Tokens;
use crate::stage::{Input, Played, Stage, Stop};

/// The words of the recorded usage limit.
const LIMIT_WORDS: &str = "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit \
                           https://chatgpt.com/settings/usage to purchase more credits or try again at \
                           Nov 18th, 2026 11:06 AM.";
/// What one request is said to use, as in the recordings.
const ROUND: Tokens = Tokens { input: 1200, output: 50 };

/// One thread in one `exec`.
pub(super) struct Exec {
    pub(super) thread: String,
    pub(super) json: bool,
    pub(super) rollout: Rollout,
    /// Used by the whole thread: what Codex reports is never the turn's own share.
    pub(super) used: Tokens,
    pub(super) failed: bool,
    pub(super) last_message: Option<String>,
    items: u64,
    open_item: u64,
}

impl Exec {
    pub(super) fn new(thread: String, json: bool, rollout: Rollout, used: Tokens) -> Self {
        Self { thread, json, rollout, used, failed: false, last_message: None, items: 0, open_item: 0 }
    }

    async fn emit(&self, stage: &mut Stage, record: &Value) -> Played {
        if self.json { stage.record(record).await } else { Ok(()) }
    }

    async fn item(&mut self, stage: &mut Stage, mut item: Value) -> Played {
        item["id"] = self.next_item().into();
        self.emit(stage, &json!({"type": "item.completed", "item": item})).await
    }

    fn next_item(&mut self) -> String {
        let id = format!("item_{}", self.items);
        self.items += 1;
        id
    }

    fn spend(&mut self) {
        self.used = Tokens { input: self.used.input + ROUND.input, output: self.used.output + ROUND.output };
    }

    async fn fail(&mut self, stage: &mut Stage, message: &str) -> Played {
        self.failed = true;
        self.emit(stage, &json!({"type": "error", "message": message})).await?;
        if !self.json {
            stage.complain(&format!("ERROR: {message}")).await?;
        }
        self.emit(stage, &json!({"type": "turn.failed", "error": {"message": message}})).await
    }
}

/// A call as the item it is reported as, before it has ended.
fn item_of(call: &Call) -> Value {
    if let Some((server, tool)) = call.mcp() {
        return json!({
            "type": "mcp_tool_call",
            "server": server,
            "tool": tool,
            "arguments": call.arguments,
            "result": null,
            "error": null,
            "status": "in_progress",
        });
    }
    if let Some(path) = call.written_file() {
        let kind = if call.tool == "Edit" { "update" } else { "add" };
        return json!({
            "type": "file_change",
            "changes": [{"path": path, "kind": kind}],
            "status": "in_progress",
        });
    }
    json!({
        "type": "command_execution",
        "command": format!("/bin/bash -lc '{}'", call.title()),
        "aggregated_output": "",
        "exit_code": null,
        "status": "in_progress",
    })
}

fn finish(item: &mut Value, outcome: &Outcome) {
    let (status, output, code) = match outcome {
        Outcome::Done { output } => ("completed", output, 0),
        Outcome::Failed { output, exit_code } => ("failed", output, exit_code.unwrap_or(1)),
        Outcome::Denied { reason } => ("failed", reason, 1),
    };
    item["status"] = status.into();
    match item["type"].as_str() {
        Some("command_execution") => {
            item["aggregated_output"] = output.as_str().into();
            item["exit_code"] = code.into();
        }
        Some("mcp_tool_call") => match outcome {
            Outcome::Denied { reason } => item["error"] = json!({"message": reason}),
            Outcome::Done { .. } | Outcome::Failed { .. } => {
                let content = json!([{"type": "text", "text": output}]);
                item["result"] = json!({"content": content, "structured_content": null});
            }
        },
        _ => {}
    }
}

impl Voice for Exec {
    async fn begin(&mut self, stage: &mut Stage, prompt: &str) -> Played {
        self.rollout.prompt(prompt)?;
        self.emit(stage, &json!({"type": "thread.started", "thread_id": self.thread})).await?;
        self.emit(stage, &json!({"type": "turn.started"})).await
    }

    async fn say(&mut self, stage: &mut Stage, speech: &Speech) -> Played {
        for _ in speech.pieces().iter().skip(1) {
            if !speech.gap.is_zero() {
                pause(self, stage, Some(speech.gap)).await?;
            }
        }
        self.last_message = Some(speech.text.clone());
        self.rollout.said(&speech.text)?;
        self.item(stage, json!({"type": "agent_message", "text": speech.text})).await
    }

    async fn think(&mut self, stage: &mut Stage, text: &str) -> Played {
        self.item(stage, json!({"type": "reasoning", "text": text})).await
    }

    async fn open_call(&mut self, stage: &mut Stage, call: &Call) -> Played {
        self.spend();
        self.open_item = self.items;
        let mut item = item_of(call);
        item["id"] = self.next_item().into();
        self.emit(stage, &json!({"type": "item.started", "item": item})).await
    }

    async fn ask(&mut self, _stage: &mut Stage, _call: &Call) -> Played<Answer> {
        // `exec` never asks: what would need an answer is refused.
        let reason = "MCP tool call requires approval, but approval policy is never".to_owned();
        Ok(Answer::Denied { reason })
    }

    async fn close_call(&mut self, stage: &mut Stage, call: &Call, outcome: &Outcome) -> Played {
        let mut item = item_of(call);
        item["id"] = format!("item_{}", self.open_item).into();
        finish(&mut item, outcome);
        self.emit(stage, &json!({"type": "item.completed", "item": item})).await
    }

    async fn end(&mut self, stage: &mut Stage, ending: &Ending) -> Played {
        match ending {
            Ending::Normal { usage } => {
                self.spend();
                if let Some(usage) = usage {
                    self.used = *usage;
                }
                self.rollout.turn_over(self.last_message.as_deref())?;
                let usage = json!({
                    "input_tokens": self.used.input,
                    "cached_input_tokens": 0,
                    "cache_write_input_tokens": 0,
                    "output_tokens": self.used.output,
                    "reasoning_output_tokens": 0,
                });
                self.emit(stage, &json!({"type": "turn.completed", "usage": usage})).await?;
                match &self.last_message {
                    Some(text) if !self.json => stage.write(format!("{text}\n").into_bytes()).await,
                    _ => Ok(()),
                }
            }
            Ending::Failure { message, .. } => {
                let words = message.as_deref().unwrap_or("stream disconnected before completion");
                self.fail(stage, words).await
            }
            Ending::Limit { words } => self.fail(stage, words.as_deref().unwrap_or(LIMIT_WORDS)).await,
        }
    }

    async fn interrupted(&mut self, _stage: &mut Stage) -> Played {
        // SIGINT is the only interrupt it knows: no record, exit code 1.
        Err(Stop::Exit(1))
    }

    async fn unknown(&mut self, stage: &mut Stage, kind: &str, body: &Map<String, Value>) -> Played {
        let mut record = Value::Object(body.clone());
        record["type"] = kind.into();
        self.emit(stage, &record).await
    }

    fn line(&mut self, text: &str) -> Vec<u8> {
        let item = json!({"id": self.next_item(), "type": "agent_message", "text": text});
        format!("{}\n", json!({"type": "item.completed", "item": item})).into_bytes()
    }

    async fn hear(&mut self, _stage: &mut Stage, input: Input) -> Played {
        match input {
            Input::Interrupt => Err(Stop::Interrupted),
            Input::Heard(_) | Input::Closed | Input::Elapsed => Ok(()),
        }
    }

    async fn trust(&mut self, stage: &mut Stage) -> Played {
        let words = "Not inside a trusted directory and --skip-git-repo-check was not specified.";
        stage.complain(words).await?;
        Err(Stop::Exit(1))
    }
}
