//! A working agent is never stopped: scripts of what agents do on long days. Recordings of real ones are played in
//! `tests/suite/liveness.rs`.

use super::tests::{SAID, closed, opened, secs, task_closed, task_opened};
use super::*;

/// What the agent's processes do while nothing is heard.
#[derive(Clone, Copy)]
enum Processes {
    Idle,
    Busy,
    /// The agent itself receives an answer.
    Reading,
}

/// Follows every wake-up until `now`, as a run loop does, and complains about a stop.
fn wait(dog: &mut Watchdog, now: Duration, processes: Processes, name: &str) {
    while let Some(wake) = dog.wake_at().filter(|wake| *wake < now) {
        let action = match dog.step(wake, Input::Tick) {
            Action::Sample => {
                let (cpu, received) = match processes {
                    Processes::Idle => (Duration::ZERO, 0),
                    Processes::Busy => (secs(100), 0),
                    Processes::Reading => (Duration::ZERO, 8_000),
                };
                dog.step(wake, Input::TreeSample { cpu, io: 0, received })
            }
            action => action,
        };
        if let Action::Stop(rule) = action {
            panic!("{name}: {rule:?} at {wake:?}: {:?}", dog.why(wake));
        }
    }
}

fn tell(dog: &mut Watchdog, now: Duration, input: Input, name: &str) {
    let shown = format!("{input:?}");
    if let Action::Stop(rule) = dog.step(now, input) {
        panic!("{name}: {rule:?} at {now:?}, {shown}: {:?}", dog.why(now));
    }
}

/// A script: pauses in seconds, each with what ends it.
fn perform(name: &str, processes: Processes, script: Vec<(u64, Input)>) {
    let mut dog = Watchdog::new(Limits::default());
    let mut now = Duration::ZERO;
    tell(&mut dog, now, Input::Spawned, name);
    for (pause, input) in script {
        now += secs(pause);
        wait(&mut dog, now, processes, name);
        tell(&mut dog, now, input, name);
    }
}

fn times(count: usize, inputs: impl Fn(usize) -> Vec<(u64, Input)>) -> Vec<(u64, Input)> {
    (0..count).flat_map(inputs).collect()
}

#[test]
fn long_days_of_agents_are_left_alone() {
    use Input::{
        BridgeCall, Eof, Exited, Parked, Prompted, ResultSeen, TranscriptGrew, Unparked, WorkspaceChanged,
    };
    use Processes::{Busy, Idle, Reading};
    let event = |kind| Input::Event(kind);
    let sub_agent = || event(EventKind::SubAgent);
    let end = || vec![(1, ResultSeen), (3, Exited), (0, Eof)];
    let script = |middle: Vec<(u64, Input)>| [vec![(1, event(EventKind::Started))], middle, end()].concat();

    perform("the first token takes 100 s, and so does the start", Idle, vec![(100, SAID)]);
    perform("a slow first token", Idle, script(vec![(100, event(EventKind::Thought)), (300, SAID)]));
    perform("thinking only", Idle, script(times(100, |_| vec![(30, event(EventKind::Thought))])));
    perform("an answer streams for 50 minutes and is told whole", Reading, script(vec![(3000, SAID)]));
    let build = vec![(5, opened("a", "make")), (3000, closed("a", "ok"))];
    perform("a build of 50 minutes", Busy, script(build));
    let wait_for_ci = vec![(5, opened("a", "gh run watch")), (1700, closed("a", "ok"))];
    perform("a command that sleeps for 28 minutes", Idle, script(wait_for_ci));
    let written = [vec![(5, opened("a", "train"))], times(30, |_| vec![(100, WorkspaceChanged)])].concat();
    perform("a tool that only writes files", Idle, script(written));
    let working = [vec![(5, opened("a", "task"))], times(60, |_| vec![(50, sub_agent())])].concat();
    perform("a sub-agent at work", Idle, script(working));
    let unseen = [vec![(5, opened("a", "task"))], times(30, |_| vec![(100, TranscriptGrew)])].concat();
    perform("a sub-agent that only its transcript shows", Idle, script(unseen));
    let dead = [vec![(5, SAID), (1, Eof)], times(30, |_| vec![(100, TranscriptGrew)])].concat();
    perform("stdout is dead and the transcript goes on", Idle, script(dead));
    perform("only the bridge hears of it", Idle, script(times(30, |_| vec![(100, BridgeCall)])));
    perform("descendants are busy between two records", Busy, script(vec![(700, SAID)]));
    let background = vec![
        (5, task_opened("t")),
        (1, ResultSeen),
        (1500, task_closed("t")),
        (8, event(EventKind::Started)),
        (200, SAID),
    ];
    perform("a background command outlives the turn, and a turn follows", Idle, script(background));
    let prompted = vec![(5, SAID), (1, ResultSeen), (9, Prompted), (300, SAID)];
    perform("a further prompt", Idle, script(prompted));
    let parked = vec![(5, SAID), (300, Parked), (40_000, Unparked), (350, SAID)];
    perform("parked for eleven hours", Idle, script(parked));
    let polls =
        times(15, |index| vec![(30, opened("a", "status")), (60, closed("a", &(index / 12).to_string()))]);
    perform("polls the same thing a dozen times", Idle, script(polls));
    let edits = times(50, |index| {
        let id = index.to_string();
        vec![(1, opened(&id, "cargo test")), (1, closed(&id, &format!("{index} errors left")))]
    });
    perform("tests again and again, and gets on", Idle, script(edits));
}
