//! The tools of the bridge: their names, what they take, and to whom they are offered.

mod arguments;
mod calling;
mod wording;
mod workspace;

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool as Listing, ToolAnnotations};
use schemars::JsonSchema;
use serde_json::Value;

pub(crate) use calling::{Call, call};
pub(crate) use wording::Said;
pub use workspace::{Programs, WorkspaceTool};

use crate::capability::{Capabilities, Capability};
use ostler_agent::artifact::Kinds;

/// A tool of the bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Hand over a document.
    SubmitArtifact,
    /// Repair a rejected one.
    EditArtifact,
    /// Claim that the task is done.
    DeclareComplete,
    /// Tell people how far it is.
    ReportProgress,
    /// Ask a person.
    AskHuman,
    /// Read the task again.
    ReadInstructions,
    /// Work in the workspace.
    Workspace(WorkspaceTool),
}

impl Tool {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 16] = [
        Self::ReadInstructions,
        Self::SubmitArtifact,
        Self::EditArtifact,
        Self::ReportProgress,
        Self::AskHuman,
        Self::Workspace(WorkspaceTool::ReadFile),
        Self::Workspace(WorkspaceTool::ListFiles),
        Self::Workspace(WorkspaceTool::SearchFiles),
        Self::Workspace(WorkspaceTool::WriteFile),
        Self::Workspace(WorkspaceTool::EditFile),
        Self::Workspace(WorkspaceTool::Exec),
        Self::Workspace(WorkspaceTool::GitStatus),
        Self::Workspace(WorkspaceTool::GitDiff),
        Self::Workspace(WorkspaceTool::GitLog),
        Self::Workspace(WorkspaceTool::GitShow),
        Self::DeclareComplete,
    ];

    /// Its name at the bridge. Agents put something of their own before it.
    pub fn name(self) -> &'static str {
        match self {
            Self::SubmitArtifact => "submit_artifact",
            Self::EditArtifact => "edit_artifact",
            Self::DeclareComplete => "declare_complete",
            Self::ReportProgress => "report_progress",
            Self::AskHuman => "ask_human",
            Self::ReadInstructions => "read_instructions",
            Self::Workspace(tool) => tool.name(),
        }
    }

    /// The tool called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Whether it is offered under these capabilities.
    pub fn is_granted(self, capabilities: &Capabilities) -> bool {
        match self {
            Self::DeclareComplete | Self::ReadInstructions => true,
            Self::SubmitArtifact | Self::EditArtifact => capabilities.contains(&Capability::Artifacts),
            Self::ReportProgress => capabilities.contains(&Capability::Progress),
            Self::AskHuman => capabilities.contains(&Capability::Ask),
            Self::Workspace(tool) => tool.is_granted(capabilities),
        }
    }

    /// Whether it can only be offered where programs can be run.
    pub fn runs_programs(self) -> bool {
        matches!(self, Self::Workspace(tool) if tool.runs_programs())
    }

    /// Those that are offered under these capabilities.
    pub fn granted(capabilities: &Capabilities) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|tool| tool.is_granted(capabilities))
    }

    fn description(self) -> &'static str {
        match self {
            Self::SubmitArtifact => {
                "Hand over a document (an artifact) of this run. It is checked: if it has faults, they are listed with \
                 their lines, and the text is kept as a draft that edit_artifact repairs."
            }
            Self::EditArtifact => {
                "Repair the draft of a rejected artifact: `old`, which must occur exactly once in it, is replaced by \
                 `new`, and the result is submitted."
            }
            Self::DeclareComplete => {
                "Say that the whole task is done. Call it once, as the very last thing. It is refused as long as a \
                 required artifact is missing."
            }
            Self::ReportProgress => "Tell the people who watch this run, in one line, what you are doing.",
            Self::AskHuman => {
                "Ask a person something that you cannot find out and should not decide alone. Waits for the answer; \
                 after the timeout you get the default."
            }
            Self::ReadInstructions => {
                "Read the task of this run again, word for word, and which artifacts are accepted, rejected or missing."
            }
            Self::Workspace(tool) => tool.description(),
        }
    }

    /// What clients are told about it.
    pub(crate) fn listing(self, kinds: &Kinds) -> Listing {
        let mut schema = match self {
            Self::SubmitArtifact => schema::<arguments::Submit>(),
            Self::EditArtifact => schema::<arguments::Edit>(),
            Self::DeclareComplete => schema::<arguments::Declare>(),
            Self::ReportProgress => schema::<arguments::Report>(),
            Self::AskHuman => schema::<arguments::Ask>(),
            Self::ReadInstructions => schema::<arguments::Nothing>(),
            Self::Workspace(tool) => tool.schema(),
        };
        if let Some(kind) = schema.get_mut("properties").and_then(|all| all.get_mut("type")) {
            kind["enum"] = kinds.names().map(Value::from).collect();
        }
        // Clients that ask before a call ask less about tools that break nothing.
        let hints = match self {
            Self::Workspace(tool) => tool.hints(),
            Self::SubmitArtifact
            | Self::EditArtifact
            | Self::DeclareComplete
            | Self::ReportProgress
            | Self::AskHuman
            | Self::ReadInstructions => ToolAnnotations::new()
                .read_only(matches!(self, Self::ReadInstructions))
                .destructive(false)
                .open_world(false),
        };
        Listing::new(self.name(), self.description(), Arc::new(schema)).with_annotations(hints)
    }
}

/// The schema of some arguments, without what is only noise to a model.
fn schema<T: JsonSchema>() -> JsonObject {
    let mut schema = match schemars::schema_for!(T).to_value() {
        Value::Object(schema) => schema,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            JsonObject::new()
        }
    };
    for noise in ["$schema", "title", "description"] {
        schema.remove(noise);
    }
    // Names of Rust's types, which some providers refuse.
    for property in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        if let Value::Object(property) = property.1 {
            property.remove("format");
        }
    }
    // Clients want it to be there, even if nothing is in it.
    schema.entry("properties").or_insert_with(|| Value::Object(JsonObject::new()));
    schema
}
