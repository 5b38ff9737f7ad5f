//! Whether a program starts, and which version it is: `--version` with a clean environment and a home of its own.
//!
//! Agents write into their home even when they are only asked for their version; a probe leaves no trace in the
//! user's, and sees nothing of the user's settings.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

mod remembered;

use ostler_agent::package::Package;
use tokio::process::Command;

use crate::capture::{Captured, capture};
pub use remembered::Remembered;

/// How long `--version` may take. The slowest agent takes 2 s on two idle cores; a cold disk and a busy machine make
/// that ten times longer.
pub const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// How much of what a failing program said is repeated in the message.
const EXCERPT_CHARS: usize = 200;

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
    #[error("`{}` does not start", .program.display())]
    Start {
        /// What was to be started.
        program: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It started and did not end.
    #[error("`{} --version` gave no answer within {} s", .program.display(), PROBE_LIMIT.as_secs())]
    Silent {
        /// What was started.
        program: PathBuf,
    },
    /// It ended with an error.
    #[error("`{} --version` ended with {status}{}", .program.display(), saying(.said))]
    Failed {
        /// What was started.
        program: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// The beginning of what it said.
        said: String,
    },
    /// It ended well, and said something else.
    #[error("`{} --version` printed no version{}", .program.display(), saying(.said))]
    NoVersion {
        /// What was started.
        program: PathBuf,
        /// The beginning of what it said.
        said: String,
    },
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
            Self::Silent { program } => {
                format!("start `{} --version` by hand to see what it waits for", program.display())
            }
            Self::NoVersion { .. } => {
                "check that this is the agent and not another program of that name".to_owned()
            }
        })
    }
}

/// The version that an agent's program prints. Takes at most [`PROBE_LIMIT`]; its process group is gone afterwards, also
/// when the future is dropped. What leaves the group is not followed: no agent does so to tell its version.
pub async fn version(package: &Package, program: &Path) -> Result<String, ProbeError> {
    let Captured { status, stdout, stderr } = answer(program).await?;
    let said = || excerpt(if stderr.trim().is_empty() { &stdout } else { &stderr });
    if !status.success() {
        return Err(ProbeError::Failed { program: program.to_owned(), status, said: said() });
    }
    package
        .version_in(&stdout)
        .ok_or_else(|| ProbeError::NoVersion { program: program.to_owned(), said: said() })
}

/// The first word with a digit that any other program prints for `--version`: `v20.20.2`, `git version 2.51.0`.
pub async fn tool_version(program: &Path) -> Result<String, ProbeError> {
    let Captured { status, stdout, stderr } = answer(program).await?;
    if !status.success() {
        return Err(ProbeError::Failed { program: program.to_owned(), status, said: excerpt(&stderr) });
    }
    stdout
        .split_whitespace()
        .map(|word| word.trim_start_matches('v'))
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()))
        .map(str::to_owned)
        .ok_or_else(|| ProbeError::NoVersion { program: program.to_owned(), said: excerpt(&stdout) })
}

async fn answer(program: &Path) -> Result<Captured, ProbeError> {
    let home = tempfile::Builder::new()
        .prefix("ostler-probe-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .map_err(|source| ProbeError::Home { program: program.to_owned(), source })?;
    let mut command = Command::new(program);
    command.arg("--version").current_dir(home.path()).stdin(Stdio::null()).env_clear();
    // Scripts need a PATH to find their interpreter.
    command.env("PATH", std::env::var_os("PATH").as_deref().unwrap_or(OsStr::new("/usr/bin:/bin")));
    command.env("HOME", home.path()).env("TMPDIR", home.path()).env("LANG", "C.UTF-8").env("TERM", "dumb");
    let started = std::time::Instant::now();
    let captured = tokio::time::timeout(PROBE_LIMIT, capture(&mut command))
        .await
        .map_err(|_| ProbeError::Silent { program: program.to_owned() })?
        .map_err(|source| ProbeError::Start { program: program.to_owned(), source })?;
    let elapsed_ms = started.elapsed().as_millis();
    tracing::debug!(program = %program.display(), status = %captured.status, elapsed_ms, "probed");
    Ok(captured)
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

    async fn probed(script: &str) -> Result<String, ProbeError> {
        let (_folder, program) = program(script);
        version(&CODEX, &program).await
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
            let (_folder, program) = program(&format!("#!/bin/sh\necho '{printed}'\n"));
            assert_eq!(tool_version(&program).await.unwrap(), want);
        }
    }

    #[test]
    fn long_words_are_shortened() {
        assert_eq!(excerpt(" a\n b\t c "), "a b c");
        assert_eq!(excerpt(&"é".repeat(300)).chars().count(), EXCERPT_CHARS + 1);
    }
}
