//! What the tools take.

use ostler_agent::document::{Document, Format, Mistake};
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Arguments of `submit_artifact`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Submit {
    /// The kind of artifact.
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// The whole document, in Markdown. TOML front matter, if asked for, stands between two lines `+++` at the top.
    pub(super) content: String,
}

/// Arguments of `edit_artifact`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    /// The kind of artifact whose draft is repaired.
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// The text to replace, exactly as it stands in the draft.
    pub(super) old: String,
    /// What stands there instead.
    pub(super) new: String,
}

/// Arguments of `declare_complete`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Declare {
    /// What was done, in a sentence or two.
    pub(super) summary: String,
}

/// Arguments of `report_progress`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Report {
    /// One line for people.
    pub(super) text: String,
    /// How much is done, from 0 to 100.
    #[schemars(range(min = 0, max = 100))]
    pub(super) percent: Option<u8>,
}

/// Arguments of `ask_human`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    /// The question.
    pub(super) question: String,
    /// Answers to choose from.
    #[serde(default)]
    pub(super) options: Vec<String>,
    /// What you get if nobody answers.
    pub(super) default: Option<String>,
    /// How many seconds to wait: 600 unless given, 3600 at most.
    pub(super) timeout: Option<u64>,
}

/// No arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Reads the arguments of a call. What is wrong with them is told as for files that people write.
pub(super) fn read<T: DeserializeOwned>(tool: &str, arguments: Option<JsonObject>) -> Result<T, Mistake> {
    let text = serde_json::to_string(&arguments.unwrap_or_default()).unwrap_or_default();
    Document::new(tool, text, Format::Json).read()
}
