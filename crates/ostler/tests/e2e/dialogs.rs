//! Dialogs of the real terminal program, of two versions, met for real and answered as policy says.
//!
//! A run prevents them: the program is started behind one that takes back what prevents them.

use crate::for_every_version;
use crate::player::Player;
use crate::yard::{Ended, Yard};

/// Takes back the trust, the key that was approved, the settings with their hook, and what is allowed from the start.
const BARE: &str = r#"
unset CLAUDE_CODE_SANDBOXED
if [ -n "$CLAUDE_CONFIG_DIR" ]; then
    printf '{"hasCompletedOnboarding":true}' > "$CLAUDE_CONFIG_DIR/.claude.json"
fi
for word do
    shift
    case $word in
        --settings=* | --allowedTools=*) continue ;;
        bypassPermissions) word=${OSTLER_E2E_MODE:-bypassPermissions} ;;
    esac
    set -- "$@" "$word"
done
"#;

const SERVERS: &str = r#"{"mcpServers": {"lab": {"command": "false"}}}"#;

/// A command, a file, two questions, and completion.
const ASKS: &str = r#"
[[conversation]]
[[conversation.step]]
reply = [{ tool_by_role = "shell", command = "touch by-command.txt" }]
[[conversation.step]]
reply = [{ tool_by_role = "write_file", path = "by-tool.txt", content = "written" }]
[[conversation.step]]
reply = [{ tool = "AskUserQuestion", arguments = { questions = [
    { question = "Which colour?", header = "Colour", multiSelect = false, options = [{ label = "Red", description = "the red one" }, { label = "Blue", description = "the blue one" }] },
    { question = "Which sizes?", header = "Sizes", multiSelect = true, options = [{ label = "Small", description = "the small one" }, { label = "Large", description = "the large one" }] },
] } }]
[[conversation.step]]
when = { offered = "mcp:ostler/declare_complete" }
reply = [{ tool_by_role = "mcp:ostler/declare_complete", arguments = { summary = "Asked." } }]
[[conversation.step]]
reply = [{ text = "It was said: {{tool_result}}" }]
"#;

const PLANS: &str = r#"
[[conversation]]
[[conversation.step]]
reply = [{ tool = "ExitPlanMode", arguments = { plan = "1. do it" } }]
[[conversation.step]]
reply = [{ text = "It was said: {{tool_result}}" }]
"#;

/// The words for the dialogs that were answered, in order, each once if it came in several parts.
fn answered(ended: &Ended) -> Vec<String> {
    let noted = ended.with("event", "noted").filter_map(|line| line["text"].as_str());
    let mut kinds: Vec<String> = noted
        .filter_map(|text| text.strip_prefix("answered as policy says (")?.split_once(')'))
        .map(|(kind, _)| kind.to_owned())
        .collect();
    kinds.dedup();
    kinds
}

fn yard(player: Player, size: &str) -> Option<Yard> {
    let yard = Yard::behind(player, BARE)?;
    yard.configure_also(&format!("[run]\nterminal_size = {size:?}\n"));
    Some(yard)
}

for_every_version!(
    all_is_allowed_at_80x24,
    all_is_allowed_at_200x60,
    all_is_allowed_at_40x12,
    what_may_not_be_done_is_told,
    a_plan_is_approved,
    a_warning_is_accepted_or_stops_the_run,
);

fn all_is_allowed_at_80x24(player: Player) {
    all_is_allowed(player, "80x24");
}

fn all_is_allowed_at_200x60(player: Player) {
    all_is_allowed(player, "200x60");
}

fn all_is_allowed_at_40x12(player: Player) {
    all_is_allowed(player, "40x12");
}

/// Dialogs of the start, and of each kind of tool.
fn all_is_allowed(player: Player, size: &str) {
    let Some(yard) = yard(player, size) else { return };
    let yard = yard.with_bridge();
    let script = yard.script(ASKS);
    let ended =
        yard.run(&[&script, "--permissions", "all", "--env", "OSTLER_E2E_MODE=default", "Ask for all."]);
    ended.ends("completed", 0);
    let asked = ["trust", "api_key", "permission", "question", "review", "permission"];
    assert_eq!(answered(&ended), asked, "{:#?}", ended.lines);
    for file in ["by-command.txt", "by-tool.txt"] {
        assert!(yard.workspace().join(file).is_file(), "{file}");
    }
    yard.is_empty();
}

/// The turn goes on. The project names a server: it is not trusted, so the program neither starts nor offers it.
fn what_may_not_be_done_is_told(player: Player) {
    for size in ["40x12", "80x24", "200x60"] {
        let Some(yard) = yard(player, size) else { return };
        std::fs::write(yard.workspace().join(".mcp.json"), SERVERS).unwrap();
        let script = yard.script(ASKS);
        let ended = yard.run(&[&script, "--permissions", "deny", "Ask for all."]);
        ended.ends("completed", 0);
        let mut asked = answered(&ended);
        // Which of them comes first is not the same in both versions.
        asked[..2].sort();
        let wanted = ["api_key", "trust", "permission", "question", "review"];
        assert_eq!(asked, wanted, "{size}: {:#?}", ended.lines);
        let results: Vec<_> =
            ended.with("event", "tool_ended").filter_map(|line| line["result"]["text"].as_str()).collect();
        let told = |words: &str| results.iter().filter(|text| text.contains(words)).count();
        assert_eq!(told("this run may only read; go on without it"), 2, "{results:#?}");
        assert_eq!(told("nobody is there to answer"), 1, "{results:#?}");
        for file in ["by-command.txt", "by-tool.txt"] {
            assert!(!yard.workspace().join(file).exists(), "{file}");
        }
        yard.is_empty();
    }
}

fn a_plan_is_approved(player: Player) {
    let Some(yard) = yard(player, "40x12") else { return };
    let script = yard.script(PLANS);
    let ended = yard.run(&[&script, "--permissions", "all", "--env", "OSTLER_E2E_MODE=plan", "Make a plan."]);
    ended.ends("completed", 0);
    assert_eq!(answered(&ended), ["trust", "api_key", "plan"], "{:#?}", ended.lines);
    yard.is_empty();
}

fn a_warning_is_accepted_or_stops_the_run(player: Player) {
    let Some(yard) = yard(player, "80x24") else { return };
    let ended = yard.run(&["--rehearse=hello", "--permissions", "all", "Say hello."]);
    ended.ends("completed", 0);
    assert_eq!(answered(&ended), ["trust", "api_key", "bypass"], "{:#?}", ended.lines);

    // As root the program refuses the flag, unless it is told that the machine is a sandbox.
    let flags = ["--agent-arg=--dangerously-skip-permissions", "--env", "IS_SANDBOX=1"];
    let args = [&["--rehearse=hello", "--permissions", "deny"], &flags[..], &["Say hello."]].concat();
    let ended = yard.run(&args);
    ended.ends("blocked", 15);
    let screen = ended.lines.iter().find(|line| line["kind"] == "screen").unwrap();
    assert!(screen["text"].as_str().unwrap().contains("Yes, I accept"), "{screen}");
    yard.is_empty();
}
