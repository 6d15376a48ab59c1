//! What happens to a job, and the two ends from which it comes: its client and this process.

use crate::broker::{Channel, Sender};
use crate::job::protocol::{Again, kind};
use bytes::Bytes;
use tokio::sync::mpsc;

/// What happens to a job.
#[derive(Debug)]
pub(in crate::job) enum Event {
    /// A member has opened its channel.
    Joined {
        /// Its broker.
        broker: u32,
        /// The channel.
        channel: Channel,
        /// Where it stands, if another leader has led it.
        again: Option<Again>,
    },
    /// So many pieces of a member's output are written.
    Written {
        /// Its broker.
        broker: u32,
        /// All of them.
        pieces: u64,
    },
    /// A member says something that is no output.
    Member {
        /// Its broker.
        broker: u32,
        /// The message's kind.
        kind: u8,
        /// Its payload.
        payload: Bytes,
    },
    /// A member's channel has ended.
    Left {
        /// Its broker.
        broker: u32,
        /// Why, if not in order.
        why: Option<String>,
    },
    /// The client says something.
    Client {
        /// The message's kind.
        kind: u8,
        /// Its payload.
        payload: Bytes,
    },
    /// The client is gone.
    ClientGone,
    /// The job is to end: its tasks get time for it, or none.
    Stop {
        /// None.
        now: bool,
    },
}

/// Where a job's messages for its client go.
#[derive(Clone, Debug)]
pub enum Sink {
    /// To the front of its client.
    Front(Sender),
    /// To whoever takes messages in this process.
    Here(mpsc::Sender<Bytes>),
}

impl Sink {
    /// Waits until the client takes the message. Tells whether there is a client.
    pub(super) async fn send(&self, message: Bytes) -> bool {
        match self {
            Self::Front(sender) => sender.send(message).await.is_ok(),
            Self::Here(queue) => queue.send(message).await.is_ok(),
        }
    }
}

/// Ends a job that is led in this process.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) events: mpsc::UnboundedSender<Event>,
}

impl Handle {
    /// Passes a signal on to all tasks.
    pub fn signal(&self, signal: i32) {
        let payload = Bytes::copy_from_slice(&[signal as u8]);
        let _ = self.events.send(Event::Client { kind: kind::SIGNAL, payload });
    }

    /// Ends the job: its tasks are told to, and killed after a grace, or `now`.
    pub fn stop(&self, now: bool) {
        let _ = self.events.send(Event::Stop { now });
    }

    /// Says what the job's client says without more words: `KILL` or `OUTPUT_CLOSED` of
    /// [`kind`].
    pub fn client(&self, kind: u8) {
        let _ = self.events.send(Event::Client { kind, payload: Bytes::new() });
    }

    /// Says how large the terminal is that its client has.
    pub fn resize(&self, size: Bytes) {
        let _ = self.events.send(Event::Client { kind: kind::RESIZE, payload: size });
    }

    /// Says that so many pieces of a broker's output are written.
    pub fn written(&self, broker: u32, pieces: u64) {
        let _ = self.events.send(Event::Written { broker, pieces });
    }

    /// Gives the tasks that read standard input a piece of it; `None` is its end.
    pub fn input(&self, piece: Option<Bytes>) {
        let kind = if piece.is_some() { kind::STDIN } else { kind::STDIN_END };
        let _ = self.events.send(Event::Client { kind, payload: piece.unwrap_or_default() });
    }
}
