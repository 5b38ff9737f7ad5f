//! What a project's file may set while the project is not trusted: what tightens a run, and what only concerns the display.
//! All else is ignored.

use std::cmp::Ordering;
use std::net::SocketAddr;

use ostler_agent::completion::FIRST_PAUSE;
use ostler_agent::watchdog::Limits;
use ostler_rehearsal::script::BUILTIN;

use super::sections::{Config, Run};
use super::values::{Count, Money, Span};
use crate::commands::run::{DEFAULT_LEVEL, MAX_RESUMES};

/// Whether a key of a project's file may be obeyed. `below` is what holds without that file.
pub(super) fn may_set(key: &[String], project: &Config, below: &Config) -> bool {
    let key: Vec<_> = key.iter().map(String::as_str).collect();
    match key.as_slice() {
        // Only agents that Ostler knows can be named there, never a command.
        ["agents", "default"] => true,
        ["display", "color"] | ["run", "terminal_size"] => true,
        ["rehearse", "script"] => project.rehearse.script.as_deref().is_some_and(is_builtin),
        ["rehearse", "listen"] => project.rehearse.listen.as_deref().is_some_and(is_loopback),
        ["run", name] => tightens(name, &project.run, &below.run),
        _ => false,
    }
}

/// Whether a value of `[run]` allows an agent no more than what holds below it.
fn tightens(name: &str, project: &Run, below: &Run) -> bool {
    let limits = Limits::default();
    let span = |of: fn(&Run) -> Option<Span>, default| {
        compare(of(project).map(|span| span.0), Some(of(below).map_or(default, |span| span.0)))
    };
    let count = |of: fn(&Run) -> Option<Count>, default: Option<u32>| {
        compare(of(project).map(|count| count.0), of(below).map(|count| count.0).or(default))
    };
    match name {
        "permissions" => project.permissions <= Some(below.permissions.unwrap_or(DEFAULT_LEVEL)),
        "start" => span(|run| run.start, limits.start).is_le(),
        "silence" => span(|run| run.silence, limits.silence).is_le(),
        "open_call" => span(|run| run.open_call, limits.open_call).is_le(),
        "ceiling" => span(|run| run.ceiling, limits.ceiling).is_le(),
        "max_wait" => span(|run| run.max_wait, limits.max_wait).is_le(),
        // A longer pause asks the provider less often.
        "resume_pause" => span(|run| run.resume_pause, FIRST_PAUSE).is_ge(),
        "loop" => count(|run| run.r#loop, Some(limits.repeats.stop)).is_le(),
        "max_resumes" => count(|run| run.max_resumes, Some(MAX_RESUMES)).is_le(),
        "max_tokens" => count(|run| run.max_tokens, None).is_le(),
        "max_turns" => count(|run| run.max_turns, None).is_le(),
        "max_cost" => {
            let cost = |money: Option<Money>| money.map(|money| money.0);
            compare(cost(project.max_cost), cost(below.max_cost)).is_le()
        }
        "wait_for_quota" => project.wait_for_quota.is_some_and(|switch| !switch.0),
        _ => false,
    }
}

/// The order of a project's limit and the one below it. No limit is more than any.
fn compare<T: PartialOrd>(project: Option<T>, below: Option<T>) -> Ordering {
    match (project, below) {
        (Some(project), Some(below)) => project.partial_cmp(&below).unwrap_or(Ordering::Greater),
        (Some(_), None) => Ordering::Less,
        (None, _) => Ordering::Greater,
    }
}

pub(super) fn is_builtin(script: &str) -> bool {
    BUILTIN.iter().any(|builtin| builtin.name == script)
}

/// Whether only this machine can reach that address. What is not understood is not.
fn is_loopback(address: &str) -> bool {
    let numeric = address.replacen("localhost:", "127.0.0.1:", 1);
    numeric.parse().is_ok_and(|address: SocketAddr| address.ip().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_that_is_not_trusted_may_only_tighten() {
        let table = [
            ("run.permissions = \"deny\"", "", true),
            ("run.permissions = \"edits\"", "", true),
            ("run.permissions = \"all\"", "", false),
            ("run.permissions = \"edits\"", "run.permissions = \"deny\"", false),
            ("run.permissions = \"edits\"", "run.permissions = \"all\"", true),
            ("run.permissions = \"all\"", "run.permissions = \"all\"", true),
            ("run.ceiling = \"10m\"", "", true),
            ("run.ceiling = \"10h\"", "", false),
            ("run.ceiling = \"10m\"", "run.ceiling = \"5m\"", false),
            ("run.ceiling = \"10h\"", "run.ceiling = \"20h\"", true),
            ("run.start = \"1s\"", "", true),
            ("run.silence = \"1s\"", "", true),
            ("run.silence = \"9h\"", "", false),
            ("run.open_call = \"9h\"", "", false),
            ("run.max_wait = \"1s\"", "", true),
            ("run.resume_pause = \"1s\"", "", false),
            ("run.resume_pause = \"60s\"", "", true),
            ("run.loop = 2", "", true),
            ("run.loop = 2000", "", false),
            ("run.max_resumes = 0", "", true),
            ("run.max_resumes = 4", "", false),
            ("run.max_cost = 1.5", "", true),
            ("run.max_cost = 1.5", "run.max_cost = 1", false),
            ("run.max_tokens = 10", "", true),
            ("run.max_tokens = 10", "run.max_tokens = 9", false),
            ("run.max_turns = 3", "run.max_turns = 3", true),
            ("run.wait_for_quota = false", "", true),
            ("run.wait_for_quota = true", "", false),
            ("run.bridge = false", "", false),
            ("run.terminal_size = \"120x40\"", "", true),
            ("agents.default = \"codex\"", "", true),
            ("agents.codex.program = \"/x\"", "", false),
            ("install.npm = \"/x\"", "", false),
            ("notify.command = \"x\"", "", false),
            ("mcp.x.command = \"x\"", "", false),
            ("mcp.x.headers.authorization = \"x\"", "", false),
            ("prices.x.input = 1", "", false),
            ("network.probe = \"x:1\"", "", false),
            ("serve.max_idle = 1", "", false),
            ("jail.read = [\"/x\"]", "", false),
            ("jail.hide = []", "", false),
            ("jail.net = \"all\"", "", false),
            ("serve.models.gpt = \"claude\"", "", false),
            ("rehearse.script = \"tools\"", "", true),
            ("rehearse.script = \"evil.toml\"", "", false),
            ("rehearse.listen = \"localhost:0\"", "", true),
            ("rehearse.listen = \"[::1]:0\"", "", true),
            ("rehearse.listen = \"0.0.0.0:0\"", "", false),
            ("rehearse.listen = \"[::]:80\"", "", false),
            ("display.color = \"never\"", "", true),
            ("log.filter = \"trace\"", "", false),
        ];
        for (project, below, want) in table {
            let key: Vec<String> =
                project.split(" = ").next().unwrap().split('.').map(str::to_owned).collect();
            let (set, under) = (toml::from_str(project).unwrap(), toml::from_str(below).unwrap());
            assert_eq!(may_set(&key, &set, &under), want, "{project} over {below:?}");
        }
    }
}
