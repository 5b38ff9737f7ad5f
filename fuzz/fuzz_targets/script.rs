//! What a person wrote for the scripted model or for the fake agent: a play, or a complaint that can be shown.

#![no_main]

use ostler_agent::document::Format;
use ostler_rehearsal::script;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let format = if text.starts_with('{') { Format::Json } else { Format::Toml };
    if let Err(mistake) = script::parse("fuzzed", text, format) {
        let _ = (mistake.to_string(), mistake.hint());
    }
});
