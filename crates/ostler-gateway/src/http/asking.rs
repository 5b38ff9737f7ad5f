//! Asking the agent, in the three providers' APIs.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request as Incoming, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use ostler_agent::access::Scope;
use tokio::sync::mpsc;

use super::Gateway;
use super::bodies::Tree;
use super::conversing::{Addressed, CONVERSATION, Misaddressed, Naming};
use super::idempotency::Whole;
use super::questions::{Asking, UNREAD_ANSWERS};
use super::recorded::Recorded;
use super::refusing::{body, problem_of, refuse, seconds_now};
use super::streaming::Streaming;
use super::terms::{permissions, slash, terms};
use super::visits::{Lasting, Visitor};
use crate::conversations::Recorder;
use crate::live::Start;
use crate::narration::Narration;
use crate::pool::{Beside, Turn};
use crate::wire::{Delivery, Format, Head, Kind, Piece, Problem, ignored};

/// How long the first word is waited for before an answer is begun. What fails until then has a status of its own.
const FIRST_WORD: Duration = Duration::from_secs(10);

/// What could not be honoured.
const IGNORED: HeaderName = HeaderName::from_static("x-ostler-ignored");

pub(super) async fn messages<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    incoming: Incoming,
) -> Response {
    gateway.answer(Format::Messages, incoming).await
}

pub(super) async fn chat<S: Start>(State(gateway): State<Arc<Gateway<S>>>, incoming: Incoming) -> Response {
    gateway.answer(Format::Chat, incoming).await
}

pub(super) async fn responses<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    incoming: Incoming,
) -> Response {
    gateway.answer(Format::Responses, incoming).await
}

/// Nobody tells how many they are, and they are not guessed.
pub(super) async fn count_tokens<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    incoming: Incoming,
) -> Response {
    let problem = match gateway.admit(incoming.headers(), Scope::Chat) {
        Ok(_) => Problem::new(Kind::Unbuilt, "an agent does not count tokens ahead"),
        Err(problem) => problem,
    };
    refuse(Format::Messages, &problem)
}

impl<S: Start> Gateway<S> {
    async fn answer(self: &Arc<Self>, format: Format, incoming: Incoming) -> Response {
        self.once(format, incoming).await.unwrap_or_else(|problem| refuse(format, &problem))
    }

    /// Asks the agent. What is not even begun, or fails at once, is a problem.
    pub(super) async fn attempt(
        &self,
        format: Format,
        visitor: &Visitor,
        headers: &HeaderMap,
        mut tree: Tree,
    ) -> Result<Response, Problem> {
        let folder = self.folder(visitor, headers)?;
        let (permissions, asks) = permissions(visitor, headers)?;
        if let Some(value) = self.unreferred(format, &visitor.key.id, &tree.value).await? {
            tree.value = value;
        }
        let (mut request, permit) = tree.convert(move |value| format.read(&value)).await?;
        self.carry(&visitor.key.id, &mut request);
        let model = self.model(visitor, &request.model)?;
        let engine = self.engine(&model, headers)?;
        let slash = slash(model.served.manner, engine, headers)?;
        let terms = terms(visitor, (model, engine), folder, (permissions, asks), &request);
        let underway = visitor.begin_turn()?;
        let naming = Naming { format, headers, terms: &terms, asks };
        let Addressed { history, mut recorder } = match self.address(visitor, &naming, &request).await {
            Ok(addressed) => addressed,
            Err(Misaddressed { problem, conversation }) => {
                return Ok(refuse_in(format, &problem, conversation.as_deref()));
            }
        };
        let conversation = recorder.conversation().clone();
        // What is refused was never said: nothing of a conversation that was begun for it is left.
        let refuse = |problem: &Problem| {
            let listed = conversation.is_listed().then(|| conversation.id());
            refuse_in(format, problem, listed)
        };
        if let Err(problem) = self.refuse_if_held(recorder.conversation()) {
            recorder.refused();
            return Ok(refuse(&problem));
        }
        let id = recorder.turn().to_owned();
        let (model, tools) = (request.model.clone(), request.tool_names.clone());
        let head = Head { id, model, created: seconds_now(), tools };
        let answer = self.complete(Turn { terms, history, slash }, recorder, asks);
        let answered = match request.delivery {
            Delivery::Whole => whole(format, &head, answer).await,
            Delivery::Streamed { .. } => {
                let encoder = (format, format.encoder(head, request.delivery));
                let begun = Streaming::begin(answer, encoder, FIRST_WORD).await;
                begun.map(|response| response.map(|body| Lasting::body(body, (underway, permit))))
            }
        };
        let mut response = match answered {
            Ok(response) => response,
            Err(problem) => return Ok(refuse(&problem)),
        };
        if let Ok(ignored) = HeaderValue::from_str(&ignored::list(&request.ignored))
            && !request.ignored.is_empty()
        {
            response.headers_mut().insert(IGNORED, ignored);
        }
        name_conversation(&mut response, Some(conversation.id()));
        Ok(response)
    }

    /// An answer that is written down, in a session that is listed under its conversation. What the agent asks is asked
    /// of a client, or answered by policy.
    pub(super) fn complete(&self, turn: Turn, recorder: Recorder, asks: bool) -> Recorded {
        let (answers, asking) = match asks {
            true => {
                let (sender, answers) = mpsc::channel(UNREAD_ANSWERS);
                let (questions, most_of_key) = (self.questions.clone(), self.most_questions(&recorder));
                (Some(answers), Some(Asking { questions, answers: sender, most_of_key }))
            }
            false => (None, None),
        };
        let label = Some(recorder.conversation().id().to_owned());
        let answer = self.pool.complete_beside(turn, Beside { label, answers });
        Recorded::new(answer, recorder, asking)
    }

    /// How many questions of the key of a conversation may wait. A key that is gone has none.
    fn most_questions(&self, recorder: &Recorder) -> Option<u32> {
        let tenant = &recorder.conversation().opening.tenant;
        let keys = self.offer.keys.current();
        let key = keys.as_ref().ok().and_then(|keys| keys.iter().find(|key| key.id == *tenant));
        key.map_or(Some(0), |key| key.policy.open_questions)
    }
}

/// A problem in the API's own shape, and the conversation that it is about.
fn refuse_in(format: Format, problem: &Problem, conversation: Option<&str>) -> Response {
    let mut response = refuse(format, problem);
    name_conversation(&mut response, conversation);
    response
}

fn name_conversation(response: &mut Response, conversation: Option<&str>) {
    if let Some(Ok(conversation)) = conversation.map(HeaderValue::from_str) {
        response.headers_mut().insert(CONVERSATION, conversation);
    }
}

async fn whole(format: Format, head: &Head, mut answer: Recorded) -> Result<Response, Problem> {
    let mut narration = Narration::default();
    let mut pieces: Vec<Piece> = Vec::new();
    while let Some(event) = answer.next().await {
        let event = event.map_err(|error| problem_of(&error))?;
        narration.broken_off(answer.broken_off().unwrap_or_default());
        pieces.extend(narration.hear(&event));
    }
    let end = Whole::default();
    if pieces.last().is_some_and(Piece::is_whole) {
        end.set();
    }
    // Only where there was no end.
    pieces.push(narration.left(answer.broken_off()));
    let mut response = body(StatusCode::OK, &format.whole(head, &pieces)?);
    response.extensions_mut().insert(end);
    Ok(response)
}
