//! What a request to the model says, whatever wire format it came in.
//!
//! Each wire format is read into `Line`s; what was asked, how far the conversation has come and what it is for is
//! told from those, so that a script plays alike for every agent and goes on after a restart or a resume.

use crate::side::{Asker, Bookmark, Side};

/// A provider's wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions.
    Chat,
}

impl Wire {
    /// The word for it in logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Responses => "responses",
            Self::Chat => "chat",
        }
    }
}

/// How the answer is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Server-sent events.
    Stream,
    /// One JSON object.
    Whole,
}

/// One thing that stands in the conversation so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// A person said it.
    User(String),
    /// The agent's own words to the model: reminders, environment, instructions.
    Setting(String),
    /// The model said it.
    Model(String),
    /// The model called tools, several at once perhaps.
    Calls,
    /// What the tools answered.
    Results(Vec<String>),
}

/// What a request says.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// The format it came in.
    pub(crate) wire: Wire,
    /// The model it names.
    pub(crate) model: String,
    /// How it wants its answer.
    pub(crate) delivery: Delivery,
    /// Names of the tools that the model may call.
    pub(crate) offered: Vec<String>,
    /// What the person asked last; empty if nobody did.
    pub(crate) prompt: String,
    /// How many times anybody asked for anything in this conversation.
    pub(crate) prompts: usize,
    /// What was asked before that, the oldest first, with the rounds of tool calls that each led to.
    pub(crate) earlier: Vec<(String, usize)>,
    /// How many rounds of tool calls there were since.
    pub(crate) rounds: usize,
    /// What the tools answered in the last round.
    pub(crate) results: Vec<String>,
    /// The directory that the agent says it works in.
    pub(crate) workspace: Option<String>,
    /// The agent's id of the session, where it sends one.
    pub(crate) session: Option<String>,
    /// Where the conversation was when the agent had it summarised.
    pub(crate) bookmark: Option<Bookmark>,
    /// A request that the agent makes on its own.
    pub(crate) side: Option<Side>,
}

/// What a wire format's reader finds.
pub(crate) struct Heard {
    pub(crate) wire: Wire,
    pub(crate) model: String,
    pub(crate) delivery: Delivery,
    pub(crate) offered: Vec<String>,
    pub(crate) lines: Vec<Line>,
    pub(crate) session: Option<String>,
    pub(crate) side: Option<Side>,
}

impl Heard {
    /// Tells what is asked.
    pub(crate) fn ask(mut self, asker: Asker) -> Ask {
        let workspace = workspace(&self.lines);
        // A sub-agent, too, has its conversation summarised when it grows long.
        let side = Side::told(asker, &self.lines, &self.offered).or(self.side);
        if side == Some(Side::Summary) {
            // The request itself is not part of the conversation that it wants summarised.
            let asked = self.lines.iter().rposition(Side::asks_for_summary).unwrap_or(self.lines.len());
            self.lines.truncate(asked);
        }
        let start = self.lines.iter().rposition(|line| matches!(line, Line::User(_))).unwrap_or(0);
        let bookmarked = self.lines.iter().enumerate().rev().find_map(|(at, line)| match line {
            Line::User(text) | Line::Model(text) | Line::Setting(text) => {
                Bookmark::find(text).map(|mark| (at, mark))
            }
            Line::Calls | Line::Results(_) => None,
        });
        // A bookmark counts only if nobody asked for anything new after it.
        let (start, bookmark) = match bookmarked {
            Some((at, mark)) if at >= start => (at, Some(mark)),
            Some(_) | None => (start, None),
        };
        let since = &self.lines[start.min(self.lines.len())..];
        let rounds = since.iter().filter(|line| matches!(line, Line::Calls)).count();
        let results = since.iter().rev().find_map(|line| match line {
            Line::Results(results) => Some(results.clone()),
            Line::User(_) | Line::Setting(_) | Line::Model(_) | Line::Calls => None,
        });
        let prompt = match (&bookmark, self.lines.get(start)) {
            (Some(mark), _) => mark.prompt.clone(),
            (None, Some(Line::User(text))) => text.clone(),
            (None, _) => String::new(),
        };
        Ask {
            wire: self.wire,
            model: self.model,
            delivery: self.delivery,
            prompt,
            earlier: earlier(&self.lines[..start.min(self.lines.len())]),
            prompts: self.lines.iter().filter(|line| matches!(line, Line::User(_))).count(),
            rounds: rounds.saturating_add(bookmark.as_ref().map_or(0, |mark| mark.round)),
            results: results.unwrap_or_default(),
            workspace,
            session: self.session,
            bookmark,
            side,
            offered: self.offered,
        }
    }
}

fn earlier(lines: &[Line]) -> Vec<(String, usize)> {
    let mut asked: Vec<(String, usize)> = Vec::new();
    for line in lines {
        match (line, asked.last_mut()) {
            (Line::User(text), _) => asked.push((text.clone(), 0)),
            (Line::Calls, Some((_, rounds))) => *rounds += 1,
            (Line::Calls | Line::Results(_) | Line::Model(_) | Line::Setting(_), _) => {}
        }
    }
    asked
}

/// The MCP server that is meant where an agent does not list its tools and the script names none: our own.
pub(crate) const OWN_SERVER: &str = "ostler";

impl Ask {
    /// Whether a tool is offered, by its own name or, as `mcp:NAME`, by the name that an MCP server gave it. Of a server
    /// whose tools are not listed every one is.
    pub(crate) fn offers(&self, tool: &str) -> bool {
        match tool.strip_prefix("mcp:") {
            Some(name) => {
                let server = name.split_once('/').map_or(OWN_SERVER, |(server, _)| server);
                let server = format!("mcp__{server}");
                self.offered.iter().any(|offered| *offered == server || is_mcp(offered, name))
            }
            None => self.offered.iter().any(|offered| offered == tool),
        }
    }
}

/// Whether an agent's name for a tool means the MCP tool `name`, given as `TOOL` or `SERVER/TOOL`: Claude Code and
/// Codex say `mcp__server__tool`, OpenCode `server_tool`.
pub(crate) fn is_mcp(offered: &str, name: &str) -> bool {
    match name.split_once('/') {
        Some((server, tool)) => {
            offered == format!("mcp__{server}__{tool}") || offered == format!("{server}_{tool}")
        }
        None if offered.starts_with("mcp__") => offered.ends_with(&format!("__{name}")),
        None => offered.len() > name.len() && offered.ends_with(&format!("_{name}")),
    }
}

/// Agents tell the model where they work: Claude Code and OpenCode in a line of the system prompt, Codex in tags.
/// The last one counts, since a session may move.
fn workspace(lines: &[Line]) -> Option<String> {
    let texts = lines.iter().rev().filter_map(|line| match line {
        Line::Setting(text) => Some(text.as_str()),
        Line::User(_) | Line::Model(_) | Line::Calls | Line::Results(_) => None,
    });
    let stated = texts.map(|text| match between(text, "<cwd>", "</cwd>") {
        Some(tagged) => Some(unescape(tagged)),
        None => between(text, "orking directory: /", "\n").map(str::to_owned),
    });
    stated.flatten().find_map(|path| {
        let path = path.trim();
        (!path.is_empty()).then(|| if path.starts_with('/') { path.to_owned() } else { format!("/{path}") })
    })
}

/// What follows the last `start` in a text, up to `end`.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let after = &text[text.rfind(start)? + start.len()..];
    after.split(end).next()
}

/// The characters that XML escapes. Codex 0.166.0 writes its directory so: `R&D` is `R&amp;D` there.
const ESCAPES: [(&str, char); 5] =
    [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"'), ("&apos;", '\'')];

/// The text between two tags, as it was before it was escaped.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let known = ESCAPES.iter().find(|(escape, _)| rest.starts_with(escape));
        // An `&` of no escape is itself.
        let (length, char) = known.map_or((1, '&'), |(escape, char)| (escape.len(), *char));
        plain.push(char);
        rest = &rest[length..];
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_read_as_the_agent_means_it() {
        let table = [
            ("<cwd>/ws</cwd>", Some("/ws")),
            ("<cwd>/R&amp;D &lt;new&gt; &apos;a&quot;b&apos;</cwd>", Some("/R&D <new> 'a\"b'")),
            ("<cwd>/a&amp;lt;b & c</cwd>", Some("/a&lt;b & c")),
            ("Working directory: /R&D <new>\nnext", Some("/R&D <new>")),
            // No tags, no escapes: this is the name.
            ("Working directory: /R&amp;D\n", Some("/R&amp;D")),
            ("<cwd> </cwd>", None),
            ("nothing", None),
        ];
        for (text, want) in table {
            let lines = [Line::Setting(text.to_owned())];
            assert_eq!(workspace(&lines).as_deref(), want, "{text}");
        }
    }
}
