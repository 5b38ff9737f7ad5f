//! Codex's command line, as far as it changes what is printed. Unknown flags are tolerated.

use std::path::PathBuf;

/// Flags that take one value.
const VALUED: &[&str] = &[
    "-C",
    "--cd",
    "-c",
    "--config",
    "-m",
    "--model",
    "-s",
    "--sandbox",
    "-p",
    "--profile",
    "-a",
    "--ask-for-approval",
    "-i",
    "--image",
    "-o",
    "--output-last-message",
    "--output-schema",
    "--color",
    "--enable",
    "--disable",
    "--add-dir",
    "--local-provider",
];

/// Which thread to play.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Which {
    #[default]
    New,
    Last,
    Resume(String),
    Fork(String),
}

/// What a command line said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Arguments {
    pub(crate) wants_version: bool,
    /// Whether `exec` was named: anything else is the terminal program, which is not played.
    pub(crate) exec: bool,
    pub(crate) json: bool,
    pub(crate) ephemeral: bool,
    pub(crate) which: Which,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) last_message_file: Option<PathBuf>,
    pub(crate) prompt: Option<String>,
}

/// What the next plain word is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Command,
    Subcommand,
    ResumedId,
    ForkedId,
    Prompt,
}

impl Arguments {
    /// Reads a command line without the program's name.
    pub(crate) fn read(words: &[String]) -> Self {
        let mut read = Self::default();
        let mut next = Next::Command;
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let (flag, attached) = match word.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag, Some(value)),
                _ => (word, None),
            };
            if VALUED.contains(&flag) {
                let value = attached.or_else(|| words.next()).unwrap_or_default();
                match flag {
                    "-C" | "--cd" => read.folder = Some(value.into()),
                    "-o" | "--output-last-message" => read.last_message_file = Some(value.into()),
                    _ => {}
                }
            } else if flag.starts_with('-') && flag.len() > 1 {
                match flag {
                    "--version" | "-V" => read.wants_version = true,
                    "--json" | "--experimental-json" => read.json = true,
                    "--ephemeral" => read.ephemeral = true,
                    "--last" if next == Next::ResumedId => {
                        read.which = Which::Last;
                        next = Next::Prompt;
                    }
                    _ => {}
                }
            } else {
                next = read.plain(next, word);
            }
        }
        read
    }

    fn plain(&mut self, next: Next, word: &str) -> Next {
        match (next, word) {
            (Next::Command, "exec" | "e") => {
                self.exec = true;
                return Next::Subcommand;
            }
            (Next::Subcommand, "resume") => return Next::ResumedId,
            (Next::Subcommand, "fork") => return Next::ForkedId,
            (Next::ResumedId, id) => self.which = Which::Resume(id.to_owned()),
            (Next::ForkedId, id) => self.which = Which::Fork(id.to_owned()),
            (Next::Command | Next::Subcommand | Next::Prompt, prompt) => {
                self.prompt.get_or_insert_with(|| prompt.to_owned());
            }
        }
        Next::Prompt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapters_lines_are_understood() {
        let exec = || Arguments { exec: true, json: true, ..Arguments::default() };
        let table = [
            ("exec --json hello", Arguments { prompt: Some("hello".into()), ..exec() }),
            (
                "exec --json --dangerously-bypass-approvals-and-sandbox --disable plugins -c analytics.enabled=false -C /w -",
                Arguments { folder: Some("/w".into()), prompt: Some("-".into()), ..exec() },
            ),
            (
                "exec resume --json abc go",
                Arguments { which: Which::Resume("abc".into()), prompt: Some("go".into()), ..exec() },
            ),
            (
                "exec --json resume --last go",
                Arguments { which: Which::Last, prompt: Some("go".into()), ..exec() },
            ),
        ];
        for (line, want) in table {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(Arguments::read(&words), want, "{line}");
        }
    }
}
