//! A guardian that is started before it has anything to guard.

use std::path::{Path, PathBuf};

use ostler_process::contain::{Ahead, Contained, Exit, Standby, Survivors, Tier};
use rustix::process::Signal;

use super::watched::Watched;
use super::yard::{guardian, run_name, shell, tiers};

fn ahead() -> (Ahead, Watched) {
    let ahead = Ahead::begin(Path::new(env!("CARGO_BIN_EXE_ostler"))).unwrap();
    let process = Watched::hold(ahead.pid().unwrap());
    (ahead, process)
}

#[tokio::test]
async fn it_guards_what_it_is_told_to_or_goes() {
    for tier in tiers().await {
        let run = run_name();
        let (ahead, waiting) = ahead();
        let mut contained = Contained::start_ahead(shell(&run, "exit 7", tier), Some(ahead)).await.unwrap();
        let is_taken = guardian(&contained).pid == waiting.pid;
        // A namespace is entered by being started in it.
        assert_eq!(is_taken, tier != Tier::PidNs, "{}", tier.name());
        assert_eq!(contained.tier(), tier);
        assert_eq!(contained.leader_exit().await, Exit::Code(7), "{}", tier.name());
        assert_eq!(contained.kill_all().await, Survivors(0), "{}", tier.name());
        assert!(waiting.ends(), "{}", tier.name());
    }
}

#[tokio::test]
async fn one_that_is_not_needed_goes_with_what_it_started() {
    let (ahead, waiting) = ahead();
    drop(ahead);
    assert!(waiting.ends());
}

#[tokio::test]
async fn one_of_another_binary_is_not_taken() {
    let run = run_name();
    let other = Ahead::begin(Path::new("/bin/cat")).unwrap();
    let mut contained =
        Contained::start_ahead(shell(&run, "exit 7", Tier::Sweep), Some(other)).await.unwrap();
    assert_eq!(contained.leader_exit().await, Exit::Code(7));
    assert_eq!(contained.kill_all().await, Survivors(0));
}

#[tokio::test]
async fn one_waits_until_it_is_taken_or_gone() {
    let standby = Standby::from(PathBuf::from(env!("CARGO_BIN_EXE_ostler")));
    assert!(standby.take().is_none(), "nobody has it wait");
    standby.fill();
    standby.fill();
    let taken = standby.take().unwrap();
    assert!(standby.take().is_none(), "one waits, not two");
    let waiting = Watched::hold(taken.pid().unwrap());
    drop(taken);
    standby.fill();
    let killed = Watched::hold(standby.waiting().unwrap());
    killed.signal(Signal::KILL);
    assert!(killed.ends());
    assert!(standby.take().is_none(), "it is not there any more");
    assert!(waiting.ends(), "who took it dropped it");
    standby.fill();
    let last = Watched::hold(standby.waiting().unwrap());
    drop(standby);
    assert!(last.ends(), "it goes with the last who could take it");
}
