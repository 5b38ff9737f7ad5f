//! The fake agent as a program: see the library `ostler_fake_agent`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ostler_fake_agent::run()
}
