//! Which connections are open, and which of them is closed for another.
//!
//! A connection is idle while no request is under way on it: before the first, between two, and while a head is read. Idle
//! ones may stay as long as there is room. When there is none, the one that has been idle longest goes: of the same
//! address where that has its share, else of the address with the most connections. So silent connections of one address
//! keep neither others nor itself out.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Connections at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// From all addresses. A further client waits in the system's own queue, which has an end too.
    pub total: usize,
    /// From one address.
    pub of_peer: usize,
}

impl Default for ConnectionLimits {
    /// What one address may have is more than all that may follow events at once, so that its programs never notice.
    fn default() -> Self {
        Self { total: 512, of_peer: 448 }
    }
}

/// All that are open. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Connections {
    limits: ConnectionLimits,
    open: Arc<Mutex<Open>>,
    /// One was closed.
    closed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Open {
    /// Orders what happened.
    clock: u64,
    connections: HashMap<u64, Connection>,
    peers: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Connection {
    peer: IpAddr,
    /// Requests under way.
    active: usize,
    /// Since when there is none.
    idle_since: u64,
    evict: CancellationToken,
}

/// A connection that counts until this is dropped. Clones are the same connection.
#[derive(Debug, Clone)]
pub(super) struct Slot(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    id: u64,
    connections: Connections,
    evicted: CancellationToken,
}

/// A request that is under way until this is dropped.
#[derive(Debug)]
pub(super) struct Active(Slot);

/// What becomes of a new connection.
enum Room {
    Free,
    /// Its address has as many as it may, and none of them is idle.
    Refused,
    /// There are as many as there may be, and none of them is idle.
    Full,
}

impl Connections {
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self { limits, open: Arc::default(), closed: Arc::default() }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // Nothing under the lock can panic half-way.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room, and makes it where an idle connection can go. Nothing if this address has its share at work.
    pub(super) async fn admit(&self, address: IpAddr) -> Option<Slot> {
        let peer = peer_of(address);
        loop {
            let closed = self.closed.notified();
            let mut closed = std::pin::pin!(closed);
            // Before looking, so that none is missed.
            closed.as_mut().enable();
            {
                let mut open = self.open();
                match open.make_room(peer, self.limits) {
                    Room::Free => return Some(self.insert(&mut open, peer)),
                    Room::Refused => return None,
                    Room::Full => {}
                }
            }
            closed.await;
        }
    }

    fn insert(&self, open: &mut Open, peer: IpAddr) -> Slot {
        open.clock += 1;
        let (id, evict) = (open.clock, CancellationToken::new());
        let connection = Connection { peer, active: 0, idle_since: id, evict: evict.clone() };
        open.connections.insert(id, connection);
        *open.peers.entry(peer).or_default() += 1;
        Slot(Arc::new(Counted { id, connections: self.clone(), evicted: evict }))
    }
}

impl Open {
    fn make_room(&mut self, peer: IpAddr, limits: ConnectionLimits) -> Room {
        if self.peers.get(&peer).is_some_and(|count| *count >= limits.of_peer) {
            return if self.evict_idle(|found| found == peer) { Room::Free } else { Room::Refused };
        }
        if self.connections.len() < limits.total {
            return Room::Free;
        }
        let idle = self.connections.values().filter(|connection| connection.active == 0);
        let crowded = idle.max_by_key(|connection| self.peers.get(&connection.peer));
        match crowded.map(|connection| connection.peer) {
            Some(crowded) if self.evict_idle(|found| found == crowded) => Room::Free,
            Some(_) | None => Room::Full,
        }
    }

    /// Closes the one that has been idle longest.
    fn evict_idle(&mut self, is_meant: impl Fn(IpAddr) -> bool) -> bool {
        let idle = self.connections.iter().filter(|(_, found)| found.active == 0 && is_meant(found.peer));
        let oldest = idle.min_by_key(|(_, found)| found.idle_since).map(|(id, _)| *id);
        if let Some(connection) = oldest.and_then(|id| self.remove(id)) {
            connection.evict.cancel();
            return true;
        }
        false
    }

    fn remove(&mut self, id: u64) -> Option<Connection> {
        let connection = self.connections.remove(&id)?;
        if let Some(count) = self.peers.get_mut(&connection.peer) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&connection.peer);
            }
        }
        Some(connection)
    }
}

impl Slot {
    /// A request is under way.
    pub(super) fn begin_request(&self) -> Active {
        if let Some(connection) = self.0.connections.open().connections.get_mut(&self.0.id) {
            connection.active += 1;
        }
        Active(self.clone())
    }

    /// Waits until the connection has to go.
    pub(super) async fn evicted(&self) {
        self.0.evicted.cancelled().await;
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let Counted { id, connections, .. } = &*self.0.0;
        let mut open = connections.open();
        open.clock += 1;
        let now = open.clock;
        if let Some(connection) = open.connections.get_mut(id) {
            connection.active = connection.active.saturating_sub(1);
            connection.idle_since = now;
        }
        drop(open);
        // It may go now for one that waits.
        connections.closed.notify_waiters();
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.connections.open().remove(self.id);
        self.connections.closed.notify_waiters();
    }
}

/// Whom an address counts as: with IPv6 one machine can have all addresses of its network.
fn peer_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            // Loopback is not a network.
            if address.is_loopback() { address.into() } else { Ipv6Addr::from(network).into() }
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::task::Poll;

    use super::*;

    const LIMITS: ConnectionLimits = ConnectionLimits { total: 4, of_peer: 3 };

    fn peer(number: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, number])
    }

    fn is_open(slot: &Slot) -> bool {
        !slot.0.evicted.is_cancelled()
    }

    #[tokio::test]
    async fn the_longest_idle_connection_of_an_address_goes_for_its_next() {
        let connections = Connections::new(LIMITS);
        let mut slots = Vec::new();
        for _ in 0..3 {
            slots.push(connections.admit(peer(1)).await.unwrap());
        }
        // The first one works, and the second is idle again only now.
        let first = slots[0].begin_request();
        drop(slots[1].begin_request());
        slots.push(connections.admit(peer(1)).await.unwrap());
        assert_eq!(slots.iter().map(is_open).collect::<Vec<_>>(), [true, true, false, true]);
        let work: Vec<Active> = slots.iter().map(Slot::begin_request).collect();
        assert!(connections.admit(peer(1)).await.is_none(), "all of them work");
        let other = connections.admit(peer(2)).await.unwrap();
        assert!(is_open(&other) && is_open(&slots[0]));
        drop((first, work));
    }

    #[tokio::test]
    async fn where_all_is_full_the_address_with_the_most_makes_room() {
        let connections = Connections::new(LIMITS);
        let mut slots = vec![connections.admit(peer(9)).await.unwrap()];
        for _ in 0..3 {
            slots.push(connections.admit(peer(1)).await.unwrap());
        }
        let new = connections.admit(peer(2)).await.unwrap();
        assert_eq!(slots.iter().map(is_open).collect::<Vec<_>>(), [true, false, true, true]);
        // With all at work it waits, until one of them is idle.
        slots.push(new);
        let mut work: Vec<Active> =
            slots.iter().filter(|slot| is_open(slot)).map(Slot::begin_request).collect();
        let mut waiting = std::pin::pin!(connections.admit(peer(3)));
        let first = std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await;
        assert!(first.is_pending());
        work.pop();
        assert!(waiting.await.is_some());
    }

    #[tokio::test]
    async fn what_is_closed_counts_no_more() {
        let connections = Connections::new(LIMITS);
        for _ in 0..10 {
            let slots =
                [connections.admit(peer(1)).await.unwrap(), connections.admit(peer(2)).await.unwrap()];
            let _active = slots[0].begin_request();
        }
        let open = connections.open();
        assert!(open.connections.is_empty() && open.peers.is_empty());
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_machine() {
        let of = |text: &str| peer_of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("::1").to_string(), "::1");
    }
}
