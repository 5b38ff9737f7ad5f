//! On which terms a request is asked: the model, the engine, the folder, and what the agent may do. Whatever a request
//! names, it gets no more than its key allows.

use std::path::{Path, PathBuf};

use axum::http::{HeaderMap, HeaderValue};
use ostler_agent::agent::{Engine, Permissions};
use ostler_agent::leasing::{Place, Terms};
use ostler_agent::offering::Toolset;

use super::Gateway;
use super::models::{Manner, Model};
use super::visits::Visitor;
use crate::conversations::{Conversation, Opening};
use crate::live::{Slash, Start};
use crate::wire::{Kind, Problem, Request};

/// The folder that a session is to work in.
const FOLDER: &str = "x-ostler-cwd";
/// How the agent is driven: `stream` or `terminal`.
const ENGINE: &str = "x-ostler-engine";
/// What the agent may do without asking: `deny`, `edits` or `all`, and never more than the key allows; or `ask`.
const PERMISSIONS: &str = "x-ostler-permissions";
/// What a `/` is that a question begins with: with `allow`, the beginning of a command of the agent's own.
const SLASH: &str = "x-ostler-slash";
const ALLOW: &str = "allow";
/// Instead of such a level: what the agent would have to ask is asked of a client.
const ASK: &str = "ask";

impl<S: Start> Gateway<S> {
    /// How the agent is driven: as the request says, or as it is anyway.
    pub(super) fn engine(&self, model: &Model, headers: &HeaderMap) -> Result<Engine, Problem> {
        let named = headers.get(ENGINE).map(|named| named.to_str().unwrap_or("?"));
        self.engine_named(model, named, ENGINE)
    }

    /// The same, where another field names it.
    pub(super) fn engine_named(
        &self,
        model: &Model,
        named: Option<&str>,
        field: &str,
    ) -> Result<Engine, Problem> {
        let wanted = named.map(|named| {
            let found = [Engine::Stream, Engine::Terminal].into_iter().find(|engine| engine.name() == named);
            found.ok_or_else(|| Problem::invalid("this must be `stream` or `terminal`").about(field))
        });
        let engine = model.served.engine(wanted.transpose()?, self.offer.engine);
        engine.ok_or_else(|| Problem::invalid("this agent is not driven in that way").about(field))
    }

    /// The model, if the key may ask it.
    pub(super) fn model(&self, visitor: &Visitor, named: &str) -> Result<Model, Problem> {
        let policy = &visitor.key.policy;
        let model = self.models.find_for(policy, named)?;
        if !model.is_allowed(policy, named) {
            return Err(Problem::new(Kind::Forbidden, "this key may not ask this model").about("model"));
        }
        Ok(model)
    }

    /// Refuses while a person has the terminal of this conversation.
    pub(super) fn refuse_if_held(&self, conversation: &Conversation) -> Result<(), Problem> {
        let is_held = self.pool.sessions().iter().any(|listed| {
            listed.is_of(&conversation.opening.tenant, conversation.id())
                && listed.terminal.as_ref().is_some_and(|seat| seat.is_held())
        });
        match is_held {
            true => Err(Problem::new(Kind::Held, "somebody holds the terminal of this conversation")),
            false => Ok(()),
        }
    }

    /// The folder that a request names, if it may.
    pub(super) fn folder(&self, visitor: &Visitor, headers: &HeaderMap) -> Result<Place, Problem> {
        let Some(named) = headers.get(FOLDER) else { return Ok(Place::Own) };
        let forbidden = Problem::new(Kind::Forbidden, "this folder may not be worked in").about(FOLDER);
        self.allowed_folder(visitor, named.to_str().map_err(|_| forbidden)?, FOLDER)
    }

    /// The same, where another field names it.
    pub(super) fn allowed_folder(
        &self,
        visitor: &Visitor,
        named: &str,
        field: &str,
    ) -> Result<Place, Problem> {
        let forbidden = || Problem::new(Kind::Forbidden, "this folder may not be worked in").about(field);
        if !Path::new(named).is_absolute() {
            // It would be looked for where the server happened to be started.
            return Err(Problem::invalid("a folder must be named by its absolute path").about(field));
        }
        let folder = PathBuf::from(named).canonicalize().map_err(|_| forbidden())?;
        let is_allowed = self.offer.folders.iter().any(|root| folder.starts_with(root))
            || visitor.key.policy.allows_folder(&folder);
        if !is_allowed || !folder.is_dir() {
            return Err(forbidden());
        }
        // A link can lead there. The conversation is kept as JSON, which has no text for such a name.
        match folder.to_str() {
            Some(_) => Ok(Place::Folder(folder)),
            None => Err(Problem::invalid("the name of this folder is not UTF-8").about(field)),
        }
    }
}

impl<S: Start> Gateway<S> {
    /// Refuses a session whose folder is not allowed any more: it was removed or replaced, it is reached through a link now, or
    /// neither the server, nor the client's key, nor the key of the session grants it. Checked at every turn, because the
    /// folder was checked when the session was made.
    pub(super) fn reauthorize_folder(&self, visitor: &Visitor, opening: &Opening) -> Result<(), Problem> {
        let Some(named) = &opening.cwd else { return Ok(()) };
        let forbidden = |reason: &str| {
            Err(Problem::new(Kind::Forbidden, &format!("the folder of this session {reason}")).about("cwd"))
        };
        let folder = Path::new(named);
        // It was resolved when the session was made.
        match folder.canonicalize() {
            Err(_) => return forbidden("is not there any more"),
            Ok(real) if real != folder => return forbidden("is reached through a link now"),
            Ok(real) if !real.is_dir() => return forbidden("is not a folder any more"),
            Ok(_) => {}
        }
        let keys = self.offer.keys.current()?;
        let mut keys = keys.iter().filter(|key| key.id == opening.tenant).chain([&visitor.key]);
        let is_allowed = self.offer.folders.iter().any(|root| folder.starts_with(root))
            || keys.any(|key| key.policy.allows_folder(folder));
        if is_allowed { Ok(()) } else { forbidden("may not be worked in any more") }
    }
}

/// All of them, for a request in a provider's API.
pub(super) fn terms(
    visitor: &Visitor,
    (model, engine): (Model, Engine),
    workspace: Place,
    (permissions, asks_client): (Permissions, bool),
    request: &Request,
) -> Terms {
    Terms {
        tenant: visitor.key.id.clone(),
        kind: visitor.key.policy.kind,
        memory: visitor.key.policy.memory(),
        agent: model.served.agent.to_owned(),
        engine,
        model: model.name,
        workspace,
        system_prompt: request.told_to_the_model(),
        permissions,
        asks_client,
        allow: Vec::new(),
        tools: Toolset { tools: request.tools.clone(), own: visitor.key.policy.own_tools }.form(),
    }
}

/// What a `/` is that the question begins with. Only a live agent over pipes takes commands.
pub(super) fn slash(manner: Manner, engine: Engine, headers: &HeaderMap) -> Result<Slash, Problem> {
    let refused = |message: &str| Err(Problem::invalid(message).about(SLASH));
    match (headers.get(SLASH).map(HeaderValue::as_bytes), manner, engine) {
        (None, ..) => Ok(Slash::Text),
        (Some(named), ..) if named != ALLOW.as_bytes() => refused("this must be `allow`, or be left out"),
        (Some(_), Manner::Live, Engine::Stream) => Ok(Slash::Command),
        (Some(_), Manner::Live, Engine::Terminal) => {
            refused("on a terminal no command is taken from a program: use the engine `stream`")
        }
        (Some(_), Manner::OneShot, _) => refused("this agent takes no commands of its own from a program"),
    }
}

/// What the agent may do: as much as the key allows, or what the request names, if that is not more.
pub(super) fn permissions(visitor: &Visitor, headers: &HeaderMap) -> Result<(Permissions, bool), Problem> {
    let named = headers.get(PERMISSIONS).map(|named| named.to_str().unwrap_or("?"));
    allowance(visitor, named, PERMISSIONS)
}

/// The same, and whether a client is asked what the key does not allow.
pub(super) fn allowance(
    visitor: &Visitor,
    named: Option<&str>,
    field: &str,
) -> Result<(Permissions, bool), Problem> {
    if named == Some(ASK) {
        return Ok((visitor.key.policy.permissions, true));
    }
    let wanted = named.map(|named| {
        let message = "this must be `deny`, `edits`, `all` or `ask`";
        Permissions::named(named).ok_or_else(|| Problem::invalid(message).about(field))
    });
    let permitted = visitor.key.policy.permits(wanted.transpose()?);
    let permitted = permitted.ok_or_else(|| {
        Problem::new(Kind::Forbidden, "this key does not allow an agent that much").about(field)
    });
    Ok((permitted?, false))
}
