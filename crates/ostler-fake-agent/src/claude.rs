//! Plays Claude Code: `-p` for one prompt, or `--input-format stream-json` for a conversation with a control protocol.
//!
//! What lives here: how a process of it begins, takes its prompts, and ends. Its command line, records, transcript and
//! control protocol are in the modules below. At a terminal and without `-p` it is the terminal program (`tui`).

use std::env;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

pub(super) mod arguments;
mod control;
pub(super) mod home;
pub(super) mod message;
mod records;
pub(super) mod transcript;
mod voice;

use arguments::{Arguments, Format, Which};
use home::{Entrypoint, Home, StateFile};
use records::Facts;
use transcript::Transcript;
pub(super) use voice::LIMIT_WORDS;
use voice::{Stdin, Stream};

use super::dialect::{Dialect, Voice};
use super::play::Playbill;
use super::sessions::{Exchange, Session};
use super::settings::Settings;
use super::stage::ears::Framing;
use super::stage::signals::Signal;
use super::stage::{Input, Played, Stage, Stop};
use super::tui;

/// The version whose recordings the shapes are from.
pub(super) const VERSION: &str = "2.1.197";
/// The model that is used when none is named.
pub(super) const MODEL: &str = "claude-opus-4-8[1m]";
/// The signals that this program answers itself.
pub(super) const SIGNALS: &[Signal] = &[Signal::Terminate, Signal::Interrupt, Signal::Hangup];
/// How long a prompt on the command line waits for more on an open stdin that stays silent, and what it says then.
const STDIN_PATIENCE: Duration = Duration::from_secs(3);
const NO_STDIN: &str = "Warning: no stdin data received in 3s, proceeding without it. If piping from a slow command, \
                        redirect stdin explicitly: < /dev/null to skip, or wait longer.";

/// Plays one process and returns its exit code.
pub(super) async fn run(settings: &Settings, words: &[String]) -> Played<u8> {
    let version = settings.script.version.clone().unwrap_or_else(|| VERSION.to_owned());
    let mut stage = Stage::new(SIGNALS)?;
    let arguments = match Arguments::read(words) {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&mut stage, &error.to_string()).await,
    };
    if arguments.wants_version {
        stage.write(format!("{version} (Claude Code)\n").into_bytes()).await?;
        return Ok(0);
    }
    if !arguments.print && std::io::stdout().is_terminal() {
        return tui::play(settings, arguments, stage).await;
    }
    if arguments.output == Format::StreamJson && !arguments.verbose {
        let complaint = "Error: When using --print, --output-format=stream-json requires --verbose";
        return refuse(&mut stage, complaint).await;
    }
    let cwd = env::current_dir()?;
    let home = Home::new(settings.agent_home("CLAUDE_CONFIG_DIR", ".claude"));
    let model = arguments.model.clone().unwrap_or_else(|| MODEL.to_owned());
    let permission_mode = arguments.permission_mode.clone().unwrap_or_else(|| "default".to_owned());
    let mut facts = Facts { session: String::new(), model, permission_mode, version: version.clone() };
    let mut session = match find_session(settings, &arguments, &home, &cwd)? {
        Found::Session(session) => session,
        Found::Refused(complaint) => return refuse(&mut stage, &complaint).await,
        Found::Missing(id) => {
            let complaint = format!("No conversation found with session ID: {id}");
            facts.session = id;
            if arguments.output != Format::Text {
                stage.record(&facts.nothing_to_resume(&complaint)).await?;
            }
            return refuse(&mut stage, &complaint).await;
        }
    };
    facts.session = session.id.clone();
    let path = home.transcript(&cwd, &session.id);
    let transcript = Transcript::new(path, &session.id, &cwd, &version, Entrypoint::Sdk);
    let state = StateFile::new(&home, &session.id, &cwd, &version, Entrypoint::Sdk);
    state.write(None)?;
    let mut bill = Playbill::new(settings);
    bill.resumed = arguments.which != Which::New;
    let streams_input = arguments.streams_input;
    let mut stream = Stream::new(arguments, facts, cwd, transcript);
    bill.start(&mut stream, &mut stage).await?;
    if streams_input {
        converse(&bill, &mut stream, &mut stage, &mut session).await
    } else {
        once(&bill, &mut stream, &mut stage, &mut session).await
    }
}

async fn refuse(stage: &mut Stage, complaint: &str) -> Played<u8> {
    stage.complain(complaint).await?;
    Ok(1)
}

/// One prompt, one turn.
async fn once(
    bill: &Playbill<'_>,
    stream: &mut Stream,
    stage: &mut Stage,
    session: &mut Session,
) -> Played<u8> {
    let prompt = one_prompt(stream, stage).await?;
    if prompt.is_empty() {
        let complaint =
            "Error: Input must be provided either through stdin or as a prompt argument when using --print";
        return refuse(stage, complaint).await;
    }
    bill.turn(stream, stage, session, &prompt).await?;
    Ok(u8::from(stream.last_failed))
}

/// The prompt of the command line and what stdin adds to it.
async fn one_prompt(stream: &mut Stream, stage: &mut Stage) -> Played<String> {
    let mut prompt = stream.arguments.prompt.clone().unwrap_or_default();
    if std::io::stdin().is_terminal() {
        return Ok(prompt);
    }
    let until = (!prompt.is_empty()).then(|| Instant::now() + STDIN_PATIENCE);
    stage.listen_by(Framing::Pieces)?;
    let mut more = Vec::new();
    while !stage.has_heard_all() {
        match stage.listen(if more.is_empty() { until } else { None }).await? {
            Input::Heard(piece) => more.extend(piece),
            Input::Closed => {}
            Input::Elapsed => {
                stage.complain(NO_STDIN).await?;
                break;
            }
            Input::Interrupt => return Err(Stop::Exit(0)),
        }
    }
    let more = String::from_utf8_lossy(&more);
    let more = more.trim_end_matches('\n');
    if !prompt.is_empty() && !more.is_empty() {
        prompt.push('\n');
    }
    prompt.push_str(more);
    Ok(prompt)
}

/// Prompts as they come, until stdin ends.
async fn converse(
    bill: &Playbill<'_>,
    stream: &mut Stream,
    stage: &mut Stage,
    session: &mut Session,
) -> Played<u8> {
    stage.listen_by(Framing::Lines)?;
    loop {
        if !stream.queued.is_empty() {
            // What was sent while a turn was under way becomes one turn.
            let prompt = stream.queued.drain(..).collect::<Vec<_>>().join("\n");
            bill.turn(stream, stage, session, &prompt).await?;
        } else if stream.stdin == Stdin::Ended {
            return Ok(u8::from(stream.last_failed));
        } else {
            match stage.listen(None).await? {
                // SIGINT while idle is a clean end.
                Input::Interrupt => return Ok(0),
                input => stream.hear(stage, input).await?,
            }
        }
    }
}

/// What a command line's session came to.
pub(super) enum Found {
    Session(Session),
    /// There is none of this id.
    Missing(String),
    /// The command line cannot be followed, for this reason.
    Refused(String),
}

/// Finds or makes the session that a command line asks for.
pub(super) fn find_session(
    settings: &Settings,
    arguments: &Arguments,
    home: &Home,
    cwd: &Path,
) -> anyhow::Result<Found> {
    if let Some(id) = &arguments.session_id {
        if Uuid::parse_str(id).is_err() {
            return Ok(Found::Refused("Error: Invalid session ID. Must be a valid UUID.".to_owned()));
        }
        if remembered(settings, home, cwd, id)?.is_some() {
            return Ok(Found::Refused(format!("Error: Session ID {id} is already in use.")));
        }
        if arguments.which != Which::New && !arguments.forks {
            let complaint = "Error: --session-id can only be used with --continue or --resume if --fork-session is also specified.";
            return Ok(Found::Refused(complaint.to_owned()));
        }
    }
    let new_id = || arguments.session_id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
    let old = match &arguments.which {
        Which::New => None,
        Which::Continue => settings.sessions.newest(Dialect::Claude, Some(cwd))?,
        Which::Resume(id) => match remembered(settings, home, cwd, id)? {
            Some(session) => Some(session),
            None => return Ok(Found::Missing(id.clone())),
        },
    };
    Ok(Found::Session(match old {
        Some(session) if arguments.forks => session.forked(new_id()),
        Some(session) => session,
        None => Session::new(new_id(), Dialect::Claude, cwd),
    }))
}

/// A session of this folder: one that we kept, or a transcript that someone put there.
fn remembered(settings: &Settings, home: &Home, cwd: &Path, id: &str) -> anyhow::Result<Option<Session>> {
    if let Some(session) = settings.sessions.find(id)? {
        return Ok((session.cwd == cwd).then_some(session));
    }
    let Some(path) = home.transcript(cwd, id).filter(|path: &PathBuf| path.exists()) else { return Ok(None) };
    let mut session = Session::new(id, Dialect::Claude, cwd);
    session.turns =
        transcript::prompts_in(&path).into_iter().map(|prompt| Exchange { prompt, answer: None }).collect();
    Ok(Some(session))
}
