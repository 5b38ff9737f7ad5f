//! The end of a run, for people: how it ended, what is different now, what it took, and where to look next.

use std::path::Path;

use ostler_agent::agent;
use ostler_agent::run_event::Changes;
use ostler_process::journal::Facts;
use serde_json::Value;

use super::args::Explained;
use super::show::short;
use crate::account::{self, Rows};
use crate::advice::{Case, advice};
use crate::display;
use crate::surroundings::Surroundings;

/// All of it, below a blank line.
pub(super) fn summary(
    outcome: &Value,
    facts: &Facts,
    (changes, explained): (Option<&Changes>, Explained),
    here: &Surroundings,
) -> String {
    let mut rows = Rows::new("  ", display::columns_or_endless());
    account::facts(&mut rows, outcome, changes, facts.rehearse.is_some());
    let named = match explained {
        Explained::Some => account::DENIALS_NAMED,
        Explained::All => usize::MAX,
    };
    account::denials(&mut rows, outcome, named);
    let tries = tries(outcome, facts, here);
    if !tries.is_empty() {
        rows.add_whole("try", &tries.join("\n"));
    }
    rows.add_whole("look", &format!("ostler runs show {}", short(&facts.run)));
    format!("\n{}{}", account::headline(outcome), rows.into_text())
}

/// What to try after this outcome.
pub(crate) fn tries(outcome: &Value, facts: &Facts, here: &Surroundings) -> Vec<String> {
    let login = login(facts, here);
    advice(&Case {
        outcome,
        run: short(&facts.run),
        agent: &facts.agent,
        login: login.as_deref(),
        is_rehearsed: facts.rehearse.is_some(),
        waits_for_quota: facts.given.wait_for_quota,
    })
}

/// The command that logs in, with a program that a shell finds.
fn login(facts: &Facts, here: &Surroundings) -> Option<String> {
    let agent = agent::find(&facts.agent)?;
    let words = agent.login();
    if words.is_empty() {
        return None;
    }
    let name = agent.package().program;
    let path = here.variable("PATH").unwrap_or_default();
    let is_on_path = std::env::split_paths(path).any(|folder| folder.join(name).is_file());
    let program = if is_on_path { name.to_owned() } else { quoted(&facts.program) };
    Some(format!("{program} {}", words.join(" ")))
}

fn quoted(program: &Path) -> String {
    let shown = display::short(program);
    // A quoted `~` would be a folder of that name.
    if shown.starts_with('~') && !shown.contains(' ') {
        return shown;
    }
    let whole = program.display().to_string();
    shlex::try_quote(&whole).map(|quoted| quoted.into_owned()).unwrap_or(whole)
}
