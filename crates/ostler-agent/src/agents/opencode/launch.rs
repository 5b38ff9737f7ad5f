//! How OpenCode is started with nobody watching: one process a turn. All of this was seen on 1.18.33 with a scripted
//! model.

use serde_json::{Map, Value, json};

use super::repository::NO_FOREIGN_SKILLS;
use super::settings::{VARIABLE, add_instructions, add_server, users_settings};
use crate::agent::{Launch, Permissions, PrivateFile, Refusal, Session, Stdin, Task, words};
use crate::agents::rules::{Rules, rules};
use crate::bridge::{Access, LONGEST_CALL_SECONDS, SERVER};
use crate::repository_config::RepositoryTrust;

/// What only looks, inside the workspace.
const LOOKS: [&str; 9] =
    ["read", "list", "glob", "grep", "lsp", "todoread", "todowrite", "skill", "StructuredOutput"];

/// What is named so that nothing else in the user's settings decides it. `edit` stands for all tools that write.
const ACTS: [&str; 9] = [
    "edit",
    "bash",
    "task",
    "webfetch",
    "websearch",
    "codesearch",
    "question",
    "external_directory",
    "doom_loop",
];

pub(super) fn launch(task: &Task<'_>) -> Result<Launch, Refusal> {
    task.refuse_minted("opencode")?;
    if let RepositoryTrust::Untrusted(untrusted) = task.repository {
        untrusted.refuse_unmasked("opencode")?;
    }
    // Without a title it asks the model for one. Only its log reports that it waits to retry; its log file stays.
    let mut args = words(["run", "--format", "json", "--title", "ostler", "--print-logs"]);
    if let Some(model) = task.model {
        if !model.contains('/') {
            return Err(refusal(
                &format!("`{model}` names no provider"),
                "write the model as provider/model",
            ));
        }
        args.extend(words(["--model", model]));
    }
    if let Session::Resumed(session) = task.session {
        args.extend(words(["--session", session]));
    }
    args.extend_from_slice(task.extra);
    let mut launch = Launch::new(args, Stdin::Text(task.prompt.to_owned()));
    let mut permission = permissions(task.granted());
    match rules("opencode", task)? {
        Rules::Widen(allow) => allow.iter().try_for_each(|rule| widen(&mut permission, rule))?,
        Rules::Needless(warning) => launch.warnings.push(warning),
    }
    if task.bridge.is_some() {
        permission.insert(format!("{SERVER}_*"), json!("allow"));
    }
    if let RepositoryTrust::Untrusted(untrusted) = task.repository
        && untrusted.has_skills()
    {
        launch.env.push((NO_FOREIGN_SKILLS.to_owned(), "1".to_owned()));
    }
    // Laid over all its other settings, those of `OPENCODE_CONFIG` included.
    launch.env.push(("OPENCODE_PERMISSION".to_owned(), Value::Object(permission).to_string()));
    let mut settings = None;
    let before = || users_settings(task.users_settings);
    if let Some(access) = task.bridge {
        settings = Some(add_server(&before(), SERVER, &server(access))?);
    }
    if let Some(prompt) = task.system_prompt {
        let path = task.private.join("opencode-instructions.md");
        // Added to the instructions of its other settings, and to those in the workspace.
        settings = Some(add_instructions(&settings.unwrap_or_else(before), &path.display().to_string())?);
        launch.files.push(PrivateFile { path, content: prompt.to_owned() });
    }
    launch.env.extend(settings.map(|settings| (VARIABLE.to_owned(), settings)));
    Ok(launch)
}

/// The bridge among its servers. Without `oauth` it would look for a login first; its own limit on calls is five seconds.
fn server(access: Access<'_>) -> Value {
    json!({
        "type": "remote",
        "url": access.url,
        "oauth": false,
        "timeout": LONGEST_CALL_SECONDS * 1_000,
        "headers": {"Authorization": format!("Bearer {}", access.token)},
    })
}

/// A tool that is denied is not offered to the model; a path that is denied is an error of the tool, and the turn goes
/// on. What would be asked is refused, and that ends the run: so nothing asks.
fn permissions(permissions: Permissions) -> Map<String, Value> {
    let all = |word: &'static str, tools: &[&'static str]| -> Vec<(String, Value)> {
        tools.iter().map(|tool| ((*tool).to_owned(), json!(word))).collect()
    };
    let mut rules = match permissions {
        Permissions::All => [all("allow", &["*"]), all("allow", &LOOKS), all("allow", &ACTS)].concat(),
        Permissions::Deny | Permissions::Edits => {
            [all("deny", &["*"]), all("allow", &LOOKS), all("deny", &ACTS)].concat()
        }
    };
    if permissions == Permissions::Edits {
        // A sub-agent has the same permissions.
        rules.extend(all("allow", &["edit", "task"]));
    }
    rules.into_iter().collect()
}

/// A rule is a key of OpenCode's `permission`, alone or with a pattern: `webfetch`, `bash:cargo test *`.
fn widen(permission: &mut Map<String, Value>, rule: &str) -> Result<(), Refusal> {
    let (tool, pattern) = rule.split_once(':').unwrap_or((rule, ""));
    if tool.is_empty() || tool.contains(char::is_whitespace) {
        let hint = "write a tool, or a tool and a pattern: 'bash:cargo test *'";
        return Err(refusal(&format!("`{rule}` is not a rule"), hint));
    }
    if pattern.is_empty() {
        permission.insert(tool.to_owned(), json!("allow"));
        return Ok(());
    }
    let entry = permission.entry(tool).or_insert_with(|| json!("deny"));
    if let Some(word) = entry.as_str() {
        // Of several patterns that fit the last one counts.
        *entry = json!({"*": word});
    }
    entry[pattern] = json!("allow");
    Ok(())
}

pub(super) fn refusal(reason: &str, hint: &str) -> Refusal {
    Refusal { agent: "opencode", reason: reason.to_owned(), hint: hint.to_owned() }
}
