//! The real agents against the scripted model: real binaries, a clean environment, a private home, loopback only.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may say that it cannot go on")]

#[cfg(target_os = "linux")]
mod argv;
#[cfg(target_os = "linux")]
mod attach;
#[cfg(target_os = "linux")]
mod bare;
mod behaviours;
#[cfg(target_os = "linux")]
mod bridge;
#[cfg(target_os = "linux")]
mod budgets;
mod by_hand;
#[cfg(target_os = "linux")]
mod checks;
#[cfg(target_os = "linux")]
mod commands;
#[cfg(target_os = "linux")]
mod conversing;
#[cfg(target_os = "linux")]
mod dialogs;
#[cfg(target_os = "linux")]
mod hangs;
#[cfg(target_os = "linux")]
mod held;
#[cfg(target_os = "linux")]
#[path = "../suite/home_fixture.rs"]
mod home_fixture;
#[cfg(target_os = "linux")]
mod hook;
#[cfg(target_os = "linux")]
mod in_turns;
#[cfg(target_os = "linux")]
mod injection;
#[cfg(target_os = "linux")]
mod libraries;
#[cfg(target_os = "linux")]
mod memory;
mod native;
#[cfg(target_os = "linux")]
mod offline;
#[cfg(target_os = "linux")]
mod old_home;
#[cfg(target_os = "linux")]
mod one_shot;
#[cfg(target_os = "linux")]
mod outages;
#[cfg(target_os = "linux")]
mod own_reason;
#[cfg(target_os = "linux")]
mod parking;
#[cfg(target_os = "linux")]
mod permissions;
mod player;
#[cfg(target_os = "linux")]
mod pool;
#[cfg(target_os = "linux")]
mod real_shape;
mod refused;
#[cfg(target_os = "linux")]
mod resume;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod saying;
#[cfg(target_os = "linux")]
mod scene;
#[cfg(target_os = "linux")]
#[path = "../suite/screen.rs"]
mod screen;
mod scripts;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod sharing;
#[cfg(target_os = "linux")]
mod slow_answers;
#[cfg(target_os = "linux")]
mod smoke;
mod stage;
mod sweep;
#[cfg(target_os = "linux")]
mod taking_over;
#[cfg(target_os = "linux")]
mod tap;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(target_os = "linux")]
mod terminal_pool;
#[cfg(target_os = "linux")]
mod tools;
#[cfg(target_os = "linux")]
mod yard;

/// One test for each way to play an agent, named after it.
macro_rules! for_every_player {
    ($($(#[$note:meta])* async fn $name:ident($player:ident: Player) $body:block)*) => {$(
        $(#[$note])*
        mod $name {
            use super::*;

            async fn play($player: Player) $body

            #[tokio::test]
            async fn claude_one_shot() {
                play(Player::ClaudeOneShot).await;
            }
            #[tokio::test]
            async fn claude_stream() {
                play(Player::ClaudeStream).await;
            }
            #[tokio::test]
            async fn codex() {
                play(Player::Codex).await;
            }
            #[tokio::test]
            async fn opencode() {
                play(Player::OpenCode).await;
            }
        }
    )*};
}
pub(crate) use for_every_player;

/// One test for each agent over pipes, in a module that is named after the function it calls.
#[cfg(target_os = "linux")]
macro_rules! for_every_agent {
    ($($name:ident),* $(,)?) => {$(
        mod $name {
            use crate::player::Player;

            #[test]
            fn claude() {
                super::$name(Player::ClaudeStream);
            }
            #[test]
            fn codex() {
                super::$name(Player::Codex);
            }
            #[test]
            fn opencode() {
                super::$name(Player::OpenCode);
            }
        }
    )*};
}
#[cfg(target_os = "linux")]
pub(crate) use for_every_agent;

/// One test for each version of a terminal program, in a module that is named after the function it calls; after `async:`,
/// of functions that are.
#[cfg(target_os = "linux")]
macro_rules! for_every_version {
    (async: $($name:ident),* $(,)?) => {$(
        mod $name {
            use crate::player::Player;

            #[tokio::test]
            async fn pinned() {
                super::$name(Player::ClaudeTerminal).await;
            }
            #[tokio::test]
            async fn newer() {
                super::$name(Player::ClaudeTerminalNewer).await;
            }
        }
    )*};
    ($($name:ident),* $(,)?) => {$(
        mod $name {
            use crate::player::Player;

            #[test]
            fn pinned() {
                super::$name(Player::ClaudeTerminal);
            }
            #[test]
            fn newer() {
                super::$name(Player::ClaudeTerminalNewer);
            }
        }
    )*};
}
#[cfg(target_os = "linux")]
pub(crate) use for_every_version;
