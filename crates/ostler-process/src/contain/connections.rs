//! What the TCP connections of a process have received, as the kernel counts it.
//!
//! Agents that report whole messages only are silent on every other channel while the model's answer streams. The count
//! shows that bytes arrive, never what they are. It is asked for by `NETLINK_SOCK_DIAG`, which needs no privileges. A jail with a
//! network of its own passes out a socket that is asked instead. Where the kernel does not answer there seem to be no
//! connections.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::io;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// Bytes that a process has sent over a connection on which it waits for an answer of a model. A request holds the
/// instructions and the conversation: 31 KB for OpenCode's first one, 39 KB for Codex'. The stream on which a tool server
/// announces changes, and sends keep-alives all day, has sent a few headers.
const LEAST_SENT: u64 = 4096;

/// Read at once: the kernel writes no more than this into one part of a dump.
const READ_BYTES: usize = 32 * 1024;

/// Parts of a dump that are read, about a hundred connections each. A machine with more has other worries.
const MOST_READS: usize = 4096;

/// The kernel's own bound on numbers of errors.
const HIGHEST_ERROR: i32 = 4095;

/// What each connection of a process on which it has sent a request has received.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Connections {
    received: BTreeMap<u32, u64>,
}

impl Connections {
    /// Those of a process, which `diagnosis` reports if its network is another one. Takes a millisecond, and more on a machine with many thousand connections: ask when an agent is
    /// quiet, not all the time.
    pub(super) fn of_process(pid: u32, diagnosis: Option<&Diagnosis>) -> Self {
        let sockets = sockets_of(pid);
        if sockets.is_empty() {
            return Self::default();
        }
        let mut received = BTreeMap::new();
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            let dumped = dump(family, diagnosis, |counted| {
                if counted.sent >= LEAST_SENT && sockets.contains(&counted.inode) {
                    received.insert(counted.inode, counted.received);
                }
            });
            if let Err(error) = dumped {
                tracing::debug!(target: "ostler::run", %error, "the kernel does not report connections");
            }
        }
        Self { received }
    }

    /// Bytes that were received since an earlier look. A new connection has received all of its bytes since.
    pub(super) fn received_since(&self, earlier: &Self) -> u64 {
        let since = |(inode, count): (&u32, &u64)| {
            // A number may have gone to another connection meanwhile, which has received less.
            let before = earlier.received.get(inode).copied().filter(|before| before <= count);
            count.saturating_sub(before.unwrap_or(0))
        };
        self.received.iter().map(since).fold(0, u64::saturating_add)
    }
}

/// The inodes of all sockets that the process has open.
fn sockets_of(pid: u32) -> BTreeSet<u32> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let inode = |entry: fs::DirEntry| {
        let link = fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    open.filter_map(inode).collect()
}

/// What the kernel has counted on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counted {
    inode: u32,
    sent: u64,
    received: u64,
}

/// Numbers of linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h and linux/tcp.h.
mod wire {
    pub(super) const SOCK_DIAG_BY_FAMILY: u16 = 20;
    pub(super) const REQUEST_AND_DUMP: u16 = 0x301;
    pub(super) const ERROR: u16 = 2;
    pub(super) const DONE: u16 = 3;
    pub(super) const HEADER: usize = 16;
    pub(super) const TCP: u8 = 6;
    pub(super) const INFO: u16 = 2;
    pub(super) const ESTABLISHED: u32 = 1 << 1;
    /// `struct inet_diag_msg`, and where its inode is.
    pub(super) const MESSAGE: usize = 72;
    pub(super) const INODE: usize = 68;
    /// In `struct tcp_info`.
    pub(super) const BYTES_ACKED: usize = 120;
    pub(super) const BYTES_RECEIVED: usize = 128;
}

/// Reports the connections of the network that it was made in. One question at a time.
#[derive(Debug)]
pub(crate) struct Diagnosis(Mutex<OwnedFd>);

impl Diagnosis {
    /// By a socket from inside that network.
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(Mutex::new(socket))
    }
}

/// Passes on every established TCP connection of an address family in a network namespace.
fn dump(family: AddressFamily, diagnosis: Option<&Diagnosis>, take: impl FnMut(Counted)) -> io::Result<()> {
    match diagnosis {
        Some(diagnosis) => {
            let socket = diagnosis.0.lock().unwrap_or_else(PoisonError::into_inner);
            dump_by(&socket, family, take)
        }
        None => {
            let flags = SocketFlags::CLOEXEC;
            let socket =
                socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::SOCK_DIAG))?;
            dump_by(&socket, family, take)
        }
    }
}

fn dump_by(socket: &OwnedFd, family: AddressFamily, mut take: impl FnMut(Counted)) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    // What is left of an earlier answer that was not read to its end.
    while recv(socket, buffer.as_mut_slice(), RecvFlags::DONTWAIT).is_ok() {}
    send(socket, &request(family), SendFlags::empty())?;
    for _ in 0..MOST_READS {
        // The kernel writes a dump while it is read: there is always something until its end.
        let (_, count) = recv(socket, buffer.as_mut_slice(), RecvFlags::DONTWAIT)?;
        if read_part(buffer.get(..count).unwrap_or_default(), &mut take)? == Part::Last {
            break;
        }
    }
    Ok(())
}

/// `struct inet_diag_req_v2` for all connections that are established, with `struct tcp_info`.
fn request(family: AddressFamily) -> Vec<u8> {
    const BODY: usize = 56;
    let length = u32::try_from(wire::HEADER + BODY).unwrap_or_default();
    let mut request = Vec::with_capacity(wire::HEADER + BODY);
    request.extend(length.to_ne_bytes());
    request.extend(wire::SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(wire::REQUEST_AND_DUMP.to_ne_bytes());
    // Sequence number and port: this socket sends one request only.
    request.extend([0; 8]);
    let family = u8::try_from(family.as_raw()).unwrap_or_default();
    request.extend([family, wire::TCP, 1 << (wire::INFO - 1), 0]);
    request.extend(wire::ESTABLISHED.to_ne_bytes());
    request.resize(wire::HEADER + BODY, 0);
    request
}

/// Whether more follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Inner,
    Last,
}

fn read_part(mut bytes: &[u8], take: &mut impl FnMut(Counted)) -> io::Result<Part> {
    while let (Some(length), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        match kind {
            wire::DONE => return Ok(Part::Last),
            wire::ERROR => {
                let code = u32_at(bytes, wire::HEADER).unwrap_or_default().cast_signed().wrapping_neg();
                let is_error = (1..=HIGHEST_ERROR).contains(&code);
                return if is_error { Err(io::Errno::from_raw_os_error(code)) } else { Ok(Part::Last) };
            }
            _ => {}
        }
        let Some(message) = bytes.get(wire::HEADER..length) else { return Ok(Part::Last) };
        if let Some(counted) = read_message(message) {
            take(counted);
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(Part::Inner)
}

fn read_message(message: &[u8]) -> Option<Counted> {
    let inode = u32_at(message, wire::INODE)?;
    let mut attributes = message.get(wire::MESSAGE..)?;
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        if u16_at(attributes, 2)? == wire::INFO {
            let info = attributes.get(4..length)?;
            let (sent, received) = (u64_at(info, wire::BYTES_ACKED)?, u64_at(info, wire::BYTES_RECEIVED)?);
            return Some(Counted { inode, sent, received });
        }
        // An attribute has at least its own header: without that this would not end.
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

    use proptest::prelude::*;

    use super::*;

    /// Inodes, and what their connections have received.
    type Received = &'static [(u32, u64)];

    fn connections(received: Received) -> Connections {
        Connections { received: received.iter().copied().collect() }
    }

    #[test]
    fn what_was_received_is_told_from_an_earlier_look() {
        let table: [(Received, Received, u64); 6] = [
            (&[], &[], 0),
            (&[(1, 100)], &[(1, 100)], 0),
            (&[(1, 100)], &[(1, 113), (2, 40)], 53),
            (&[(1, 100), (2, 40)], &[(2, 41)], 1),
            (&[(1, 100)], &[(1, 30)], 30),
            (&[], &[(1, u64::MAX), (2, 1)], u64::MAX),
        ];
        for (earlier, later, want) in table {
            assert_eq!(connections(later).received_since(&connections(earlier)), want, "{later:?}");
        }
    }

    /// An agent and its provider, in one process: both ends are ours.
    fn connected(address: SocketAddr) -> (TcpStream, TcpStream) {
        let provider = TcpListener::bind(address).unwrap();
        let agent = TcpStream::connect(provider.local_addr().unwrap()).unwrap();
        (agent, provider.accept().unwrap().0)
    }

    fn send_through(from: &mut TcpStream, to: &mut TcpStream, count: usize) {
        from.write_all(&vec![b'x'; count]).unwrap();
        to.read_exact(&mut vec![0; count]).unwrap();
    }

    #[test]
    fn an_answer_is_counted_and_a_connection_without_a_request_is_not() {
        for address in [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), (Ipv6Addr::LOCALHOST, 0).into()] {
            let (mut agent, mut provider) = connected(address);
            let look = || Connections::of_process(std::process::id(), None);
            let inode = {
                use std::os::fd::AsRawFd as _;
                let link = fs::read_link(format!("/proc/self/fd/{}", agent.as_raw_fd())).unwrap();
                link.to_str().unwrap().trim_matches(|letter: char| !letter.is_ascii_digit()).parse().unwrap()
            };
            let of_agent = |look: &Connections| look.received.get(&inode).copied();
            send_through(&mut provider, &mut agent, 10);
            assert_eq!(of_agent(&look()), None, "nothing was requested yet");
            send_through(&mut agent, &mut provider, 8192);
            let before = look();
            assert_eq!(of_agent(&before), Some(10), "{address}");
            assert_eq!(of_agent(&look()), Some(10), "nothing arrives, nothing is counted");
            send_through(&mut provider, &mut agent, 13);
            assert_eq!(of_agent(&look()), Some(23));
        }
    }

    #[test]
    fn a_process_that_is_gone_has_no_connections() {
        assert_eq!(Connections::of_process(u32::MAX, None), Connections::default());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = read_part(&bytes, &mut |_| {});
            let _ = read_message(&bytes);
        }

        #[test]
        fn a_short_length_does_not_read_for_ever(length in 0u32..20, kind in 0u16..40) {
            let mut bytes = length.to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.resize(200, 0);
            let _ = read_part(&bytes, &mut |_| {});
        }
    }
}
