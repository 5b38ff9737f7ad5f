//! Claude Code's command line, as far as it changes what is printed. Unknown flags are tolerated: the real one grows
//! new ones with every version, and an adapter must be able to pass them.

use anyhow::bail;

/// Flags that take one value.
const VALUED: &[&str] = &[
    "--agent",
    "--agents",
    "--append-system-prompt",
    "--append-system-prompt-file",
    "--debug-file",
    "--effort",
    "--fallback-model",
    "--input-format",
    "--json-schema",
    "--max-budget-usd",
    "--max-turns",
    "--model",
    "--name",
    "-n",
    "--output-format",
    "--permission-mode",
    "--permission-prompt-tool",
    "--plugin-dir",
    "--session-id",
    "--setting-sources",
    "--settings",
    "--system-prompt",
    "--system-prompt-file",
];

/// Flags that swallow every word up to the next flag, a prompt included.
const VARIADIC: &[&str] = &[
    "--add-dir",
    "--allowed-tools",
    "--allowedTools",
    "--betas",
    "--disallowed-tools",
    "--disallowedTools",
    "--mcp-config",
    "--tools",
];

/// How output is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Format {
    #[default]
    Text,
    /// One result record.
    Json,
    /// Every record.
    StreamJson,
}

/// Which session to play.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Which {
    #[default]
    New,
    /// The newest of this folder.
    Continue,
    Resume(String),
}

/// What a command line said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Arguments {
    pub(crate) wants_version: bool,
    pub(crate) print: bool,
    pub(crate) verbose: bool,
    pub(crate) output: Format,
    /// Whether prompts come as records on stdin.
    pub(crate) streams_input: bool,
    pub(crate) partial_messages: bool,
    pub(crate) replays_prompts: bool,
    /// Whether permission questions go to the host over stdio.
    pub(crate) asks_host: bool,
    pub(crate) which: Which,
    pub(crate) forks: bool,
    pub(crate) session_id: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) permission_mode: Option<String>,
    pub(crate) prompt: Option<String>,
}

impl Arguments {
    /// Reads a command line without the program's name. Fails where the real one does.
    pub(crate) fn read(words: &[String]) -> anyhow::Result<Self> {
        let mut read = Self::default();
        let mut words = words.iter().map(String::as_str).peekable();
        while let Some(word) = words.next() {
            if word == "--" {
                read.prompt = words.next().map(str::to_owned).or(read.prompt);
                break;
            }
            let (flag, attached) = match word.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag, Some(value)),
                _ => (word, None),
            };
            if VARIADIC.contains(&flag) {
                while attached.is_none() && words.next_if(|next| !next.starts_with('-')).is_some() {}
            } else if matches!(flag, "--resume" | "-r") {
                let id = attached.or_else(|| words.next_if(|next| !next.starts_with('-')));
                read.which = id.map_or(Which::Continue, |id| Which::Resume(id.to_owned()));
            } else if VALUED.contains(&flag) {
                let Some(value) = attached.or_else(|| words.next()) else {
                    bail!("error: option '{flag} <value>' argument missing");
                };
                read.set(flag, value)?;
            } else if flag.starts_with('-') && flag.len() > 1 {
                read.switch(flag);
            } else {
                read.prompt.get_or_insert_with(|| word.to_owned());
            }
        }
        Ok(read)
    }

    fn set(&mut self, flag: &str, value: &str) -> anyhow::Result<()> {
        match flag {
            "--output-format" => {
                self.output = match value {
                    "text" => Format::Text,
                    "json" => Format::Json,
                    "stream-json" => Format::StreamJson,
                    other => bail!(
                        "error: option '--output-format <format>' argument '{other}' is invalid. \
                         Allowed choices are text, json, stream-json."
                    ),
                }
            }
            "--input-format" => self.streams_input = value == "stream-json",
            "--permission-prompt-tool" => self.asks_host = value == "stdio",
            "--permission-mode" => self.permission_mode = Some(value.to_owned()),
            "--session-id" => self.session_id = Some(value.to_owned()),
            "--model" => self.model = Some(value.to_owned()),
            _ => {}
        }
        Ok(())
    }

    fn switch(&mut self, flag: &str) {
        match flag {
            "--version" | "-v" => self.wants_version = true,
            "--print" | "-p" => self.print = true,
            "--verbose" => self.verbose = true,
            "--continue" | "-c" => self.which = Which::Continue,
            "--fork-session" => self.forks = true,
            "--include-partial-messages" => self.partial_messages = true,
            "--replay-user-messages" => self.replays_prompts = true,
            "--dangerously-skip-permissions" => self.permission_mode = Some("bypassPermissions".to_owned()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Arguments {
        Arguments::read(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn prompts_are_found_where_the_real_one_finds_them() {
        let table = [
            ("-p hello", Some("hello")),
            ("-p --output-format stream-json --verbose hello", Some("hello")),
            ("-p --allowedTools Bash hello", None),
            ("-p --allowedTools=Bash hello", Some("hello")),
            ("-p --mcp-config {} --strict-mcp-config hello", Some("hello")),
            ("-p --add-dir /a /b -- hello", Some("hello")),
            ("--brand-new-flag hello", Some("hello")),
            ("-p --resume abc", None),
            ("-p --resume abc hello", Some("hello")),
        ];
        for (line, want) in table {
            assert_eq!(read(line).prompt.as_deref(), want, "{line}");
        }
    }

    #[test]
    fn an_adapters_whole_line_is_understood() {
        let line = "-p --output-format stream-json --input-format stream-json --verbose --permission-prompt-tool stdio \
                    --session-id 11111111-2222-4333-8444-555555555555 --model sonnet --include-partial-messages";
        let want = Arguments {
            print: true,
            verbose: true,
            output: Format::StreamJson,
            streams_input: true,
            partial_messages: true,
            asks_host: true,
            session_id: Some("11111111-2222-4333-8444-555555555555".to_owned()),
            model: Some("sonnet".to_owned()),
            ..Arguments::default()
        };
        assert_eq!(read(line), want);
    }
}
