//! However a run ends, or whoever of its keepers is killed: nothing is left, in any tier.

use std::time::{Duration, Instant};

use ostler_process::contain::{Contained, Exit, Survivors, Tier};
use rustix::process::Signal;

use super::hostile::{HOSTILE, Hostile};
use super::owner::Owner;
use super::watched::{DEADLINE, Watched, leaves, marked};
use super::yard::{guardian, run_name, shell, started, tiers};

/// Appended to a script that lives until it is ended.
const WAIT: &str = "\nwhile :; do sleep 600; done";

async fn play(run: &str, hostile: &Hostile, then: &str, tier: Tier) -> (Contained, Vec<Watched>) {
    started(run, &format!("{}{then}", hostile.script), hostile.told, tier).await
}

/// Nobody lives, nobody waits to be waited for, and no group is left.
fn assert_nothing_is_left(case: &str, run: &str, held: &[Watched]) {
    let alive: Vec<u32> =
        held.iter().filter(|process| !process.is_dead()).map(|process| process.pid).collect();
    assert_eq!(alive, [0_u32; 0], "alive after {case}");
    assert_eq!(marked(run), [""; 0], "marked after {case}");
    assert_eq!(leaves(run), [""; 0], "groups after {case}");
}

#[tokio::test]
async fn killing_all_leaves_nothing() {
    for tier in tiers().await {
        for hostile in HOSTILE {
            let (run, case) = (run_name(), format!("{} in {}", hostile.name, tier.name()));
            let (mut contained, held) = play(&run, hostile, WAIT, tier).await;
            assert_eq!(contained.kill_all().await, Survivors(0), "{case}");
            assert_eq!(contained.leader_exit().await, Exit::Signal(9), "{case}");
            assert_nothing_is_left(&case, &run, &held);
            assert_eq!(contained.kill_all().await, Survivors(0), "again: {case}");
        }
    }
}

#[tokio::test]
async fn what_a_leader_leaves_behind_when_it_ends_is_ended_too() {
    for tier in tiers().await {
        for hostile in HOSTILE {
            let (run, case) = (run_name(), format!("{} in {}", hostile.name, tier.name()));
            let (mut contained, held) = play(&run, hostile, "\nexit 7", tier).await;
            assert_eq!(contained.leader_exit().await, Exit::Code(7), "{case}");
            assert!(held.iter().all(|process| !process.is_dead()), "not ended by itself: {case}");
            assert_eq!(contained.kill_all().await, Survivors(0), "{case}");
            assert_nothing_is_left(&case, &run, &held);
        }
    }
}

#[tokio::test]
async fn dropping_it_leaves_nothing() {
    for tier in tiers().await {
        for hostile in HOSTILE {
            let (run, case) = (run_name(), format!("{} in {}", hostile.name, tier.name()));
            let (contained, held) = play(&run, hostile, WAIT, tier).await;
            let guardian = guardian(&contained);
            drop(contained);
            assert!(guardian.ends(), "{case}");
            assert_nothing_is_left(&case, &run, &held);
        }
    }
}

#[tokio::test]
async fn an_owner_that_is_killed_leaves_nothing() {
    for tier in tiers().await {
        for hostile in HOSTILE {
            let (run, case) = (run_name(), format!("{} in {}", hostile.name, tier.name()));
            let mut owner = Owner::start("hold", &run, &format!("{}{WAIT}", hostile.script), tier);
            let (guardian, held) = owner.hold(hostile.told);
            owner.process.kill().unwrap();
            owner.process.wait().unwrap();
            assert!(guardian.ends(), "{case}");
            assert_nothing_is_left(&case, &run, &held);
        }
    }
}

#[tokio::test]
async fn a_guardian_that_is_killed_leaves_nothing() {
    for tier in tiers().await {
        for hostile in HOSTILE.iter().filter(|hostile| hostile.is_found_without_a_guardian(tier)) {
            let (run, case) = (run_name(), format!("{} in {}", hostile.name, tier.name()));
            let (mut contained, held) = play(&run, hostile, WAIT, tier).await;
            guardian(&contained).signal(Signal::KILL);
            let exit = tokio::time::timeout(DEADLINE, contained.leader_exit()).await.unwrap();
            assert_eq!(exit, Exit::Unknown, "{case}");
            assert_eq!(contained.kill_all().await, Survivors(0), "{case}");
            assert_nothing_is_left(&case, &run, &held);
        }
    }
}

#[tokio::test]
async fn a_guardian_that_was_killed_is_noticed_by_a_drop() {
    for tier in tiers().await {
        let (run, hostile) = (run_name(), &HOSTILE[4]);
        let (contained, held) = play(&run, hostile, WAIT, tier).await;
        let (child, guardian) = (Watched::hold(contained.guardian_pid().unwrap()), guardian(&contained));
        // In a PID namespace this is `unshare`, with whom the guardian dies.
        child.signal(Signal::KILL);
        assert!(guardian.ends() && child.ends());
        drop(contained);
        assert_nothing_is_left(tier.name(), &run, &held);
    }
}

#[tokio::test]
async fn a_guardian_that_was_stopped_does_not_hold_us() {
    let (run, hostile) = (run_name(), &HOSTILE[6]);
    let (mut contained, held) = play(&run, hostile, WAIT, Tier::Sweep).await;
    guardian(&contained).signal(Signal::STOP);
    let began = Instant::now();
    assert_eq!(contained.kill_all().await, Survivors(0));
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_nothing_is_left("a stopped guardian", &run, &held);
}

#[tokio::test]
async fn what_dead_owners_and_guardians_left_is_ended_by_the_next_start() {
    if !tiers().await.contains(&Tier::Cgroup) {
        return;
    }
    let (run, hostile) = (run_name(), &HOSTILE[6]);
    let mut owner = Owner::start("hold", &run, &format!("{}{WAIT}", hostile.script), Tier::Cgroup);
    let (guardian, held) = owner.hold(hostile.told);
    // Stopped, so that it does not see the end of its owner before its own.
    guardian.signal(Signal::STOP);
    owner.process.kill().unwrap();
    owner.process.wait().unwrap();
    guardian.signal(Signal::KILL);
    assert!(guardian.ends());
    assert!(!held[0].is_dead() || leaves(&run).is_empty(), "another test's start may have been faster");

    let next = run_name();
    let mut contained = Contained::start(shell(&next, WAIT, Tier::Cgroup)).await.unwrap();
    assert!(held[0].ends());
    assert_eq!(contained.kill_all().await, Survivors(0));
    assert_nothing_is_left("two dead keepers", &run, &held);
}

#[tokio::test]
async fn a_hundred_starts_leave_no_descriptor_no_zombie_and_no_group() {
    for tier in tiers().await {
        let run = run_name();
        let mut counter = Owner::start("count", &run, "setsid sleep 600 & sleep 600", tier);
        assert_eq!(counter.line(), "descriptors 0 children ``", "{}", tier.name());
        eprintln!("{}", counter.line());
        assert!(counter.process.wait().unwrap().success());
        assert_nothing_is_left(tier.name(), &run, &[]);
    }
}
