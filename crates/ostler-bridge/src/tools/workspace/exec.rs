//! `exec`: a command line, run in the workspace.

use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::FileType;
use tokio_util::sync::CancellationToken;

use super::arguments::Exec;
use super::beneath::{Beneath, Fault};
use super::output::{Keep, Kept};
use super::programs::{Finished, Order, Programs, run};
use super::{MOST_ANSWER_BYTES, Outcome, short};
use crate::event::{ProgramEnd, Touched};
use crate::route::Room;
use crate::tools::wording::Said;

/// How long a command may take, unless the agent says otherwise.
const WITHIN: Duration = Duration::from_secs(120);

/// How long it may take at most: agents do not wait longer for a call.
const MOST_WITHIN: Duration = Duration::from_secs(300);

/// What is kept of what it prints: the end, where the result is.
const STDOUT_BYTES: usize = MOST_ANSWER_BYTES / 4 * 3;
const STDERR_BYTES: usize = MOST_ANSWER_BYTES / 4;

pub(super) async fn exec(
    room: &Room,
    programs: &Programs,
    given: Exec,
    cancelled: &CancellationToken,
) -> Result<Outcome, Fault> {
    let cwd = folder(room, &given.cwd)?;
    let within = given.timeout.map_or(WITHIN, Duration::from_secs).min(MOST_WITHIN);
    let order = Order {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), given.command.clone().into()],
        env: programs.env().to_vec(),
        cwd,
        within,
        stdout: Keep::Tail(STDOUT_BYTES),
        stderr: Keep::Tail(STDERR_BYTES),
    };
    let finished = run(room, programs, order, cancelled).await;
    let finished = finished.map_err(|unrun| Fault::Failed(unrun.words()))?;
    Ok(Outcome { said: told(&finished, within), event: Some(ran(short(&given.command), &finished)) })
}

/// Where the command is run. It can go elsewhere by itself; this is so that a path means the same in all tools.
fn folder(room: &Room, path: &str) -> Result<PathBuf, Fault> {
    let found = Beneath::open(&room.terms.workspace)?.find(path)?;
    let real = found.real_path().filter(|_| found.kind() == FileType::Directory);
    real.ok_or_else(|| Fault::Failed(format!("`{path}` is not a folder. Name one, or leave `cwd` out.")))
}

/// What the run is told.
pub(super) fn ran(command: String, finished: &Finished) -> Touched {
    let Finished { ended, took, tier, left, survivors, .. } = *finished;
    let containment = tier.name().to_owned();
    Touched::Ran { command, ended, took, containment, left, survivors }
}

fn told(finished: &Finished, within: Duration) -> Said {
    let took = finished.took.as_secs_f64();
    let mut text = match finished.ended {
        ProgramEnd::Code(code) => format!("Exit code {code}, after {took:.1} s.\n"),
        ProgramEnd::Signal(signal) => format!("Ended by signal {signal}, after {took:.1} s.\n"),
        ProgramEnd::Unknown => format!("Ended, nobody knows how, after {took:.1} s.\n"),
        ProgramEnd::TimedOut => format!(
            "Not done within {} seconds, so it was ended with everything it had started. Run less at once, or give a \
             longer `timeout`, at most {}.\n",
            within.as_secs(),
            MOST_WITHIN.as_secs()
        ),
        ProgramEnd::Withdrawn => "The call was withdrawn, and the command ended.\n".to_owned(),
    };
    if finished.left > 0 {
        text.push_str(&format!(
            "It had left {} processes running. They were ended: nothing outlives a call.\n",
            finished.left
        ));
    }
    for (name, kept) in [("stdout", &finished.stdout), ("stderr", &finished.stderr)] {
        section(&mut text, name, kept);
    }
    if finished.stdout.total() + finished.stderr.total() == 0 {
        text.push_str("It printed nothing.\n");
    }
    match finished.ended {
        // That a command says no is an answer, not a fault of the tool.
        ProgramEnd::Code(_) | ProgramEnd::Signal(_) | ProgramEnd::Unknown => Said::Done(text),
        ProgramEnd::TimedOut | ProgramEnd::Withdrawn => Said::Failed(text),
    }
}

fn section(text: &mut String, name: &str, kept: &Kept) {
    if kept.total() > 0 {
        text.push_str(&format!("--- {name}\n{}", kept.text()));
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
}
