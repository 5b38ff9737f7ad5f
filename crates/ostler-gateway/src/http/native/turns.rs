//! Turns of a session: asked, waited for, broken off. A turn goes on when whoever asked goes away: its events are in the
//! session's journal.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::{Path, Request as Incoming, State};
use axum::http::{HeaderMap, StatusCode};
use ostler_agent::access::{KeyKind, KeyMemory, Scope};
use ostler_agent::agent::{Engine, Permissions};
use ostler_agent::canonical::Message;
use ostler_agent::history::History;
use ostler_agent::leasing::{Place, Terms};
use serde_json::json;

use super::super::Gateway;
use super::super::conversing::{begin_turn, history};
use super::super::refusing::{problem_of, problem_of_unkept};
use super::super::terms::slash;
use super::shapes::{Interrupted, NewTurn, Turn};
use super::{Told, answer};
use crate::conversations::{Conversation, Ending, Kept, Opening, Unkept};
use crate::live::Start;
use crate::pool::Turn as Question;
use crate::wire::{Kind, Problem, user_message};

/// Begins a turn.
pub(in super::super) async fn post<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path(id): Path<String>,
    incoming: Incoming,
) -> Told {
    let (visitor, tenant) = gateway.enter(incoming.headers(), Scope::SessionsWrite)?;
    let conversation = gateway.session(tenant.as_deref(), &id)?;
    gateway.reauthorize_folder(&visitor, &conversation.opening)?;
    let terms = gateway.terms_of(&conversation.opening)?;
    let manner = gateway.models.find(&conversation.opening.model)?.served.manner;
    let slash = slash(manner, terms.engine, incoming.headers())?;
    let (new, permit): (NewTurn, _) = gateway.read_shape(&visitor, incoming).await?;
    let asked = message(&new)?;
    gateway.refuse_if_held(&conversation)?;
    let underway = visitor.begin_turn()?;
    let prior = match conversation.summary().so_far.turns {
        0 => Vec::new(),
        _ => history(&conversation, None)
            .await
            .map_err(|error| Problem::new(Kind::Absent, &error.to_string()))?,
    };
    let after = conversation.summary().seq;
    let model = &conversation.opening.model;
    let length = prior.len();
    let (prior, begun) = begin_turn(&conversation, (model, &terms), (prior, length), &asked).await?;
    let recorder = begun.map_err(problem_of_unkept)?;
    let turn = recorder.turn().to_owned();
    let mut messages = prior;
    messages.push(asked);
    let history = History::of(messages).map_err(|error| Problem::invalid(&error.to_string()))?;
    let mut recorded =
        gateway.complete(Question { terms, history, slash }, recorder, conversation.opening.ask);
    recorded.admitted().await.map_err(|error| problem_of(&error))?;
    // The client follows it by its id from now on.
    recorded.commit();
    let running = gateway.turns.spawn(async move {
        let _underway = (underway, permit);
        let mut failed = None;
        while let Some(event) = recorded.next().await {
            if let Err(error) = event {
                failed = Some(problem_of(&error));
            }
        }
        failed
    });
    if !new.wait {
        let kept = kept(&conversation, &turn).await.ok();
        return Ok(answer(StatusCode::ACCEPTED, &told(&conversation, &turn, kept, after)));
    }
    match running.await {
        Ok(Some(problem)) => Err(problem.into()),
        Ok(None) | Err(_) => {
            let kept = kept(&conversation, &turn).await.ok();
            Ok(answer(StatusCode::OK, &told(&conversation, &turn, kept, after)))
        }
    }
}

fn message(new: &NewTurn) -> Result<Message, Problem> {
    let content = match (&new.text, &new.content) {
        (Some(text), None) => json!(text),
        (None, Some(blocks)) => json!(blocks),
        _ => return Err(Problem::invalid("there must be either `text` or `content`").about("text")),
    };
    user_message(&content)?.ok_or_else(|| Problem::invalid("nothing is asked").about("text"))
}

/// A turn as it was written down, read where reading may take a while.
async fn kept(conversation: &Arc<Conversation>, turn: &str) -> Result<Kept, Unkept> {
    let (conversation, turn) = (conversation.clone(), turn.to_owned());
    let read = tokio::task::spawn_blocking(move || conversation.turn(&turn));
    read.await.unwrap_or(Err(Unkept::Lost))
}

/// A turn as it stands.
fn told(conversation: &Conversation, turn: &str, kept: Option<Kept>, after: u64) -> Turn {
    let end = kept.as_ref().and_then(|kept| kept.end.clone());
    let state = match &end {
        None => "in_flight",
        Some((Ending::Done, _)) => "done",
        Some((Ending::Called, _)) => "called",
        Some((Ending::Interrupted, _)) => "interrupted",
        Some((Ending::Failed, _)) => "failed",
    };
    let reply = kept.map(|kept| ostler_agent::reply::Reply::of(&kept.events));
    let text = reply.map(|reply| {
        let texts: Vec<String> = reply.messages().iter().map(Message::text).collect();
        texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
    });
    Turn {
        turn: turn.to_owned(),
        session: conversation.id().to_owned(),
        state: state.to_owned(),
        text: text.filter(|_| end.is_some()),
        error: end.and_then(|(_, error)| error),
        after,
    }
}

/// How a turn stands, or stood when it ended.
pub(in super::super) async fn show<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path((id, turn)): Path<(String, String)>,
    headers: HeaderMap,
) -> Told {
    let conversation = gateway.entered(&headers, Scope::SessionsRead, &id)?;
    let absent = |error: Unkept| Problem::new(Kind::Absent, &error.to_string()).about("turn");
    let kept = kept(&conversation, &turn).await.map_err(absent)?;
    Ok(answer(StatusCode::OK, &told(&conversation, &turn, Some(kept), 0)))
}

/// Breaks off what is under way. What was said until then counts.
pub(in super::super) async fn interrupt<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Told {
    let conversation = gateway.entered(&headers, Scope::SessionsWrite, &id)?;
    let turn = conversation.summary().turn;
    let is_stopped = conversation.stop(turn.as_deref());
    Ok(answer(StatusCode::OK, &Interrupted { turn: turn.filter(|_| is_stopped) }))
}

impl<S: Start> Gateway<S> {
    /// On which terms a session goes on.
    pub(in super::super) fn terms_of(&self, opening: &Opening) -> Result<Terms, Problem> {
        let workspace = match &opening.cwd {
            None => Place::Own,
            Some(folder) => Place::Folder(PathBuf::from(folder)),
        };
        let model = self.models.find(&opening.model)?;
        let keys = self.offer.keys.current()?;
        let key = keys.iter().find(|key| key.id == opening.tenant);
        Ok(Terms {
            tenant: opening.tenant.clone(),
            // The key of an old session may be gone.
            kind: key.map_or(KeyKind::Tenant, |key| key.policy.kind),
            memory: key.map_or(KeyMemory::Off, |key| key.policy.memory()),
            agent: model.served.agent.to_owned(),
            engine: if opening.engine == Engine::Terminal.name() { Engine::Terminal } else { Engine::Stream },
            model: model.name,
            workspace,
            system_prompt: opening.system.clone(),
            permissions: Permissions::named(&opening.permissions).unwrap_or(Permissions::Deny),
            asks_client: opening.ask,
            allow: Vec::new(),
            tools: String::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversations::{Bounds, Conversations};
    use crate::elsewhere::done_elsewhere;

    /// A journal may be long. It used to be read twice, while everybody waited.
    #[test]
    fn a_turn_is_not_read_on_the_runtimes_own_thread() {
        let folder = tempfile::tempdir().unwrap();
        let conversations = Conversations::open(folder.path(), Bounds::default()).unwrap();
        let conversation = conversations.begin(Opening {
            conversation: String::new(),
            tenant: "a".to_owned(),
            model: "claude".to_owned(),
            cwd: None,
            system: None,
            carried: None,
            permissions: "deny".to_owned(),
            ask: false,
            engine: "stream".to_owned(),
            origin: "native".to_owned(),
        });
        let read = done_elsewhere(kept(&conversation, "none"), || {});
        assert_eq!(read.map(|kept| kept.model).ok(), None, "there is no such turn");
    }
}
