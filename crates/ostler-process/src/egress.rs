//! What processes in a jail reach in the network: ports of this machine that were granted, and hosts by a proxy.
//!
//! All of it is accepted on sockets that the jail has passed out. There is nothing else in its network, so that a program
//! that does not use the proxy reaches nothing.

mod chain;
mod notices;
mod proxy;
mod relay;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use ostler_agent::endpoint::Endpoint;
use ostler_agent::network::NetPolicy;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use chain::UserProxy;
pub(crate) use notices::HostLog;
pub use notices::{HostNotice, HostNotices};
use proxy::Proxy;

/// Connections of one jail to one port at once. The next one waits until another ends.
const MOST_CONNECTIONS: usize = 256;

/// The network of a jail, seen from outside.
#[derive(Debug)]
pub(crate) struct Egress {
    policy: NetPolicy,
    /// The address of the proxy inside.
    proxy: SocketAddr,
    user_proxy: Arc<UserProxy>,
    log: Arc<HostLog>,
}

impl Egress {
    /// What `policy` lets through, by the proxy of the user where there is one. Hosts are reported to the receiver.
    pub(crate) fn new(policy: NetPolicy, user_proxy: UserProxy) -> (Self, HostNotices) {
        let (log, notices) = HostLog::new();
        let (proxy, user_proxy) = (policy.proxy_address(), Arc::new(user_proxy));
        (Self { policy, proxy, user_proxy, log: Arc::new(log) }, notices)
    }

    /// The hosts that were asked for.
    pub(crate) fn log(&self) -> Arc<HostLog> {
        self.log.clone()
    }

    /// Also lets a port of this machine through. Whether it was closed.
    pub(crate) fn permit(&mut self, endpoint: &Endpoint) -> bool {
        let before = self.policy.listen().len();
        self.policy.permit(endpoint);
        self.policy.listen().len() > before
    }

    /// The sockets that a jail has to pass out.
    pub(crate) fn listen(&self) -> Vec<SocketAddr> {
        std::iter::once(self.proxy).chain(self.policy.listen().iter().copied()).collect()
    }

    /// Serves the sockets that a jail has passed out. Dropping the tasks ends all connections.
    pub(crate) fn serve(
        &self,
        listeners: Vec<(SocketAddr, std::net::TcpListener)>,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<()> {
        let policy = Arc::new(self.policy.clone());
        for (address, listener) in listeners {
            let listener = TcpListener::from_std(listener)?;
            if address == self.proxy {
                let (policy, user_proxy) = (policy.clone(), self.user_proxy.clone());
                tasks.spawn(Proxy { policy, user_proxy, log: self.log.clone() }.serve(listener));
            } else {
                tasks.spawn(relay::serve(listener, address));
            }
        }
        Ok(())
    }
}

/// Accepts connections until the task is dropped, and handles so many at once.
async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    handle: impl Fn(tokio::net::TcpStream) -> F,
) {
    let mut connections = JoinSet::new();
    loop {
        let has_room = connections.len() < MOST_CONNECTIONS;
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if has_room => match accepted {
                Ok((stream, _)) => {
                    // Pieces of an answer are small, and wanted at once.
                    let _ = stream.set_nodelay(true);
                    drop(connections.spawn(handle(stream)));
                }
                Err(error) => {
                    tracing::debug!(target: "ostler::run", %error, "no connection out of a jail");
                    // Too many open files: some are closed by the others.
                    tokio::time::sleep(RETRY_AFTER).await;
                }
            },
        }
    }
}

#[cfg(test)]
mod tests;

/// How long after a failed accept the next one is tried.
const RETRY_AFTER: std::time::Duration = std::time::Duration::from_millis(100);
