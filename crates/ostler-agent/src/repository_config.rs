//! What a repository brings that an agent would execute or obey as configuration: hooks, plugins, MCP servers, settings,
//! commands. Each agent's own list is in its own file; the lists of programs that Ostler does not run are here.
//!
//! Instruction files (`CLAUDE.md`, `AGENTS.md`) are text and in none of the lists. Finding, hashing and trusting the
//! files is `ostler-process`'s `trust`.

use std::path::PathBuf;

use crate::agent::Refusal;
use crate::agents::AGENTS;

/// One file or directory that a repository can bring, in the directory that an agent works in or in one above it.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The path, relative to that directory.
    pub path: &'static str,
    /// Whether all that is below it belongs to it.
    pub kind: EntryKind,
    /// What it can do, in a few words.
    pub effect: &'static str,
    /// What keeps the agent from loading it.
    pub stop: Stop,
    /// Names directly below it that are not part of it: text, and what the agent itself creates.
    pub except: &'static [&'static str],
}

/// Whether an entry is a file or a directory with all that is below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

impl EntryKind {
    /// The word for it in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
        }
    }
}

/// What keeps an agent from loading an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Its own options.
    Options,
    /// Only that the files are masked: no option of the agent does.
    Mask,
}

impl ConfigEntry {
    pub(crate) const fn file(path: &'static str, effect: &'static str) -> Self {
        Self { path, kind: EntryKind::File, effect, stop: Stop::Options, except: &[] }
    }

    pub(crate) const fn directory(path: &'static str, effect: &'static str) -> Self {
        Self { path, kind: EntryKind::Directory, effect, stop: Stop::Options, except: &[] }
    }

    pub(crate) const fn without(self, except: &'static [&'static str]) -> Self {
        Self { except, ..self }
    }

    pub(crate) const fn only_masked(self) -> Self {
        Self { stop: Stop::Mask, ..self }
    }

    /// Whether a path, relative to the same directory, is this entry or below it.
    pub fn covers(&self, path: &str) -> bool {
        match path.strip_prefix(self.path) {
            Some("") => true,
            Some(below) => {
                self.kind == EntryKind::Directory && below.starts_with('/') && !self.leaves_out(below)
            }
            None => false,
        }
    }

    fn leaves_out(&self, below: &str) -> bool {
        let first = below.trim_start_matches('/').split('/').next().unwrap_or_default();
        self.except.contains(&first)
    }
}

/// A program that loads entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loader {
    /// Its name: that of the agent's package.
    pub name: &'static str,
    /// The name people know.
    pub title: &'static str,
    /// What it loads.
    pub entries: &'static [ConfigEntry],
}

/// The name of Ostler itself among the loaders.
pub const OSTLER: &str = "ostler";

/// Programs that Ostler does not run, and Ostler itself.
static OTHERS: [Loader; 3] = [
    Loader {
        name: "gemini",
        title: "Gemini CLI",
        entries: &[ConfigEntry::directory(".gemini", "starts MCP servers, sets options, adds commands")],
    },
    Loader {
        name: "cursor",
        title: "Cursor",
        entries: &[ConfigEntry::directory(".cursor", "starts MCP servers, runs hooks, adds rules")],
    },
    Loader {
        name: OSTLER,
        title: "Ostler",
        entries: &[ConfigEntry::file(".ostler/config.toml", "sets programs, MCP servers and permissions")],
    },
];

/// Every program that loads something from a repository, each once.
pub fn loaders() -> Vec<Loader> {
    let mut loaders: Vec<Loader> = Vec::new();
    for agent in AGENTS {
        let (name, entries) = (agent.package().slot, agent.repository_config());
        if !loaders.iter().any(|known| known.name == name) {
            loaders.push(Loader { name, title: agent.title(), entries });
        }
    }
    loaders.extend(OTHERS);
    loaders
}

/// The entries to look for in a directory, each once: what is below another entry is found with that.
pub fn roots() -> Vec<&'static ConfigEntry> {
    let all: Vec<&ConfigEntry> = loaders().into_iter().flat_map(|loader| loader.entries).collect();
    let is_root = |entry: &ConfigEntry| {
        !all.iter().any(|other| {
            other.kind == EntryKind::Directory && other.path != entry.path && is_below(entry.path, other.path)
        })
    };
    let mut roots: Vec<&ConfigEntry> = Vec::new();
    for entry in all.iter().copied().filter(|entry| is_root(entry)) {
        if !roots.iter().any(|known| known.path == entry.path) {
            roots.push(entry);
        }
    }
    roots
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|below| below.starts_with('/'))
}

/// What a path, relative to the directory that brings it, does for a program that loads it; nothing if it does not.
pub fn effect(loader: &Loader, path: &str) -> Option<&'static ConfigEntry> {
    loader.entries.iter().filter(|entry| entry.covers(path)).max_by_key(|entry| entry.path.len())
}

/// What of a file counts. An agent that edits a repository's file by itself must not lose the trust in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// All of it.
    Whole,
    /// This, which is what was there before an agent's own edit.
    Before(Vec<u8>),
    /// Nothing: an agent wrote all of it.
    None,
}

/// What of the content of a file counts, by its path relative to the directory that brings it.
pub fn content(path: &str, bytes: &[u8]) -> Content {
    let found = AGENTS.iter().map(|agent| agent.before_own_edits(path, bytes));
    found.into_iter().find(|content| *content != Content::Whole).unwrap_or(Content::Whole)
}

/// Files with instructions that an agent no longer reads by itself once a repository's configuration is kept from it. Of
/// each group the first that exists is read; a name that ends with `/` stands for all `.md` files in that directory.
#[derive(Debug, Clone, Copy, Default)]
pub struct InstructionFiles {
    /// In the directory that it works in.
    pub workspace: &'static [&'static [&'static str]],
    /// In each directory above it, up to the root of the repository.
    pub above: &'static [&'static [&'static str]],
}

/// Whether the files that no option stops are masked in the agent's own view of the file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Masking {
    /// They are not: an agent that would load them is refused.
    #[default]
    Unavailable,
    /// They are.
    InPlace,
}

/// Whether an agent may load what the repository brings for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RepositoryTrust<'a> {
    /// The repository brings nothing for this agent.
    #[default]
    Nothing,
    /// The user trusts these files: the agent loads them.
    Trusted(&'a Trusted),
    /// They are not loaded.
    Untrusted(&'a Untrusted),
}

/// A repository whose configuration is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trusted {
    /// The directories that bring it: the workspace and those above it.
    pub directories: Vec<PathBuf>,
}

/// A repository whose configuration is not trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Untrusted {
    /// The files that this agent would load, relative to the root of the repository.
    pub files: Vec<String>,
    /// Those of them that no option of the agent stops.
    pub only_masked: Vec<String>,
    /// Why they cannot be trusted, if that is so.
    pub problem: Option<String>,
    /// The workspace and the directories above it; for a linked worktree also the main one.
    pub directories: Vec<PathBuf>,
    /// Instructions of the repository that the agent is to be given in another way.
    pub instructions: Option<String>,
    /// What to name to `ostler trust`.
    pub directory: PathBuf,
    /// Whether what no option stops is masked.
    pub masking: Masking,
    /// What is masked then: absolute paths of files and directories.
    pub masks: Vec<PathBuf>,
}

/// How many files a sentence names.
const NAMED_FILES: usize = 5;

impl Untrusted {
    /// What a person should know: which files are not loaded, and what to do.
    pub fn warning(&self) -> String {
        let why = match &self.problem {
            Some(problem) => format!("it cannot be trusted: {problem}"),
            None => format!("the folder is not trusted; `{}` shows and trusts them", self.command()),
        };
        format!("not loaded: {}, because {why}", name_some(&self.files))
    }

    /// Refuses an agent that would load files although they are not trusted. The only place that decides this.
    pub fn refuse_unmasked(&self, agent: &'static str) -> Result<(), Refusal> {
        if self.masking == Masking::InPlace || self.only_masked.is_empty() {
            return Ok(());
        }
        let files = name_some(&self.only_masked);
        let (why, hint) = match &self.problem {
            Some(problem) => (problem.clone(), "remove them, or use another agent".to_owned()),
            None => {
                let hint = format!("`{}` shows and trusts them; or use another agent", self.command());
                ("the folder is not trusted".to_owned(), hint)
            }
        };
        let reason = format!("it would load {files} of the repository, and {why}");
        Err(Refusal { agent, reason, hint })
    }

    /// The system prompt with the repository's instructions after it.
    pub(crate) fn with_instructions(&self, system_prompt: Option<&str>) -> Option<String> {
        let parts: Vec<&str> = system_prompt.into_iter().chain(self.instructions.as_deref()).collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }

    /// Whether one of the files belongs to a skill.
    pub(crate) fn has_skills(&self) -> bool {
        self.files.iter().any(|file| file.split('/').any(|part| part == "skills"))
    }

    fn command(&self) -> String {
        let directory = self.directory.to_string_lossy();
        let quoted = shlex::try_quote(&directory).unwrap_or_else(|_| directory.clone());
        format!("ostler trust {quoted}")
    }
}

/// The first few of them, and how many more there are.
pub fn name_some(files: &[String]) -> String {
    let named: Vec<String> = files.iter().take(NAMED_FILES).map(|file| format!("`{file}`")).collect();
    match files.len().saturating_sub(NAMED_FILES) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which programs load a path, and what they say it does.
    fn loaded(path: &str) -> Vec<String> {
        let found = |loader: &Loader| Some(format!("{}: {}", loader.name, effect(loader, path)?.effect));
        loaders().iter().filter_map(found).collect()
    }

    #[test]
    fn every_file_that_an_agent_executes_or_obeys_is_listed_with_what_it_does() {
        let settings = "claude: runs hooks and helper programs, sets variables and permissions";
        let table: [(&str, &[&str]); 23] = [
            (".claude/settings.json", &[settings]),
            (".claude/settings.local.json", &[settings]),
            (".claude/hooks/start.sh", &["claude: is run by hooks"]),
            (".claude/commands/deploy.md", &["claude: adds commands"]),
            (".claude/agents/reviewer.md", &["claude: adds sub-agents"]),
            (".claude/skills/x/SKILL.md", &["claude: adds skills", "opencode: adds skills"]),
            (".claude/plugins/x/plugin.json", &["claude: adds plugins"]),
            (".claude/anything.sh", &["claude: configures the agent"]),
            (".mcp.json", &["claude: starts MCP servers"]),
            (".codex/config.toml", &["codex: starts MCP servers, sets instructions and options"]),
            (".codex/hooks.json", &["codex: runs hooks"]),
            (".agents/skills/x/SKILL.md", &["codex: adds skills", "opencode: adds skills"]),
            (".opencode/plugins/x.js", &["opencode: runs as a plugin"]),
            (".opencode/plugin/x.ts", &["opencode: runs as a plugin"]),
            (".opencode/tool/x.js", &["opencode: runs as a tool"]),
            (".opencode/command/x.md", &["opencode: adds commands"]),
            ("opencode.json", &["opencode: runs plugins, starts MCP servers, sets permissions"]),
            ("opencode.jsonc", &["opencode: runs plugins, starts MCP servers, sets permissions"]),
            (".gemini/settings.json", &["gemini: starts MCP servers, sets options, adds commands"]),
            (".cursor/mcp.json", &["cursor: starts MCP servers, runs hooks, adds rules"]),
            (".ostler/config.toml", &["ostler: sets programs, MCP servers and permissions"]),
            (".codexes/config.toml", &[]),
            ("src/.mcp.json", &[]),
        ];
        for (path, want) in table {
            assert_eq!(loaded(path), want, "{path}");
        }
    }

    #[test]
    fn instructions_and_what_agents_write_themselves_are_not_listed() {
        for path in [
            "CLAUDE.md",
            "CLAUDE.local.md",
            "AGENTS.md",
            ".claude/CLAUDE.md",
            ".claude/rules/style.md",
            ".claude/worktrees/x/.claude/settings.json",
            ".opencode/node_modules/zod/index.js",
            ".opencode/.gitignore",
            ".ostler/artifacts/plan.toml",
        ] {
            assert_eq!(loaded(path), Vec::<String>::new(), "{path}");
        }
    }

    #[test]
    fn each_root_is_looked_for_once() {
        let found: Vec<&str> = roots().iter().map(|entry| entry.path).collect();
        let want = [
            ".claude",
            ".mcp.json",
            ".codex",
            ".agents",
            ".opencode",
            "opencode.json",
            "opencode.jsonc",
            ".gemini",
            ".cursor",
            ".ostler/config.toml",
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn an_agent_that_cannot_be_stopped_is_refused_unless_the_files_are_masked() {
        let untrusted = Untrusted {
            files: vec!["AGENTS".to_owned(), "opencode.json".to_owned()],
            only_masked: vec!["opencode.json".to_owned()],
            directory: PathBuf::from("/srv/a b"),
            ..Untrusted::default()
        };
        let refusal = untrusted.refuse_unmasked("opencode").unwrap_err();
        assert_eq!(
            (refusal.reason.as_str(), refusal.hint.as_str()),
            (
                "it would load `opencode.json` of the repository, and the folder is not trusted",
                "`ostler trust '/srv/a b'` shows and trusts them; or use another agent"
            )
        );
        let masked = Untrusted { masking: Masking::InPlace, ..untrusted.clone() };
        assert_eq!(masked.refuse_unmasked("opencode"), Ok(()));
        let stoppable = Untrusted { only_masked: Vec::new(), ..untrusted };
        assert_eq!(stoppable.refuse_unmasked("opencode"), Ok(()));
    }

    #[test]
    fn a_warning_names_some_files_and_what_to_do() {
        let files = (0..7).map(|number| format!(".claude/{number}")).collect();
        let untrusted = Untrusted { files, directory: PathBuf::from("/srv/x"), ..Untrusted::default() };
        assert_eq!(
            untrusted.warning(),
            "not loaded: `.claude/0`, `.claude/1`, `.claude/2`, `.claude/3`, `.claude/4` and 2 more, because the folder \
             is not trusted; `ostler trust /srv/x` shows and trusts them"
        );
        let problem = Some("`.claude/0` is not a regular file".to_owned());
        let broken = Untrusted { files: vec![".claude/0".to_owned()], problem, ..untrusted };
        let warning =
            "not loaded: `.claude/0`, because it cannot be trusted: `.claude/0` is not a regular file";
        assert_eq!(broken.warning(), warning);
    }
}
