//! The rollout file that Codex keeps of a thread. Only the records that tell what was said are written; the real one
//! has many more.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::clock;

/// A rollout under way.
#[derive(Debug)]
pub(super) struct Rollout {
    path: Option<PathBuf>,
    thread: String,
    turn: String,
    ordinal: u64,
}

impl Rollout {
    /// The rollout of a thread below Codex's home: the one it has, or a new one of today.
    pub(super) fn open(
        home: Option<PathBuf>,
        thread: &str,
        cwd: &Path,
        version: &str,
    ) -> anyhow::Result<Self> {
        let turn = Uuid::now_v7().to_string();
        let mut rollout = Self { path: None, thread: thread.to_owned(), turn, ordinal: 0 };
        let Some(home) = home else { return Ok(rollout) };
        let stamp = clock::timestamp();
        let day = stamp.get(..10).unwrap_or_default().replace('-', "/");
        let name =
            format!("rollout-{}-{thread}.jsonl", stamp.get(..19).unwrap_or_default().replace(':', "-"));
        let sessions = home.join("sessions");
        if let Some(path) = find(&sessions, &format!("-{thread}.jsonl")) {
            rollout.ordinal = fs::read_to_string(&path)?.lines().count() as u64;
            rollout.path = Some(path);
        } else {
            rollout.path = Some(sessions.join(day).join(name));
            rollout.append(
                "session_meta",
                json!({
                    "session_id": thread,
                    "id": thread,
                    "timestamp": stamp,
                    "cwd": cwd,
                    "runtime_workspace_roots": [cwd],
                    "originator": "codex_exec",
                    "cli_version": version,
                    "source": "exec",
                    "thread_source": "user",
                    "model_provider": "fake",
                    "base_instructions": {"text": "", "provenance": {"type": "model", "model": "gpt-5.5"}},
                    "history_mode": "paginated",
                    "context_window": {"window_id": Uuid::now_v7().to_string()},
                    "git": {},
                }),
            )?;
        }
        Ok(rollout)
    }

    /// A prompt was accepted.
    pub(super) fn prompt(&mut self, text: &str) -> anyhow::Result<()> {
        let content = json!([{"type": "text", "text": text, "text_elements": []}]);
        let item = json!({"type": "UserMessage", "id": Uuid::now_v7().to_string(), "content": content});
        self.item_completed(item)
    }

    /// Something was said.
    pub(super) fn said(&mut self, text: &str) -> anyhow::Result<()> {
        let content = json!([{"type": "Text", "text": text}]);
        self.item_completed(
            json!({"type": "AgentMessage", "id": Uuid::now_v7().to_string(), "content": content}),
        )
    }

    /// The turn is over.
    pub(super) fn turn_over(&mut self, last_message: Option<&str>) -> anyhow::Result<()> {
        let now = clock::since_epoch().as_secs();
        self.append(
            "event_msg",
            json!({
                "type": "task_complete",
                "root_turn_id": self.turn,
                "turn_id": self.turn,
                "last_agent_message": last_message,
                "started_at": now,
                "completed_at": now,
                "duration_ms": 1,
                "time_to_first_token_ms": 1,
            }),
        )
    }

    fn item_completed(&mut self, item: Value) -> anyhow::Result<()> {
        let now = clock::epoch_ms();
        self.append(
            "event_msg",
            json!({
                "type": "item_completed",
                "thread_id": self.thread,
                "turn_id": self.turn,
                "item": item,
                "started_at_ms": now,
                "completed_at_ms": now,
            }),
        )
    }

    fn append(&mut self, kind: &str, payload: Value) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let place = || format!("could not write {}", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(place)?;
        }
        let record = json!({"timestamp": clock::timestamp(), "ordinal": self.ordinal, "type": kind, "payload": payload});
        self.ordinal += 1;
        let line = format!("{record}\n");
        let open = OpenOptions::new().create(true).append(true).open(path);
        open.and_then(|mut file| file.write_all(line.as_bytes())).with_context(place)
    }
}

/// Looks through the folders of years, months and days.
fn find(folder: &Path, ending: &str) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = find(&path, ending) {
                return Some(found);
            }
        } else if path.to_string_lossy().ends_with(ending) {
            return Some(path);
        }
    }
    None
}
