//! What Ostler, the guardian and the shim say to each other: one line of JSON a message, and the descriptors that go
//! with the first one in each direction.
//!
//! Both ends are the same binary, so a message that is not understood is a fault, never tolerated.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ostler_agent::jail::JailReport;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Exit, Tier};

/// Refused when it differs: the binary was replaced while Ostler was running.
pub(super) const VERSION: u32 = 5;

/// The longest message is the brief, with a path of at most 4096 bytes in it.
pub(super) const MESSAGE_BYTES: usize = 16 * 1024;

/// As many as a jail's network passes out; all other messages have fewer.
const DESCRIPTORS: usize = 64;

/// The first message to a guardian. With it come: the plan, the agent's three streams, the leaf if there is one, and what
/// [`Entry`] says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Brief {
    pub(super) v: u32,
    pub(super) mark: String,
    pub(super) tier: Tier,
    pub(super) demand: Demand,
    pub(super) leaf: Option<String>,
    pub(super) entry: Entry,
}

/// Which wall the process enters, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    /// A new one.
    New,
    /// A new one with a network of its own. The socket that takes what that passes out comes along.
    NewNetwork,
    /// The one of an earlier process. Its namespaces come along.
    Earlier,
}

/// What to do when the tier turns out not to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Demand {
    /// Take a lesser one, and say so.
    Preferred,
    /// Start nothing.
    Forced,
}

/// Later messages to a guardian.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// Kill all, tell who is left, and go.
    KillAll,
}

/// Messages from a guardian.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// The first, with a pidfd of the leader and, if it has made namespaces, these.
    Spawned {
        tier: Tier,
        jail: Option<JailReport>,
    },
    /// The first and last.
    StartFailed(Refusal),
    LeaderExited {
        exit: Exit,
    },
    /// The leader and all its descendants have ended by themselves.
    Emptied,
    /// The last.
    Gone {
        survivors: u32,
        why: Farewell,
    },
}

/// Why a guardian ended everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Farewell {
    /// It was ordered to.
    Ordered,
    /// Somebody asked it to end.
    Signalled,
}

/// Where a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Step {
    Guard,
    Contain,
    Jail,
    /// A layer above a directory: the only part of a wall that can be left out.
    Layer,
    Folder,
    Program,
}

/// The first message to a shim, with the plan, the three streams, and what [`Entry`] says. An empty line follows: go. So does another one
/// for each [`ShimReport::NeedsIdMaps`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShimBrief {
    pub(super) guardian: i32,
    pub(super) entry: Entry,
}

/// Messages from a shim. When it becomes the agent the kernel closes its end.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ShimReport {
    /// It has made a user namespace, and waits.
    NeedsIdMaps,
    /// The wall stands.
    Jailed(JailReport),
    /// The last: it does not become the agent.
    Refused(Refusal),
}

/// Why a start failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Refusal {
    pub(super) step: Step,
    pub(super) errno: i32,
    /// More, where the step alone does not say it.
    pub(super) detail: Option<String>,
}

pub(super) fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(message)?;
    bytes.push(b'\n');
    Ok(bytes)
}

pub(super) fn parse<T: DeserializeOwned>(line: &[u8]) -> io::Result<T> {
    Ok(serde_json::from_slice(line)?)
}

/// Sends a message with descriptors. Nonblocking sockets have room for it, because it is the first.
pub(crate) fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = line(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("more descriptors than were planned for"));
    }
    let sent = sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives a message with its descriptors, which no other program inherits. `None`: the other end is closed.
pub(crate) fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let count = recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    if count == 0 {
        return Ok(None);
    }
    Ok(Some((parse(&bytes[..count])?, descriptors)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn descriptors_arrive_with_their_message() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        send(&ours, &ShimBrief { guardian: 7, entry: Entry::New }, &[writer.as_fd()]).unwrap();
        drop((ours, writer));
        let (brief, descriptors) = receive::<ShimBrief>(&theirs).unwrap().unwrap();
        assert_eq!((brief.guardian, descriptors.len()), (7, 1));
        rustix::io::write(&descriptors[0], b"x").unwrap();
        drop(descriptors);
        assert_eq!(std::io::read_to_string(reader).unwrap(), "x");
        assert!(receive::<ShimBrief>(&theirs).unwrap().is_none());
    }

    #[test]
    fn what_is_not_understood_is_a_fault() {
        assert!(parse::<Order>(b"\"dance\"\n").is_err());
        assert!(parse::<ShimBrief>(b"{\"guardian\":1,\"entry\":\"new\",\"more\":2}\n").is_err());
    }
}
