//! A working agent is never stopped: every recording of a real one, on a clock of ours. Each is played quickly, and as
//! by the slowest agent that is still alive: every pause is just below the limit that holds there.

use std::time::Duration;

use ostler_agent::agent::Source;
use ostler_agent::watchdog::{Action, Input, Limits, State, Watchdog};

use crate::recordings::{self, FOLDERS, events};

/// Tells the watchdog, and answers if it asks what the agent's descendants do: nothing.
pub(crate) fn tell(dog: &mut Watchdog, now: Duration, input: Input, name: &str) {
    let shown = format!("{input:?}");
    match dog.step(now, input) {
        Action::Stop(rule) => panic!("{name}: {rule:?} at {now:?}, {shown}: {:?}", dog.why(now)),
        Action::Sample => tell(dog, now, Input::TreeSample { cpu: Duration::ZERO, io: 0, received: 0 }, name),
        Action::Nothing | Action::Warn(_) => {}
    }
}

/// Follows every wake-up until `now`, as a run loop does.
pub(crate) fn wait(dog: &mut Watchdog, now: Duration, name: &str) {
    while let Some(wake) = dog.wake_at().filter(|wake| *wake < now) {
        tell(dog, wake, Input::Tick, name);
    }
}

/// The longest pause that is still honest where the run is.
fn just_below_the_limit(dog: &Watchdog, limits: &Limits) -> Duration {
    let limit = match dog.state() {
        State::Starting => limits.start,
        State::Working => limits.silence,
        State::Waiting => limits.open_call,
        State::Ending => limits.after_result,
        State::Absent | State::Held | State::Parked | State::Exited | State::Stopped => Duration::ZERO,
    };
    limit.saturating_sub(Duration::from_millis(1))
}

fn play(limits: Limits, pause: impl Fn(&Watchdog, &Limits) -> Duration) {
    for (folder, agent, source) in FOLDERS.iter().filter(|(.., source)| *source == Source::Stdout) {
        for recording in recordings::of(folder, *source) {
            let name = format!("{folder}/{}", recording.name);
            let mut dog = Watchdog::new(limits);
            let mut now = Duration::ZERO;
            tell(&mut dog, now, Input::Spawned, &name);
            for event in events(*agent, &recording, &[]) {
                now += pause(&dog, &limits);
                wait(&mut dog, now, &name);
                tell(&mut dog, now, Input::of(&event), &name);
            }
            tell(&mut dog, now, Input::Exited, &name);
            tell(&mut dog, now, Input::Eof, &name);
            assert_eq!((dog.state(), dog.wake_at()), (State::Absent, None), "{name}");
        }
    }
}

#[test]
fn no_recorded_agent_is_stopped() {
    play(Limits::default(), |_, _| Duration::from_millis(200));
}

#[test]
fn not_even_the_slowest_recorded_agent_is_stopped() {
    // The ceiling is about all of a run, not about a pause.
    play(Limits { ceiling: Duration::MAX, ..Limits::default() }, just_below_the_limit);
}
