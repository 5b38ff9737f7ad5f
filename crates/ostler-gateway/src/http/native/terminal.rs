//! Terminals over a WebSocket: watched by those who may view, typed into by the one who holds it.
//!
//! To the client: a text frame `{"shown":"anew","rows":40,"columns":120}` (forget what was shown: an empty terminal of that
//! size), and binary frames with what the program wrote. From one who holds it: binary frames with keys, as a terminal
//! sends them, and text frames `{"do":"resize","rows":24,"columns":80}`. Whoever only watches is not listened to. The
//! policy for one who reads slowly is the seat's: what would be too much is dropped, and the screen drawn anew; whoever
//! takes nothing for half a minute is shown the door.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{FromRequestParts as _, Path, Request as Incoming, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use ostler_agent::access::Scope;
use ostler_agent::look::Look;
use ostler_process::control::attached::Attached;
use ostler_process::control::{CallError, attach};
use ostler_process::terminal::painter::Manner;
use ostler_process::terminal::pty::Size;
use ostler_process::terminal::screen::Screen as Emulator;
use ostler_process::terminal::seat::{Hold, Seat, Shown, Unseated, Viewer};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::Gateway;
use super::super::followers::{Follower, REVOKED};
use super::super::reading::query;
use super::shapes::Screen;
use super::{Told, answer};
use crate::conversations::Conversation;
use crate::live::Start;
use crate::wire::{Kind, Problem};

/// How long one who watches may take nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest frame that is taken: a large paste.
const LONGEST_FRAME: usize = 1 << 20;

/// How often it is looked whether somebody is still there.
const PING_EVERY: Duration = Duration::from_secs(15);

/// What is spoken here.
const PROTOCOL: &str = "ostler.v1";

/// A browser cannot send a key in a header of its own: it names it as a protocol.
const KEY_PROTOCOL: &str = "ostler.key.";

/// A place at a terminal.
enum Sitting {
    /// At that of a run, in another process.
    Run(Box<Attached>),
    /// At one of ours.
    Here { viewer: Viewer, hold: Option<Hold> },
}

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Done {
    Resize { rows: u16, columns: u16 },
}

/// The key, also where it is named as a protocol.
fn with_key(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    let protocols = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL);
    let named = protocols.iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let key = named.map(str::trim).find_map(|name| name.strip_prefix(KEY_PROTOCOL).map(str::to_owned));
    if let Some(key) = key.and_then(|key| HeaderValue::from_str(&key).ok()) {
        headers.entry("x-api-key").or_insert(key);
    }
    headers
}

/// Whether to type too, and in which window.
fn wanted(uri: &Uri) -> Result<(Manner, Size), Problem> {
    let manner = match query(uri, "manner").as_deref() {
        None | Some("view") => Manner::View,
        Some("hold") => Manner::Hold,
        Some(_) => return Err(Problem::invalid("this must be `view` or `hold`").about("manner")),
    };
    let side = |name: &'static str, usual: u16| match query(uri, name) {
        None => Ok(usual),
        Some(text) => text.parse::<u16>().map_err(|_| Problem::invalid("this must be a number").about(name)),
    };
    let usual = Size::USUAL;
    Ok((manner, Size { columns: side("columns", usual.columns)?, rows: side("rows", usual.rows)? }))
}

fn scope(manner: Manner) -> Scope {
    match manner {
        Manner::View => Scope::TerminalView,
        Manner::Hold => Scope::TerminalHold,
    }
}

fn uncalled(error: &CallError) -> Problem {
    match error {
        CallError::Refused { reason, .. } => {
            let is_taken = [Unseated::Held, Unseated::Typing, Unseated::Full]
                .iter()
                .any(|unseated| reason.contains(&unseated.to_string()));
            Problem::new(if is_taken { Kind::Held } else { Kind::Absent }, reason)
        }
        CallError::NotLive { .. } => Problem::new(Kind::Absent, "this run is not under way"),
        CallError::Unreachable { .. } => Problem::new(Kind::Agent, "this run does not answer"),
    }
}

fn unseated(error: Unseated) -> Problem {
    let kind = match error {
        Unseated::Held | Unseated::Typing | Unseated::Full => Kind::Held,
        Unseated::Over => Kind::Absent,
    };
    Problem::new(kind, &error.to_string())
}

/// The terminal of a run's agent.
pub(in super::super) async fn of_run<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path(id): Path<String>,
    incoming: Incoming,
) -> Told {
    let (manner, window) = wanted(incoming.uri())?;
    let (visitor, kept) = gateway.run(&with_key(incoming.headers()), &id).await?;
    let upgrade = upgrade(incoming).await?;
    let follower = gateway.follower(&visitor)?;
    let attached = attach(&kept, manner, window).await.map_err(|error| uncalled(&error))?;
    Ok(seated(&gateway, upgrade, Sitting::Run(Box::new(attached)), (manner, follower)))
}

/// The terminal of a session.
pub(in super::super) async fn of_session<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path(id): Path<String>,
    incoming: Incoming,
) -> Told {
    let (manner, window) = wanted(incoming.uri())?;
    let (visitor, tenant) = gateway.enter(&with_key(incoming.headers()), scope(manner))?;
    let conversation = gateway.session(tenant.as_deref(), &id)?;
    if manner == Manner::Hold {
        if !visitor.key.policy.may_allow() {
            let message = "this key may watch terminals, but not type: a person at a terminal answers what the agent \
                           asks, which needs a key with the permissions `all`";
            return Err(Problem::new(Kind::Forbidden, message).into());
        }
        gateway.reauthorize_folder(&visitor, &conversation.opening)?;
    }
    let upgrade = upgrade(incoming).await?;
    let follower = gateway.follower(&visitor)?;
    let seat = gateway.seat_of(&conversation)?;
    if manner == Manner::Hold && conversation.summary().turn.is_some() {
        let message = "a turn is under way: interrupt it, or wait for its end";
        return Err(Problem::new(Kind::Held, message).into());
    }
    let viewer = seat.watch().map_err(unseated)?;
    let hold = match manner {
        Manner::View => None,
        Manner::Hold => Some(seat.hold(window).await.map_err(unseated)?),
    };
    Ok(seated(&gateway, upgrade, Sitting::Here { viewer, hold }, (manner, follower)))
}

async fn upgrade(incoming: Incoming) -> Result<WebSocketUpgrade, Problem> {
    let (mut parts, _) = incoming.into_parts();
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    upgrade.map_err(|error| Problem::invalid(&format!("this is for a WebSocket: {error}")))
}

fn seated<S: Start>(
    gateway: &Gateway<S>,
    upgrade: WebSocketUpgrade,
    sitting: Sitting,
    who: (Manner, Follower),
) -> Response {
    let (ending, sitters) = (gateway.ending.clone(), gateway.sitters.clone());
    let upgrade = upgrade.max_message_size(LONGEST_FRAME).max_frame_size(LONGEST_FRAME);
    upgrade
        .protocols([PROTOCOL])
        .on_upgrade(move |socket| sitters.track_future(sit(socket, sitting, who, ending)))
}

/// What happened next.
enum Next {
    Shown(Option<Shown>),
    Came(Option<Result<Message, axum::Error>>),
    Sent(bool),
    Ping,
    Ending,
}

impl Sitting {
    /// What is shown next, or that something typed was sent. Cancel safe.
    async fn next(&mut self) -> Next {
        match self {
            Self::Here { viewer, .. } => Next::Shown(viewer.next().await),
            Self::Run(attached) => {
                let Attached { eyes, fingers } = attached.as_mut();
                tokio::select! {
                    shown = eyes.next() => Next::Shown(shown),
                    sent = fingers.send() => Next::Sent(sent.is_ok()),
                }
            }
        }
    }

    async fn type_in(&mut self, bytes: &[u8]) -> bool {
        match self {
            Self::Here { hold: Some(hold), .. } => hold.type_in(bytes).await.is_ok(),
            Self::Here { hold: None, .. } => true,
            Self::Run(attached) => {
                attached.fingers.type_in(bytes);
                true
            }
        }
    }

    fn resize(&mut self, size: Size) {
        match self {
            Self::Here { hold: Some(hold), .. } => hold.resize(size),
            Self::Here { hold: None, .. } => {}
            Self::Run(attached) => attached.fingers.resize(size),
        }
    }
}

/// Until one of both goes, or the key does: nothing is typed with one that was revoked.
async fn sit(
    mut socket: WebSocket,
    mut sitting: Sitting,
    (manner, mut follower): (Manner, Follower),
    ending: CancellationToken,
) {
    let mut ping = tokio::time::interval(PING_EVERY);
    let (code, reason) = loop {
        let next = tokio::select! {
            biased;
            () = ending.cancelled() => Next::Ending,
            came = socket.recv() => Next::Came(came),
            next = sitting.next() => next,
            _ = ping.tick() => Next::Ping,
        };
        let is_welcome = match &next {
            Next::Came(_) | Next::Ping => follower.is_welcome(),
            Next::Shown(_) | Next::Sent(_) | Next::Ending => follower.is_still_welcome(),
        };
        if !is_welcome {
            break (close_code::POLICY, REVOKED);
        }
        let frames = match next {
            Next::Ending => break (close_code::AWAY, "the server is about to end"),
            Next::Shown(None) | Next::Sent(false) => break (close_code::NORMAL, "the terminal is closed"),
            Next::Came(None | Some(Err(_)) | Some(Ok(Message::Close(_)))) => return,
            Next::Sent(true) => continue,
            Next::Ping => vec![Message::Ping(Vec::new().into())],
            Next::Shown(Some(Shown::Anew { size: Size { columns, rows }, bytes })) => {
                let told = json!({"shown": "anew", "rows": rows, "columns": columns});
                vec![Message::Text(told.to_string().into()), Message::Binary(bytes.into())]
            }
            Next::Shown(Some(Shown::Bytes(bytes))) => vec![Message::Binary(bytes.into())],
            Next::Came(Some(Ok(message))) => match heard(&mut sitting, manner, message).await {
                Ok(()) => continue,
                Err(reason) => break (close_code::POLICY, reason),
            },
        };
        for frame in frames {
            match tokio::time::timeout(PATIENCE, socket.send(frame)).await {
                Ok(Ok(())) => {}
                // It is gone, or takes nothing: nothing more can be told to it either.
                Ok(Err(_)) | Err(_) => return,
            }
        }
    };
    let close = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
    let _ = tokio::time::timeout(PATIENCE, socket.send(close)).await;
}

async fn heard(sitting: &mut Sitting, manner: Manner, message: Message) -> Result<(), &'static str> {
    match (message, manner) {
        (Message::Ping(_) | Message::Pong(_) | Message::Close(_), _) => Ok(()),
        (Message::Binary(_) | Message::Text(_), Manner::View) => Err("whoever only watches does not type"),
        (Message::Binary(bytes), Manner::Hold) => match sitting.type_in(&bytes).await {
            true => Ok(()),
            false => Err("the terminal is closed"),
        },
        (Message::Text(text), Manner::Hold) => {
            let Ok(Done::Resize { rows, columns }) = serde_json::from_str(&text) else {
                return Err("this is not known: keys are binary, a size is {\"do\":\"resize\",…}");
            };
            sitting.resize(Size { columns, rows });
            Ok(())
        }
    }
}

/// What the terminal of a run's agent shows.
pub(in super::super) async fn screen_of_run<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Told {
    let (_, kept) = gateway.run(&headers, &id).await?;
    let mut attached = attach(&kept, Manner::View, Size::USUAL).await.map_err(|error| uncalled(&error))?;
    let Some(Shown::Anew { size, bytes }) = attached.eyes.next().await else {
        return Err(unseated(Unseated::Over).into());
    };
    let mut screen = Emulator::new(size);
    screen.feed(&bytes);
    Ok(shown(screen.look()))
}

/// What the terminal of a session shows.
pub(in super::super) async fn screen_of_session<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Told {
    let conversation = gateway.entered(&headers, Scope::TerminalView, &id)?;
    Ok(shown(gateway.seat_of(&conversation)?.look()))
}

fn shown(look: Look) -> Response {
    let rows = u16::try_from(look.rows.len()).unwrap_or(u16::MAX);
    let text = look.dump();
    answer(StatusCode::OK, &Screen { columns: look.columns, rows, title: look.title, text })
}

impl<S: Start> Gateway<S> {
    /// The terminal of a session: where several have its conversation, of the one that was asked last.
    fn seat_of(&self, conversation: &Conversation) -> Result<Seat, Problem> {
        let listed = self.pool.sessions().into_iter();
        let its = listed.filter(|listed| listed.is_of(&conversation.opening.tenant, conversation.id()));
        let seats = its.filter_map(|listed| Some((listed.asked, listed.terminal?)));
        let seat = seats.max_by_key(|(asked, _)| *asked).map(|(_, seat)| seat);
        seat.ok_or_else(|| Problem::new(Kind::Absent, "this session has no terminal now"))
    }
}
