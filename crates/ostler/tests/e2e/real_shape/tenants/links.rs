//! What a tenant puts into its home, the host does not follow: links in the place of all files that Ostler writes there, or
//! that a jail shows if they are the user's.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::{OWNERS_WORD, Tenancy, assert_lacks};
use crate::player::Player;

/// `TOP` is the directory of the test.
const PLANT: &str = r#"
exec > planted.txt 2>&1
plant() {
    mkdir -p "$(dirname "$HOME/$1")"
    rm -rf "$HOME/$1"
    ln -s "$2" "$HOME/$1" && echo "planted $1"
}
for path in .claude/settings.json .claude/.credentials.json .claude/CLAUDE.md .claude.json .codex/config.toml \
    .codex/auth.json .codex/AGENTS.md opencode.json .config/opencode/opencode.json .local/share/opencode/auth.json
do
    plant "$path" TOP/home/precious
done
for path in .claude/agents .claude/skills .codex/prompts .config/opencode/agent; do
    plant "$path" TOP/home
done
echo end of planting
"#;

/// Reads what was planted, and what it leads to.
const READ: &str = r#"
exec > found.txt 2>&1
cat TOP/home/precious
for path in .claude/settings.json .claude/.credentials.json .claude/CLAUDE.md .claude.json .codex/config.toml \
    .codex/auth.json .codex/AGENTS.md opencode.json .config/opencode/opencode.json .local/share/opencode/auth.json
do
    echo "$path: $(cat "$HOME/$path")"
done
for path in .claude/agents .claude/skills .codex/prompts .config/opencode/agent; do
    cat "$HOME/$path/precious"
    ls "$HOME/$path"
    echo written > "$HOME/$path/written"
done
echo written > TOP/home/precious
echo end of attempts
"#;

/// All files below the owner's home, with what is in them.
fn snapshot(home: &Path) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", "find . -type f -exec sha256sum {} + | sort -k 2"]).current_dir(home);
    let output = command.output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn plant_and_read(tenancy: Tenancy, engine: &str) {
    let shape = &tenancy.shape;
    let write = |name: &str, script: &str| {
        let script = script.replace("TOP", &shape.folder.path().display().to_string());
        fs::write(shape.workspace().join(name), script).unwrap();
    };
    write("plant.sh", PLANT);
    write("look-around.sh", READ);
    fs::write(shape.at("home/precious"), OWNERS_WORD).unwrap();
    shape.own(&shape.at("home"));
    let run = |tenancy: &Tenancy, text: &str| {
        let client = tenancy.served.client(&tenancy.keys[0]);
        let path = tenancy.open(client, engine);
        client.post(&format!("{path}/turns"), "", &json!({"text": text, "wait": true})).1
    };
    let done = run(&tenancy, "Plant links.");
    assert!(done.contains("Planted."), "{done}");
    let planted = fs::read_to_string(shape.workspace().join("planted.txt")).unwrap();
    assert!(planted.contains("planted .claude/agents") && planted.contains("end of planting"), "{planted}");
    let before = snapshot(&shape.at("home"));
    // An agent that lost its settings may fail. The next server writes them anew.
    let mut answers = run(&tenancy, "Look around.");
    let Tenancy { shape, tap, served, keys, owner, _provider } = tenancy;
    assert_eq!(served.interrupt(), Some(0));
    let served = shape.serve_again(&owner);
    let tenancy = Tenancy { shape, tap, served, keys, owner, _provider };
    let done = run(&tenancy, "Look around.");
    assert!(done.contains("Looked."), "{done}");
    answers += &done;
    let shape = &tenancy.shape;
    let text = fs::read_to_string(shape.workspace().join("found.txt")).unwrap();
    assert!(text.contains("end of attempts"), "{text}");
    assert_lacks(&text, &[OWNERS_WORD], "the script");
    assert_lacks(&answers, &[OWNERS_WORD], "the client");
    for asked in tenancy.tap.requests() {
        assert_lacks(&asked.body.to_string(), &[OWNERS_WORD], "the model");
    }
    assert_eq!(snapshot(&shape.at("home")), before, "the owner's home has changed");
    assert_eq!(tenancy.served.interrupt(), Some(0));
}

async fn no_link_is_followed(player: Player, engine: &'static str) {
    let Some(tenancy) = Tenancy::start(player, "edits").await else { return };
    tokio::task::spawn_blocking(move || plant_and_read(tenancy, engine)).await.unwrap();
}

#[tokio::test]
async fn claude_plants_links() {
    no_link_is_followed(Player::ClaudeStream, "stream").await;
}

#[tokio::test]
async fn claude_on_a_terminal_plants_links() {
    no_link_is_followed(Player::ClaudeTerminal, "terminal").await;
}

#[tokio::test]
async fn codex_plants_links() {
    no_link_is_followed(Player::Codex, "stream").await;
}

#[tokio::test]
async fn opencode_plants_links() {
    no_link_is_followed(Player::OpenCode, "stream").await;
}

/// A way to Ostler's own directory that has a link is the owner's, and is followed.
#[tokio::test]
async fn a_directory_of_ostlers_behind_a_link_serves_tenants() {
    let behind_a_link = |shape: crate::real_shape::RealShape| {
        fs::create_dir(shape.at("elsewhere")).unwrap();
        symlink(shape.at("elsewhere"), shape.at("ostler/serve")).unwrap();
        shape
    };
    let Some(tenancy) = Tenancy::with(Player::ClaudeTerminal, "edits", behind_a_link).await else { return };
    let exit = tokio::task::spawn_blocking(move || {
        let client = tenancy.served.client(&tenancy.keys[0]);
        let path = tenancy.open(client, "terminal");
        assert!(tenancy.ask(client, &path, "Remember slate-1.").contains("slate-1"));
        tenancy.served.interrupt()
    });
    assert_eq!(exit.await.unwrap(), Some(0));
}
