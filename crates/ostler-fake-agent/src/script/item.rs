//! The things that a script can have done: one flat table each, named by its verb.
//!
//! An item is read in two moves: its verb is found among the keys, then the table is read as that verb's own type, so
//! that an unknown or foreign key is refused with the keys that are valid for *this* verb.

use std::fmt;
use std::time::Duration;

use ostler_agent::document::{Document, Mistake, Segment};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::tables::{
    Children, DropStdout, Ending, Exit, ExitWithoutResult, Flood, Garbage, IgnoreSigterm, LimitBanner,
    LongLine, LoseEnter, NeverExit, PermissionAsk, ReadStdinForever, Say, SetsidChild, SplitUtf8, Stall,
    Stderr, Think, Tool, TrustScreen, UnknownFrame, WaitForFile, WriteFile,
};

/// A line longer than this would be a test of the machine, not of Ostler.
const LONGEST_LINE_BYTES: u64 = 1024 * 1024 * 1024;
/// More processes than this hurt a small machine; the containment tests use 50.
const MOST_CHILDREN: u32 = 200;
/// No child may outlive a broken test by more.
const LONGEST_CHILD_LIFE: Duration = Duration::from_secs(600);

/// Declares the verbs once: the enum, the list of names and the reader follow from it.
macro_rules! verbs {
    ($($(#[$doc:meta])* $variant:ident($body:ty) = $name:literal,)*) => {
        /// One thing to do.
        #[derive(Debug, Clone, JsonSchema)]
        #[schemars(untagged)]
        pub(crate) enum Item { $($(#[$doc])* $variant($body),)* }

        /// Every verb, as it is written.
        pub(crate) const VERBS: &[&str] = &[$($name),*];

        fn read_as<E: de::Error>(verb: &str, table: Map<String, Value>) -> Result<Item, E> {
            match verb {
                $($name => <$body as Deserialize>::deserialize(Value::Object(table)).map(Item::$variant).map_err(E::custom),)*
                other => Err(E::custom(format!("`{other}` is no verb"))),
            }
        }
    };
}

verbs! {
    /// Says a text.
    Say(Say) = "say",
    /// Thinks a text.
    Think(Think) = "think",
    /// Calls a tool and reports what came of it. Nothing is executed.
    Tool(Tool) = "tool",
    /// Calls a tool that needs permission, and waits for the answer.
    PermissionAsk(PermissionAsk) = "permission_ask",
    /// Ends the turn, well or not.
    Result(Ending) = "result",
    /// Ends the turn by a usage limit.
    LimitBanner(LimitBanner) = "limit_banner",
    /// Does nothing for a while.
    Stall(Stall) = "stall",
    /// Lives on until it is killed.
    NeverExit(NeverExit) = "never_exit",
    /// Exits at once, with nothing more said.
    ExitWithoutResult(ExitWithoutResult) = "exit_without_result",
    /// Ends the turn normally if it has not ended, then exits with this code.
    Exit(Exit) = "exit",
    /// Prints nothing from here on, while the transcript goes on.
    DropStdout(DropStdout) = "drop_stdout_keep_transcript",
    /// Starts processes in their own session, which outlive us.
    SetsidChild(SetsidChild) = "setsid_child",
    /// Takes no notice of SIGTERM from here on.
    IgnoreSigterm(IgnoreSigterm) = "ignore_sigterm",
    /// Says a text whose record is written in two pieces, cut inside a character.
    SplitUtf8(SplitUtf8) = "split_utf8",
    /// Says something in one very long line.
    LongLine(LongLine) = "long_line",
    /// Says a great many short things.
    Flood(Flood) = "flood",
    /// Prints a record of a kind that nobody has heard of.
    UnknownFrame(UnknownFrame) = "unknown_frame",
    /// Prints a line that is not JSON.
    Garbage(Garbage) = "garbage",
    /// Prints a line to stderr.
    Stderr(Stderr) = "stderr",
    /// Shows the trust dialog of a first start.
    TrustScreen(TrustScreen) = "trust_screen",
    /// Loses the next presses of Enter in the prompt box.
    LoseEnter(LoseEnter) = "lose_enter",
    /// Reads stdin to its end before going on.
    ReadStdinForever(ReadStdinForever) = "read_stdin_forever",
    /// Writes a file.
    WriteFile(WriteFile) = "write_file",
    /// Waits until a file exists.
    WaitForFile(WaitForFile) = "wait_for_file",
}

/// Where an item stands in a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Start,
    Step,
}

/// What is wrong with an item whose table was fine.
#[derive(Debug)]
pub(crate) struct Flaw {
    keys: &'static [&'static str],
    problem: String,
    hint: Option<String>,
}

impl Flaw {
    fn new(keys: &'static [&'static str], problem: impl Into<String>) -> Self {
        Self { keys, problem: problem.into(), hint: None }
    }

    /// The flaw as a mistake of the item at `path`.
    pub(crate) fn at(self, document: &Document, path: &[Segment]) -> Mistake {
        let mut path = path.to_vec();
        path.extend(self.keys.iter().map(|key| Segment::Key((*key).to_owned())));
        document.mistake(&path, self.problem, self.hint)
    }
}

impl Item {
    /// Holds the item against the rules that its table cannot express.
    pub(crate) fn check(&self, place: Place) -> Result<(), Flaw> {
        match (self, place) {
            (Self::TrustScreen(_), Place::Step) => Err(Flaw {
                hint: Some("put it in `start = [ … ]`: it is shown before any prompt".to_owned()),
                ..Flaw::new(&["trust_screen"], "no step can show the trust screen")
            }),
            (item, Place::Start) if item.needs_a_turn() => Err(Flaw {
                hint: Some("put it in a step's `do`".to_owned()),
                ..Flaw::new(&[], "there is no turn yet when the process starts")
            }),
            (Self::SplitUtf8(split), _) if split.split_utf8.is_ascii() => {
                Err(Flaw::new(&["split_utf8"], "has no character of several bytes to split"))
            }
            (Self::Say(say), _) if say.chunk == Some(0) => {
                Err(Flaw::new(&["chunk"], "a piece has at least 1 character"))
            }
            (Self::LongLine(line), _) if line.long_line.bytes > LONGEST_LINE_BYTES => {
                Err(Flaw::new(&["long_line", "bytes"], format!("more than {LONGEST_LINE_BYTES}")))
            }
            (Self::SetsidChild(child), _) => child.setsid_child.check(),
            _ => Ok(()),
        }
    }

    fn needs_a_turn(&self) -> bool {
        match self {
            Self::Say(_) | Self::Think(_) | Self::Tool(_) | Self::PermissionAsk(_) | Self::Result(_) => true,
            Self::LimitBanner(_) | Self::SplitUtf8(_) | Self::LongLine(_) | Self::Flood(_) => true,
            Self::UnknownFrame(_) => true,
            Self::Stall(_) | Self::NeverExit(_) | Self::ExitWithoutResult(_) | Self::Exit(_) => false,
            Self::DropStdout(_) | Self::SetsidChild(_) | Self::IgnoreSigterm(_) | Self::Garbage(_) => false,
            Self::Stderr(_) | Self::TrustScreen(_) | Self::LoseEnter(_) | Self::ReadStdinForever(_) => false,
            Self::WriteFile(_) | Self::WaitForFile(_) => false,
        }
    }
}

impl Children {
    fn check(&self) -> Result<(), Flaw> {
        if self.count > MOST_CHILDREN {
            return Err(Flaw::new(
                &["setsid_child", "count"],
                format!("more than {MOST_CHILDREN} processes"),
            ));
        }
        if self.life.0 > LONGEST_CHILD_LIFE {
            let longest = humantime::format_duration(LONGEST_CHILD_LIFE);
            return Err(Flaw::new(&["setsid_child", "life"], format!("longer than {longest}")));
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ItemVisitor)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a table with one verb, such as { say = \"Hello\" }")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Item, A::Error> {
        let mut table = Map::new();
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            table.insert(key, value);
        }
        let verbs: Vec<&str> = VERBS.iter().copied().filter(|verb| table.contains_key(*verb)).collect();
        match verbs.as_slice() {
            [verb] => read_as(verb, table),
            [] => match table.keys().next() {
                Some(key) => Err(de::Error::unknown_field(key, VERBS)),
                None => Err(de::Error::custom("an empty item: name one verb")),
            },
            [one, other, ..] => {
                Err(de::Error::custom(format!("`{one}` and `{other}` in one item: write them as two items")))
            }
        }
    }
}
