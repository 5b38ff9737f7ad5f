use proptest::prelude::*;

use super::*;
use crate::bridge::Tools;
use crate::outcome::CancelledBy;
use crate::quiet_cause::QuietCause;
use crate::standing::Standing;

const DONE: TurnOutcome = TurnOutcome::Done { text: String::new() };
const WALL: Wall = Wall { now: 1_000, jitter: Duration::from_secs(7), patience: Duration::from_secs(43_200) };

fn policy() -> Policy {
    let limits = Limits::default();
    Policy { max_resumes: 3, resume_pause: FIRST_PAUSE, quota: OnQuota::Report, limits }
}

/// An agent that said nothing and exited with 0, in a session that can be resumed.
fn ending() -> Ending<'static> {
    Ending {
        turn: None,
        marker: Marker::Record,
        exit: Some(Exit::Code(0)),
        stop: None,
        retrying: None,
        session: Some("s"),
        work: Work::Begun,
        progress: Progress::None,
        missing: &[],
        found: &[],
        bridge: None,
        forbidden: None,
        unknown_cost: None,
        reach: Reach::Unknown,
        quiet: Duration::from_secs(360),
        cause: None,
        lost: None,
        wall: WALL,
    }
}

fn failed(class: FailureClass, resets_at: Option<i64>) -> TurnOutcome {
    TurnOutcome::Failed(failure(class, resets_at))
}

fn failure(class: FailureClass, resets_at: Option<i64>) -> Failure {
    Failure { class, detail: "words".to_owned(), resets_at, cut_short: None }
}

fn rule(rule: Rule) -> StopReason {
    StopReason::Rule { rule }
}

/// A decision in a few words.
fn told(decision: &Decision) -> String {
    match decision {
        Decision::Complete { evidence } => {
            let grades: Vec<String> = evidence.iter().map(|one| format!("{:?}", one.grade)).collect();
            format!("complete: {}", grades.join(", "))
        }
        Decision::Resume { missing, cause, .. } => format!("resume, {cause:?}: {}", missing.join(", ")),
        Decision::Park { until: Until::Quota { wait, reset: Reset::Known, .. }, .. } => {
            format!("park for {} s", wait.as_secs())
        }
        Decision::Park { until: Until::Quota { wait, reset: Reset::Unknown, .. }, .. } => {
            format!("park, reset unknown, for {} s", wait.as_secs())
        }
        Decision::Park { until: Until::Outage { wait, class, .. }, .. } => {
            format!("park, {class:?}, for {} s", wait.as_secs())
        }
        Decision::Park { until: Until::Reachable { .. }, .. } => "park, offline".to_owned(),
        Decision::Outcome(outcome) => {
            format!("{}, {}", outcome.name(), serde_json::to_string(outcome).unwrap())
        }
    }
}

fn first(ending: &Ending<'_>) -> String {
    told(&Completion::new(policy()).decide(ending))
}

#[test]
fn a_result_outranks_how_the_process_ended() {
    let (ceiling, after, silence) = (rule(Rule::Ceiling), rule(Rule::AfterResult), rule(Rule::Silence));
    let limit = StopReason::Limit { limit: Limit::MaxCost { usd: 1.0 } };
    let done = Ending { turn: Some(&DONE), ..ending() };
    let table = [
        ("exit 0", done),
        ("exit 1", Ending { exit: Some(Exit::Code(1)), ..done }),
        ("killed", Ending { exit: Some(Exit::Signal(9)), stop: Some(&after), ..done }),
        ("too late", Ending { stop: Some(&ceiling), ..done }),
        ("quiet, with a task open", Ending { stop: Some(&silence), ..done }),
        ("too dear", Ending { stop: Some(&limit), forbidden: Some(Limit::MaxCost { usd: 1.0 }), ..done }),
    ];
    for (name, ending) in table {
        assert_eq!(first(&ending), "complete: Reported", "{name}");
    }
}

#[test]
fn evidence_is_told_best_first() {
    let found = [
        Evidence { fact: "a file changed".to_owned(), grade: Grade::Workspace },
        Evidence { fact: "the tests pass".to_owned(), grade: Grade::Checked },
    ];
    let done = Ending { turn: Some(&DONE), found: &found, ..ending() };
    assert_eq!(first(&done), "complete: Checked, Workspace, Reported");
    assert_eq!(
        first(&Ending { marker: Marker::Transcript, ..done }),
        "complete: Checked, Transcript, Workspace"
    );
    let command = Ending { marker: Marker::ExitCode, ..ending() };
    assert_eq!(first(&command), "complete: Reported");
    use Grade::{Absent, Checked, Reported, Transcript, Wire, Workspace};
    assert!([Checked, Wire, Transcript, Workspace, Reported, Absent].is_sorted_by(|one, two| one > two));
}

#[test]
fn stops_and_failures_become_outcomes() {
    let cancelled = StopReason::Cancelled { by: CancelledBy::Interrupt };
    let blocked = StopReason::Blocked { dialog: "trust?".to_owned() };
    let auth = StopReason::Failed { failure: failure(FailureClass::Auth, None) };
    let cost = StopReason::Limit { limit: Limit::MaxCost { usd: 1.0 } };
    let (start, open, repeated) = (rule(Rule::Start), rule(Rule::OpenCall), rule(Rule::Loop));
    let (ceiling, wait, after_exit) = (rule(Rule::Ceiling), rule(Rule::MaxWait), rule(Rule::AfterExit));
    let interrupted = TurnOutcome::Interrupted;
    let turns = Some(Limit::MaxTurns { turns: 3 });
    let stopped = |stop| Ending { stop: Some(stop), turn: None, exit: Some(Exit::Signal(15)), ..ending() };
    let table = [
        ("Ctrl-C", stopped(&cancelled), r#"cancelled, {"outcome":"cancelled","by":"interrupt"}"#),
        (
            "Ctrl-C after the result",
            Ending { turn: Some(&DONE), ..stopped(&cancelled) },
            r#"cancelled, {"outcome":"cancelled","by":"interrupt"}"#,
        ),
        ("a dialog", stopped(&blocked), r#"blocked, {"outcome":"blocked","dialog":"trust?"}"#),
        (
            "a rejected key",
            stopped(&auth),
            r#"agent_failed, {"outcome":"agent_failed","class":"auth","detail":"words"}"#,
        ),
        (
            "a budget",
            Ending { turn: Some(&interrupted), ..stopped(&cost) },
            r#"timed_out, {"outcome":"timed_out","limit":{"limit":"max_cost","usd":1.0}}"#,
        ),
        (
            "start",
            stopped(&start),
            r#"stalled, {"outcome":"stalled","rule":"start","quiet":{"secs":360,"nanos":0}}"#,
        ),
        (
            "open_call",
            stopped(&open),
            r#"stalled, {"outcome":"stalled","rule":"open_call","quiet":{"secs":360,"nanos":0}}"#,
        ),
        (
            "loop",
            Ending { turn: Some(&interrupted), ..stopped(&repeated) },
            r#"stalled, {"outcome":"stalled","rule":"loop","quiet":{"secs":360,"nanos":0}}"#,
        ),
        (
            "ceiling",
            stopped(&ceiling),
            r#"timed_out, {"outcome":"timed_out","limit":{"limit":"ceiling","time":{"secs":3600,"nanos":0}}}"#,
        ),
        (
            "max_wait",
            stopped(&wait),
            r#"timed_out, {"outcome":"timed_out","limit":{"limit":"max_wait","time":{"secs":43200,"nanos":0}}}"#,
        ),
        (
            "a signal after the claim, which was ours",
            Ending { exit: Some(Exit::Signal(11)), ..stopped(&StopReason::Completed) },
            r#"agent_failed, {"outcome":"agent_failed","class":"crashed","detail":"it was ended by signal 11"}"#,
        ),
        (
            "a crash that left something",
            Ending { exit: Some(Exit::Code(3)), ..stopped(&after_exit) },
            r#"agent_failed, {"outcome":"agent_failed","class":"crashed","detail":"it exited with code 3"}"#,
        ),
        (
            "a command that failed",
            Ending { marker: Marker::ExitCode, exit: Some(Exit::Code(3)), ..ending() },
            r#"agent_failed, {"outcome":"agent_failed","class":"crashed","detail":"it exited with code 3"}"#,
        ),
        (
            "a guardian that was killed",
            Ending { exit: None, ..ending() },
            r#"agent_failed, {"outcome":"agent_failed","class":"crashed","detail":"its guardian was ended from outside, and it was ended with it"}"#,
        ),
        (
            "nothing to resume",
            Ending { session: None, ..ending() },
            r#"incomplete, {"outcome":"incomplete","missing":["the agent's own word that it is done"]}"#,
        ),
        (
            "no turn left",
            Ending { forbidden: turns, ..ending() },
            r#"timed_out, {"outcome":"timed_out","limit":{"limit":"max_turns","turns":3}}"#,
        ),
    ];
    for (name, ending, want) in table {
        assert_eq!(first(&ending), want, "{name}");
    }
}

#[test]
fn failures_of_a_turn_keep_their_class() {
    use FailureClass::{Auth, Crashed, Limit as OwnLimit, Model, Overloaded, Provider, Unknown};
    let no_resumes = Policy { max_resumes: 0, ..policy() };
    for (class, policy) in [
        (Auth, policy()),
        (Crashed, policy()),
        (OwnLimit, policy()),
        (Model, policy()),
        (Unknown, policy()),
        (Overloaded, no_resumes),
        (Provider, no_resumes),
    ] {
        let turn = failed(class, None);
        let want = RunOutcome::AgentFailed { class, detail: "words".to_owned() };
        let got = Completion::new(policy).decide(&Ending { turn: Some(&turn), ..ending() });
        assert_eq!(got, Decision::Outcome(want), "{class:?}");
    }
    let turn = failed(OwnLimit, None);
    let limit = Limit::MaxTurns { turns: 4 };
    let ours = Ending { turn: Some(&turn), forbidden: Some(limit), ..ending() };
    assert_eq!(Completion::new(policy()).decide(&ours), Decision::Outcome(RunOutcome::TimedOut { limit }));
}

#[test]
fn quota() {
    let patient = Policy { quota: OnQuota::Wait, ..policy() };
    let over =
        |resets_at: &str| format!(r#"quota, {{"outcome":"quota","resets_at":{resets_at},"detail":"words"}}"#);
    let table = [
        ("waiting is not wanted", policy(), Some(4_600), Some("s"), over("4600")),
        ("until the reset, and a little more", patient, Some(4_600), Some("s"), "park for 3607 s".to_owned()),
        ("a reset in the past", patient, Some(5), Some("s"), "park for 7 s".to_owned()),
        ("a reset before all time", patient, Some(i64::MIN), Some("s"), "park for 7 s".to_owned()),
        ("no reset is known", patient, None, Some("s"), "park, reset unknown, for 67 s".to_owned()),
        ("no reset is known, and waiting is not wanted", policy(), None, Some("s"), over("null")),
        ("too long", patient, Some(100_000), Some("s"), over("100000")),
        ("no session to resume", patient, Some(4_600), None, over("4600")),
    ];
    for (name, policy, resets_at, session, want) in table {
        let turn = failed(FailureClass::Quota, resets_at);
        let ending = Ending { turn: Some(&turn), session, exit: Some(Exit::Code(1)), ..ending() };
        assert_eq!(told(&Completion::new(policy).decide(&ending)), want, "{name}");
    }
}

#[test]
fn a_budget_that_is_used_up_forbids_to_wait_and_hides_no_stall() {
    let forbidden = Some(Limit::MaxTurns { turns: 1 });
    let (turn, silence) = (failed(FailureClass::Quota, Some(4_600)), rule(Rule::Silence));
    let patient = Policy { quota: OnQuota::Wait, ..policy() };
    let broke = Ending { turn: Some(&turn), forbidden, ..ending() };
    let decided = told(&Completion::new(patient).decide(&broke));
    assert!(decided.starts_with("timed_out"), "{decided}");
    let stalled = Ending { stop: Some(&silence), forbidden, ..ending() };
    assert!(first(&stalled).starts_with("stalled"), "{}", first(&stalled));
}

#[test]
fn waits_for_a_quota_are_counted() {
    let mut completion = Completion::new(Policy { quota: OnQuota::Wait, ..policy() });
    let turn = failed(FailureClass::Quota, Some(0));
    let ending = Ending { turn: Some(&turn), ..ending() };
    let waits = std::iter::repeat_with(|| completion.decide(&ending))
        .take_while(|decision| matches!(decision, Decision::Park { .. }));
    assert_eq!(waits.count(), 5);
    assert_eq!(completion.resumes(), 0);
}

#[test]
fn waits_for_a_limit_without_a_reset_time_grow_and_start_anew_after_progress() {
    let mut completion = Completion::new(Policy { quota: OnQuota::Wait, ..policy() });
    let turn = failed(FailureClass::Quota, None);
    let plain = Ending { turn: Some(&turn), wall: Wall { jitter: Duration::ZERO, ..WALL }, ..ending() };
    let mut waited = |progress| told(&completion.decide(&Ending { progress, ..plain }));
    for seconds in [60, 120, 300, 600, 1_200, 1_800, 1_800] {
        assert_eq!(waited(Progress::None), format!("park, reset unknown, for {seconds} s"));
    }
    assert_eq!(waited(Progress::Made), "park, reset unknown, for 60 s");
    assert_eq!(completion.resumes(), 0);
}

#[test]
fn outages_and_crashes_are_resumed_after_growing_pauses() {
    use FailureClass::{Auth, Crashed, Model, Overloaded, Provider, Unknown};
    let turn = |class| failed(class, None);
    let (overloaded, provider, crashed) = (turn(Overloaded), turn(Provider), turn(Crashed));
    let killed = Ending { exit: Some(Exit::Signal(9)), ..ending() };
    let over = |class: &str| format!("agent_failed, {{\"outcome\":\"agent_failed\",\"class\":\"{class}\"");
    let table = [
        ("503", Ending { turn: Some(&overloaded), ..ending() }, "Overloaded", over("overloaded")),
        ("500", Ending { turn: Some(&provider), ..ending() }, "Provider", over("provider")),
        ("killed in its turn", Ending { turn: Some(&crashed), ..killed }, "Crashed", over("crashed")),
        ("killed without a word", killed, "Crashed", over("crashed")),
        (
            "killed behind a shell",
            Ending { turn: Some(&crashed), exit: Some(Exit::Code(137)), ..ending() },
            "Crashed",
            over("crashed"),
        ),
    ];
    for (name, ending, class, over) in table {
        let mut completion = Completion::new(policy());
        for seconds in [12, 67, 187] {
            assert_eq!(
                told(&completion.decide(&ending)),
                format!("park, {class}, for {seconds} s"),
                "{name}"
            );
        }
        let last = told(&completion.decide(&ending));
        assert!(last.starts_with(&over), "{name}: {last}");
        assert_eq!(completion.resumes(), 3, "{name}");
    }

    let (auth, model, unknown) = (turn(Auth), turn(Model), turn(Unknown));
    let limit = Some(Limit::MaxTurns { turns: 1 });
    let patience = Wall { patience: Duration::from_secs(11), ..WALL };
    let again = Ending { session: None, work: Work::None, ..killed };
    let table = [
        ("a rejected key", Ending { turn: Some(&auth), ..ending() }, "agent_failed"),
        ("a bad request", Ending { turn: Some(&model), ..ending() }, "agent_failed"),
        ("an unknown failure", Ending { turn: Some(&unknown), ..ending() }, "agent_failed"),
        (
            "an exit with code 1",
            Ending { turn: Some(&crashed), exit: Some(Exit::Code(1)), ..ending() },
            "agent_failed",
        ),
        ("no turn is left", Ending { turn: Some(&overloaded), forbidden: limit, ..ending() }, "agent_failed"),
        (
            "the pause is too long",
            Ending { turn: Some(&overloaded), wall: patience, ..ending() },
            "agent_failed",
        ),
        ("nothing was done yet", again, "park, Crashed"),
        ("no session, and it worked", Ending { work: Work::Begun, ..again }, "agent_failed"),
        ("no session, and files changed", Ending { progress: Progress::Made, ..again }, "agent_failed"),
        ("a command", Ending { marker: Marker::ExitCode, ..again }, "agent_failed"),
    ];
    for (name, ending, want) in table {
        assert!(first(&ending).starts_with(want), "{name}: {}", first(&ending));
    }
}

#[test]
fn pauses_start_anew_after_progress() {
    let turn = failed(FailureClass::Overloaded, None);
    let failing = Ending { turn: Some(&turn), ..ending() };
    let mut completion = Completion::new(policy());
    assert_eq!(told(&completion.decide(&failing)), "park, Overloaded, for 12 s");
    assert_eq!(told(&completion.decide(&failing)), "park, Overloaded, for 67 s");
    let worked = Ending { progress: Progress::Made, ..failing };
    assert_eq!(told(&completion.decide(&worked)), "park, Overloaded, for 12 s");
    assert!(told(&completion.decide(&failing)).starts_with("agent_failed"), "three resumes, whatever for");
}

#[test]
fn an_agent_that_waits_silently_for_its_provider_is_not_stuck() {
    use FailureClass::{Auth, Overloaded, Provider, Quota};
    let rules = [rule(Rule::Silence), rule(Rule::Start)];
    let patient = Policy { quota: OnQuota::Wait, ..policy() };
    for stop in &rules {
        for (class, policy, want) in [
            (Quota, policy(), "quota, "),
            (Quota, patient, "park, reset unknown, for 67 s"),
            (Overloaded, policy(), "park, Overloaded, for 12 s"),
            (Provider, policy(), "park, Provider, for 12 s"),
        ] {
            let retrying = failure(class, None);
            let ending = Ending { stop: Some(stop), retrying: Some(&retrying), ..ending() };
            let decided = told(&Completion::new(policy).decide(&ending));
            assert!(decided.starts_with(want), "{class:?} {stop:?}: {decided}");
        }
    }
    let retrying = failure(Auth, None);
    let stuck = Ending { stop: Some(&rules[1]), retrying: Some(&retrying), ..ending() };
    assert!(first(&stuck).starts_with("stalled"), "{}", first(&stuck));
    let (open_call, retrying) = (rule(Rule::OpenCall), failure(Overloaded, None));
    let stuck = Ending { stop: Some(&open_call), retrying: Some(&retrying), ..ending() };
    assert!(first(&stuck).starts_with("stalled"), "a tool is silent: {}", first(&stuck));
}

/// How many resumes are allowed, and the ends of processes with what becomes of the run.
type Case<'a> = (&'a str, u32, Vec<(Ending<'a>, Progress, &'a str)>);

#[test]
fn resumes() {
    let missing = ["the report".to_owned()];
    let (made, none) = (Progress::Made, Progress::None);
    let silence = rule(Rule::Silence);
    let unfinished = Ending { turn: Some(&DONE), missing: &missing, ..ending() };
    let stalled = Ending { stop: Some(&silence), ..ending() };
    let table: [Case<'_>; 5] = [
        (
            "at most twice in a row without progress",
            9,
            vec![
                (unfinished, made, "resume, Unfinished: the report"),
                (unfinished, none, "resume, Unfinished: the report"),
                (unfinished, none, r#"incomplete, {"outcome":"incomplete","missing":["the report"]}"#),
            ],
        ),
        (
            "progress starts the row anew, until all are used",
            3,
            vec![
                (unfinished, none, "resume, Unfinished: the report"),
                (unfinished, made, "resume, Unfinished: the report"),
                (unfinished, made, "resume, Unfinished: the report"),
                (unfinished, made, r#"incomplete, {"outcome":"incomplete","missing":["the report"]}"#),
            ],
        ),
        (
            "a stall is nobody's lack of progress, but counts",
            3,
            vec![
                (stalled, none, "resume, Environment: "),
                (stalled, none, "resume, Environment: "),
                (unfinished, none, "resume, Unfinished: the report"),
                (
                    stalled,
                    none,
                    r#"stalled, {"outcome":"stalled","rule":"silence","quiet":{"secs":360,"nanos":0}}"#,
                ),
            ],
        ),
        (
            "no resumes",
            0,
            vec![(unfinished, made, r#"incomplete, {"outcome":"incomplete","missing":["the report"]}"#)],
        ),
        (
            "what was missing is there",
            3,
            vec![
                (unfinished, none, "resume, Unfinished: the report"),
                (Ending { missing: &[], ..unfinished }, made, "complete: Reported"),
            ],
        ),
    ];
    for (name, max_resumes, steps) in table {
        let mut completion = Completion::new(Policy { max_resumes, ..policy() });
        for (index, (ending, progress, want)) in steps.into_iter().enumerate() {
            assert_eq!(told(&completion.decide(&Ending { progress, ..ending })), want, "{name}, {index}");
        }
    }
}

#[test]
fn a_resumed_agent_is_told_what_is_missing() {
    let missing = ["an artifact of type `report`".to_owned(), "`cargo test` fails: 2 failed".to_owned()];
    let unfinished = Ending { turn: Some(&DONE), missing: &missing, ..ending() };
    let Decision::Resume { prompt, .. } = Completion::new(policy()).decide(&unfinished) else {
        panic!("it is resumed");
    };
    let want = "You stopped before finishing. Still missing:\n- an artifact of type `report`\n\
                - `cargo test` fails: 2 failed\nGo on, and finish the task.";
    assert_eq!(prompt, want);
}

#[test]
fn a_second_rejection_of_the_key_is_enough() {
    let retrying = |attempt, class| Blocked::Retrying {
        attempt,
        limit: Some(10),
        delay: None,
        reason: "401".to_owned(),
        class,
    };
    let hopeless_one = StopReason::Failed {
        failure: Failure {
            class: FailureClass::Auth,
            detail: "401".to_owned(),
            resets_at: None,
            cut_short: None,
        },
    };
    assert_eq!(hopeless(&retrying(1, FailureClass::Auth)), None);
    assert_eq!(hopeless(&retrying(2, FailureClass::Auth)), Some(hopeless_one));
    assert_eq!(hopeless(&retrying(9, FailureClass::Overloaded)), None);
}

fn any_turn() -> impl Strategy<Value = Option<TurnOutcome>> {
    prop_oneof![
        Just(None),
        Just(Some(DONE)),
        Just(Some(TurnOutcome::Interrupted)),
        Just(Some(failed(FailureClass::Quota, Some(0)))),
        Just(Some(failed(FailureClass::Provider, None))),
    ]
}

fn any_stop() -> impl Strategy<Value = Option<StopReason>> {
    prop_oneof![
        Just(None),
        Just(Some(rule(Rule::Silence))),
        Just(Some(rule(Rule::AfterResult))),
        Just(Some(rule(Rule::Ceiling))),
        Just(Some(StopReason::Exited)),
    ]
}

fn any_progress() -> impl Strategy<Value = Progress> {
    prop_oneof![Just(Progress::Made), Just(Progress::None)]
}

proptest! {
    #[test]
    fn a_run_never_goes_on_for_ever(
        steps in prop::collection::vec((any_turn(), any_stop(), any_progress(), 0i32..2), 40),
        max_resumes in 0u32..10,
    ) {
        let mut completion = Completion::new(Policy { max_resumes, quota: OnQuota::Wait, ..policy() });
        let missing = ["x".to_owned()];
        let mut went_on = 0;
        for (turn, stop, progress, code) in &steps {
            let ending = Ending {
                turn: turn.as_ref(),
                stop: stop.as_ref(),
                progress: *progress,
                missing: &missing,
                exit: Some(Exit::Code(*code)),
                ..ending()
            };
            match completion.decide(&ending) {
                Decision::Resume { .. } | Decision::Park { .. } => went_on += 1,
                Decision::Complete { .. } => prop_assert!(false, "something is missing"),
                Decision::Outcome(_) => {}
            }
        }
        prop_assert!(went_on <= max_resumes + MOST_WAITS_OF_A_RUN);
        prop_assert!(completion.resumes() <= max_resumes);
    }
}

#[test]
fn a_run_that_may_not_be_resumed_is_never_parked_as_offline() {
    let (silence, provider) = (rule(Rule::Silence), failed(FailureClass::Provider, None));
    let away = Ending { reach: Reach::Unreachable, ..ending() };
    let table = [
        (Ending { turn: Some(&provider), ..away }, "agent_failed"),
        (Ending { stop: Some(&silence), ..away }, "stalled"),
    ];
    for (ending, want) in table {
        let mut completion = Completion::new(Policy { max_resumes: 0, ..policy() });
        let decision = told(&completion.decide(&ending));
        assert!(decision.starts_with(want), "{decision}");
    }
}

#[test]
fn an_agent_that_is_offline_is_waited_for_at_no_cost() {
    let (silence, open_call) = (rule(Rule::Silence), rule(Rule::OpenCall));
    let (provider, model) = (failed(FailureClass::Provider, None), failed(FailureClass::Model, None));
    let away = Ending { reach: Reach::Unreachable, ..ending() };
    let spent = Some(Limit::MaxTurns { turns: 1 });
    let table = [
        ("its turn failed", Ending { turn: Some(&provider), ..away }, "park, offline"),
        ("it is silent", Ending { stop: Some(&silence), ..away }, "park, offline"),
        ("it may not go on", Ending { turn: Some(&provider), forbidden: spent, ..away }, "timed_out"),
        ("it has no session", Ending { turn: Some(&provider), session: None, ..away }, "agent_failed"),
        ("another failure", Ending { turn: Some(&model), ..away }, "agent_failed"),
        ("a tool is silent", Ending { stop: Some(&open_call), ..away }, "stalled"),
        ("it is done", Ending { turn: Some(&DONE), stop: Some(&silence), ..away }, "complete"),
        (
            "it was reached",
            Ending { turn: Some(&provider), reach: Reach::Reachable, ..away },
            "park, Provider",
        ),
        ("not known", Ending { turn: Some(&provider), reach: Reach::Unknown, ..away }, "park, Provider"),
    ];
    for (name, ending, want) in table {
        assert!(first(&ending).starts_with(want), "{name}: {}", first(&ending));
        let is_decided_by_it = first(&ending) != first(&Ending { reach: Reach::Unknown, ..ending });
        assert!(!is_decided_by_it || is_in_doubt(ending.turn, ending.stop), "{name} must be probed");
    }
    let mut completion = Completion::new(policy());
    let failing = Ending { turn: Some(&provider), ..away };
    for _ in 0..MOST_OUTAGES {
        assert_eq!(told(&completion.decide(&failing)), "park, offline");
    }
    assert_eq!(completion.resumes(), 0);
    for _ in 0..3 {
        assert!(told(&completion.decide(&failing)).starts_with("park, Provider"), "as after any outage");
    }
    assert!(told(&completion.decide(&failing)).starts_with("agent_failed"), "it comes to an end");
}

/// What was handed over, in a few words: the kinds required, then what happened.
fn standing(required: &[&str], steps: &[&str]) -> Standing {
    let mut standing = Standing::new(required.iter().map(|kind| (*kind).to_owned()));
    for (receipt, step) in (1..).zip(steps) {
        match step.split_once(' ') {
            Some(("accepted", kind)) => standing.accepted(kind, receipt),
            Some(("rejected", kind)) => standing.rejected(kind, 1),
            Some(_) | None => standing.claimed(receipt),
        }
    }
    standing
}

fn at_the_bridge(ending: Ending<'_>, standing: &Standing) -> String {
    let tools = Tools::of(&crate::agents::Claude).unwrap();
    first(&Ending { bridge: Some(Handed { standing, tools: &tools }), ..ending })
}

#[test]
fn with_a_bridge_done_is_what_the_bridge_recorded() {
    let killed = StopReason::Rule { rule: Rule::Ceiling };
    let cancelled = StopReason::Cancelled { by: CancelledBy::Interrupt };
    let provider = failed(FailureClass::Provider, None);
    let done = Ending { turn: Some(&DONE), ..ending() };
    let all = standing(&["plan"], &["accepted plan", "claimed"]);
    for (how, ending) in [
        ("ended well", done),
        ("exited with 1", Ending { exit: Some(Exit::Code(1)), ..ending() }),
        ("was killed", Ending { exit: Some(Exit::Signal(9)), ..ending() }),
        ("its provider failed in the end", Ending { turn: Some(&provider), ..ending() }),
        ("the ceiling", Ending { stop: Some(&killed), ..ending() }),
        ("somebody stopped it", Ending { stop: Some(&cancelled), ..ending() }),
        ("we stopped it", Ending { stop: Some(&StopReason::Completed), session: None, ..ending() }),
    ] {
        assert!(at_the_bridge(ending, &all).starts_with("complete: Wire, Wire"), "{how}");
    }
    let claim = "the call of `declare_complete`";
    let rejected = "the artifact `plan`, whose newest draft was rejected for 1 fault";
    for (required, steps, missing) in [
        (&[][..], &[][..], vec![claim]),
        (&["plan"], &["accepted plan"], vec![claim]),
        (&["plan"], &["accepted plan", "claimed", "rejected plan"], vec![rejected]),
        (&["plan"], &["rejected plan"], vec![rejected, claim]),
        (&[], &["rejected plan"], vec![rejected, claim]),
    ] {
        let standing = standing(required, steps);
        let want = format!("resume, Unfinished: {}", missing.join(", "));
        assert_eq!(at_the_bridge(done, &standing), want, "said that it is done: {steps:?}");
        assert_eq!(at_the_bridge(ending(), &standing), want, "said nothing: {steps:?}");
    }
    let missing = ["the check".to_owned()];
    let unchecked = Ending { missing: &missing, ..done };
    assert_eq!(at_the_bridge(unchecked, &all), "resume, Unfinished: the check");
}

#[test]
fn a_run_that_never_claims_is_resumed_as_often_as_allowed_and_then_incomplete() {
    let (tools, standing) = (Tools::of(&crate::agents::OpenCode).unwrap(), standing(&["plan"], &[]));
    let bridge = Some(Handed { standing: &standing, tools: &tools });
    let ending = Ending { turn: Some(&DONE), bridge, ..ending() };
    let mut completion = Completion::new(policy());
    for _ in 0..FRUITLESS_RESUMES {
        let Decision::Resume { prompt, .. } = completion.decide(&ending) else { panic!("not resumed") };
        assert!(prompt.contains("`ostler_submit_artifact`") && prompt.contains("`ostler_declare_complete`"));
    }
    let Decision::Outcome(RunOutcome::Incomplete { missing }) = completion.decide(&ending) else {
        panic!("not over")
    };
    assert_eq!(missing, standing.missing_to_complete());
    assert_eq!(ending.evidence(), [Marker::Record.evidence()]);
}

#[test]
fn a_run_that_lost_its_workspace_is_incomplete_and_not_resumed() {
    let lost = Some("the workspace is gone");
    let (silence, crashed) = (rule(Rule::Silence), failed(FailureClass::Crashed, None));
    let gone = "incomplete, {\"outcome\":\"incomplete\",\"missing\":[\"the workspace is gone\"]}";
    let marker = gone.replace("]", &format!(",\"{NO_MARKER}\"]"));
    let table = [
        ("it says that it is done", Ending { turn: Some(&DONE), lost, ..ending() }, gone),
        ("it says nothing", Ending { lost, ..ending() }, &marker),
        ("it was silent", Ending { stop: Some(&silence), lost, ..ending() }, gone),
    ];
    for (name, ending, want) in table {
        let mut completion = Completion::new(policy());
        assert_eq!(told(&completion.decide(&ending)), want, "{name}");
        assert_eq!(completion.resumes(), 0, "{name}");
    }
    // What else ended it is still said.
    let failed = Ending { turn: Some(&crashed), lost, ..ending() };
    assert!(first(&failed).starts_with("agent_failed"), "{}", first(&failed));
    let checked = Completion::new(policy()).checked(&Ending { lost, ..ending() }, &[check("a", 0)]);
    assert_eq!(told(&checked), gone);
}

#[test]
fn a_stall_says_its_cause() {
    let (silence, cause) = (rule(Rule::Silence), QuietCause::ProcessStopped { pid: 7 });
    let stalled = Ending { stop: Some(&silence), session: None, cause: Some(&cause), ..ending() };
    assert!(
        first(&stalled).contains("\"cause\":{\"cause\":\"process_stopped\",\"pid\":7}"),
        "{}",
        first(&stalled)
    );
}

fn check(command: &str, exit_code: i32) -> Checked {
    Checked {
        command: command.to_owned(),
        passed: exit_code == 0,
        exit_code: Some(exit_code),
        trouble: None,
        ms: 1,
        tail: String::new(),
        output: None,
    }
}

#[test]
fn a_claim_holds_if_every_check_does() {
    let ending = Ending { turn: Some(&DONE), ..ending() };
    let mut completion = Completion::new(policy());
    let passed = completion.checked(&ending, &[check("a", 0), check("b", 0)]);
    assert_eq!(told(&passed), "complete: Checked, Checked, Reported");
    let missing = "the check `b`, which exited with code 1";
    let failed = [check("a", 0), check("b", 1)];
    // Without progress two resumes are enough.
    for _ in 0..2 {
        assert_eq!(told(&completion.checked(&ending, &failed)), format!("resume, Unfinished: {missing}"));
    }
    assert!(told(&completion.checked(&ending, &failed)).starts_with("incomplete, "));
    let alone = Ending { session: None, ..ending };
    let told = told(&Completion::new(policy()).checked(&alone, &failed));
    assert!(told.starts_with("incomplete, ") && told.contains(missing), "{told}");
}

/// A limit that may be reached or not is not called used up, and a crash is not resumed with money that may be spent.
#[test]
fn a_cost_that_is_not_known_is_told_as_such() {
    let cost = Some(Limit::MaxCost { usd: 1.0 });
    let unknown = Ending { forbidden: cost, unknown_cost: Some("up to 1 US dollar"), ..ending() };
    let killed = Ending { exit: Some(Exit::Signal(9)), ..unknown };
    let limit = failed(FailureClass::Limit, None);
    let at_the_limit = Ending { turn: Some(&limit), ..unknown };
    let turns = Some(Limit::MaxTurns { turns: 1 });
    let table = [
        ("killed", killed, "agent_failed", "it was ended by signal 9; not resumed: up to 1 US dollar"),
        ("unfinished", unknown, "agent_failed", "up to 1 US dollar"),
        ("the agent's own limit", at_the_limit, "agent_failed", "up to 1 US dollar"),
        ("another limit", Ending { forbidden: turns, ..unknown }, "timed_out", ""),
        (
            "killed, and it was known",
            Ending { unknown_cost: None, ..killed },
            "agent_failed",
            "it was ended by signal 9",
        ),
    ];
    for (name, ending, word, want) in table {
        let Decision::Outcome(outcome) = Completion::new(policy()).decide(&ending) else {
            panic!("{name}");
        };
        assert_eq!(outcome.name(), word, "{name}");
        if let RunOutcome::AgentFailed { detail, .. } = outcome {
            assert_eq!(detail, want, "{name}");
        }
    }
}
