//! Which conversation a request goes on with: one that it names, one whose answer it follows, or one that it sends back.
//! Every turn belongs to one, and every answer tells which.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};
use ostler_agent::canonical::Message;
use ostler_agent::history::History;
use ostler_agent::leasing::{Place, Terms};

use super::Gateway;
use super::visits::Visitor;
use crate::conversations::{Conversation, Conversations, Opening, Recorder, Unkept};
use crate::live::Start;
use crate::pool::known_on;
use crate::wire::{Format, Kind, Problem, Request};

/// The conversation that a request goes on with, and the one that an answer is of.
pub(super) const CONVERSATION: HeaderName = HeaderName::from_static("x-ostler-conversation");

/// With this name a conversation is the one of the `user` that the request names.
const OF_USER: &str = "user";

/// Longest name that a program may have for a conversation.
const LONGEST_NAME: usize = 128;

/// A turn that has its place.
pub(super) struct Addressed {
    pub(super) history: History,
    pub(super) recorder: Recorder,
}

/// What a request says of who is meant, besides what was said.
pub(super) struct Naming<'a> {
    pub(super) format: Format,
    pub(super) headers: &'a HeaderMap,
    pub(super) terms: &'a Terms,
    /// Whether what the agent asks is asked of a client.
    pub(super) asks: bool,
}

/// Where a request's words belong.
struct Found {
    /// Nothing for a new one.
    conversation: Option<Arc<Conversation>>,
    /// What was said in it.
    prior: Vec<Message>,
    /// How many messages of that are in its journal.
    kept: usize,
}

impl<S: Start> Gateway<S> {
    /// Finds or begins the conversation, and begins a turn in it.
    pub(super) async fn address(
        &self,
        visitor: &Visitor,
        naming: &Naming<'_>,
        request: &Request,
    ) -> Result<Addressed, Problem> {
        let tenant = &visitor.key.id;
        let store = &self.conversations;
        let opening = |id: String| opening(id, tenant, naming, request);
        let found = if let Some(follows) = &request.follows {
            self.following(naming.terms, follows, request).await?
        } else if let Some(name) = named(naming.headers, request)? {
            self.named(naming.terms, &store.id_named(tenant, &name), request, &opening).await?
        } else {
            echoed(store, naming.terms, request).await
        };
        let anew = || match request.is_kept {
            true => store.begin(opening(String::new())),
            false => store.begin_unkept(opening(String::new())),
        };
        let (conversation, prior, kept) = match found {
            // Of a turn that is not kept nothing is in one that is.
            Some(Found { conversation: Some(known), prior, kept }) if request.is_kept => (known, prior, kept),
            Some(found) => (anew(), found.prior, 0),
            None => (anew(), request.history.prior().to_vec(), 0),
        };
        let asked = request.history.last();
        let begun = conversation.begin_turn((&request.model, naming.terms), (&prior, kept), asked);
        let recorder = match begun {
            Ok(recorder) => recorder,
            // Who names a conversation means that one; who follows an answer may do so twice.
            Err(Unkept::Busy) if naming.headers.contains_key(&CONVERSATION) && request.follows.is_none() => {
                return Err(
                    Problem::new(Kind::Held, &Unkept::Busy.to_string()).about("x-ostler-conversation")
                );
            }
            Err(_) => {
                let begun = anew().begin_turn((&request.model, naming.terms), (&prior, 0), asked);
                begun.map_err(|error| Problem::new(Kind::Held, &error.to_string()))?
            }
        };
        let mut messages = prior;
        messages.push(asked.clone());
        let history =
            History::of(messages).map_err(|error| Problem::invalid(&error.to_string()).about("messages"))?;
        Ok(Addressed { history, recorder })
    }

    /// The conversation of an answer. If it went on since, what follows is another one with the same beginning.
    async fn following(
        &self,
        terms: &Terms,
        follows: &str,
        request: &Request,
    ) -> Result<Option<Found>, Problem> {
        let absent = || {
            let message =
                format!("there is no answer `{follows}`: it was never given, or is not kept any more");
            Problem::invalid(&message).about("previous_response_id")
        };
        let turn = follows.strip_prefix("resp_").ok_or_else(absent)?;
        let conversation = self.conversations.of_turn(Some(&terms.tenant), turn).ok_or_else(absent)?;
        let mut prior = history(&conversation, Some(turn)).await.map_err(|_| absent())?;
        let kept = prior.len();
        let is_last = conversation.knows_whole(&known_on(terms, &prior));
        prior.extend_from_slice(request.history.prior());
        Ok(Some(Found { conversation: is_last.then_some(conversation), prior, kept }))
    }

    /// The conversation with this id. What the request sends besides the question is all that was said before; if it
    /// sends nothing else, it means what is kept.
    async fn named(
        &self,
        terms: &Terms,
        id: &str,
        request: &Request,
        opening: &impl Fn(String) -> Opening,
    ) -> Result<Option<Found>, Problem> {
        let sent = request.history.prior();
        let Some(conversation) = self.conversations.find(Some(&terms.tenant), id) else {
            let conversation = request.is_kept.then(|| self.conversations.begin(opening(id.to_owned())));
            return Ok(Some(Found { conversation, prior: sent.to_vec(), kept: 0 }));
        };
        let kept = match history(&conversation, None).await {
            Ok(kept) => kept,
            // All of it is sent: it goes on as another one.
            Err(_) if !sent.is_empty() => return Ok(None),
            Err(error) => {
                let problem = Problem::new(Kind::Absent, &error.to_string());
                return Err(problem.about("x-ostler-conversation"));
            }
        };
        let (is_new, is_same) = (sent.is_empty(), known_on(terms, &kept).answers(&known_on(terms, sent)));
        if is_new || is_same || kept.is_empty() {
            let count = kept.len();
            let prior = if count == 0 { sent.to_vec() } else { kept };
            return Ok(Some(Found { conversation: Some(conversation), prior, kept: count }));
        }
        // An edited history is another conversation.
        Ok(None)
    }
}

/// The conversation that a program sends back. Where it sends only its words, all of it is told to the agent.
async fn echoed(store: &Conversations, terms: &Terms, request: &Request) -> Option<Found> {
    let sent = request.history.prior();
    if sent.is_empty() {
        return None;
    }
    let sent_known = known_on(terms, sent);
    // One that is not kept is not gone on with: what is said from now on may have to be.
    let conversation = store.knowing(&terms.tenant, &sent_known).filter(|known| known.journal().is_some())?;
    let prior = match conversation.knows_whole(&sent_known) {
        true => sent.to_vec(),
        false => history(&conversation, None).await.ok()?,
    };
    let kept = prior.len();
    Some(Found { conversation: Some(conversation), prior, kept })
}

/// What was said in it, read where reading may take a while.
pub(super) async fn history(
    conversation: &Arc<Conversation>,
    until: Option<&str>,
) -> Result<Vec<Message>, Unkept> {
    let (conversation, until) = (conversation.clone(), until.map(str::to_owned));
    let read = tokio::task::spawn_blocking(move || conversation.history(until.as_deref()));
    read.await.unwrap_or(Err(Unkept::Lost))
}

/// What the request calls its conversation.
fn named(headers: &HeaderMap, request: &Request) -> Result<Option<String>, Problem> {
    let invalid = |message: &str| Problem::invalid(message).about("x-ostler-conversation");
    let Some(name) = headers.get(&CONVERSATION) else { return Ok(None) };
    let name = name.to_str().map_err(|_| invalid("this must be plain text"))?;
    if name == OF_USER {
        let user = request.user.as_deref().filter(|user| !user.is_empty());
        let user = user.ok_or_else(|| invalid("the request has no `user`"))?;
        return Ok(Some(format!("{OF_USER}\n{user}")));
    }
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Err(invalid("this must be an id, or a name of at most 128 letters"));
    }
    Ok(Some(name.to_owned()))
}

fn opening(conversation: String, tenant: &str, naming: &Naming<'_>, request: &Request) -> Opening {
    let Naming { format, terms, asks, .. } = naming;
    let origin = match format {
        Format::Messages => "messages",
        Format::Chat => "chat",
        Format::Responses => "responses",
    };
    Opening {
        conversation,
        tenant: tenant.to_owned(),
        model: request.model.clone(),
        cwd: cwd(&terms.workspace),
        system: terms.system_prompt.clone(),
        carried: request.carried.clone(),
        permissions: terms.permissions.name().to_owned(),
        ask: *asks,
        engine: terms.engine.name().to_owned(),
        origin: origin.to_owned(),
    }
}

/// The folder, if it is not one of its own.
pub(super) fn cwd(place: &Place) -> Option<String> {
    match place {
        Place::Own => None,
        Place::Folder(folder) => Some(folder.display().to_string()),
    }
}
