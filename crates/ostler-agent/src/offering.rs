//! Tools that whoever asks offers to an agent, and runs himself. The agent knows them as tools of an MCP server of ours on
//! its own pipe; a call waits there until its outcome is brought, and the turn is over for whoever asked until then.
//!
//! [`Toolset`] is what is offered; [`Desk`] is that server: it answers what it can, and keeps what it cannot yet.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::canonical::{Block, Message, sorted};
use crate::event::{AgentEvent, TurnOutcome};

/// The name under which an agent knows the server.
pub const SERVER: &str = "program";

/// How its tools are named in a conversation.
const PREFIX: &str = "mcp__program__";

/// What an agent is told whose call nobody can answer.
const NOBODY: &str = "this tool can only be called by the main agent";

/// The name that whoever asked has for a tool, if it is his.
pub fn named(tool: &str) -> Option<&str> {
    tool.strip_prefix(PREFIX)
}

/// The name that the agent has for it.
pub fn known_as(tool: &str) -> String {
    format!("{PREFIX}{tool}")
}

/// One tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: Option<String>,
    /// What it is called with: a JSON schema of an object.
    pub schema: Value,
}

/// Whether the agent has its own tools besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// Yes.
    On,
    /// No: it can do nothing but answer and call.
    Off,
}

/// All that is offered.
#[derive(Debug, Clone, PartialEq)]
pub struct Toolset {
    /// In the order in which they were given.
    pub tools: Vec<Tool>,
    /// What the agent has besides.
    pub own: Own,
}

impl Toolset {
    /// As one text: equal texts are equal tools. Empty without a tool.
    pub fn form(&self) -> String {
        if self.tools.is_empty() {
            return String::new();
        }
        // In whatever order they are given: some programs keep them in maps.
        let mut tools: Vec<&Tool> = self.tools.iter().collect();
        tools.sort_by_key(|tool| &tool.name);
        let tools = tools
            .into_iter()
            .map(|tool| json!({"name": tool.name, "description": tool.description, "schema": tool.schema}));
        let own = match self.own {
            Own::On => "on",
            Own::Off => "off",
        };
        let mut form = String::new();
        sorted(&json!({"own": own, "tools": tools.collect::<Vec<_>>()}), &mut form);
        form
    }

    /// From its form; nothing, where nothing is offered.
    pub fn of_form(form: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(form).ok()?;
        let tools = value["tools"].as_array()?.iter().map(|tool| {
            Some(Tool {
                name: tool["name"].as_str()?.to_owned(),
                description: tool["description"].as_str().map(str::to_owned),
                schema: tool["schema"].clone(),
            })
        });
        let own = if value["own"] == "on" { Own::On } else { Own::Off };
        Some(Self { tools: tools.collect::<Option<_>>()?, own })
    }

    /// Whether a tool of this name is among them.
    pub fn has(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    /// A conversation as the agent knows it: with its own names for the tools.
    pub fn inward(&self, messages: &[Message]) -> Vec<Message> {
        let block = |block: &Block| match block {
            Block::Call { id, tool, input } if self.has(tool) => {
                Block::Call { id: id.clone(), tool: known_as(tool), input: input.clone() }
            }
            block => block.clone(),
        };
        let message = |message: &Message| Message {
            role: message.role,
            blocks: message.blocks.iter().map(block).collect(),
        };
        messages.iter().map(message).collect()
    }
}

/// Where a call stands.
#[derive(Debug, Clone, PartialEq)]
enum Standing {
    /// The model made it.
    Made,
    /// The agent waits for it: the id of its request on the pipe, and of its message.
    Awaited(String, Value),
    /// Its outcome is there, and the agent has not asked for it yet: it makes one call after the other.
    Brought(Value),
}

/// The server at which calls wait.
#[derive(Debug)]
pub struct Desk {
    toolset: Toolset,
    calls: BTreeMap<String, Standing>,
}

impl Desk {
    /// With these tools.
    pub fn of(toolset: Toolset) -> Self {
        Self { toolset, calls: BTreeMap::new() }
    }

    /// Whether outcomes of calls are awaited.
    pub fn is_waiting(&self) -> bool {
        self.calls.values().any(|call| !matches!(call, Standing::Brought(_)))
    }

    /// Takes note of what the agent says: which calls there are, and that they are over.
    pub fn hear(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::ToolStarted { call, tool, within: None, .. } if named(tool).is_some() => {
                self.calls.entry(call.clone()).or_insert(Standing::Made);
            }
            AgentEvent::ToolEnded { call, .. } => {
                self.calls.remove(call);
            }
            AgentEvent::TurnEnded(
                TurnOutcome::Done { .. } | TurnOutcome::Interrupted | TurnOutcome::Failed(_),
            ) => self.calls.clear(),
            _ => {}
        }
    }

    /// What is answered now to what the agent says here. Nothing while an outcome is awaited.
    pub fn route(&mut self, request: &str, message: &Value) -> Option<Value> {
        let id = message["id"].clone();
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": SERVER, "version": env!("CARGO_PKG_VERSION")},
            }),
            "tools/list" => json!({"tools": self.toolset.tools.iter().map(listed).collect::<Vec<_>>()}),
            "tools/call" => return self.called(request, id, &message["params"]),
            "ping" => json!({}),
            // It wants an answer on its pipe also for what has none in MCP.
            method if method.starts_with("notifications/") => {
                return Some(json!({"jsonrpc": "2.0", "id": 0, "result": {}}));
            }
            method => {
                let error = json!({"code": -32601, "message": format!("there is no `{method}` here")});
                return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
        };
        Some(answer(&id, &result))
    }

    fn called(&mut self, request: &str, id: Value, params: &Value) -> Option<Value> {
        let call = params["_meta"]["claudecode/toolUseId"].as_str().unwrap_or_default();
        match self.calls.get_mut(call) {
            Some(Standing::Brought(outcome)) => Some(answer(&id, outcome)),
            Some(standing) => {
                *standing = Standing::Awaited(request.to_owned(), id);
                None
            }
            None => {
                Some(answer(&id, &json!({"content": [{"type": "text", "text": NOBODY}], "isError": true})))
            }
        }
    }

    /// Takes outcomes of calls. What the agent waits for already is to be answered: the id of each request with its
    /// answer, in the order in which they were brought.
    pub fn bring(&mut self, message: &Message) -> Vec<(String, Value)> {
        let mut answers = Vec::new();
        for block in &message.blocks {
            let Block::Outcome { call, blocks, failed } = block else { continue };
            let outcome = json!({
                "content": blocks.iter().map(content).collect::<Vec<_>>(),
                "isError": failed,
            });
            if let Some(standing) = self.calls.get_mut(call) {
                if let Standing::Awaited(request, id) = standing {
                    answers.push((request.clone(), answer(id, &outcome)));
                }
                *standing = Standing::Brought(outcome);
            }
        }
        answers
    }
}

fn answer(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn listed(tool: &Tool) -> Value {
    json!({
        "name": tool.name,
        "description": tool.description.as_deref().unwrap_or_default(),
        "inputSchema": tool.schema,
        // Else an agent with many tools would have to look for it first.
        "_meta": {"anthropic/alwaysLoad": true},
    })
}

/// A part of an outcome in MCP's terms. What has no place there is told as JSON.
fn content(block: &Block) -> Value {
    match block {
        Block::Text(text) => json!({"type": "text", "text": text}),
        Block::Other(other) if other["type"] == "image" && other["source"]["type"] == "base64" => {
            let source = &other["source"];
            json!({"type": "image", "data": source["data"], "mimeType": source["media_type"]})
        }
        block => json!({"type": "text", "text": block.written().to_string()}),
    }
}

#[cfg(test)]
#[path = "offering_tests.rs"]
mod tests;
