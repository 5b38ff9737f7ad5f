//! What is wrong at the bridge, or with what was handed over there.

use super::ground::{DECLARES, ENDS, Ground, SUBMITS, WRITES};
use crate::player::Player;

/// The settings of Claude Code's MCP servers are in a file that an argument names.
fn changing_claudes_settings(how: &str) -> String {
    format!(
        r#"for word in "$@"; do
  case "$word" in --mcp-config=*) sed -i '{how}' "${{word#--mcp-config=}}";; esac
done
exec "$REAL" "$@""#
    )
}

/// Those of OpenCode are in a variable.
fn changing_opencodes_settings(how: &str) -> String {
    format!(
        r#"OPENCODE_CONFIG_CONTENT=$(printf %s "$OPENCODE_CONFIG_CONTENT" | sed '{how}')
export OPENCODE_CONFIG_CONTENT
exec "$REAL" "$@""#
    )
}

/// A port on which nobody listens.
const ELSEWHERE: &str = r"s#http://127\.0\.0\.1:[0-9]*/mcp#http://127.0.0.1:9/mcp#";
const ANOTHER_TOKEN: &str = r#"s#Bearer [^"]*#Bearer 0000#"#;

/// What depends on the bridge, and nothing else.
const NEEDS_BRIDGE: [&str; 3] = ["completion", "artifact", "channels"];

fn cannot_reach_the_bridge(player: Player, wrapper: &str) {
    let Some(ground) = Ground::wrapped(player, wrapper) else { return };
    let told = ground.smoke();
    told.breaks("FAIL", &NEEDS_BRIDGE);
    for fact in NEEDS_BRIDGE {
        told.says(fact, "the agent never came to the bridge");
    }
    assert_eq!(told.fact("completion")["grade"], "reported", "its word is all there is");
    assert_eq!(told.fact("tools")["grade"], "transcript", "its own tools worked");
    told.ended("incomplete", 11);
    assert!(told.only()["resumes"].as_u64() > Some(0), "{}", told.json);
    let kept = told.only()["kept"].as_str().unwrap();
    assert!(std::path::Path::new(kept).join("workspace/scratch/todo.js").is_file());
    let why = ground.asked(&["runs", "why", "last"]);
    assert!(why.contains("never connected"), "{why}");
}

#[test]
fn claude_cannot_reach_the_bridge() {
    cannot_reach_the_bridge(Player::ClaudeStream, &changing_claudes_settings(ELSEWHERE));
}

#[test]
fn opencode_cannot_reach_the_bridge() {
    cannot_reach_the_bridge(Player::OpenCode, &changing_opencodes_settings(ELSEWHERE));
}

/// Codex does not even begin without it, and says why: that is the first thing that is told.
#[test]
fn codex_cannot_reach_the_bridge() {
    let elsewhere = format!(
        r#"for word in "$@"; do
  shift
  set -- "$@" "$(printf %s "$word" | sed '{ELSEWHERE}')"
done
exec "$REAL" "$@""#
    );
    let Some(ground) = Ground::wrapped(Player::Codex, &elsewhere) else { return };
    let told = ground.smoke();
    assert_eq!((told.code, told.only()["verdict"].as_str()), (Some(20), Some("FAIL")), "{:#}", told.json);
    told.ended("agent_failed", 10);
    assert_eq!(told.only()["breaks"][0]["fact"], "no_crash");
    told.says("no_crash", "required MCP servers failed to initialize: ostler");
    for fact in NEEDS_BRIDGE {
        told.says(fact, "the agent never came to the bridge");
    }
}

fn has_a_wrong_token(player: Player, wrapper: &str) {
    let Some(ground) = Ground::wrapped(player, wrapper) else { return };
    let told = ground.smoke();
    told.breaks("FAIL", &NEEDS_BRIDGE);
    for fact in NEEDS_BRIDGE {
        told.says(fact, "was not let in: the token was missing or wrong");
    }
    told.ended("incomplete", 11);
}

#[test]
fn claude_has_a_wrong_token() {
    has_a_wrong_token(Player::ClaudeStream, &changing_claudes_settings(ANOTHER_TOKEN));
}

#[test]
fn opencode_has_a_wrong_token() {
    has_a_wrong_token(Player::OpenCode, &changing_opencodes_settings(ANOTHER_TOKEN));
}

/// All is handed over, and still the agent does not say that it is done.
fn never_declares(player: Player) {
    let Some(ground) = Ground::of(&[player]) else { return };
    let told = ground.plays(&[WRITES, SUBMITS, ENDS]);
    told.breaks("DEGRADED", &["completion"]);
    assert_eq!(told.only()["weakest"], "reported");
    told.says("completion", "it ended its turn as done, and no call of `declare_complete` was accepted");
    told.ended("incomplete", 11);
    assert!(told.only()["resumes"].as_u64() > Some(0), "{}", told.json);
    assert!(
        told.stderr.contains("is resumed: still missing: the call of `declare_complete`"),
        "{}",
        told.stderr
    );
}

#[test]
fn claude_never_declares() {
    never_declares(Player::ClaudeStream);
}

#[test]
fn codex_never_declares() {
    never_declares(Player::Codex);
}

#[test]
fn opencode_never_declares() {
    never_declares(Player::OpenCode);
}

/// Whatever it writes, it is not what the bridge recorded.
#[test]
fn completion_in_prose_is_none() {
    let Some(ground) = Ground::of(&[Player::ClaudeStream]) else { return };
    let claims = r#"
    [[conversation.step]]
    reply = [{ text = "I submitted the artifact `smoke_test_result` and called declare_complete.\nThe task is complete." }]
    "#;
    let told = ground.plays(&[WRITES, claims]);
    told.breaks("FAIL", &["completion", "artifact"]);
    told.says("completion", "no call of `declare_complete` was accepted");
    told.says("artifact", "nothing was handed over");
    told.ended("incomplete", 11);
}

/// Rejected with what is wrong, repaired in place, accepted: then all is well.
fn repairs_a_bad_heading(player: Player) {
    let Some(ground) = Ground::of(&[player]) else { return };
    let bad = SUBMITS.replace("# Smoke test result", "# Some result");
    let repairs = r##"
    [[conversation.step]]
    expect = { result_contains = "missing_heading" }
    reply = [{ tool_by_role = "mcp:ostler/edit_artifact", arguments = { type = "smoke_test_result", old = "# Some result", new = "# Smoke test result" } }]
    "##;
    let told = ground.plays(&[WRITES, &bad, repairs, DECLARES, ENDS]);
    told.is_green();
    assert!(told.stderr.contains("had smoke_test_result rejected"), "{}", told.stderr);
    // What is stored is, to the byte, what was handed over and repaired.
    let stored = std::fs::read_to_string(told.run(&ground).join("artifacts/smoke_test_result.md")).unwrap();
    let (_, text) = SUBMITS.split_once("content = \"\"\"\n").unwrap();
    assert_eq!(stored, text.split_once("\"\"\"").unwrap().0);
}

#[test]
fn claude_repairs_a_bad_heading() {
    repairs_a_bad_heading(Player::ClaudeStream);
}

#[test]
fn codex_repairs_a_bad_heading() {
    repairs_a_bad_heading(Player::Codex);
}

#[test]
fn opencode_repairs_a_bad_heading() {
    repairs_a_bad_heading(Player::OpenCode);
}

/// A draft that stays rejected is not handed over.
#[test]
fn a_draft_that_is_not_repaired_counts_for_nothing() {
    let Some(ground) = Ground::of(&[Player::ClaudeStream]) else { return };
    let bad = SUBMITS.replace("# Smoke test result", "# Some result");
    let told = ground.plays(&[WRITES, &bad, DECLARES, ENDS]);
    told.breaks("FAIL", &["completion", "artifact"]);
    told.says("artifact", "the newest draft was rejected: line 4 [missing_heading]");
    told.ended("incomplete", 11);
}

/// What an earlier run handed over lies in the place where this one's would be, and still this one has none.
#[test]
fn an_artifact_of_an_earlier_run_is_stale() {
    let Some(ground) = Ground::of(&[Player::ClaudeStream]) else { return };
    let earlier = ground.plays(&[WRITES, SUBMITS, DECLARES, ENDS]);
    earlier.is_green();
    let copies = format!(
        "cp '{}'/artifacts/*.md \"$HOME/../artifacts/\"\nexec \"$REAL\" \"$@\"",
        earlier.run(&ground).display()
    );
    ground.wrap(Player::ClaudeStream, &copies).unwrap();
    let told = ground.plays(&[WRITES, DECLARES, ENDS]);
    told.breaks("FAIL", &["completion", "artifact"]);
    told.says("artifact", "this run has no receipt for it: it is not of this run");
    assert_eq!(told.fact("artifact")["grade"], "workspace");
    told.ended("incomplete", 11);
}

/// One byte of the first receipt, while the agent runs. What the run remembers decides; what is on disk is not trusted.
#[test]
fn an_edited_receipt_breaks_the_chain_and_nothing_else() {
    let edits = r#"printf 9 | dd of="$HOME/../receipts.ndjson" bs=1 seek=24 conv=notrunc 2>/dev/null
exec "$REAL" "$@""#;
    let Some(ground) = Ground::wrapped(Player::ClaudeStream, edits) else { return };
    let told = ground.smoke();
    told.breaks("FAIL", &["receipts"]);
    told.says("receipts", "the chain of receipts is broken at line 1");
    told.ended("completed", 0);
    assert!(ground.asked(&["runs", "show", "last"]).contains("BROKEN: the chain of receipts is broken"));
}
