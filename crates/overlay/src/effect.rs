//! What comes out of a node: orders for the shell, and deliveries for local services.

use crate::frame::Frame;
use crate::{BootId, ChannelId, ExchangeKey, Failure, Inventory, LinkId, Millis, Rank};
use bytes::Bytes;
use quorate_hostlist::IdSet;
use std::fmt;
use std::sync::Arc;

/// Where a node puts its effects; the shell runs them in order.
pub type Effects = Vec<Effect>;

/// An order for the shell.
#[derive(Debug)]
pub enum Effect {
    /// Connect to a rank; answered by `Connected` or `DialFailed`.
    Dial {
        /// The link's id from now on.
        link: LinkId,
        /// Whom to connect to.
        rank: Rank,
    },
    /// Send a frame; frames of one link keep their order.
    Send {
        /// The link.
        link: LinkId,
        /// The frame.
        frame: Frame,
    },
    /// Close a link after what was sent on it, or give up a dial. The id means nothing from now on.
    Close {
        /// The link.
        link: LinkId,
        /// Why, for logs.
        reason: CloseReason,
    },
    /// The node has moved to another state.
    State {
        /// From.
        from: State,
        /// To.
        to: State,
        /// The event that caused it, for logs.
        cause: &'static str,
    },
    /// Something for a local service.
    Deliver(Delivery),
    /// All tasks of this broker must stop at once: the cluster goes on without it. `Exit` follows.
    SelfFence {
        /// Why.
        reason: FenceReason,
    },
    /// The node is done; it takes no more events.
    Exit {
        /// Why.
        reason: ExitReason,
    },
}

/// A broker's state (the words of `contract::BrokerState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Looks for its parent.
    Join,
    /// Connected; rank 0 has not confirmed it yet.
    Init,
    /// Known to rank 0; waits until the cluster is quorate.
    Quorum,
    /// The cluster is quorate.
    Run,
    /// The work is over or has failed; tasks are stopped.
    Cleanup,
    /// Waits for its children to leave.
    Shutdown,
    /// Gone.
    Exit,
}

/// Why the node closed a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Another link to the same broker took its place.
    Replaced,
    /// The node found a better parent, or does not need the link any more.
    NotNeeded,
    /// The peer was refused.
    Refused(String),
    /// Nothing was heard of the peer for too long.
    Silent,
    /// The dial or the handshake took too long.
    Timeout,
    /// The peer does not read what it is sent.
    Stuck,
    /// The peer broke the protocol.
    Protocol(&'static str),
    /// The node leaves.
    Leaving,
}

/// Why a broker must stop its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FenceReason {
    /// No proof that rank 0 lives for longer than the orphan timeout.
    Orphaned {
        /// How long.
        silent: Millis,
    },
    /// Rank 0 has declared this boot lost, and the cluster has gone on without it.
    Expelled {
        /// What rank 0 said.
        reason: String,
    },
}

/// Why a node is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// The cluster's work is over.
    Finished {
        /// As `Command::Finish` said it on rank 0.
        done: bool,
        /// As `Command::Finish` said it on rank 0.
        reason: String,
    },
    /// The quorum was not reached in time. On rank 0 with the table of who is missing.
    BootstrapTimeout {
        /// Who is missing and why; empty on other brokers.
        missing: Vec<crate::Missing>,
    },
    /// The overlay refused this broker.
    Refused {
        /// What the peer said.
        reason: String,
    },
    /// After `SelfFence`.
    Fenced(FenceReason),
    /// After `Command::Leave`.
    Left,
}

/// Something for a local service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// A peer opened a channel to a service here. A service that does not exist is answered by
    /// `Close` with `NoService`: the node does not know the names.
    Opened {
        /// The channel's id here.
        channel: ChannelId,
        /// Who opened it.
        from: Rank,
        /// The service's name.
        service: String,
        /// The request, or the head of the stream.
        payload: Bytes,
    },
    /// A message on a channel.
    Data {
        /// The channel.
        channel: ChannelId,
        /// The message.
        payload: Bytes,
    },
    /// A channel that was blocked can take so many messages.
    Writable {
        /// The channel.
        channel: ChannelId,
        /// Messages that it takes now.
        credits: u32,
    },
    /// A `Send` was refused for want of credit; here is its payload back.
    Blocked {
        /// The channel.
        channel: ChannelId,
        /// The message that was not sent.
        payload: Bytes,
    },
    /// The other end closed the channel, or it failed. The id means nothing from now on.
    Closed {
        /// The channel.
        channel: ChannelId,
        /// How it ended.
        result: Result<(), Failure>,
    },
    /// A message that a broker sent to many.
    Cast {
        /// Who sent it.
        from: Rank,
        /// The service's name.
        service: String,
        /// The message.
        payload: Bytes,
    },
    /// A `Cast` from here did not reach these brokers, and will not.
    CastFailed {
        /// The service of the cast.
        service: String,
        /// Who did not get it, and why.
        failed: Vec<(Rank, Failure)>,
    },
    /// A `Publish` from here could not be taken; here it is back.
    PublishRefused {
        /// What it is about.
        topic: String,
        /// The event.
        payload: Bytes,
        /// Why.
        failure: Failure,
    },
    /// An event. `sequence` counts rank 0's events, those of the node's own included, so it has
    /// gaps; order is the same on all brokers.
    Published {
        /// Its number.
        sequence: u64,
        /// What it is about.
        topic: String,
        /// The event.
        payload: Bytes,
    },
    /// Events may have been missed: this broker was away for longer than its neighbours remember.
    EventsLost {
        /// The first number that is missing.
        from: u64,
        /// The last number that is missing.
        to: u64,
    },
    /// A broker is lost or has left; ordered with `Published`, on every broker. All channels to it
    /// have been closed before.
    Offline {
        /// The broker.
        rank: Rank,
        /// Which life of it.
        boot: BootId,
        /// One sentence for people.
        reason: String,
    },
    /// On rank 0: a broker is online, rank 0 itself included.
    Online {
        /// The broker.
        rank: Rank,
        /// Which life of it.
        boot: BootId,
        /// What it offers.
        inventory: Arc<Inventory>,
    },
    /// On rank 0: a broker has been silent for too long and gets no new work.
    Torpid {
        /// The broker.
        rank: Rank,
    },
    /// On rank 0: a torpid broker is heard of again.
    Lively {
        /// The broker.
        rank: Rank,
    },
    /// On rank 0: a broker's link broke. It may be back in a moment, and is lost if not.
    Away {
        /// The broker.
        rank: Rank,
    },
    /// On rank 0: a broker that was away is back.
    Back {
        /// The broker.
        rank: Rank,
    },
    /// On brokers other than rank 0: rank 0's broker was started anew. Whatever the former one
    /// had under way is over.
    RootReplaced {
        /// The new life of rank 0.
        boot: BootId,
    },
    /// An exchange is complete: the same blobs on every member, by ascending rank.
    Exchanged {
        /// The exchange.
        key: ExchangeKey,
        /// Every member's blob.
        blobs: Vec<(Rank, Bytes)>,
    },
    /// An exchange cannot be completed.
    ExchangeFailed {
        /// The exchange.
        key: ExchangeKey,
        /// The member that is to blame.
        rank: Rank,
        /// Why.
        failure: Failure,
    },
    /// In CLEANUP or SHUTDOWN for longer than `shutdown_warn`.
    ShutdownSlow {
        /// Neighbours that have not left; empty when the own tasks are waited for.
        waiting: IdSet,
    },
}

impl State {
    /// The state's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Join => "JOIN",
            Self::Init => "INIT",
            Self::Quorum => "QUORUM",
            Self::Run => "RUN",
            Self::Cleanup => "CLEANUP",
            Self::Shutdown => "SHUTDOWN",
            Self::Exit => "EXIT",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replaced => f.write_str("replaced by another link"),
            Self::NotNeeded => f.write_str("not needed"),
            Self::Refused(reason) => write!(f, "refused: {reason}"),
            Self::Silent => f.write_str("silent for too long"),
            Self::Timeout => f.write_str("handshake took too long"),
            Self::Stuck => f.write_str("peer does not read"),
            Self::Protocol(what) => write!(f, "protocol error: {what}"),
            Self::Leaving => f.write_str("leaving"),
        }
    }
}

impl fmt::Display for FenceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Orphaned { silent } => {
                write!(f, "cut off from rank 0 for {}.{} s", silent.0 / 1000, silent.0 % 1000 / 100)
            }
            Self::Expelled { reason } => write!(f, "declared lost by rank 0: {reason}"),
        }
    }
}
