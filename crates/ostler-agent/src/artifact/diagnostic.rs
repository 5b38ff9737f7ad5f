//! What is wrong with a document: where, which rule, what stood there, and what would pass.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The rule that a document broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// It is not text in UTF-8.
    NotText,
    /// It is shorter than its kind allows.
    TooShort,
    /// It is longer than its kind allows.
    TooLong,
    /// A heading is missing.
    MissingHeading,
    /// Below a heading is nothing.
    EmptySection,
    /// The front matter is not TOML, or does not end.
    BadFrontMatter,
    /// The front matter lacks a key.
    MissingKey,
    /// A value of the front matter has the wrong type.
    WrongType,
    /// A value of the front matter is not among those that are allowed.
    NotAllowed,
    /// A file that is named does not exist.
    NoSuchFile,
    /// A file that is named lies outside the workspace.
    OutsideWorkspace,
    /// The first line is too long, or is not set apart.
    FirstLine,
}

impl Fault {
    /// Its name, as agents and files see it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotText => "not_text",
            Self::TooShort => "too_short",
            Self::TooLong => "too_long",
            Self::MissingHeading => "missing_heading",
            Self::EmptySection => "empty_section",
            Self::BadFrontMatter => "bad_front_matter",
            Self::MissingKey => "missing_key",
            Self::WrongType => "wrong_type",
            Self::NotAllowed => "not_allowed",
            Self::NoSuchFile => "no_such_file",
            Self::OutsideWorkspace => "outside_workspace",
            Self::FirstLine => "first_line",
        }
    }
}

/// One fault of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Line from 1. What is missing is told at the line after which it would stand.
    pub line: usize,
    /// The rule.
    pub rule: Fault,
    /// What is wrong, with what was found.
    pub found: String,
    /// What would pass there.
    pub example: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {} [{}]: {}", self.line, self.rule.name(), self.found)?;
        match self.example.lines().count() {
            0 => Ok(()),
            1 => write!(out, "; for example: {}", self.example),
            _ => {
                out.write_str("; for example:")?;
                self.example.lines().try_for_each(|line| write!(out, "\n    {line}"))
            }
        }
    }
}
