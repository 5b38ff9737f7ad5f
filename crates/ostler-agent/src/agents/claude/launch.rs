//! How Claude Code is started with nobody watching: one process for the whole session, which listens on its standard
//! input. All of this was seen on 2.1.197 with a scripted model.

use serde_json::json;

use crate::agent::{
    Activity, AsRoot, Enforcement, Launch, Permissions, PrivateFile, Refusal, Session, Stdin, Task, pairs,
    words,
};
use crate::agents::rules::{Rules, rules};
use crate::bridge::{Access, CONNECT_SECONDS, LONGEST_CALL_SECONDS, SERVER};

use crate::offering::{self, Own};

use super::{control, repository};
use crate::repository_config::RepositoryTrust;

/// Tools that act after the turn that calls them: timers, wake-ups, watchers, workflows, and messages to sub-agents, which
/// 2.1.197 resumes in the background. Those that a version does not have are passed over.
const DISALLOWED_TOOLS: &str = "--disallowedTools=CronCreate,CronDelete,CronList,ScheduleWakeup,Monitor,RemoteTrigger,Workflow,SendMessage";

pub(super) fn launch(task: &Task<'_>) -> Result<Launch, Refusal> {
    let mut args =
        words(["-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"]);
    // Pieces of an answer are a sign of life: without them a long answer is minutes of silence.
    args.push("--include-partial-messages".to_owned());
    // What it may not do by itself it asks on its standard output, and a prompt it took is repeated there.
    args.extend(words(["--permission-prompt-tool", "stdio", "--replay-user-messages"]));
    args.extend(words(["--permission-mode", mode(task.granted())]));
    let mut warnings = Vec::new();
    match rules("claude", task)? {
        Rules::Widen(allow) => args.extend(allow.iter().map(|rule| format!("--allowedTools={rule}"))),
        Rules::Needless(warning) => warnings.push(warning),
    }
    if let Some(model) = task.model {
        args.extend(words(["--model", model]));
    }
    match task.session {
        Session::New => {}
        Session::Minted(session) => args.extend(words(["--session-id", session])),
        Session::Resumed(session) => args.extend(words(["--resume", session])),
    }
    if let Some(usd) = task.max_cost {
        // It knows what each call costs and stops itself after the one that reaches it. It counts from the start of
        // the process, also where it resumes a session.
        args.extend(["--max-budget-usd".to_owned(), usd.to_string()]);
    }
    let config = task.private.join("claude-mcp.json");
    if task.bridge.is_some() {
        // Servers of the user's own are left out: what they offer can be passed on by the bridge.
        args.push(format!("--mcp-config={}", config.display()));
        args.push("--strict-mcp-config".to_owned());
        // The whole server, at every level of permissions.
        args.push(format!("--allowedTools=mcp__{SERVER}"));
    }
    if let Some(own) = task.offered {
        match own {
            Own::On => {}
            // Nothing of the user's own servers either.
            Own::Off => args.extend(words(["--tools", "", "--strict-mcp-config"])),
        }
        args.push(format!("--allowedTools=mcp__{}", offering::SERVER));
    }
    args.extend(disallowed_tools(task.activity).map(str::to_owned));
    args.extend_from_slice(task.extra);
    let mut system_prompt = task.system_prompt.map(str::to_owned);
    if let RepositoryTrust::Untrusted(untrusted) = task.repository {
        let is_strict = task.bridge.is_some() || task.offered == Some(Own::Off);
        args.extend(repository::untrusted_args(untrusted, task.workspace, is_strict));
        warnings.extend(repository::strict_warning(untrusted).filter(|_| !is_strict));
        system_prompt = untrusted.with_instructions(task.system_prompt);
    }
    let mut lines = vec![control::initialize(system_prompt.as_deref(), task.offered.is_some())];
    if !task.prompt.is_empty() {
        lines.push(control::prompt(task.prompt));
    }
    let mut launch = Launch::new(args, Stdin::Spoken(lines));
    launch.env = pairs([("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1".to_owned())]);
    launch.env.extend(activity_variables(task.activity));
    launch.env.extend(repository::untrusted_env(task.repository));
    if let Some(access) = task.bridge {
        launch.env.extend(connecting());
        launch.files.push(PrivateFile { path: config, content: servers(access) });
    }
    if task.offered.is_some() {
        launch.env.extend(connecting());
    }
    launch.warnings = warnings;
    launch.as_root = as_root(task);
    Ok(launch)
}

/// The argument that takes away what acts after a turn, where that is not wanted.
pub(super) fn disallowed_tools(activity: Activity) -> Option<&'static str> {
    match activity {
        Activity::AfterTurns => None,
        Activity::InTurns => Some(DISALLOWED_TOOLS),
    }
}

/// The same, for what is no tool: tasks that a project schedules, commands and sub-agents in the background. A command that
/// takes too long is then ended instead of moved there. Seen on 2.1.197 and 2.1.325.
pub(super) fn activity_variables(activity: Activity) -> Vec<(String, String)> {
    match activity {
        Activity::AfterTurns => Vec::new(),
        Activity::InTurns => pairs([
            ("CLAUDE_CODE_DISABLE_CRON", "1".to_owned()),
            ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1".to_owned()),
        ]),
    }
}

/// How long it waits for the bridge.
pub(super) fn connecting() -> Vec<(String, String)> {
    pairs([
        // Unless told so it begins after two seconds, with or without the tools.
        ("MCP_CONNECTION_NONBLOCKING", "0".to_owned()),
        ("MCP_TIMEOUT", milliseconds(CONNECT_SECONDS)),
        ("MCP_TOOL_TIMEOUT", milliseconds(LONGEST_CALL_SECONDS)),
    ])
}

/// The one server that it knows. In a file, because arguments can be seen by everybody.
pub(super) fn servers(access: Access<'_>) -> String {
    let headers = json!({"Authorization": format!("Bearer {}", access.token)});
    let server = json!({"type": "http", "url": access.url, "headers": headers, "alwaysLoad": true});
    json!({"mcpServers": {SERVER: server}}).to_string()
}

fn milliseconds(seconds: u64) -> String {
    (seconds * 1_000).to_string()
}

/// - `default` reads files and runs commands that only read, inside the workspace; for all else it asks. A denied
///   question reaches the model as the tool's error, and the turn goes on.
/// - `acceptEdits` also writes inside the workspace, by its tools and by `touch`, `mkdir`, `rm`, `mv` and redirections;
///   a file outside is a question.
/// - `bypassPermissions` never asks.
pub(super) fn mode(permissions: Permissions) -> &'static str {
    match permissions {
        Permissions::Deny => "default",
        Permissions::Edits => "acceptEdits",
        Permissions::All => "bypassPermissions",
    }
}

/// As root it ends at once with "--dangerously-skip-permissions cannot be used with root/sudo privileges", unless it is
/// told that the machine is a sandbox.
pub(super) fn as_root(task: &Task<'_>) -> AsRoot {
    let warning = "Claude Code runs as root without restrictions, with IS_SANDBOX=1";
    match (task.granted(), task.enforcement) {
        (Permissions::Deny | Permissions::Edits, _) => AsRoot::default(),
        (Permissions::All, Enforcement::Agent) => AsRoot { env: in_sandbox(), warnings: words([warning]) },
        (Permissions::All, Enforcement::Kernel) => AsRoot { env: in_sandbox(), warnings: Vec::new() },
    }
}

/// What tells it that the machine is a sandbox.
pub(super) fn in_sandbox() -> Vec<(String, String)> {
    pairs([("IS_SANDBOX", "1".to_owned())])
}
