//! What an agent is told about the bridge, with the tools called as that agent sees them.

use std::time::Duration;

use crate::agent::Agent;
use crate::standing::Standing;

/// The tools that an agent is told of, as it sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    /// Hands over an artifact.
    pub submit: String,
    /// Repairs a rejected one.
    pub edit: String,
    /// Declares completion.
    pub declare: String,
    /// Tells the task again.
    pub instructions: String,
}

impl Tools {
    /// For this agent; nothing, if it cannot use a bridge.
    pub fn of(agent: &dyn Agent) -> Option<Self> {
        Some(Self {
            submit: agent.tool_name("submit_artifact")?,
            edit: agent.tool_name("edit_artifact")?,
            declare: agent.tool_name("declare_complete")?,
            instructions: agent.tool_name("read_instructions")?,
        })
    }
}

/// What goes into the agent's system prompt: how it hands over, and how it says that it is done.
pub fn briefing(tools: &Tools, required: &[String]) -> String {
    let Tools { submit, edit, declare, instructions } = tools;
    let mut text = "This run is supervised by Ostler, whose MCP server is `ostler`. ".to_owned();
    if !required.is_empty() {
        let kinds: Vec<String> = required.iter().map(|kind| format!("`{kind}`")).collect();
        text.push_str(&format!(
            "The task requires these artifacts: {}. Hand each over with the tool `{submit}`; one that is rejected is \
             repaired with `{edit}`. ",
            kinds.join(", ")
        ));
    }
    text.push_str(&format!(
        "When the whole task is done, and only then, call the tool `{declare}` as the very last thing: without that \
         call the task does not count as done, whatever you write. If you no longer know what was asked, for example \
         because the conversation was summarised, call `{instructions}`."
    ));
    text
}

/// What a session is resumed with that ended before it was done; `also` is what is missing besides.
pub fn going_on(tools: &Tools, standing: &Standing, also: &[String]) -> String {
    let Tools { submit, edit, declare, .. } = tools;
    let missing = standing.missing();
    let mut list: String = missing.iter().chain(also).map(|item| format!("\n- {item}")).collect();
    if standing.claim().is_none() {
        list.push_str(&format!("\n- the call of the tool `{declare}`"));
    }
    let handing = match missing.is_empty() {
        true => String::new(),
        false => format!(" Hand over with `{submit}`, repair a rejected draft with `{edit}`."),
    };
    format!(
        "You stopped before finishing. Still missing:{list}\nGo on, and finish the task.{handing} When all is done, call \
         `{declare}`."
    )
}

/// What is put into every answer of the bridge near the end of the run's time.
pub fn notice(tools: &Tools, left: Duration) -> String {
    let left = match left.as_secs() {
        seconds @ 0..=119 => format!("{seconds} seconds"),
        seconds => format!("{} minutes", seconds / 60),
    };
    format!(
        "Notice: less than {left} are left of the time that this run may take. Wrap up now: hand over what is required, \
         and call `{}`.",
        tools.declare
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::{AGENTS, Command};

    #[test]
    fn every_agent_is_told_of_the_tools_as_it_sees_them() {
        let required = ["plan".to_owned(), "result".to_owned()];
        let mut told = String::new();
        for agent in AGENTS {
            let tools = Tools::of(*agent).unwrap();
            let mut standing = Standing::new(required.clone());
            standing.rejected("result", 2);
            told += &format!(
                "== {}\n{}\n-- nothing required\n{}\n-- resumed\n{}\n-- resumed, no artifact missing\n{}\n-- notice\n{}\n",
                agent.name(),
                briefing(&tools, &required),
                briefing(&tools, &[]),
                going_on(&tools, &standing, &[]),
                going_on(&tools, &Standing::default(), &["the check".to_owned()]),
                notice(&tools, Duration::from_secs(360)),
            );
        }
        insta::assert_snapshot!(told);
        assert_eq!(Tools::of(&Command::parse("true").unwrap()), None);
    }
}
