//! What the gateway costs: the agent behind `ostler serve`, against the same agent kept running by itself.

mod bare;
mod crowd;
mod door;
mod leaving;
pub(crate) mod null;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ostler_agent::agents::Claude;

use crate::agent::{Model, Player};
use crate::sums::{Times, ms};
use bare::Bare;
use door::{Door, Heard, said};

/// Says back what it is asked, in a few pieces.
const SCRIPT: &str =
    "v = 1\n[[conversation]]\n[[conversation.step]]\nreply = [{ text = \"{{prompt}}\", chunk = 8 }]";

/// Turns that are not counted: both sides grow warm.
const WARMING: usize = 5;

/// How often a session is started from nothing, on each side.
const COLD: usize = 10;

/// How long a program may take until it listens.
const SETTLED: Duration = Duration::from_secs(3);

/// How long a spare may take to be there.
const SPARE_WITHIN: Duration = Duration::from_secs(30);

pub(crate) fn measure(ostler: &Path, turns: usize) {
    let model = Model::start(ostler, SCRIPT);
    let player = (turns > 0).then(|| Player::of(&Claude, &model)).flatten();
    if let Some(player) = player {
        warm(ostler, &player, turns);
        cold(ostler, &model, &player);
        leaving::measure(ostler, &player, 5 * turns);
    }
    crowd::measure(ostler);
}

/// Ostler with that agent, and an environment in which it talks to the scripted model. Each has a home of its own: the
/// key is told once, when it is made.
fn served(ostler: &Path, player: &Player, home: &str) -> Command {
    let mut command = Command::new(ostler);
    let (env, home) = (player.launched().1, player.root().join(home));
    std::fs::create_dir(&home).unwrap();
    std::fs::copy(player.root().join("ostler/config.toml"), home.join("config.toml")).unwrap();
    command.env_clear().envs(env).env("OSTLER_HOME", home);
    command.current_dir(player.root().join("workspace"));
    command
}

/// One conversation on each side, turn by turn.
fn warm(ostler: &Path, player: &Player, turns: usize) {
    let mut bare = Bare::start(player);
    let door = Door::open(served(ostler, player, "warm"), &[]);
    let (mut visitor, mut talk) = (door.visitor(), Vec::new());
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for number in 0..WARMING + turns {
        let prompt = format!("turn number {number} of a conversation");
        let one = bare.ask(&prompt);
        talk.push(said("user", &prompt));
        let other = visitor.ask(&talk);
        talk.push(said("assistant", &other.text));
        assert_eq!(one.text, other.text);
        if number >= WARMING {
            theirs.push(one);
            ours.push(other);
        }
    }
    tell("a warm turn", &theirs, &ours, |heard| heard.whole);
    tell("its first word", &theirs, &ours, |heard| heard.first);
}

fn tell(what: &str, theirs: &[Heard], ours: &[Heard], time: fn(&Heard) -> Duration) {
    let times = |heard: &[Heard]| Times::of(heard.iter().map(time).map(ms));
    // Neighbours in time, so that what disturbs the machine disturbs both.
    let added = Times::of(theirs.iter().zip(ours).map(|(one, other)| ms(time(other)) - ms(time(one))));
    let (theirs, ours) = (times(theirs), times(ours));
    println!(
        "{what}: bare {:.1} ms, p99 {:.1}, least {:.1}; through the gateway {:.1} ms, p99 {:.1}, least {:.1}; \
         added {:+.2} ms at p50, {:+.2} at p99, {:+.2} in pairs",
        theirs.median(),
        theirs.p99(),
        theirs.least(),
        ours.median(),
        ours.p99(),
        ours.least(),
        ours.median() - theirs.median(),
        ours.p99() - theirs.p99(),
        added.median(),
    );
}

/// From nothing: a process is started, and asked. Then with one that was started ahead.
fn cold(ostler: &Path, model: &Model, player: &Player) {
    // Room for all of them: else each would first wait for the one before to end.
    let door = Door::open(served(ostler, player, "cold"), &["--max-sessions", "16"]);
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for number in 0..COLD {
        let prompt = format!("a beginning, number {number}");
        let began = Instant::now();
        let mut bare = Bare::start(player);
        bare.ask(&prompt);
        theirs.push(ms(began.elapsed()));
        drop(bare);
        let began = Instant::now();
        door.visitor().ask(&[said("user", &prompt)]);
        ours.push(ms(began.elapsed()));
    }
    drop(door);
    let (theirs, ours) = (Times::of(theirs), Times::of(ours));
    println!(
        "a cold turn, {COLD} pairs: bare {:.0} ms, least {:.0}; through the gateway {:.0} ms, least {:.0}",
        theirs.median(),
        theirs.least(),
        ours.median(),
        ours.least(),
    );
    let Some(player) = Player::of(&Claude, model) else { return };
    let (mut found, mut bare) = (Vec::new(), Vec::new());
    for number in 0..COLD {
        // The first turn of a process that waits takes longer than later ones: that is what a spare can do at best.
        let mut waiting = Bare::start(&player);
        std::thread::sleep(SETTLED);
        bare.push(waiting.ask("a beginning with a spare"));
        drop(waiting);
        let command = served(ostler, &player, &format!("spare-{number}"));
        let door = Door::open(command, &["--spares", "1"]);
        let (mut visitor, until) = (door.visitor(), Instant::now() + SPARE_WITHIN);
        while !visitor.get("/metrics").1.contains("ostler_sessions{state=\"spare\"} 1") {
            assert!(Instant::now() < until, "no spare is there");
            std::thread::sleep(Duration::from_millis(20));
        }
        // It is there; the program itself still needs a moment until it listens.
        std::thread::sleep(SETTLED);
        found.push(visitor.ask(&[said("user", "a beginning with a spare")]));
    }
    let whole = Times::of(found.iter().map(|heard| ms(heard.whole)));
    let bare = Times::of(bare.iter().map(|heard| ms(heard.whole)));
    println!(
        "with a spare, {COLD} times: {:.0} ms, least {:.0}; the bare agent, started as long before: {:.0} ms, least {:.0}",
        whole.median(),
        whole.least(),
        bare.median(),
        bare.least()
    );
}
