//! What an agent calls in order to ask: `ostler __hook AGENT LEVEL`, with the question on its standard input and the
//! answer on its standard output. It needs no configuration and nothing of the run, so that it answers within
//! milliseconds, also while that is busy.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::process::ExitCode;

use ostler_agent::agent::{Permissions, find};

/// The longest question that is read: an edit of a file is in it.
const LONGEST: u64 = 64 * 1024 * 1024;

/// Answers, if these are the arguments of a hook. It always ends well: where there is no answer the agent asks on its
/// screen, and an error would be shown there.
pub(crate) fn answer(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let words: Vec<OsString> = args.into_iter().skip(1).take(3).collect();
    let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let ["__hook", agent, level] = words[..] else { return None };
    let answer = find(agent).and_then(|agent| agent.interactive()).zip(Permissions::named(level)).and_then(
        |(terminal, permissions)| {
            let mut asked = Vec::new();
            std::io::stdin().take(LONGEST).read_to_end(&mut asked).ok()?;
            terminal.answer(&asked, permissions)
        },
    );
    if let Some(answer) = answer {
        // Whoever asked may be gone.
        let _ = writeln!(std::io::stdout(), "{answer}");
    }
    Some(ExitCode::SUCCESS)
}
