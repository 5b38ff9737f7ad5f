//! The fake agent as a program: see `ostler_rehearsal::fake_agent`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ostler_rehearsal::fake_agent::run()
}
