//! Many who leave in the middle of an answer of the real agent, at moments that are spread over a turn.

use std::path::Path;
use std::time::Duration;

use super::door::{Door, said};
use crate::agent::Player;
use crate::process;

/// A warm turn takes about so long: who leaves leaves within it, or just after.
const SPREAD_MS: u64 = 40;

/// What was left last needs a moment to be gone.
const SETTLED: Duration = Duration::from_secs(3);

pub(crate) fn measure(ostler: &Path, player: &Player, count: usize) {
    let door = Door::open(super::served(ostler, player, "leaving"), &["--max-sessions", "4"]);
    let mut talk = vec![said("user", "hello")];
    let greeting = door.visitor().ask(&talk).text;
    talk.push(said("assistant", &greeting));
    let (files, _) = door.files_and_zombies();
    let memory = process::status(door.pid(), "VmRSS");
    let (mut chance, mut heard_something) = (6_u64, 0);
    for number in 0..count {
        // Knuth's MMIX constants; the upper bits are the better ones.
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let after = Duration::from_micros((chance >> 33) % (SPREAD_MS * 1_000));
        talk.push(said("user", &format!("leave number {number}, after a few words that it takes to say")));
        let heard = door.visitor().leave(&talk, after);
        heard_something += usize::from(!heard.is_empty());
        // Who left before a word was said leaves a session that nobody can go on with: the next one is left while it
        // starts, and the one after that has a session again.
        talk.truncate(talk.len() - 1);
        if number % 2 == 1 {
            talk.truncate(1);
            let greeting = door.visitor().ask(&talk).text;
            talk.push(said("assistant", &greeting));
        }
    }
    let answered = door.visitor().ask(&[said("user", "still there")]).text;
    assert_eq!(answered, "still there");
    std::thread::sleep(SETTLED);
    let (files_after, zombies) = door.files_and_zombies();
    let grown = process::status(door.pid(), "VmRSS").saturating_sub(memory);
    let agents = process::marked(&player.root().display().to_string());
    println!(
        "{count} who left, {heard_something} of them in the middle of a text: {zombies} zombies, {files} open files before \
         with one session and {files_after} after with up to four, {grown} kB more, {agents} processes"
    );
    drop(door);
    let left = process::marked(&player.root().display().to_string());
    println!("  after the server ended: {left} processes");
}
