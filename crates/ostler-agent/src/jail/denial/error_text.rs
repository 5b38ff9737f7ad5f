//! Reads error texts of tools: which path, and why it failed.

use super::Wanted;

/// How many lines before and after the cause the path may be: Cargo names it two lines before, npm two lines after.
const NEAR: usize = 3;

/// The longest text that is read. What a tool prints may be anything.
const LONGEST_TEXT: usize = 64 * 1024;

/// The most errors that are read in one text.
const MOST_REPORTS: usize = 64;

/// Why something failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Nothing is there.
    Missing,
    /// Not permitted.
    Denied,
    /// It cannot be changed.
    ReadOnly,
    /// It cannot be replaced: it is mounted.
    Busy,
}

/// An error in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) cause: Cause,
    /// What may be the path, as written, the likeliest first.
    pub(super) paths: Vec<String>,
    /// What the tool may have tried where nothing is granted.
    pub(super) wanted: &'static [Wanted],
}

/// As tools spell the causes, in lower case.
const CAUSES: [(&str, Cause); 14] = [
    ("read-only file system", Cause::ReadOnly),
    ("erofs", Cause::ReadOnly),
    ("readonlyfilesystemexception", Cause::ReadOnly),
    ("device or resource busy", Cause::Busy),
    ("resource busy or locked", Cause::Busy),
    ("permission denied", Cause::Denied),
    ("eacces", Cause::Denied),
    ("operation not permitted", Cause::Denied),
    ("accessdeniedexception", Cause::Denied),
    ("no such file or directory", Cause::Missing),
    ("enoent", Cause::Missing),
    ("nosuchfileexception", Cause::Missing),
    ("fatal: not a git repository: ", Cause::Missing),
    ("does not exist; check .git/objects/info/alternates", Cause::Missing),
];

/// Words of a tool that was about to change something, in lower case.
const CHANGES: [&str; 17] = [
    "mkdir", "creat", "write", "touch", "unlink", "rename", "remove", "rmdir", "symlink", "chmod", "save",
    "lock", "truncate", "move", "delete", "install", "copyfile",
];

/// Shells say the same for what they cannot execute and what they cannot redirect to.
const SHELLS: [&str; 5] = ["bash: ", "sh: ", "zsh:", "dash: ", "/bin/sh: "];

/// Quotes and how they end.
const QUOTES: [(char, char); 4] = [('\'', '\''), ('"', '"'), ('`', '`'), ('‘', '’')];

/// The errors in a text.
pub(super) fn reports(text: &str) -> Vec<Report> {
    let end = (0..=LONGEST_TEXT.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let lines: Vec<&str> = text[..end].lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let causes = lines.iter().enumerate().filter_map(|(at, line)| Some((at, cause(line)?)));
    let reports = causes.filter_map(|(at, cause)| report(&lines, at, cause));
    reports.take(MOST_REPORTS).collect()
}

fn cause(line: &str) -> Option<Cause> {
    let line = line.to_ascii_lowercase();
    CAUSES.iter().find(|(phrase, _)| line.contains(phrase)).map(|(_, cause)| *cause)
}

fn report(lines: &[&str], at: usize, cause: Cause) -> Option<Report> {
    let before = lines[..at].iter().rev().take(NEAR);
    let after = lines[at + 1..].iter().take(NEAR);
    // Another error's path is another error's.
    let near = before.chain(after).filter(|line| self::cause(line).is_none());
    let own = paths(lines[at]).into_iter().chain(bare_names(lines[at], cause)).collect();
    let near = near.map(|line| (*line, paths(line)));
    let mut named = std::iter::once((lines[at], own)).chain(near);
    let (line, paths) = named.find(|(_, paths)| !paths.is_empty())?;
    let both = format!("{} {line}", lines[at]).to_ascii_lowercase();
    let changes = CHANGES.iter().any(|word| both.contains(word));
    let is_shell = SHELLS.iter().any(|shell| lines[at].starts_with(shell));
    let wanted: &[Wanted] = match cause {
        Cause::ReadOnly | Cause::Busy => &[Wanted::Write],
        Cause::Denied | Cause::Missing if changes => &[Wanted::Write],
        Cause::Denied => &[Wanted::Read, Wanted::Write],
        Cause::Missing if is_shell => &[Wanted::Read, Wanted::Write],
        Cause::Missing => &[Wanted::Read],
    };
    Some(Report { cause, paths, wanted })
}

/// What may be a path in a line: what is quoted, then what stands between colons, then words.
fn paths(line: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    // Java puts the cause in brackets behind the path.
    let segments = line.split(": ").map(|segment| segment.split(" (").next().unwrap_or(segment).trim());
    let segments = segments.filter(|segment| starts_like_a_path(segment));
    let words = line.split_whitespace().map(|word| {
        word.trim_matches(|letter: char| "()[]{}<>,;:'\"`‘’!".contains(letter)).trim_end_matches('.')
    });
    let all = quoted(line).into_iter().chain(segments).chain(words);
    for path in all.filter(|path| is_like_a_path(path)) {
        let path = path.strip_prefix("file://").unwrap_or(path).to_owned();
        if !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

/// Names of files in the working directory: what is quoted, and what stands before the cause. Only of files that cannot be
/// changed, since many other things than files are not permitted or not there.
fn bare_names(line: &str, cause: Cause) -> Vec<String> {
    match cause {
        Cause::Missing | Cause::Denied => return Vec::new(),
        Cause::ReadOnly | Cause::Busy => {}
    }
    let before = line.rsplit(": ").nth(1);
    let names = quoted(line).into_iter().chain(before);
    let is_name = |name: &&str| !name.is_empty() && !name.contains(|letter: char| " \t/[]".contains(letter));
    names.filter(is_name).map(str::to_owned).collect()
}

fn quoted(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (open, close) in QUOTES {
        let mut rest = line;
        while let Some(start) = rest.find(open) {
            let after = &rest[start + open.len_utf8()..];
            let Some(end) = after.find(close) else { break };
            found.push(&after[..end]);
            rest = &after[end + close.len_utf8()..];
        }
    }
    found
}

fn starts_like_a_path(text: &str) -> bool {
    ["/", "~/", "./", "../"].iter().any(|start| text.starts_with(start))
}

fn is_like_a_path(text: &str) -> bool {
    let is_url = text.contains("://") && !text.starts_with("file:///");
    let is_name = text.starts_with('.') && text.len() > 2 && !text.contains(char::is_whitespace);
    let has_place = text.contains('/') && (starts_like_a_path(text) || !text.contains(char::is_whitespace));
    let has_letters = text.contains(|letter: char| letter.is_alphanumeric());
    !is_url && has_letters && (is_name || has_place)
}
