//! Where agents of these tests are started: a shell script in the place of an agent, and a run of its own.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use ostler_process::contain::{Contained, Spawn, StartError, Stdin, Tier};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::unix::pipe::Receiver;

use super::watched::{DEADLINE, Watched};

/// A name that no other test has.
pub(super) fn run_name() -> String {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    format!("test-{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed))
}

pub(super) fn shell<'a>(run: &'a str, script: &str, tier: Tier) -> Spawn<'a> {
    Spawn {
        program: PathBuf::from("/bin/sh"),
        args: vec!["-c".into(), script.into()],
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: PathBuf::from("/"),
        stdin: Stdin::Null,
        run,
        tier: Some(tier),
        jail: None,
        guard: PathBuf::from(env!("CARGO_BIN_EXE_ostler")),
    }
}

/// The tiers that work here. One that does not is told, and its tests are left out.
pub(super) async fn tiers() -> Vec<Tier> {
    let mut found = Vec::new();
    for tier in Tier::ALL {
        let run = run_name();
        match Contained::start(shell(&run, "exit", tier)).await {
            Ok(mut contained) => {
                assert_eq!(contained.tier(), tier);
                let _ = contained.kill_all().await;
                found.push(tier);
            }
            Err(error) => {
                assert!(matches!(error, StartError::Tier { .. }), "{error:?}");
                eprintln!("left out: {error}");
            }
        }
    }
    assert!(found.contains(&Tier::Sweep), "the last tier works everywhere");
    found
}

pub(super) fn lines(contained: &mut Contained) -> Lines<BufReader<Receiver>> {
    BufReader::new(contained.stdout.take().unwrap()).lines()
}

pub(super) async fn line(lines: &mut Lines<BufReader<Receiver>>) -> String {
    tokio::time::timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap().unwrap()
}

/// Starts it, and holds as many processes as it tells the numbers of.
pub(super) async fn started(run: &str, script: &str, told: usize, tier: Tier) -> (Contained, Vec<Watched>) {
    let mut contained = Contained::start(shell(run, script, tier)).await.unwrap();
    assert_eq!(contained.tier(), tier);
    let neighbour = guardian(&contained).pid;
    let mut says = lines(&mut contained);
    let mut held = Vec::new();
    while held.len() < told {
        held.push(Watched::hold_beside(neighbour, line(&mut says).await.trim().parse().unwrap()));
    }
    contained.stdout = Some(says.into_inner().into_inner());
    (contained, held)
}

/// The guardian proper. In a PID namespace our child is `unshare`, and the guardian its only child.
pub(super) fn guardian(contained: &Contained) -> Watched {
    let child = contained.guardian_pid().unwrap();
    match contained.tier() {
        Tier::Cgroup | Tier::Sweep => Watched::hold(child),
        Tier::PidNs => {
            let children = std::fs::read_to_string(format!("/proc/{child}/task/{child}/children")).unwrap();
            Watched::hold(children.trim().parse().unwrap())
        }
    }
}
