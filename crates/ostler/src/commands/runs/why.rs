//! What the watchdog thinks of a run: its events are played to a watchdog with the run's limits.

use std::fmt::Write as _;
use std::time::Duration;

use ostler_agent::bridge::{BridgeEvent, Contact, Question};
use ostler_agent::jail::Wanted;
use ostler_agent::outcome::Rule;
use ostler_agent::quiet_cause::QuietCause;
use ostler_agent::run_event::{Channel, ResumedBy, RunEventKind};
use ostler_agent::watchdog::{self, EventKind, Input, Verdict, Watchdog};
use ostler_process::journal::{JournalError, Kept, State};
use ostler_process::run::limits_from;
use serde_json::{Value, json};

use crate::commands::run::show::short;

/// A verdict, and what it is about.
pub(super) struct Why {
    run: String,
    state: String,
    detail: Option<String>,
    hint: Option<String>,
    /// When it waited for something outside, until when, and for what. The last few.
    waits: Vec<Wait>,
    /// When it was gone on with, and why.
    resumed: Vec<(Duration, String)>,
    /// Why it was stopped, if not by a rule.
    stopped: Option<String>,
    /// What happened between the agent and its bridge, if it had one.
    contact: Option<Contact>,
    /// Why nothing is received from the agent.
    cause: Option<QuietCause>,
    /// What the jail denied, and the setting that opens it.
    denials: Vec<Denial>,
    /// What the agent waits for a person to answer, and since when.
    questions: Vec<(Duration, Question)>,
    verdict: Verdict,
}

/// What the jail denied.
enum Denial {
    Path { path: String, wanted: Wanted, opens: String },
    Host { host: String, opens: String },
}

/// Waits that are reported: a run that is offline for long may have very many.
const MOST_WAITS: usize = 3;

/// A wait for something outside.
struct Wait {
    since: Duration,
    /// None while it lasts.
    until: Option<Duration>,
    reason: String,
}

/// For a live run, as of now; for one that was stopped, as of then; else as of its last event.
pub(super) fn why(kept: &Kept, now: i64) -> Result<Why, JournalError> {
    let mut dog = Watchdog::new(limits_from(&kept.facts.limits));
    let (mut at, mut stopped, mut stopping) = (Duration::ZERO, None, None);
    let (mut resumed, mut questions) = (Vec::new(), Vec::<(Duration, Question)>::new());
    let mut waits: Vec<Wait> = Vec::new();
    let (mut cause, mut denials) = (None, Vec::new());
    let mut contact = kept.facts.given.bridge.then_some(Contact::None);
    for event in kept.events()? {
        at = Duration::from_millis(event.ms);
        // A person gave it new limits on time.
        if let RunEventKind::Resumed { by: ResumedBy::Person, .. } = event.kind {
            dog = Watchdog::new(limits_from(&kept.facts.limits));
        }
        for input in inputs(&event.kind) {
            // What it would do was done, or not, when it happened.
            let _ = dog.step(at, input);
        }
        match event.kind {
            RunEventKind::Spawned { .. } => (stopped, stopping, cause) = (None, None, None),
            RunEventKind::Quiet(found) => cause = Some(found),
            // Something was received. What came after the agent was stopped says nothing about before. A spinner, a
            // busy child or a changed file is no answer of the model.
            RunEventKind::Agent(_)
            | RunEventKind::Garbled { .. }
            | RunEventKind::Seen { channel: Channel::Stdout | Channel::Transcript | Channel::Bridge }
                if stopped.is_none() =>
            {
                cause = None;
            }
            RunEventKind::Stopping { reason, .. } => {
                stopping = Some(reason.clone());
                stopped.get_or_insert_with(|| Stopped::of(reason, dog.why(at)));
            }
            RunEventKind::Parked { reason, .. } => {
                if waits.len() == MOST_WAITS {
                    waits.remove(0);
                }
                waits.push(Wait { since: at, until: None, reason });
            }
            RunEventKind::Unparked => {
                for wait in waits.iter_mut().filter(|wait| wait.until.is_none()) {
                    wait.until = Some(at);
                }
            }
            RunEventKind::Denied { path, wanted, opens } => {
                denials.push(Denial::Path { path, wanted, opens });
            }
            RunEventKind::Host { host, opens: Some(opens), is_dispensable: false, .. } => {
                denials.push(Denial::Host { host, opens });
            }
            RunEventKind::Resumed { reason, .. } => resumed.push((at, reason)),
            RunEventKind::Bridge(BridgeEvent::Connected { .. }) => contact = Some(Contact::Connected),
            RunEventKind::Bridge(BridgeEvent::ToolsListed) => contact = Some(Contact::ToolsListed),
            RunEventKind::Bridge(BridgeEvent::Asked(question)) => questions.push((at, question)),
            RunEventKind::Bridge(BridgeEvent::Settled { question, .. }) => {
                questions.retain(|(_, open)| open.id != question);
            }
            // Whoever asked is gone.
            RunEventKind::Exited { .. } => questions.clear(),
            _ => {}
        }
    }
    let is_open = matches!(kept.state, State::Live | State::Abandoned);
    let (state, detail, hint) = match &kept.state {
        State::Live => {
            let since = u64::try_from(now.saturating_sub(kept.facts.began_at)).unwrap_or(0);
            at = at.max(Duration::from_secs(since));
            ("live".to_owned(), None, None)
        }
        State::Abandoned => {
            let trouble = kept.trouble();
            let hint = trouble.is_some().then(|| {
                format!(
                    "make room where Ostler keeps its runs, then `ostler run --resume {}`",
                    short(&kept.facts.run)
                )
            });
            ("abandoned".to_owned(), Some(deserted(trouble, stopping)), hint)
        }
        State::Ended(outcome) => {
            let word = |name: &str| outcome[name].as_str().map(str::to_owned);
            (word("outcome").unwrap_or_default(), word("detail"), word("hint"))
        }
    };
    let Stopped { reason: stopped, mut verdict } =
        stopped.unwrap_or_else(|| Stopped { reason: None, verdict: dog.why(at) });
    if kept.state != State::Live {
        // No process supervises it any more.
        verdict.next = None;
    }
    // An ended run that did not stall got over it.
    let cause = cause.filter(|cause| *cause != QuietCause::Unknown && (state == "stalled" || is_open));
    let run = kept.facts.run.clone();
    Ok(Why { run, state, detail, hint, waits, resumed, stopped, contact, cause, denials, questions, verdict })
}

/// What held when a process was stopped.
struct Stopped {
    /// Why, if not by a rule.
    reason: Option<String>,
    verdict: Verdict,
}

impl Stopped {
    /// The journal knows why it was stopped. The events before it need not tell: that a process ended while others
    /// held its output is written down only when they are gone too.
    fn of(reason: String, mut verdict: Verdict) -> Self {
        let rule = Rule::ALL.into_iter().find(|rule| rule.name() == reason);
        verdict.fired = rule;
        verdict.next = None;
        verdict.state = watchdog::State::Stopped;
        Self { reason: rule.is_none().then_some(reason), verdict }
    }
}

/// Why a run has no outcome.
fn deserted(trouble: Option<String>, stopping: Option<String>) -> String {
    let meanwhile = stopping.map(|reason| format!(", while it stopped the agent ({reason})"));
    let meanwhile = meanwhile.unwrap_or_default();
    let why = match trouble {
        Some(trouble) => format!("it could not write its journal ({trouble}), and stopped the agent"),
        None => "it was killed, or could not write its journal".to_owned(),
    };
    format!("Ostler ended before the run had an outcome{meanwhile}: {why}")
}

/// What an event of a run told its watchdog.
pub(crate) fn inputs(kind: &RunEventKind) -> Vec<Input> {
    match kind {
        RunEventKind::Spawned { .. } => vec![Input::Spawned],
        RunEventKind::Agent(event) => vec![Input::of(event)],
        RunEventKind::Garbled { .. } => vec![Input::Event(EventKind::Unknown)],
        RunEventKind::Seen { channel } => vec![match channel {
            Channel::Stdout => Input::Event(EventKind::Noted),
            Channel::Transcript => Input::TranscriptGrew,
            Channel::Screen => Input::ScreenText,
            Channel::Spinner => Input::ScreenSpinner,
            Channel::Bridge => Input::BridgeCall,
            Channel::Connection => Input::AnswerReceived,
            Channel::KeepAlive => Input::KeepAliveReceived,
            Channel::Tree => Input::TreeBusy,
            Channel::Workspace => Input::WorkspaceChanged,
        }],
        RunEventKind::Bridge(event) if event.is_life() => vec![Input::BridgeCall],
        RunEventKind::Parked { .. } => vec![Input::Parked],
        RunEventKind::Unparked => vec![Input::Unparked],
        RunEventKind::Held => vec![Input::Held],
        RunEventKind::Released => vec![Input::Released],
        RunEventKind::Exited { .. } => vec![Input::Exited, Input::Eof],
        RunEventKind::Bridge(_)
        | RunEventKind::Noise { .. }
        | RunEventKind::Quiet(_)
        | RunEventKind::Warn { .. }
        | RunEventKind::Denied { .. }
        | RunEventKind::Host { .. }
        | RunEventKind::Screen { .. }
        | RunEventKind::Stopping { .. }
        | RunEventKind::Resumed { .. }
        | RunEventKind::Check(_)
        | RunEventKind::Queued { .. }
        | RunEventKind::Changes(_)
        | RunEventKind::Outcome(_) => vec![Input::Tick],
    }
}

impl Why {
    pub(super) fn json(&self) -> Value {
        json!({
            "v": 1,
            "run": self.run,
            "state": self.state,
            "detail": self.detail,
            "hint": self.hint,
            "waits": self.waits.iter().map(waited).collect::<Value>(),
            "resumed": self.resumed.iter().map(resumed).collect::<Value>(),
            "stopped": self.stopped,
            "cause": self.cause,
            "bridge": self.contact,
            "denials": self.denials.iter().map(denied).collect::<Value>(),
            "questions": self.questions.iter().map(asked).collect::<Value>(),
            "verdict": verdict(&self.verdict),
        })
    }

    pub(super) fn words(&self) -> String {
        let verdict = &self.verdict;
        let plain = |words: &str| words.chars().filter(|letter| !letter.is_control()).collect::<String>();
        let since = |time: Duration| format!("{:.1}s", time.as_secs_f64());
        let mut text = format!("run      {}\nstate    {}\n", self.run, self.state);
        for (name, words) in [("detail  ", &self.detail), ("try     ", &self.hint)] {
            if let Some(words) = words {
                let _ = writeln!(text, "{name} {}", plain(words));
            }
        }
        for Wait { since: began, until, reason } in &self.waits {
            let _ = match until {
                None => writeln!(text, "waiting  since {}: {}", since(*began), plain(reason)),
                Some(until) => {
                    let time = since(until.saturating_sub(*began));
                    writeln!(text, "waited   at {} for {time}: {}", since(*began), plain(reason))
                }
            };
        }
        for (at, reason) in &self.resumed {
            let _ = writeln!(text, "resumed  at {}: {}", since(*at), plain(reason));
        }
        let _ = writeln!(
            text,
            "watchdog {}, {} after the start; nothing heard for {}",
            word(&verdict.state),
            since(verdict.at),
            since(verdict.quiet)
        );
        if let Some(cause) = self.cause.as_ref().map(ToString::to_string) {
            // The detail of an outcome has it already.
            if !self.detail.as_ref().is_some_and(|detail| detail.contains(&cause)) {
                let _ = writeln!(text, "cause    {}, for {}", plain(&cause), since(verdict.quiet));
            }
        }
        let contact = match self.contact {
            Some(Contact::None) => Some("the agent never connected to it"),
            Some(Contact::Connected) => Some("the agent connected, and never asked for the tools"),
            Some(Contact::ToolsListed) | None => None,
        };
        if let Some(words) = contact {
            let _ = writeln!(text, "bridge   {words}");
        }
        for seen in &verdict.seen {
            let _ = writeln!(text, "seen     {} at {}", word(&seen.channel), since(seen.at));
        }
        for call in &verdict.open_calls {
            let _ = writeln!(text, "open     {}, since {}", plain(&call.tool), since(call.since));
        }
        for denial in &self.denials {
            let (wanted, what, opens) = match denial {
                Denial::Path { path, wanted: Wanted::Read, opens } => ("reading", path, opens),
                Denial::Path { path, wanted: Wanted::Write, opens } => ("changing", path, opens),
                Denial::Host { host, opens } => ("connecting to", host, opens),
            };
            let _ = writeln!(text, "denied   {wanted} {}; {} opens it", plain(what), plain(opens));
        }
        for (at, question) in &self.questions {
            let options = match &question.options[..] {
                [] => String::new(),
                options => format!(" [{}]", options.join(", ")),
            };
            let words = plain(&format!("{}{options}", question.text));
            let _ = writeln!(text, "asks     {}: {words}, since {}", question.id, since(*at));
        }
        if let Some(reason) = &self.stopped {
            let _ = writeln!(text, "stopped  {}", plain(reason));
        }
        if let Some(rule) = verdict.fired {
            let _ = writeln!(text, "fired    rule `{}`", rule.name());
        }
        if let Some(next) = verdict.next {
            let _ = writeln!(text, "next     rule `{}` at {}", next.rule.name(), since(next.at));
        }
        text
    }
}

fn resumed((at, reason): &(Duration, String)) -> Value {
    json!({"at_ms": ms(*at), "reason": reason})
}

fn denied(denial: &Denial) -> Value {
    match denial {
        Denial::Path { path, wanted, opens } => json!({"path": path, "wanted": wanted, "opens": opens}),
        Denial::Host { host, opens } => json!({"host": host, "wanted": "connect", "opens": opens}),
    }
}

fn waited(wait: &Wait) -> Value {
    json!({"at_ms": ms(wait.since), "until_ms": wait.until.map(ms), "reason": wait.reason})
}

fn asked((at, question): &(Duration, Question)) -> Value {
    json!({
        "question": question.id,
        "text": question.text,
        "options": question.options,
        "default": question.default,
        "since_ms": ms(*at),
        "within_ms": ms(question.within),
    })
}

/// As it is promised to programs: times in milliseconds, as everywhere.
fn verdict(verdict: &Verdict) -> Value {
    let seen = |seen: &watchdog::Seen| json!({"channel": seen.channel, "at_ms": ms(seen.at)});
    let call =
        |call: &watchdog::OpenCall| json!({"call": call.call, "tool": call.tool, "since_ms": ms(call.since)});
    json!({
        "at_ms": ms(verdict.at),
        "state": verdict.state,
        "quiet_ms": ms(verdict.quiet),
        "agent_time_ms": ms(verdict.agent_time),
        "parked_time_ms": ms(verdict.parked_time),
        "seen": verdict.seen.iter().map(seen).collect::<Value>(),
        "open_calls": verdict.open_calls.iter().map(call).collect::<Value>(),
        "open_tasks": verdict.open_tasks,
        "repeats": verdict.repeats,
        "fired": verdict.fired,
        "next": verdict.next.map(|next| json!({"rule": next.rule, "at_ms": ms(next.at)})),
    })
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The word that something has in JSON.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
