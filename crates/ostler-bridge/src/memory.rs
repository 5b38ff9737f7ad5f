//! Memory as tools of MCP, on standard input and output: one line of JSON each way, no task, no socket, so that it is
//! there within milliseconds. What it tells is quoted: whoever said it, it is data for whoever reads it now.

mod calls;
mod tools;
mod warm;

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use ostler_memory::place::Place;
use rmcp::model::{JsonObject, Tool as Listing};
use serde_json::{Value, json};

use crate::route::locked;
use crate::tools::Said;

/// Versions of the protocol that are spoken; the newest is offered to whoever asks for another.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Longest message: a tool's arguments are kilobytes.
const LONGEST: u64 = 4 * 1024 * 1024;

const METHOD_NOT_FOUND: i64 = -32_601;
const INVALID: i64 = -32_602;
const GARBLED: i64 = -32_700;

/// Memory, for whoever connects.
#[derive(Debug)]
pub struct MemoryServer {
    place: Place,
    /// The project that is preferred.
    project: String,
    warm: Mutex<warm::Warm>,
}

impl MemoryServer {
    /// Of this place. `cwd` is where the agent works: its project is preferred.
    pub fn new(place: Place, cwd: &std::path::Path) -> Self {
        let cwd: PathBuf = std::fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
        let project = ostler_memory::project::of(&cwd.display().to_string());
        Self { place, project, warm: Mutex::default() }
    }

    /// Answers until the input ends. A line that is no message gets an error, and the next one is read.
    pub fn serve(&self, input: impl BufRead, output: impl Write) -> io::Result<()> {
        let (serving, ended) = mpsc::sync_channel::<()>(1);
        thread::scope(|scope| {
            scope.spawn(move || {
                while ended.recv_timeout(warm::KEPT_OPEN) == Err(RecvTimeoutError::Timeout) {
                    locked(&self.warm).close_after(warm::KEPT_OPEN);
                }
            });
            let done = self.attend(input, output);
            drop(serving);
            done
        })
    }

    fn attend(&self, mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
        loop {
            let mut line = Vec::new();
            let count = io::Read::take(&mut input, LONGEST).read_until(b'\n', &mut line)?;
            if count == 0 {
                return Ok(());
            }
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let answer = match serde_json::from_slice::<Value>(line) {
                Ok(message) => self.answer(&message),
                Err(error) => Some(failed(&Value::Null, GARBLED, &error.to_string())),
            };
            if let Some(answer) = answer {
                let mut bytes = serde_json::to_vec(&answer)?;
                bytes.push(b'\n');
                output.write_all(&bytes)?;
                output.flush()?;
                locked(&self.warm).fill(&self.place);
            }
        }
    }

    /// The answer to one message; nothing to a notification.
    pub fn answer(&self, message: &Value) -> Option<Value> {
        let id = message.get("id").filter(|id| !id.is_null())?;
        let method = message["method"].as_str()?;
        let params = &message["params"];
        Some(match method {
            "initialize" => told(id, greeting(params)),
            "ping" => told(id, json!({})),
            "tools/list" => told(id, json!({"tools": tools::list()})),
            "tools/call" => match tools::is_known(&params["name"]) {
                Some(name) => {
                    let (text, is_error) = self.call(name, &params["arguments"]);
                    told(id, json!({"content": [{"type": "text", "text": text}], "isError": is_error}))
                }
                None => failed(id, INVALID, &format!("there is no tool {}", params["name"])),
            },
            "resources/list" => told(id, json!({"resources": []})),
            "resources/templates/list" => told(id, json!({"resourceTemplates": []})),
            "prompts/list" => told(id, json!({"prompts": []})),
            other => failed(id, METHOD_NOT_FOUND, &format!("there is no method `{other}`")),
        })
    }

    /// Calls a tool; what goes wrong is told as its result: the model can do something about it. One call at a time.
    fn call(&self, name: &'static str, arguments: &Value) -> (String, bool) {
        let mut warm = locked(&self.warm);
        match calls::Call::new(&self.place, &self.project, &mut warm).perform(name, arguments) {
            Ok(value) => (value.to_string(), false),
            Err(reason) => (reason, true),
        }
    }

    /// The tool of this name, for the bridge of a run.
    pub(crate) fn tool(name: &str) -> Option<&'static str> {
        tools::is_known(&Value::from(name))
    }

    /// What the bridge tells of its tools.
    pub(crate) fn listings() -> Vec<Listing> {
        tools::list().into_iter().filter_map(|tool| serde_json::from_value(tool).ok()).collect()
    }

    /// Calls a tool for the agent of a run. Blocks for as long as a search takes.
    pub(crate) fn perform(&self, name: &'static str, arguments: Option<JsonObject>) -> Said {
        let done = self.call(name, &Value::Object(arguments.unwrap_or_default()));
        // A run may last for hours, and searches seldom.
        locked(&self.warm).close_after(Duration::ZERO);
        match done {
            (text, false) => Said::Done(text),
            (text, true) => Said::Failed(text),
        }
    }
}

fn greeting(params: &Value) -> Value {
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    let version = VERSIONS.iter().find(|version| **version == asked).unwrap_or(&VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "ostler-memory", "version": env!("CARGO_PKG_VERSION")},
        "instructions": tools::INSTRUCTIONS,
    })
}

fn told(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn failed(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
