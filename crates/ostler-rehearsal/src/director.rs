//! Decides what is played: which step of which conversation answers a request, and what that comes to for the agent
//! that asks. Pure, but for the count of faults that are to happen a few times only.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::ask::Ask;
use crate::roles::{self, Call, CallInput};
use crate::script::{
    Aside, Content, Conversation, Cue, Expect, Fault, Gap, HttpFault, Input, Item, LONGEST_TEXT, Limit, Play,
    Role, Scene, Step, StopReason, Usage, Where,
};
use crate::side::{Bookmark, Side};

/// Conversations whose faults are remembered. Beyond it the oldest is forgotten, and its faults happen anew: a night
/// of rehearsals stays far below.
const REMEMBERED: usize = 10_000;

/// What an answer is made of, in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Beat {
    /// Text.
    Text(Speech),
    /// A thought.
    Thought(Speech),
    /// A tool call.
    Call(Call),
    /// Silence: for a while, or until the client leaves.
    Silence(Option<Duration>),
    /// Nothing but keep-alives: for a while, or until the client leaves.
    KeepAlives { every: Duration, left: Option<Duration> },
    /// The connection is dropped.
    Cut,
}

/// Text, and how it is dealt out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Speech {
    pub(crate) text: String,
    /// Characters a delta.
    pub(crate) chunk: usize,
    pub(crate) gap: Duration,
    pub(crate) repeat: usize,
}

/// How an answer begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Opening {
    /// As usual.
    Answer,
    /// With an HTTP error, which is all.
    Error(HttpFault),
    /// The connection is dropped before anything is sent.
    Cut,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    /// Silence before anything is sent, one after the other.
    pub(crate) delays: Vec<Option<Duration>>,
    pub(crate) opening: Opening,
    pub(crate) beats: Vec<Beat>,
    pub(crate) stop: StopReason,
    pub(crate) usage: Option<Usage>,
}

impl Answer {
    /// An answer of nothing but a text.
    pub(crate) fn plain(text: String) -> Self {
        let speech = Speech { chunk: text.len().max(1), text, gap: Duration::ZERO, repeat: 1 };
        Self {
            delays: Vec::new(),
            opening: Opening::Answer,
            beats: vec![Beat::Text(speech)],
            stop: StopReason::EndTurn,
            usage: None,
        }
    }
}

/// Chooses what is played, for one play.
#[derive(Debug)]
pub(crate) struct Director {
    play: Play,
    run: String,
    workspace: Option<String>,
    faults: Mutex<Faults>,
}

impl Director {
    pub(crate) fn new(play: Play, run: String, workspace: Option<String>) -> Self {
        Self { play, run, workspace, faults: Mutex::default() }
    }

    pub(crate) fn play(&self) -> &Play {
        &self.play
    }

    /// The place in the play that answers this request, or what was expected and what came.
    pub(crate) fn cue(&self, ask: &Ask) -> Result<Cue, String> {
        let name = &self.play.name;
        let Some(Place { index, rounds, is_gone_on }) = self.place(ask) else {
            let wanted: Vec<_> = self.play.conversations.iter().map(|found| wanted(found, ask)).collect();
            return Err(format!(
                "script `{name}`: no conversation expects this prompt. Expected: {}. Came: {}",
                wanted.join("; or "),
                came(ask)
            ));
        };
        let conversation = &self.play.conversations[index];
        let mut left = rounds;
        let mut total = 0;
        for (number, step) in conversation.steps.iter().enumerate().filter(|(_, step)| exists(step, ask)) {
            total += step.repeat;
            if left >= step.repeat {
                left -= step.repeat;
                continue;
            }
            // Whoever goes on says so, and not what was said before.
            let wanted = if is_gone_on { None } else { mismatch(step, ask) };
            return match wanted {
                None => Ok(Cue { conversation: index, step: number, round: rounds }),
                Some(wanted) => Err(format!(
                    "script `{name}`, {}, step {}: expected {wanted}. Came: {}",
                    conversation.name,
                    number + 1,
                    came(ask)
                )),
            };
        }
        Err(format!(
            "script `{name}`, {}: it has {total} rounds and all were played, but the agent came back for round {}. Came: {}",
            conversation.name,
            rounds.saturating_add(1),
            came(ask)
        ))
    }

    /// Which conversation a request belongs to, and how many of its rounds were played.
    fn place(&self, ask: &Ask) -> Option<Place> {
        let all = &self.play.conversations;
        if let Some(mark) = &ask.bookmark {
            let index = mark.conversation;
            return all.get(index).map(|_| Place { index, rounds: ask.rounds, is_gone_on: false });
        }
        let going_on = all.iter().enumerate().find_map(|(index, conversation)| {
            let before = gone_on(conversation, ask)?;
            Some(Place { index, rounds: before + ask.rounds, is_gone_on: true })
        });
        going_on.or_else(|| {
            let index = all.iter().position(|conversation| opens(conversation, &ask.prompt, ask))?;
            Some(Place { index, rounds: ask.rounds, is_gone_on: false })
        })
    }

    /// Where the conversation is, for a summary to keep. A conversation that no script knows has no place.
    pub(crate) fn bookmark(&self, ask: &Ask) -> Option<Bookmark> {
        let cue = self.cue(ask).ok()?;
        Some(Bookmark { conversation: cue.conversation, round: cue.round, prompt: ask.prompt.clone() })
    }

    /// What is answered at that place. Counts the faults that happen.
    pub(crate) fn answer(&self, cue: Cue, ask: &Ask) -> Result<Answer, String> {
        let step = &self.play.conversations[cue.conversation].steps[cue.step];
        let scene = Scene {
            workspace: self.workspace.clone().or_else(|| ask.workspace.clone()),
            prompt: ask.prompt.clone(),
            tool_result: ask.results.last().cloned().unwrap_or_default(),
            run: self.run.clone(),
            round: cue.round,
        };
        let mut answer = Answer { beats: Vec::new(), ..Answer::plain(String::new()) };
        if step.calls_tools() {
            answer.stop = StopReason::ToolUse;
        }
        for (index, item) in step.reply.iter().enumerate() {
            match item {
                Item::Content(content) => answer.beats.push(said(content, &scene)?),
                Item::Tool { name, input } => answer.beats.push(called(name, input, &scene)?),
                Item::Role(role) => {
                    let role = filled(role, &scene)?;
                    let call = roles::call(&role, ask)
                        .map_err(|problem| format!("script `{}`: {problem}", self.play.name))?;
                    answer.beats.push(Beat::Call(call));
                }
                Item::Fault { fault, limit } => {
                    if self.happens(cue, index, *limit, ask) && answer.suffer(fault) == Ends::Yes {
                        return Ok(answer);
                    }
                }
                Item::Stop(reason) => answer.stop = *reason,
                Item::Usage(usage) => answer.usage = Some(*usage),
            }
        }
        Ok(answer)
    }

    fn happens(&self, cue: Cue, item: usize, limit: Limit, ask: &Ask) -> bool {
        match limit {
            Limit::Always => true,
            Limit::Times(times) => {
                // A poisoned lock holds counts only: any of them is a valid count.
                let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
                faults.happen(fault_key(ask, cue, item), times)
            }
        }
    }
}

fn fault_key(ask: &Ask, cue: Cue, item: usize) -> FaultKey {
    let mut hasher = DefaultHasher::new();
    (&ask.session, &ask.prompt, cue, item).hash(&mut hasher);
    hasher.finish()
}

#[derive(PartialEq, Eq)]
enum Ends {
    Yes,
    No,
}

impl Answer {
    fn suffer(&mut self, fault: &Fault) -> Ends {
        match fault {
            Fault::Http(error) => {
                self.opening = Opening::Error(error.clone());
                Ends::Yes
            }
            Fault::Cut { place: Where::BeforeHeaders } => {
                self.opening = Opening::Cut;
                Ends::Yes
            }
            Fault::Cut { place: Where::MidText } => {
                self.beats.push(Beat::Cut);
                Ends::Yes
            }
            Fault::Stall { place: Where::BeforeHeaders, duration, .. } => {
                self.delays.push(*duration);
                Ends::No
            }
            Fault::Stall { place: Where::MidText, duration, keep_alive } => {
                self.beats.push(match keep_alive {
                    Some(every) => Beat::KeepAlives { every: *every, left: *duration },
                    None => Beat::Silence(*duration),
                });
                Ends::No
            }
        }
    }
}

/// A fault of an agent's conversation, as a hash: prompts can be long.
type FaultKey = u64;

/// How often each fault happened, per conversation of an agent and step of the play.
#[derive(Debug, Default)]
struct Faults {
    counts: HashMap<FaultKey, u32>,
    order: VecDeque<FaultKey>,
}

impl Faults {
    fn happen(&mut self, key: FaultKey, times: u32) -> bool {
        if !self.counts.contains_key(&key) {
            if self.order.len() >= REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.counts.remove(&oldest);
            }
            self.order.push_back(key);
        }
        let count = self.counts.entry(key).or_insert(0);
        if *count >= times {
            return false;
        }
        *count += 1;
        true
    }
}

fn exists(step: &Step, ask: &Ask) -> bool {
    step.when.as_ref().is_none_or(|when| ask.offers(&when.offered))
}

/// A place in a play, before it is known whether the request fits there.
struct Place {
    index: usize,
    rounds: usize,
    is_gone_on: bool,
}

/// How many rounds of a conversation were played before somebody asked to go on with it.
fn gone_on(conversation: &Conversation, ask: &Ask) -> Option<usize> {
    let says_so = |prompt: &str| conversation.goes_on.as_deref().is_some_and(|text| prompt.contains(text));
    if !says_so(&ask.prompt) {
        return None;
    }
    let began = ask.earlier.iter().rposition(|(prompt, _)| !says_so(prompt))?;
    opens(conversation, &ask.earlier[began].0, ask)
        .then(|| ask.earlier[began..].iter().map(|(_, rounds)| rounds).sum())
}

fn opens(conversation: &Conversation, prompt: &str, ask: &Ask) -> bool {
    let first = conversation.steps.iter().find(|step| exists(step, ask));
    // A conversation for anybody is not meant for sub-agents: a script that starts one would start them for ever.
    let is_for_anybody = |step: &Step| step.expect == Expect::default();
    first.is_some_and(|step| {
        prompt_mismatch(step, prompt, ask).is_none()
            && (ask.side != Some(Side::SubAgent) || !is_for_anybody(step))
    })
}

fn wanted(conversation: &Conversation, ask: &Ask) -> String {
    let first = conversation.steps.iter().find(|step| exists(step, ask));
    match first.and_then(|step| prompt_mismatch(step, &ask.prompt, ask)) {
        Some(wanted) => format!("{wanted} ({})", conversation.name),
        None => format!("a tool that is not offered ({})", conversation.name),
    }
}

fn mismatch(step: &Step, ask: &Ask) -> Option<String> {
    if let Some(text) = &step.expect.result_contains
        && !ask.results.iter().any(|result| result.contains(text))
    {
        return Some(format!("a tool result with `{text}`"));
    }
    prompt_mismatch(step, &ask.prompt, ask)
}

fn prompt_mismatch(step: &Step, prompt: &str, ask: &Ask) -> Option<String> {
    if let Some(text) = &step.expect.contains
        && !prompt.contains(text)
    {
        return Some(format!("a prompt with `{text}`"));
    }
    if let Some(pattern) = &step.pattern
        && !pattern.is_match(prompt)
    {
        return Some(format!("a prompt that matches `{pattern}`"));
    }
    match &step.expect.offered {
        Some(tool) if !ask.offers(tool) => Some(format!("the tool `{tool}` on offer")),
        Some(_) | None => None,
    }
}

/// Longest part of a prompt or result that a message repeats.
const EXCERPT: usize = 200;

fn came(ask: &Ask) -> String {
    let mut text = format!("prompt `{}`, {} rounds since", excerpt(&ask.prompt), ask.rounds);
    if let Some(result) = ask.results.last() {
        text.push_str(&format!(", last tool result `{}`", excerpt(result)));
    }
    text
}

/// The beginning of a text, on one line.
pub(crate) fn excerpt(text: &str) -> String {
    let mut short: String = text
        .trim()
        .chars()
        .take(EXCERPT)
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    if text.trim().chars().nth(EXCERPT).is_some() {
        short.push('…');
    }
    short
}

fn said(content: &Content, scene: &Scene) -> Result<Beat, String> {
    let text = scene.fill(&content.text).map_err(gap)?;
    if text.len().saturating_mul(content.repeat) > LONGEST_TEXT {
        return Err(format!("filled in, the text is longer than {} MiB", LONGEST_TEXT / 1024 / 1024));
    }
    let speech = Speech { text, chunk: content.chunk, gap: content.gap, repeat: content.repeat };
    Ok(match content.aside {
        Aside::No => Beat::Text(speech),
        Aside::Yes => Beat::Thought(speech),
    })
}

fn called(name: &str, input: &Input, scene: &Scene) -> Result<Beat, String> {
    let input = match input {
        Input::Arguments(arguments) => CallInput::Arguments(scene.fill_arguments(arguments).map_err(gap)?),
        Input::Text(text) => CallInput::Text(scene.fill(text).map_err(gap)?),
    };
    Ok(Beat::Call(Call { name: name.to_owned(), namespace: None, input }))
}

fn filled(role: &Role, scene: &Scene) -> Result<Role, String> {
    let fill = |text: &str| scene.fill(text).map_err(gap);
    Ok(match role {
        Role::Shell { command } => Role::Shell { command: fill(command)? },
        Role::WriteFile { path, content } => Role::WriteFile { path: fill(path)?, content: fill(content)? },
        Role::ReadFile { path } => Role::ReadFile { path: fill(path)? },
        Role::Mcp { server, tool, arguments } => {
            let filled = arguments
                .iter()
                .map(|(name, value)| Ok((name.clone(), scene.fill_value(value).map_err(gap)?)));
            Role::Mcp {
                server: server.clone(),
                tool: tool.clone(),
                arguments: filled.collect::<Result<_, String>>()?,
            }
        }
    })
}

fn gap(gap: Gap) -> String {
    match gap {
        Gap::Workspace => {
            "the script uses {{workspace}}, but the request does not say where the agent works: start the server with a workspace"
                .to_owned()
        }
    }
}

#[cfg(test)]
#[path = "director_tests.rs"]
mod tests;
