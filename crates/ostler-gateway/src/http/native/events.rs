//! What happens in a session, as it happens: first what was missed, then what comes. Pieces of a text are told to those
//! who listen now; they have no number, because the whole text follows.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Request as Incoming, State};
use ostler_agent::access::Scope;
use serde_json::json;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::followers::{Follower, farewell};
use super::super::following::{ALIVE, ALIVE_EVERY, Lines, last_seen};
use super::super::{Gateway, unfolding};
use super::Told;
use crate::conversations::{Heard, Unkept};
use crate::live::Start;
use crate::wire::{Kind, Problem};

struct Following {
    lines: Lines,
    last: watch::Receiver<u64>,
    pieces: broadcast::Receiver<Heard>,
    /// When a sign of life is due. It counts from what was sent last, not from what was read last.
    alive_at: Instant,
    ending: CancellationToken,
    /// Nobody, once he was told to go.
    follower: Option<Follower>,
}

/// Follows a session.
pub(in super::super) async fn follow<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path(id): Path<String>,
    incoming: Incoming,
) -> Told {
    let (visitor, tenant) = gateway.enter(incoming.headers(), Scope::SessionsRead)?;
    let seen = last_seen(incoming.headers(), incoming.uri())?;
    let conversation = gateway.session(tenant.as_deref(), &id)?;
    let path = conversation.journal().ok_or_else(|| Problem::new(Kind::Absent, &Unkept::Lost.to_string()))?;
    let (mut last, pieces) = conversation.listen();
    // What is there already is read without waiting.
    last.mark_changed();
    let lines = Lines::of(&path, "/happened/kind", seen);
    let follower = Some(gateway.follower(&visitor)?);
    let alive_at = Instant::now() + ALIVE_EVERY;
    let following = Following { lines, last, pieces, alive_at, ending: gateway.ending.clone(), follower };
    Ok(unfolding::events(following, step))
}

enum Next {
    Lines,
    Piece(Result<Heard, broadcast::error::RecvError>),
    Alive,
}

async fn step(mut following: Following) -> Option<(Bytes, Following)> {
    following.follower.as_ref()?;
    loop {
        let next = tokio::select! {
            biased;
            () = following.ending.cancelled() => return None,
            // Pieces first: they came before the line that has the whole.
            piece = following.pieces.recv() => Next::Piece(piece),
            // Who writes it is gone when it is forgotten.
            changed = following.last.changed() => {
                changed.ok()?;
                Next::Lines
            }
            () = tokio::time::sleep_until(following.alive_at) => Next::Alive,
        };
        if !following.follower.as_mut()?.is_still_welcome() {
            following.follower = None;
            return Some((farewell().into(), following));
        }
        let text = match next {
            Next::Alive => ALIVE.to_owned(),
            Next::Piece(Ok(Heard { turn, text })) => {
                format!("event: piece\ndata: {}\n\n", json!({"turn": turn, "text": text}))
            }
            // Missed pieces are in the whole text.
            Next::Piece(Err(broadcast::error::RecvError::Lagged(_))) => continue,
            Next::Piece(Err(broadcast::error::RecvError::Closed)) => return None,
            Next::Lines => {
                let news = following.lines.news().await.ok()?;
                if news.is_more {
                    following.last.mark_changed();
                }
                news.text
            }
        };
        if !text.is_empty() {
            following.alive_at = Instant::now() + ALIVE_EVERY;
            return Some((text.into(), following));
        }
    }
}
