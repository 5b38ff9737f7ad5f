//! What Ostler and its guardian use while an agent waits for a model that says nothing.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::agent::{Model, Player};
use crate::process::{self, Used};

/// Begins to answer, and then thinks for longer than anybody looks.
const SCRIPT: &str = r#"
v = 1
[[conversation]]
[[conversation.step]]
reply = [{ text = "I was about to say" }, { stall = "mid_text" }]
"#;

/// After the last event the agent still sets itself up.
const SETTLED: Duration = Duration::from_secs(3);

pub(crate) fn measure(ostler: &Path, seconds: usize) {
    let model = Model::start(ostler, SCRIPT);
    println!("while the model says nothing, over {seconds} s");
    for player in Player::all(&model) {
        // A process group of its own would be no help: everything ends with it.
        let mut child = player.ostler(ostler).stdin(Stdio::null()).spawn().unwrap();
        let (ours, out) = (child.id(), BufReader::new(child.stdout.take().unwrap()));
        let mut lines = out.lines();
        let begun = lines.by_ref().map_while(Result::ok).any(|line| line.contains("\"event\":\"started\""));
        assert!(begun, "{} did not begin", player.agent.name());
        let drained = std::thread::spawn(move || lines.map_while(Result::ok).count());
        std::thread::sleep(SETTLED);
        let guardian = process::guardian(ours).unwrap();
        let agent = process::children(guardian).first().copied().unwrap_or(0);
        println!("{}", player.agent.name());
        let time = Duration::from_secs(seconds as u64);
        let who = [("ostler", ours), ("guardian", guardian), ("the agent itself", agent)];
        let before = who.map(|(_, pid)| process::used(pid));
        std::thread::sleep(time);
        for ((name, pid), before) in who.into_iter().zip(before) {
            println!("  {name}: {}", told(pid, before, time));
        }
        let both = (process::status(ours, "VmRSS") + process::status(guardian, "VmRSS")) as f64 / 1024.0;
        let shared = (process::proportional(ours) + process::proportional(guardian)) as f64 / 1024.0;
        println!("  ostler and guardian: {both:.1} MB, {shared:.1} MB with what they share counted once");
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        child.wait().unwrap();
        drained.join().unwrap();
    }
}

fn told(pid: u32, before: Used, time: Duration) -> String {
    let after = process::used(pid);
    let share = 100.0 * after.cpu.saturating_sub(before.cpu).as_secs_f64() / time.as_secs_f64();
    // A thread that ended meanwhile takes its own away.
    let wakes = after.switches.saturating_sub(before.switches) as f64 / time.as_secs_f64();
    let memory = process::status(pid, "VmRSS") as f64 / 1024.0;
    format!("{memory:.1} MB, {share:.2} % of a core, {wakes:.1} switches a second")
}
