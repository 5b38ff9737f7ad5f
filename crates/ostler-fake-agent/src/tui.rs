//! Plays Claude Code at a terminal: a prompt box, dialogs on the screen, and the two files that tell the truth about
//! it (transcript and `sessions/<pid>.json`).
//!
//! What lives here: how a process of it begins, waits for prompts, and ends. It works on a terminal and on plain pipes;
//! only a terminal is made raw, and it is left as it was found.

use std::env;
use std::time::Duration;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::time::timeout;

mod dialogs;
mod keys;
mod prompt_box;
mod screen;
mod voice;

use screen::{Screen, wrapped};
use voice::Terminal;

use super::claude::arguments::{Arguments, Which};
use super::claude::home::{Entrypoint, Home, StateFile};
use super::claude::transcript::Transcript;
use super::claude::{self, Found};
use super::dialect::Voice;
use super::play::Playbill;
use super::sessions::Session;
use super::settings::Settings;
use super::stage::ears::Framing;
use super::stage::{Played, Stage, Stop};

/// How long the last words may take: they are a few bytes.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(1);

/// Plays one process and returns its exit code.
pub(super) async fn run(settings: &Settings, words: &[String]) -> Played<u8> {
    let mut stage = Stage::new(claude::SIGNALS)?;
    match Arguments::read(words) {
        Ok(arguments) if arguments.wants_version => {
            let version = settings.script.version.as_deref().unwrap_or(claude::VERSION);
            stage.write(format!("{version} (Claude Code)\n").into_bytes()).await?;
            Ok(0)
        }
        Ok(arguments) => play(settings, arguments, stage).await,
        Err(error) => {
            stage.complain(&error.to_string()).await?;
            Ok(1)
        }
    }
}

/// Plays a process whose command line was read.
pub(super) async fn play(settings: &Settings, arguments: Arguments, mut stage: Stage) -> Played<u8> {
    let version = settings.script.version.clone().unwrap_or_else(|| claude::VERSION.to_owned());
    let cwd = env::current_dir()?;
    let home = Home::new(settings.agent_home("CLAUDE_CONFIG_DIR", ".claude"));
    let mut session = match claude::find_session(settings, &arguments, &home, &cwd)? {
        Found::Session(session) => session,
        Found::Missing(id) => {
            stage.complain(&format!("No conversation found with session ID: {id}")).await?;
            return Ok(1);
        }
        Found::Refused(complaint) => {
            stage.complain(&complaint).await?;
            return Ok(1);
        }
    };
    let raw = Raw::begin();
    let columns =
        tcgetwinsize(rustix::stdio::stdout()).ok().map(|size| size.ws_col).filter(|columns| *columns > 0);
    let path = home.transcript(&cwd, &session.id);
    let transcript = Transcript::new(path, &session.id, &cwd, &version, Entrypoint::Cli);
    let state = StateFile::new(&home, &session.id, &cwd, &version, Entrypoint::Cli);
    let model = arguments.model.clone().unwrap_or_else(|| claude::MODEL.to_owned());
    let mut terminal = Terminal::new(Screen::new(columns), cwd, model, transcript, state);
    if let Some(mode) = &arguments.permission_mode {
        terminal.permission_mode.clone_from(mode);
    }
    terminal.sent.extend(arguments.prompt.clone());
    let mut bill = Playbill::new(settings);
    bill.resumed = arguments.which != Which::New;
    let ended = live(&bill, &mut terminal, &mut stage, &mut session, &version).await;
    let mut farewell = Screen::end();
    if matches!(ended, Err(Stop::Exit(0))) && !session.turns.is_empty() {
        let words = format!("\r\nResume this session with:\r\nclaude --resume {}\r\n", session.id);
        farewell.extend(words.into_bytes());
    }
    // The terminal may be gone, or full; neither keeps us here.
    let _ = timeout(FAREWELL_PATIENCE, stage.write(farewell)).await;
    drop(raw);
    ended
}

async fn live(
    bill: &Playbill<'_>,
    terminal: &mut Terminal,
    stage: &mut Stage,
    session: &mut Session,
    version: &str,
) -> Played<u8> {
    stage.listen_by(Framing::Pieces)?;
    stage.write(Screen::begin()).await?;
    bill.start(terminal, stage).await?;
    let greeting = greeting(terminal, session, version);
    terminal.rest(stage, &greeting).await?;
    loop {
        if let Some(prompt) = terminal.sent.pop_front() {
            bill.turn(terminal, stage, session, &prompt).await?;
        } else if terminal.is_deserted {
            return Ok(0);
        } else {
            let input = stage.listen(None).await?;
            terminal.hear(stage, input).await?;
        }
    }
}

/// What stands above the first prompt: a welcome, and a resumed session's history.
fn greeting(terminal: &Terminal, session: &Session, version: &str) -> Vec<String> {
    let columns = terminal.screen.columns();
    let inner = columns.saturating_sub(4).min(100);
    let title = format!("─── Claude Code v{version} ");
    let boxed = |text: &str| {
        let text: String = text.chars().take(inner).collect();
        format!("│ {text}{} │", " ".repeat(inner - text.chars().count()))
    };
    let fill = |used: usize| "─".repeat((inner + 2).saturating_sub(used));
    let mut lines = vec![
        format!("╭{title}{}╮", fill(title.chars().count())),
        boxed("Welcome back!"),
        boxed(&format!("{} · API Usage Billing", terminal.model)),
        boxed(&terminal.cwd.to_string_lossy()),
        format!("╰{}╯", fill(0)),
        String::new(),
    ];
    for turn in &session.turns {
        lines.extend(wrapped(&turn.prompt, "❯ ", columns));
        lines.extend(wrapped(turn.answer.as_deref().unwrap_or_default(), "● ", columns));
        lines.push(String::new());
    }
    lines
}

/// A terminal that hands over every key at once, until dropped.
struct Raw {
    before: Option<Termios>,
}

impl Raw {
    fn begin() -> Self {
        let before = tcgetattr(rustix::stdio::stdin()).ok();
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.make_raw();
            // A terminal that cannot be made raw is read as it is.
            let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &raw);
        }
        Self { before }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // The terminal may be gone.
            let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, before);
        }
    }
}
