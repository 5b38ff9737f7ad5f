//! A stand-in for an agent program, for what real ones will not do on demand.
//!
//! It takes the command line of the agent it plays and speaks that agent's language (`claude`, `codex`, `acp`, `tui`),
//! but what it does comes from a script of *expect → do* steps with fault verbs. The shapes of what it prints are held
//! against recordings of the real ones. Its own settings come from the environment alone, see [`Setting`].
//!
//! Nothing here runs a tool, reaches a network, or stays: a child it leaves behind on purpose has a bounded life.

use std::env;
use std::process::ExitCode;

mod acp;
mod claude;
mod clock;
mod codex;
mod dialect;
mod play;
mod script;
mod sessions;
mod settings;
mod sleeper;
mod stage;
mod tui;

use dialect::Dialect;
use settings::Settings;
use stage::Stop;

pub use settings::Setting;

/// The exit code for a script that does not fit what happened, or a fake agent that failed: no real agent uses it.
pub const BROKEN: u8 = 70;

/// The JSON Schema of a script.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(script::Script)
}

/// The program: plays the agent that the environment names, on the process's own streams, until its end.
///
/// Complaints go to stderr. Never panics; returns the exit code that the agent played would have.
pub fn run() -> ExitCode {
    let mut arguments = env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let program = arguments.next().unwrap_or_default();
    let arguments: Vec<String> = arguments.collect();
    let ended = match arguments.split_first() {
        Some((first, rest)) if first == sleeper::COMMAND => sleeper::run(rest),
        _ => in_runtime(&program, &arguments),
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let line = format!("ostler-fake-agent: {error:#}\n");
            // Nobody is left to tell when stderr is gone too.
            let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
            ExitCode::from(BROKEN)
        }
    }
}

fn in_runtime(program: &str, arguments: &[String]) -> anyhow::Result<u8> {
    let settings = Settings::read(program, arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        match settings.dialect {
            Dialect::Claude => claude::run(&settings, arguments).await,
            Dialect::Codex => codex::run(&settings, arguments).await,
            Dialect::Acp => acp::run(&settings, arguments).await,
            Dialect::Tui => tui::run(&settings, arguments).await,
        }
    });
    match ended {
        Ok(code) | Err(Stop::Exit(code)) => Ok(code),
        Err(Stop::Interrupted) => Ok(stage::signals::Signal::Interrupt.exit_code()),
        Err(Stop::Failed(error)) => Err(error),
    }
}
