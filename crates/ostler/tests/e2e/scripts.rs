//! Every built-in script, played by every real agent.

use std::time::Duration;

use ostler_rehearsal::log::Played;
use ostler_rehearsal::script::BUILTIN;

use crate::player::Player;
use crate::stage::Stage;

/// How long a stalled agent is watched. It has nothing to do that would take longer.
const STALLED: Duration = Duration::from_secs(3);

async fn hello(player: Player) {
    let Some(stage) = Stage::with_builtin(player, "hello").await else { return };
    let (said, _) = stage.play_well("Hello?", None).await;
    assert_eq!(
        said,
        ["Hello! This is a rehearsal: I am a scripted model, and nothing was sent to a provider."]
    );
    stage.strike().await;
}

async fn echo(player: Player) {
    let Some(stage) = Stage::with_builtin(player, "echo").await else { return };
    let prompt = "One line,\n  and another: \"quoted\", {{braces}}, 世界.";
    let (said, _) = stage.play_well(prompt, None).await;
    assert_eq!(said, [prompt]);
    stage.strike().await;
}

async fn todo(player: Player) {
    let Some(stage) = Stage::with_builtin(player, "todo").await else { return };
    let (said, _) = stage.play_well("Write a tiny todo list", None).await;
    assert!(said.last().unwrap().starts_with("todo.html is ready"), "{said:?}");
    assert!(stage.file("todo.js").starts_with("// A list of things to do."));
    assert!(stage.file("todo.html").ends_with("  draw();\n</script>\n"));
    let read = stage.requests().last().unwrap().last_message.clone().unwrap();
    assert!(read.contains("<!doctype html>"), "{read}");
    stage.strike().await;
}

async fn tools(player: Player) {
    let Some(stage) = Stage::with_builtin(player, "tools").await else { return };
    let (said, _) = stage.play_well("Use your tools", None).await;
    assert_eq!(said, ["I will look around first.", "I wrote rehearsal.txt and read it back."]);
    // The same for every agent, to the byte.
    assert_eq!(stage.file("rehearsal.txt"), "Written in a rehearsal.\n");
    stage.strike().await;
}

async fn long(player: Player) {
    let Some(stage) = Stage::with_builtin(player, "long").await else { return };
    let (said, _) = stage.play_well("Go on for long", None).await;
    assert_eq!(said, ["Two hundred rounds, all done."]);
    assert_eq!(stage.requests().len(), 201);
    stage.strike().await;
}

async fn flaky(player: Player) {
    let Some(stage) = Stage::with_builtin(player, "flaky").await else { return };
    let (said, _) = stage.play_well("Hold on", None).await;
    assert_eq!(said.last().map(String::as_str), Some("All is well after all."));
    let statuses: Vec<_> = stage.requests().iter().map(|entry| entry.status).collect();
    assert_eq!(statuses, [429, 500, 200, 200]);
    stage.strike().await;
}

async fn stall(player: Player) {
    let Some(stage) = Stage::with_builtin(player, "stall").await else { return };
    let mut child = stage.start("Say something", None).await;
    stage.asked().await;
    assert!(
        tokio::time::timeout(STALLED, child.wait()).await.is_err(),
        "{player:?} ended while the model stalled"
    );
    child.kill().await.unwrap();
    stage.strike().await;
}

async fn chatty(player: Player) {
    let Some(stage) = Stage::with_builtin(player, "chatty").await else { return };
    let (said, _) = stage.play_well("Talk", None).await;
    let length: usize = said.iter().map(String::len).sum();
    assert_eq!(length, 63 * 166_440 + "That was a lot.".len());
    stage.strike().await;
}

async fn compact(player: Player) {
    let Some(stage) = Stage::with_builtin(player, "compact").await else { return };
    let (said, _) = stage.play_well("Fill it up", None).await;
    assert_eq!(said.last().map(String::as_str), Some("I went on after the summary."));
    let requests = stage.requests();
    let summaries = requests.iter().filter(|entry| entry.played == Played::Side { request: "summary" });
    assert_eq!(summaries.count(), 1, "{requests:#?}");
    stage.strike().await;
}

/// Without a bridge: what needs one is left out, or told to be impossible.
async fn smoke(player: Player) {
    let Some(stage) = Stage::with_builtin(player, "smoke").await else { return };
    let (said, _) = stage.play_well("Write the todo list", None).await;
    assert!(said.last().unwrap().starts_with("The todo list is in scratch/todo.js."), "{said:?}");
    assert!(stage.file("scratch/todo.js").ends_with("module.exports = { add, toggle, remove, left };\n"));
    stage.strike().await;
}

macro_rules! every_script_by_every_agent {
    ($($name:ident)*) => {
        $(mod $name {
            use crate::player::Player;

            #[tokio::test]
            async fn claude() {
                super::$name(Player::ClaudeStream).await;
            }
            #[tokio::test]
            async fn codex() {
                super::$name(Player::Codex).await;
            }
            #[tokio::test]
            async fn opencode() {
                super::$name(Player::OpenCode).await;
            }
        })*

        #[test]
        fn no_script_is_left_out() {
            let played = [$(stringify!($name)),*];
            let all: Vec<_> = BUILTIN.iter().map(|script| script.name).collect();
            assert_eq!(played, all[..]);
        }
    };
}

every_script_by_every_agent!(hello echo todo tools long flaky stall chatty compact smoke);
