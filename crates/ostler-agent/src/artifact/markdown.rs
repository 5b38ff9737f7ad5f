//! The little of Markdown that rules speak of: headings outside of code, and links.

/// A heading: how deep, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// From 1 to 6.
    pub level: usize,
    /// Without the signs around it.
    pub text: String,
}

impl Heading {
    /// Reads a line like `## Steps`.
    pub fn parse(line: &str) -> Option<Self> {
        let rest = line.trim_start_matches(' ');
        // Four spaces make it code.
        if line.len() - rest.len() > 3 {
            return None;
        }
        let text = rest.trim_start_matches('#');
        let level = rest.len() - text.len();
        let is_apart = text.is_empty() || text.starts_with([' ', '\t']);
        let text = text.trim().trim_end_matches('#').trim();
        ((1..=6).contains(&level) && is_apart && !text.is_empty())
            .then(|| Self { level, text: text.to_owned() })
    }

    /// Whether it is the one that was asked for. Letters may be small or capital: agents are not consistent there.
    pub fn is(&self, other: &Self) -> bool {
        self.level == other.level && self.text.to_lowercase() == other.text.to_lowercase()
    }
}

impl std::fmt::Display for Heading {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} {}", "#".repeat(self.level), self.text)
    }
}

/// A heading of a document.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) line: usize,
    pub(super) heading: Heading,
    pub(super) content: Content,
}

/// Whether something stands between a heading and the next one of its level or above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Empty,
    Some,
}

/// A line of a document, and whether it is code.
struct Line<'a> {
    number: usize,
    text: &'a str,
    is_code: bool,
}

/// Lines from `first` on, with those inside of fences marked.
fn lines(text: &str, first: usize) -> Vec<Line<'_>> {
    let mut fence: Option<(char, usize)> = None;
    let mut found = Vec::new();
    for (index, text) in text.lines().enumerate() {
        let mark = fence_of(text);
        let is_code = match (fence, mark) {
            (None, None) => false,
            (None, Some((char, length, _))) => {
                fence = Some((char, length));
                true
            }
            (Some((open, least)), Some((char, length, rest)))
                if char == open && length >= least && rest.trim().is_empty() =>
            {
                fence = None;
                true
            }
            (Some(_), _) => true,
        };
        found.push(Line { number: first + index, text, is_code });
    }
    found
}

/// A run of three or more backticks or tildes that begins a line, and what follows it.
fn fence_of(line: &str) -> Option<(char, usize, &str)> {
    let line = line.trim_start();
    let char = line.chars().next().filter(|char| matches!(char, '`' | '~'))?;
    let rest = line.trim_start_matches(char);
    let length = line.len() - rest.len();
    (length >= 3).then_some((char, length, rest))
}

/// The sections of a text whose first line has the number `first`.
pub(super) fn sections(text: &str, first: usize) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    // Sections that the current line is in: each is deeper than the one before.
    let mut open: Vec<usize> = Vec::new();
    for line in lines(text, first) {
        let heading = if line.is_code { None } else { Heading::parse(line.text) };
        if let Some(heading) = &heading {
            open.retain(|at| sections[*at].heading.level < heading.level);
        }
        if heading.is_some() || !line.text.trim().is_empty() {
            open.iter().for_each(|at| sections[*at].content = Content::Some);
        }
        if let Some(heading) = heading {
            open.push(sections.len());
            sections.push(Section { line: line.number, heading, content: Content::Empty });
        }
    }
    sections
}

/// Targets of inline links, with their lines. Code is left out.
pub(super) fn links(text: &str, first: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for line in lines(text, first).iter().filter(|line| !line.is_code) {
        let plain: String = line.text.split('`').step_by(2).collect::<Vec<_>>().join("\u{0}");
        for rest in plain.split("](").skip(1) {
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            found.push((line.number, target.trim_matches(['<', '>']).to_owned()));
        }
    }
    found
}
