//! The binary: arguments, config, wiring, words for people.

fn main() {}
