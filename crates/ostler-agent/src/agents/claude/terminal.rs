//! Claude Code's own terminal program: how it is started with nobody there, and what it says of itself in its state
//! file. Facts: observed on 2.1.197 and 2.1.325.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::launch::{activity_variables, as_root, connecting, disallowed_tools, mode, servers};
use super::{hook, last_words, prompt, repository, screen, screen_change};
use crate::agent::{
    Launch, Permissions, PrivateFile, Refusal, Session, Stage, Stdin, Task, Whereabouts, pairs, words,
};
use crate::agents::reading::{named, small};
use crate::agents::rules::{Rules, rules};
use crate::bridge::SERVER;
use crate::dialogs::Dialog;
use crate::look::{Look, ScreenChange};
use crate::repository_config::RepositoryTrust;
use crate::terminal::{Interactive, StateFile, Status};
use crate::typing::{Prepared, Sight, Unsendable};

/// How much of the end of a key it remembers.
const APPROVED_END: usize = 20;

/// Knows the terminal program.
pub(super) struct Terminal;

impl Interactive for Terminal {
    fn launch(&self, task: &Task<'_>) -> Result<Launch, Refusal> {
        launch(task)
    }
    /// `<settings>/sessions/<pid>.json`; not there while the folder is not trusted.
    fn state_file(&self, whereabouts: &Whereabouts<'_>, pid: u32) -> PathBuf {
        whereabouts.folder("CLAUDE_CONFIG_DIR", ".claude").join("sessions").join(format!("{pid}.json"))
    }
    fn state(&self, content: &[u8]) -> Option<StateFile> {
        let state: Value = serde_json::from_slice(content).ok()?;
        state.is_object().then(|| StateFile {
            status: status(&state),
            session: named(&state["sessionId"]),
            pid: small(&state["pid"]),
            began: state["procStart"].as_str().and_then(|ticks| ticks.parse().ok()),
            version: named(&state["version"]),
        })
    }
    fn answer(&self, asked: &[u8], permissions: Permissions) -> Option<String> {
        hook::answer(asked, permissions)
    }
    fn is_same_prompt(&self, typed: &str, recorded: &str) -> bool {
        prompt::recorded(typed) == prompt::recorded(recorded)
    }
    fn sendable(&self, text: &str) -> Result<Prepared, Unsendable> {
        prompt::sendable(text)
    }
    fn sight(&self, look: &Look) -> Sight {
        screen::sight(look)
    }
    fn dialog(&self, look: &Look) -> Option<Dialog> {
        screen::dialog(look)
    }
    fn last_words(&self, look: &Look) -> String {
        last_words::last_words(look)
    }
    fn screen_change(&self, before: &Look, after: &Look) -> ScreenChange {
        screen_change::screen_change(before, after)
    }
}

fn status(state: &Value) -> Option<Status> {
    match state["status"].as_str()? {
        "idle" => Some(Status::Idle),
        "busy" => Some(Status::Busy),
        "shell" => Some(Status::Shell),
        "waiting" => {
            let what = named(&state["waitingFor"]).unwrap_or_else(|| "an answer".to_owned());
            Some(Status::Waiting { what })
        }
        _ => None,
    }
}

fn launch(task: &Task<'_>) -> Result<Launch, Refusal> {
    let mut args = words(["--permission-mode", mode(task.granted())]);
    let mut warnings = Vec::new();
    match rules("claude", task)? {
        Rules::Widen(allow) => args.extend(allow.iter().map(|rule| format!("--allowedTools={rule}"))),
        Rules::Needless(warning) => warnings.push(warning),
    }
    if let Some(model) = task.model {
        args.push(format!("--model={model}"));
    }
    match task.session {
        Session::New => {}
        Session::Minted(session) => args.push(format!("--session-id={session}")),
        Session::Resumed(session) => args.push(format!("--resume={session}")),
    }
    let mut files = vec![PrivateFile {
        path: task.private.join("claude-settings.json"),
        content: settings(task).to_string(),
    }];
    args.push(format!("--settings={}", files[0].path.display()));
    let system_prompt = match task.repository {
        RepositoryTrust::Untrusted(untrusted) => untrusted.with_instructions(task.system_prompt),
        RepositoryTrust::Nothing | RepositoryTrust::Trusted(_) => task.system_prompt.map(str::to_owned),
    };
    if let Some(content) = system_prompt {
        let path = task.private.join("claude-system-prompt.txt");
        args.push(format!("--append-system-prompt-file={}", path.display()));
        files.push(PrivateFile { path, content });
    }
    if let Some(access) = task.bridge {
        let path = task.private.join("claude-mcp.json");
        args.push(format!("--mcp-config={}", path.display()));
        args.push("--strict-mcp-config".to_owned());
        args.push(format!("--allowedTools=mcp__{SERVER}"));
        files.push(PrivateFile { path, content: servers(access) });
    }
    args.extend(disallowed_tools(task.activity).map(str::to_owned));
    args.extend_from_slice(task.extra);
    if let RepositoryTrust::Untrusted(untrusted) = task.repository {
        let is_strict = task.bridge.is_some();
        args.extend(repository::untrusted_args(untrusted, task.workspace, is_strict));
        warnings.extend(repository::strict_warning(untrusted).filter(|_| !is_strict));
    }
    let mut launch = Launch::new(args, Stdin::Terminal);
    launch.env = pairs([
        ("TERM", "xterm-256color".to_owned()),
        // Whoever starts a run in a folder trusts it; headless it does not ask either. All that this variable does.
        ("CLAUDE_CODE_SANDBOXED", "1".to_owned()),
        // It would clone its catalogue of plugins, replace itself, ask how it was.
        ("CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL", "1".to_owned()),
        ("DISABLE_AUTOUPDATER", "1".to_owned()),
        ("CLAUDE_CODE_DISABLE_FEEDBACK_SURVEY", "1".to_owned()),
    ]);
    launch.env.extend(activity_variables(task.activity));
    launch.env.extend(repository::untrusted_env(task.repository));
    if task.bridge.is_some() {
        launch.env.extend(connecting());
    }
    launch.files = files;
    launch.warnings = warnings;
    launch.as_root = as_root(task);
    Ok(launch)
}

/// What a person would have settled when it was first started: without it, it asks its provider, whatever address it is
/// given, and then about the key.
pub(super) fn settled(stage: &Stage) -> PrivateFile {
    // It remembers no key, only the end of it.
    let end = stage.key.get(stage.key.len().saturating_sub(APPROVED_END)..);
    let approved = json!({"approved": [end], "rejected": []});
    let content = json!({"hasCompletedOnboarding": true, "customApiKeyResponses": approved});
    PrivateFile { path: stage.home.join(".claude").join(".claude.json"), content: content.to_string() }
}

/// Settings for this run alone, laid over the person's own.
fn settings(task: &Task<'_>) -> Value {
    let mut settings = json!({
        // Words that nobody typed would stand in the box.
        "promptSuggestionEnabled": false,
        "spinnerTipsEnabled": false,
    });
    if let Some(answerer) = task.answerer {
        settings["hooks"] = hook::settings(answerer, task.granted());
    }
    if task.granted() == Permissions::All {
        settings["skipDangerousModePermissionPrompt"] = json!(true);
    }
    if task.bridge.is_some() || matches!(task.repository, RepositoryTrust::Trusted(_)) {
        // Beside a bridge, servers of the project are left out, but it asks about them all the same. The user has answered
        // for a repository that is trusted; to a refusal it would write into the repository's settings.
        settings["enableAllProjectMcpServers"] = json!(true);
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_file_says_what_it_is_doing() {
        let whole = br#"{"pid":24956,"sessionId":"ac51","cwd":"/w","procStart":"402752","version":"2.1.197",
            "kind":"interactive","status":"waiting","waitingFor":"permission prompt"}"#;
        let want = StateFile {
            status: Some(Status::Waiting { what: "permission prompt".to_owned() }),
            session: Some("ac51".to_owned()),
            pid: Some(24956),
            began: Some(402_752),
            version: Some("2.1.197".to_owned()),
        };
        assert_eq!(Terminal.state(whole), Some(want));
        let status = |text: &str| Terminal.state(text.as_bytes()).map(|state| state.status);
        let table = [
            (r#"{"status":"idle"}"#, Some(Some(Status::Idle))),
            (r#"{"status":"busy"}"#, Some(Some(Status::Busy))),
            (r#"{"status":"shell"}"#, Some(Some(Status::Shell))),
            (r#"{"status":"dreaming"}"#, Some(None)),
            ("{}", Some(None)),
            (r#"{"status":"id"#, None),
            ("", None),
            ("[]", None),
        ];
        for (text, want) in table {
            assert_eq!(status(text), want, "{text}");
        }
    }

    #[test]
    fn a_prompt_is_known_again() {
        let table = [
            ("do it", "do it", true),
            ("a\tb\r\nc  ", "a    b\nc", true),
            ("do it", "do it twice", false),
            ("", "x", false),
        ];
        for (typed, recorded, want) in table {
            assert_eq!(Terminal.is_same_prompt(typed, recorded), want, "{typed:?} and {recorded:?}");
        }
    }
}
