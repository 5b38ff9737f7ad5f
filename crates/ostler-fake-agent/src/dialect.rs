//! The languages a fake agent speaks, and what each of them must be able to say.

use serde_json::{Map, Value};

use super::script::Tokens;
use super::script::tables::Kind;
use super::stage::{Input, Played, Stage};

/// Which agent is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Claude Code's stream-json.
    Claude,
    /// Codex's `exec --json`.
    Codex,
    /// The Agent Client Protocol.
    Acp,
    /// A terminal program with dialogs.
    Tui,
}

impl Dialect {
    /// The word for it in the environment and in session files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Acp => "acp",
            Self::Tui => "tui",
        }
    }
}

/// A text, and the pieces it is said in.
#[derive(Debug, Clone)]
pub(super) struct Speech {
    pub(super) text: String,
    /// Characters a piece.
    pub(super) chunk: Option<u32>,
    pub(super) gap: std::time::Duration,
}

impl Speech {
    /// The pieces in order; one piece unless a size was given.
    pub(super) fn pieces(&self) -> Vec<String> {
        let size = self.chunk.map_or(usize::MAX, |size| size as usize);
        let characters: Vec<char> = self.text.chars().collect();
        characters.chunks(size.max(1)).map(|piece| piece.iter().collect()).collect()
    }
}

/// A tool call.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) arguments: Map<String, Value>,
}

impl Call {
    /// The server and the tool, for a tool of an MCP server.
    pub(super) fn mcp(&self) -> Option<(&str, &str)> {
        self.tool.strip_prefix("mcp__")?.split_once("__")
    }

    /// What the call is about in a few words: its command or its file, else the tool's name.
    pub(super) fn title(&self) -> &str {
        ["command", "file_path", "path"]
            .iter()
            .find_map(|key| self.arguments.get(*key)?.as_str())
            .unwrap_or(&self.tool)
    }

    /// The file it writes, for tools that write one.
    pub(super) fn written_file(&self) -> Option<&str> {
        matches!(self.tool.as_str(), "Write" | "Edit" | "apply_patch").then(|| self.title())
    }
}

/// What came of a tool call.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    /// It answered.
    Done { output: String },
    /// It failed; a shell command has an exit code.
    Failed { output: String, exit_code: Option<i32> },
    /// It was not allowed, for this reason.
    Denied { reason: String },
}

/// What a host said to a permission question.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Allowed,
    Denied { reason: String },
}

/// How a turn ends.
#[derive(Debug, Clone)]
pub(super) enum Ending {
    /// As it should.
    Normal { usage: Option<Tokens> },
    /// With an error, in the agent's own way.
    Failure { kind: Kind, message: Option<String>, status: Option<u16> },
    /// By a usage limit; `None` stands for the words the real agent was recorded with.
    Limit { words: Option<String> },
}

/// What every dialect can put on its channels. Each call prints what the real agent prints at that point.
pub(super) trait Voice {
    /// A turn begins with this prompt.
    async fn begin(&mut self, stage: &mut Stage, prompt: &str) -> Played;
    /// Says a text.
    async fn say(&mut self, stage: &mut Stage, speech: &Speech) -> Played;
    /// Thinks a text.
    async fn think(&mut self, stage: &mut Stage, text: &str) -> Played;
    /// A tool call opens.
    async fn open_call(&mut self, stage: &mut Stage, call: &Call) -> Played;
    /// Asks whether the open call is allowed, and waits for the answer.
    async fn ask(&mut self, stage: &mut Stage, call: &Call) -> Played<Answer>;
    /// The open call ends.
    async fn close_call(&mut self, stage: &mut Stage, call: &Call, outcome: &Outcome) -> Played;
    /// The turn ends.
    async fn end(&mut self, stage: &mut Stage, ending: &Ending) -> Played;
    /// The turn was interrupted; whatever is open is closed.
    async fn interrupted(&mut self, stage: &mut Stage) -> Played;
    /// A record of a kind that nobody has heard of.
    async fn unknown(&mut self, stage: &mut Stage, kind: &str, body: &Map<String, Value>) -> Played;
    /// One record that says `text`, as a line, without any other effect.
    fn line(&mut self, text: &str) -> Vec<u8>;
    /// Takes note of what happened while something else was under way.
    async fn hear(&mut self, stage: &mut Stage, input: Input) -> Played;
    /// The trust dialog of a first start; dialects without one do what their agent does instead.
    async fn trust(&mut self, stage: &mut Stage) -> Played;
    /// The next presses of Enter are lost; only a terminal has them.
    fn lose_enter(&mut self, _times: u32) {}
}
