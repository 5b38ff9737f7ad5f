//! The transcript that Claude Code keeps of a session: one JSON record a line, chained by `parentUuid`.
//!
//! Blocks of a message are written when the message is whole, because their records state how it stopped. The same
//! file serves the stream and the terminal; only the terminal states the end of a turn.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::home::Entrypoint;
use super::message::Message;
use crate::clock;

/// A transcript under way.
#[derive(Debug)]
pub(crate) struct Transcript {
    path: Option<PathBuf>,
    session: String,
    cwd: PathBuf,
    version: String,
    entrypoint: Entrypoint,
    leaf: Value,
    prompt_id: String,
    records_of_turn: u64,
    last_tool_use: Value,
}

/// Why a turn was cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupted {
    WhileTalking,
    DuringToolUse,
}

impl Interrupted {
    /// The words that stand for the person's act.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::WhileTalking => "[Request interrupted by user]",
            Self::DuringToolUse => "[Request interrupted by user for tool use]",
        }
    }
}

impl Transcript {
    pub(crate) fn new(
        path: Option<PathBuf>,
        session: &str,
        cwd: &Path,
        version: &str,
        entrypoint: Entrypoint,
    ) -> Self {
        let leaf = path.as_deref().and_then(last_uuid).map_or(Value::Null, Value::String);
        Self {
            path,
            session: session.to_owned(),
            cwd: cwd.to_owned(),
            version: version.to_owned(),
            entrypoint,
            leaf,
            prompt_id: String::new(),
            records_of_turn: 0,
            last_tool_use: Value::Null,
        }
    }

    /// A prompt was accepted.
    pub(crate) fn prompt(&mut self, id: &str, text: &str, permission_mode: &str) -> anyhow::Result<()> {
        let is_new = self.path.as_ref().is_some_and(|path| !path.exists());
        self.records_of_turn = 0;
        self.prompt_id = Uuid::new_v4().to_string();
        if self.entrypoint == Entrypoint::Sdk {
            self.queue("enqueue", Some(text))?;
            self.queue("dequeue", None)?;
        }
        if is_new {
            self.append(json!({"type": "mode", "mode": "normal", "sessionId": self.session}))?;
            let mode = json!({"type": "permission-mode", "permissionMode": permission_mode, "sessionId": self.session});
            self.append(mode)?;
        }
        self.append(json!({
            "type": "file-history-snapshot",
            "messageId": id,
            "snapshot": {"messageId": id, "trackedFileBackups": {}, "timestamp": clock::timestamp()},
            "isSnapshotUpdate": false,
        }))?;
        let source = if self.entrypoint == Entrypoint::Sdk { "sdk" } else { "typed" };
        self.chain(
            id,
            json!({
                "type": "user",
                "promptId": self.prompt_id,
                "message": {"role": "user", "content": text},
                "permissionMode": permission_mode,
                "origin": {"kind": "human"},
                "promptSource": source,
            }),
        )
    }

    /// A message of the model is whole.
    pub(crate) fn message(&mut self, message: &Message, stop_reason: &str) -> anyhow::Result<()> {
        for (nth, block) in message.blocks.iter().enumerate() {
            let id = message.printed.get(nth).cloned().unwrap_or_else(new_id);
            if block["type"] == "tool_use" {
                self.last_tool_use = id.clone().into();
            }
            let record = json!({
                "type": "assistant",
                "message": message.kept(block, stop_reason),
                "requestId": message.request,
            });
            self.chain(&id, record)?;
        }
        Ok(())
    }

    /// A tool's answer.
    pub(crate) fn tool_result(&mut self, id: &str, block: &Value, result: &Value) -> anyhow::Result<()> {
        let record = json!({
            "type": "user",
            "promptId": self.prompt_id,
            "message": {"role": "user", "content": [block]},
            "toolUseResult": result,
            "sourceToolAssistantUUID": self.last_tool_use,
        });
        self.chain(id, record)
    }

    /// A failed request, as the message that stands for it.
    pub(crate) fn failure(
        &mut self,
        id: &str,
        message: Value,
        error: &str,
        status: Option<u16>,
    ) -> anyhow::Result<()> {
        let record = json!({
            "type": "assistant",
            "message": message,
            "requestId": super::message::request_id(),
            "error": error,
            "isApiErrorMessage": true,
            "apiErrorStatus": status,
        });
        self.chain(id, record)
    }

    /// The turn was interrupted.
    pub(crate) fn interrupted(&mut self, how: Interrupted, message: Option<&str>) -> anyhow::Result<()> {
        let mut record = json!({
            "type": "user",
            "promptId": self.prompt_id,
            "message": {"role": "user", "content": [{"type": "text", "text": how.words()}]},
        });
        if let Some(message) = message {
            record["interruptedMessageId"] = message.into();
        }
        self.chain(&Uuid::new_v4().to_string(), record)
    }

    /// The turn is over. Only a terminal session says so.
    pub(crate) fn turn_over(&mut self, lasted: Duration) -> anyhow::Result<()> {
        if self.entrypoint == Entrypoint::Sdk {
            return Ok(());
        }
        let record = json!({
            "type": "system",
            "subtype": "turn_duration",
            "durationMs": clock::whole_ms(lasted),
            "messageCount": self.records_of_turn,
            "isMeta": false,
        });
        self.chain(&Uuid::new_v4().to_string(), record)
    }

    /// A record of a kind that nobody has heard of.
    pub(crate) fn unknown(&mut self, kind: &str, body: &Map<String, Value>) -> anyhow::Result<()> {
        let mut record = Value::Object(body.clone());
        record["type"] = kind.into();
        self.chain(&Uuid::new_v4().to_string(), record)
    }

    fn queue(&self, operation: &str, content: Option<&str>) -> anyhow::Result<()> {
        let mut record = json!({
            "type": "queue-operation",
            "operation": operation,
            "timestamp": clock::timestamp(),
            "sessionId": self.session,
        });
        if let Some(content) = content {
            record["content"] = content.into();
        }
        self.append(record)
    }

    fn chain(&mut self, id: &str, mut record: Value) -> anyhow::Result<()> {
        record["parentUuid"] = std::mem::replace(&mut self.leaf, id.into());
        record["isSidechain"] = false.into();
        record["uuid"] = id.into();
        record["timestamp"] = clock::timestamp().into();
        record["userType"] = "external".into();
        record["entrypoint"] = self.entrypoint.name().into();
        record["cwd"] = self.cwd.to_string_lossy().into();
        record["sessionId"] = self.session.clone().into();
        record["version"] = self.version.clone().into();
        record["gitBranch"] = "HEAD".into();
        self.records_of_turn += 1;
        self.append(record)
    }

    fn append(&self, record: Value) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let place = || format!("could not write {}", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(place)?;
        }
        let mut line = serde_json::to_vec(&record)?;
        line.push(b'\n');
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(&line))
            .with_context(place)
    }
}

/// An id for a record that is printed nowhere else.
pub(crate) fn new_id() -> String {
    Uuid::new_v4().to_string()
}

/// The prompts of a transcript, whoever wrote it: a session can be continued from seeded history.
pub(crate) fn prompts_in(path: &Path) -> Vec<String> {
    records(path)
        .filter(|record| record["type"] == "user")
        .filter_map(|record| record["message"]["content"].as_str().map(str::to_owned))
        .collect()
}

fn last_uuid(path: &Path) -> Option<String> {
    records(path).filter_map(|record| record["uuid"].as_str().map(str::to_owned)).last()
}

fn records(path: &Path) -> impl Iterator<Item = Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let records: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    records.into_iter()
}
