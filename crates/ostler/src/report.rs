//! The only place that shows an error to a person: what, because of what, and what to try.

use std::error::Error as _;
use std::io::{self, Write};
use std::iter::successors;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::display;
use crate::failure::Failure;
use crate::words::one_line;

/// The format of the JSON.
const VERSION: u32 = 1;

/// How errors are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    /// For people, on stderr.
    Text,
    /// For people on stderr, and for programs as one line of JSON on stdout.
    Json,
}

/// An error, for programs. The names of the fields are a promise.
#[derive(Debug, Serialize)]
struct ErrorLine {
    v: u32,
    kind: &'static str,
    error: ErrorDetail,
    exit_code: u8,
}

/// What failed, because of what, and what to try.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ErrorDetail {
    message: String,
    because: Vec<String>,
    #[serde(rename = "try")]
    hint: Option<String>,
}

impl ErrorDetail {
    pub(crate) fn of(failure: &Failure) -> Self {
        Self { message: failure.to_string(), because: causes(failure), hint: failure.hint() }
    }
}

/// Prints the failure, and returns the exit code. A reader that went away is not a failure.
pub(crate) fn report(failure: &Failure, format: ErrorFormat) -> ExitCode {
    if failure.is_closed_pipe() {
        return ExitCode::SUCCESS;
    }
    print(failure);
    print_json(format, failure.exit_code(), || ErrorDetail::of(failure));
    ExitCode::from(failure.exit_code())
}

/// Prints the failure for people only, on stderr.
pub(crate) fn print(failure: &Failure) {
    // If stderr is closed too, there is nowhere left to report to.
    let _ = write(failure, None, &mut display::stderr());
}

/// The same, for one of several things that were to be done.
pub(crate) fn print_about(name: &str, failure: &Failure) {
    let _ = write(failure, Some(name), &mut display::stderr());
}

/// Prints what clap has to say: help and version on stdout with code 0, mistakes on stderr with code 2.
pub(crate) fn refuse(refusal: &clap::Error, format: ErrorFormat) -> ExitCode {
    let _ = refusal.print();
    let code = u8::try_from(refusal.exit_code()).unwrap_or(2);
    if code != 0 {
        print_json(format, code, || usage_error(&refusal.render().to_string()));
    }
    ExitCode::from(code)
}

/// Prints one line of JSON, unless the command has printed something already: a second document, or a line after the
/// outcome of a run, would surprise its reader.
fn print_json(format: ErrorFormat, exit_code: u8, detail: impl FnOnce() -> ErrorDetail) {
    if format == ErrorFormat::Text || display::has_printed() {
        return;
    }
    let line = ErrorLine { v: VERSION, kind: "error", error: detail(), exit_code };
    if let Ok(mut bytes) = serde_json::to_vec(&line) {
        bytes.push(b'\n');
        let _ = display::bytes(&bytes);
    }
}

/// What clap printed: the message, a blank line, and then tips or the usage.
fn usage_error(text: &str) -> ErrorDetail {
    let mut parts = text.strip_prefix("error: ").unwrap_or(text).split("\n\n");
    let message = one_line(parts.next().unwrap_or_default());
    let rest: Vec<String> = parts.map(one_line).collect();
    let tip = rest.iter().find_map(|part| part.strip_prefix("tip: "));
    let usage = rest.iter().find(|part| part.starts_with("Usage: "));
    ErrorDetail {
        message,
        because: Vec::new(),
        hint: tip.map(str::to_owned).or_else(|| usage.cloned()).or_else(|| Some("--help".to_owned())),
    }
}

/// Why it failed, the nearest cause first. Errors of others often repeat their cause in their own words.
fn causes(failure: &Failure) -> Vec<String> {
    let mut last = failure.to_string();
    let mut causes = Vec::new();
    for cause in successors(failure.source(), |cause| (*cause).source()) {
        let because = cause.to_string();
        if because != last {
            causes.push(because.clone());
        }
        last = because;
    }
    causes
}

fn write(failure: &Failure, about: Option<&str>, out: &mut impl Write) -> io::Result<()> {
    let red: Style = AnsiColor::Red.on_default().bold();
    let green: Style = AnsiColor::Green.on_default();
    let about = about.map(|name| format!("{name}: ")).unwrap_or_default();
    writeln!(out, "{red}error:{red:#} {about}{failure}")?;
    for because in causes(failure) {
        writeln!(out, "  because {because}")?;
    }
    if let Some(hint) = failure.hint() {
        writeln!(out, "  {green}try:{green:#} {hint}")?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_usage_error_are_told_apart() {
        let detail = |message: &str, hint: &str| ErrorDetail {
            message: message.to_owned(),
            because: Vec::new(),
            hint: Some(hint.to_owned()),
        };
        let table = [
            (
                "error: unexpected argument '--jsno' found\n\n  tip: a similar argument exists: '--json'\n\nUsage: \
                 ostler agents [OPTIONS]\n\nFor more information, try '--help'.\n",
                detail("unexpected argument '--jsno' found", "a similar argument exists: '--json'"),
            ),
            (
                "error: the following required arguments were not provided:\n  <PROMPT>\n\nUsage: ostler run \
                 <PROMPT>\n\nFor more information, try '--help'.\n",
                detail(
                    "the following required arguments were not provided: <PROMPT>",
                    "Usage: ostler run <PROMPT>",
                ),
            ),
            ("error: no idea\n", detail("no idea", "--help")),
        ];
        for (text, want) in table {
            assert_eq!(usage_error(text), want, "{text}");
        }
    }
}
