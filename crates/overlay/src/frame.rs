//! What two neighbours say to each other. Data only: what frames look like as bytes is in
//! [`Decoder`] and [`Frame::encode`], what they cause is in the node.

mod codec;
mod decode;
mod encode;
mod wire;

pub use codec::{Decoder, FrameError};

use crate::{BootId, ExchangeKey, Failure, Millis, Rank};
use bytes::Bytes;
use quorate_hostlist::IdSet;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The version of the protocol; brokers of different versions refuse each other.
pub const PROTOCOL: u32 = 1;
/// The largest frame, its length prefix not counted.
pub const MAX_FRAME: usize = 1 << 20;
/// The largest payload of a message or blob; larger ones than fit a frame travel in parts.
pub const MAX_MESSAGE: usize = 16 << 20;
/// The most payload that one frame carries, so that a large message does not hold up others.
pub const PART: usize = 64 << 10;
/// The largest inventory, as JSON.
pub const MAX_INVENTORY: usize = 64 << 10;
/// Messages that either end of a new channel may send before the other grants more.
pub const INITIAL_CREDITS: u32 = 16;
/// The longest name of a service or topic, and the longest sentence.
pub const MAX_TEXT: usize = 4096;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// First on a link, from the child: "take me as your child".
    Hello(Box<Hello>),
    /// First on a link, from a broker that has a parent: "would you be a better one?" A `Hello`
    /// may follow.
    Probe,
    /// The answer to `Probe`.
    ProbeReply {
        /// Age of the answering broker's proof that rank 0 lives; `None` without one.
        age: Option<Millis>,
    },
    /// The answer to `Hello`.
    Welcome(Box<Welcome>),
    /// The answer to a `Hello` that does not fit; the link is closed after it.
    Refuse {
        /// The attempt of the refusing broker: a newer child takes no refusal from an older one.
        attempt: u32,
        /// One sentence for people.
        reason: String,
    },
    /// From the child: "I am here; is rank 0?"
    Ping {
        /// The child's clock.
        stamp: Millis,
    },
    /// From the parent, each time when it has got a fresher proof itself: rank 0 surely lived at
    /// the point `stamp + ahead` of the child's clock.
    Pong {
        /// The stamp of the child's last ping.
        stamp: Millis,
        /// How long after that ping came in the parent's proof dates.
        ahead: Millis,
    },
    /// From the child: who is below it, and what has changed.
    Table {
        /// How it relates to what was told before.
        phase: TablePhase,
        /// In the order in which they happened.
        changes: Vec<Change>,
    },
    /// Towards the brokers: rank 0 knows these.
    Confirm {
        /// The brokers.
        members: Vec<(Rank, BootId)>,
    },
    /// Towards a broker: rank 0 has declared this boot lost.
    Expel {
        /// The broker.
        rank: Rank,
        /// The boot.
        boot: BootId,
        /// Why.
        reason: String,
    },
    /// Towards rank 0: a peer was refused somewhere.
    Refused {
        /// Whom the peer claimed to be.
        rank: Rank,
        /// Why.
        reason: String,
    },
    /// From the parent: where the event stream goes on, after the parent itself got (back) in
    /// touch with rank 0.
    Sync(Sync),
    /// From the parent: the next event of rank 0.
    Event(Arc<Numbered>),
    /// From one broker to another.
    Packet(Box<Packet>),
    /// From one broker to many.
    Cast(Box<Cast>),
    /// To the sender of a packet that cannot be delivered.
    Notice(Box<Notice>),
    /// From the child: parts of an exchange.
    Gather(Arc<Gather>),
    /// From the parent: a part of a complete exchange.
    Result(Arc<ResultPart>),
    /// From the parent: an exchange has failed.
    Failed {
        /// The exchange.
        key: ExchangeKey,
        /// The member to blame.
        rank: Rank,
        /// Why.
        failure: Failure,
    },
    /// From the child: it leaves for good.
    Leave {
        /// Why.
        reason: String,
    },
}

/// Who a child is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// Must be [`PROTOCOL`].
    pub version: u32,
    /// The cluster's UID.
    pub cluster: String,
    /// The restart attempt.
    pub attempt: u32,
    /// The rank.
    pub rank: Rank,
    /// This life of it.
    #[serde(with = "hex")]
    pub boot: BootId,
    /// The life of rank 0 whose events it has seen; unknown for a newcomer.
    #[serde(with = "hex")]
    pub root: BootId,
    /// The last event that it has seen.
    pub seen: u64,
    /// Whether a full table follows, because there are brokers below.
    pub table_follows: bool,
    /// [`crate::Inventory`] as JSON.
    #[serde(skip)]
    pub inventory: Bytes,
}

/// A boot as 32 hex digits, since JSON numbers end at 53 bits.
mod hex {
    use crate::BootId;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(boot: &BootId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(boot)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BootId, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        u128::from_str_radix(&text, 16).map(BootId).map_err(de::Error::custom)
    }
}

/// What a parent tells a new child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The parent's boot.
    pub boot: BootId,
    /// Age of its proof that rank 0 lives; `None` without one.
    pub age: Option<Millis>,
    /// Where the event stream goes on; `None` while the parent knows no rank 0.
    pub sync: Option<Sync>,
}

/// A point in the event stream of one life of rank 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sync {
    /// The life of rank 0.
    pub root: BootId,
    /// The number of the next event on this link.
    pub next: u64,
    /// The cluster's state before that event.
    pub phase: Phase,
}

/// The cluster's state as events change it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not quorate yet.
    #[default]
    Forming,
    /// Quorate.
    Run,
    /// Over.
    Cleanup(Arc<Outcome>),
}

/// How the cluster's work ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the work is done or has failed.
    pub done: bool,
    /// Failed because too few brokers came.
    pub bootstrap: bool,
    /// One sentence for people.
    pub reason: String,
}

/// How a table relates to what was told before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TablePhase {
    /// Changes to it.
    Delta,
    /// A part of the full table; more follow.
    Full,
    /// The last part of the full table: what was not named is gone.
    FullEnd,
}

/// A change of who is below a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A broker is there.
    Add {
        /// Its rank.
        rank: Rank,
        /// Its boot.
        boot: BootId,
        /// Its inventory as JSON.
        inventory: Bytes,
    },
    /// A broker is not there any more.
    Gone {
        /// Its rank.
        rank: Rank,
        /// Its boot.
        boot: BootId,
        /// How sure that is.
        cause: Cause,
        /// One sentence for people.
        reason: String,
    },
    /// A broker is silent, or heard of again.
    Torpid {
        /// Its rank.
        rank: Rank,
        /// Its boot.
        boot: BootId,
        /// Silent.
        torpid: bool,
    },
}

/// How sure it is that a broker is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A broker above it is gone: it will look for another parent.
    Collateral,
    /// Its own link broke: it may come back.
    Broken,
    /// It was silent for so long that it has fenced itself.
    Silent,
    /// It said that it leaves.
    Left,
}

/// An event of rank 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Its number, from 1.
    pub sequence: u64,
    /// What happened.
    pub what: Happening,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The cluster is quorate.
    Run,
    /// The cluster's work is over.
    Cleanup(Arc<Outcome>),
    /// A broker is lost or has left.
    Offline {
        /// Its rank.
        rank: Rank,
        /// Its boot.
        boot: BootId,
        /// One sentence for people.
        reason: String,
    },
    /// A local service somewhere has published something.
    Published {
        /// What it is about.
        topic: String,
        /// The event.
        payload: Bytes,
    },
    /// A job has no more exchanges.
    EndJob {
        /// The job.
        job: u64,
    },
}

/// A message, or an acknowledgement alone, from one broker to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The sender.
    pub from: Rank,
    /// Its boot.
    pub from_boot: BootId,
    /// Where to.
    pub to: Dest,
    /// The last number received from the other side, in `ack_epoch`.
    pub ack: u64,
    /// The other side's epoch that `ack` is about.
    pub ack_epoch: u32,
    /// The oldest number that the sender still waits to have acknowledged; the next one when it
    /// waits for none.
    pub base: u64,
    /// Something after `ack` was lost: send it again now.
    pub gap: bool,
    /// Answer with an acknowledgement at once.
    pub check: bool,
    /// The message; `None` in a mere acknowledgement.
    pub message: Option<Message>,
}

/// One destination of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dest {
    /// The broker.
    pub rank: Rank,
    /// Its boot; unknown in the first messages to it.
    pub boot: BootId,
    /// Raised when the sender starts its numbers anew.
    pub epoch: u32,
    /// The message's number from this sender to this broker, from 1; 0 without a message.
    pub sequence: u64,
}

/// One message to many brokers; each takes it as its own packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cast {
    /// The sender.
    pub from: Rank,
    /// Its boot.
    pub from_boot: BootId,
    /// Where to.
    pub to: Vec<Dest>,
    /// The message.
    pub message: Message,
}

/// What brokers tell each other end to end. The payload may be the first part of `total` bytes;
/// the rest follows in `Part`s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Opens a channel.
    Open {
        /// The opener's id of it.
        channel: u64,
        /// The service.
        service: String,
        /// All bytes of the payload.
        total: u32,
        /// The first of them.
        payload: Bytes,
    },
    /// One message on a channel.
    Data {
        /// The channel: the opener's id, plus 1 when the other end sends.
        channel: u64,
        /// All bytes of the payload.
        total: u32,
        /// The first of them.
        payload: Bytes,
    },
    /// Credits on a channel.
    Grant {
        /// The channel as in `Data`.
        channel: u64,
        /// Messages more.
        credits: u32,
    },
    /// The end of a channel.
    Close {
        /// The channel as in `Data`.
        channel: u64,
        /// How it ended.
        result: Result<(), Failure>,
    },
    /// For a service, without an answer.
    Cast {
        /// The service.
        service: String,
        /// All bytes of the payload.
        total: u32,
        /// The first of them.
        payload: Bytes,
    },
    /// For rank 0: number this and tell everybody.
    Publish {
        /// What it is about.
        topic: String,
        /// All bytes of the payload.
        total: u32,
        /// The first of them.
        payload: Bytes,
    },
    /// The next bytes of the payload that was begun.
    Part {
        /// The bytes.
        payload: Bytes,
    },
}

/// A packet came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The sender of the packet.
    pub to: Rank,
    /// Its boot.
    pub to_boot: BootId,
    /// The broker that cannot be reached.
    pub about: Rank,
    /// The boot that the packet was for; unknown if it named none.
    pub about_boot: BootId,
    /// The sender's epoch.
    pub epoch: u32,
    /// Why the packet came back.
    pub why: Why,
}

/// Why a packet cannot be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Rank 0 does not know the broker.
    NotConnected,
    /// Another life of the broker has answered.
    Replaced,
    /// The broker has dropped what it knew of the sender, since it was told that the sender is
    /// lost.
    Forgotten,
}

/// Blobs of an exchange on their way up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gather {
    /// The exchange.
    pub key: ExchangeKey,
    /// All members.
    pub members: IdSet,
    /// Blobs, whole or in parts.
    pub items: Vec<Item>,
}

/// Blobs of a complete exchange on their way down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultPart {
    /// The exchange.
    pub key: ExchangeKey,
    /// The first part: what came before it is void.
    pub first: bool,
    /// The last part.
    pub last: bool,
    /// Blobs, whole or in parts.
    pub items: Vec<Item>,
}

/// A member's blob, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The member.
    pub rank: Rank,
    /// All bytes of the blob.
    pub total: u32,
    /// Where these bytes belong.
    pub offset: u32,
    /// The bytes.
    pub bytes: Bytes,
}
