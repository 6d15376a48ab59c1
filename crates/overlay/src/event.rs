//! What goes into a node: news of its links, and the wishes of local services.

use crate::frame::Frame;
use crate::{ChannelId, ExchangeKey, Failure, LinkId, Rank};
use bytes::Bytes;
use quorate_hostlist::IdSet;

/// News for a node.
#[derive(Debug)]
pub enum Event {
    /// A neighbour connected to this broker, and TLS proved its rank.
    Accepted {
        /// From [`LinkId::accepted`].
        link: LinkId,
        /// The rank whose key the peer has.
        peer: Rank,
    },
    /// A dial that the node asked for is through, TLS included.
    Connected {
        /// The link of [`crate::Effect::Dial`].
        link: LinkId,
    },
    /// A dial that the node asked for failed.
    DialFailed {
        /// The link of [`crate::Effect::Dial`].
        link: LinkId,
        /// Why.
        failure: DialFailure,
    },
    /// A link is gone: closed by the peer, broken, or its bytes were no frames. Not to be sent for
    /// links that the node closed itself by [`crate::Effect::Close`].
    Closed {
        /// The link.
        link: LinkId,
        /// For logs and status.
        reason: String,
    },
    /// A frame came in. Frames of one link keep their order.
    Frame {
        /// The link.
        link: LinkId,
        /// The frame, as [`crate::frame::Decoder`] gave it.
        frame: Frame,
    },
    /// So many bytes of a link's frames have left the shell's queue for the socket. Without these
    /// the node takes the link for stuck and drops what it forwards.
    Written {
        /// The link.
        link: LinkId,
        /// Bytes as [`Frame::wire_len`] counts them.
        bytes: usize,
    },
    /// The time has moved; due at the latest at [`crate::Node::next_deadline`].
    Tick,
    /// A local service wants something.
    Local(Command),
}

/// Why a dial failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialFailure {
    /// No name yet, connection refused, no route, timed out, TLS broken: worth another try.
    Unreachable(String),
    /// TLS says that the peer does not have the key of that rank and attempt: worth another try
    /// too, since the peer may be the one that is stale.
    WrongKey(String),
}

/// What local services ask of their node.
#[derive(Debug)]
pub enum Command {
    /// Opens a channel to a service on another broker (or on this one). The peer gets
    /// [`crate::Delivery::Opened`]; failures come as [`crate::Delivery::Closed`].
    Open {
        /// A fresh id from [`crate::Node::new_channel`].
        channel: ChannelId,
        /// The broker.
        to: Rank,
        /// The service's name there.
        service: String,
        /// The request, or the head of the stream.
        payload: Bytes,
    },
    /// Sends one message on a channel, which takes one credit. Without credit, or with too much
    /// on the way to that broker, it comes back as [`crate::Delivery::Blocked`], and
    /// [`crate::Delivery::Writable`] follows when there is room again.
    Send {
        /// The channel.
        channel: ChannelId,
        /// At most [`crate::MAX_MESSAGE`] bytes.
        payload: Bytes,
    },
    /// Lets the other end send so many messages more. Both ends start with
    /// [`crate::INITIAL_CREDITS`]; a reader grants one for each message that it is done with.
    Grant {
        /// The channel.
        channel: ChannelId,
        /// Messages more.
        credits: u32,
    },
    /// Ends a channel for both directions; what was sent before still arrives. There is no
    /// [`crate::Delivery::Closed`] for the end that asked.
    Close {
        /// The channel.
        channel: ChannelId,
        /// How it ended.
        result: Result<(), Failure>,
    },
    /// Sends one message to a service of many brokers; it travels once per link of the tree. Each
    /// member gets it exactly once, in order with other messages from this broker, or is named in
    /// [`crate::Delivery::CastFailed`].
    Cast {
        /// The brokers; this one may be among them.
        to: IdSet,
        /// The service's name there.
        service: String,
        /// The message.
        payload: Bytes,
    },
    /// Publishes an event: rank 0 numbers it, every broker gets it as
    /// [`crate::Delivery::Published`], all in the same order.
    Publish {
        /// What it is about.
        topic: String,
        /// The event.
        payload: Bytes,
    },
    /// This broker's part of an exchange. Every member ends with
    /// [`crate::Delivery::Exchanged`], or every member that lives with
    /// [`crate::Delivery::ExchangeFailed`].
    Contribute {
        /// The exchange.
        key: ExchangeKey,
        /// All brokers that contribute; the same set from all of them, this one included.
        members: IdSet,
        /// At most [`crate::MAX_MESSAGE`] bytes.
        blob: Bytes,
    },
    /// The job has no more exchanges: frees their memory here, and on rank 0 everywhere.
    EndJob {
        /// The job.
        job: u64,
    },
    /// On rank 0: the cluster's work is over. Everybody cleans up and leaves, children first.
    Finish {
        /// Whether brokers may call it done (exit code 0), or the cluster failed.
        done: bool,
        /// One sentence for people.
        reason: String,
    },
    /// On rank 0: so many brokers are planned from now on. Ranks below that are missed when they are
    /// not online; a rank beyond it is welcome all the same, up to `max_size`.
    Resize {
        /// Brokers, rank 0 included; at least 1, at most `max_size`.
        size: u32,
    },
    /// In state CLEANUP: this broker's tasks are gone.
    Cleaned,
    /// This broker alone leaves (it was told to terminate). Its parent hears of it at once.
    Leave {
        /// One sentence for people.
        reason: String,
    },
    /// The shell turned a peer away before it became a link, such as in the TLS handshake.
    PeerRefused {
        /// The rank that the peer claimed.
        rank: Rank,
        /// What `overlay status` shall say of it: `attempt 0, now 1`.
        reason: String,
    },
}
