//! One type a verb: the table that an item is written as. Its own doc line shows it as TOML.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::values::Tokens;
use super::{HowLong, Span, Words, Yes};

/// One line more than the longest that Ostler keeps whole (64 MiB).
const LONG_LINE_BYTES: u64 = 64 * 1024 * 1024 + 4096;
/// How long a child outlives us unless told otherwise: longer than any test, shorter than a nuisance.
const CHILD_LIFE: Duration = Duration::from_secs(120);
/// Enough for a reader to take the first half of a split character by itself.
const SPLIT_GAP: Duration = Duration::from_millis(50);
/// How long a file is waited for unless told otherwise; then the test is broken and we say so.
const FILE_PATIENCE: Duration = Duration::from_secs(60);

/// Declares one verb's table.
macro_rules! table {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field:meta])* $key:ident: $kind:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name { $($(#[$field])* pub(crate) $key: $kind,)* }
    )*};
}

table! {
    /// `{ say = "Hello", chunk = 4, gap = "10ms" }`
    Say {
        /// The text. `{{prompt}}`, `{{turn}}`, `{{session}}` and `{{answer}}` are filled in.
        say: String,
        /// Characters a piece, where the dialect says things in pieces.
        chunk: Option<u32>,
        /// Time between pieces.
        gap: Option<Span>,
    }
    /// `{ think = "Hmm" }`
    Think {
        /// The thought.
        think: String,
    }
    /// `{ tool = "Bash", arguments = { command = "ls" }, output = "a.txt", for = "2s" }`
    Tool {
        /// The tool's name, `mcp__server__tool` for one of an MCP server.
        tool: String,
        /// What it is called with.
        #[serde(default)] arguments: Map<String, Value>,
        /// What it is said to have answered.
        #[serde(default)] output: String,
        /// The exit code of a shell command; other than 0 is a failure.
        exit_code: Option<i32>,
        /// Whether the call failed.
        #[serde(default)] is_error: bool,
        /// How long the call is open.
        #[serde(rename = "for")] lasts: Option<Span>,
    }
    /// `{ permission_ask = "Write", arguments = { file_path = "a.txt" }, output = "written" }`
    PermissionAsk {
        /// The tool's name.
        permission_ask: String,
        /// What it is called with.
        #[serde(default)] arguments: Map<String, Value>,
        /// What it is said to have answered, if it was allowed.
        #[serde(default)] output: String,
        /// How long the call is open, once it was allowed.
        #[serde(rename = "for")] lasts: Option<Span>,
    }
    /// `{ result = "api_error", message = "API Error: 500", status = 500 }`
    Ending {
        /// How the turn ends.
        result: Kind,
        /// The words of a failure.
        message: Option<String>,
        /// The HTTP status of a failed request.
        status: Option<u16>,
        /// What the turn is said to have used.
        usage: Option<Tokens>,
    }
    /// `{ limit_banner = true }` or `{ limit_banner = "You've hit your limit · resets 3pm" }`
    LimitBanner {
        /// The words.
        limit_banner: Words,
    }
    /// `{ stall = "30s" }` or `{ stall = "forever", deaf = true }`
    Stall {
        /// For how long.
        stall: HowLong,
        /// Hears no interrupt and no end of stdin meanwhile.
        #[serde(default)] deaf: bool,
    }
    /// `{ never_exit = true }`
    NeverExit {
        /// Nothing more to say.
        #[expect(dead_code, reason = "the key alone says it")]
        never_exit: Yes,
    }
    /// `{ exit_without_result = 1 }`
    ExitWithoutResult {
        /// The exit code.
        exit_without_result: u8,
    }
    /// `{ exit = 3 }`
    Exit {
        /// The exit code.
        exit: u8,
    }
    /// `{ drop_stdout_keep_transcript = true }`
    DropStdout {
        /// Nothing more to say.
        #[expect(dead_code, reason = "the key alone says it")]
        drop_stdout_keep_transcript: Yes,
    }
    /// `{ setsid_child = { count = 50, daemon = true } }`
    SetsidChild {
        /// What kind, and how many.
        setsid_child: Children,
    }
    /// Processes that outlive us.
    Children {
        /// How many.
        #[serde(default = "one")] count: u32,
        /// Forked twice and left to init, as a daemon is.
        #[serde(default)] daemon: bool,
        /// Takes no notice of SIGTERM, SIGINT and SIGHUP.
        #[serde(default)] ignore_sigterm: bool,
        /// Keeps our stdout open.
        #[serde(default)] holds_stdout: bool,
        /// Burns CPU all its life.
        #[serde(default)] busy: bool,
        /// How long it lives at most.
        #[serde(default = "child_life")] life: Span,
        /// A file to which every child's process id is added, one a line.
        pids: Option<String>,
    }
    /// `{ ignore_sigterm = true, sigint = true }`
    IgnoreSigterm {
        /// Nothing more to say.
        #[expect(dead_code, reason = "the key alone says it")]
        ignore_sigterm: Yes,
        /// SIGINT too.
        #[serde(default)] sigint: bool,
    }
    /// `{ split_utf8 = "déjà vu" }`
    SplitUtf8 {
        /// The text; at least one character of it takes several bytes.
        split_utf8: String,
        /// Time between the two writes.
        #[serde(default = "split_gap")] gap: Span,
    }
    /// `{ long_line = {} }` or `{ long_line = { bytes = 1000000 } }`
    LongLine {
        /// How long.
        long_line: Line,
    }
    /// The length of a long line.
    Line {
        /// Bytes of text in it.
        #[serde(default = "long_line_bytes")] bytes: u64,
    }
    /// `{ flood = { records = 10000, bytes = 200 } }`
    Flood {
        /// How much.
        flood: Torrent,
    }
    /// The size of a flood.
    Torrent {
        /// How many records.
        records: u64,
        /// Bytes of text in each.
        #[serde(default = "flood_bytes")] bytes: usize,
    }
    /// `{ unknown_frame = "quantum_leap", body = { x = 1 } }`
    UnknownFrame {
        /// The kind that nobody has heard of.
        unknown_frame: String,
        /// More keys of the record.
        #[serde(default)] body: Map<String, Value>,
    }
    /// `{ garbage = "not json at all" }`
    Garbage {
        /// The line.
        garbage: String,
    }
    /// `{ stderr = "warning: …" }`
    Stderr {
        /// The line.
        stderr: String,
    }
    /// `{ trust_screen = true }`
    TrustScreen {
        /// Nothing more to say.
        #[expect(dead_code, reason = "the key alone says it")]
        trust_screen: Yes,
    }
    /// `{ lose_enter = 1 }`
    LoseEnter {
        /// How many times.
        lose_enter: u32,
    }
    /// `{ read_stdin_forever = true }`
    ReadStdinForever {
        /// Nothing more to say.
        #[expect(dead_code, reason = "the key alone says it")]
        read_stdin_forever: Yes,
    }
    /// `{ write_file = "done", content = "yes" }`
    WriteFile {
        /// Where, relative to the working directory.
        write_file: String,
        /// What.
        #[serde(default)] content: String,
    }
    /// `{ wait_for_file = "go", within = "10s" }`
    WaitForFile {
        /// Which, relative to the working directory.
        wait_for_file: String,
        /// How long at most; then the process says so and exits with 70.
        #[serde(default = "file_patience")] within: Span,
    }
}

/// How a turn can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// As it should.
    Success,
    /// The model could not be reached, or refused.
    ApiError,
    /// Too many rounds.
    MaxTurns,
}

fn one() -> u32 {
    1
}
fn child_life() -> Span {
    Span(CHILD_LIFE)
}
fn split_gap() -> Span {
    Span(SPLIT_GAP)
}
fn long_line_bytes() -> u64 {
    LONG_LINE_BYTES
}
fn flood_bytes() -> usize {
    100
}
fn file_patience() -> Span {
    Span(FILE_PATIENCE)
}
