//! What Codex writes into its own file.

#![no_main]

use ostler_agent::agent::Source;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ostler_fuzz::decoded(
    &ostler_agent::agents::Codex,
    Source::Transcript,
    bytes
));
