//! `--allow`: rules in an agent's own syntax that widen `edits`, and nothing else.

use crate::agent::{Enforcement, Permissions, Refusal, Task};

/// What the rules of a task come to.
pub(super) enum Rules<'a> {
    /// These are allowed too.
    Widen(&'a [String]),
    /// All is allowed as it is.
    Needless(String),
}

/// The rules of a task, unless it contradicts itself.
pub(super) fn rules<'a>(agent: &'static str, task: &Task<'a>) -> Result<Rules<'a>, Refusal> {
    match task.granted() {
        Permissions::Deny if !task.allow.is_empty() => Err(Refusal {
            agent,
            reason: "a rule that allows something contradicts the permission level `deny`".to_owned(),
            hint: "leave out --allow, or use --permissions edits".to_owned(),
        }),
        Permissions::All if !task.allow.is_empty() => Ok(Rules::Needless(
            match task.enforcement {
                Enforcement::Agent => "--allow has no effect: the permission level `all` allows everything",
                Enforcement::Kernel => "--allow has no effect: inside the jail every tool is allowed",
            }
            .to_owned(),
        )),
        Permissions::Deny | Permissions::Edits | Permissions::All => Ok(Rules::Widen(task.allow)),
    }
}
