//! Plays Codex: `exec --json`, one prompt a process, and `exec resume` to continue a thread.
//!
//! What lives here: how a process of it begins, takes its prompt, and ends. SIGTERM keeps its default action, as in
//! the real one; SIGINT ends it with code 1 and no record.

use std::env;
use std::fs;
use std::io::IsTerminal;

use anyhow::Context;
use uuid::Uuid;

mod arguments;
mod rollout;
mod voice;

use arguments::{Arguments, Which};
use rollout::Rollout;
use voice::Exec;

use super::dialect::{Dialect, Voice};
use super::play::Playbill;
use super::sessions::Session;
use super::settings::Settings;
use super::stage::ears::Framing;
use super::stage::signals::Signal;
use super::stage::{Input, Played, Stage, Stop};

/// The version whose recordings the shapes are from.
const VERSION: &str = "0.166.0";

/// Plays one process and returns its exit code.
pub(super) async fn run(settings: &Settings, words: &[String]) -> Played<u8> {
    let version = settings.script.version.clone().unwrap_or_else(|| VERSION.to_owned());
    let arguments = Arguments::read(words);
    let mut stage = Stage::new(&[Signal::Interrupt])?;
    if arguments.wants_version {
        stage.write(format!("codex-cli {version}\n").into_bytes()).await?;
        return Ok(0);
    }
    if !arguments.exec {
        stage.complain("Error: stdin is not a terminal").await?;
        return Ok(1);
    }
    if let Some(folder) = &arguments.folder {
        env::set_current_dir(folder).with_context(|| format!("could not enter {}", folder.display()))?;
    }
    let cwd = env::current_dir()?;
    let mut session = match find_thread(settings, &arguments.which)? {
        Found::Thread(session) => session,
        Found::New => Session::new(Uuid::now_v7().to_string(), Dialect::Codex, &cwd),
        Found::Missing(id) => {
            let complaint = format!(
                "Error: thread/resume: thread/resume failed: no rollout found for thread id {id} (code -32600)"
            );
            stage.complain(&complaint).await?;
            return Ok(1);
        }
    };
    let home = settings.agent_home("CODEX_HOME", ".codex").filter(|_| !arguments.ephemeral);
    let rollout = Rollout::open(home, &session.id, &cwd, &version)?;
    let mut exec = Exec::new(session.id.clone(), arguments.json, rollout, session.used);
    let mut bill = Playbill::new(settings);
    bill.resumed = !session.turns.is_empty();
    bill.start(&mut exec, &mut stage).await?;
    let Some(prompt) = take_prompt(&arguments, &mut exec, &mut stage).await? else {
        stage.complain("No prompt provided via stdin.").await?;
        return Ok(1);
    };
    let played = bill.turn(&mut exec, &mut stage, &mut session, &prompt).await;
    session.used = exec.used;
    settings.sessions.keep(&mut session)?;
    played?;
    if let (Some(path), Some(text)) = (&arguments.last_message_file, &exec.last_message) {
        fs::write(path, text)?;
    }
    Ok(u8::from(exec.failed))
}

/// The prompt: of the command line, of stdin, or of both. An open stdin is waited for, for ever.
async fn take_prompt(arguments: &Arguments, exec: &mut Exec, stage: &mut Stage) -> Played<Option<String>> {
    let given = arguments.prompt.clone().filter(|prompt| prompt != "-");
    if given.is_some() && std::io::stdin().is_terminal() {
        return Ok(given);
    }
    let notice = match &given {
        Some(_) => "Reading additional input from stdin...",
        None => "Reading prompt from stdin...",
    };
    stage.complain(notice).await?;
    stage.listen_by(Framing::Pieces)?;
    let mut bytes = Vec::new();
    while !stage.has_heard_all() {
        match stage.listen(None).await? {
            Input::Heard(piece) => bytes.extend(piece),
            input => exec.hear(stage, input).await.map_err(|_| Stop::Exit(1))?,
        }
    }
    let more = String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
    Ok(match given {
        Some(prompt) if more.is_empty() => Some(prompt),
        Some(prompt) => Some(format!("{prompt}\n\n<stdin>\n{more}\n</stdin>")),
        None if more.is_empty() => None,
        None => Some(more),
    })
}

enum Found {
    Thread(Session),
    New,
    Missing(String),
}

fn find_thread(settings: &Settings, which: &Which) -> anyhow::Result<Found> {
    let known = |id: &str| settings.sessions.find(id);
    Ok(match which {
        Which::New => Found::New,
        Which::Last => settings.sessions.newest(Dialect::Codex, None)?.map_or(Found::New, Found::Thread),
        Which::Resume(id) => match known(id)? {
            Some(session) => Found::Thread(session),
            None if Uuid::parse_str(id).is_ok() => Found::Missing(id.clone()),
            // A name that nothing has silently starts a new thread, as the real one does.
            None => Found::New,
        },
        Which::Fork(id) => match known(id)? {
            Some(session) => Found::Thread(session.forked(Uuid::now_v7().to_string())),
            None => Found::Missing(id.clone()),
        },
    })
}
