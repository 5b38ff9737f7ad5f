//! Another process that owns runs, so that it can be killed or counted: this very test binary, started for one test.

use std::io::{BufRead as _, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use ostler_process::contain::{Contained, Survivors, Tier};

use super::watched::Watched;
use super::yard;

/// What this process is to do if it is the other one: `hold` or `count`.
const PART: &str = "OSTLER_TEST_OWNER";
const SCRIPT: &str = "OSTLER_TEST_SCRIPT";
const RUN: &str = "OSTLER_TEST_RUN";
const TIER: &str = "OSTLER_TEST_TIER";

/// Starts before anything is counted: some descriptors are opened once and kept.
const WARM_UP: usize = 3;
const STARTS: usize = 100;

/// The other process, and what it says.
pub(super) struct Owner {
    pub(super) process: Child,
    says: Lines<BufReader<ChildStderr>>,
}

impl Owner {
    pub(super) fn start(part: &str, run: &str, script: &str, tier: Tier) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "contain::owner::this_process_is_the_other_one", "--nocapture"])
            .env(PART, part)
            .env(SCRIPT, script)
            .env(RUN, run)
            .env(TIER, tier.name())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // The test harness itself says nothing there.
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(process.stderr.take().unwrap()).lines();
        Self { process, says }
    }

    pub(super) fn line(&mut self) -> String {
        self.says.next().unwrap().unwrap()
    }

    /// Holds the guardian, and as many processes of the run as it tells the numbers of.
    pub(super) fn hold(&mut self, told: usize) -> (Watched, Vec<Watched>) {
        let mut number = || self.line().trim().parse().unwrap();
        let guardian = Watched::hold(number());
        let held = (0..told).map(|_| Watched::hold_beside(guardian.pid, number())).collect();
        (guardian, held)
    }
}

/// Does nothing in an ordinary test run.
#[tokio::test]
async fn this_process_is_the_other_one() {
    let Ok(part) = std::env::var(PART) else { return };
    let variable = |name| std::env::var(name).unwrap();
    let (run, script, tier) = (variable(RUN), variable(SCRIPT), Tier::named(&variable(TIER)).unwrap());
    match part.as_str() {
        "hold" => hold(&run, &script, tier).await,
        "count" => count(&run, &script, tier).await,
        other => panic!("no part `{other}`"),
    }
}

/// Tells the guardian's number, then what the agent says, and then waits to be killed.
async fn hold(run: &str, script: &str, tier: Tier) {
    let mut contained = Contained::start(yard::shell(run, script, tier)).await.unwrap();
    eprintln!("{}", yard::guardian(&contained).pid);
    let mut lines = yard::lines(&mut contained);
    while let Some(line) = lines.next_line().await.unwrap() {
        eprintln!("{line}");
    }
    std::future::pending::<()>().await;
}

/// Starts and ends many, and tells what that cost and left.
async fn count(run: &str, script: &str, tier: Tier) {
    let mut took = Duration::ZERO;
    let mut memory = String::new();
    let mut before = 0;
    for start in 0..WARM_UP + STARTS {
        if start == WARM_UP {
            before = descriptors();
            took = Duration::ZERO;
        }
        let began = Instant::now();
        let mut contained = Contained::start(yard::shell(run, script, tier)).await.unwrap();
        took += began.elapsed();
        memory = resident(yard::guardian(&contained).pid);
        assert_eq!(contained.kill_all().await, Survivors(0));
    }
    let each = took / u32::try_from(STARTS).unwrap();
    eprintln!("descriptors {} children `{}`", descriptors() - before, children());
    eprintln!("{}: {each:?} a start, {memory} of memory for the guardian", tier.name());
}

fn descriptors() -> isize {
    isize::try_from(std::fs::read_dir("/proc/self/fd").unwrap().count()).unwrap()
}

/// Zombies included.
fn children() -> String {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default()).collect()
}

fn resident(pid: u32) -> String {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status")).unwrap();
    let figure = |name| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    format!("{} ({} its own)", figure("VmRSS:"), figure("RssAnon:"))
}
