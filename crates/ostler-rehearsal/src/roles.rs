//! What each agent calls the tool for a role, and how it wants its arguments: told from the tools on offer.

use serde_json::{Value, json};

use crate::ask::{Ask, OWN_SERVER, Wire, is_mcp};
use crate::script::Role;

/// A tool call as an agent understands it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    /// The tool's name.
    pub(crate) name: String,
    /// The group that Codex files an MCP server's tools under.
    pub(crate) namespace: Option<String>,
    /// What it is called with.
    pub(crate) input: CallInput,
}

/// What a tool is called with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CallInput {
    /// Named arguments: a JSON object.
    Arguments(Value),
    /// Free text, for tools that Codex calls custom.
    Text(String),
}

/// Translates a role into a call of one of the tools on offer, or says which tools would have done. Texts in `role`
/// are filled in already.
pub(crate) fn call(role: &Role, ask: &Ask) -> Result<Call, String> {
    match role {
        Role::Shell { command } => shell(command, ask),
        Role::WriteFile { path, content } => write_file(path, content, ask),
        Role::ReadFile { path } => read_file(path, ask),
        Role::Mcp { server, tool, arguments } => mcp(server.as_deref(), tool, json!(arguments), ask),
    }
}

fn shell(command: &str, ask: &Ask) -> Result<Call, String> {
    let described = json!({"command": command, "description": "Run a command"});
    let table = [("Bash", described.clone()), ("bash", described), ("exec_command", json!({"cmd": command}))];
    first(ask, table).ok_or_else(|| missing("shell", &["Bash", "bash", "exec_command"], ask))
}

fn write_file(path: &str, content: &str, ask: &Ask) -> Result<Call, String> {
    let full = absolute(path, ask);
    let table = [
        ("Write", json!({"file_path": full, "content": content})),
        ("write", json!({"filePath": full, "content": content})),
    ];
    if let Some(call) = first(ask, table) {
        return Ok(call);
    }
    // A patch is made of whole lines; a file that does not end with one is written by the shell.
    if ask.offers("apply_patch") && content.ends_with('\n') {
        let lines: String = content.lines().map(|line| format!("+{line}\n")).collect();
        let patch = format!("*** Begin Patch\n*** Add File: {full}\n{lines}*** End Patch");
        return Ok(Call { name: "apply_patch".to_owned(), namespace: None, input: CallInput::Text(patch) });
    }
    let (file, text) = (quoted(&full), quoted(content));
    shell(&format!("mkdir -p \"$(dirname {file})\" && printf %s {text} > {file}"), ask)
        .map_err(|_| missing("write_file", &["Write", "write", "apply_patch", "a shell"], ask))
}

fn read_file(path: &str, ask: &Ask) -> Result<Call, String> {
    let full = absolute(path, ask);
    let table = [("Read", json!({"file_path": full})), ("read", json!({"filePath": full}))];
    match first(ask, table) {
        Some(call) => Ok(call),
        None => shell(&format!("cat {}", quoted(&full)), ask)
            .map_err(|_| missing("read_file", &["Read", "read", "a shell"], ask)),
    }
}

fn mcp(server: Option<&str>, tool: &str, arguments: Value, ask: &Ask) -> Result<Call, String> {
    let wanted = server.map_or_else(|| tool.to_owned(), |server| format!("{server}/{tool}"));
    let offered = ask.offered.iter().find(|offered| is_mcp(offered, &wanted));
    let input = CallInput::Arguments(arguments);
    match (ask.wire, offered) {
        // Codex takes MCP calls by namespace only, and lists the tools only to those who search for them.
        (Wire::Responses, _) => {
            let listed = offered.and_then(|name| name.strip_suffix(&format!("__{tool}"))).map(str::to_owned);
            let namespace = listed.unwrap_or_else(|| format!("mcp__{}", server.unwrap_or(OWN_SERVER)));
            Ok(Call { name: tool.to_owned(), namespace: Some(namespace), input })
        }
        (Wire::Anthropic | Wire::Chat, Some(name)) => Ok(Call { name: name.clone(), namespace: None, input }),
        (Wire::Anthropic | Wire::Chat, None) => {
            Err(missing(&format!("mcp:{wanted}"), &["an MCP server with it"], ask))
        }
    }
}

fn first<const N: usize>(ask: &Ask, table: [(&str, Value); N]) -> Option<Call> {
    let (name, arguments) = table.into_iter().find(|(name, _)| ask.offers(name))?;
    Some(Call { name: name.to_owned(), namespace: None, input: CallInput::Arguments(arguments) })
}

fn missing(role: &str, known: &[&str], ask: &Ask) -> String {
    let offered = if ask.offered.is_empty() { "none".to_owned() } else { ask.offered.join(", ") };
    format!("the role `{role}` needs {}, but the tools on offer are: {offered}", known.join(" or "))
}

fn absolute(path: &str, ask: &Ask) -> String {
    match &ask.workspace {
        Some(workspace) if !path.starts_with('/') => format!("{}/{path}", workspace.trim_end_matches('/')),
        Some(_) | None => path.to_owned(),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
