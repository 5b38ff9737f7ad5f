//! The rules of a script that its types cannot express. What passes has no step that can never match.

mod kind;

use std::collections::BTreeMap;
use std::time::Duration;

use ostler_agent::document::{Document, Mistake, Segment, nearest};
use regex_lite::Regex;

use super::play::{
    Aside, Content, Conversation, Fault, HttpFault, Input, Item, LONGEST_TEXT, Limit, Play, Role, Step, Where,
};
use super::{Expect, Written, WrittenConversation, WrittenItem, WrittenStep, template};
use kind::{KINDS, Kind, given};

/// Characters a delta where the script does not say: about what real models send.
const USUAL_CHUNK: u32 = 24;

/// Rounds that one step may be repeated: far above what any agent does in a night.
const MOST_REPEATS: u32 = 100_000;

/// Headers that frame the answer itself: a script that sets them breaks it in ways it does not mean.
const FRAMING: [&str; 4] = ["content-length", "transfer-encoding", "connection", "content-type"];

type Path = Vec<Segment>;
type Arguments = BTreeMap<String, serde_json::Value>;

pub(super) fn checked(document: &Document, written: Written) -> Result<Play, Mistake> {
    let checker = Checker { document };
    if written.v != 1 {
        return Err(checker.wrong(
            &[key("v")],
            format!("version {} is not known", written.v),
            "write `v = 1`",
        ));
    }
    if written.conversation.is_empty() {
        return Err(checker.wrong(&[key("conversation")], "there is no conversation", "add one with a step"));
    }
    let mut conversations = Vec::new();
    for (index, conversation) in written.conversation.into_iter().enumerate() {
        let path = vec![key("conversation"), Segment::Index(index)];
        conversations.push(checker.conversation(&path, index, conversation)?);
    }
    checker.reachable_conversations(&conversations)?;
    Ok(Play { name: document.name().to_owned(), about: written.about, conversations })
}

struct Checker<'a> {
    document: &'a Document,
}

impl Checker<'_> {
    fn wrong(&self, path: &[Segment], problem: impl Into<String>, hint: impl Into<String>) -> Mistake {
        self.document.mistake(path, problem, Some(hint.into()))
    }

    fn conversation(
        &self,
        path: &Path,
        index: usize,
        written: WrittenConversation,
    ) -> Result<Conversation, Mistake> {
        let name = written.name.unwrap_or_else(|| format!("conversation {}", index + 1));
        if written.step.is_empty() {
            return Err(self.wrong(path, "there is no step", "add a step with a reply"));
        }
        let mut steps: Vec<Step> = Vec::new();
        for (number, step) in written.step.into_iter().enumerate() {
            let path = below(path, [key("step"), Segment::Index(number)]);
            if let Some(last) = steps.last()
                && !last.calls_tools()
                && (last.when.is_none() || last.when == step.when)
            {
                let problem =
                    "this step can never match: the one before it calls no tool, so the turn ends there";
                let hint = "call a tool in the step before, or put this step into a conversation of its own";
                return Err(self.wrong(&path, problem, hint));
            }
            steps.push(self.step(&path, number, step)?);
        }
        Ok(Conversation { name, goes_on: written.goes_on, steps })
    }

    fn step(&self, path: &Path, number: usize, written: WrittenStep) -> Result<Step, Mistake> {
        let expect = written.expect.unwrap_or_default();
        if number == 0 && expect.result_contains.is_some() {
            let path = below(path, [key("expect"), key("result_contains")]);
            let problem = "this step can never match: before the first step no tool was called";
            return Err(self.wrong(&path, problem, "expect the result in the step after the call"));
        }
        let pattern = match &expect.matches {
            Some(text) => Some(Regex::new(text).map_err(|error| {
                let path = below(path, [key("expect"), key("matches")]);
                self.wrong(&path, format!("not a regular expression: {error}"), "mend the pattern")
            })?),
            None => None,
        };
        let repeat = written.repeat.unwrap_or(1);
        if repeat == 0 || repeat > MOST_REPEATS {
            let path = below(path, [key("repeat")]);
            return Err(self.wrong(&path, format!("{repeat} rounds"), format!("give 1 to {MOST_REPEATS}")));
        }
        if written.reply.is_empty() {
            return Err(self.wrong(path, "there is no reply", "say something: reply = [{ text = \"…\" }]"));
        }
        let mut reply = Vec::new();
        for (index, item) in written.reply.into_iter().enumerate() {
            let path = below(path, [key("reply"), Segment::Index(index)]);
            let item = self.item(&path, item)?;
            self.reachable_item(&path, &reply, &item)?;
            reply.push(item);
        }
        let step = Step { when: written.when, expect, pattern, repeat: repeat as usize, reply };
        if step.repeat > 1 && !step.calls_tools() {
            let path = below(path, [key("repeat")]);
            let problem = "the repetition can never match: the step calls no tool, so the turn ends there";
            return Err(self.wrong(&path, problem, "call a tool in this step, or leave `repeat` out"));
        }
        Ok(step)
    }

    fn item(&self, path: &Path, mut written: WrittenItem) -> Result<Item, Mistake> {
        let kind = self.kind(path, &written)?;
        if let Some(role) = &written.tool_by_role {
            self.known_role(path, role)?;
        }
        self.belongs(path, kind, &written)?;
        Ok(match kind {
            Kind::Text | Kind::Thinking => Item::Content(self.content(path, &mut written)?),
            Kind::Tool => self.tool(path, written)?,
            Kind::Role => Item::Role(self.role(path, written)?),
            Kind::Http => {
                Item::Fault { limit: self.limit(path, &written)?, fault: self.http(path, written)? }
            }
            Kind::Stall => {
                let place = written.stall.unwrap_or(Where::MidText);
                let duration = self.duration(path, "for", written.duration.as_deref())?;
                let keep_alive = self.keep_alive(path, place, &written)?;
                let fault = Fault::Stall { place, duration, keep_alive };
                Item::Fault { fault, limit: self.limit(path, &written)? }
            }
            Kind::Cut => {
                let place = written.cut.unwrap_or(Where::MidText);
                Item::Fault { fault: Fault::Cut { place }, limit: self.limit(path, &written)? }
            }
            Kind::StopReason => written.stop_reason.map(Item::Stop).ok_or_else(|| self.nameless(path))?,
            Kind::Usage => written.usage.map(Item::Usage).ok_or_else(|| self.nameless(path))?,
        })
    }

    fn nameless(&self, path: &Path) -> Mistake {
        let names: Vec<_> = KINDS.iter().map(|kind| kind.name()).collect();
        self.wrong(path, "nothing names this item", format!("give it one of {}", names.join(", ")))
    }

    fn kind(&self, path: &Path, written: &WrittenItem) -> Result<Kind, Mistake> {
        let mut named = KINDS.iter().copied().filter(|kind| kind.is_named(written));
        let Some(first) = named.next() else { return Err(self.nameless(path)) };
        match named.next() {
            None => Ok(first),
            Some(second) => {
                let problem = format!("`{}` and `{}` are two items", first.name(), second.name());
                Err(self.wrong(path, problem, "write them as two items, one after the other"))
            }
        }
    }

    fn belongs(&self, path: &Path, kind: Kind, written: &WrittenItem) -> Result<(), Mistake> {
        let allowed = kind.details(written);
        match given(written).into_iter().find(|name| !allowed.contains(name)) {
            None => Ok(()),
            Some(stray) => {
                let hint = if allowed.is_empty() {
                    format!("`{}` takes nothing else", kind.name())
                } else {
                    format!("with `{}` go {}", kind.name(), allowed.join(", "))
                };
                let problem = format!("`{stray}` does not belong to `{}`", kind.name());
                Err(self.wrong(&below(path, [key(stray)]), problem, hint))
            }
        }
    }

    fn content(&self, path: &Path, written: &mut WrittenItem) -> Result<Content, Mistake> {
        let (aside, name, text) = match (written.text.take(), written.thinking.take()) {
            (Some(text), _) => (Aside::No, "text", text),
            (None, thought) => (Aside::Yes, "thinking", thought.unwrap_or_default()),
        };
        self.template(path, name, &text)?;
        let chunk = self.positive(path, "chunk", written.chunk.unwrap_or(USUAL_CHUNK))?;
        let repeat = self.positive(path, "repeat", written.repeat.unwrap_or(1))?;
        if text.len().saturating_mul(repeat as usize) > LONGEST_TEXT {
            let problem = format!("more than {} MiB of text", LONGEST_TEXT / 1024 / 1024);
            return Err(self.wrong(&below(path, [key("repeat")]), problem, "say less"));
        }
        let gap = self.duration(path, "gap", written.gap.as_deref())?.unwrap_or(Duration::ZERO);
        Ok(Content { aside, text, chunk: chunk as usize, gap, repeat: repeat as usize })
    }

    fn tool(&self, path: &Path, written: WrittenItem) -> Result<Item, Mistake> {
        let name = written.tool.unwrap_or_default();
        if name.is_empty() {
            return Err(self.wrong(
                &below(path, [key("tool")]),
                "a tool has a name",
                "write the tool's name",
            ));
        }
        let input = match (written.arguments, written.input) {
            (Some(_), Some(_)) => {
                let hint = "give named arguments, or free text";
                return Err(self.wrong(path, "both `arguments` and `input` are given", hint));
            }
            (None, Some(text)) => {
                self.template(path, "input", &text)?;
                Input::Text(text)
            }
            (arguments, None) => Input::Arguments(self.arguments(path, arguments)?),
        };
        Ok(Item::Tool { name, input })
    }

    fn role(&self, path: &Path, written: WrittenItem) -> Result<Role, Mistake> {
        let role = written.tool_by_role.as_deref().unwrap_or_default();
        let need = |name: &'static str, value: Option<String>| match value {
            Some(text) => self.template(path, name, &text).map(|()| text),
            None => Err(self.wrong(
                path,
                format!("the role `{role}` needs `{name}`"),
                format!("add `{name} = \"…\"`"),
            )),
        };
        match role {
            "shell" => Ok(Role::Shell { command: need("command", written.command)? }),
            "write_file" => Ok(Role::WriteFile {
                path: need("path", written.path)?,
                content: need("content", written.content)?,
            }),
            "read_file" => Ok(Role::ReadFile { path: need("path", written.path)? }),
            _ => {
                let name = role.trim_start_matches("mcp:");
                let (server, tool) = match name.split_once('/') {
                    Some((server, tool)) => (Some(server.to_owned()), tool.to_owned()),
                    None => (None, name.to_owned()),
                };
                Ok(Role::Mcp { server, tool, arguments: self.arguments(path, written.arguments)? })
            }
        }
    }

    fn arguments(&self, path: &Path, given: Option<Arguments>) -> Result<Arguments, Mistake> {
        let arguments = given.unwrap_or_default();
        for (name, value) in &arguments {
            self.templates_within(&below(path, [key("arguments"), key(name)]), value)?;
        }
        Ok(arguments)
    }

    fn known_role(&self, path: &Path, role: &str) -> Result<(), Mistake> {
        const PLAIN: [&str; 3] = ["shell", "write_file", "read_file"];
        if PLAIN.contains(&role) || role.strip_prefix("mcp:").is_some_and(|name| !name.is_empty()) {
            return Ok(());
        }
        let hint = match nearest(role, PLAIN) {
            Some(close) => format!("did you mean `{close}`?"),
            None => "use shell, write_file, read_file or mcp:NAME".to_owned(),
        };
        Err(self.wrong(&below(path, [key("tool_by_role")]), format!("unknown role `{role}`"), hint))
    }

    fn http(&self, path: &Path, written: WrittenItem) -> Result<Fault, Mistake> {
        let status = written.http.unwrap_or_default();
        if !(400..600).contains(&status) {
            let path = below(path, [key("http")]);
            return Err(self.wrong(&path, format!("{status} is not an error status"), "give 400 to 599"));
        }
        let headers: Vec<_> = written.headers.unwrap_or_default().into_iter().collect();
        for (name, value) in &headers {
            let named = hyper::header::HeaderName::from_bytes(name.as_bytes()).is_ok();
            if FRAMING.contains(&name.to_ascii_lowercase().as_str()) {
                let path = below(path, [key("headers"), key(name)]);
                return Err(self.wrong(&path, "this header belongs to the server", "leave it out"));
            }
            if !named || hyper::header::HeaderValue::from_str(value).is_err() {
                let path = below(path, [key("headers"), key(name)]);
                return Err(self.wrong(&path, "not a valid HTTP header", "use plain ASCII"));
            }
        }
        let (retry_after, message, body) = (written.retry_after, written.message, written.body);
        Ok(Fault::Http(HttpFault { status, retry_after, message, body, headers }))
    }

    fn limit(&self, path: &Path, written: &WrittenItem) -> Result<Limit, Mistake> {
        match written.times {
            Some(times) => Ok(Limit::Times(self.positive(path, "times", times)?)),
            None => Ok(Limit::Always),
        }
    }

    fn positive(&self, path: &Path, name: &str, number: u32) -> Result<u32, Mistake> {
        if number > 0 {
            return Ok(number);
        }
        Err(self.wrong(&below(path, [key(name)]), "0 is too few", "give at least 1"))
    }

    /// How often a keep-alive is sent. Only an answer that has begun can have one, and not all the time.
    fn keep_alive(
        &self,
        path: &Path,
        place: Where,
        written: &WrittenItem,
    ) -> Result<Option<Duration>, Mistake> {
        let every = self.duration(path, "keep_alive", written.keep_alive.as_deref())?;
        let problem = match (every, place) {
            (None, _) => return Ok(None),
            (Some(every), Where::MidText) if !every.is_zero() => return Ok(Some(every)),
            (Some(_), Where::MidText) => "`keep_alive` must be longer than zero",
            (Some(_), Where::BeforeHeaders) => "an answer that has not begun has no keep-alives",
        };
        Err(self.wrong(path, problem, "write `stall = \"mid_text\", keep_alive = \"15s\"`"))
    }

    fn duration(&self, path: &Path, name: &str, text: Option<&str>) -> Result<Option<Duration>, Mistake> {
        let Some(text) = text else { return Ok(None) };
        humantime::parse_duration(text).map(Some).map_err(|error| {
            self.wrong(
                &below(path, [key(name)]),
                format!("`{text}` is not a duration: {error}"),
                "write it as 30s or 10ms",
            )
        })
    }

    fn template(&self, path: &Path, name: &str, text: &str) -> Result<(), Mistake> {
        self.template_at(&below(path, [key(name)]), text)
    }

    fn template_at(&self, path: &Path, text: &str) -> Result<(), Mistake> {
        let Some(unknown) = template::unknown_name(text) else { return Ok(()) };
        let hint = match nearest(&unknown, template::NAMES) {
            Some(close) => format!("did you mean `{{{{{close}}}}}`?"),
            None => format!("known are {}", template::NAMES.map(|name| format!("{{{{{name}}}}}")).join(", ")),
        };
        Err(self.wrong(path, format!("unknown template `{{{{{unknown}}}}}`"), hint))
    }

    fn templates_within(&self, path: &Path, value: &serde_json::Value) -> Result<(), Mistake> {
        match value {
            serde_json::Value::String(text) => self.template_at(path, text),
            serde_json::Value::Array(list) => {
                list.iter().try_for_each(|value| self.templates_within(path, value))
            }
            serde_json::Value::Object(map) => {
                map.values().try_for_each(|value| self.templates_within(path, value))
            }
            _ => Ok(()),
        }
    }

    fn reachable_item(&self, path: &Path, before: &[Item], item: &Item) -> Result<(), Mistake> {
        let endless = before.iter().any(|item| match item {
            Item::Fault { fault: Fault::Stall { duration, .. }, limit } => {
                *limit == Limit::Always && duration.is_none()
            }
            Item::Fault { limit, .. } => *limit == Limit::Always,
            Item::Content(_) | Item::Tool { .. } | Item::Role(_) | Item::Stop(_) | Item::Usage(_) => false,
        });
        if endless {
            let problem = "this item can never be played: the fault before it happens every time";
            return Err(self.wrong(path, problem, "give that fault `times = 1`"));
        }
        let spoken = before.iter().any(|item| matches!(item, Item::Content(_)) || item.is_call());
        let early = match item {
            Item::Fault { fault: Fault::Http(_), .. } => true,
            Item::Fault { fault: Fault::Stall { place, .. } | Fault::Cut { place }, .. } => {
                *place == Where::BeforeHeaders
            }
            Item::Content(_) | Item::Tool { .. } | Item::Role(_) | Item::Stop(_) | Item::Usage(_) => false,
        };
        if spoken && early {
            let problem = "an answer that has begun cannot fail this way";
            return Err(self.wrong(path, problem, "put it before the text, or use `mid_text`"));
        }
        Ok(())
    }

    fn reachable_conversations(&self, conversations: &[Conversation]) -> Result<(), Mistake> {
        let opening = |conversation: &Conversation| {
            let first = &conversation.steps[0];
            (first.when.clone(), first.expect.clone())
        };
        for (index, conversation) in conversations.iter().enumerate() {
            let own = opening(conversation);
            let shadow = conversations[..index].iter().find(|earlier| {
                let theirs = opening(earlier);
                (theirs.0.is_none() || theirs.0 == own.0) && takes_all_of(&theirs.1, &own.1)
            });
            if let Some(earlier) = shadow {
                let path = [key("conversation"), Segment::Index(index)];
                let problem = format!(
                    "this conversation can never match: `{}` takes every prompt it would take",
                    earlier.name
                );
                let hint =
                    "give its first step an `expect` that tells them apart, or put the general one last";
                return Err(self.wrong(&path, problem, hint));
            }
        }
        Ok(())
    }
}

/// Whether whatever `narrow` expects is expected by `wide` too, as far as that can be told.
fn takes_all_of(wide: &Expect, narrow: &Expect) -> bool {
    let contains = match (&wide.contains, &narrow.contains) {
        (None, _) => true,
        (Some(wide), Some(narrow)) => narrow.contains(wide.as_str()),
        (Some(_), None) => false,
    };
    let same = |wide: &Option<String>, narrow: &Option<String>| wide.is_none() || wide == narrow;
    contains && same(&wide.matches, &narrow.matches) && same(&wide.offered, &narrow.offered)
}

fn key(name: impl Into<String>) -> Segment {
    Segment::Key(name.into())
}

fn below<const N: usize>(path: &Path, more: [Segment; N]) -> Path {
    path.iter().cloned().chain(more).collect()
}
