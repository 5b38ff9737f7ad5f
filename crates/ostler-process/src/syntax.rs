//! Whether a file can be read by the program that would run it. Nothing of the file is run.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::capture::capture;

/// A small file takes Node.js a fraction of a second; a machine that is busy takes longer.
const LONGEST: Duration = Duration::from_secs(30);

/// So much is kept of what is wrong with it.
const MOST_CHARS: usize = 300;

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Syntax {
    /// It can be read.
    Fine,
    /// It cannot.
    Broken {
        /// What is wrong, on one line.
        why: String,
    },
    /// Nobody here can tell.
    Unknown {
        /// Why not.
        why: String,
    },
}

/// Asks the `node` on `path` whether it can read a JavaScript file. It gets no variables but `PATH`, and its process
/// group is killed when it takes too long, or when the future is dropped.
pub async fn javascript(file: &Path, path: Option<&OsStr>) -> Syntax {
    let unknown = |why: String| Syntax::Unknown { why };
    let Some(node) = path.and_then(|path| which::which_in("node", Some(path), Path::new("/")).ok()) else {
        return unknown("node is not on PATH".to_owned());
    };
    let mut command = Command::new(&node);
    command.arg("--check").arg(file).env_clear().env("PATH", path.unwrap_or_default()).stdin(Stdio::null());
    match tokio::time::timeout(LONGEST, capture(&mut command)).await {
        Err(_) => unknown(format!("node did not answer within {} s", LONGEST.as_secs())),
        Ok(Err(error)) => unknown(format!("node could not be started: {error}")),
        Ok(Ok(answer)) if answer.status.success() => Syntax::Fine,
        Ok(Ok(answer)) => match complaint(&answer.stderr, file) {
            Some(why) => Syntax::Broken { why },
            None => unknown(format!("node ended with {}", answer.status)),
        },
    }
}

/// Where it is wrong, and how; nothing, if it is not the file that node complains of.
fn complaint(told: &str, file: &Path) -> Option<String> {
    let place = told.lines().find_map(|line| {
        let number = line.strip_prefix(&*file.display().to_string())?.strip_prefix(':')?;
        number.bytes().all(|byte| byte.is_ascii_digit()).then_some(number)
    })?;
    let error = told.lines().find(|line| line.contains("Error")).unwrap_or("it cannot be read");
    Some(format!("line {place}: {error}").chars().take(MOST_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts::write_script;

    async fn asked(node: &str) -> Syntax {
        let folder = tempfile::tempdir().unwrap();
        write_script(&folder.path().join("node"), &format!("#!/bin/sh\n{node}\n"));
        let file = Path::new("/yard/todo.js");
        tokio::time::timeout(LONGEST * 2, javascript(file, Some(folder.path().as_os_str()))).await.unwrap()
    }

    #[tokio::test]
    async fn what_node_says_is_told_in_a_line() {
        let wrong =
            r#"printf '%s:3\nlet x = ;\n\nSyntaxError: Unexpected token\n  at wrap\n' "$2" >&2; exit 1"#;
        let why = "line 3: SyntaxError: Unexpected token".to_owned();
        assert_eq!(asked(wrong).await, Syntax::Broken { why });
        assert_eq!(asked(r#"[ "$1" = --check ] && [ -z "$HOME" ]"#).await, Syntax::Fine);
    }

    #[tokio::test]
    async fn a_node_that_has_other_worries_says_nothing_of_the_file() {
        let why = "node ended with exit status: 9".to_owned();
        assert_eq!(asked("echo 'node: bad option' >&2; exit 9").await, Syntax::Unknown { why });
        let why = "node is not on PATH".to_owned();
        assert_eq!(javascript(Path::new("/x.js"), None).await, Syntax::Unknown { why: why.clone() });
        assert_eq!(
            javascript(Path::new("/x.js"), Some(OsStr::new("/nowhere"))).await,
            Syntax::Unknown { why }
        );
    }
}
