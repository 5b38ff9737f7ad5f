//! The only place that shows an error to a person: what, because of what, and what to try.

use std::error::Error as _;
use std::io::{self, Write};
use std::iter::successors;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

use crate::display;
use crate::failure::Failure;

/// Shows the failure on stderr, and gives the code to end with. A reader that went away is not a failure.
pub(crate) fn report(failure: &Failure) -> ExitCode {
    if failure.is_closed_pipe() {
        return ExitCode::SUCCESS;
    }
    // If stderr is gone too, there is nobody left to tell.
    let _ = write(failure, &mut display::stderr());
    ExitCode::from(failure.exit_code())
}

/// Shows what clap has to say: help and version on stdout with code 0, mistakes on stderr with code 2.
pub(crate) fn refuse(refusal: &clap::Error) -> ExitCode {
    let _ = refusal.print();
    ExitCode::from(u8::try_from(refusal.exit_code()).unwrap_or(2))
}

fn write(failure: &Failure, out: &mut impl Write) -> io::Result<()> {
    let red: Style = AnsiColor::Red.on_default().bold();
    let green: Style = AnsiColor::Green.on_default();
    writeln!(out, "{red}error:{red:#} {failure}")?;
    let mut said = failure.to_string();
    for cause in successors(failure.source(), |cause| (*cause).source()) {
        // Errors of others often repeat their cause in their own words.
        let because = cause.to_string();
        if because != said {
            writeln!(out, "  because {because}")?;
        }
        said = because;
    }
    if let Some(hint) = failure.hint() {
        writeln!(out, "  {green}try:{green:#} {hint}")?;
    }
    out.flush()
}
