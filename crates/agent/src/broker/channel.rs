//! Two-way streams between a task of this broker and a service of another (or of this one).
//!
//! Each direction is a sequence of messages under credit: [`Sender::send`] waits while the other
//! side does not read, so a fast writer costs bounded memory on every broker of the way. Each
//! direction ends by itself: [`Sender::finish`] is seen by the peer as the end of its receiver.

use super::handle::ToNode;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Semaphore, mpsc};

/// The most bytes of one message; longer ones are split by [`Sender::send`].
pub const MESSAGE_LIMIT: usize = 64 * 1024;

pub(crate) use quorate_overlay::ChannelId;

/// Messages of one sender that are on the way to the node task or held back by it.
pub(crate) const WINDOW: usize = 8;

/// Why a channel broke.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// The peer ended its direction with a failure.
    #[error("the service on rank {peer} gave up: {reason}")]
    Failed {
        /// The rank at the other end.
        peer: u32,
        /// What it said.
        reason: String,
    },
    /// The peer's broker was lost.
    #[error("rank {peer} was lost: {reason}")]
    Lost {
        /// The rank at the other end.
        peer: u32,
        /// What is known of why.
        reason: String,
    },
    /// This direction was already finished, or this broker is leaving.
    #[error("the channel to rank {peer} is closed")]
    Closed {
        /// The rank at the other end.
        peer: u32,
    },
}

/// What channels tell the node task without waiting. The queue is unbounded; what is in it is
/// bounded by the credit of each channel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    /// The reader has taken a message.
    Consumed(ChannelId),
    /// The reader is gone: what still comes is dropped.
    Unread(ChannelId),
    /// The last sender is gone without a finish.
    Abandoned(ChannelId),
}

/// Both directions of a stream. Dropping it without [`Channel::finish`] tells the peer that this
/// side gave up.
#[derive(Debug)]
pub struct Channel {
    first: Bytes,
    sender: Sender,
    receiver: Receiver,
}

impl Channel {
    pub(crate) fn new(first: Bytes, sender: Sender, receiver: Receiver) -> Self {
        Self { first, sender, receiver }
    }

    /// The rank at the other end.
    pub fn peer(&self) -> u32 {
        self.sender.peer()
    }

    /// What the opening side sent along, empty on the opening side itself.
    pub fn first(&self) -> &Bytes {
        &self.first
    }

    /// As [`Sender::send`].
    pub async fn send(&mut self, message: Bytes) -> Result<(), ChannelError> {
        self.sender.send(message).await
    }

    /// As [`Receiver::recv`].
    pub async fn recv(&mut self) -> Result<Option<Bytes>, ChannelError> {
        self.receiver.recv().await
    }

    /// As [`Sender::finish`].
    pub async fn finish(&mut self, outcome: Result<(), String>) -> Result<(), ChannelError> {
        self.sender.finish(outcome).await
    }

    /// The two directions, to be used by different tasks.
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
}

/// The outgoing direction. Clones share it; when the last is dropped without
/// [`Sender::finish`], the peer sees [`ChannelError::Failed`].
#[derive(Clone, Debug)]
pub struct Sender {
    shared: Arc<Outgoing>,
}

#[derive(Debug)]
struct Outgoing {
    id: ChannelId,
    peer: u32,
    /// Messages that may still be handed over, [`WINDOW`] at first; the node task gives each back
    /// when it is on its way, and closes it when the channel breaks.
    credit: Arc<Semaphore>,
    node: mpsc::Sender<ToNode>,
    control: mpsc::UnboundedSender<Control>,
    finished: AtomicBool,
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if !self.finished.load(Ordering::Relaxed) {
            // Fails only when the node task is gone, and the channel with it.
            let _ = self.control.send(Control::Abandoned(self.id));
        }
    }
}

impl Sender {
    pub(crate) fn new(
        id: ChannelId,
        peer: u32,
        credit: Arc<Semaphore>,
        node: mpsc::Sender<ToNode>,
        control: mpsc::UnboundedSender<Control>,
    ) -> Self {
        let finished = AtomicBool::new(false);
        Self { shared: Arc::new(Outgoing { id, peer, credit, node, control, finished }) }
    }

    /// The rank at the other end.
    pub fn peer(&self) -> u32 {
        self.shared.peer
    }

    /// Sends a message, in order. Waits while the peer does not read; more than
    /// [`MESSAGE_LIMIT`] bytes arrive as several messages, none at all do not arrive.
    pub async fn send(&self, mut message: Bytes) -> Result<(), ChannelError> {
        while !message.is_empty() {
            let part = message.split_to(message.len().min(MESSAGE_LIMIT));
            let closed = || ChannelError::Closed { peer: self.shared.peer };
            self.shared.credit.acquire().await.map_err(|_| closed())?.forget();
            let command = ToNode::Data { id: self.shared.id, part };
            self.shared.node.send(command).await.map_err(|_| closed())?;
        }
        Ok(())
    }

    /// Ends this direction: the peer's [`Receiver::recv`] gives `None` after all messages, or
    /// [`ChannelError::Failed`] with the reason.
    pub async fn finish(&self, outcome: Result<(), String>) -> Result<(), ChannelError> {
        let closed = ChannelError::Closed { peer: self.shared.peer };
        if self.shared.finished.swap(true, Ordering::Relaxed) {
            return Err(closed);
        }
        let command = ToNode::Finish { id: self.shared.id, outcome };
        self.shared.node.send(command).await.map_err(|_| closed)
    }
}

/// The incoming direction.
#[derive(Debug)]
pub struct Receiver {
    id: ChannelId,
    peer: u32,
    messages: mpsc::UnboundedReceiver<Incoming>,
    control: mpsc::UnboundedSender<Control>,
    ended: Option<Result<(), ChannelError>>,
}

/// What the node task hands to a receiver. The queue has no bound of its own: the credit that
/// this side grants bounds it.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A message.
    Data(Bytes),
    /// The direction has ended.
    End(Result<(), ChannelError>),
}

impl Receiver {
    pub(crate) fn new(
        id: ChannelId,
        peer: u32,
        messages: mpsc::UnboundedReceiver<Incoming>,
        control: mpsc::UnboundedSender<Control>,
    ) -> Self {
        Self { id, peer, messages, control, ended: None }
    }

    /// The rank at the other end.
    pub fn peer(&self) -> u32 {
        self.peer
    }

    /// The next message; `None` after the peer has finished, again and again. Safe to cancel.
    pub async fn recv(&mut self) -> Result<Option<Bytes>, ChannelError> {
        if let Some(ended) = &self.ended {
            return ended.clone().map(|()| None);
        }
        match self.messages.recv().await {
            Some(Incoming::Data(message)) => {
                // Fails only when the node task is gone, and the channel with it.
                let _ = self.control.send(Control::Consumed(self.id));
                Ok(Some(message))
            }
            Some(Incoming::End(outcome)) => {
                self.ended = Some(outcome.clone());
                outcome.map(|()| None)
            }
            None => {
                let outcome = Err(ChannelError::Closed { peer: self.peer });
                self.ended = Some(outcome.clone());
                outcome.map(|()| None)
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = self.control.send(Control::Unread(self.id));
        }
    }
}
