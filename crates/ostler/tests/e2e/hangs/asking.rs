//! It waits for somebody.

use crate::hangs::COMPLETED;
use crate::player::Player;
use crate::yard::Yard;

/// It reads its standard input to the end before it does anything.
mod h04_waits_for_stdin {
    use super::*;

    /// `codex exec` with an open pipe does nothing until that ends.
    #[test]
    fn codex() {
        let Some(yard) = Yard::of(Player::Codex) else { return };
        let ended = yard.run(&["--rehearse=hello", "Say hello."]);
        ended.ends("completed", 0);
        assert_eq!(yard.why(), COMPLETED);
        yard.is_empty();
    }

    #[test]
    fn any_command() {
        let yard = Yard::of_command("cat");
        let ended = yard.run(&["--permissions", "all", "Say this."]);
        ended.ends("completed", 0);
        assert_eq!(ended.said(), ["Say this."]);
        assert_eq!(yard.why(), COMPLETED);
        yard.is_empty();
    }
}

/// It asks, and nobody is there.
mod h05_waits_for_a_person {
    use super::*;

    /// What it may not do by itself it asks, and a denied question does not end the turn.
    #[test]
    fn a_permission_is_denied_and_claude_goes_on() {
        let Some(yard) = Yard::of(Player::ClaudeStream) else { return };
        let script = yard.script(
            r#"
            [[conversation]]
            [[conversation.step]]
            reply = [{ tool_by_role = "shell", command = "touch no.txt" }]
            [[conversation.step]]
            expect = { result_contains = "this run may only read" }
            reply = [{ text = "I could not write it." }]
            "#,
        );
        let ended = yard.run(&[&script, "--permissions", "deny", "Write."]);
        ended.ends("completed", 0);
        assert_eq!(ended.with("blocked", "permission").count(), 1);
        assert!(!yard.workspace().join("no.txt").exists());
        assert_eq!(yard.why(), COMPLETED);
        yard.is_empty();
    }

    /// It asks which of two things to do, whatever it may do.
    #[test]
    fn a_question_is_answered_and_claude_goes_on() {
        let Some(yard) = Yard::of(Player::ClaudeStream) else { return };
        let script = yard.script(
            r#"
            [[conversation]]
            [[conversation.step]]
            reply = [{ tool = "AskUserQuestion", arguments = { questions = [{ question = "Which colour?", header = "Colour", multiSelect = false, options = [{ label = "red", description = "warm" }, { label = "blue", description = "cold" }] }] } }]
            [[conversation.step]]
            expect = { result_contains = "nobody is there to answer" }
            reply = [{ text = "Then it is red." }]
            "#,
        );
        for level in ["deny", "edits", "all"] {
            let ended = yard.run(&[&script, "--permissions", level, "Paint it."]);
            ended.ends("completed", 0);
            let asked: Vec<_> = ended.with("blocked", "question").map(|line| &line["text"]).collect();
            assert_eq!(asked, ["Which colour?"]);
            assert_eq!(ended.said(), ["Then it is red."]);
            assert_eq!(yard.why(), COMPLETED);
        }
        yard.is_empty();
    }

    /// An MCP server of the project asks for something that only a person has.
    #[test]
    fn what_only_a_person_has_blocks_claude() {
        let Some(yard) = Yard::of(Player::ClaudeStream) else { return };
        std::fs::write(yard.at("server.sh"), ASKING_SERVER).unwrap();
        let server = format!(
            r#"{{"mcpServers": {{"vault": {{"command": "sh", "args": ["{}"]}}}}}}"#,
            yard.at("server.sh").display()
        );
        std::fs::write(yard.workspace().join(".mcp.json"), server).unwrap();
        std::fs::create_dir(yard.workspace().join(".claude")).unwrap();
        let trusted = r#"{"enableAllProjectMcpServers": true}"#;
        std::fs::write(yard.workspace().join(".claude/settings.json"), trusted).unwrap();
        yard.trust();
        let script = yard.script(
            r#"
            [[conversation]]
            [[conversation.step]]
            reply = [{ tool_by_role = "mcp:vault/open" }]
            [[conversation.step]]
            reply = [{ text = "It is open." }]
            "#,
        );
        let ended = yard.run(&[&script, "--permissions", "all", "Open the vault."]);
        ended.ends("blocked", 15);
        assert_eq!(
            yard.why(),
            blocked("the MCP server `vault` asks: The code, please", "open     mcp__vault__open, since Ns\n")
        );
        yard.is_empty();
    }

    #[test]
    fn a_dialog_that_nobody_knows_blocks_the_fake() {
        let yard = Yard::of_fake(
            Player::ClaudeStream,
            r#"
            [[step]]
            do = [
                { unknown_frame = "control_request", body = { request_id = "q", request = { subtype = "request_user_dialog", dialog_kind = "upsell" } } },
                { stall = "forever" },
            ]
            "#,
        );
        let ended = yard.run(&["Say something."]);
        ended.ends("blocked", 15);
        assert_eq!(yard.why(), blocked("a dialog: upsell", ""));
        yard.is_empty();
    }

    fn blocked(dialog: &str, open: &str) -> String {
        format!(
            "state    blocked\n\
             detail   it asks what nobody answers: {dialog}\n\
             try      start Claude Code by hand and answer it once, then run again\n\
             watchdog stopped, Ns after the start; nothing heard for Ns\n\
             seen     record at Ns\n\
             {open}stopped  {dialog}\n"
        )
    }

    /// An MCP server with one tool, which asks back.
    const ASKING_SERVER: &str = r#"
        while read -r line; do
            id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
            case $line in
            *'"initialize"'*) answer='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"vault","version":"1"}}' ;;
            *'"tools/list"'*) answer='{"tools":[{"name":"open","description":"Opens it","inputSchema":{"type":"object","properties":{}}}]}' ;;
            *'"tools/call"'*)
                printf '%s\n' '{"jsonrpc":"2.0","id":900,"method":"elicitation/create","params":{"message":"The code, please","requestedSchema":{"type":"object","properties":{"code":{"type":"string"}}}}}'
                continue ;;
            *) continue ;;
            esac
            printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$answer"
        done
    "#;
}
