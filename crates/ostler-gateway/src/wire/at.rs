//! Where in the body of a request something stands, as errors name it: `messages[2].content[0].type`.

use std::fmt::{self, Display, Formatter};

use serde_json::Value;

use super::Problem;

/// A path. It is written only when something is wrong there.
#[derive(Debug, Clone, Copy)]
pub(super) enum At<'a> {
    /// A field of the body.
    Field(&'a str),
    /// A field of what stands there.
    Of(&'a At<'a>, &'a str),
    /// An element of the list that stands there.
    Nth(&'a At<'a>, usize),
}

impl At<'_> {
    pub(super) fn of<'b>(&'b self, field: &'b str) -> At<'b> {
        At::Of(self, field)
    }

    pub(super) fn nth(&self, index: usize) -> At<'_> {
        At::Nth(self, index)
    }

    /// What stands here is wrong.
    pub(super) fn wrong(&self, message: &str) -> Problem {
        Problem::field(&self.to_string(), message)
    }

    /// A field of `value`, which stands here, that must be a text.
    pub(super) fn text<'v>(&self, value: &'v Value, field: &str) -> Result<&'v str, Problem> {
        value[field].as_str().ok_or_else(|| self.of(field).wrong("this field must be a text"))
    }

    /// The same, of a text with something in it: a name, an id.
    pub(super) fn name<'v>(&self, value: &'v Value, field: &str) -> Result<&'v str, Problem> {
        let found = value[field].as_str().filter(|name| !name.is_empty());
        found.ok_or_else(|| self.of(field).wrong("this field must be a text that is not empty"))
    }
}

impl Display for At<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(field) => out.write_str(field),
            Self::Of(parent, field) => write!(out, "{parent}.{field}"),
            Self::Nth(parent, index) => write!(out, "{parent}[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_as_programs_write_it() {
        let messages = At::Field("messages");
        assert_eq!(
            messages.nth(2).of("content").nth(0).of("type").to_string(),
            "messages[2].content[0].type"
        );
    }
}
