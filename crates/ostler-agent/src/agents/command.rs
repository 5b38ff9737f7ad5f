//! Any program that takes a prompt on its standard input: `command:my-agent --flag`. All that is known of it is that
//! exit code 0 means success, and that is what its outcome says.

use serde_json::Value;

use crate::agent::{
    Agent, ByHand, Decoder, Enforcement, Engine, Exit, Launch, Permissions, Refusal, Session, Setup, Source,
    Stage, Stdin, Task,
};
use crate::agents::reading::{broke, failed};
use crate::event::{AgentEvent, FailureClass, Part, TurnOutcome, Usage};
use crate::package::Package;

/// How much of what it said is kept as its last words.
const LAST_WORDS: usize = 64 * 1024;

/// No package: the words name the program.
pub static COMMAND: Package = Package { slot: "command", npm: "", program: "", verified: "", natives: &[] };

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    program: String,
    args: Vec<String>,
}

impl Command {
    /// The agent that the text after `command:` names, split as a shell would split it. No shell is started: variables,
    /// pipes and the like are words as any other.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let words =
            shlex::split(text).ok_or_else(|| refusal("a quote in it is never closed", "close the quote"))?;
        let mut words = words.into_iter();
        let program = words.next().filter(|program| !program.is_empty());
        let program =
            program.ok_or_else(|| refusal("it names no program", "write command:PROGRAM ARGUMENTS"))?;
        Ok(Self { program, args: words.collect() })
    }
}

impl Agent for Command {
    fn name(&self) -> &'static str {
        "command"
    }
    fn title(&self) -> &'static str {
        "Command"
    }
    fn engine(&self) -> Engine {
        Engine::Stream
    }
    fn package(&self) -> &'static Package {
        &COMMAND
    }
    fn program(&self) -> Option<&str> {
        Some(&self.program)
    }
    /// Where its model is set is not known.
    fn rehearsed(&self, _stage: &Stage) -> Setup {
        Setup::default()
    }
    fn by_hand(&self, _prompt: &str) -> ByHand {
        ByHand { args: self.args.clone(), ..ByHand::default() }
    }
    fn launch(&self, task: &Task<'_>) -> Result<Launch, Refusal> {
        let is_restricted = task.permissions != Permissions::All;
        if is_restricted && task.enforcement == Enforcement::Agent {
            return Err(refusal(
                "only a jail can restrict what it may do",
                "leave out --no-jail, or use --permissions all",
            ));
        }
        if !task.allow.is_empty() {
            return Err(refusal("it has no rules for tools", "leave out --allow"));
        }
        if let Session::Resumed(_) = task.session {
            return Err(refusal("it has no sessions that could be resumed", "start a new run"));
        }
        if task.model.is_some() {
            return Err(refusal(
                "how it takes a model is not known",
                "name the model among its own arguments",
            ));
        }
        if task.system_prompt.is_some() {
            return Err(refusal("how it takes a system prompt is not known", "put it into the prompt"));
        }
        if task.bridge.is_some() {
            return Err(refusal("how it takes MCP servers is not known", "use --no-bridge"));
        }
        task.refuse_minted("command")?;
        let args = [&self.args, task.extra].concat();
        Ok(Launch::new(args, Stdin::Text(task.prompt.to_owned())))
    }
    /// A line of JSON is a line like any other, and shown as it was written.
    fn writes_records(&self) -> bool {
        false
    }
    fn reports_tokens(&self) -> bool {
        false
    }
    fn decoder(&self, _before: Option<Usage>) -> Box<dyn Decoder> {
        Box::new(Said::default())
    }
}

/// Reads a program whose every line is text.
#[derive(Default)]
struct Said {
    words: String,
}

impl Said {
    fn line(&mut self, text: String) -> Vec<AgentEvent> {
        if !self.words.is_empty() {
            self.words.push('\n');
        }
        self.words.push_str(&text);
        if self.words.len() > 2 * LAST_WORDS {
            let cut = self.words.len() - LAST_WORDS;
            let cut = (cut..).find(|at| self.words.is_char_boundary(*at)).unwrap_or(cut);
            self.words.drain(..cut);
        }
        vec![AgentEvent::Said { text, part: Part::Whole, within: None }]
    }
}

impl Decoder for Said {
    fn events(&mut self, source: Source, record: &Value) -> Vec<AgentEvent> {
        match source {
            Source::Stdout => self.line(record.to_string()),
            Source::Transcript => vec![AgentEvent::Unknown { kind: "transcript".to_owned() }],
        }
    }

    fn noise(&mut self, text: &str) -> Vec<AgentEvent> {
        self.line(text.to_owned())
    }

    fn exited(&mut self, exit: Exit, stderr_tail: &str) -> Vec<AgentEvent> {
        vec![match exit {
            Exit::Code(0) => {
                AgentEvent::TurnEnded(TurnOutcome::Done { text: std::mem::take(&mut self.words) })
            }
            Exit::Code(code) if stderr_tail.trim().is_empty() => {
                failed(FailureClass::Crashed, format!("exited with {code}"))
            }
            Exit::Code(_) | Exit::Signal(_) => broke(exit, stderr_tail, "before it was done"),
        }]
    }
}

fn refusal(reason: &str, hint: &str) -> Refusal {
    Refusal { agent: "command", reason: reason.to_owned(), hint: hint.to_owned() }
}
