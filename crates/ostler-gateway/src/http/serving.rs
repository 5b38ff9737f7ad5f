//! Connections: how many there are, how long a head may take, or an answer to be taken, and how they end.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::admission::LONGEST_HEAD;
use super::connections::{ConnectionLimits, Connections, Slot};
use super::stalling::Stalling;
use super::visits::Lasting;
use super::{Tls, Waiting};

/// How much of a head is read: more than it may have, so that one that is too long is read to its end and gets an answer.
const MOST_OF_HEAD: usize = 2 * LONGEST_HEAD;

/// Fields in a head. With more of them it gets status 431.
const MOST_FIELDS: usize = 100;

/// How long it is waited after the system could not give a connection: it has no descriptors, for instance.
const BREATH: Duration = Duration::from_millis(200);

/// How long a connection may be quiet before it is looked whether anybody is there, how often, and how many times.
const QUIET: Duration = Duration::from_secs(30);
const PROBE_EVERY: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;

/// How long connections may take to end once there is nothing more to say.
const FAREWELL: Duration = Duration::from_secs(2);

/// What connections lead to.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) router: Router,
    pub(super) tls: Option<Tls>,
    pub(super) waiting: Waiting,
}

/// Serves until it is told to close, lets what is being sent be sent for a moment, and ends all connections.
pub(super) async fn serve(
    listener: TcpListener,
    door: Door,
    limits: ConnectionLimits,
    closing: CancellationToken,
) {
    let open = Connections::new(limits);
    let mut connections = JoinSet::new();
    // A connection that was accepted and waits for room.
    let mut accepted: Option<(TcpStream, IpAddr)> = None;
    loop {
        let next = async {
            let peer = match &accepted {
                Some((_, peer)) => *peer,
                None => accepted.insert(accept(&listener).await).1,
            };
            open.admit(peer).await
        };
        tokio::select! {
            biased;
            () = closing.cancelled() => break,
            slot = next => {
                // Where there is no slot, the connection is closed: its address has its share.
                if let (Some(slot), Some((stream, _))) = (slot, accepted.take()) {
                    connections.spawn(connect(stream, slot, door.clone(), closing.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
    drop(accepted);
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    // Who does not read what he asked for is not waited for.
    let _ = tokio::time::timeout(FAREWELL, ended).await;
}

async fn accept(listener: &TcpListener) -> (TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Pieces of an answer are small, and wanted at once. What cannot be set is only slower.
                let _ = stream.set_nodelay(true);
                let _ = watch_for_end(&stream);
                return (stream, peer.ip());
            }
            Err(error) if is_of_the_visitor(&error) => {}
            Err(error) => {
                tracing::warn!(target: "ostler::http", %error, "no connection could be taken");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
}

/// Whoever is gone without a word is noticed after a minute, not after hours.
fn watch_for_end(stream: &TcpStream) -> rustix::io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, QUIET)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)
}

fn is_of_the_visitor(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn connect(stream: TcpStream, slot: Slot, door: Door, closing: CancellationToken) {
    let Waiting { head, taking, .. } = door.waiting;
    let Some(tls) = door.tls.clone() else {
        let stream = Stalling::new(stream, taking);
        return serve_http(stream, (slot, None), door, closing).await;
    };
    // The handshake counts as part of the first head: both together take no longer than a head may.
    let until = Instant::now() + head;
    let accepted = tokio::select! {
        biased;
        () = closing.cancelled() => return,
        () = slot.evicted() => return,
        accepted = tokio::time::timeout_at(until, tls.accept(stream, taking)) => accepted,
    };
    match accepted {
        Ok(Ok(stream)) => serve_http(stream, (slot, Some(until)), door, closing).await,
        Ok(Err(error)) => tracing::debug!(target: "ostler::http", %error, "a TLS handshake failed"),
        Err(_) => tracing::debug!(target: "ostler::http", "a TLS handshake took too long"),
    }
}

/// Serves a connection. The first head is to be there until then, where that is sooner than any head has to be.
async fn serve_http<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: T,
    (slot, first_head): (Slot, Option<Instant>),
    door: Door,
    closing: CancellationToken,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(door.waiting.head)
        .max_buf_size(MOST_OF_HEAD)
        .max_headers(MOST_FIELDS);
    let (router, requests) = (TowerToHyperService::new(door.router), slot.clone());
    let has_head = CancellationToken::new();
    let began = has_head.clone();
    let service = service_fn(move |incoming| {
        began.cancel();
        // Until the response is sent, or the connection is another protocol's.
        let active = requests.begin_request();
        let answered = router.call(incoming);
        async move { answered.await.map(|response| response.map(|body| Lasting::body(body, active))) }
    });
    let connection = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        biased;
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        served = connection.as_mut() => served,
        () = slot.evicted() => return,
        () = is_late(first_head, &has_head) => return,
    };
    if let Err(error) = served {
        tracing::debug!(target: "ostler::http", %error, "a connection broke");
    }
}

/// Ready once it is too late for the first head. Never, if it came in time.
async fn is_late(first_head: Option<Instant>, has_head: &CancellationToken) {
    if let Some(until) = first_head
        && tokio::time::timeout_at(until, has_head.cancelled()).await.is_err()
    {
        return;
    }
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_is_gone_without_a_word_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = accept(&listener).await;
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), QUIET);
        assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), PROBES);
    }
}
