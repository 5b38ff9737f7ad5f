//! What an agent finds around itself: variables and private files.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ostler_agent::agent::{Launch, PrivateFile, Setup};

/// Variables with which an outer agent tells its children about itself. An agent that finds them behaves as its child.
const OF_AN_OUTER_AGENT: [&str; 4] = ["CLAUDECODE", "CLAUDE_PID", "CLAUDE_EFFORT", "AI_AGENT"];

/// That there is an outer agent whose variables begin as a person's own settings do.
const INSIDE: &str = "CLAUDECODE";

/// How those begin.
const OUTER_PREFIX: &str = "CLAUDE_CODE_";

/// What begins so and is never an outer agent's word about itself: who pays, and which provider answers.
const ALWAYS_A_PERSONS: [&str; 4] = [
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
];

/// What a rehearsed agent inherits. Everything else is set or absent.
const REHEARSED: [&str; 4] = ["PATH", "LANG", "TERM", "TZ"];

type Variables = Vec<(OsString, OsString)>;

/// The agent's private files cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("could not write {} for the agent", .path.display())]
pub struct PrivateError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl PrivateError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        Some("set OSTLER_HOME to a folder that you can write to".to_owned())
    }
}

/// The environment of an agent that works for real: ours, without what an outer agent left there.
pub fn inherited(ours: impl IntoIterator<Item = (OsString, OsString)>) -> Variables {
    let mut env: Variables = ours.into_iter().collect();
    let is_inside = env.iter().any(|(name, _)| name == INSIDE);
    env.retain(|(name, _)| !is_of_an_outer_agent(name, is_inside));
    env
}

/// The environment of an agent in a rehearsal: nothing of ours but what every program needs.
pub fn rehearsed(ours: impl IntoIterator<Item = (OsString, OsString)>, setup: &Setup) -> Variables {
    let kept = ours.into_iter().filter(|(name, _)| REHEARSED.iter().any(|needed| name == needed));
    let mut env: Variables = kept.collect();
    lay_over(&mut env, &setup.env);
    env
}

/// What a launch adds, and what a person should know about it.
pub fn launched(env: &[(OsString, OsString)], launch: &Launch) -> (Variables, Vec<String>) {
    let (mut env, mut warnings) = (env.to_vec(), launch.warnings.clone());
    lay_over(&mut env, &launch.env);
    if rustix::process::geteuid().is_root() {
        lay_over(&mut env, &launch.as_root.env);
        warnings.extend_from_slice(&launch.as_root.warnings);
    }
    (env, warnings)
}

fn lay_over(env: &mut Variables, over: &[(String, String)]) {
    env.retain(|(name, _)| over.iter().all(|(new, _)| name.as_os_str() != OsStr::new(new)));
    env.extend(over.iter().map(|(name, value)| (name.into(), value.into())));
}

fn is_of_an_outer_agent(name: &OsStr, is_inside: bool) -> bool {
    let Some(name) = name.to_str() else { return false };
    let is_its_own = is_inside && name.starts_with(OUTER_PREFIX) && !ALWAYS_A_PERSONS.contains(&name);
    OF_AN_OUTER_AGENT.contains(&name) || is_its_own
}

/// Makes a folder, folders and files that only their owner can read.
pub fn write_private(root: &Path, folders: &[PathBuf], files: &[PrivateFile]) -> Result<(), PrivateError> {
    let parents = files.iter().filter_map(|file| file.path.parent());
    for folder in [root].into_iter().chain(folders.iter().map(PathBuf::as_path)).chain(parents) {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|source| PrivateError { path: folder.to_owned(), source })?;
    }
    for file in files {
        let mut options = OpenOptions::new();
        let opened = options.write(true).create(true).truncate(true).mode(0o600).open(&file.path);
        opened
            .and_then(|mut opened| opened.write_all(file.content.as_bytes()))
            .map_err(|source| PrivateError { path: file.path.clone(), source })?;
    }
    Ok(())
}

/// Removes what was written for the agent. Its session and what it keeps for itself are elsewhere.
pub(super) fn remove_private(root: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(root) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(entries: &[(&str, &str)]) -> Variables {
        entries.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn an_agent_is_not_taken_for_the_child_of_another() {
        let ours = variables(&[
            ("CLAUDECODE", "1"),
            ("CLAUDE_CODE_ENTRYPOINT", "cli"),
            ("AI_AGENT", "x"),
            ("CLAUDE_CONFIG_DIR", "/c"),
            ("HOME", "/h"),
        ]);
        assert_eq!(inherited(ours), variables(&[("CLAUDE_CONFIG_DIR", "/c"), ("HOME", "/h")]));
    }

    #[test]
    fn a_persons_own_settings_are_left_to_the_agent() {
        let ours = variables(&[("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "9"), ("CLAUDE_CODE_OAUTH_TOKEN", "t")]);
        assert_eq!(inherited(ours.clone()), ours);
        let inside = [ours.clone(), variables(&[("CLAUDECODE", "1")])].concat();
        assert_eq!(inherited(inside), ours[1..]);
    }

    #[test]
    fn a_rehearsed_agent_inherits_next_to_nothing() {
        let ours = variables(&[("PATH", "/bin"), ("ANTHROPIC_API_KEY", "real"), ("HOME", "/h")]);
        let setup = Setup { env: vec![("HOME".to_owned(), "/private".to_owned())], ..Setup::default() };
        assert_eq!(rehearsed(ours, &setup), variables(&[("PATH", "/bin"), ("HOME", "/private")]));
    }
}
