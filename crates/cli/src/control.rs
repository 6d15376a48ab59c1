//! What front, keeper and later callers say to each other: one JSON message per packet of a Unix
//! socket (`SOCK_SEQPACKET`), with open files beside it where a message needs them.
//!
//! Owns the messages and their carriage; what they lead to is decided by keeper and verbs.

use crate::sandbox::{accept, receive};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, bind, connect,
    listen, sendmsg, socket, socketpair,
};
use quorate_contract::report::Report;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

/// The largest message. A report is at most 4 KiB; the longest list is that of pods.
const MESSAGE_LIMIT: usize = 1 << 20;
/// The name of the control socket in a cluster's directory.
pub const SOCKET: &str = "control.sock";

/// From the keeper to the front that started it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum Notice {
    /// The launcher's standard output and standard error come with this message.
    Output {
        /// The attempt.
        attempt: u32,
    },
    /// A stream of [`quorate_contract::status::ClusterStatus`] lines comes with this message.
    Status,
    /// A pod's command runs.
    Started {
        /// The pod, as people call it.
        pod: String,
    },
    /// A pod ended.
    Ended {
        /// The pod, as people call it.
        pod: String,
        /// Its code.
        code: i32,
        /// What it left behind.
        report: Option<Box<Report>>,
        /// What kept its command from starting.
        problem: Option<String>,
    },
    /// The cluster starts again.
    Restarted {
        /// The attempt that begins.
        attempt: u32,
        /// Restarts that are planned for.
        max_restarts: u32,
        /// Why.
        message: String,
    },
    /// The cluster has ended. Pods may still be on their way out.
    Finished(Finish),
}

/// How a cluster ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finish {
    /// The code that `quorate run` ends with.
    pub code: i32,
    /// The JobSet completed.
    pub completed: bool,
    /// The reason of the JobSet's condition, or `Deleted`.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// From the front to the keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum Order {
    /// Pass a signal to the launcher; the cluster is not restarted after it.
    Signal {
        /// Its number.
        number: i32,
    },
    /// End everything now.
    Kill {
        /// The signal that made the user's side want that; the code is 128 + this.
        number: i32,
    },
    /// The front leaves; the cluster stays.
    Detach,
}

/// From any caller of the same user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum Request {
    /// What the cluster is.
    Describe,
    /// The way into a pod.
    Enter {
        /// The pod; none means the launcher.
        pod: Option<String>,
    },
    /// End the cluster in order.
    Delete,
}

/// The keeper's answer to a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum Answer {
    /// To [`Request::Describe`].
    Cluster(Description),
    /// To [`Request::Enter`]; descriptors of the keeper and of the pod's PID 1 come with it.
    Way {
        /// The pod's environment.
        env: Vec<(String, String)>,
        /// Where its command was started.
        working_dir: String,
        /// Whether the pod has namespaces to enter.
        sandboxed: bool,
    },
    /// To [`Request::Delete`]; the connection ends when the cluster has.
    Ending,
    /// The request cannot be met.
    Refused {
        /// Why.
        message: String,
        /// Pods that there are.
        known: Vec<String>,
    },
}

/// A running cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// Its name.
    pub name: String,
    /// Pods that are planned.
    pub size: u32,
    /// Pods that run.
    pub running: u32,
    /// `Starting`, `Ready` (stays up for people), `Running`, `Restarting`, `Ending`.
    pub state: String,
    /// The restart attempt.
    pub attempt: u32,
    /// Seconds since it was started.
    pub age_seconds: u64,
    /// `namespaces` or `none`.
    pub sandbox: String,
    /// Pods by display name.
    pub pods: Vec<PodDescription>,
}

/// A pod of a running cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodDescription {
    /// As people call it.
    pub name: String,
    /// Its host name.
    pub host: String,
    /// Its address.
    pub ip: String,
    /// `Starting` or `Running`.
    pub state: String,
    /// The rank of its broker.
    pub rank: u32,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Channel {
    fd: OwnedFd,
}

impl Channel {
    /// Two connected ends.
    pub fn pair() -> nix::Result<(Self, Self)> {
        let (a, b) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        Ok((Self { fd: a }, Self { fd: b }))
    }

    /// Connects to the keeper of the cluster in `dir`.
    pub fn connect(dir: &Path) -> nix::Result<Self> {
        let fd = packet_socket()?;
        let (_open, path) = short_path(dir)?;
        connect(fd.as_raw_fd(), &UnixAddr::new(path.as_str())?)?;
        Ok(Self { fd })
    }

    /// Sends a message with open files. An end that has gone away is `EPIPE`.
    pub fn send(&self, message: &impl Serialize, files: &[BorrowedFd<'_>]) -> nix::Result<()> {
        let bytes = serde_json::to_vec(message).map_err(|_| Errno::EINVAL)?;
        let numbers: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
        let control = [ControlMessage::ScmRights(&numbers)];
        let control = if numbers.is_empty() { &[][..] } else { &control };
        sendmsg::<()>(
            self.fd.as_raw_fd(),
            &[IoSlice::new(&bytes)],
            control,
            MsgFlags::MSG_NOSIGNAL,
            None,
        )
        .map(drop)
    }

    /// Waits for a message; `None` when the other end is gone. What is not readable as `T` comes
    /// from another version of this program and counts as the end.
    pub fn receive<T: DeserializeOwned>(&self) -> nix::Result<Option<(T, Vec<OwnedFd>)>> {
        let mut buffer = vec![0; MESSAGE_LIMIT];
        let received = loop {
            match receive(&self.fd, &mut buffer) {
                // The other end has gone without reading everything. Said once, it is out of the
                // way of what that end had sent before.
                Err(Errno::EINTR | Errno::ECONNRESET) => {}
                other => break other?,
            }
        };
        Ok(received.and_then(|(length, files)| {
            serde_json::from_slice(&buffer[..length]).ok().map(|message| (message, files))
        }))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Where callers reach a keeper.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
}

impl Listener {
    /// Listens in a cluster's directory.
    pub fn bind(dir: &Path) -> nix::Result<Self> {
        let fd = packet_socket()?;
        let (_open, path) = short_path(dir)?;
        bind(fd.as_raw_fd(), &UnixAddr::new(path.as_str())?)?;
        listen(&fd, Backlog::new(16)?)?;
        Ok(Self { fd })
    }

    /// Takes a waiting connection.
    pub fn accept(&self) -> nix::Result<Channel> {
        accept(&self.fd).map(|fd| Channel { fd })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn packet_socket() -> nix::Result<OwnedFd> {
    socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)
}

/// A path to the socket that fits the 108 bytes of an address whatever the directory's length: by
/// way of an open descriptor of the directory.
fn short_path(dir: &Path) -> nix::Result<(OwnedFd, String)> {
    use nix::fcntl::OFlag;
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let open = nix::fcntl::open(dir, flags, nix::sys::stat::Mode::empty())?;
    let path = format!("/proc/self/fd/{}/{SOCKET}", open.as_raw_fd());
    Ok((open, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn messages_keep_their_bounds_and_carry_open_files() {
        let (a, b) = Channel::pair().unwrap();
        let (reader, mut writer) = std::io::pipe().unwrap();
        a.send(&Order::Detach, &[]).unwrap();
        a.send(&Order::Signal { number: 2 }, &[reader.as_fd()]).unwrap();
        drop(reader);
        writer.write_all(b"x").unwrap();
        drop(writer);
        assert_eq!(b.receive::<Order>().unwrap().unwrap().0, Order::Detach);
        let (message, mut files) = b.receive::<Order>().unwrap().unwrap();
        assert_eq!(message, Order::Signal { number: 2 });
        let mut text = String::new();
        std::fs::File::from(files.remove(0)).read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
        drop(a);
        assert!(b.receive::<Order>().unwrap().is_none());
    }

    #[test]
    fn last_words_arrive_even_if_their_sender_left_without_listening() {
        let (a, b) = Channel::pair().unwrap();
        b.send(&Order::Detach, &[]).unwrap();
        a.send(&Order::Detach, &[]).unwrap();
        drop(a);
        assert_eq!(b.receive::<Order>().unwrap().unwrap().0, Order::Detach);
        assert!(b.receive::<Order>().unwrap().is_none());
    }

    #[test]
    fn a_directory_with_a_name_too_long_for_a_socket_still_works() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("d".repeat(200));
        std::fs::create_dir(&dir).unwrap();
        let listener = Listener::bind(&dir).unwrap();
        let client = Channel::connect(&dir).unwrap();
        client.send(&Request::Describe, &[]).unwrap();
        let server = listener.accept().unwrap();
        assert_eq!(server.receive::<Request>().unwrap().unwrap().0, Request::Describe);
    }
}
