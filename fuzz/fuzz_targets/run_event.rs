//! A line of a journal.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ostler_fuzz::journal_line(bytes));
