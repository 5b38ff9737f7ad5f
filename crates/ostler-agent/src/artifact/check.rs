//! A document against its kind: all faults at once, in the order of their lines.

use super::diagnostic::{Diagnostic, Fault};
use super::front_matter::{self, Parts, Values, short};
use super::kind::{Kind, References, Shape};
use super::markdown::{self, Content, Heading, Section};
use super::reference::{self, Target};

/// Faults that are told at once. An agent that made more has not understood the kind, and the example helps it more.
const MOST_FAULTS: usize = 20;

impl Kind {
    /// What is wrong with a document, or nothing. Never panics, whatever the bytes. `exists` is asked about plain paths
    /// from the top of the workspace, and only about those that do not lead out of it.
    pub fn check(&self, content: &[u8], exists: &dyn Fn(&str) -> bool) -> Vec<Diagnostic> {
        // A document that is too long, or nothing, is not looked at any further.
        let mut found = self.size(content);
        if content.len() <= self.most_bytes && !content.trim_ascii().is_empty() {
            found.extend(self.text(content, exists));
        }
        found.sort_by_key(|fault| fault.line);
        found.truncate(MOST_FAULTS);
        found
    }

    fn size(&self, content: &[u8]) -> Vec<Diagnostic> {
        let bytes = content.len();
        let (rule, found, example) = if bytes > self.most_bytes {
            let most = self.most_bytes;
            let found = format!("the document has {bytes} bytes; at most {most} are allowed");
            (Fault::TooLong, found, "a shorter text that names files instead of quoting them")
        } else if bytes < self.least_bytes || content.trim_ascii().is_empty() {
            let least = self.least_bytes;
            let found = format!("the document has {bytes} bytes; at least {least} are asked for");
            (Fault::TooShort, found, self.example.as_deref().unwrap_or("a sentence or two"))
        } else {
            return Vec::new();
        };
        vec![Diagnostic { line: 1, rule, found, example: example.trim_end().to_owned() }]
    }

    fn text(&self, content: &[u8], exists: &dyn Fn(&str) -> bool) -> Vec<Diagnostic> {
        let text = match std::str::from_utf8(content) {
            Ok(text) => text,
            Err(error) => {
                let before = &content[..error.valid_up_to()];
                let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
                let found = "this line is not text in UTF-8".to_owned();
                let example = "plain text".to_owned();
                return vec![Diagnostic { line, rule: Fault::NotText, found, example }];
            }
        };
        let parts = match front_matter::split(text) {
            Ok(parts) => parts,
            Err(fault) => return vec![fault],
        };
        let mut found = self.front_matter(text, &parts, exists);
        found.extend(self.headings(&parts));
        found.extend(self.first_line(&parts));
        found.extend(self.links(&parts, exists));
        found
    }

    fn front_matter(&self, text: &str, parts: &Parts<'_>, exists: &dyn Fn(&str) -> bool) -> Vec<Diagnostic> {
        if self.front_matter.is_empty() {
            return Vec::new();
        }
        let values = match parts.front.map(Values::parse) {
            Some(Ok(values)) => values,
            Some(Err(fault)) => return vec![fault],
            None if front_matter::looks_like_yaml(text) => {
                let found = "the front matter begins with `---`, as YAML does; here it is TOML".to_owned();
                let example = "+++\nkey = \"value\"\n+++".to_owned();
                return vec![Diagnostic { line: 1, rule: Fault::BadFrontMatter, found, example }];
            }
            None => Values::none(),
        };
        let mut found = Vec::new();
        for (key, field) in &self.front_matter {
            if let Some(fault) = values.complain(key, field) {
                found.push(fault);
            } else if matches!(field.shape, Shape::Path | Shape::Paths) {
                let (line, paths) = values.texts(key);
                let faults =
                    paths.iter().filter_map(|path| file(line, path, reference::of_path(path), exists));
                found.extend(faults);
            }
        }
        found
    }

    fn headings(&self, parts: &Parts<'_>) -> Vec<Diagnostic> {
        let sections = markdown::sections(parts.body, parts.body_line);
        let last = parts.body_line + parts.body.lines().count().saturating_sub(1);
        self.headings.iter().filter_map(|wanted| heading(wanted, &sections, last)).collect()
    }

    fn first_line(&self, parts: &Parts<'_>) -> Vec<Diagnostic> {
        let Some(most) = self.first_line_most_chars else { return Vec::new() };
        let mut lines = parts.body.lines();
        let first = lines.next().unwrap_or_default();
        let chars = first.chars().count();
        let example = self.example.as_deref().and_then(|text| text.lines().next()).unwrap_or("a few words");
        let mut found = Vec::new();
        let mut complain = |line, what: String, example: &str| {
            let example = example.to_owned();
            found.push(Diagnostic { line, rule: Fault::FirstLine, found: what, example });
        };
        if first.trim().is_empty() {
            complain(parts.body_line, "the first line is empty".to_owned(), example);
        } else if chars > most {
            let what = format!("the first line has {chars} characters; at most {most} are allowed");
            complain(parts.body_line, what, example);
        }
        if lines.next().is_some_and(|second| !second.trim().is_empty()) {
            let what = "the second line is not empty: it sets the first one apart".to_owned();
            complain(parts.body_line + 1, what, &format!("{example}\n\nWhy it was done."));
        }
        found
    }

    fn links(&self, parts: &Parts<'_>, exists: &dyn Fn(&str) -> bool) -> Vec<Diagnostic> {
        match self.references {
            References::Free => Vec::new(),
            References::Exist => markdown::links(parts.body, parts.body_line)
                .iter()
                .filter_map(|(line, target)| file(*line, target, reference::of_link(target), exists))
                .collect(),
        }
    }
}

/// What is wrong about one heading that must be there.
fn heading(wanted: &Heading, sections: &[Section], last: usize) -> Option<Diagnostic> {
    let example = format!("{wanted}\nA sentence about it.");
    if let Some(section) = sections.iter().find(|section| section.heading.is(wanted)) {
        let found = format!("nothing stands below `{wanted}`");
        return match section.content {
            Content::Some => None,
            Content::Empty => {
                Some(Diagnostic { line: section.line, rule: Fault::EmptySection, found, example })
            }
        };
    }
    let alike = |section: &&Section| {
        crate::document::nearest(&section.heading.text.to_lowercase(), [wanted.text.to_lowercase().as_str()])
            .is_some()
    };
    let (line, found) = match sections.iter().find(alike) {
        Some(section) => {
            (section.line, format!("the heading `{wanted}` is missing; found `{}`", section.heading))
        }
        None => (last, format!("the heading `{wanted}` is missing")),
    };
    Some(Diagnostic { line, rule: Fault::MissingHeading, found, example })
}

/// What is wrong about one file that is named.
fn file(line: usize, named: &str, target: Target, exists: &dyn Fn(&str) -> bool) -> Option<Diagnostic> {
    let (rule, found) = match target {
        Target::Elsewhere => return None,
        Target::File(path) if exists(&path) => return None,
        Target::File(_) => {
            (Fault::NoSuchFile, format!("there is no file `{}` in the workspace", short(named)))
        }
        Target::Outside => {
            (Fault::OutsideWorkspace, format!("`{}` lies outside the workspace", short(named)))
        }
    };
    Some(Diagnostic { line, rule, found, example: "src/main.rs, if that file exists".to_owned() })
}
