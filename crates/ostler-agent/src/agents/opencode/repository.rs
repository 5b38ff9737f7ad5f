//! What a repository brings that OpenCode would execute or obey. No option keeps it from its plugins: `--pure` and
//! `OPENCODE_DISABLE_PROJECT_CONFIG` import them all the same. Seen on 1.18.33.

use serde_json::Value;

use crate::repository_config::{ConfigEntry, Content};

const SETTINGS: &str = "runs plugins, starts MCP servers, sets permissions";

/// What it creates itself wherever there is an `.opencode`: packages of its own.
const OWN: &[&str] = &["node_modules", ".gitignore", "bun.lock", "bun.lockb", "package-lock.json"];

pub(super) static CONFIG: [ConfigEntry; 13] = [
    ConfigEntry::directory(".opencode/plugins", "runs as a plugin").only_masked(),
    ConfigEntry::directory(".opencode/plugin", "runs as a plugin").only_masked(),
    ConfigEntry::directory(".opencode/tools", "runs as a tool").only_masked(),
    ConfigEntry::directory(".opencode/tool", "runs as a tool").only_masked(),
    ConfigEntry::directory(".opencode/commands", "adds commands").only_masked(),
    ConfigEntry::directory(".opencode/command", "adds commands").only_masked(),
    ConfigEntry::directory(".opencode/agents", "adds sub-agents").only_masked(),
    ConfigEntry::directory(".opencode/agent", "adds sub-agents").only_masked(),
    ConfigEntry::directory(".opencode", "configures the agent").without(OWN).only_masked(),
    ConfigEntry::file("opencode.json", SETTINGS).only_masked(),
    ConfigEntry::file("opencode.jsonc", SETTINGS).only_masked(),
    ConfigEntry::directory(".claude/skills", "adds skills"),
    ConfigEntry::directory(".agents/skills", "adds skills"),
];

/// With it, it offers no skills of other agents: those of the user are left out too.
pub(super) const NO_FOREIGN_SKILLS: &str = "OPENCODE_DISABLE_EXTERNAL_SKILLS";

/// What it inserts at the beginning of settings that name no schema.
const SCHEMA: &[u8] = b"{\n  \"$schema\": \"https://opencode.ai/config.json\",";

/// The package that it adds to those of an `.opencode`.
const PACKAGE: &str = "@opencode-ai/plugin";

/// A file as it was before OpenCode edited it.
pub(super) fn before_own_edits(path: &str, bytes: &[u8]) -> Content {
    match path {
        "opencode.json" | "opencode.jsonc" | ".opencode/opencode.json" | ".opencode/opencode.jsonc" => {
            match bytes.trim_ascii_start().strip_prefix(SCHEMA) {
                Some(rest) => Content::Before([b"{", rest].concat()),
                None => Content::Whole,
            }
        }
        ".opencode/package.json" => without_package(bytes),
        _ => Content::Whole,
    }
}

fn without_package(bytes: &[u8]) -> Content {
    let Ok(Value::Object(mut manifest)) = serde_json::from_slice(bytes) else { return Content::Whole };
    if let Some(Value::Object(packages)) = manifest.get_mut("dependencies") {
        packages.remove(PACKAGE);
        if packages.is_empty() {
            manifest.remove("dependencies");
        }
    }
    match manifest.is_empty() {
        true => Content::None,
        false => Content::Before(Value::Object(manifest).to_string().into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_opencode_itself_edits_counts_as_before() {
        let before = |text: &str| Content::Before(text.as_bytes().to_vec());
        let table = [
            (
                "opencode.json",
                "{\n  \"$schema\": \"https://opencode.ai/config.json\",\"mcp\":{}}",
                before("{\"mcp\":{}}"),
            ),
            ("opencode.json", "{\"mcp\":{}}", Content::Whole),
            ("opencode.json", "{\"$schema\": \"https://elsewhere\",\"mcp\":{}}", Content::Whole),
            (".opencode/package.json", "{\"dependencies\":{\"@opencode-ai/plugin\":\"1\"}}", Content::None),
            (
                ".opencode/package.json",
                "{\"dependencies\":{\"@opencode-ai/plugin\":\"1\",\"evil\":\"2\"}}",
                before("{\"dependencies\":{\"evil\":\"2\"}}"),
            ),
            (".opencode/package.json", "{\"scripts\":{\"x\":\"y\"}}", before("{\"scripts\":{\"x\":\"y\"}}")),
            (".opencode/package.json", "not JSON", Content::Whole),
            (
                ".opencode/plugins/x.js",
                "{\n  \"$schema\": \"https://opencode.ai/config.json\",}",
                Content::Whole,
            ),
        ];
        for (path, text, want) in table {
            assert_eq!(before_own_edits(path, text.as_bytes()), want, "{path}: {text}");
        }
    }
}
