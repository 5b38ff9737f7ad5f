//! A network of its own: nothing but a loopback device, on which the ports of this machine that were granted exist too.
//!
//! The process binds them inside and passes the listening sockets out, so that Ostler accepts their connections outside. A
//! socket that reports the connections inside goes with them, because only one that was made there can.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};
use serde::{Deserialize, Serialize};

use super::JailError;
use super::canary::CanaryError;
use crate::contain::wire;

/// What exists in the network of a jail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JailNetwork {
    /// The ports to bind. What is connected to them comes to Ostler.
    pub listen: Vec<SocketAddr>,
    /// A port of this machine on which somebody listens, and that is not granted.
    pub canary: SocketAddr,
}

/// The first message out of a jail. With it come a socket that reports connections, and the listening sockets.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Passed {
    /// Whether each port could be bound. The others are of an address family that this machine does not have.
    bound: Vec<bool>,
}

/// What a jail's network has passed out.
#[derive(Debug)]
pub(crate) struct JailSockets {
    /// Reports the connections inside.
    pub(crate) diagnosis: OwnedFd,
    /// By the address that each is bound to.
    pub(crate) listeners: Vec<(SocketAddr, TcpListener)>,
}

/// How long an attempt to connect outside may take. Without a route the kernel refuses it at once.
const CANARY_LIMIT: Duration = Duration::from_secs(2);

/// Sets up the network of the calling process, which has just been made, and passes its sockets to `outlet`.
pub(super) fn set_up(network: &JailNetwork, outlet: BorrowedFd<'_>) -> Result<(), JailError> {
    let failed = |action| move |source: io::Error| JailError::Network { action, source };
    bring_up_loopback().map_err(failed("start the loopback device of"))?;
    let flags = SocketFlags::CLOEXEC;
    let diagnosis = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::SOCK_DIAG));
    let diagnosis = diagnosis.map_err(io::Error::from).map_err(failed("watch the connections of"))?;
    let mut listeners = Vec::new();
    let mut bound = Vec::new();
    for address in &network.listen {
        let listener = match TcpListener::bind(address) {
            Ok(listener) => Some(listener),
            Err(error) if address.is_ipv6() && is_unavailable(&error) => None,
            Err(error) => return Err(failed("listen in")(error)),
        };
        bound.push(listener.is_some());
        listeners.extend(listener);
    }
    let descriptors: Vec<BorrowedFd<'_>> =
        std::iter::once(diagnosis.as_fd()).chain(listeners.iter().map(AsFd::as_fd)).collect();
    wire::send(outlet, &Passed { bound }, &descriptors).map_err(failed("pass the sockets out of"))
}

/// Whether this machine does not have the address family.
fn is_unavailable(error: &io::Error) -> bool {
    let unavailable = [Errno::ADDRNOTAVAIL, Errno::AFNOSUPPORT];
    Errno::from_io_error(error).is_some_and(|errno| unavailable.contains(&errno))
}

/// Takes what [`set_up`] has passed. The process that did so is past that already.
pub(crate) fn receive(outlet: impl AsFd, network: &JailNetwork) -> io::Result<JailSockets> {
    let lost = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let (passed, descriptors) = wire::receive::<Passed>(outlet)?.ok_or_else(lost)?;
    let mut descriptors = descriptors.into_iter();
    let diagnosis = descriptors.next().ok_or_else(lost)?;
    let bound = network.listen.iter().zip(passed.bound).filter(|(_, is_bound)| *is_bound);
    let listeners: Vec<_> =
        bound.zip(descriptors).map(|((address, _), socket)| (*address, TcpListener::from(socket))).collect();
    for (_, listener) in &listeners {
        listener.set_nonblocking(true)?;
    }
    Ok(JailSockets { diagnosis, listeners })
}

/// Tries to connect to a port outside. That must fail.
pub(super) fn read_back(network: &JailNetwork) -> Result<(), CanaryError> {
    let action = "connect to a port";
    match TcpStream::connect_timeout(&network.canary, CANARY_LIMIT) {
        Ok(_) => Err(CanaryError::Reached { action }),
        Err(error) => {
            let refusals = [Errno::CONNREFUSED, Errno::NETUNREACH, Errno::HOSTUNREACH];
            match Errno::from_io_error(&error).is_some_and(|errno| refusals.contains(&errno)) {
                true => Ok(()),
                false => Err(CanaryError::Untested { action, source: error }),
            }
        }
    }
}

/// Numbers of linux/netlink.h, linux/rtnetlink.h and linux/if.h.
mod numbers {
    pub(super) const NEW_LINK: u16 = 16;
    pub(super) const REQUEST_AND_ACKNOWLEDGE: u16 = 0x5;
    pub(super) const ERROR: u16 = 2;
    pub(super) const HEADER: usize = 16;
    /// In every network namespace.
    pub(super) const LOOPBACK: i32 = 1;
    pub(super) const UP: u32 = 1;
}

/// Has the kernel switch the loopback device on, as `ip link set lo up` does.
fn bring_up_loopback() -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC;
    // NETLINK_ROUTE is the protocol zero.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    send(&socket, &link_request(), SendFlags::empty())?;
    let mut answer = [0; 1024];
    let (_, count) = recv(&socket, answer.as_mut_slice(), rustix::net::RecvFlags::empty())?;
    match read_answer(answer.get(..count).unwrap_or_default()) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// A `struct nlmsghdr` and a `struct ifinfomsg`.
fn link_request() -> Vec<u8> {
    const LENGTH: u32 = 32;
    let mut request = Vec::new();
    request.extend(LENGTH.to_ne_bytes());
    request.extend(numbers::NEW_LINK.to_ne_bytes());
    request.extend(numbers::REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    // Sequence number, port, address family and device type.
    request.extend([0; 12]);
    request.extend(numbers::LOOPBACK.to_ne_bytes());
    request.extend(numbers::UP.to_ne_bytes());
    request.extend(numbers::UP.to_ne_bytes());
    request
}

/// The number of the error in a `struct nlmsgerr`; zero is none.
fn read_answer(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let code = i32::from_ne_bytes(answer.get(numbers::HEADER..numbers::HEADER + 4)?.try_into().ok()?);
    (kind == numbers::ERROR).then_some(code)
}
