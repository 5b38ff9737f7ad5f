//! How much longer a task takes through `ostler run` than with the bare agent: same script, same model, same home.

use std::path::Path;
use std::time::Duration;

use crate::agent::{Model, Player};
use crate::process;
use crate::sums::{Times, ms};

/// An answer with a tool call in it, as short as a task can be: whatever Ostler adds shows most.
const SCRIPT: &str = r#"
v = 1
[[conversation]]
[[conversation.step]]
reply = [{ text = "I will look." }, { tool_by_role = "shell", command = "echo here" }]
[[conversation.step]]
reply = [{ text = "It is here." }]
"#;

/// Starts that are not counted: homes are set up, files come from the disk.
const WARM: usize = 2;

pub(crate) fn measure(ostler: &Path, pairs: usize) {
    let model = Model::start(ostler, SCRIPT);
    println!("added wall time of `ostler run`, {pairs} pairs in turns, one model for both");
    for player in Player::all(&model) {
        for _ in 0..WARM {
            player.bare();
            player.through(ostler);
        }
        let (mut taken, mut bare_cpu, mut through_cpu) = (Vec::new(), Duration::ZERO, Duration::ZERO);
        for pair in 0..pairs {
            let mut bare = || with_cpu(&mut bare_cpu, || player.bare());
            let mut through = || with_cpu(&mut through_cpu, || player.through(ostler));
            // Whoever goes first may find a cooler machine.
            let (bare, through) = if pair % 2 == 0 {
                let bare = bare();
                (bare, through())
            } else {
                let through = through();
                (bare(), through)
            };
            taken.push((ms(bare), ms(through), ms(player.asked_for_version())));
        }
        let bare = Times::of(taken.iter().map(|(bare, ..)| *bare));
        let through = Times::of(taken.iter().map(|(_, through, _)| *through));
        let added = Times::of(taken.iter().map(|(bare, through, _)| through - bare));
        let probe = Times::of(taken.iter().map(|(.., probe)| *probe));
        let median = added.median();
        println!("{}", player.agent.name());
        println!("  bare {:.0} ms, through Ostler {:.0} ms (medians)", bare.median(), through.median());
        println!(
            "  added: median {median:.1} ms ({:+.1} %), p90 {:.1} ms; least against least {:+.1} ms",
            100.0 * median / bare.median(),
            added.p90(),
            through.least() - bare.least()
        );
        let cpu = (ms(through_cpu) - ms(bare_cpu)) / pairs as f64;
        println!(
            "  processor time: bare {:.0} ms, {cpu:+.1} ms through Ostler (means)",
            ms(bare_cpu) / pairs as f64
        );
        println!("  of these, a question for its version would take {:.1} ms", probe.median());
    }
}

/// Processor time is what a busy machine leaves as it is.
fn with_cpu<T>(sum: &mut Duration, work: impl FnOnce() -> T) -> T {
    let before = process::of_children();
    let done = work();
    *sum += process::of_children().saturating_sub(before);
    done
}
