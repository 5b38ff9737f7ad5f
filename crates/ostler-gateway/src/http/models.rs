//! Names of models: the agent's own choice, or one of its models.

use std::sync::Arc;

use axum::extract::{Request as Incoming, State};
use axum::http::StatusCode;
use axum::response::Response;
use ostler_agent::access::Scope;

use super::{Gateway, body, listed, refuse};
use crate::live::Start;
use crate::wire::{Format, Kind, Problem};

/// Longest name that is looked at: it becomes an argument.
const LONGEST_NAME: usize = 128;

/// What can be asked for.
pub(super) struct Models {
    /// The agent's name here.
    agent: String,
}

impl Models {
    /// An agent is known here by the name of its program.
    pub(super) fn of(agent: &str) -> Self {
        Self { agent: agent.trim_end_matches("-headless").to_owned() }
    }

    /// What the agent is to be told; nothing for its own choice.
    pub(super) fn find(&self, named: &str) -> Result<Option<String>, Problem> {
        let absent = || {
            let message = format!("there is no model `{named}`: use `{0}` or `{0}/MODEL`", self.agent);
            Problem::new(Kind::Absent, &message).about("model")
        };
        let rest = named.strip_prefix(&self.agent).ok_or_else(absent)?;
        if rest.is_empty() {
            return Ok(None);
        }
        let model = rest.strip_prefix('/').ok_or_else(absent)?;
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "._-/:@[]".contains(letter);
        let is_sound = !model.is_empty()
            && model.len() <= LONGEST_NAME
            && !model.starts_with('-')
            && model.chars().all(is_name);
        if is_sound { Ok(Some(model.to_owned())) } else { Err(absent()) }
    }
}

/// The list, for whoever may come in.
pub(super) async fn list<S: Start>(State(gateway): State<Arc<Gateway<S>>>, incoming: Incoming) -> Response {
    let is_anthropic = incoming.headers().contains_key("anthropic-version");
    match gateway.admit(incoming.headers(), Scope::Chat) {
        Ok(_) => body(StatusCode::OK, &listed(std::slice::from_ref(&gateway.models.agent))),
        Err(problem) => refuse(if is_anthropic { Format::Messages } else { Format::Chat }, &problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_the_agents_or_its_own_choice() {
        let models = Models::of("claude-headless");
        let found = |name: &str| models.find(name).map_err(|problem| problem.kind.status());
        assert_eq!(found("claude"), Ok(None));
        assert_eq!(found("claude/opus"), Ok(Some("opus".to_owned())));
        for name in ["gpt-4o", "", "claude/", "claude/--resume", "claude-opus", "claude/a b"] {
            assert_eq!(found(name), Err(404), "{name}");
        }
    }
}
