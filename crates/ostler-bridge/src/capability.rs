//! What a run's agent may do at the bridge.

use std::collections::BTreeSet;
use std::fmt;

use ostler_agent::document::nearest;

/// One thing that a run may grant. To declare completion and to read its instructions is always allowed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// To submit and edit artifacts.
    Artifacts,
    /// To report progress.
    Progress,
    /// To ask a person.
    Ask,
    /// To read the files of the workspace, by the bridge's own tools.
    FilesRead,
    /// To write them, and to read them.
    FilesWrite,
    /// To run programs in the workspace.
    Exec,
    /// To search what was said in earlier sessions, and to keep facts.
    Memory,
    /// To call the tools of this MCP server.
    Upstream(String),
}

/// All that a run grants.
pub type Capabilities = BTreeSet<Capability>;

/// Names that stand alone.
const NAMES: [(&str, Capability); 7] = [
    ("artifacts", Capability::Artifacts),
    ("progress", Capability::Progress),
    ("ask", Capability::Ask),
    ("files:ro", Capability::FilesRead),
    ("files:rw", Capability::FilesWrite),
    ("exec", Capability::Exec),
    ("memory", Capability::Memory),
];

/// What is granted unless something else is said. Agents have their own tools for files and programs.
pub fn usual() -> Capabilities {
    [Capability::Artifacts, Capability::Progress, Capability::Ask].into()
}

impl fmt::Display for Capability {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Artifacts => out.write_str("artifacts"),
            Self::Progress => out.write_str("progress"),
            Self::Ask => out.write_str("ask"),
            Self::FilesRead => out.write_str("files:ro"),
            Self::FilesWrite => out.write_str("files:rw"),
            Self::Exec => out.write_str("exec"),
            Self::Memory => out.write_str("memory"),
            Self::Upstream(server) => write!(out, "upstream:{server}"),
        }
    }
}

/// A word that grants nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not a capability")]
pub struct NoCapability {
    /// The word.
    pub word: String,
}

impl NoCapability {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        let names = NAMES.iter().map(|(name, _)| *name);
        Some(match nearest(&self.word, names.clone()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("valid are {}, upstream:NAME", names.collect::<Vec<_>>().join(", ")),
        })
    }
}

/// Reads a list like `artifacts,ask,upstream:docs`.
pub fn parse(list: &str) -> Result<Capabilities, NoCapability> {
    list.split(',').map(str::trim).filter(|word| !word.is_empty()).map(one).collect()
}

fn one(word: &str) -> Result<Capability, NoCapability> {
    if let Some(server) = word.strip_prefix("upstream:").filter(|server| !server.is_empty()) {
        return Ok(Capability::Upstream(server.to_owned()));
    }
    let found = NAMES.iter().find(|(name, _)| *name == word).map(|(_, capability)| capability.clone());
    found.ok_or_else(|| NoCapability { word: word.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_strange_words_are_refused() {
        let told = |list| parse(list).map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(told("").unwrap(), Vec::<String>::new());
        assert_eq!(
            told("memory,exec,files:rw,files:ro").unwrap(),
            ["files:ro", "files:rw", "exec", "memory"]
        );
        assert_eq!(told("ask, upstream:docs,artifacts").unwrap(), ["artifacts", "ask", "upstream:docs"]);
        assert_eq!(parse("artifacts,progress,ask").unwrap(), usual());
        for (list, hint) in [
            ("artifact", "did you mean `artifacts`?"),
            ("file:ro", "did you mean `files:ro`?"),
            (
                "upstream:",
                "valid are artifacts, progress, ask, files:ro, files:rw, exec, memory, upstream:NAME",
            ),
        ] {
            assert_eq!(parse(list).unwrap_err().hint().unwrap(), hint);
        }
    }
}
