//! A script: what the scripted model says. TOML or JSON, written by people, versioned.
//!
//! What lives here: the format as it is written, and reading it. Its rules are in `check`, what they yield in
//! `play`. A script that was loaded has no step that can never match.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use ostler_agent::document::{Document, Format, Mistake};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

mod builtin;
mod check;
mod play;
mod template;

pub use builtin::{BUILTIN, Builtin};
pub use play::{
    Aside, Content, Conversation, Cue, Fault, HttpFault, Input, Item, LONGEST_TEXT, Limit, Play, Role, Step,
    StopReason, Usage, Where,
};
pub use template::{Gap, Scene};

/// Scripts longer than this are refused: a mistaken path to a log file should not fill the memory.
const LONGEST_SCRIPT_BYTES: u64 = 16 * 1024 * 1024;

/// Why a script could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// Neither a built-in name nor a file.
    #[error("no script `{name}`: it is neither a built-in one nor a file")]
    Unknown {
        /// As given.
        name: String,
        /// The built-in name that was probably meant.
        nearest: Option<&'static str>,
    },
    /// The file is there but cannot be read.
    #[error("could not read the script {path}")]
    Read {
        /// As given.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is too long to be a script.
    #[error("{path} is too long for a script: more than {} MiB", LONGEST_SCRIPT_BYTES / 1024 / 1024)]
    TooLong {
        /// As given.
        path: String,
    },
    /// The file is not a valid script.
    #[error(transparent)]
    Mistake(#[from] Mistake),
}

impl ScriptError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { nearest: Some(name), .. } => Some(format!("did you mean `{name}`?")),
            Self::Unknown { nearest: None, .. } => {
                let names: Vec<_> = BUILTIN.iter().map(|script| script.name).collect();
                Some(format!("use a built-in script ({}) or the path of a file", names.join(", ")))
            }
            Self::Read { .. } => Some("check the path and its permissions".to_owned()),
            Self::TooLong { .. } => Some("check that the path is that of a script".to_owned()),
            Self::Mistake(mistake) => mistake.hint(),
        }
    }
}

/// Loads the script of that name: a file if it looks like a path or exists, else a built-in one.
pub fn load(name: &str) -> Result<Play, ScriptError> {
    if let Some(builtin) = BUILTIN.iter().find(|script| script.name == name) {
        return Ok(parse(builtin.name, builtin.text, Format::Toml)?);
    }
    let path = Path::new(name);
    match std::fs::metadata(path) {
        Ok(found) if found.len() > LONGEST_SCRIPT_BYTES => {
            Err(ScriptError::TooLong { path: name.to_owned() })
        }
        Ok(_) => {
            let text = read_bounded(path, name)?;
            let format = match path.extension() {
                Some(ending) if ending.eq_ignore_ascii_case("json") => Format::Json,
                _ => Format::Toml,
            };
            Ok(parse(name, &text, format)?)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let names = BUILTIN.iter().map(|script| script.name);
            let nearest = ostler_agent::document::nearest(name, names);
            Err(ScriptError::Unknown { name: name.to_owned(), nearest })
        }
        Err(source) => Err(ScriptError::Read { path: name.to_owned(), source }),
    }
}

/// A pipe or a device does not tell its length beforehand.
fn read_bounded(path: &Path, name: &str) -> Result<String, ScriptError> {
    let failed = |source| ScriptError::Read { path: name.to_owned(), source };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(LONGEST_SCRIPT_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > LONGEST_SCRIPT_BYTES {
        return Err(ScriptError::TooLong { path: name.to_owned() });
    }
    Ok(text)
}

/// Reads and checks a script. `name` is what messages call it.
pub fn parse(name: &str, text: &str, format: Format) -> Result<Play, Mistake> {
    let document = Document::new(name, text, format);
    let written: Written = document.read()?;
    check::checked(&document, written)
}

/// The JSON Schema of the format.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Written)
}

/// A script for the scripted model: what it says to whom.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Ostler rehearsal script")]
pub(crate) struct Written {
    /// Version of the format: 1.
    #[schemars(range(min = 1, max = 1))]
    v: u32,
    /// What the script is for, in one line.
    #[serde(default)]
    about: String,
    /// Conversations. The first one whose first step expects the prompt is played.
    conversation: Vec<WrittenConversation>,
}

/// What the model says to one kind of prompt.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenConversation {
    /// A name for messages and logs.
    name: Option<String>,
    /// A later prompt with this text in it goes on with this conversation where it stood, as a model would that is
    /// told to go on.
    goes_on: Option<String>,
    /// One answer of the model each: the first to the prompt, the next to the results of its tool calls, and so on.
    step: Vec<WrittenStep>,
}

/// One answer of the model.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenStep {
    /// The step exists only if this holds.
    when: Option<When>,
    /// What the request must say. In a conversation's first step it chooses the conversation.
    expect: Option<Expect>,
    /// How many rounds in a row this step is played. Default: 1.
    repeat: Option<u32>,
    /// What is answered, in this order.
    reply: Vec<WrittenItem>,
}

/// A condition on the request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// A tool of this name is offered to the model; `mcp:NAME` means an MCP server's tool of that name.
    pub offered: String,
}

/// What a request must say. All that is given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The prompt contains this text.
    pub contains: Option<String>,
    /// The prompt matches this regular expression.
    pub matches: Option<String>,
    /// A tool of this name is offered to the model; `mcp:NAME` means an MCP server's tool of that name.
    pub offered: Option<String>,
    /// One of the results of the last tool calls contains this text.
    pub result_contains: Option<String>,
}

/// One item of an answer. Exactly one of `text`, `thinking`, `tool`, `tool_by_role`, `http`, `stall`, `cut`,
/// `stop_reason` and `usage` names it; the other keys belong to it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    {"required": ["text"]}, {"required": ["thinking"]}, {"required": ["tool"]}, {"required": ["tool_by_role"]},
    {"required": ["http"]}, {"required": ["stall"]}, {"required": ["cut"]}, {"required": ["stop_reason"]},
    {"required": ["usage"]}
]))]
pub(crate) struct WrittenItem {
    /// Says this. `{{workspace}}`, `{{prompt}}`, `{{tool_result}}`, `{{run}}` and `{{round}}` are filled in.
    text: Option<String>,
    /// Thinks this.
    thinking: Option<String>,
    /// Calls the tool of this name. Several calls in one answer are parallel.
    tool: Option<String>,
    /// Calls whatever tool the agent has for this role: `shell`, `write_file`, `read_file`, `mcp:NAME` or
    /// `mcp:SERVER/NAME`.
    tool_by_role: Option<String>,
    /// Answers with this HTTP status instead.
    #[schemars(range(min = 400, max = 599))]
    http: Option<u16>,
    /// Sends nothing for a while.
    stall: Option<Where>,
    /// Drops the connection.
    cut: Option<Where>,
    /// Why the answer ends. Default: the turn is over, or tools are called.
    stop_reason: Option<StopReason>,
    /// Tokens to report. Default: an estimate.
    usage: Option<Usage>,

    /// With `text` or `thinking`: characters a delta. Default: 24.
    chunk: Option<u32>,
    /// With `text` or `thinking`: pause between deltas, as in `10ms`.
    gap: Option<String>,
    /// With `text`: how many times it is said. Default: 1.
    repeat: Option<u32>,
    /// With `tool` or `tool_by_role = "mcp:…"`: the arguments.
    arguments: Option<BTreeMap<String, Value>>,
    /// With `tool`: the free text that a tool without named arguments takes.
    input: Option<String>,
    /// With the role `shell`: the command.
    command: Option<String>,
    /// With the roles `write_file` and `read_file`: the file, relative to the workspace.
    path: Option<String>,
    /// With the role `write_file`: what to write.
    content: Option<String>,
    /// With `http`: the seconds in the header `retry-after`.
    retry_after: Option<u32>,
    /// With `http`: what the error says.
    message: Option<String>,
    /// With `http`: the whole body, instead of the provider's usual shape.
    body: Option<Value>,
    /// With `http`: further headers.
    headers: Option<BTreeMap<String, String>>,
    /// With `stall`: how long, as in `30s`. Default: until the client leaves.
    #[serde(rename = "for")]
    duration: Option<String>,
    /// With `stall` in mid-text: sends a keep-alive so often meanwhile, as in `15s`. Default: sends nothing.
    keep_alive: Option<String>,
    /// With `http`, `stall` or `cut`: how many times it happens before it is skipped. Default: always.
    times: Option<u32>,
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
