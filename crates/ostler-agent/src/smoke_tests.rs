use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::completion::Grade;
use crate::run_event::Channel;

/// An agent with which all is well.
pub(super) fn well() -> Observed {
    Observed {
        ended: Ended::Outcome { outcome: "completed".to_owned(), code: 0, detail: None, missing: Vec::new() },
        file: FileSeen::Parsed,
        strays: Vec::new(),
        session: Some("s".to_owned()),
        minted: Some("s".to_owned()),
        claim: Claim::Receipt("3-cc".to_owned()),
        artifact: Handed::Accepted { receipt: "2-bb".to_owned(), document: Document::Valid },
        chain: ChainSeen::Whole { lines: 3 },
        bridge: AtBridge::Came,
        events: 9,
        unknown: Vec::new(),
        calls: Calls { opened: 3, closed: 3, answered: 2 },
        lines: 5,
        quoted: vec!["I wrote it.".to_owned()],
        prompts: Vec::new(),
        channels: BTreeSet::from([Channel::Stdout, Channel::Bridge, Channel::Workspace]),
        survivors: Some(0),
        turns: 1,
        resumes: 0,
        first_event: Some(Duration::from_millis(800)),
    }
}

type Breaker = (Fact, Grade, Held, fn(&mut Observed));

fn outcome(word: &str, code: u64) -> Ended {
    Ended::Outcome { outcome: word.to_owned(), code, detail: Some("why".to_owned()), missing: Vec::new() }
}

/// Ways to break one fact, with what becomes of its row.
const BREAKERS: &[Breaker] = &[
    (Fact::File, Grade::Absent, Held::No, |seen| seen.file = FileSeen::Absent),
    (Fact::File, Grade::Workspace, Held::No, |seen| {
        seen.file = FileSeen::Broken { why: "line 3".to_owned() }
    }),
    (Fact::File, Grade::Workspace, Held::No, |seen| {
        seen.strays = vec!["README.md".to_owned(), "b".to_owned()];
    }),
    (Fact::Session, Grade::Absent, Held::No, |seen| seen.session = None),
    (Fact::Session, Grade::Transcript, Held::No, |seen| seen.session = Some("another".to_owned())),
    (Fact::Completion, Grade::Reported, Held::Weakly, |seen| seen.claim = Claim::Word),
    (Fact::Completion, Grade::Absent, Held::No, |seen| seen.claim = Claim::Nobody),
    (Fact::Artifact, Grade::Absent, Held::No, |seen| seen.artifact = Handed::Nothing),
    (Fact::Artifact, Grade::Workspace, Held::No, |seen| seen.artifact = Handed::Stale),
    (Fact::Artifact, Grade::Absent, Held::No, |seen| {
        seen.artifact = Handed::Rejected { faults: vec!["line 1".to_owned()] };
    }),
    (Fact::Artifact, Grade::Wire, Held::No, |seen| {
        seen.artifact = Handed::Accepted { receipt: "2".to_owned(), document: Document::Changed };
    }),
    (Fact::Artifact, Grade::Wire, Held::No, |seen| {
        seen.artifact = Handed::Accepted { receipt: "2".to_owned(), document: Document::Gone };
    }),
    (Fact::Receipts, Grade::Absent, Held::No, |seen| seen.chain = ChainSeen::Absent),
    (Fact::Receipts, Grade::Absent, Held::No, |seen| {
        seen.chain = ChainSeen::Broken { why: "broken at line 2".to_owned() };
    }),
    (Fact::Events, Grade::Absent, Held::No, |seen| seen.events = 0),
    (Fact::Events, Grade::Transcript, Held::No, |seen| {
        seen.unknown = vec![NewKind { kind: "new".to_owned(), sample: "{}".to_owned() }];
    }),
    (Fact::Tools, Grade::Absent, Held::No, |seen| seen.calls = Calls::default()),
    (Fact::Tools, Grade::Transcript, Held::No, |seen| {
        seen.calls = Calls { opened: 1, closed: 0, answered: 0 };
    }),
    (Fact::Output, Grade::Absent, Held::No, |seen| seen.lines = 0),
    (Fact::Output, Grade::Transcript, Held::No, |seen| seen.lines = FEWEST_LINES - 1),
    (Fact::Output, Grade::Transcript, Held::No, |seen| seen.lines = MOST_LINES + 1),
    (Fact::NoPrompt, Grade::Absent, Held::No, |seen| seen.prompts = vec!["whether it may".to_owned()]),
    (Fact::NoCrash, Grade::Absent, Held::No, |seen| seen.ended = outcome("agent_failed", 10)),
    (Fact::NoCrash, Grade::Absent, Held::No, |seen| seen.ended = outcome("stalled", 12)),
    (Fact::NoCrash, Grade::Absent, Held::No, |seen| {
        seen.ended = Ended::Nothing { said: "no".to_owned(), try_this: None }
    }),
    (Fact::Channels, Grade::Absent, Held::No, |seen| {
        seen.channels.remove(&Channel::Bridge);
    }),
    (Fact::Channels, Grade::Absent, Held::No, |seen| {
        seen.channels.remove(&Channel::Stdout);
    }),
    (Fact::Channels, Grade::Absent, Held::No, |seen| {
        seen.channels.remove(&Channel::Workspace);
    }),
    (Fact::NothingSurvived, Grade::Absent, Held::No, |seen| seen.survivors = Some(1)),
    (Fact::NothingSurvived, Grade::Absent, Held::No, |seen| seen.survivors = None),
];

fn judged(seen: &Observed) -> Vec<Judged> {
    judge(seen, Grade::Wire, &BTreeSet::new())
}

/// The rows that are not as with an agent with which all is well.
fn changed(seen: &Observed) -> Vec<Judged> {
    judged(seen)
        .into_iter()
        .zip(judged(&well()))
        .filter(|(now, was)| now != was)
        .map(|(now, _)| now)
        .collect()
}

#[test]
fn an_agent_with_which_all_is_well_passes() {
    let facts = judged(&well());
    assert_eq!(facts.iter().map(|judged| judged.fact).collect::<Vec<_>>(), Fact::ALL);
    assert!(facts.iter().all(Judged::is_ok), "{facts:#?}");
    assert_eq!(verdict(&facts), Verdict::Pass);
    assert_eq!(breaks(&well(), &facts, Some("r")), []);
    let graded = |fact: Fact| facts.iter().find(|judged| judged.fact == fact).map(|judged| judged.grade);
    for fact in [Fact::Completion, Fact::Artifact, Fact::Tools] {
        assert_eq!(graded(fact), Some(Grade::Wire));
    }
}

#[test]
fn what_breaks_one_fact_changes_its_row_alone() {
    for (index, (fact, grade, held, broken)) in BREAKERS.iter().enumerate() {
        let mut seen = well();
        broken(&mut seen);
        let rows = changed(&seen);
        let told: Vec<_> = rows.iter().map(|row| (row.fact, row.grade, row.held)).collect();
        assert_eq!(told, [(*fact, *grade, *held)], "breaker {index}");
        let facts = judged(&seen);
        let want = if *held == Held::Weakly { Verdict::Degraded(*grade) } else { Verdict::Fail };
        assert_eq!(verdict(&facts), want, "breaker {index}");
        let breaks = breaks(&seen, &facts, Some("r"));
        assert_eq!(breaks.iter().map(|broken| broken.fact).collect::<Vec<_>>(), [*fact], "breaker {index}");
        assert!(breaks.iter().all(|broken| !broken.what.is_empty() && !broken.try_this.is_empty()));
    }
    let broken: BTreeSet<Fact> = BREAKERS.iter().map(|(fact, ..)| *fact).collect();
    assert_eq!(broken.len(), Fact::ALL.len(), "every fact can be broken");
}

#[test]
fn an_agent_is_asked_for_no_more_than_it_can_show() {
    let mut seen = well();
    seen.claim = Claim::Word;
    for (ceiling, want) in [
        (Grade::Wire, Verdict::Degraded(Grade::Reported)),
        (Grade::Transcript, Verdict::Degraded(Grade::Reported)),
        (Grade::Reported, Verdict::Pass),
    ] {
        assert_eq!(verdict(&judge(&seen, ceiling, &BTreeSet::new())), want, "{ceiling:?}");
    }
    // Its own record is enough for tools: no bridge sees an agent's own.
    let mut seen = well();
    seen.calls.answered = 0;
    assert_eq!(verdict(&judged(&seen)), Verdict::Pass);
}

#[test]
fn a_file_that_nobody_here_can_read_is_still_there() {
    let mut seen = well();
    seen.file = FileSeen::Unread { why: "node is not here".to_owned() };
    assert_eq!(judged(&seen)[0].grade, Grade::Workspace);
    assert_eq!(verdict(&judged(&seen)), Verdict::Pass);
}

#[test]
fn an_agent_that_cannot_be_told_its_session_may_choose() {
    let mut seen = well();
    (seen.minted, seen.session) = (None, Some("its own".to_owned()));
    assert_eq!(verdict(&judged(&seen)), Verdict::Pass);
}

#[test]
fn a_record_that_was_strange_when_all_was_well_is_not_new() {
    let mut seen = well();
    seen.unknown = vec![NewKind { kind: "old".to_owned(), sample: String::new() }];
    assert_eq!(verdict(&judge(&seen, Grade::Wire, &BTreeSet::from(["old".to_owned()]))), Verdict::Pass);
    assert_eq!(verdict(&judged(&seen)), Verdict::Fail);
}

#[test]
fn why_nothing_was_handed_over_is_told_where_it_is_known() {
    let mut seen = well();
    (seen.claim, seen.artifact) = (Claim::Word, Handed::Nothing);
    for (bridge, want) in [
        (AtBridge::Nobody, "the agent never came to the bridge"),
        (AtBridge::TurnedAway { why: "wrong token".to_owned() }, "was not let in: wrong token"),
    ] {
        seen.bridge = bridge;
        let breaks = breaks(&seen, &judged(&seen), Some("r"));
        assert_eq!(breaks.len(), 2);
        assert!(breaks.iter().all(|broken| broken.what.contains(want)), "{breaks:#?}");
        assert!(breaks.iter().all(|broken| broken.try_this.contains("`ostler runs why r`")), "{breaks:#?}");
    }
}

fn green(seen: &Observed) -> Green {
    Green {
        agent: "codex".to_owned(),
        engine: "stream".to_owned(),
        version: "1.0.0".to_owned(),
        model: "smoke".to_owned(),
        at: 0,
        facts: judged(seen).into_iter().map(|judged| (judged.fact.name().to_owned(), judged.grade)).collect(),
        unknown: Vec::new(),
        first_event_ms: Some(800),
        ms: 5_000,
    }
}

#[test]
fn drift_is_what_got_worse_what_is_new_and_what_takes_longer() {
    let (was, mut now) = (green(&well()), well());
    let told = |seen: &Observed| drift(Some(&was), &judged(seen), &seen.unknown, seen.first_event);
    assert_eq!(told(&now), []);
    now.calls.answered = 0;
    let worse = Drift::Worse { fact: Fact::Tools, was: Grade::Wire, now: Grade::Transcript, held: Held::Yes };
    assert_eq!(told(&now), std::slice::from_ref(&worse), "also where the fact still holds");
    now.first_event = Some(Duration::from_secs(4));
    let later = Drift::FirstEvent { was: Duration::from_millis(800), now: Duration::from_secs(4) };
    assert_eq!(told(&now), [worse.clone(), later]);
    now.first_event = Some(Duration::from_millis(1_700));
    assert_eq!(told(&now), [worse], "less than a second more is what a busy machine makes of it");
}

#[test]
fn without_an_earlier_result_only_strange_records_are_told() {
    let kind = NewKind { kind: "system/new".to_owned(), sample: "{\"type\":\"system\"".to_owned() };
    let mut seen = well();
    seen.survivors = Some(1);
    assert_eq!(drift(None, &judged(&seen), &[], seen.first_event), []);
    assert_eq!(drift(None, &judged(&seen), std::slice::from_ref(&kind), None), [Drift::Kind(kind)]);
}

#[test]
fn where_nothing_ran_that_is_all_there_is_to_say() {
    let seen = Observed::nothing("codex is not installed".to_owned(), Some("install it".to_owned()));
    let facts = judged(&seen);
    assert_eq!((verdict(&facts), facts.iter().filter(|judged| judged.is_ok()).count()), (Verdict::Fail, 1));
    let told = breaks(&seen, &facts, None);
    let what = "there was no run: codex is not installed".to_owned();
    assert_eq!(told, [Break { fact: Fact::NoCrash, what, try_this: "install it".to_owned() }]);
}

#[test]
fn how_it_broke_off_is_told_first_and_not_at_any_length() {
    let mut seen = well();
    (seen.file, seen.claim) = (FileSeen::Absent, Claim::Nobody);
    let detail = Some("é".repeat(1_000));
    seen.ended = Ended::Outcome { outcome: "agent_failed".to_owned(), code: 10, detail, missing: Vec::new() };
    let told = breaks(&seen, &judged(&seen), None);
    let facts: Vec<_> = told.iter().map(|broken| broken.fact).collect();
    assert_eq!(facts, [Fact::NoCrash, Fact::File, Fact::Completion]);
    assert!(told[0].what.ends_with("é…") && told[0].what.chars().count() < 400, "{}", told[0].what);
}

#[test]
fn every_fact_is_found_by_its_name() {
    for fact in Fact::ALL {
        assert_eq!(Fact::named(fact.name()), Some(fact));
    }
}

proptest! {
    /// Whatever is broken together: the rows that change are those of the facts that were broken, and no others.
    #[test]
    fn facts_are_judged_apart(chosen in proptest::collection::vec(0..BREAKERS.len(), 0..8)) {
        let mut seen = well();
        for index in &chosen {
            BREAKERS[*index].3(&mut seen);
        }
        let rows: BTreeSet<Fact> = changed(&seen).iter().map(|row| row.fact).collect();
        let broken: BTreeSet<Fact> = chosen.iter().map(|index| BREAKERS[*index].0).collect();
        prop_assert_eq!(&rows, &broken);
        let facts = judged(&seen);
        prop_assert_eq!(verdict(&facts) == Verdict::Pass, broken.is_empty());
        let told = if seen.ran() { broken.len() } else { 1 };
        prop_assert_eq!(breaks(&seen, &facts, None).len(), told);
    }
}
