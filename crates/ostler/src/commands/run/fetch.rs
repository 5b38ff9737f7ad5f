//! A rehearsal costs nothing, so what it lacks is fetched: an agent that is not there is installed, and that is said.
//! For real work nothing is installed unasked.

use ostler_agent::agent::Agent;
use ostler_agent::agents::Claude;
use ostler_process::install::{Npm, Order, Wanted, install};

use crate::config::Settings;
use crate::display;
use crate::failure::Failure;
use crate::programs;
use crate::progress::Progress;
use crate::surroundings::Surroundings;

/// Who is fetched if nobody is there and nobody was named: the least to download. Measured in November 2026: Claude Code
/// 76 MB (235 MB on disk), OpenCode 116 MB (354 MB), Codex 165 MB (436 MB).
pub(super) const QUICKEST: &dyn Agent = &Claude;

/// Installs the verified version of an agent, and tells so on stderr. Dropping it ends npm and leaves nothing.
pub(super) async fn fetch(
    agent: &'static dyn Agent,
    settings: &Settings,
    here: &Surroundings,
) -> Result<(), Failure> {
    let package = agent.package();
    let npm = settings.config.install.npm.as_ref().map(|npm| npm.resolve());
    let order = Order {
        package,
        wanted: Wanted::verified(package),
        agents: here.home.agents(),
        npm: Npm::find(npm.as_deref(), here.variable("PATH"))?,
        place: programs::place(here),
    };
    let title = agent.title();
    display::tell(&format!(
        "{title} {} is not here: fetching it for this rehearsal, into {}",
        package.verified,
        display::short(&here.home.agents())
    ));
    let mut progress = Progress::begin(title);
    let installed = install(&order, &mut |step| progress.show(&step)).await;
    drop(progress);
    let installed = installed?;
    display::tell(&format!("{title} {} is installed; `ostler agents` lists what is here", installed.version));
    Ok(())
}
