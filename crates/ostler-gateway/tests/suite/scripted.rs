//! Sessions that do what their prompt says, and write down what is done with them.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler_agent::agent::Decision;
use ostler_agent::canonical::{Block, Message, Role};
use ostler_agent::event::{AgentEvent, Blocked, Failure, FailureClass, Part, TurnOutcome, Usage};
use ostler_agent::leasing::Terms;
use ostler_agent::offering::known_as;
use ostler_agent::watchdog;
use ostler_gateway::live::{AnsweredBy, Keepsake, LiveSession, Phase, SessionFailure, Slash, Start};
use ostler_process::terminal::pty::Size;
use ostler_process::terminal::seat::{Seat, Wishes};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

/// What `spend` uses.
const SPENT: Usage =
    Usage { input_tokens: Some(10), output_tokens: Some(2), cached_tokens: Some(3), cost_usd: Some(0.25) };

/// Between two words of one that chatters.
const MOMENT: Duration = Duration::from_millis(1);

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// What each session was told before it began.
    pub(crate) started: Vec<Vec<Value>>,
    /// What is added to the system prompt of each.
    pub(crate) systems: Vec<Option<String>>,
    /// What is offered to each.
    pub(crate) tools: Vec<String>,
    /// Which session was asked what.
    pub(crate) asked: Vec<(u32, String)>,
    pub(crate) interrupted: Vec<u32>,
    pub(crate) closed: Vec<u32>,
    pub(crate) dropped: Vec<u32>,
    /// Which session came back in which process.
    pub(crate) revived: Vec<(String, u32)>,
    pub(crate) parked: Vec<u32>,
    pub(crate) pids: u32,
}

/// Starts such sessions.
#[derive(Clone, Default)]
pub(crate) struct Stage {
    pub(crate) log: Arc<Mutex<Log>>,
    /// What `wait` waits for.
    pub(crate) gate: Arc<Notify>,
    /// What each session itself wrote down, as agents do.
    pub(crate) records: Arc<Mutex<HashMap<String, Vec<Message>>>>,
    /// The terminal of whoever is started with the model `terminal`, and what people wish of it.
    pub(crate) terminal: Arc<Mutex<Option<(Seat, Wishes)>>>,
    /// Where each session has a folder of its own, if it has one.
    pub(crate) folders: Option<PathBuf>,
}

impl Stage {
    fn session(&self, pid: u32, id: String) -> Scripted {
        let (ready, later, stage) = (VecDeque::new(), VecDeque::new(), self.clone());
        let (answered_by, seat) = (AnsweredBy::Policy, None);
        Scripted { stage, pid, id, doing: Doing::Waiting, ready, later, is_closed: false, answered_by, seat }
    }

    pub(crate) fn log<T>(&self, read: impl FnOnce(&mut Log) -> T) -> T {
        read(&mut self.log.lock().unwrap())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Waiting,
    /// It says nothing more until it is interrupted.
    Hanging,
    /// It asked something, and takes that back when it is interrupted.
    Asking,
    /// Not even then.
    Deaf,
    /// It says something every moment, and never ends.
    Chattering,
    /// It says nothing more, and once it is interrupted waits for the gate before it ends.
    Lingering,
    Parting,
    /// It reports nothing while an answer streams to it, for so many looks.
    Streaming(u32),
    /// It shows a spinner, and never ends.
    Spinning,
    /// It waits for the gate.
    AtGate,
    /// Its answer is over then.
    Until(Instant),
    /// It waits for what comes of its calls.
    Called,
    Dead,
}

pub(crate) struct Scripted {
    stage: Stage,
    pid: u32,
    id: String,
    doing: Doing,
    ready: VecDeque<AgentEvent>,
    /// What it says although nobody asks.
    later: VecDeque<AgentEvent>,
    is_closed: bool,
    answered_by: AnsweredBy,
    seat: Option<Seat>,
}

impl Start for Stage {
    type Session = Scripted;

    async fn start(&self, terms: &Terms, prior: &[Message]) -> Result<Scripted, SessionFailure> {
        if terms.model.as_deref() == Some("unstartable") {
            return Err(failure(Phase::Start));
        }
        if terms.model.as_deref() == Some("never there") {
            std::future::pending::<()>().await;
        }
        // As a real one does, it takes more than one look.
        tokio::task::yield_now().await;
        let pid = self.log(|log| {
            log.started.push(prior.iter().map(Message::written).collect());
            log.systems.push(terms.system_prompt.clone());
            log.tools.push(terms.tools.clone());
            log.pids += 1;
            log.pids
        });
        let id = format!("session-{pid}");
        self.records.lock().unwrap().insert(id.clone(), prior.to_vec());
        if let Some(folders) = &self.folders {
            std::fs::create_dir(folders.join(&id)).unwrap();
        }
        let mut session = self.session(pid, id);
        if terms.model.as_deref() == Some("terminal") {
            let (seat, wishes) = Seat::new(Size { columns: 20, rows: 4 });
            *self.terminal.lock().unwrap() = Some((seat.clone(), wishes));
            session.seat = Some(seat);
        }
        Ok(session)
    }

    async fn revive(
        &self,
        _terms: &Terms,
        keepsake: &Keepsake,
        knows: impl Fn(&[Message]) -> bool + Send,
    ) -> Result<Scripted, SessionFailure> {
        let id = keepsake.session.clone();
        let record = self.records.lock().unwrap().get(&id).cloned().unwrap_or_default();
        if !knows(&record) {
            return Err(failure(Phase::Start));
        }
        tokio::task::yield_now().await;
        let pid = self.log(|log| {
            log.pids += 1;
            log.revived.push((id.clone(), log.pids));
            log.pids
        });
        Ok(self.session(pid, id))
    }
}

fn failure(phase: Phase) -> SessionFailure {
    SessionFailure { phase, detail: "as the script says".to_owned(), hint: None }
}

fn said(text: &str, part: Part) -> AgentEvent {
    AgentEvent::Said { text: text.to_owned(), part, within: None }
}

/// What came of calls, as one line.
fn brought(message: &Message) -> String {
    let words = message.blocks.iter().map(|block| match block {
        Block::Outcome { call, blocks, .. } => {
            let outcome = Message { role: message.role, blocks: blocks.clone() };
            format!("{call}={}", outcome.text())
        }
        block => block.written()["text"].as_str().unwrap_or_default().to_owned(),
    });
    format!("brought {}", words.collect::<Vec<_>>().join(" "))
}

impl LiveSession for Scripted {
    fn pid(&self) -> Option<u32> {
        Some(self.pid)
    }

    fn memory(&self) -> u64 {
        1
    }

    /// `may I`, `flood`, `say X`, `spend X`, `say X and die`, `hang`, `linger`, `deaf`, `chatter`, `write KILOBYTES`, `take SECONDS`, `slow`, `stream N`, `spin`, `wait X`, `break X`, `fail`,
    /// `die`, `task`, `later X`, `call A B`, `use TOOL X`.
    async fn ask(&mut self, message: &Message, slash: Slash) -> Result<(), SessionFailure> {
        let text = match self.doing {
            Doing::Called => brought(message),
            _ => message.text(),
        };
        let heard = match slash {
            Slash::Text => text.clone(),
            Slash::Command => format!("as a command: {text}"),
        };
        self.stage.log(|log| log.asked.push((self.pid, heard)));
        if self.doing == Doing::Dead {
            return Err(failure(Phase::Ask));
        }
        if text == "slow" {
            // As on a terminal that does not take what is typed.
            std::future::pending::<()>().await;
        }
        let done = AgentEvent::TurnEnded(TurnOutcome::Done { text: String::new() });
        match text.split_once(' ').unwrap_or((&text, "")) {
            ("hang", _) => {
                self.ready.push_back(said("half", Part::Delta));
                self.doing = Doing::Hanging;
            }
            ("may", _) if self.answered_by == AnsweredBy::Policy => {
                self.ready.extend([said("denied by policy", Part::Whole), done]);
            }
            ("may", _) => {
                let (request, tool) = ("r".to_owned(), "Bash".to_owned());
                let input = json!({"command": "ls"});
                self.ready.push_back(AgentEvent::Blocked(Blocked::Permission { request, tool, input }));
                self.doing = Doing::Asking;
            }
            ("flood", _) => {
                let much = "x".repeat(4096);
                self.ready.extend((0..4_000).map(|_| said(&much, Part::Delta)));
                self.doing = Doing::Hanging;
            }
            ("linger", _) => {
                self.ready.push_back(said("half", Part::Delta));
                self.doing = Doing::Lingering;
            }
            ("take", seconds) => {
                self.doing = Doing::Until(Instant::now() + Duration::from_secs(seconds.parse().unwrap()));
            }
            ("write", kilobytes) => {
                let text = "x".repeat(kilobytes.parse::<usize>().unwrap() << 10);
                self.ready.extend([said(&text, Part::Whole), done]);
            }
            ("deaf", _) => self.doing = Doing::Deaf,
            ("chatter", _) => self.doing = Doing::Chattering,
            ("stream", looks) => self.doing = Doing::Streaming(looks.parse().unwrap()),
            ("spin", _) => self.doing = Doing::Spinning,
            ("wait", words) => {
                if !words.is_empty() {
                    self.ready.push_back(said(words, Part::Delta));
                }
                self.doing = Doing::AtGate;
            }
            ("break", words) => {
                let failure = Failure {
                    class: FailureClass::Overloaded,
                    detail: "busy".to_owned(),
                    resets_at: None,
                    cut_short: None,
                };
                let failed = AgentEvent::TurnEnded(TurnOutcome::Failed(failure));
                self.ready.extend([said(words, Part::Delta), failed]);
            }
            ("die", _) => self.doing = Doing::Dead,
            ("fail", _) => {
                let failure = Failure {
                    class: FailureClass::Overloaded,
                    detail: "busy".to_owned(),
                    resets_at: None,
                    cut_short: None,
                };
                self.ready.push_back(AgentEvent::TurnEnded(TurnOutcome::Failed(failure)));
            }
            ("call", calls) => {
                self.ready.push_back(said("I call.", Part::Whole));
                for call in calls.split(' ') {
                    self.ready.push_back(AgentEvent::ToolStarted {
                        call: format!("call_{call}"),
                        tool: known_as("weather"),
                        input: json!({"city": call}),
                        within: None,
                    });
                }
                self.doing = Doing::Called;
                if calls.ends_with("hang") {
                    self.doing = Doing::Hanging;
                } else {
                    self.ready.push_back(AgentEvent::TurnEnded(TurnOutcome::Called));
                }
            }
            ("use", call) => {
                let (tool, text) = call.split_once(' ').unwrap();
                self.ready.push_back(AgentEvent::ToolStarted {
                    call: "call_it".to_owned(),
                    tool: known_as(tool),
                    input: json!({"input": text}),
                    within: None,
                });
                self.doing = Doing::Called;
                self.ready.push_back(AgentEvent::TurnEnded(TurnOutcome::Called));
            }
            ("brought", outcomes) => {
                self.doing = Doing::Waiting;
                self.ready.extend([said(outcomes, Part::Whole), done]);
            }
            ("later", words) => {
                self.ready.extend([said("later", Part::Whole), done]);
                let usage = Usage { input_tokens: Some(7), output_tokens: Some(3), ..Usage::default() };
                let end = AgentEvent::TurnEnded(TurnOutcome::Done { text: words.to_owned() });
                self.later.extend([said(words, Part::Whole), AgentEvent::Spent(usage), end]);
            }
            ("task", _) => {
                self.ready.extend([AgentEvent::TaskOpened { task: "t".to_owned() }, done]);
            }
            (_, words) => {
                let answer = Message { role: Role::Assistant, blocks: vec![Block::Text(words.to_owned())] };
                let mut records = self.stage.records.lock().unwrap();
                records.entry(self.id.clone()).or_default().extend([message.clone(), answer]);
                drop(records);
                self.ready.extend([said(words, Part::Delta), said(words, Part::Whole)]);
                if text.starts_with("spend") {
                    self.ready.push_back(AgentEvent::Spent(SPENT));
                }
                self.ready.push_back(done);
                if words.ends_with("and die") {
                    self.doing = Doing::Dead;
                }
            }
        }
        Ok(())
    }

    async fn interrupt(&mut self) -> Result<(), SessionFailure> {
        self.stage.log(|log| log.interrupted.push(self.pid));
        if self.doing == Doing::Lingering {
            self.doing = Doing::Parting;
        }
        if matches!(self.doing, Doing::Hanging | Doing::AtGate | Doing::Asking) {
            self.ready.clear();
            if self.doing == Doing::Asking {
                self.ready.push_back(AgentEvent::Blocked(Blocked::Withdrawn { request: "r".to_owned() }));
            }
            self.doing = Doing::Waiting;
            self.ready.push_back(AgentEvent::TurnEnded(TurnOutcome::Interrupted));
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<AgentEvent, SessionFailure> {
        if let Some(event) = self.ready.pop_front() {
            return Ok(event);
        }
        match self.doing {
            Doing::Dead => Err(failure(Phase::Answer)),
            Doing::AtGate => {
                self.stage.gate.notified().await;
                self.doing = Doing::Waiting;
                Ok(AgentEvent::TurnEnded(TurnOutcome::Done { text: "waited".to_owned() }))
            }
            Doing::Parting => {
                self.stage.gate.notified().await;
                self.doing = Doing::Waiting;
                Ok(AgentEvent::TurnEnded(TurnOutcome::Interrupted))
            }
            Doing::Until(over) => {
                tokio::time::sleep_until(over).await;
                self.doing = Doing::Waiting;
                Ok(AgentEvent::TurnEnded(TurnOutcome::Done { text: "taken".to_owned() }))
            }
            Doing::Chattering => {
                tokio::time::sleep(MOMENT).await;
                Ok(said("on", Part::Delta))
            }
            Doing::Waiting
            | Doing::Hanging
            | Doing::Asking
            | Doing::Lingering
            | Doing::Deaf
            | Doing::Streaming(_)
            | Doing::Spinning
            | Doing::Called => std::future::pending().await,
        }
    }

    async fn sample(&mut self) -> Vec<watchdog::Input> {
        match self.doing {
            Doing::Streaming(0) => {
                self.doing = Doing::Waiting;
                let done = AgentEvent::TurnEnded(TurnOutcome::Done { text: String::new() });
                self.ready.extend([said("streamed", Part::Whole), done]);
                Vec::new()
            }
            Doing::Streaming(looks) => {
                self.doing = Doing::Streaming(looks - 1);
                vec![watchdog::Input::AnswerReceived]
            }
            Doing::Spinning => vec![watchdog::Input::ScreenSpinner],
            _ => Vec::new(),
        }
    }

    async fn unasked(&mut self) -> Option<Result<AgentEvent, SessionFailure>> {
        if let Some(event) = self.later.pop_front() {
            return Some(Ok(event));
        }
        // That it is dead is noticed now and then only when it is asked, as with a real one.
        (self.doing == Doing::Dead && self.pid.is_multiple_of(2)).then(|| Err(failure(Phase::Answer)))
    }

    fn keepsake(&self) -> Option<Keepsake> {
        let folder = self.stage.folders.as_ref().map(|folders| folders.join(&self.id));
        Some(Keepsake::recorded(&self.id, folder.as_deref()))
    }

    async fn park(mut self) {
        tokio::task::yield_now().await;
        self.is_closed = true;
        self.stage.log(|log| log.parked.push(self.pid));
    }

    fn answered_by(&mut self, who: AnsweredBy) {
        self.answered_by = who;
    }

    async fn answer(&mut self, request: &str, decision: Decision) -> Result<(), SessionFailure> {
        assert_eq!(request, "r");
        let words = match decision {
            Decision::Allow(input) => format!("did {}", input["command"].as_str().unwrap()),
            Decision::Deny(why) => format!("denied: {why}"),
        };
        self.doing = Doing::Waiting;
        let done = AgentEvent::TurnEnded(TurnOutcome::Done { text: String::new() });
        self.ready.extend([said(&words, Part::Whole), done]);
        Ok(())
    }

    fn terminal(&self) -> Option<Seat> {
        self.seat.clone()
    }

    async fn close(mut self) {
        tokio::task::yield_now().await;
        self.is_closed = true;
        self.stage.log(|log| log.closed.push(self.pid));
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        if !self.is_closed {
            self.stage.log(|log| log.dropped.push(self.pid));
        }
    }
}
