//! The ways in which real agents are played, and what they say, read as a run reads it.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use ostler_agent::agent::{Agent, Exit, Launch, Session, Source, Stdin, Task};
use ostler_agent::agents::{Claude, ClaudeTerminal, Codex, OpenCode};
use ostler_agent::event::{AgentEvent, Part, TurnOutcome};

use crate::stage::Ended;

/// A real agent, driven in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Player {
    /// `claude -p` with the prompt as text.
    ClaudeOneShot,
    /// `claude -p --input-format stream-json`.
    ClaudeStream,
    /// `claude` on a terminal.
    ClaudeTerminal,
    /// The same, of another version.
    ClaudeTerminalNewer,
    /// `codex exec --json`.
    Codex,
    /// `opencode run --format json`.
    OpenCode,
}

impl Player {
    pub(crate) fn agent(self) -> &'static dyn Agent {
        match self {
            Self::ClaudeOneShot | Self::ClaudeStream => &Claude,
            Self::ClaudeTerminal | Self::ClaudeTerminalNewer => &ClaudeTerminal,
            Self::Codex => &Codex,
            Self::OpenCode => &OpenCode,
        }
    }

    /// The folder with the agents, by the variable that says where it is.
    fn agents(self) -> &'static str {
        match self {
            Self::ClaudeTerminalNewer => "OSTLER_TEST_AGENTS_NEWER",
            _ => "OSTLER_TEST_AGENTS",
        }
    }

    pub(crate) fn launch(self, task: &Task<'_>) -> Launch {
        match self {
            Self::ClaudeTerminal | Self::ClaudeTerminalNewer => {
                self.agent().interactive().unwrap().launch(task).unwrap()
            }
            Self::ClaudeStream | Self::Codex | Self::OpenCode => self.agent().launch(task).unwrap(),
            Self::ClaudeOneShot => {
                let mut args = vec!["-p", "--output-format", "stream-json", "--verbose"];
                args.extend(["--permission-mode", "bypassPermissions"]);
                if let Session::Resumed(session) = task.session {
                    args.extend(["--resume", session]);
                }
                let args = args.into_iter().map(str::to_owned).collect();
                let stdin = Stdin::Text(task.prompt.to_owned());
                let (env, files, warnings) = (Vec::new(), Vec::new(), Vec::new());
                let as_root = Claude.launch(task).unwrap().as_root;
                Launch { args, env, stdin, files, profile: None, warnings, as_root }
            }
        }
    }

    /// The agent's native binary, or a loud skip where it is not required.
    pub(crate) fn binary(self) -> Option<PathBuf> {
        let agents = std::env::var_os(self.agents()).map(PathBuf::from);
        let found = agents.and_then(|agents| native(self.agent(), &agents));
        if found.is_none() {
            let name = self.agent().name();
            let required = std::env::var_os("OSTLER_E2E").is_some_and(|value| value == "require");
            assert!(!required, "{name} is required and not below {}: run ./test agents", self.agents());
            // Not by a macro, whose output a passing test keeps to itself.
            let _ =
                writeln!(std::io::stderr(), "SKIPPED: {name} is not installed for tests; ./test runs this");
        }
        found
    }

    /// What the records mean, and the end of the process.
    pub(crate) fn events(self, ended: &Ended) -> Vec<AgentEvent> {
        let mut decoder = self.agent().decoder(None);
        let mut events: Vec<AgentEvent> =
            ended.records.iter().flat_map(|record| decoder.events(Source::Stdout, record)).collect();
        let exit = match (ended.status.code(), ended.status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or_default()),
        };
        events.extend(decoder.exited(exit, &ended.stderr));
        let unknown = events.iter().find(|event| matches!(event, AgentEvent::Unknown { .. }));
        assert_eq!(unknown, None, "{self:?} said something new");
        events
    }

    /// Everything the agent says it said, in order.
    pub(crate) fn said(self, ended: &Ended) -> Vec<String> {
        let whole = |event| match event {
            AgentEvent::Said { text, part: Part::Whole, .. } => Some(text),
            _ => None,
        };
        self.events(ended).into_iter().filter_map(whole).collect()
    }

    /// Whether it ends with the agent's own word that the turn went well.
    pub(crate) fn ended_well(self, ended: &Ended) -> bool {
        let done = |event: &AgentEvent| matches!(event, AgentEvent::TurnEnded(TurnOutcome::Done { .. }));
        self.events(ended).last().is_some_and(done)
    }

    /// The agent's own id of the session.
    pub(crate) fn session(self, ended: &Ended) -> Option<String> {
        let started = |event| match event {
            AgentEvent::Started { session, .. } => Some(session),
            _ => None,
        };
        self.events(ended).into_iter().find_map(started)
    }
}

/// The variables that a launch adds, for whoever runs the tests.
pub(crate) fn variables(launch: &Launch) -> Vec<(String, String)> {
    let as_root = if rustix::process::geteuid().is_root() { &launch.as_root.env[..] } else { &[] };
    [&launch.env, as_root].concat()
}

fn native(agent: &dyn Agent, agents: &Path) -> Option<PathBuf> {
    let paths = agent.package().native_paths(std::env::consts::OS, std::env::consts::ARCH);
    paths.into_iter().map(|path| agents.join("node_modules").join(path)).find(|path| path.is_file())
}
