//! What holds for every sequence of inputs.

use proptest::prelude::*;

use super::tests::{SAID, closed, limits, opened, secs, task_closed, task_opened};
use super::*;

fn input() -> impl Strategy<Value = Input> {
    let id = || prop_oneof![Just("a"), Just("b"), Just("c")];
    let kind = prop_oneof![
        Just(EventKind::Started),
        Just(EventKind::Said),
        Just(EventKind::SubAgent),
        Just(EventKind::Spent),
        Just(EventKind::Unknown),
    ];
    prop_oneof![
        2 => Just(Input::Spawned),
        1 => Just(Input::Prompted),
        4 => kind.prop_map(Input::Event),
        2 => (0u64..100_000).prop_map(|delay| Input::Retrying { delay: secs(delay) }),
        3 => (id(), id()).prop_map(|(call, command)| opened(call, command)),
        3 => (id(), id()).prop_map(|(call, text)| closed(call, text)),
        1 => id().prop_map(task_opened),
        1 => id().prop_map(task_closed),
        1 => Just(Input::BridgeCall),
        1 => Just(Input::TranscriptGrew),
        1 => Just(Input::ScreenText),
        2 => Just(Input::ScreenSpinner),
        2 => (0u64..1000, any::<u16>(), 0u64..10_000)
            .prop_map(|(cpu, io, received)| Input::TreeSample { cpu: secs(cpu), io: u64::from(io), received }),
        1 => Just(Input::TreeBusy),
        1 => Just(Input::AnswerReceived),
        1 => Just(Input::KeepAliveReceived),
        1 => Just(Input::WorkspaceChanged),
        1 => Just(Input::Parked),
        1 => Just(Input::Unparked),
        1 => Just(Input::Held),
        1 => Just(Input::Released),
        1 => Just(Input::ResultSeen),
        1 => Just(Input::Eof),
        1 => Just(Input::Exited),
        4 => Just(Input::Tick),
    ]
}

/// Mostly within the limits, now and then beyond most of them.
fn moment() -> impl Strategy<Value = Duration> {
    prop_oneof![
        30 => (0u64..30_000).prop_map(Duration::from_millis),
        10 => (0u64..300).prop_map(Duration::from_secs),
        1 => (0u64..60_000).prop_map(Duration::from_secs),
    ]
}

/// Inputs, each a while after the one before.
fn story() -> impl Strategy<Value = Vec<(Duration, Input)>> {
    prop::collection::vec((moment(), input()), 0..60)
}

fn told(story: &[(Duration, Input)]) -> impl Iterator<Item = (Duration, Input)> {
    story.iter().scan(Duration::ZERO, |now, (gap, input)| {
        *now = now.saturating_add(*gap);
        Some((*now, input.clone()))
    })
}

/// What is done in the end, if the tree is idle and connections received so much since the last sample.
fn sampled(dog: &mut Watchdog, now: Duration, action: Action, received: u64) -> Action {
    match action {
        Action::Sample => dog.step(now, Input::TreeSample { cpu: Duration::ZERO, io: 0, received }),
        Action::Nothing | Action::Warn(_) | Action::Stop(_) => action,
    }
}

/// A turn that is under way after all that, and when it began.
fn working(limits: Limits, story: &[(Duration, Input)]) -> (Watchdog, Duration) {
    let mut dog = Watchdog::new(limits);
    let mut now = Duration::ZERO;
    for (at, input) in told(story) {
        now = at;
        let _ = dog.step(at, input);
    }
    let _ = dog.step(now, Input::Spawned);
    let _ = dog.step(now, SAID);
    (dog, now)
}

/// Jumps from one wake-up to the next until the watchdog says `Stop`, without a sign of life and with an idle tree.
fn left_alone(dog: &mut Watchdog, mut now: Duration) -> Option<(Duration, Rule)> {
    // More wake-ups than any stretch of quiet has: samples up to the ceiling, which an announced wait may last to, notices,
    // one extra period, and a later rule.
    for _ in 0..2000 {
        let wake = dog.wake_at()?;
        assert!(wake >= now, "woken at {wake:?}, which is before {now:?}");
        let before = now;
        now = wake;
        let action = dog.step(now, Input::Tick);
        assert!(action != Action::Nothing || now > before, "woken for nothing");
        if let Action::Stop(rule) = sampled(dog, now, action, 0) {
            return Some((now, rule));
        }
    }
    panic!("still not stopped at {now:?}: {:?}", dog.why(now));
}

proptest! {
    #[test]
    fn no_sequence_panics_not_even_with_a_broken_clock(story in prop::collection::vec((any::<u64>(), input()), 0..50)) {
        for limits in [limits(), Limits::default(), without_limits(Duration::ZERO), without_limits(Duration::MAX)] {
            let mut dog = Watchdog::new(limits);
            for (at, input) in &story {
                let _ = dog.step(Duration::from_nanos(*at).saturating_mul(1 << 20), input.clone());
                let _ = (dog.wake_at(), dog.why(Duration::from_nanos(*at)));
            }
        }
    }

    #[test]
    fn a_process_is_stopped_at_most_once(story in story()) {
        let mut dog = Watchdog::new(limits());
        let (mut process, mut wait) = (0, 0);
        for (now, input) in told(&story) {
            if input == Input::Spawned {
                (process, wait) = (0, 0);
            }
            match dog.step(now, input) {
                Action::Stop(Rule::MaxWait) => wait += 1,
                Action::Stop(_) => process += 1,
                Action::Nothing | Action::Warn(_) | Action::Sample => {}
            }
            prop_assert!(process <= 1 && wait <= 1, "{process} and {wait} stops");
        }
    }

    #[test]
    fn nothing_defers_the_ceiling(story in story()) {
        let limits = Limits { ceiling: secs(900), ..limits() };
        let mut dog = Watchdog::new(limits);
        // The same sum, written down once more in the plainest way.
        let (mut lives, mut waits, mut used, mut last) = (false, false, Duration::ZERO, Duration::ZERO);
        let mut stopped = false;
        for (now, input) in told(&story) {
            if lives && !waits {
                used = used.saturating_add(now.saturating_sub(last));
            }
            last = now;
            let counted = lives && !waits;
            match &input {
                Input::Spawned => (lives, waits, stopped) = (true, false, false),
                Input::Exited => lives = false,
                Input::Parked => waits = true,
                Input::Unparked => waits = false,
                _ => {}
            }
            let action = dog.step(now, input);
            let over = used >= limits.ceiling && (counted || (lives && !waits));
            if over && !stopped {
                prop_assert_eq!(action, Action::Stop(Rule::Ceiling));
            }
            stopped |= matches!(action, Action::Stop(_));
        }
    }

    #[test]
    fn without_calls_and_life_it_stops_within_two_periods(
        story in story(),
        work in 0u64..40_000_000,
    ) {
        let (mut dog, begin) = working(Limits { ceiling: Duration::MAX, ..limits() }, &story);
        prop_assert_eq!(dog.state(), State::Working);
        let mut now = begin;
        while let Some(wake) = dog.wake_at() {
            now = wake;
            let action = match dog.step(now, Input::Tick) {
                Action::Sample => {
                    let busy = Input::TreeSample { cpu: Duration::from_micros(work), io: 0, received: 0 };
                    dog.step(now, busy)
                }
                Action::Nothing => return Err(TestCaseError::fail("woken for nothing")),
                action => action,
            };
            if let Action::Stop(rule) = action {
                prop_assert_eq!(rule, Rule::Silence);
                break;
            }
        }
        prop_assert_eq!(dog.state(), State::Stopped);
        prop_assert!(now <= begin.saturating_add(limits().silence * 2), "{now:?}");
    }

    #[test]
    fn a_spinner_alone_does_not_defer_a_stop_beyond_the_limit_on_an_open_call(
        story in story(),
        pause in 1u64..90,
    ) {
        let limits = Limits { ceiling: Duration::MAX, ..limits() };
        let (mut dog, begin) = working(limits, &story);
        let mut now;
        let mut turn = begin;
        let stopped = loop {
            let wake = dog.wake_at().unwrap_or(Duration::MAX);
            let input = if wake < turn { Input::Tick } else { Input::ScreenSpinner };
            now = wake.min(turn);
            if now == turn {
                turn = turn.saturating_add(secs(pause));
            }
            let action = dog.step(now, input);
            if let Action::Stop(rule) = sampled(&mut dog, now, action, 0) {
                break rule;
            }
            prop_assert!(now <= begin.saturating_add(limits.open_call), "{now:?}");
        };
        prop_assert_eq!(stopped, Rule::Silence);
        prop_assert!(now >= begin.saturating_add(limits.open_call), "{now:?}");
    }

    #[test]
    fn keep_alives_alone_do_not_defer_a_stop_beyond_the_limit_on_an_open_call(
        story in story(),
        // Samples are 10 s apart.
        received in 1u64..1000,
    ) {
        let limits = Limits { ceiling: Duration::MAX, ..limits() };
        let (mut dog, begin) = working(limits, &story);
        let mut now;
        let stopped = loop {
            now = dog.wake_at().unwrap_or(Duration::MAX);
            prop_assert!(now <= begin.saturating_add(limits.open_call), "{now:?}");
            let action = dog.step(now, Input::Tick);
            if let Action::Stop(rule) = sampled(&mut dog, now, action, received) {
                break rule;
            }
        };
        prop_assert_eq!(stopped, Rule::Silence);
        prop_assert!(now >= begin.saturating_add(limits.open_call), "{now:?}");
    }

    #[test]
    fn an_answer_that_streams_is_left_alone_and_a_dead_one_is_found(
        story in story(),
        received in prop::collection::vec(1000u64..1_000_000, 1..300),
    ) {
        let limits = Limits { ceiling: Duration::MAX, ..limits() };
        let (mut dog, mut now) = working(limits, &story);
        for received in received {
            let action = loop {
                now = dog.wake_at().unwrap_or(Duration::MAX);
                match dog.step(now, Input::Tick) {
                    Action::Warn(_) => {}
                    action => break action,
                }
            };
            prop_assert_eq!(action, Action::Sample, "{:?}", now);
            prop_assert_eq!(sampled(&mut dog, now, action, received), Action::Nothing);
        }
        let last = now;
        let dead = left_alone(&mut dog, now);
        let is_found = matches!(dead, Some((at, Rule::Silence)) if at <= last.saturating_add(limits.silence));
        prop_assert!(is_found, "{dead:?} after {last:?}");
    }

    #[test]
    fn following_its_own_wake_ups_reaches_every_stop(story in story()) {
        let mut dog = Watchdog::new(limits());
        let mut now = Duration::ZERO;
        for (at, input) in told(&story) {
            now = at;
            let _ = dog.step(at, input);
            prop_assert!(dog.wake_at().is_none_or(|wake| wake >= at));
        }
        let next = dog.why(now).next;
        let due = left_alone(&mut dog, now);
        match (next, due) {
            (None, None) => prop_assert!(matches!(dog.state(), State::Absent | State::Stopped)),
            // A busy tree may turn out idle before its extra period begins: never later than was said.
            (Some(next), Some((at, rule))) => {
                prop_assert_eq!(next.rule, rule);
                prop_assert!(at <= next.at.max(now), "{at:?} is after {next:?}");
            }
            (next, due) => prop_assert!(false, "said {next:?}, did {due:?}"),
        }
    }

    #[test]
    fn waking_more_often_than_asked_changes_nothing(story in story()) {
        let mut calm = Watchdog::new(limits());
        let mut nervous = Watchdog::new(limits());
        for (now, input) in told(&story) {
            let one = all(&mut calm, now, input.clone());
            let two = all(&mut nervous, now, input);
            prop_assert_eq!(one, two);
            prop_assert_eq!(all(&mut nervous, now, Input::Tick), Vec::new());
        }
    }
}

/// All that is said at a moment.
fn all(dog: &mut Watchdog, now: Duration, input: Input) -> Vec<Action> {
    let mut said = Vec::new();
    let mut action = dog.step(now, input);
    while action != Action::Nothing {
        said.push(action);
        action = dog.step(now, Input::Tick);
    }
    said
}

fn without_limits(limit: Duration) -> Limits {
    Limits {
        start: limit,
        silence: limit,
        open_call: limit,
        repeats: Repeats { warn: 0, stop: u32::MAX, fast: limit },
        after_result: limit,
        after_exit: limit,
        ceiling: limit,
        max_wait: limit,
    }
}
