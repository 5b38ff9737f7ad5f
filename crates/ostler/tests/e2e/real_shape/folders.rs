//! Files land in `--cwd`, not where Ostler is started: for every agent, and for a user without privileges.

use super::RealShape;
use crate::player::Player;

const WRITES: &str = r#"
[[conversation]]
[[conversation.step]]
reply = [{ tool_by_role = "write_file", path = "made.txt", content = "made\n" }]
[[conversation.step]]
reply = [{ tool_by_role = "mcp:ostler/declare_complete", arguments = { summary = "Written." } }]
[[conversation.step]]
reply = [{ text = "Done." }]
"#;

/// The name of a directory that has to be quoted in a shell, and escaped in XML, in which Codex tells its own.
const AWKWARD: &str = "R&D <new> 'plan'";

fn lands_in_the_workspace(shape: &RealShape) {
    let ended = shape.run(&["--permissions", "edits", "Write it."], WRITES);
    assert_eq!(shape.names("caller"), [""; 0], "the directory that Ostler was started in");
    let made = std::fs::read_to_string(shape.workspace().join("made.txt"));
    assert_eq!(made.ok().as_deref(), Some("made\n"), "{:#?}", ended.lines);
    ended.ends("completed", 0);
    let shown = shape.ostler(&["runs", "show", "last"]).output().unwrap().stdout;
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("changes") && shown.contains("made.txt"), "{shown}");
    shape.is_empty();
}

/// Two tests for each agent.
macro_rules! for_every_agent {
    ($($name:ident: $player:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn works_in_cwd() {
                let Some(shape) = RealShape::of($player) else { return };
                lands_in_the_workspace(&shape.with_bridge().in_folder(AWKWARD));
            }

            #[test]
            fn works_in_cwd_for_a_user_without_privileges() {
                let Some(shape) = RealShape::unprivileged($player) else { return };
                lands_in_the_workspace(&shape.with_bridge());
            }
        }
    )*};
}

for_every_agent! {
    claude: Player::ClaudeStream;
    claude_on_a_terminal: Player::ClaudeTerminal;
    codex: Player::Codex;
    opencode: Player::OpenCode;
}
