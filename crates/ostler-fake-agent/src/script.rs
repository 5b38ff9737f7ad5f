//! What a fake agent is told to do: a list of *expect → do* steps, read from TOML or JSON.
//!
//! What lives here: the script's types, its rules, and which step answers a prompt. What does not: doing any of it
//! (`play`), or the items one by one (`item`). A script that was read holds only things that can be played.

use ostler_agent::document::{Document, Format, Mistake, Segment};
use regex_lite::Regex;
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) mod item;
pub(crate) mod tables;
mod values;

pub(crate) use item::Item;
pub(crate) use values::{HowLong, Span, Tokens, Words, Yes};

/// The script that is played when none is given: say the prompt back, end normally.
const ECHO: &str = r#"
v = 1
[[step]]
do = [{ say = "{{prompt}}" }]
"#;

/// A script for the fake agent.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Script {
    /// The script format; 1 is the only one there is.
    v: u64,
    /// The version that `--version` and the records state, instead of the recorded one.
    #[serde(default)]
    pub(crate) version: Option<String>,
    /// What happens when the process starts, before it reads a prompt or prints anything.
    #[serde(default)]
    pub(crate) start: Vec<Item>,
    /// The steps; the first whose `expect` fits a prompt is played.
    #[serde(default)]
    step: Vec<Step>,
}

/// One answer, and the prompts that it is for.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// Which prompts; without it, all of them.
    #[serde(default)]
    expect: Expect,
    /// What is done, in order. The turn ends normally after the last item unless an item ended it otherwise.
    #[serde(default, rename = "do")]
    pub(crate) items: Vec<Item>,
}

/// What must hold for a step to be played. What is not said is not asked for.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Expect {
    /// The prompt contains this text.
    contains: Option<String>,
    /// The prompt matches this regular expression.
    matches: Option<String>,
    /// The turn of this session, from 1, counted over all processes that continued it.
    turn: Option<u64>,
    /// Whether this process was started to continue a session.
    resumed: Option<bool>,
}

/// A prompt in its place: what a step's `expect` is held against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Occasion<'a> {
    pub(crate) prompt: &'a str,
    pub(crate) turn: u64,
    pub(crate) resumed: bool,
}

impl Script {
    /// Reads a script and checks every rule that its types cannot express.
    pub(crate) fn read(document: &Document) -> Result<Self, Mistake> {
        let script: Self = document.read()?;
        script.check(document)?;
        Ok(script)
    }

    /// The script for when none is given.
    pub(crate) fn echo() -> Result<Self, Mistake> {
        Self::read(&Document::new("the default script", ECHO, Format::Toml))
    }

    /// The first step that fits, if any does.
    pub(crate) fn step_for(&self, occasion: Occasion<'_>) -> Option<&Step> {
        self.step.iter().find(|step| step.expect.fits(occasion))
    }

    fn check(&self, document: &Document) -> Result<(), Mistake> {
        if self.v != 1 {
            let hint = Some("write `v = 1`".to_owned());
            return Err(document.mistake(&[key("v")], format!("version {} is not known", self.v), hint));
        }
        for (index, item) in self.start.iter().enumerate() {
            let path = [key("start"), Segment::Index(index)];
            item.check(item::Place::Start).map_err(|flaw| flaw.at(document, &path))?;
        }
        for (index, step) in self.step.iter().enumerate() {
            step.check(document, index)?;
        }
        Ok(())
    }
}

impl Step {
    fn check(&self, document: &Document, index: usize) -> Result<(), Mistake> {
        if let Some(pattern) = &self.expect.matches
            && let Err(error) = Regex::new(pattern)
        {
            let path = [key("step"), Segment::Index(index), key("expect"), key("matches")];
            return Err(document.mistake(&path, format!("not a regular expression: {error}"), None));
        }
        for (nth, item) in self.items.iter().enumerate() {
            let path = [key("step"), Segment::Index(index), key("do"), Segment::Index(nth)];
            item.check(item::Place::Step).map_err(|flaw| flaw.at(document, &path))?;
        }
        Ok(())
    }
}

impl Expect {
    fn fits(&self, occasion: Occasion<'_>) -> bool {
        self.contains.as_ref().is_none_or(|text| occasion.prompt.contains(text.as_str()))
            && self.matches.as_ref().is_none_or(|pattern| is_match(pattern, occasion.prompt))
            && self.turn.is_none_or(|turn| turn == occasion.turn)
            && self.resumed.is_none_or(|resumed| resumed == occasion.resumed)
    }
}

/// A pattern was compiled once when the script was read, so here it can only match or not.
fn is_match(pattern: &str, text: &str) -> bool {
    Regex::new(pattern).is_ok_and(|regex| regex.is_match(text))
}

fn key(name: &str) -> Segment {
    Segment::Key(name.to_owned())
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
