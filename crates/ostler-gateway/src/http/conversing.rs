//! Which conversation a request goes on with: one that it names, one whose answer it follows, or one that it sends back.
//! Every turn belongs to one, and every answer tells which.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};
use ostler_agent::canonical::Message;
use ostler_agent::history::History;
use ostler_agent::leasing::{Place, Terms};

use super::Gateway;
use super::refusing::problem_of_unkept;
use super::visits::Visitor;
use crate::conversations::{Conversation, Conversations, Named, Opening, Recorder, Unkept};
use crate::live::Start;
use crate::pool::{is_large, known_elsewhere};
use crate::wire::{Format, Kind, Problem, Request};

/// The conversation that a request goes on with, and the one that an answer is of.
pub(super) const CONVERSATION: HeaderName = HeaderName::from_static("x-ostler-conversation");

/// With this name a conversation is the one of the `user` that the request names.
const OF_USER: &str = "user";

/// Longest name that a program may have for a conversation.
const LONGEST_NAME: usize = 128;

/// How often a conversation is looked for that is removed in the same moment.
const LOOKS: usize = 3;

/// A turn that has its place.
pub(super) struct Addressed {
    pub(super) history: History,
    pub(super) recorder: Recorder,
}

/// Why a turn has no place, and the conversation that it was meant for, if it is there.
pub(super) struct Misaddressed {
    pub(super) problem: Problem,
    pub(super) conversation: Option<String>,
}

impl From<Problem> for Misaddressed {
    fn from(problem: Problem) -> Self {
        Self { problem, conversation: None }
    }
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
    ) -> Result<Addressed, Misaddressed> {
        let mut looks = 0;
        let (prior, recorder) = loop {
            looks += 1;
            let (conversation, prior, kept) = self.look_up(visitor, naming, request).await?;
            let asked = request.history.last();
            let on = (request.model.as_str(), naming.terms);
            let (prior, begun) = begin_turn(&conversation, on, (prior, kept), asked).await?;
            match begun {
                Ok(recorder) => break (prior, recorder),
                // Whatever it was, it is not there any more: the next look says what that means.
                Err(Unkept::Removed) if looks < LOOKS => {}
                Err(error @ Unkept::Full(_)) => return Err(problem_of_unkept(error).into()),
                // Who names a conversation means that one; who follows an answer may do so twice.
                Err(error) if naming.headers.contains_key(&CONVERSATION) && request.follows.is_none() => {
                    let problem = problem_of_unkept(error).about("x-ostler-conversation");
                    return Err(Misaddressed { problem, conversation: Some(conversation.id().to_owned()) });
                }
                Err(_) => {
                    let conversation = self.begin_for(visitor, naming, request, String::new());
                    let (prior, begun) = begin_turn(&conversation, on, (prior, 0), asked).await?;
                    break (prior, begun.map_err(problem_of_unkept)?);
                }
            }
        };
        let mut messages = prior;
        messages.push(request.history.last().clone());
        let history =
            History::of(messages).map_err(|error| Problem::invalid(&error.to_string()).about("messages"))?;
        Ok(Addressed { history, recorder })
    }

    /// The conversation, which may be a new one, what was said in it, and how much of that is in its journal.
    async fn look_up(
        &self,
        visitor: &Visitor,
        naming: &Naming<'_>,
        request: &Request,
    ) -> Result<(Arc<Conversation>, Vec<Message>, usize), Problem> {
        let tenant = &visitor.key.id;
        let found = if let Some(follows) = &request.follows {
            self.following(naming.terms, follows, request).await?
        } else if let Some(name) = named(naming.headers, request)? {
            match self.conversations.named(tenant, &name) {
                Named::Found(conversation) => self.named(naming.terms, conversation, request).await?,
                Named::New(id) => Some(self.begin_named(visitor, naming, request, id)),
                // All of it is sent: nothing is lost.
                Named::Gone(id) if !request.history.prior().is_empty() => {
                    Some(self.begin_named(visitor, naming, request, id.unwrap_or_default()))
                }
                Named::Gone(_) => return Err(gone()),
            }
        } else {
            echoed(&self.conversations, naming.terms, request).await
        };
        let anew = || self.begin_for(visitor, naming, request, String::new());
        Ok(match found {
            // Of a turn that is not kept nothing is in one that is.
            Some(Found { conversation: Some(known), prior, kept }) if request.is_kept => (known, prior, kept),
            Some(found) => (anew(), found.prior, 0),
            None => (anew(), request.history.prior().to_vec(), 0),
        })
    }

    /// A new conversation for a request. Nothing of it is on disk before its turn has a session.
    fn begin_for(
        &self,
        visitor: &Visitor,
        naming: &Naming<'_>,
        request: &Request,
        id: String,
    ) -> Arc<Conversation> {
        let opening = opening(id, &visitor.key.id, naming, request);
        match request.is_kept {
            true => self.conversations.begin_provisional(opening),
            false => self.conversations.begin_unkept(opening),
        }
    }

    /// The first turn of a conversation that has a name.
    fn begin_named(&self, visitor: &Visitor, naming: &Naming<'_>, request: &Request, id: String) -> Found {
        let conversation = request.is_kept.then(|| self.begin_for(visitor, naming, request, id));
        Found { conversation, prior: request.history.prior().to_vec(), kept: 0 }
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
        let is_last = conversation.knows_whole(&known_elsewhere(terms, &prior).await);
        prior.extend_from_slice(request.history.prior());
        Ok(Some(Found { conversation: is_last.then_some(conversation), prior, kept }))
    }

    /// The conversation that the request names. What the request sends besides the question is all that was said before;
    /// if it sends nothing else, it means what is kept.
    async fn named(
        &self,
        terms: &Terms,
        conversation: Arc<Conversation>,
        request: &Request,
    ) -> Result<Option<Found>, Problem> {
        let sent = request.history.prior();
        let kept = match history(&conversation, None).await {
            Ok(kept) => kept,
            // All of it is sent: it goes on as another one.
            Err(_) if !sent.is_empty() => return Ok(None),
            Err(_) => return Err(gone()),
        };
        let known = known_elsewhere(terms, &kept).await;
        let (is_new, is_same) = (sent.is_empty(), known.answers(&known_elsewhere(terms, sent).await));
        if is_new || is_same || kept.is_empty() {
            let count = kept.len();
            let prior = if count == 0 { sent.to_vec() } else { kept };
            return Ok(Some(Found { conversation: Some(conversation), prior, kept: count }));
        }
        // An edited history is another conversation.
        Ok(None)
    }
}

/// The conversation that a request names was there once. It is not replaced by an empty one.
fn gone() -> Problem {
    let message = "this conversation is not kept any more: send it as a whole, or use another name";
    Problem::new(Kind::Absent, message).about("x-ostler-conversation")
}

/// The conversation that a program sends back. Where it sends only its words, all of it is told to the agent.
async fn echoed(store: &Conversations, terms: &Terms, request: &Request) -> Option<Found> {
    let sent = request.history.prior();
    if sent.is_empty() {
        return None;
    }
    let sent_known = known_elsewhere(terms, sent).await;
    // One that is not kept is not gone on with: what is said from now on may have to be.
    let conversation = store.knowing(&terms.tenant, &sent_known).filter(|known| known.journal().is_some())?;
    let prior = match conversation.knows_whole(&sent_known) {
        true => sent.to_vec(),
        false => history(&conversation, None).await.ok()?,
    };
    let kept = prior.len();
    Some(Found { conversation: Some(conversation), prior, kept })
}

/// Begins a turn, elsewhere if its lines are large. What was said before is given back.
pub(super) async fn begin_turn(
    conversation: &Arc<Conversation>,
    (model, terms): (&str, &Terms),
    (prior, kept): (Vec<Message>, usize),
    asked: &Message,
) -> Result<(Vec<Message>, Result<Recorder, Unkept>), Problem> {
    if !is_large(&prior) && !is_large(std::slice::from_ref(asked)) {
        let begun = conversation.begin_turn((model, terms), (&prior, kept), asked);
        return Ok((prior, begun));
    }
    let (conversation, model) = (conversation.clone(), model.to_owned());
    let (terms, asked) = (terms.clone(), asked.clone());
    let begun = tokio::task::spawn_blocking(move || {
        let begun = conversation.begin_turn((&model, &terms), (&prior, kept), &asked);
        (prior, begun)
    });
    // Only a runtime that ends does not do it.
    begun.await.map_err(|_| Problem::new(Kind::Closing, "the server is about to end, and begins nothing new"))
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

#[cfg(test)]
mod tests {
    use ostler_agent::access::{KeyKind, KeyMemory};
    use ostler_agent::agent::{Engine, Permissions};
    use ostler_agent::canonical::read;
    use serde_json::json;

    use super::*;
    use crate::conversations::Bounds;
    use crate::elsewhere::done_elsewhere;

    /// All that was said before is written as one line, which took a while for a long conversation.
    #[test]
    fn a_turn_of_a_large_conversation_is_begun_off_the_runtimes_own_thread() {
        let terms = Terms {
            tenant: "a".to_owned(),
            kind: KeyKind::Tenant,
            memory: KeyMemory::Off,
            agent: "claude".to_owned(),
            engine: Engine::Stream,
            model: None,
            workspace: Place::Own,
            system_prompt: None,
            permissions: Permissions::Deny,
            asks_client: false,
            allow: Vec::new(),
            tools: String::new(),
        };
        let opening = Opening {
            conversation: String::new(),
            tenant: terms.tenant.clone(),
            model: "claude".to_owned(),
            cwd: None,
            system: None,
            carried: None,
            permissions: "deny".to_owned(),
            ask: false,
            engine: "stream".to_owned(),
            origin: "chat".to_owned(),
        };
        let folder = tempfile::tempdir().unwrap();
        let conversations = Conversations::open(folder.path(), Bounds::default()).unwrap();
        let conversation = conversations.begin_provisional(opening);
        let prior = read(&[json!({"role": "user", "content": "x".repeat(1 << 20)})]).unwrap();
        let begun = begin_turn(&conversation, ("claude", &terms), (prior.clone(), 0), &prior[0]);
        let (back, begun) = done_elsewhere(begun, || {}).unwrap();
        assert_eq!((back, begun.map(|recorder| recorder.turn().len()).ok()), (prior, Some(40)));
    }
}
