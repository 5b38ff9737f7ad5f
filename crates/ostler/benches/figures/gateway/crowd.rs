//! The gateway's own speed, with an agent that does nothing.

use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::door::{Door, Visitor, said};
use super::null::NULL;
use crate::process;

/// How many ask at once: no more than sessions that may wait at the same time.
const CROWDS: [usize; 4] = [1, 2, 4, 8];

/// How many turns each has.
const TURNS: usize = 100;

/// How long a list is asked for.
const ASKED_FOR: Duration = Duration::from_secs(3);

/// How many sessions are idle at once.
const MANY: usize = 200;

/// How long idle sessions are looked at.
const LOOKED_AT: Duration = Duration::from_secs(20);

pub(crate) fn measure(ostler: &Path) {
    let folder = tempfile::Builder::new().prefix("ostler-figures-").tempdir().unwrap();
    let door = Door::open(served(ostler, &folder.path().join("few"), ""), &[]);
    lists(&door);
    for crowd in CROWDS {
        turns(&door, crowd);
    }
    drop(door);
    let wide = format!("[serve]\nmax_idle = {MANY}\nmax_memory_mb = 65536\n");
    let many = served(ostler, &folder.path().join("many"), &wide);
    idle(&Door::open(many, &["--max-sessions", &MANY.to_string()]));
}

/// Ostler with an agent that does nothing, and a home of its own: the key is told once, when it is made.
fn served(ostler: &Path, home: &Path, more: &str) -> Command {
    std::fs::create_dir(home).unwrap();
    let null = std::env::current_exe().unwrap();
    let config = format!("{more}[agents.claude]\nprogram = {:?}\n", null.display().to_string());
    std::fs::write(home.join("config.toml"), config).unwrap();
    let mut command = Command::new(ostler);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home).env("OSTLER_HOME", home);
    command.env(NULL, "1").current_dir(home);
    command
}

fn lists(door: &Door) {
    for crowd in [1, 16] {
        let before = process::used(door.pid()).cpu;
        let (count, took) = side_by_side(crowd, |_, ready| {
            let mut visitor = door.visitor();
            ready.wait();
            let (until, mut count) = (Instant::now() + ASKED_FOR, 0);
            while Instant::now() < until {
                assert_eq!(visitor.get("/v1/models").0, 200);
                count += 1;
            }
            count
        });
        let used = process::used(door.pid()).cpu.saturating_sub(before);
        println!(
            "/v1/models, {crowd} at once: {:.0} answers/s, {:.3} ms of the gateway's processor each",
            count as f64 / took.as_secs_f64(),
            used.as_secs_f64() * 1_000.0 / count as f64,
        );
    }
}

/// Runs so many threads, which begin together. The sum of what they return, and how long it took.
fn side_by_side(crowd: usize, work: impl Fn(usize, &Barrier) -> usize + Sync) -> (usize, Duration) {
    let ready = Barrier::new(crowd + 1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..crowd)
            .map(|number| {
                scope.spawn({
                    let (work, ready) = (&work, &ready);
                    move || work(number, ready)
                })
            })
            .collect();
        ready.wait();
        let began = Instant::now();
        let sum = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        (sum, began.elapsed())
    })
}

/// Warm turns: the first of each, which starts a process, is before the count.
fn turns(door: &Door, crowd: usize) {
    let before = process::used(door.pid());
    let (count, took) = side_by_side(crowd, |number, ready| {
        let mut visitor: Visitor = door.visitor();
        let mut talk = vec![said("user", &format!("{crowd} {number}"))];
        let answer = visitor.ask(&talk);
        talk.push(said("assistant", &answer.text));
        ready.wait();
        for turn in 0..TURNS {
            talk.push(said("user", &turn.to_string()));
            let answer = visitor.ask(&talk);
            talk.push(said("assistant", &answer.text));
        }
        TURNS
    });
    let used = process::used(door.pid()).cpu.saturating_sub(before.cpu);
    println!(
        "{TURNS} turns of an agent that does nothing, {crowd} at once: {:.0} turns/s, {:.2} ms of the gateway's \
         processor each",
        count as f64 / took.as_secs_f64(),
        used.as_secs_f64() * 1_000.0 / count as f64,
    );
}

/// What sessions that wait take of the gateway.
fn idle(door: &Door) {
    let mut begun = 0;
    let mut begin = |count: usize| {
        for _ in 0..count {
            begun += 1;
            door.visitor().ask(&[said("user", &format!("idle {begun}"))]);
        }
        std::thread::sleep(Duration::from_secs(1));
        process::status(door.pid(), "VmRSS")
    };
    let (one, many) = (begin(1), begin(MANY - 1));
    let before = process::used(door.pid()).cpu;
    std::thread::sleep(LOOKED_AT);
    let used = process::used(door.pid()).cpu.saturating_sub(before).as_secs_f64();
    let guardians: u64 = process::children(door.pid()).into_iter().map(process::proportional).sum();
    println!(
        "{MANY} idle sessions, for each: {:.0} kB from the first to the last, {:.4} % of a core over {} s; \
         its guardian {} kB",
        many.saturating_sub(one) as f64 / (MANY - 1) as f64,
        100.0 * used / LOOKED_AT.as_secs_f64() / MANY as f64,
        LOOKED_AT.as_secs(),
        guardians / MANY as u64,
    );
}
