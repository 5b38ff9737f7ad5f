//! How Codex is started with nobody watching: one process a turn. All of this was seen on 0.166.0 with a scripted model.

use serde_json::json;

use crate::agent::{Launch, Permissions, PrivateFile, Refusal, Session, Stdin, Task, words};
use crate::bridge::{Access, CONNECT_SECONDS, LONGEST_CALL_SECONDS, SERVER};

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

/// Longest text in one argument. Linux takes 128 KiB, quotes and escapes included.
const LONGEST_ARGUMENT: usize = 100 * 1024;

pub(super) fn launch(task: &Task<'_>) -> Result<Launch, Refusal> {
    if !task.allow.is_empty() {
        return Err(refusal(
            "it has no rules for single tools, only a sandbox around all of them",
            "leave out --allow, or use --permissions all",
        ));
    }
    task.refuse_minted("codex")?;
    let mut args = words(["exec"]);
    if matches!(task.session, Session::Resumed(_)) {
        args.push("resume".to_owned());
    }
    args.extend(words(["--json", "--skip-git-repo-check"]));
    args.extend(words(QUIET));
    args.extend(words(["-c", "analytics.enabled=false"]));
    args.extend(permissions(task.permissions));
    if let Some(model) = task.model {
        args.extend(["-c".to_owned(), setting("model", model)]);
    }
    if let Some(prompt) = task.system_prompt {
        args.extend(["-c".to_owned(), instructions(prompt)?]);
    }
    if let Some(access) = task.bridge {
        args.extend(server(access));
    }
    // Before the session and the prompt, which are told by their places.
    args.extend_from_slice(task.extra);
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
    if let Some(access) = task.bridge {
        launch.env.push((TOKEN.to_owned(), access.token.to_owned()));
    }
    if task.permissions == Permissions::Edits {
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
fn permissions(permissions: Permissions) -> Vec<String> {
    let sandbox = match permissions {
        Permissions::Deny => "read-only",
        Permissions::Edits => "workspace-write",
        Permissions::All => return words(["--dangerously-bypass-approvals-and-sandbox"]),
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

/// A developer message at the beginning of every request, those of a resumed thread included. It takes the place of the
/// user's own `developer_instructions`, of which there are none by default.
fn instructions(prompt: &str) -> Result<String, Refusal> {
    let setting = setting("developer_instructions", prompt);
    if setting.len() > LONGEST_ARGUMENT {
        return Err(refusal(
            "the system prompt is too long for an argument",
            "shorten it to less than 100 KiB",
        ));
    }
    Ok(setting)
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
