use ostler_agent::event::{AgentEvent, Part};
use serde_json::json;
use tempfile::TempDir;

use super::*;

fn facts(run: &str) -> Facts {
    Facts {
        v: 1,
        run: run.to_owned(),
        agent: "codex".to_owned(),
        engine: "stream".to_owned(),
        program: "/bin/codex".into(),
        agent_version: None,
        cwd: "/place".into(),
        began_at: 1,
        prompt: "do it".to_owned(),
        rehearse: None,
        permissions: "edits".to_owned(),
        limits: json!({}),
        given: Given::default(),
    }
}

fn said(text: &str) -> RunEventKind {
    RunEventKind::Agent(AgentEvent::Said { text: text.to_owned(), part: Part::Whole, within: None })
}

#[test]
fn a_run_is_live_then_ended() {
    let runs = TempDir::new().unwrap();
    let mut journal = Journal::create(runs.path(), &facts("run-1")).unwrap();
    journal.raw(Stream::Stdout, b"{\"a\":1}\n").unwrap();
    journal.event(1, said("one")).unwrap();
    journal.event(2, said("two")).unwrap();
    assert_eq!(find(runs.path(), "run").unwrap().state, State::Live);
    let busy = Journal::go_on(&find(runs.path(), "last").unwrap(), &facts("run-1")).unwrap_err();
    assert!(matches!(busy, JournalError::Busy { .. }), "{busy}");
    journal.close(&json!({"outcome": "completed"})).unwrap();
    let kept = find(runs.path(), "run-1").unwrap();
    assert_eq!(kept.state, State::Ended(json!({"outcome": "completed"})));
    assert_eq!(std::fs::read(kept.raw("stdout")).unwrap(), b"{\"a\":1}\n");
    let told: Vec<_> = kept.events().unwrap().map(|event| (event.seq, event.ms, event.kind)).collect();
    assert_eq!(told, [(1, 1, said("one")), (2, 2, said("two"))]);
}

#[test]
fn an_abandoned_run_is_gone_on_with_after_its_torn_line() {
    let runs = TempDir::new().unwrap();
    let mut journal = Journal::create(runs.path(), &facts("run-1")).unwrap();
    journal.event(1, said("one")).unwrap();
    let folder = journal.folder().to_owned();
    drop(journal);
    let mut torn = OpenOptions::new().append(true).open(folder.join("events.ndjson")).unwrap();
    torn.write_all(b"{\"v\":1,\"seq\":2,\"ms\":").unwrap();
    let kept = find(runs.path(), "last").unwrap();
    assert_eq!(kept.state, State::Abandoned);
    let (mut journal, past) = Journal::go_on(&kept, &facts("run-1")).unwrap();
    assert_eq!((past.seq, past.ms), (1, 1));
    journal.event(9, said("again")).unwrap();
    let told: Vec<_> = kept.events().unwrap().map(|event| event.seq).collect();
    assert_eq!(told, [1, 2]);
}

#[test]
fn files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let runs = TempDir::new().unwrap();
    let journal = Journal::create(runs.path(), &facts("run-1")).unwrap();
    let mode =
        |name: &str| std::fs::metadata(journal.folder().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(""), mode("raw"), mode("run.json"), mode("events.ndjson")),
        (0o700, 0o700, 0o600, 0o600)
    );
}

#[test]
fn an_id_that_fits_two_runs_fits_none() {
    let runs = TempDir::new().unwrap();
    for run in ["run-1", "run-12"] {
        Journal::create(runs.path(), &facts(run)).unwrap();
    }
    let several = find(runs.path(), "run").unwrap_err();
    assert_eq!(several.to_string(), "2 runs begin with `run`");
    assert!(several.hint().unwrap().contains("run-12, run-1"), "{:?}", several.hint());
    assert_eq!(find(runs.path(), "run-12").unwrap().facts.run, "run-12");
    assert_eq!(list(runs.path()).len(), 2);
    assert!(find(runs.path(), "").is_err());
}

#[test]
fn a_lock_ends_with_its_journal_though_a_copy_of_its_descriptor_lives() {
    let runs = TempDir::new().unwrap();
    let journal = Journal::create(runs.path(), &facts("run-1")).unwrap();
    let copy = journal._lock.0.try_clone().unwrap();
    drop(journal);
    let kept = find(runs.path(), "run-1").unwrap();
    assert_eq!(kept.state, State::Abandoned);
    Journal::go_on(&kept, &facts("run-1")).unwrap();
    drop(copy);
}

#[test]
fn a_run_that_is_gone_on_with_has_no_outcome_until_it_ends_again() {
    let runs = TempDir::new().unwrap();
    let mut journal = Journal::create(runs.path(), &facts("run-1")).unwrap();
    let (session, model) = ("s".to_owned(), None);
    let containment = "cgroup".to_owned();
    let told = [
        RunEventKind::Spawned { pid: 1, attempt: 1, containment, command: String::new() },
        RunEventKind::Agent(AgentEvent::Started { session, model }),
        RunEventKind::Outcome(json!({"outcome": "stalled"})),
    ];
    for kind in told {
        journal.event(5, kind).unwrap();
    }
    journal.close(&json!({"outcome": "stalled"})).unwrap();
    let kept = find(runs.path(), "run-1").unwrap();
    let changed = Facts { permissions: "all".to_owned(), ..facts("run-1") };
    let (journal, past) = Journal::go_on(&kept, &changed).unwrap();
    assert_eq!((past.seq, past.attempts, past.session.as_deref()), (3, 1, Some("s")));
    drop(journal);
    let kept = find(runs.path(), "run-1").unwrap();
    assert_eq!((kept.state, kept.facts.permissions.as_str()), (State::Abandoned, "all"));
}

#[test]
fn a_run_that_cannot_be_made_leaves_nothing() {
    let runs = TempDir::new().unwrap();
    std::fs::create_dir_all(runs.path().join("run-1/run.json.new")).unwrap();
    let error = Journal::create(runs.path(), &facts("run-1")).unwrap_err();
    assert!(matches!(error, JournalError::Write { .. }), "{error}");
    assert_eq!(std::fs::read_dir(runs.path()).unwrap().count(), 0);
}

/// A time in the past, for a file and all that is in it.
fn aged(folder: &Path, days: u64) {
    let then = std::time::SystemTime::now() - std::time::Duration::from_secs(days * 86_400);
    for entry in std::fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        File::open(entry.path()).unwrap().set_modified(then).unwrap();
    }
}

#[test]
fn only_old_runs_that_nobody_runs_are_removed() {
    let runs = TempDir::new().unwrap();
    let make = |run: &str| Journal::create(runs.path(), &facts(run)).unwrap();
    make("run-1-ended").close(&json!({"outcome": "completed"})).unwrap();
    drop(make("run-2-abandoned"));
    let live = make("run-3-live");
    drop(make("run-4-new"));
    drop(make("run-5-never-begun"));
    std::fs::remove_file(runs.path().join("run-5-never-begun/run.json")).unwrap();
    drop(make("run-6-from-tomorrow"));
    std::fs::write(runs.path().join("run-6-from-tomorrow/run.json"), "{\"v\":2}").unwrap();
    for run in ["run-1-ended", "run-2-abandoned", "run-3-live", "run-5-never-begun", "run-6-from-tomorrow"] {
        aged(&runs.path().join(run), 31);
    }
    let month = std::time::SystemTime::now() - std::time::Duration::from_secs(30 * 86_400);
    let old = older_than(runs.path(), month);
    let names: Vec<&str> = old.iter().map(|old| old.run.as_str()).collect();
    assert_eq!(names, ["run-1-ended", "run-2-abandoned", "run-5-never-begun"]);
    assert!(old.iter().all(|old| old.bytes > 0));
    let gone_on = Journal::go_on(old[1].kept.as_ref().unwrap(), &facts("run-2-abandoned")).unwrap();
    let pruned: Vec<_> = old.iter().map(|old| remove(old).unwrap()).collect();
    assert_eq!(pruned, [Pruned::Removed, Pruned::Spared, Pruned::Removed]);
    drop((gone_on, live));
    let left: Vec<_> = folders_of(runs.path());
    assert_eq!(left, ["run-2-abandoned", "run-3-live", "run-4-new", "run-6-from-tomorrow"]);
}

#[test]
fn a_removal_that_was_cut_short_is_no_run_and_is_finished() {
    let runs = TempDir::new().unwrap();
    drop(Journal::create(runs.path(), &facts("run-1")).unwrap());
    std::fs::rename(runs.path().join("run-1"), runs.path().join(".pruned-run-1")).unwrap();
    assert_eq!(list(runs.path()), []);
    finish_removals(runs.path()).unwrap();
    assert_eq!(folders_of(runs.path()), [""; 0]);
}

fn folders_of(runs: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(runs).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
