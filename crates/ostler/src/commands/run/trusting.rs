//! Whether the agent of a run may load what the repository brings: asked at the terminal, if somebody sits there.

use ostler_agent::jail::JailKind;
use ostler_agent::repository_config::Masking;
use ostler_process::run::RunError;
use ostler_process::trust::{Decision, Gate};

use super::answering;
use super::args::Voice;
use super::choice::Choice;
use crate::commands::trust;
use crate::config::Settings;
use crate::failure::Failure;
use crate::jailing::Wall;
use crate::surroundings::Surroundings;

const QUESTION: &str =
    "\nTrust it, and let agents load these files? Without, the run goes on and loads none. [y/N] ";

/// Refuses an agent that would load files that are not trusted. Before anything of it is started: to ask it for its prices
/// would be enough.
pub(super) fn refuse_unmasked(
    choice: &Choice,
    wall: Option<&Wall>,
    here: &Surroundings,
) -> Result<(), Failure> {
    let agent = choice.agent.agent();
    match gate(wall, here).decide(agent, &choice.workspace)? {
        Decision::Nothing | Decision::Trusted(_) => Ok(()),
        Decision::Untrusted(untrusted) => {
            Ok(untrusted.refuse_unmasked(agent.name()).map_err(RunError::from)?)
        }
    }
}

/// Decides about what a repository brings for an agent behind this wall: only namespaces can mask files.
pub(super) fn gate(wall: Option<&Wall>, here: &Surroundings) -> Gate {
    let masking = match wall {
        Some(Wall { kind: JailKind::Namespace, .. }) => Masking::InPlace,
        Some(Wall { kind: JailKind::Landlock, .. }) | None => Masking::Unavailable,
    };
    Gate { masking, ..here.gate() }
}

/// Whether the user has just trusted the repository. Asks only about what is not trusted and can be.
pub(super) fn ask(
    choice: &Choice,
    settings: &Settings,
    voice: Voice,
    here: &Surroundings,
) -> Result<bool, Failure> {
    if !answering::is_possible(voice) {
        return Ok(false);
    }
    let gate = here.gate();
    let is_untrusted = match gate.decide(choice.agent.agent(), &choice.workspace)? {
        Decision::Nothing | Decision::Trusted(_) => false,
        Decision::Untrusted(untrusted) => untrusted.problem.is_none(),
    };
    let is_ignored =
        settings.ignored.as_ref().is_some_and(|ignored| choice.workspace.starts_with(&ignored.project));
    if !is_untrusted && !is_ignored {
        return Ok(false);
    }
    let inspection = gate.inspect(&choice.workspace);
    if inspection.problem.is_some() {
        return Ok(false);
    }
    crate::display::text(&trust::listing(&choice.workspace, &inspection, here)?)?;
    Ok(trust::confirm(QUESTION)? && trust::trust(&inspection, here)?)
}
