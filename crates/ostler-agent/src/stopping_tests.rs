use proptest::prelude::*;

use super::*;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn ruled(rule: Rule) -> Input {
    Input::Begin(StopReason::Rule { rule })
}

fn cancelled() -> Input {
    Input::Begin(StopReason::Cancelled { by: CancelledBy::Interrupt })
}

type Case<'a> = (&'a str, Ear, Vec<(u64, Input, Action)>);

#[test]
fn rungs() {
    use Action::{CloseStdin, Interrupt, KillAll, Nothing, Verify};
    use Input::{Counted, Exited, Gone, Hurry, Tick, TurnEnded};
    const INT: Action = Action::Signal(Signal::Int);
    const TERM: Action = Action::Signal(Signal::Term);
    let done = |survivors: u32| Action::Done { survivors: Some(survivors) };
    let table: Vec<Case<'_>> = vec![
        (
            "nothing helps",
            Ear::Listens,
            vec![
                (10, ruled(Rule::Silence), Interrupt),
                (14, Tick, Nothing),
                (15, Tick, CloseStdin),
                (16, Tick, INT),
                (18, Tick, Nothing),
                (19, Tick, TERM),
                (22, Tick, KillAll),
                (24, Tick, Verify),
                (24, Counted(2), Nothing),
                (25, Counted(1), Nothing),
                (26, Tick, done(1)),
                (99, Tick, Nothing),
            ],
        ),
        (
            "an interrupt is enough to end the turn, and the end of input to exit",
            Ear::Listens,
            vec![
                (10, cancelled(), Interrupt),
                (11, TurnEnded, CloseStdin),
                (11, TurnEnded, Nothing),
                (11, Exited, KillAll),
                (11, Gone, Verify),
                (11, Counted(0), done(0)),
            ],
        ),
        (
            "on a terminal the turn is broken off, and signals end the program",
            Ear::Terminal,
            vec![(10, cancelled(), Interrupt), (11, TurnEnded, INT), (14, Tick, TERM), (15, Exited, KillAll)],
        ),
        (
            "without an input there are signals",
            Ear::Closed,
            vec![(10, cancelled(), INT), (13, Tick, TERM), (14, Exited, KillAll)],
        ),
        (
            "a second Ctrl-C kills now",
            Ear::Listens,
            vec![
                (10, cancelled(), Interrupt),
                (11, Hurry, KillAll),
                (11, Hurry, Nothing),
                (12, Exited, Nothing),
                (12, Gone, Verify),
            ],
        ),
        (
            "a hurry without a beginning kills too",
            Ear::Listens,
            vec![(1, Hurry, KillAll), (2, cancelled(), Nothing), (3, Tick, Verify)],
        ),
        (
            "the first reason stands",
            Ear::Listens,
            vec![(10, cancelled(), Interrupt), (11, ruled(Rule::Ceiling), Nothing)],
        ),
        (
            "after the result there is nothing to interrupt",
            Ear::Listens,
            vec![(10, ruled(Rule::AfterResult), CloseStdin), (11, Tick, INT)],
        ),
        ("after the exit there is nobody to ask", Ear::Listens, vec![(10, ruled(Rule::AfterExit), KillAll)]),
        (
            "what an agent leaves behind is swept up",
            Ear::Closed,
            vec![
                (9, Exited, Nothing),
                (10, Input::Begin(StopReason::Exited), KillAll),
                (12, Tick, Verify),
                (12, Counted(0), done(0)),
            ],
        ),
        (
            "nothing is left, which is verified all the same",
            Ear::Closed,
            vec![
                (9, Exited, Nothing),
                (9, Gone, Nothing),
                (10, Input::Begin(StopReason::Exited), Verify),
                (10, Counted(0), done(0)),
            ],
        ),
        (
            "what cannot be counted is not called nothing",
            Ear::Closed,
            vec![
                (9, Input::Begin(StopReason::Exited), KillAll),
                (11, Tick, Verify),
                (13, Tick, Action::Done { survivors: None }),
            ],
        ),
        (
            "a late tick gives the next rung its whole time",
            Ear::Closed,
            vec![(10, cancelled(), INT), (500, Tick, TERM), (502, Tick, Nothing), (503, Tick, KillAll)],
        ),
    ];
    for (name, ear, steps) in table {
        let mut ladder = Ladder::new(Patience::default(), ear);
        for (at, input, want) in steps {
            let shown = format!("{input:?}");
            assert_eq!(ladder.step(secs(at), input), want, "{name}, at {at}s, {shown}");
        }
    }
}

#[test]
fn the_whole_ladder_is_short() {
    let mut ladder = Ladder::new(Patience::default(), Ear::Listens);
    let _ = ladder.step(secs(0), cancelled());
    let mut names = vec![ladder.rung().map(Rung::name)];
    let mut now = secs(0);
    while let Some(wake) = ladder.wake_at() {
        now = wake;
        let _ = ladder.step(now, Input::Tick);
        names.push(ladder.rung().map(Rung::name));
    }
    let want = ["interrupt", "close_stdin", "int", "term", "kill", "verify"].map(Some);
    assert_eq!(names, [want.as_slice(), &[None]].concat());
    assert_eq!(now, secs(16));
}

#[test]
fn a_closed_input_is_not_closed_again() {
    let mut ladder = Ladder::new(Patience::default(), Ear::Closed);
    assert_eq!(ladder.step(secs(1), cancelled()), Action::Signal(Signal::Int));
    assert_eq!(ladder.reason(), Some(&StopReason::Cancelled { by: CancelledBy::Interrupt }));
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        Just(cancelled()),
        Just(ruled(Rule::AfterResult)),
        Just(Input::Begin(StopReason::Exited)),
        Just(Input::TurnEnded),
        Just(Input::Exited),
        Just(Input::Gone),
        (0u32..3).prop_map(Input::Counted),
        Just(Input::Hurry),
        Just(Input::Tick),
    ]
}

fn ear() -> impl Strategy<Value = Ear> {
    prop_oneof![Just(Ear::Listens), Just(Ear::Closed)]
}

/// Where on the ladder an action belongs.
fn height(action: Action) -> Option<u32> {
    match action {
        Action::Nothing => None,
        Action::Interrupt => Some(0),
        Action::CloseStdin => Some(1),
        Action::Signal(Signal::Int) => Some(2),
        Action::Signal(Signal::Term) => Some(3),
        Action::KillAll => Some(4),
        Action::Verify => Some(5),
        Action::Done { .. } => Some(6),
    }
}

proptest! {
    #[test]
    fn it_only_climbs_and_always_ends(
        ear in ear(),
        story in prop::collection::vec((0u64..5_000, input()), 0..60),
    ) {
        let mut ladder = Ladder::new(Patience::default(), ear);
        let mut now = Duration::ZERO;
        let mut heights = Vec::new();
        for (gap, input) in story {
            now += Duration::from_millis(gap);
            heights.extend(height(ladder.step(now, input)));
            prop_assert!(ladder.wake_at().is_none_or(|wake| wake >= now));
        }
        heights.extend(height(ladder.step(now, cancelled())));
        let begun = now;
        while let Some(wake) = ladder.wake_at() {
            now = wake;
            let taken = height(ladder.step(now, Input::Tick));
            prop_assert!(taken.is_some(), "woken for nothing");
            heights.extend(taken);
        }
        prop_assert!(heights.is_sorted_by(|one, two| one < two), "{heights:?}");
        prop_assert_eq!(heights.last(), Some(&6));
        prop_assert!(now - begun <= secs(16));
        prop_assert!(heights.contains(&5), "verified before it is done");
    }

    #[test]
    fn a_broken_clock_does_no_harm(story in prop::collection::vec((any::<u64>(), input()), 0..60)) {
        let mut ladder = Ladder::new(Patience::default(), Ear::Listens);
        for (at, input) in story {
            let _ = ladder.step(Duration::from_secs(at), input);
            let _ = ladder.wake_at();
        }
    }
}
