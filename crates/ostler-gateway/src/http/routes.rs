//! Every door, with what is told about it. The router and the OpenAPI document are made from this one list, so that
//! nothing can be served that is not described.

use std::sync::Arc;

use axum::routing::{MethodRouter, delete, get, post};
use ostler_agent::access::Scope;

use super::openapi::{Answered, Doc, Parameter, Sent, schema};
use super::{Gateway, around, asking, metrics, models, native, page, responses};
use crate::conversations::Line;
use crate::live::Start;
use crate::wire::Format;
use native::shapes::{
    Interrupted, NewSession, NewTurn, Permission, Permissions, Run, Runs, Screen, Session, Sessions,
    Transcript, Turn, Verdict,
};

/// A door, and what is told about it.
pub(super) struct Route<S: Start> {
    pub(super) doc: Doc,
    pub(super) door: MethodRouter<Arc<Gateway<S>>>,
}

const AFTER: Parameter = query(
    "after",
    "integer",
    "The number of the last event that you have. The header `Last-Event-ID` says the same.",
);
const LIMIT: Parameter = query("limit", "integer", "How many, from 1 to 1000.");
const PAGE_LIMIT: Parameter =
    query("limit", "integer", "Sessions in one page, from 1 to 1000; by default 1000.");
const PAGE_AFTER: Parameter = query("after", "string", "The `next` of the page before.");
const OF_STATE: Parameter =
    query("state", "string", "Only sessions that are `in_flight`, `idle` or `parked`.");
const OF_MODEL: Parameter = query("model", "string", "Only sessions of this model, as it was named.");
const OF_ORIGIN: Parameter =
    query("origin", "string", "Only sessions begun with `messages`, `chat`, `responses` or `native`.");
const OF_KEY: Parameter = query("key", "string", "Only sessions of the key with this id.");
const MANNER: Parameter = query("manner", "string", "`view` or `hold`.");
const ROWS: Parameter = query("rows", "integer", "How high your window is.");
const COLUMNS: Parameter = query("columns", "integer", "How wide your window is.");
const FOLDER: Parameter = header("x-ostler-cwd", "A folder to work in: below one that is allowed.");
const LEVEL: Parameter = header(
    "x-ostler-permissions",
    "What the agent may do: `deny`, `edits`, `all`, never more than the key allows; or `ask`, to be asked.",
);
const ENGINE: Parameter = header(
    "x-ostler-engine",
    "How the agent is driven: `stream`, or `terminal`, which a person can sit down at.",
);
const SLASH: Parameter = header(
    "x-ostler-slash",
    "With `allow`, a question that begins with `/` is a command of the agent's own. Without, it is a text like any other.",
);
const CONVERSATION: Parameter = header(
    "x-ostler-conversation",
    "The conversation to go on with: the id of one, a name of your own, or `user` for the one of the request's `user`.",
);
const ONCE: Parameter = header("idempotency-key", "Requests with the same key are done once.");

const fn query(name: &'static str, kind: &'static str, about: &'static str) -> Parameter {
    Parameter { name, place: "query", about, kind }
}

const fn header(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, place: "header", about, kind: "string" }
}

fn ask(path: &'static str, about: &'static str, format: Format) -> Doc {
    let answers = vec![Answered::of(200, "The answer, whole or as server-sent events.", Sent::Provider)];
    Doc {
        parameters: vec![FOLDER, ENGINE, LEVEL, SLASH, CONVERSATION, ONCE],
        body: Some(Sent::Fields(format)),
        answers,
        ..Doc::new("post", path, about, Some(Scope::Chat))
    }
}

fn provider(method: &'static str, path: &'static str, about: &'static str) -> Doc {
    let answers = vec![Answered::of(200, "As that API has it.", Sent::Provider)];
    Doc { answers, ..Doc::new(method, path, about, Some(Scope::Chat)) }
}

fn open(path: &'static str, about: &'static str) -> Doc {
    let answers = vec![Answered::of(200, "It.", Sent::Text)];
    Doc { answers, ..Doc::new("get", path, about, None) }
}

fn told(
    method: &'static str,
    path: &'static str,
    about: &'static str,
    scope: Scope,
    answered: Answered,
) -> Doc {
    Doc { answers: vec![answered], ..Doc::new(method, path, about, Some(scope)) }
}

/// All doors.
pub(super) fn all<S: Start>() -> Vec<Route<S>> {
    let mut routes = common();
    routes.extend(providers());
    routes.extend(sessions());
    routes.extend(runs());
    routes
}

fn route<S: Start>(doc: Doc, door: MethodRouter<Arc<Gateway<S>>>) -> Route<S> {
    Route { doc, door }
}

fn common<S: Start>() -> Vec<Route<S>> {
    let metrics_told = Answered::of(200, "The text format of Prometheus.", Sent::Text);
    vec![
        route(open("/", "A page with links."), get(page::home)),
        route(open("/docs", "These pages, for people."), get(page::docs::<S>)),
        route(open("/docs/style.css", "How they look."), get(page::style)),
        route(open("/openapi.json", "This document."), get(page::openapi::<S>)),
        route(open("/healthz", "Whether it is there."), get(|| async { "ok\n" })),
        route(open("/readyz", "Whether anything new would be begun."), get(around::readyz::<S>)),
        route(
            told("get", "/metrics", "Figures for those who watch many servers.", Scope::Admin, metrics_told),
            get(metrics::show::<S>),
        ),
    ]
}

fn providers<S: Start>() -> Vec<Route<S>> {
    let messages = "Ask the agent, as the Anthropic Messages API has it.";
    let chat = "Ask the agent, as the OpenAI Chat Completions API has it.";
    let responses_about = "Ask the agent, as the OpenAI Responses API has it.";
    let counted = Doc {
        body: Some(Sent::Fields(Format::Messages)),
        answers: vec![Answered::of(
            501,
            "Agents do not count tokens ahead, and they are not guessed.",
            Sent::Provider,
        )],
        ..Doc::new("post", "/v1/messages/count_tokens", "Not to be had.", Some(Scope::Chat))
    };
    vec![
        route(provider("get", "/v1/models", "What the key may ask for."), get(models::list::<S>)),
        route(provider("get", "/v1/models/{*model}", "One of them, by its name."), get(models::show::<S>)),
        route(ask("/v1/messages", messages, Format::Messages), post(asking::messages::<S>)),
        route(counted, post(asking::count_tokens::<S>)),
        route(ask("/v1/chat/completions", chat, Format::Chat), post(asking::chat::<S>)),
        route(ask("/v1/responses", responses_about, Format::Responses), post(asking::responses::<S>)),
        route(provider("get", "/v1/responses/{id}", "An answer that was given."), get(responses::show::<S>)),
        route(
            provider("delete", "/v1/responses/{id}", "Forget an answer and its conversation."),
            delete(responses::delete::<S>),
        ),
        route(
            provider("get", "/v1/responses/{id}/input_items", "What was asked for an answer."),
            get(responses::input_items::<S>),
        ),
        route(
            provider("post", "/v1/responses/{id}/cancel", "Break an answer off."),
            post(responses::cancel::<S>),
        ),
        route(
            provider("post", "/v1/chat/completions/{id}/cancel", "Break an answer off."),
            post(responses::cancel::<S>),
        ),
        route(
            provider("post", "/v1/messages/{id}/cancel", "Break an answer off."),
            post(responses::cancel::<S>),
        ),
    ]
}

fn sessions<S: Start>() -> Vec<Route<S>> {
    use Scope::{SessionsRead, SessionsWrite, TerminalView};
    const ALL: &str = "/api/v1/sessions";
    const ONE: &str = "/api/v1/sessions/{session}";
    let listed = Answered::of(200, "A page of those that the key sees.", Sent::Shape(schema::<Sessions>));
    let begun = Answered::of(201, "It was begun. No process is started yet.", Sent::Shape(schema::<Session>));
    let shown = Answered::of(200, "It.", Sent::Shape(schema::<Session>));
    let gone = Answered::of(204, "It is gone.", Sent::Nothing);
    let said = Answered::of(200, "What was said.", Sent::Shape(schema::<Transcript>));
    let turn = || Answered::of(200, "The turn as it stands.", Sent::Shape(schema::<Turn>));
    let asked = Answered::of(202, "The turn was begun: follow the events.", Sent::Shape(schema::<Turn>));
    let stopped = Answered::of(200, "The turn that was broken off.", Sent::Shape(schema::<Interrupted>));
    let events = Answered::of(
        200,
        "Server-sent events; each has a line of the journal.",
        Sent::Events(schema::<Line>),
    );
    let screen = Answered::of(200, "What it shows.", Sent::Shape(schema::<Screen>));
    let questions = Answered::of(200, "Those that wait.", Sent::Shape(schema::<Permissions>));
    let settled = Answered::of(200, "The question that was answered.", Sent::Shape(schema::<Permission>));
    let list = Doc {
        parameters: vec![PAGE_LIMIT, PAGE_AFTER, OF_STATE, OF_MODEL, OF_ORIGIN, OF_KEY],
        ..told("get", ALL, "Sessions, the one that was touched last first.", SessionsRead, listed)
    };
    let create = Doc {
        body: Some(Sent::Shape(schema::<NewSession>)),
        ..told("post", ALL, "Begin a session.", SessionsWrite, begun)
    };
    let ask = Doc {
        parameters: vec![SLASH],
        body: Some(Sent::Shape(schema::<NewTurn>)),
        answers: vec![turn(), asked],
        ..Doc::new("post", "/api/v1/sessions/{session}/turns", "Ask something.", Some(SessionsWrite))
    };
    let follow = Doc {
        parameters: vec![AFTER],
        ..told(
            "get",
            "/api/v1/sessions/{session}/events",
            "What happens, as it happens.",
            SessionsRead,
            events,
        )
    };
    let settle = Doc {
        body: Some(Sent::Shape(schema::<Verdict>)),
        ..told(
            "post",
            "/api/v1/permissions/{permission}",
            "Answer a question of an agent.",
            SessionsWrite,
            settled,
        )
    };
    vec![
        route(list, get(native::sessions::list::<S>)),
        route(create, post(native::sessions::create::<S>)),
        route(told("get", ONE, "A session.", SessionsRead, shown), get(native::sessions::show::<S>)),
        route(
            told("delete", ONE, "End a session, and forget it.", SessionsWrite, gone),
            delete(native::sessions::delete::<S>),
        ),
        route(
            told("get", "/api/v1/sessions/{session}/transcript", "What was said.", SessionsRead, said),
            get(native::sessions::transcript::<S>),
        ),
        route(ask, post(native::turns::post::<S>)),
        route(
            told("get", "/api/v1/sessions/{session}/turns/{turn}", "A turn.", SessionsRead, turn()),
            get(native::turns::show::<S>),
        ),
        route(
            told(
                "post",
                "/api/v1/sessions/{session}/interrupt",
                "Break off the turn under way.",
                SessionsWrite,
                stopped,
            ),
            post(native::turns::interrupt::<S>),
        ),
        route(follow, get(native::events::follow::<S>)),
        route(
            told(
                "get",
                "/api/v1/sessions/{session}/screen",
                "What its terminal shows.",
                TerminalView,
                screen,
            ),
            get(native::terminal::screen_of_session::<S>),
        ),
        route(
            sat_at(
                "/api/v1/sessions/{session}/terminal",
                "Sit down at the terminal of a session: a WebSocket.",
                TerminalView,
            ),
            get(native::terminal::of_session::<S>),
        ),
        route(
            told("get", "/api/v1/permissions", "What agents ask.", SessionsRead, questions),
            get(native::permissions::list::<S>),
        ),
        route(settle, post(native::permissions::settle::<S>)),
    ]
}

fn sat_at(path: &'static str, about: &'static str, scope: Scope) -> Doc {
    let answers = vec![Answered::of(101, "The connection is a WebSocket now.", Sent::Nothing)];
    Doc { parameters: vec![MANNER, ROWS, COLUMNS], answers, ..Doc::new("get", path, about, Some(scope)) }
}

fn runs<S: Start>() -> Vec<Route<S>> {
    use Scope::Admin;
    let listed = Answered::of(200, "The newest first.", Sent::Shape(schema::<Runs>));
    let shown = Answered::of(200, "It.", Sent::Shape(schema::<Run>));
    let events = Answered::of(200, "Server-sent events; each has a line of the journal.", Sent::Text);
    let screen = Answered::of(200, "What it shows.", Sent::Shape(schema::<Screen>));
    let list = Doc {
        parameters: vec![LIMIT],
        ..told("get", "/api/v1/runs", "Runs, from their journals.", Admin, listed)
    };
    let follow = Doc {
        parameters: vec![AFTER],
        ..told("get", "/api/v1/runs/{run}/events", "What happened in a run, and what happens.", Admin, events)
    };
    vec![
        route(list, get(native::runs::list::<S>)),
        route(told("get", "/api/v1/runs/{run}", "A run.", Admin, shown), get(native::runs::show::<S>)),
        route(follow, get(native::runs::follow::<S>)),
        route(
            told("get", "/api/v1/runs/{run}/screen", "What its terminal shows.", Admin, screen),
            get(native::terminal::screen_of_run::<S>),
        ),
        route(
            sat_at(
                "/api/v1/runs/{run}/terminal",
                "Sit down at the terminal of a live run: a WebSocket.",
                Admin,
            ),
            get(native::terminal::of_run::<S>),
        ),
    ]
}
