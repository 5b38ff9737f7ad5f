//! What Ostler costs, against what would be there without it, in the same run and in turns.
//!
//! Prints figures, gates nothing. Usage: `figures SUBJECT OSTLER_BINARY [COUNT]`; the scripts in `bench/` give the
//! binary, and `OSTLER_TEST_AGENTS` names where the real agents are. Everything stays on loopback, in a home of its own.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement that cannot go on may say so")]

mod added;
mod agent;
#[cfg(target_os = "linux")]
mod gateway;
mod idle;
mod many;
mod process;
mod start;
mod sums;
#[cfg(target_os = "linux")]
mod terminal;

use std::path::PathBuf;

fn main() {
    #[cfg(target_os = "linux")]
    if std::env::var_os(gateway::null::NULL).is_some() {
        return gateway::null::run();
    }
    // `cargo bench` adds a word of its own.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let binary = words.get(1).map(PathBuf::from);
    let count = words.get(2).and_then(|count| count.parse().ok());
    let Some((subject, ostler)) = words.first().zip(binary.filter(|binary| binary.is_file())) else {
        println!(
            "usage: figures added|gateway|idle|start|many|terminal PATH_OF_OSTLER [COUNT] (bench/*/run gives them)"
        );
        return;
    };
    println!("load before: {}", process::load());
    match subject.as_str() {
        "added" => added::measure(&ostler, count.unwrap_or(20)),
        #[cfg(target_os = "linux")]
        "gateway" => gateway::measure(&ostler, count.unwrap_or(200)),
        "idle" => idle::measure(&ostler, count.unwrap_or(20)),
        "start" => start::measure(&ostler, count.unwrap_or(200)),
        "many" => many::measure(&ostler, count.unwrap_or(50)),
        #[cfg(target_os = "linux")]
        "terminal" => terminal::measure(&ostler, count.unwrap_or(20)),
        other => println!("no subject `{other}`"),
    }
    println!("load after: {}", process::load());
}
