//! The result for programs: what `--json` prints. The names of the fields are a promise, and its JSON Schema is published.

use std::time::Duration;

use ostler_agent::completion::Grade;
use ostler_agent::smoke::{Break, Drift, Ended, Fact, Held, Judged, Observed, Verdict};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value;

/// Version of the shape.
const VERSION: u32 = 1;

/// What `ostler smoke --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Ostler smoke result")]
pub(super) struct Told {
    /// Version of this shape: 1.
    v: u32,
    /// One for each agent, in the order in which they were tried.
    pub(super) results: Vec<Smoked>,
}

/// How one agent did.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Smoked {
    /// Its name, as on the command line.
    pub(super) agent: String,
    /// What the program said when it was asked; null if it is not installed or does not start.
    pub(super) version: Option<String>,
    /// How it was driven: `stream` or `terminal`.
    pub(super) engine: String,
    /// Who the model was.
    pub(super) model: Model,
    /// What the facts come to.
    pub(super) verdict: VerdictName,
    /// For DEGRADED: the least that a fact is known by.
    #[schemars(schema_with = "grade_or_null")]
    pub(super) weakest: Option<Grade>,
    /// Every fact.
    pub(super) facts: Vec<FactTold>,
    /// What is not as it should be, each with what to do.
    pub(super) breaks: Vec<BreakTold>,
    /// What is different since the last result that was green.
    pub(super) drift: Vec<DriftTold>,
    /// The version that was green the last time; null if none was.
    pub(super) compared_with: Option<String>,
    /// How long it took, in milliseconds.
    pub(super) ms: u64,
    /// How long its first event took, in milliseconds.
    pub(super) first_event_ms: Option<u64>,
    /// The outcome of the run inside; null if there was none.
    pub(super) outcome: Option<String>,
    /// The exit code of the run inside; null if there was none.
    pub(super) exit_code: Option<u64>,
    /// The id of the run inside, for `ostler runs show`; null if there was none.
    pub(super) run: Option<String>,
    /// Turns that it took.
    pub(super) turns: u64,
    /// How often it was resumed.
    pub(super) resumes: u64,
    /// Events that its records came to.
    pub(super) events: u64,
    /// Calls of tools.
    pub(super) tools: ToolsTold,
    /// Processes that could not be ended; null if nobody knows.
    pub(super) survivors: Option<u64>,
    /// The first lines that it said.
    pub(super) quoted: Vec<String>,
    /// Kinds of records that are not known.
    pub(super) unknown: Vec<String>,
    /// Where it worked, if that was kept to be looked at.
    pub(super) kept: Option<String>,
}

/// Who the model was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Model {
    /// A script: nothing was spent.
    Script(String),
    /// The provider itself.
    Live,
}

/// What facts come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum VerdictName {
    Pass,
    Degraded,
    Fail,
}

/// A fact.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FactTold {
    /// Which.
    #[schemars(schema_with = "facts")]
    pub(super) fact: &'static str,
    /// The best that shows it.
    #[schemars(schema_with = "grades")]
    pub(super) grade: Grade,
    /// Whether it is as it should be.
    pub(super) ok: bool,
    /// What was seen.
    pub(super) seen: String,
}

/// What is not as it should be.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct BreakTold {
    /// The fact that does not hold.
    #[schemars(schema_with = "facts")]
    pub(super) fact: &'static str,
    /// What was seen instead.
    pub(super) what: String,
    /// What to do.
    pub(super) r#try: String,
}

/// What is different since the last result that was green.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "drift", rename_all = "snake_case")]
pub(super) enum DriftTold {
    /// A fact got worse.
    Worse {
        /// Which.
        #[schemars(schema_with = "facts")]
        fact: &'static str,
        /// What showed it then.
        #[schemars(schema_with = "grades")]
        was: Grade,
        /// What shows it now.
        #[schemars(schema_with = "grades")]
        now: Grade,
        /// Whether it still holds.
        ok: bool,
    },
    /// Records of a kind that is not known.
    NewRecord {
        /// The kind.
        record: String,
        /// The beginning of such a record.
        sample: String,
    },
    /// The first event takes another time.
    FirstEvent {
        /// Then, in milliseconds.
        was_ms: u64,
        /// Now, in milliseconds.
        now_ms: u64,
    },
}

/// Calls of tools.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ToolsTold {
    /// Opened, by the agent's own record.
    pub(super) opened: u64,
    /// Closed, by the same.
    pub(super) closed: u64,
    /// Answered at the bridge.
    pub(super) answered: u64,
}

impl Told {
    pub(super) fn new(results: Vec<Smoked>) -> Self {
        Self { v: VERSION, results }
    }
}

/// What is judged of one agent, put together.
pub(super) struct Judgement {
    pub(super) seen: Observed,
    pub(super) facts: Vec<Judged>,
    pub(super) verdict: Verdict,
    pub(super) breaks: Vec<Break>,
    pub(super) drift: Vec<Drift>,
}

/// Who was tried, and how.
pub(super) struct Tried {
    pub(super) agent: String,
    pub(super) version: Option<String>,
    pub(super) engine: String,
    pub(super) model: Model,
    pub(super) run: Option<String>,
    pub(super) compared_with: Option<String>,
    pub(super) took: Duration,
    pub(super) kept: Option<String>,
}

impl Smoked {
    pub(super) fn new(tried: Tried, judged: Judgement) -> Self {
        let Judgement { seen, facts, verdict, breaks, drift } = judged;
        let (outcome, exit_code) = match seen.ended {
            Ended::Outcome { outcome, code, .. } => (Some(outcome), Some(code)),
            Ended::Nothing { .. } => (None, None),
        };
        Self {
            agent: tried.agent,
            version: tried.version,
            engine: tried.engine,
            model: tried.model,
            verdict: match verdict {
                Verdict::Pass => VerdictName::Pass,
                Verdict::Degraded(_) => VerdictName::Degraded,
                Verdict::Fail => VerdictName::Fail,
            },
            weakest: match verdict {
                Verdict::Degraded(weakest) => Some(weakest),
                Verdict::Pass | Verdict::Fail => None,
            },
            facts: facts.into_iter().map(FactTold::from).collect(),
            breaks: breaks.into_iter().map(BreakTold::from).collect(),
            drift: drift.into_iter().map(DriftTold::from).collect(),
            compared_with: tried.compared_with,
            ms: milliseconds(tried.took),
            first_event_ms: seen.first_event.map(milliseconds),
            outcome,
            exit_code,
            run: tried.run,
            turns: seen.turns,
            resumes: seen.resumes,
            events: seen.events,
            tools: ToolsTold {
                opened: seen.calls.opened,
                closed: seen.calls.closed,
                answered: seen.calls.answered,
            },
            survivors: seen.survivors,
            unknown: seen.unknown.into_iter().map(|new| new.kind).collect(),
            quoted: seen.quoted,
            kept: tried.kept,
        }
    }

    /// Whether all is as it should be.
    pub(super) fn is_green(&self) -> bool {
        self.verdict == VerdictName::Pass
    }

    /// How one fact was judged.
    pub(super) fn fact(&self, fact: Fact) -> Option<&FactTold> {
        self.facts.iter().find(|told| told.fact == fact.name())
    }
}

impl From<Judged> for FactTold {
    fn from(judged: Judged) -> Self {
        let ok = judged.is_ok();
        Self { fact: judged.fact.name(), grade: judged.grade, ok, seen: judged.seen }
    }
}

impl From<Break> for BreakTold {
    fn from(broken: Break) -> Self {
        Self { fact: broken.fact.name(), what: broken.what, r#try: broken.try_this }
    }
}

impl From<Drift> for DriftTold {
    fn from(drift: Drift) -> Self {
        match drift {
            Drift::Worse { fact, was, now, held } => {
                Self::Worse { fact: fact.name(), was, now, ok: held == Held::Yes }
            }
            Drift::Kind(new) => Self::NewRecord { record: new.kind, sample: new.sample },
            Drift::FirstEvent { was, now } => {
                Self::FirstEvent { was_ms: milliseconds(was), now_ms: milliseconds(now) }
            }
        }
    }
}

impl VerdictName {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Degraded => "DEGRADED",
            Self::Fail => "FAIL",
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The schema of what `--json` prints.
pub(super) fn schema() -> Value {
    schemars::schema_for!(Told).to_value()
}

fn facts(_: &mut SchemaGenerator) -> Schema {
    let names = Fact::ALL.map(Fact::name);
    json_schema!({"type": "string", "enum": names})
}

/// The best first.
const GRADES: [Grade; 6] =
    [Grade::Checked, Grade::Wire, Grade::Transcript, Grade::Workspace, Grade::Reported, Grade::Absent];

fn grades(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": GRADES})
}

fn grade_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [{"type": "string", "enum": GRADES}, {"type": "null"}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/smoke.schema.json");
        let published = std::fs::read_to_string(path).unwrap_or_default();
        let current = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(path, &current).unwrap();
            return;
        }
        assert_eq!(published, current, "write it anew: UPDATE_SCHEMA=1 cargo test --workspace --bins schema");
    }
}
