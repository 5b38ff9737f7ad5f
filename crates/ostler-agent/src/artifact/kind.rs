//! Kinds of artifacts: what a document of each must have. They are data, in TOML.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::document::{Document, Format, Mistake, Segment, nearest};

use super::markdown::Heading;

/// What a document may have at most, whatever its kind says. More is not a document that a person reads.
pub const MOST_BYTES: usize = 1024 * 1024;

/// The kinds that every project has.
const BUILT_IN: [(&str, &str); 5] = [
    ("plan", include_str!("built_in/plan.toml")),
    ("result", include_str!("built_in/result.toml")),
    ("issues", include_str!("built_in/issues.toml")),
    ("commit_message", include_str!("built_in/commit_message.toml")),
    ("smoke_test_result", include_str!("built_in/smoke_test_result.toml")),
];

/// What a document of one kind must have.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    /// Its name, which is also that of the file in which a document is kept.
    pub name: String,
    /// What it is for, in a sentence.
    pub description: String,
    /// Headings that must be there, with something below each, in any order.
    pub headings: Vec<Heading>,
    /// Keys of the front matter.
    pub front_matter: BTreeMap<String, Field>,
    /// The fewest bytes.
    pub least_bytes: usize,
    /// The most bytes.
    pub most_bytes: usize,
    /// How long the first line may be, if it stands alone.
    pub first_line_most_chars: Option<usize>,
    /// What is asked of links to files.
    pub references: References,
    /// A whole document that passes, files aside.
    pub example: Option<String>,
}

/// What is asked of links to files in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum References {
    /// Nothing.
    #[default]
    Free,
    /// The files exist.
    Exist,
}

/// One key of the front matter.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// What its value is.
    #[serde(rename = "type")]
    pub shape: Shape,
    /// Whether it must be there.
    #[serde(default)]
    pub need: Need,
    /// The texts that are allowed, if not all are.
    #[serde(default)]
    pub one_of: Vec<String>,
}

/// Whether a key must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// It must.
    #[default]
    Required,
    /// It may.
    Optional,
}

/// What the value of a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Text in quotes.
    Text,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A date, with or without a time.
    Date,
    /// A list of texts.
    Texts,
    /// A file of the workspace, which must exist.
    Path,
    /// A list of such files.
    Paths,
}

/// A kind as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    description: String,
    #[serde(default)]
    headings: Vec<String>,
    #[serde(default)]
    front_matter: BTreeMap<String, Field>,
    least_bytes: Option<usize>,
    most_bytes: Option<usize>,
    first_line_most_chars: Option<usize>,
    #[serde(default)]
    references: References,
    example: Option<String>,
}

impl Kind {
    /// Reads a kind called `name` from the text of the file `file`.
    pub fn parse(name: &str, file: &str, text: &str) -> Result<Self, Mistake> {
        let document = Document::new(file, text, Format::Toml);
        if !is_name(name) {
            let hint = "rename the file: letters, digits, `_` and `-`, at most 64".to_owned();
            return Err(document.mistake(&[], format!("`{name}` is no name for a kind"), Some(hint)));
        }
        let written: Written = document.read()?;
        let mut headings = Vec::new();
        for (index, text) in written.headings.iter().enumerate() {
            let heading = Heading::parse(text).ok_or_else(|| {
                let path = [Segment::Key("headings".to_owned()), Segment::Index(index)];
                let hint = "write it as in Markdown: \"## Steps\"".to_owned();
                document.mistake(&path, format!("`{text}` is no heading"), Some(hint))
            })?;
            headings.push(heading);
        }
        let least_bytes = written.least_bytes.unwrap_or(1);
        let most_bytes = written.most_bytes.unwrap_or(MOST_BYTES);
        if most_bytes > MOST_BYTES || least_bytes > most_bytes {
            let path = [Segment::Key("most_bytes".to_owned())];
            let hint = format!("at least `least_bytes` ({least_bytes}), and at most {MOST_BYTES}");
            return Err(document.mistake(&path, format!("{most_bytes} bytes are not possible"), Some(hint)));
        }
        for (key, field) in &written.front_matter {
            if !field.one_of.is_empty() && !matches!(field.shape, Shape::Text | Shape::Texts) {
                let keys = ["front_matter", key, "one_of"];
                let path: Vec<Segment> = keys.iter().map(|key| Segment::Key((*key).to_owned())).collect();
                let hint = "leave it out, or make the type `text` or `texts`".to_owned();
                return Err(document.mistake(&path, "only texts can be chosen from", Some(hint)));
            }
        }
        Ok(Self {
            name: name.to_owned(),
            description: written.description,
            headings,
            front_matter: written.front_matter,
            least_bytes,
            most_bytes,
            first_line_most_chars: written.first_line_most_chars,
            references: written.references,
            example: written.example.map(|text| text.trim_start_matches('\n').to_owned()),
        })
    }
}

/// Whether `name` can be a kind, and thus a file.
fn is_name(name: &str) -> bool {
    let is_fit = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    !name.is_empty() && name.len() <= 64 && name.chars().all(is_fit)
}

/// All kinds that a run knows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kinds(BTreeMap<String, Kind>);

impl Kinds {
    /// Those that are built in.
    pub fn built_in() -> Result<Self, Mistake> {
        let mut kinds = Self::default();
        for (name, text) in BUILT_IN {
            kinds.add(Kind::parse(name, &format!("{name}.toml"), text)?);
        }
        Ok(kinds)
    }

    /// Adds one. A project's kind comes before a built-in one of the same name.
    pub fn add(&mut self, kind: Kind) {
        self.0.insert(kind.name.clone(), kind);
    }

    /// The kind called `name`.
    pub fn find(&self, name: &str) -> Option<&Kind> {
        self.0.get(name)
    }

    /// The name that was probably meant.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        nearest(name, self.names())
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
