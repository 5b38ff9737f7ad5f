//! What happened in a run, in order: the lines of `events.ndjson` and of `ostler run --json`.
//!
//! A line has `v`, `seq`, `ms` and `kind`; the rest belongs to the kind. Readers pass over kinds that they do not know,
//! so that an old reader can read a new journal.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::bridge::BridgeEvent;
use crate::check::CheckEvent;
use crate::event::AgentEvent;
use crate::jail::Wanted;
use crate::network::HostVerdict;
use crate::quiet_cause::QuietCause;

/// Version of a line's shape.
pub const VERSION: u32 = 1;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvent {
    /// Its number in the run, from 1, without gaps.
    pub seq: u64,
    /// Milliseconds since the run's first attempt began; parked and abandoned time included.
    pub ms: u64,
    /// What.
    pub kind: RunEventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunEventKind {
    /// A process was started for an attempt.
    Spawned {
        /// Its id.
        pid: u32,
        /// Which attempt, from 1.
        attempt: u32,
        /// What keeps its descendants together.
        containment: String,
        /// The command, as a person may read it: nothing secret, no prompt.
        #[serde(default)]
        command: String,
    },
    /// The agent said something.
    Agent(AgentEvent),
    /// Something happened at the bridge.
    Bridge(BridgeEvent),
    /// The host tries something itself.
    Check(CheckEvent),
    /// A line of output that is not a record.
    Noise {
        /// Its beginning.
        text: String,
    },
    /// A record that is broken, or too long.
    Garbled {
        /// Its beginning, or its length.
        text: String,
    },
    /// Life was seen on a channel that leaves no other mark. At most one a channel every few seconds.
    Seen {
        /// Which.
        channel: Channel,
    },
    /// Nothing was received from the agent for a while, and why. Holds until something is.
    Quiet(QuietCause),
    /// Something a person should know.
    Warn {
        /// What.
        text: String,
    },
    /// The jail denied something to a tool.
    Denied {
        /// Where.
        path: String,
        /// What the tool tried.
        wanted: Wanted,
        /// The setting that opens it.
        opens: String,
    },
    /// A jailed process asked for a host. Each is reported once.
    Host {
        /// With its port.
        host: String,
        /// Whether it may be reached.
        verdict: HostVerdict,
        /// The setting that opens it, if it was denied.
        #[serde(default)]
        opens: Option<String>,
        /// Whether the agent asks for it on its own account, and works without it.
        #[serde(default, rename = "dispensable")]
        is_dispensable: bool,
    },
    /// What the agent's terminal showed when something was wrong with it.
    Screen {
        /// Its rows.
        text: String,
    },
    /// The run waits for something outside: a quota, a network.
    Parked {
        /// For what.
        reason: String,
        /// Until when, as seconds since 1970, where that is known.
        until: Option<i64>,
    },
    /// It waits no more.
    Unparked,
    /// A person took the agent's terminal.
    Held,
    /// They gave it back.
    Released,
    /// A rung of the stop ladder was taken.
    Stopping {
        /// Which.
        rung: String,
        /// Why the run is stopped.
        reason: String,
    },
    /// Somebody said something that the agent is told when its turn has ended.
    Queued {
        /// What.
        text: String,
    },
    /// The agent's session is gone on with.
    Resumed {
        /// Which attempt begins, from 2.
        attempt: u32,
        /// Why.
        reason: String,
        /// Who wants it.
        #[serde(default)]
        by: ResumedBy,
    },
    /// The process of an attempt is gone.
    Exited {
        /// Its code, if it ended by itself.
        code: Option<i32>,
        /// The signal, if it was ended by one.
        signal: Option<i32>,
        /// How many of its descendants were still there after the stop.
        survivors: u32,
    },
    /// What is different in the workspace since the attempt began.
    Changes(Changes),
    /// How the run ended: the last line of an attempt.
    Outcome(Value),
}

/// Who wants a run to go on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumedBy {
    /// The run itself: it is not done, and has resumes left.
    #[default]
    Run,
    /// A person, after the run had ended or was left: with new limits on time and resumes.
    Person,
}

/// What is different in a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Files that were not there.
    pub created: Listed,
    /// Files that are not as they were.
    pub changed: Listed,
    /// Files that are gone.
    pub removed: Listed,
    /// Whether there may be more: not everything could be looked at.
    pub partial: bool,
    /// What git counts, if this is a repository with a commit.
    pub diff: Option<Diff>,
}

/// Files from the workspace's root: how many, and the first of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// How many.
    pub count: u64,
    /// The first, in order.
    pub first: Vec<String>,
}

/// Lines that differ from the commit that was checked out when the agent began, as git counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diff {
    /// Files that differ.
    pub files: u64,
    /// Lines that are new.
    pub insertions: u64,
    /// Lines that are gone.
    pub deletions: u64,
    /// What was different already before the agent began, where that is known.
    #[serde(default)]
    pub before: Option<Counted>,
}

/// Lines as git counted them at some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Files that differed.
    pub files: u64,
    /// Lines that were new.
    pub insertions: u64,
    /// Lines that were gone.
    pub deletions: u64,
}

/// A way in which an agent shows life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// Records on its standard output.
    Stdout,
    /// Its transcript, or a sub-agent's, grew.
    Transcript,
    /// Text on the screen of its terminal changed.
    Screen,
    /// Only a spinner on that screen moved.
    Spinner,
    /// It called the bridge.
    Bridge,
    /// Its connections received as much as a streamed answer has.
    Connection,
    /// Its connections received no more than keep-alives have.
    KeepAlive,
    /// Its descendants use the processor or the disk.
    Tree,
    /// The workspace changed.
    Workspace,
}

impl RunEvent {
    /// The event as one line, without its end.
    pub fn line(&self) -> Result<String, serde_json::Error> {
        let mut line = format!("{{\"v\":{VERSION},\"seq\":{},\"ms\":{}", self.seq, self.ms).into_bytes();
        let ours = line.len();
        serde_json::to_writer(&mut line, &self.kind)?;
        // Every kind is an object that has fields; they follow ours. A record may be megabytes long, and is not copied.
        line[ours] = b',';
        String::from_utf8(line).map_err(serde::ser::Error::custom)
    }

    /// Reads a line. `None` for a line that is torn, of another version, or of a kind that is new to us.
    pub fn read(line: &[u8]) -> Option<Self> {
        let mut fields: Map<String, Value> = serde_json::from_slice(line).ok()?;
        if fields.remove("v")? != VERSION {
            return None;
        }
        let (seq, ms) = (fields.remove("seq")?.as_u64()?, fields.remove("ms")?.as_u64()?);
        let kind = serde_json::from_value(Value::Object(fields)).ok()?;
        Some(Self { seq, ms, kind })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bridge::{Question, Settled};
    use crate::event::{FailureClass, Part, ToolResult, TurnOutcome, Usage};

    fn question() -> Question {
        let within = std::time::Duration::from_secs(600);
        Question { id: 4, text: "May I?".to_owned(), options: vec!["yes".to_owned()], default: None, within }
    }

    /// Found by fuzzing: read and written again, a number went on to its neighbour.
    #[test]
    fn a_number_with_a_fraction_does_not_drift() {
        for number in ["4.1111e-88", "0.1", "0.21954000000000001", "1.7976931348623157e308"] {
            let line = format!(
                r#"{{"v":1,"seq":9,"ms":2,"kind":"outcome","outcome":"completed","cost_usd":{number}}}"#
            );
            let event = RunEvent::read(line.as_bytes()).unwrap();
            let RunEventKind::Outcome(outcome) = &event.kind else { panic!("{event:?}") };
            assert_eq!(outcome["cost_usd"].as_f64(), number.parse().ok(), "{number}");
            let written = event.line().unwrap();
            assert_eq!(RunEvent::read(written.as_bytes()).unwrap().line().unwrap(), written, "{number}");
        }
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let result = ToolResult { failed: false, exit_code: Some(0), text: "ok\n".to_owned() };
        let kinds = [
            RunEventKind::Spawned {
                pid: 7,
                attempt: 1,
                containment: "cgroup".to_owned(),
                command: "claude -p".to_owned(),
            },
            RunEventKind::Agent(AgentEvent::Started { session: "s".to_owned(), model: None }),
            RunEventKind::Agent(AgentEvent::Said {
                text: "hé\u{0}".to_owned(),
                part: Part::Whole,
                within: None,
            }),
            RunEventKind::Agent(AgentEvent::ToolEnded { call: "c".to_owned(), result }),
            RunEventKind::Agent(AgentEvent::Spent(Usage { cost_usd: Some(0.5), ..Usage::default() })),
            RunEventKind::Agent(AgentEvent::TurnEnded(TurnOutcome::Failed(crate::event::Failure {
                class: FailureClass::Quota,
                detail: "limit".to_owned(),
                resets_at: Some(5),
                cut_short: None,
            }))),
            RunEventKind::Bridge(BridgeEvent::ToolsListed),
            RunEventKind::Bridge(BridgeEvent::Accepted {
                kind: "plan".to_owned(),
                receipt: "2-aa".to_owned(),
                bytes: 9,
            }),
            RunEventKind::Bridge(BridgeEvent::Asked(question())),
            RunEventKind::Bridge(BridgeEvent::Settled {
                question: 4,
                how: Settled::Answered("yes".to_owned()),
            }),
            RunEventKind::Seen { channel: Channel::Transcript },
            RunEventKind::Quiet(QuietCause::ProcessStopped { pid: 7 }),
            RunEventKind::Quiet(QuietCause::RequestUnanswered),
            RunEventKind::Unparked,
            RunEventKind::Held,
            RunEventKind::Released,
            RunEventKind::Changes(Changes {
                created: Listed { count: 1, first: vec!["todo.js".to_owned()] },
                diff: Some(Diff { files: 1, insertions: 9, deletions: 0, before: Some(Counted::default()) }),
                ..Changes::default()
            }),
            RunEventKind::Outcome(json!({"outcome": "completed"})),
        ];
        for kind in kinds {
            let event = RunEvent { seq: 3, ms: 12, kind };
            let line = event.line().unwrap();
            assert!(line.starts_with("{\"v\":1,\"seq\":3,\"ms\":12,\"kind\":\""), "{line}");
            assert_eq!(RunEvent::read(line.as_bytes()), Some(event), "{line}");
        }
    }

    #[test]
    fn an_unknown_record_does_not_take_the_name_of_the_lines_own_kind() {
        let unknown = AgentEvent::Unknown { kind: "system/foo".to_owned() };
        let event = RunEvent { seq: 1, ms: 2, kind: RunEventKind::Agent(unknown) };
        let line = event.line().unwrap();
        let want = r#"{"v":1,"seq":1,"ms":2,"kind":"agent","event":"unknown","record":"system/foo"}"#;
        assert_eq!(line, want);
        assert_eq!(RunEvent::read(line.as_bytes()), Some(event));
    }

    #[test]
    fn what_cannot_be_read_is_passed_over() {
        for line in ["", "{\"v\":1,\"seq\":1,", "{\"v\":2,\"seq\":1,\"ms\":1,\"kind\":\"unparked\"}"] {
            assert_eq!(RunEvent::read(line.as_bytes()), None, "{line}");
        }
        assert_eq!(RunEvent::read(b"{\"v\":1,\"seq\":1,\"ms\":1,\"kind\":\"from_tomorrow\"}"), None);
    }
}
