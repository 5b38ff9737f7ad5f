//! The ways in which an agent hangs, each a test with its number: with the real agent wherever a scripted model can
//! bring it about, with the fake agent elsewhere. Each is judged by the outcome, the rule, what `ostler runs why`
//! says, and by nothing being left.

mod asking;
mod ending;
mod pipes;
mod provider;
mod stalling;

/// What is said of a run in which nothing had to be done.
const COMPLETED: &str = "\
state    completed
watchdog absent, Ns after the start; nothing heard for Ns
seen     record at Ns
";

/// What is said of a run that has its result, and in which a rule ended what was left of it.
fn completed_by(rule: &str) -> String {
    format!(
        "state    completed\n\
         watchdog stopped, Ns after the start; nothing heard for Ns\n\
         seen     record at Ns\n\
         fired    rule `{rule}`\n"
    )
}
