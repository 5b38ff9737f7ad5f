//! Files that people write (config, scripts, types): TOML or JSON read into our own strict types.
//!
//! What lives here: turning a parser's complaint into file, line, key and the nearest valid key, so that every such
//! file in the house fails in the same helpful way. What does not: reading files, or knowing what is in them.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_json::value::RawValue;

mod complaint;
mod locate;
mod nearest;

pub use nearest::nearest;

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// TOML 1.
    Toml,
    /// JSON.
    Json,
}

/// The text of one file that a person wrote, with the name it goes by in messages.
#[derive(Debug, Clone)]
pub struct Document {
    name: String,
    text: String,
    format: Format,
}

/// One step on the way to a value inside a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// A key of a table.
    Key(String),
    /// A place in a list, from 0.
    Index(usize),
}

/// Something in a document that cannot be accepted: where, what, and what was probably meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", Rendered(self))]
pub struct Mistake {
    /// The document's name, usually a path.
    pub file: String,
    /// Line from 1, where known.
    pub line: Option<usize>,
    /// Dotted path of the value, empty for the document itself.
    pub key: String,
    /// What is wrong, as a lowercase fragment.
    pub problem: String,
    /// What to do about it, if we can tell.
    pub hint: Option<String>,
}

struct Rendered<'a>(&'a Mistake);

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mistake = self.0;
        out.write_str(&mistake.file)?;
        if let Some(line) = mistake.line {
            write!(out, ", line {line}")?;
        }
        if !mistake.key.is_empty() {
            write!(out, ", `{}`", mistake.key)?;
        }
        write!(out, ": {}", mistake.problem)
    }
}

impl Mistake {
    /// What to try, for the error printer.
    pub fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

impl Document {
    /// A document under the name that messages will use for it.
    pub fn new(name: impl Into<String>, text: impl Into<String>, format: Format) -> Self {
        Self { name: name.into(), text: text.into(), format }
    }

    /// The name that messages use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the whole document into `T`. Never panics on any text; the first thing wrong is reported. A type of ours
    /// may end its complaint with `; try: …`, which becomes the hint.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Mistake> {
        match self.format {
            Format::Toml => self.read_toml(),
            Format::Json => self.read_json(),
        }
    }

    /// The line, from 1, on which the value at `path` stands, or its closest existing parent.
    pub fn line_of(&self, path: &[Segment]) -> Option<usize> {
        self.offset_of(path).map(|offset| self.line_at(offset))
    }

    /// Reports `problem` at `path`, for rules that the types alone cannot express.
    pub fn mistake(&self, path: &[Segment], problem: impl Into<String>, hint: Option<String>) -> Mistake {
        Mistake {
            file: self.name.clone(),
            line: self.line_of(path),
            key: dotted(path),
            problem: problem.into(),
            hint,
        }
    }

    fn read_toml<T: DeserializeOwned>(&self) -> Result<T, Mistake> {
        let parsed = toml::Deserializer::parse(&self.text).map_err(|error| {
            let hint = Some("mend it there: the file is not valid TOML".to_owned());
            Mistake { hint, ..self.toml_mistake(&error, String::new()) }
        })?;
        serde_path_to_error::deserialize(parsed).map_err(|error| {
            let key = path_text(error.path());
            self.toml_mistake(error.inner(), key)
        })
    }

    fn read_json<T: DeserializeOwned>(&self) -> Result<T, Mistake> {
        let mut parsed = serde_json::Deserializer::from_str(&self.text);
        let value = serde_path_to_error::deserialize(&mut parsed).map_err(|error| {
            let key = path_text(error.path());
            self.json_mistake(error.inner(), key)
        })?;
        parsed.end().map_err(|error| self.json_mistake(&error, String::new()))?;
        Ok(value)
    }

    fn toml_mistake(&self, error: &toml::de::Error, key: String) -> Mistake {
        let line = error.span().map(|span| self.line_at(span.start));
        self.complaint(error.message(), line, key)
    }

    fn json_mistake(&self, error: &serde_json::Error, key: String) -> Mistake {
        let whole = error.to_string();
        let message = match whole.rfind(" at line ") {
            Some(end) => &whole[..end],
            None => &whole,
        };
        let line = (error.line() > 0).then(|| error.line());
        let mistake = self.complaint(message, line, key);
        match error.classify() {
            Category::Data | Category::Io => mistake,
            Category::Syntax | Category::Eof => {
                Mistake { hint: Some("mend it there: the file is not valid JSON".to_owned()), ..mistake }
            }
        }
    }

    fn complaint(&self, message: &str, line: Option<usize>, key: String) -> Mistake {
        let complaint = complaint::explain(message, &key, self.format);
        // serde names the unknown key itself as the last step of its path; say the key once, not twice.
        let key = match complaint.unknown.as_deref() {
            Some(name) => within(&key, name),
            None => key,
        };
        Mistake { file: self.name.clone(), line, key, problem: complaint.problem, hint: complaint.hint }
    }

    fn offset_of(&self, path: &[Segment]) -> Option<usize> {
        match self.format {
            Format::Toml => locate::in_toml(&self.text, path),
            Format::Json => {
                let root: &RawValue = serde_json::from_str(&self.text).ok()?;
                locate::in_json(&self.text, root, path)
            }
        }
    }

    fn line_at(&self, offset: usize) -> usize {
        let end = offset.min(self.text.len());
        self.text.as_bytes()[..end].iter().filter(|byte| **byte == b'\n').count() + 1
    }
}

fn dotted(path: &[Segment]) -> String {
    let mut text = String::new();
    for segment in path {
        match segment {
            Segment::Key(key) if text.is_empty() => text.push_str(key),
            Segment::Key(key) => {
                text.push('.');
                text.push_str(key);
            }
            Segment::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

fn path_text(path: &serde_path_to_error::Path) -> String {
    let text = path.to_string();
    // `?` stands for what serde had not come to know when the text ended.
    text.trim_end_matches(['?', '.']).to_owned()
}

fn within(path: &str, last: &str) -> String {
    match path.strip_suffix(last) {
        Some(rest) => rest.trim_end_matches('.').to_owned(),
        None => path.to_owned(),
    }
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
