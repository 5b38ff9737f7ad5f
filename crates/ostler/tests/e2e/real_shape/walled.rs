//! What the host executes for a run stands behind the wall of the run: checks, the bridge's `exec`, MCP servers.

use std::fs;

use serde_json::Value;

use super::{DECLARES, RealShape};
use crate::player::Player;
use crate::yard::Ended;

const SECRET: &str = "the owner's secret";

/// An MCP server that copies what it can read of its argument into the workspace when it starts.
const SERVER: &str = r#"
import { appendFileSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
let found = "nothing";
try { found = readFileSync(process.argv[2], "utf8"); } catch {}
appendFileSync("server-read", found + "\n" + process.env.TMPDIR + "\n" + process.env.SSH_AUTH_SOCK);
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const results = {
    initialize: () => ({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "t", version: "1" } }),
    "tools/list": () => ({ tools: [{ name: "say", inputSchema: { type: "object" } }] }),
  };
  const result = results[method] ? results[method]() : {};
  console.log(JSON.stringify({ jsonrpc: "2.0", id, result }));
});
"#;

/// Codex with a bridge and a wall, a secret outside its workspace and one in the user's home.
fn walled(kind: &str) -> Option<RealShape> {
    let shape = RealShape::unprivileged(Player::Codex)?.with_bridge();
    let shape = shape.variable("OSTLER_FORCE_JAIL", kind).variable("SSH_AUTH_SOCK", "/run/agent.sock");
    for folder in ["outside", "home/.ssh"] {
        fs::create_dir_all(shape.at(folder)).unwrap();
        fs::write(shape.at(folder).join("secret"), SECRET).unwrap();
    }
    Some(shape)
}

fn never_started(ended: &Ended) -> String {
    ended.ends("never_started", 14);
    ended.outcome().to_string()
}

fn a_check_reaches_what_the_agent_reaches(kind: &str) {
    let Some(shape) = walled(kind) else { return };
    let outside = shape.at("outside").display().to_string();
    let checks = [
        format!("cat {outside}/secret"),
        "cat ~/.ssh/secret".to_owned(),
        format!("echo x > {outside}/new"),
        "test -z \"$SSH_AUTH_SOCK\" && echo x > \"$TMPDIR/x\" && echo x > in-workspace".to_owned(),
    ];
    let mut args = vec!["--max-resumes", "0"];
    args.extend(checks.iter().flat_map(|check| ["--check", check]));
    args.push("Do it.");
    let ended = shape.run(&args, DECLARES);
    ended.ends("incomplete", 11);
    let outcome = ended.outcome();
    let passed: Vec<&Value> =
        outcome["checks"].as_array().unwrap().iter().map(|check| &check["passed"]).collect();
    assert_eq!(passed, [false, false, false, true], "{}", outcome["checks"]);
    assert!(!outcome.to_string().contains(SECRET), "{outcome}");
    assert_eq!(shape.names("outside"), ["secret"]);
    assert!(shape.workspace().join("in-workspace").exists());
}

#[test]
fn a_check_reaches_what_the_agent_reaches_in_a_namespace() {
    a_check_reaches_what_the_agent_reaches("namespace");
}

#[test]
fn a_check_reaches_what_the_agent_reaches_behind_landlock() {
    a_check_reaches_what_the_agent_reaches("landlock");
}

#[test]
fn a_command_at_the_bridge_reaches_what_the_agent_reaches() {
    for kind in ["namespace", "landlock"] {
        let Some(shape) = walled(kind) else { return };
        let outside = shape.at("outside").display().to_string();
        let command = format!(
            "cat {outside}/secret ~/.ssh/secret > read; echo x > {outside}/new; echo x > $TMPDIR/x && echo ran > ran"
        );
        let script = format!(
            "[[conversation]]\n[[conversation.step]]\nreply = [{{ tool_by_role = \"mcp:ostler/exec\", arguments = {{ \
             command = {command:?} }} }}]\n[[conversation.step]]\nreply = [{{ tool_by_role = \
             \"mcp:ostler/declare_complete\", arguments = {{ summary = \"Done.\" }} }}]\n[[conversation.step]]\nreply = \
             [{{ text = \"Done.\" }}]\n"
        );
        let ended = shape.run(&["--capabilities", "exec", "Do it."], &script);
        ended.ends("completed", 0);
        assert_eq!(fs::read_to_string(shape.workspace().join("ran")).unwrap(), "ran\n", "{kind}");
        assert_eq!(fs::read_to_string(shape.workspace().join("read")).unwrap(), "", "{kind}");
        assert_eq!(shape.names("outside"), ["secret"], "{kind}");
    }
}

#[test]
fn an_mcp_server_reaches_what_the_agent_reaches_unless_the_user_lets_it_out() {
    for (config, read) in [("", "nothing"), ("[mcp.clock]\njail = false\n", SECRET)] {
        let Some(shape) = walled("namespace") else { return };
        let shape = shape.configured(config);
        fs::write(shape.workspace().join("server.mjs"), SERVER).unwrap();
        let clock = format!("clock=node server.mjs {}", shape.at("outside/secret").display());
        let ended = shape.run(&["--mcp", &clock, "Do it."], DECLARES);
        ended.ends("completed", 0);
        let found = fs::read_to_string(shape.workspace().join("server-read")).unwrap();
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines[0], read, "{config}");
        let is_inside = (lines[1].ends_with("/private/tmp"), lines[2] == "undefined");
        assert_eq!(is_inside, if config.is_empty() { (true, true) } else { (false, false) }, "{found}");
    }
}

#[test]
fn an_mcp_server_that_the_jail_hides_is_refused_with_the_setting_that_opens_it() {
    let Some(shape) = walled("namespace") else { return };
    fs::write(shape.at("outside/server.mjs"), SERVER).unwrap();
    let script = shape.at("outside/server.mjs").canonicalize().unwrap().display().to_string();
    let folder = shape.at("outside").canonicalize().unwrap().display().to_string();
    let warning = never_started(&shape.run(&["--mcp", &format!("clock=node {script}"), "Do it."], DECLARES));
    let opened = format!("add `{folder}` to [jail] read, or set `jail = false` in [mcp.clock]");
    assert!(warning.contains(&format!("names {script}")) && warning.contains(&opened), "{warning}");
    let program = shape.at("outside/serve");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&program, mode).unwrap();
    let clock = format!("clock={}", program.display());
    let warning = never_started(&shape.run(&["--mcp", &clock, "Do it."], DECLARES));
    assert!(warning.contains("/outside/serve, which is not visible in the jail"), "{warning}");
    assert!(warning.contains(&opened), "{warning}");
}
