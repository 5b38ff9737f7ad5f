//! What any program says.

#![no_main]

use ostler_agent::agent::Source;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let command = ostler_agent::agents::Command::parse("any").expect("a word");
    ostler_fuzz::decoded(&command, Source::Stdout, bytes);
});
