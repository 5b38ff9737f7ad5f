//! Tools for agents that are run with their own tools off: files, programs and git, all in the workspace.
//!
//! Off unless granted. Whatever is asked for is looked at below the workspace only, every answer is bounded and says so
//! when it is cut, and the run is told what was written, run and refused.
//!
//! Nothing is written into `.git`: whoever may write files does not thereby get to say what git runs.

mod arguments;
mod beneath;
mod exec;
mod git;
mod listing;
mod output;
mod programs;
mod reading;
mod searching;
mod walking;
mod writing;

use rmcp::model::{JsonObject, ToolAnnotations};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

pub use programs::Programs;

use super::calling::{Call, read};
use super::schema;
use super::wording::Said;
use crate::capability::{Capabilities, Capability};
use crate::event::{Barred, BridgeEvent, Touched};
use crate::route::Room;
use beneath::{Beneath, Fault};

/// What an answer may have: agents show their model no more, or refuse the whole.
const MOST_ANSWER_BYTES: usize = 64 * 1024;

/// What the journal keeps of a path or a command.
const MOST_TOLD_CHARS: usize = 1000;

/// A tool for the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkspaceTool {
    /// Some lines of a file.
    ReadFile,
    /// Names.
    ListFiles,
    /// Lines that match.
    SearchFiles,
    /// A whole file.
    WriteFile,
    /// A part of one.
    EditFile,
    /// A command line.
    Exec,
    /// What has changed.
    GitStatus,
    /// How.
    GitDiff,
    /// Commits.
    GitLog,
    /// One of them.
    GitShow,
}

use WorkspaceTool::{
    EditFile, Exec, GitDiff, GitLog, GitShow, GitStatus, ListFiles, ReadFile, SearchFiles, WriteFile,
};

impl WorkspaceTool {
    pub(super) fn name(self) -> &'static str {
        match self {
            ReadFile => "read_file",
            ListFiles => "list_files",
            SearchFiles => "search_files",
            WriteFile => "write_file",
            EditFile => "edit_file",
            Exec => "exec",
            GitStatus => "git_status",
            GitDiff => "git_diff",
            GitLog => "git_log",
            GitShow => "git_show",
        }
    }

    pub(super) fn is_granted(self, capabilities: &Capabilities) -> bool {
        let may = |capability| capabilities.contains(&capability);
        match self {
            ReadFile | ListFiles | SearchFiles | GitStatus | GitDiff | GitLog | GitShow => {
                may(Capability::FilesRead) || may(Capability::FilesWrite)
            }
            WriteFile | EditFile => may(Capability::FilesWrite),
            Exec => may(Capability::Exec),
        }
    }

    /// Whether it starts programs, for which there must be a guardian.
    pub(super) fn runs_programs(self) -> bool {
        match self {
            ReadFile | ListFiles | SearchFiles | WriteFile | EditFile => false,
            Exec | GitStatus | GitDiff | GitLog | GitShow => true,
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            ReadFile => "Read a text file of the workspace: 2000 lines at most, from `offset` on.",
            ListFiles => {
                "List files and folders of the workspace. Folders end in `/`. What git ignores is left out unless \
                 asked for."
            }
            SearchFiles => {
                "Search the files of the workspace for a regular expression. Answers with `path:line: text`."
            }
            WriteFile => "Write a whole file in the workspace, new or in the place of an old one.",
            EditFile => {
                "Change a part of a file in the workspace: `old`, which must occur exactly once unless `all` is set, \
                 is replaced by `new`."
            }
            Exec => {
                "Run a command line in the workspace. It gets no input. Answers with the exit code and the end of what \
                 was printed. Whatever it leaves running is ended with the call."
            }
            GitStatus => "Show which files of the workspace have changed, as `git status --short` does.",
            GitDiff => "Show what has changed in the workspace, as `git diff` does.",
            GitLog => "Show the commits, the newest first.",
            GitShow => "Show one commit and its changes, or a file as it was in it.",
        }
    }

    pub(super) fn schema(self) -> JsonObject {
        match self {
            ReadFile => schema::<arguments::Read>(),
            ListFiles => schema::<arguments::List>(),
            SearchFiles => schema::<arguments::Search>(),
            WriteFile => schema::<arguments::Write>(),
            EditFile => schema::<arguments::Edit>(),
            Exec => schema::<arguments::Exec>(),
            GitStatus => schema::<arguments::Status>(),
            GitDiff => schema::<arguments::Diff>(),
            GitLog => schema::<arguments::Log>(),
            GitShow => schema::<arguments::Show>(),
        }
    }

    pub(super) fn hints(self) -> ToolAnnotations {
        let hints = ToolAnnotations::new();
        match self {
            ReadFile | ListFiles | SearchFiles | GitStatus | GitDiff | GitLog | GitShow => {
                hints.read_only(true).destructive(false).open_world(false)
            }
            WriteFile | EditFile => hints.read_only(false).destructive(true).open_world(false),
            Exec => hints.read_only(false).destructive(true).open_world(true),
        }
    }
}

/// What is said to the agent, and what the run is told.
struct Outcome {
    said: Said,
    event: Option<Touched>,
}

impl Outcome {
    fn done(text: String) -> Self {
        Self { said: Said::Done(text), event: None }
    }

    fn failed(text: String) -> Self {
        Self { said: Said::Failed(text), event: None }
    }
}

/// What to do instead.
fn way_out(why: Barred) -> &'static str {
    match why {
        Barred::Absolute => "Give the path from the top of the workspace: `src/main.rs`.",
        Barred::Parent => "Give the path from the top of the workspace, without `..`.",
        Barred::Outside => "Only what is in the workspace can be reached here.",
        Barred::Link => "Name the file itself, where the link leads.",
        Barred::Special => "Only files can be read and written here.",
        Barred::Repository => "Nothing is written there by this tool.",
    }
}

/// A text as a journal should hold it.
fn short(text: &str) -> String {
    text.chars().take(MOST_TOLD_CHARS).collect()
}

/// Calls a tool of the workspace.
pub(super) async fn perform(tool: WorkspaceTool, mut call: Call<'_>) -> Said {
    let room = call.room;
    let outcome = match tool {
        ReadFile => {
            on_files(&mut call, |beneath, given, _| reading::read(beneath, &given).map(Outcome::done)).await
        }
        ListFiles => {
            on_files(&mut call, |beneath, given, cancelled| {
                listing::list(beneath, &given, cancelled).map(Outcome::done)
            })
            .await
        }
        SearchFiles => {
            on_files(&mut call, |beneath, given, cancelled| {
                searching::search(beneath, &given, cancelled).map(Outcome::done)
            })
            .await
        }
        WriteFile => {
            on_files(&mut call, |beneath, given: arguments::Write, _| {
                writing::write(beneath, &given).map(|written| wrote(&given.path, written))
            })
            .await
        }
        EditFile => {
            on_files(&mut call, |beneath, given: arguments::Edit, _| {
                writing::edit(beneath, &given).map(|written| wrote(&given.path, written))
            })
            .await
        }
        Exec | GitStatus | GitDiff | GitLog | GitShow => on_programs(tool, &mut call).await,
    };
    let Outcome { said, event } = outcome.unwrap_or_else(|fault| told(fault, tool, room));
    if let Some(event) = event {
        room.telling.tell(BridgeEvent::Touched(event)).await;
    }
    said
}

/// What is said about a fault, and whether the run is told.
fn told(fault: Fault, tool: WorkspaceTool, room: &Room) -> Outcome {
    match fault {
        Fault::Failed(words) => Outcome::failed(words),
        Fault::Barred { path, why } => {
            let inside = Beneath::inside(&room.terms.workspace, &path);
            let meant = inside.map(|inside| format!(" Did you mean `{inside}`?")).unwrap_or_default();
            let said = Said::Failed(format!("`{}` {why}. {}{meant}", short(&path), way_out(why)));
            let event = Touched::Barred { tool: tool.name().to_owned(), path: short(&path), why };
            Outcome { said, event: Some(event) }
        }
    }
}

fn wrote(path: &str, written: writing::Written) -> Outcome {
    let event = Touched::Wrote { path: short(path), bytes: written.bytes };
    Outcome { said: Said::Done(written.words), event: Some(event) }
}

/// Does something with files, on a thread that may wait for a disk.
async fn on_files<T: DeserializeOwned + Send + 'static>(
    call: &mut Call<'_>,
    work: impl FnOnce(&Beneath, T, &CancellationToken) -> Result<Outcome, Fault> + Send + 'static,
) -> Result<Outcome, Fault> {
    let given = read::<T>(call)?;
    let workspace = call.room.terms.workspace.clone();
    // Also if this future is dropped, so that no walk goes on for nobody.
    let cancelled = call.cancelled.child_token();
    let _ended = cancelled.clone().drop_guard();
    let working = tokio::task::spawn_blocking(move || {
        Beneath::open(&workspace).and_then(|beneath| work(&beneath, given, &cancelled))
    });
    let lost = |_| Err(Fault::Failed("That went wrong inside of Ostler. Try something else.".to_owned()));
    working.await.unwrap_or_else(lost)
}

async fn on_programs(tool: WorkspaceTool, call: &mut Call<'_>) -> Result<Outcome, Fault> {
    let (room, cancelled) = (call.room, call.cancelled);
    // Without them, these tools are not offered.
    let Some(programs) = &room.terms.programs else {
        return Err(Fault::Failed("No programs are run here.".to_owned()));
    };
    let asked = match tool {
        Exec => return exec::exec(room, programs, read(call)?, cancelled).await,
        GitDiff => git::diff(&read(call)?)?,
        GitLog => git::log(&read(call)?)?,
        GitShow => git::show(&read(call)?)?,
        GitStatus | ReadFile | ListFiles | SearchFiles | WriteFile | EditFile => {
            let arguments::Status {} = read(call)?;
            git::status()
        }
    };
    Ok(git::ask(room, programs, asked, cancelled).await)
}

/// Arguments that cannot be read are a sentence too.
impl From<Said> for Fault {
    fn from(said: Said) -> Self {
        match said {
            Said::Done(words) | Said::Failed(words) => Self::Failed(words),
        }
    }
}
