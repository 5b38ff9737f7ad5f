//! Which walls this machine can put around an agent.

use ostler_agent::jail::{JailKind, JailReport};
use ostler_process::jail::{TrialError, find_remedy, try_wall};

use super::{Finding, Status};
use crate::display::with_causes;
use crate::jailing::remedy;

const NAME: &str = "jail";

/// Tries both walls, the better one first.
pub(super) async fn find_walls() -> Finding {
    let Ok(ostler) = std::env::current_exe() else {
        return Finding::new(NAME, Status::Note, "could not tell which program this is");
    };
    let namespace = match try_wall(JailKind::Namespace, &ostler).await {
        Ok(report) => return Finding::new(NAME, Status::Ok, describe(&report)),
        Err(error) => error,
    };
    let remedy = remedy();
    let reason = with_causes(&namespace);
    match try_wall(JailKind::Landlock, &ostler).await {
        Ok(report) => {
            Finding::new(NAME, Status::Note, format!("{}; {reason}", describe(&report))).with_hint(remedy)
        }
        Err(error) => {
            let all: Vec<String> = remedy.into_iter().chain(find_remedy()).collect();
            let remedy = (!all.is_empty()).then(|| all.join("; or "));
            Finding::new(NAME, Status::Missing, without_walls(&reason, &error)).with_hint(remedy)
        }
    }
}

fn describe(report: &JailReport) -> String {
    match (report.kind, report.abi) {
        (JailKind::Namespace, Some(abi)) => format!("namespaces and Landlock (ABI {abi}) work here"),
        (JailKind::Namespace, None) => "namespaces work here, Landlock does not".to_owned(),
        (JailKind::Landlock, abi) => format!("only Landlock (ABI {}) works here", abi.unwrap_or_default()),
    }
}

fn without_walls(namespace: &str, landlock: &TrialError) -> String {
    format!("neither namespaces ({namespace}) nor Landlock ({}) work here", with_causes(landlock))
}
