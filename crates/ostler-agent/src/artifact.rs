//! Artifacts: Markdown documents, with TOML front matter if they like, that an agent hands over.
//!
//! What lives here: the kinds, which are data (five are built in, a project adds its own), and the check of a document
//! against one, which says every fault with its line and an example that passes. What does not: reading files, or
//! keeping what was handed over. Whether a file exists is asked of whoever knows.

mod check;
mod diagnostic;
mod front_matter;
mod kind;
mod markdown;
mod reference;

pub use diagnostic::{Diagnostic, Fault};
pub use kind::{Field, Kind, Kinds, MOST_BYTES, Need, References, Shape};

#[cfg(test)]
#[path = "artifact_tests.rs"]
mod tests;
