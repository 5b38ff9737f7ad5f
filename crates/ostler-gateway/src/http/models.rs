//! Names of models: an agent's own choice, one of its models, or another name for either, for programs whose models have
//! fixed names. Which agents there are, and how each of them answers, is told with the list.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, Request as Incoming, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use ostler_agent::access::{Policy, Scope};
use ostler_agent::agent::Engine;
use serde_json::{Value, json};

use super::{Gateway, body, refuse};
use crate::live::Start;
use crate::wire::{Format, Kind, Problem};

/// Longest name that is looked at: it becomes an argument.
const LONGEST_NAME: usize = 128;

/// An agent that can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// By its name: `claude-headless`.
    pub agent: &'static str,
    /// How its sessions are.
    pub manner: Manner,
}

/// How the sessions of an agent are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// A process that waits for the next turn. Words come as they are written.
    Live,
    /// One process a turn, which goes on with the agent's own session. A message comes when it is whole.
    OneShot,
}

/// What can be asked for.
pub(super) struct Models {
    served: Vec<Served>,
    /// Other names, and what each of them means.
    aliases: BTreeMap<String, Model>,
}

/// Another name that cannot be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AliasError {
    /// It is taken.
    #[error("`{alias}` cannot be another name of a model: it is an agent's")]
    Taken {
        /// The name.
        alias: String,
    },
    /// It means nothing.
    #[error("`{alias}` cannot be another name of `{model}`: {reason}")]
    Nothing {
        /// The name.
        alias: String,
        /// What it was to mean.
        model: String,
        /// Why that is nothing.
        reason: String,
    },
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) served: Served,
    /// What the agent is to be told; nothing for its own choice.
    pub(super) name: Option<String>,
}

impl Model {
    /// Its first name here.
    pub(super) fn first_name(&self) -> String {
        match &self.name {
            Some(name) => format!("{}/{name}", self.served.name()),
            None => self.served.name().to_owned(),
        }
    }

    /// Whether a key may ask it, by this name or by its first one.
    pub(super) fn is_allowed(&self, policy: &Policy, named: &str) -> bool {
        policy.allows_model(named) || policy.allows_model(&self.first_name())
    }
}

impl Served {
    /// An agent is known here by the name of its program.
    pub fn name(&self) -> &'static str {
        self.agent.trim_end_matches("-headless")
    }

    /// How it is driven: as is wanted, if it can be; by itself as usual, if it can be.
    pub(super) fn engine(self, wanted: Option<Engine>, usual: Engine) -> Option<Engine> {
        match (self.manner, wanted) {
            (Manner::Live, wanted) => Some(wanted.unwrap_or(usual)),
            (Manner::OneShot, None | Some(Engine::Stream)) => Some(Engine::Stream),
            (Manner::OneShot, Some(Engine::Terminal)) => None,
        }
    }

    /// In the shape of both families of APIs, and how it answers.
    fn listed(&self, id: &str) -> Value {
        let (sessions, words, history) = match self.manner {
            Manner::Live => {
                ("one process a session", "as they are written", "written into the agent's own record")
            }
            Manner::OneShot => {
                ("one process a turn, resumed", "when a message is whole", "told with the first prompt")
            }
        };
        let is_live = self.manner == Manner::Live;
        json!({"id": id, "object": "model", "type": "model", "display_name": id, "created": 0,
            "created_at": "1970-01-01T00:00:00Z", "owned_by": "ostler",
            "ostler": {"agent": self.agent, "sessions": sessions, "words": words, "history": history,
                "client_tools": is_live, "asks": is_live, "terminal": is_live}})
    }
}

impl Models {
    /// Of these agents, and with these names besides.
    pub(super) fn of(served: &[Served], aliases: &BTreeMap<String, String>) -> Result<Self, AliasError> {
        let mut models = Self { served: served.to_vec(), aliases: BTreeMap::new() };
        let mut found = BTreeMap::new();
        for (alias, model) in aliases {
            if served.iter().any(|served| served.name() == alias) {
                return Err(AliasError::Taken { alias: alias.clone() });
            }
            let meant = models.find(model).map_err(|problem| AliasError::Nothing {
                alias: alias.clone(),
                model: model.clone(),
                reason: problem.message,
            });
            found.insert(alias.clone(), meant?);
        }
        models.aliases = found;
        Ok(models)
    }

    /// All that a key may ask for: agents, other names, and models that its policy names.
    fn listed(&self, policy: &Policy) -> Vec<Value> {
        let own = self.served.iter().map(|served| served.name().to_owned());
        let mut names: Vec<String> = own.chain(self.aliases.keys().cloned()).collect();
        for model in &policy.models {
            if !names.contains(model) {
                names.push(model.clone());
            }
        }
        let allowed = |name: &String| {
            let model = self.lookup(name).filter(|model| model.is_allowed(policy, name))?;
            Some(self.described(&model, name))
        };
        names.iter().filter_map(allowed).collect()
    }

    fn described(&self, model: &Model, named: &str) -> Value {
        let mut listed = model.served.listed(named);
        if self.aliases.contains_key(named) {
            listed["ostler"]["means"] = json!(model.first_name());
        }
        listed
    }

    /// As it is in the list, or would be: every model of an agent can be asked for, and only the agent knows them all. What
    /// the key may not ask is not there.
    fn shown(&self, policy: &Policy, named: &str) -> Result<Value, Problem> {
        let model = self.find_for(policy, named)?;
        if !model.is_allowed(policy, named) {
            return Err(self.absent(policy, named));
        }
        Ok(self.described(&model, named))
    }

    /// There is no such model; only those that the key may ask are named.
    fn absent(&self, policy: &Policy, named: &str) -> Problem {
        let names: Vec<String> = if policy.models.is_empty() {
            let own = self.served.iter().map(|served| format!("`{0}` or `{0}/MODEL`", served.name()));
            own.chain(self.aliases.keys().map(|alias| format!("`{alias}`"))).collect()
        } else {
            let listed = self.listed(policy);
            listed.iter().filter_map(|model| Some(format!("`{}`", model["id"].as_str()?))).collect()
        };
        let message = match names.as_slice() {
            [] => format!("there is no model `{named}`"),
            names => format!("there is no model `{named}`: use {}", names.join(", ")),
        };
        Problem::new(Kind::Absent, &message).about("model")
    }

    pub(super) fn find(&self, named: &str) -> Result<Model, Problem> {
        self.lookup(named).ok_or_else(|| self.absent(&Policy::owner(), named))
    }

    /// The same, where a key asks: an error names what it may ask instead.
    pub(super) fn find_for(&self, policy: &Policy, named: &str) -> Result<Model, Problem> {
        self.lookup(named).ok_or_else(|| self.absent(policy, named))
    }

    fn lookup(&self, named: &str) -> Option<Model> {
        if let Some(model) = self.aliases.get(named) {
            return Some(model.clone());
        }
        let (agent, model) = match named.split_once('/') {
            Some((agent, model)) => (agent, Some(model)),
            None => (named, None),
        };
        let served = self.served.iter().find(|served| served.name() == agent)?;
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "._-/:@[]".contains(letter);
        let is_name = |model: &str| {
            !model.is_empty()
                && model.len() <= LONGEST_NAME
                && !model.starts_with('-')
                && model.chars().all(is_letter)
        };
        model.is_none_or(is_name).then(|| Model { served: *served, name: model.map(str::to_owned) })
    }
}

/// In whose shape a problem is told: both families ask at the same door.
fn family(headers: &HeaderMap) -> Format {
    if headers.contains_key("anthropic-version") { Format::Messages } else { Format::Chat }
}

/// One of them. A name may have `/` in it.
pub(super) async fn show<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path(named): Path<String>,
    headers: HeaderMap,
) -> Response {
    let admitted = gateway.admit(&headers, Scope::Chat);
    let found = admitted.and_then(|visitor| gateway.models.shown(&visitor.key.policy, &named));
    found.map_or_else(|problem| refuse(family(&headers), &problem), |model| body(StatusCode::OK, &model))
}

/// The list, as far as the key may ask for what is in it.
pub(super) async fn list<S: Start>(State(gateway): State<Arc<Gateway<S>>>, incoming: Incoming) -> Response {
    let family = family(incoming.headers());
    match gateway.admit(incoming.headers(), Scope::Chat) {
        Ok(visitor) => {
            let models = gateway.models.listed(&visitor.key.policy);
            let id = |model: Option<&Value>| model.map(|model| model["id"].clone());
            let (first, last) = (id(models.first()), id(models.last()));
            let list = json!({"object": "list", "data": models, "has_more": false, "first_id": first, "last_id": last});
            body(StatusCode::OK, &list)
        }
        Err(problem) => refuse(family, &problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAUDE: Served = Served { agent: "claude-headless", manner: Manner::Live };
    const OPENCODE: Served = Served { agent: "opencode", manner: Manner::OneShot };

    #[test]
    fn a_model_is_the_agents_or_its_own_choice() {
        let models = Models::of(&[CLAUDE, OPENCODE], &BTreeMap::new()).unwrap();
        let found = |name: &str| models.find(name).map_err(|problem| problem.kind.status());
        let is = |served: Served, name: Option<&str>| Ok(Model { served, name: name.map(str::to_owned) });
        assert_eq!(found("claude"), is(CLAUDE, None));
        assert_eq!(found("claude/opus"), is(CLAUDE, Some("opus")));
        assert_eq!(found("opencode/openai/gpt-5"), is(OPENCODE, Some("openai/gpt-5")));
        for name in ["gpt-4o", "", "claude/", "claude/--resume", "claude-opus", "claude/a b", "codex"] {
            assert_eq!(found(name), Err(404), "{name}");
        }
    }

    #[test]
    fn another_name_means_a_model() {
        let named = |alias: &str, model: &str| {
            Models::of(&[CLAUDE, OPENCODE], &BTreeMap::from([(alias.to_owned(), model.to_owned())]))
        };
        let models = named("gpt-4o", "claude/opus").unwrap();
        let found = models.find("gpt-4o").unwrap();
        assert_eq!((found.first_name(), found.served), ("claude/opus".to_owned(), CLAUDE));
        // Not a beginning of other names, and told where one is missed.
        let missed = models.find("gpt-4o/mini").map_err(|problem| problem.message);
        assert!(missed.unwrap_err().contains("`gpt-4o`"));
        let refused = |alias: &str, model: &str| named(alias, model).err().unwrap().to_string();
        assert_eq!(
            refused("claude", "opencode"),
            "`claude` cannot be another name of a model: it is an agent's"
        );
        assert!(
            refused("gpt-4o", "codex").starts_with("`gpt-4o` cannot be another name of `codex`: there is no")
        );
    }

    #[test]
    fn a_key_is_told_what_it_may_ask() {
        let aliases = BTreeMap::from([("gpt-4o".to_owned(), "claude/opus".to_owned())]);
        let models = Models::of(&[CLAUDE, OPENCODE], &aliases).unwrap();
        let listed = |allowed: &[&str]| {
            let models_allowed = allowed.iter().map(|model| (*model).to_owned()).collect();
            let policy = Policy { models: models_allowed, ..Policy::chat() };
            let listed = models.listed(&policy);
            let ids: Vec<String> =
                listed.iter().map(|model| model["id"].as_str().unwrap().to_owned()).collect();
            (ids.join(" "), models.shown(&policy, "opencode").is_ok())
        };
        assert_eq!(listed(&[]), ("claude opencode gpt-4o".to_owned(), true));
        assert_eq!(listed(&["claude"]), ("claude".to_owned(), false));
        assert_eq!(listed(&["claude/opus"]), ("gpt-4o claude/opus".to_owned(), false));
        assert_eq!(listed(&["codex", "gpt-4o"]), ("gpt-4o".to_owned(), false));
        let policy = Policy { models: vec!["claude".to_owned()], ..Policy::chat() };
        let missed = models.shown(&policy, "opencode").unwrap_err().message;
        assert_eq!(missed, "there is no model `opencode`: use `claude`");
    }

    #[test]
    fn an_agent_is_driven_as_it_can_be() {
        use Engine::{Stream, Terminal};
        assert_eq!(CLAUDE.engine(None, Terminal), Some(Terminal));
        assert_eq!(CLAUDE.engine(Some(Stream), Terminal), Some(Stream));
        assert_eq!(OPENCODE.engine(None, Terminal), Some(Stream));
        assert_eq!(OPENCODE.engine(Some(Terminal), Stream), None);
    }
}
