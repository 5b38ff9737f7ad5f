//! Whether a program starts, and which version it is: `--version` with a clean environment and a home of its own.
//!
//! Agents write into their home even when they are only asked for their version; a probe leaves no trace in the
//! user's, and sees nothing of the user's settings. It is contained as a run is: a program that is asked for its version
//! may start anything.

use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

mod home;
mod remembered;

use ostler_agent::package::Package;
use tokio::process::Command;

use crate::capture::{Captured, capture};
use crate::locate::{FileKind, file_kind};
use home::Home;
pub use remembered::Remembered;

/// How long `--version` may take. The slowest agent takes 2 s on two idle cores; a cold disk and a busy machine make
/// that ten times longer.
pub const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// How much of what a failing program said is repeated in the message.
const EXCERPT_CHARS: usize = 200;

/// Where programs are tried.
#[derive(Debug, Clone)]
pub struct Place {
    /// A folder of Ostler's, for their private homes. If the one that it is in is not there, they are temporary.
    pub homes: PathBuf,
    /// Our own binary, which guards them. Without it, only their process group is ended.
    pub guard: Option<PathBuf>,
}

/// Removes what an Ostler that was killed left there.
pub fn sweep(homes: &Path) {
    home::sweep(homes);
}

/// Why a program's version could not be found out.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The private home could not be made.
    #[error("could not make a private home in {} to try `{}` in", std::env::temp_dir().display(), .program.display())]
    Home {
        /// What was to be started.
        program: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The system would not start it.
    #[error("`{}`, {kind}, does not start", .program.display())]
    Start {
        /// What was to be started.
        program: PathBuf,
        /// What that file is.
        kind: FileKind,
        /// Why not.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// It started and did not end.
    #[error(
        "`{} --version` gave no answer within {} s{}",
        .program.display(), PROBE_LIMIT.as_secs(), left(*.survivors)
    )]
    Silent {
        /// What was started.
        program: PathBuf,
        /// Processes that could not be ended.
        survivors: u32,
    },
    /// Somebody did not want to wait for it.
    #[error("`{} --version` was not waited for{}", .program.display(), left(*.survivors))]
    Stopped {
        /// What was started.
        program: PathBuf,
        /// Processes that could not be ended.
        survivors: u32,
    },
    /// It ended with an error.
    #[error(
        "`{} --version` ended with {status}{}{}",
        .program.display(), saying(.said), left(*.survivors)
    )]
    Failed {
        /// What was started.
        program: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// The beginning of what it said.
        said: String,
        /// Processes that could not be ended.
        survivors: u32,
    },
    /// It ended well, and said something else.
    #[error("`{} --version` printed no version{}{}", .program.display(), saying(.said), left(*.survivors))]
    NoVersion {
        /// What was started.
        program: PathBuf,
        /// The beginning of what it said.
        said: String,
        /// Processes that could not be ended.
        survivors: u32,
    },
}

fn left(survivors: u32) -> String {
    match survivors {
        0 => String::new(),
        1 => "; one of its processes could not be ended".to_owned(),
        more => format!("; {more} of its processes could not be ended"),
    }
}

fn saying(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(", saying \"{said}\"") }
}

impl ProbeError {
    /// What to try, for the error printer.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Home { .. } => "set TMPDIR to a folder that you can write to".to_owned(),
            Self::Start { .. } | Self::Failed { .. } => {
                "check that it is built for this machine and may be executed, or install it again".to_owned()
            }
            Self::Silent { program, .. } => {
                format!("start `{} --version` by hand to see what it waits for", program.display())
            }
            Self::NoVersion { .. } => {
                "check that this is the agent and not another program of that name".to_owned()
            }
            Self::Stopped { .. } => return None,
        })
    }

    /// Processes of the program that could not be ended.
    pub fn survivors(&self) -> u32 {
        match self {
            Self::Home { .. } | Self::Start { .. } => 0,
            Self::Silent { survivors, .. }
            | Self::Stopped { survivors, .. }
            | Self::Failed { survivors, .. }
            | Self::NoVersion { survivors, .. } => *survivors,
        }
    }
}

/// What a program answered.
struct Answer {
    status: ExitStatus,
    stdout: String,
    stderr: String,
    survivors: u32,
}

/// The version that an agent's program prints. Takes at most [`PROBE_LIMIT`]; whatever it started is gone afterwards,
/// also when the future is dropped, then a moment later.
pub async fn version(package: &Package, program: &Path, place: &Place) -> Result<String, ProbeError> {
    version_unless(package, program, place, std::future::pending()).await
}

/// The same, unless `stop` comes first: then all is ended before it returns.
pub async fn version_unless(
    package: &Package,
    program: &Path,
    place: &Place,
    stop: impl Future<Output = ()>,
) -> Result<String, ProbeError> {
    let Answer { status, stdout, stderr, survivors } = answer(program, place, stop).await?;
    let program = program.to_owned();
    let said = || excerpt(if stderr.trim().is_empty() { &stdout } else { &stderr });
    if !status.success() {
        return Err(ProbeError::Failed { program, status, said: said(), survivors });
    }
    package.version_in(&stdout).ok_or_else(|| ProbeError::NoVersion { program, said: said(), survivors })
}

/// The first word with a digit that any other program prints for `--version`: `v20.20.2`, `git version 2.51.0`.
pub async fn tool_version(program: &Path, place: &Place) -> Result<String, ProbeError> {
    let Answer { status, stdout, stderr, survivors } = answer(program, place, std::future::pending()).await?;
    let program = program.to_owned();
    if !status.success() {
        return Err(ProbeError::Failed { program, status, said: excerpt(&stderr), survivors });
    }
    stdout
        .split_whitespace()
        .map(|word| word.trim_start_matches('v'))
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()))
        .map(str::to_owned)
        .ok_or_else(|| ProbeError::NoVersion { program, said: excerpt(&stdout), survivors })
}

async fn answer(program: &Path, place: &Place, stop: impl Future<Output = ()>) -> Result<Answer, ProbeError> {
    let home = Home::open(&place.homes)
        .map_err(|source| ProbeError::Home { program: program.to_owned(), source })?;
    let started = std::time::Instant::now();
    let answer = match &place.guard {
        Some(guard) => guarded(program, home.path(), guard, stop).await?,
        None => grouped(program, home.path(), stop).await?,
    };
    let elapsed_ms = started.elapsed().as_millis();
    tracing::debug!(program = %program.display(), status = %answer.status, elapsed_ms, "probed");
    if answer.survivors > 0 {
        let survivors = answer.survivors;
        tracing::warn!(program = %program.display(), survivors, "processes of a probe could not be ended");
    }
    Ok(answer)
}

fn not_started(program: &Path, source: Box<dyn Error + Send + Sync>) -> ProbeError {
    ProbeError::Start { program: program.to_owned(), kind: file_kind(program), source }
}

/// What a program that is tried finds around itself.
fn surroundings(home: &Path) -> Vec<(OsString, OsString)> {
    // Scripts need a PATH to find their interpreter.
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let own = home.as_os_str().to_owned();
    vec![
        ("PATH".into(), path),
        ("HOME".into(), own.clone()),
        ("TMPDIR".into(), own),
        ("LANG".into(), "C.UTF-8".into()),
        ("TERM".into(), "dumb".into()),
    ]
}

#[cfg(target_os = "linux")]
async fn guarded(
    program: &Path,
    home: &Path,
    guard: &Path,
    stop: impl Future<Output = ()>,
) -> Result<Answer, ProbeError> {
    use std::os::unix::process::ExitStatusExt as _;

    use crate::capture::{Guarded, capture_guarded};
    use crate::contain::{Exit, Spawn, Stdin};

    let owned = || program.to_owned();
    let spawn = Spawn {
        program: owned(),
        args: vec!["--version".into()],
        env: surroundings(home),
        cwd: home.to_owned(),
        stdin: Stdin::Null,
        run: "probe",
        tier: None,
        jail: None,
        guard: guard.to_owned(),
    };
    let mut is_late = false;
    let enough = async {
        tokio::select! {
            () = stop => {}
            () = tokio::time::sleep(PROBE_LIMIT) => is_late = true,
        }
    };
    let captured = capture_guarded(spawn, enough).await;
    let Guarded { exit, stdout, stderr, survivors } =
        captured.map_err(|error| not_started(program, error.into()))?;
    let status = match exit {
        Some(Exit::Code(code)) => ExitStatus::from_raw((code & 0xff) << 8),
        Some(Exit::Signal(signal)) => ExitStatus::from_raw(signal),
        Some(Exit::Unknown) => {
            return Err(not_started(program, "its guardian was killed".into()));
        }
        None if is_late => return Err(ProbeError::Silent { program: owned(), survivors }),
        None => return Err(ProbeError::Stopped { program: owned(), survivors }),
    };
    Ok(Answer { status, stdout, stderr, survivors })
}

#[cfg(not(target_os = "linux"))]
async fn guarded(
    program: &Path,
    home: &Path,
    _guard: &Path,
    stop: impl Future<Output = ()>,
) -> Result<Answer, ProbeError> {
    grouped(program, home, stop).await
}

async fn grouped(program: &Path, home: &Path, stop: impl Future<Output = ()>) -> Result<Answer, ProbeError> {
    let owned = || program.to_owned();
    let mut command = Command::new(program);
    command.arg("--version").current_dir(home).stdin(Stdio::null()).env_clear().envs(surroundings(home));
    let captured = tokio::select! {
        captured = capture(&mut command) => captured,
        () = stop => return Err(ProbeError::Stopped { program: owned(), survivors: 0 }),
        () = tokio::time::sleep(PROBE_LIMIT) => {
            return Err(ProbeError::Silent { program: owned(), survivors: 0 });
        }
    };
    let Captured { status, stdout, stderr } =
        captured.map_err(|source| not_started(program, source.into()))?;
    Ok(Answer { status, stdout, stderr, survivors: 0 })
}

/// The first lines on one, shortened.
fn excerpt(text: &str) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match joined.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", &joined[..end]),
        None => joined,
    }
}

#[cfg(test)]
mod tests {
    use ostler_agent::agents::CODEX;

    use super::*;
    use crate::scripts::write_script;

    fn program(script: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("codex");
        write_script(&program, script);
        (folder, program)
    }

    fn place(folder: &tempfile::TempDir) -> Place {
        Place { homes: folder.path().join("probes"), guard: None }
    }

    async fn probed(script: &str) -> Result<String, ProbeError> {
        let (folder, program) = program(script);
        version(&CODEX, &program, &place(&folder)).await
    }

    #[tokio::test]
    async fn a_program_that_answers_has_a_version() {
        let script = "#!/bin/sh\necho 'a warning 1' >&2\necho codex-cli 0.166.0\n";
        assert_eq!(probed(script).await.unwrap(), "0.166.0");
    }

    #[tokio::test]
    async fn it_sees_a_home_that_is_nobodys_and_none_of_our_variables() {
        let script = "#!/bin/sh\n[ -z \"$(ls -A $HOME)\" ] && [ \"$PWD\" = \"$HOME\" ] && \
                      [ -z \"$CARGO_PKG_NAME\" ] && ls -ld $HOME | grep -q '^drwx------' && echo 1.2.3\n";
        assert_eq!(probed(script).await.unwrap(), "1.2.3");
    }

    #[tokio::test]
    async fn each_way_to_fail_is_told_apart() {
        let failed = probed("#!/bin/sh\necho 'no AVX2' >&2; exit 4\n").await.unwrap_err();
        assert!(matches!(failed, ProbeError::Failed { .. }));
        assert!(failed.to_string().ends_with("ended with exit status: 4, saying \"no AVX2\""), "{failed}");
        let killed = probed("#!/bin/sh\nkill -ILL $$\n").await.unwrap_err();
        assert!(killed.to_string().contains("signal: 4"), "{killed}");
        assert!(matches!(probed("#!/bin/sh\necho hello\n").await.unwrap_err(), ProbeError::NoVersion { .. }));
        assert!(matches!(probed("#!/no/such/interpreter\n").await.unwrap_err(), ProbeError::Start { .. }));
    }

    #[tokio::test]
    async fn a_tools_version_is_its_first_number() {
        for (printed, want) in [("git version 2.51.0 (x)", "2.51.0"), ("v20.20.2", "20.20.2")] {
            let (folder, program) = program(&format!("#!/bin/sh\necho '{printed}'\n"));
            assert_eq!(tool_version(&program, &place(&folder)).await.unwrap(), want);
        }
    }

    #[test]
    fn long_words_are_shortened() {
        assert_eq!(excerpt(" a\n b\t c "), "a b c");
        assert_eq!(excerpt(&"é".repeat(300)).chars().count(), EXCERPT_CHARS + 1);
    }
}
