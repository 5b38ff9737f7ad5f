//! Real agents whose claim is tried: one that does not hold is taken back, and they are told why.

use crate::player::Player;
use crate::yard::Yard;

/// Claims at once; told that the check failed and how, does it, and claims again.
const CLAIMS_TOO_EARLY: &str = r#"
[[conversation]]
[[conversation.step]]
expect = { contains = "what was then checked is not so" }
reply = [{ tool_by_role = "shell", command = "echo quiet > noise.txt" }]
[[conversation.step]]
reply = [{ tool_by_role = "mcp:ostler/declare_complete", arguments = { summary = "Quiet now." } }]
[[conversation.step]]
reply = [{ text = "Now it is." }]

[[conversation]]
[[conversation.step]]
reply = [{ tool_by_role = "mcp:ostler/declare_complete", arguments = { summary = "Quiet." } }]
[[conversation.step]]
reply = [{ text = "It is done." }]
"#;

fn a_claim_that_does_not_hold_is_taken_back(player: Player) {
    let Some(yard) = Yard::bridged(player) else { return };
    let script = yard.script(CLAIMS_TOO_EARLY);
    let check = "grep quiet noise.txt || { echo it is loud; exit 3; }";
    let ended = yard.run(&[&script, "--permissions", "all", "--check", check, "Be quiet."]);
    ended.ends("completed", 0);
    let outcome = ended.outcome();
    assert_eq!((&outcome["resumes"], &outcome["survivors"]), (&1.into(), &0.into()));
    assert_eq!(outcome["evidence"][0]["grade"], "checked");
    assert_eq!(outcome["evidence"][1]["grade"], "wire");
    let tried: Vec<(Option<i64>, &str)> = ended
        .with("kind", "check")
        .filter(|line| line["state"] == "ended")
        .map(|line| (line["exit_code"].as_i64(), line["tail"].as_str().unwrap()))
        .collect();
    let loud = tried[0].1;
    // What it prints on its two outputs comes in any order.
    assert!(loud.contains("it is loud\n"), "{loud}");
    assert_eq!((tried.len(), tried[0].0, tried[1]), (2, Some(3), (Some(0), "quiet\n")));
    let resumed = ended.with("kind", "resumed").next().unwrap()["reason"].as_str().unwrap();
    assert!(resumed.contains("exited with code 3"), "{resumed}");
    yard.is_empty();
}

mod a_claim_is_tried {
    use super::*;

    #[test]
    fn claude() {
        a_claim_that_does_not_hold_is_taken_back(Player::ClaudeStream);
    }

    #[test]
    fn codex() {
        a_claim_that_does_not_hold_is_taken_back(Player::Codex);
    }

    #[test]
    fn opencode() {
        a_claim_that_does_not_hold_is_taken_back(Player::OpenCode);
    }
}

/// A claim alone is no progress: who only repeats it is not asked for ever.
#[test]
fn a_claim_that_is_only_repeated_ends_the_run() {
    let Some(yard) = Yard::bridged(Player::Codex) else { return };
    let script = yard.script(
        r#"
[[conversation]]
[[conversation.step]]
reply = [{ tool_by_role = "mcp:ostler/declare_complete", arguments = { summary = "Done." } }]
[[conversation.step]]
reply = [{ text = "Done." }]
"#,
    );
    let ended = yard.run(&[&script, "--max-resumes", "6", "--check", "exit 1", "Do it."]);
    ended.ends("incomplete", 11);
    assert_eq!(ended.outcome()["resumes"], 2);
}
