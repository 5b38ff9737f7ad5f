//! How Codex is started with nobody watching: one process a turn. All of this was seen on 0.166.0 with a scripted model.

use std::path::Path;

use serde_json::json;

use crate::agent::{Enforcement, Launch, Permissions, PrivateFile, Refusal, Session, Stdin, Task, words};
use crate::agents::rules::{Rules, rules};
use crate::bridge::{Access, CONNECT_SECONDS, LONGEST_CALL_SECONDS, SERVER};
use crate::profile::{PREFIX, Profile};
use crate::repository_config::RepositoryTrust;

use super::repository;

/// Background features that call home. Without network they delay the exit by seconds.
const QUIET: [&str; 8] = [
    "--disable",
    "unbounded_connection_retries",
    "--disable",
    "plugins",
    "--disable",
    "apps",
    "--disable",
    "remote_plugin",
];

/// A folder is made for a file; this one says what the folder is for.
const TEMPORARY: &str = "Temporary files of one run.\n";

/// The variable in which it finds what it shows to the bridge.
const TOKEN: &str = "OSTLER_BRIDGE_TOKEN";

/// How the name of a profile's file ends.
const PROFILE_SUFFIX: &str = ".config.toml";

/// How much of the end of a private folder's path is in the name of a profile: more than an id and a word.
const LONGEST_NAME: usize = 64;

/// The setting for instructions.
const INSTRUCTIONS: &str = "developer_instructions";

pub(super) fn launch(task: &Task<'_>) -> Result<Launch, Refusal> {
    let mut warnings = Vec::new();
    match task.enforcement {
        _ if task.allow.is_empty() => {}
        Enforcement::Kernel => match rules("codex", task)? {
            Rules::Needless(warning) => warnings.push(warning),
            Rules::Widen(_) => {}
        },
        Enforcement::Agent => {
            return Err(refusal(
                "it has no rules for single tools, only a sandbox around all of them",
                "leave out --allow, or use --permissions all",
            ));
        }
    }
    task.refuse_minted("codex")?;
    let (chosen, extra) = split_profile(task.extra);
    let instructions = match task.repository {
        RepositoryTrust::Untrusted(untrusted) => untrusted.with_instructions(task.system_prompt),
        RepositoryTrust::Nothing | RepositoryTrust::Trusted(_) => task.system_prompt.map(str::to_owned),
    };
    let profile = instructions.map(|text| profile(&text, chosen.clone(), task.private));
    let mut args = words(["exec"]);
    let name = match &profile {
        Some(profile) => profile.link.strip_suffix(PROFILE_SUFFIX).map(str::to_owned),
        None => chosen,
    };
    // `resume` takes none.
    args.extend(name.into_iter().flat_map(|name| ["--profile".to_owned(), name]));
    if matches!(task.session, Session::Resumed(_)) {
        args.push("resume".to_owned());
    }
    args.extend(words(["--json", "--skip-git-repo-check"]));
    args.extend(words(QUIET));
    args.extend(words(["-c", "analytics.enabled=false"]));
    args.extend(permissions(task));
    if let Some(model) = task.model {
        args.extend(["-c".to_owned(), setting("model", model)]);
    }
    if let Some(access) = task.bridge {
        args.extend(server(access));
    }
    // Before the session and the prompt, which are told by their places.
    args.extend(extra);
    // After the user's: of two tables of one name the last counts.
    args.extend(repository::trust_args(task.repository));
    match task.session {
        Session::Resumed(session) if is_uuid(session) => args.push(session.to_owned()),
        Session::Resumed(session) => {
            // It would take the text for a name, find none, and start another thread without a word.
            return Err(refusal(&format!("`{session}` is not the id of a thread"), "give the id in full"));
        }
        // `resume` has no -C: there the working directory of the process decides.
        Session::New | Session::Minted(_) => {
            args.extend(words(["-C", &task.workspace.display().to_string()]));
        }
    }
    // The prompt goes to stdin, so that a long one does not meet the limit on arguments.
    args.push("-".to_owned());
    let mut launch = Launch::new(args, Stdin::Text(task.prompt.to_owned()));
    launch.profile = profile;
    launch.warnings = warnings;
    if let Some(access) = task.bridge {
        launch.env.push((TOKEN.to_owned(), access.token.to_owned()));
    }
    // A jail has a directory for temporary files already.
    if task.permissions == Permissions::Edits && task.enforcement == Enforcement::Agent {
        let folder = task.private.join("tmp");
        launch.env.push(("TMPDIR".to_owned(), folder.display().to_string()));
        launch.files.push(PrivateFile { path: folder.join("README"), content: TEMPORARY.to_owned() });
    }
    Ok(launch)
}

/// As settings, because `resume` has no `--sandbox`; always given, because without them a directory that was once used
/// with more keeps it.
///
/// - `read-only`: commands read everywhere; writing fails with "Read-only file system", a patch with "writing is blocked
///   by read-only sandbox".
/// - `workspace-write`: writing goes to the workspace and to `TMPDIR`; commands have no network, not even loopback.
///   Unless told otherwise it goes to all of `/tmp` too, where other programs keep their files: so that is left out,
///   and `TMPDIR` is a folder of this run, since compilers and tests cannot do without one.
///
/// Inside a jail its own sandbox does not start, and every command fails while the turn seems to succeed: it is off there.
fn permissions(task: &Task<'_>) -> Vec<String> {
    let sandbox = match (task.permissions, task.enforcement) {
        (Permissions::Deny, Enforcement::Agent) => "read-only",
        (Permissions::Edits, Enforcement::Agent) => "workspace-write",
        (Permissions::All, _) | (_, Enforcement::Kernel) => {
            return words(["--dangerously-bypass-approvals-and-sandbox"]);
        }
    };
    let mut args = words(["-c", "approval_policy=\"never\"", "-c"]);
    args.push(setting("sandbox_mode", sandbox));
    args.extend(words(["-c", "sandbox_workspace_write.exclude_slash_tmp=true"]));
    args
}

/// The bridge among its servers. Without `required` it would go on without the tools, without a word; without `approve` it
/// refuses every tool that may change something, as it may not ask.
fn server(access: Access<'_>) -> Vec<String> {
    let key = |name: &str| format!("mcp_servers.{SERVER}.{name}");
    let settings = [
        setting(&key("url"), access.url),
        setting(&key("bearer_token_env_var"), TOKEN),
        format!("{}=true", key("required")),
        setting(&key("default_tools_approval_mode"), "approve"),
        format!("{}={CONNECT_SECONDS}", key("startup_timeout_sec")),
        format!("{}={LONGEST_CALL_SECONDS}", key("tool_timeout_sec")),
    ];
    settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]).collect()
}

/// A developer message at the beginning of every request, those of a resumed thread included. Only settings can hold it:
/// an argument would show it to every user of the machine, and `model_instructions_file` replaces Codex's own prompt.
fn profile(prompt: &str, chosen: Option<String>, private: &Path) -> Profile {
    // One for each process: the private folder, which has the id of the run or session in its path, is this one's alone.
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name: String = private.to_string_lossy().chars().map(plain).collect();
    let name = name[name.len().saturating_sub(LONGEST_NAME)..].trim_matches('-');
    Profile {
        variable: "CODEX_HOME",
        below_home: ".codex",
        settings: "config.toml",
        chosen: chosen.map(|chosen| format!("{chosen}{PROFILE_SUFFIX}")),
        link: format!("{PREFIX}{name}{PROFILE_SUFFIX}"),
        path: private.join("codex-profile.toml"),
        key: INSTRUCTIONS,
        text: prompt.to_owned(),
        project: ".codex/config.toml",
    }
}

/// The profile among the user's arguments, of which Codex takes one, and the other arguments.
fn split_profile(extra: &[String]) -> (Option<String>, Vec<String>) {
    let (mut chosen, mut others) = (None, Vec::new());
    let mut args = extra.iter();
    while let Some(arg) = args.next() {
        let short = arg.strip_prefix("-p").filter(|_| !arg.starts_with("--"));
        match (arg.strip_prefix("--profile"), short) {
            (Some(""), _) | (_, Some("")) => chosen = args.next().cloned(),
            (_, Some(value)) => chosen = Some(value.strip_prefix('=').unwrap_or(value).to_owned()),
            (Some(value), _) if value.starts_with('=') => chosen = Some(value[1..].to_owned()),
            _ => others.push(arg.clone()),
        }
    }
    (chosen, others)
}

/// A setting in TOML. A JSON string is one of TOML too, but for one letter that TOML does not take as it is.
fn setting(key: &str, value: &str) -> String {
    let value = json!(value).to_string().replace('\u{7f}', "\\u007f");
    format!("{key}={value}")
}

fn is_uuid(text: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match dashes.contains(&at) {
            true => byte == b'-',
            false => byte.is_ascii_hexdigit(),
        })
}

fn refusal(reason: &str, hint: &str) -> Refusal {
    Refusal { agent: "codex", reason: reason.to_owned(), hint: hint.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_profile_is_told_from_other_arguments() {
        let table: [(&[&str], Option<&str>, &[&str]); 7] = [
            (&[], None, &[]),
            (&["-p", "work", "--search"], Some("work"), &["--search"]),
            (&["--profile", "work"], Some("work"), &[]),
            (&["-c", "a=1", "--profile=work"], Some("work"), &["-c", "a=1"]),
            (&["-pwork"], Some("work"), &[]),
            (&["-p=work"], Some("work"), &[]),
            (&["--profiles", "x", "-c", "p=1"], None, &["--profiles", "x", "-c", "p=1"]),
        ];
        for (extra, chosen, others) in table {
            let extra: Vec<String> = extra.iter().map(|arg| (*arg).to_owned()).collect();
            let (found, left) = split_profile(&extra);
            assert_eq!(
                (found.as_deref(), left.as_slice()),
                (chosen, &others.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>()[..])
            );
        }
    }
}
