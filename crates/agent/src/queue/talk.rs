//! One conversation on rank 0: with a client of this pod, or with one of another pod by its front.
//!
//! Owns: that the two look alike, and that long messages travel in parts. On a channel a message is
//! its kind and its payload; what is longer than a channel takes at once goes as [`kind::PART`]s that
//! are put before the message after them.

use super::protocol::kind;
use crate::broker::channel::MESSAGE_LIMIT;
use crate::broker::{Channel, Receiver, Sender};
use crate::job::protocol::{json, message, split};
use crate::local::{Connection, End, FRAME_LIMIT, ReadHalf, WriteHalf};
use bytes::{Bytes, BytesMut};
use serde::Serialize;

/// The longest message that is put together: what a jobspec may hold, escaped.
const WHOLE_LIMIT: usize = 128 << 20;

/// Bytes of a part.
pub(super) const PART: usize = MESSAGE_LIMIT - 1;

/// What comes.
#[derive(Debug)]
pub(super) enum Hear {
    /// From a client of this pod.
    Here(ReadHalf, Whole),
    /// From a front.
    There(Receiver, Whole),
}

/// Where answers go.
#[derive(Debug)]
pub(super) enum Say {
    /// To a client of this pod.
    Here(WriteHalf),
    /// To a front.
    There(Sender),
}

/// Puts messages together.
#[derive(Debug, Default)]
pub(super) struct Whole {
    parts: BytesMut,
}

impl Whole {
    /// Takes a message; gives it when it is whole.
    pub(super) fn add(&mut self, kind: u8, payload: Bytes) -> Option<(u8, Bytes)> {
        if kind == kind::PART {
            // More than anybody may say is noise; it then fails as unreadable.
            if self.parts.len() + payload.len() <= WHOLE_LIMIT {
                self.parts.extend_from_slice(&payload);
            }
            return None;
        }
        if self.parts.is_empty() {
            return Some((kind, payload));
        }
        self.parts.extend_from_slice(&payload);
        Some((kind, std::mem::take(&mut self.parts).freeze()))
    }
}

/// The conversation of a client of this pod.
pub(super) fn here(connection: Connection) -> (Hear, Say) {
    let (reader, writer) = connection.split();
    (Hear::Here(reader, Whole::default()), Say::Here(writer))
}

/// The conversation of a front.
pub(super) fn there(channel: Channel) -> (Hear, Say) {
    let (sender, receiver) = channel.split();
    (Hear::There(receiver, Whole::default()), Say::There(sender))
}

impl Hear {
    /// The next whole message; `None` when the client is gone. Safe to cancel.
    pub(super) async fn recv(&mut self) -> Option<(u8, Bytes)> {
        loop {
            let (received, whole) = match self {
                Self::Here(reader, whole) => (reader.recv().await.ok().flatten(), whole),
                Self::There(receiver, whole) => {
                    (receiver.recv().await.ok().flatten().and_then(split), whole)
                }
            };
            let (kind, payload) = received?;
            if let Some(message) = whole.add(kind, payload) {
                return Some(message);
            }
        }
    }
}

impl Say {
    /// Sends a message; tells whether there is still somebody to hear it.
    pub(super) async fn send(&mut self, kind: u8, payload: &[u8]) -> bool {
        match self {
            Self::Here(writer) => {
                let mut rest = payload;
                while rest.len() > FRAME_LIMIT {
                    let (part, after) = rest.split_at(FRAME_LIMIT);
                    if writer.send(kind::PART, part).await.is_err() {
                        return false;
                    }
                    rest = after;
                }
                writer.send(kind, rest).await.is_ok()
            }
            Self::There(sender) => send_parts(sender, kind, payload).await,
        }
    }

    /// Sends one answer.
    pub(super) async fn answer(&mut self, value: &impl Serialize) -> bool {
        let body = serde_json::to_vec(value).expect("plain data always serializes");
        self.send(kind::ANSWER, &body).await
    }

    /// Ends the conversation.
    pub(super) async fn end(mut self, code: i32, error: Option<String>) {
        match &mut self {
            Self::Here(writer) => drop(writer.end(code, error).await),
            Self::There(sender) => {
                let _ = sender.send(json(kind::OVER, &End { code, error })).await;
                let _ = sender.finish(Ok(())).await;
            }
        }
    }
}

/// Sends a message over a channel.
pub(super) async fn send_parts(sender: &Sender, kind: u8, payload: &[u8]) -> bool {
    let mut rest = payload;
    while rest.len() > PART {
        let (part, after) = rest.split_at(PART);
        if sender.send(message(kind::PART, part)).await.is_err() {
            return false;
        }
        rest = after;
    }
    sender.send(message(kind, rest)).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_one_message() {
        let mut whole = Whole::default();
        assert_eq!(whole.add(1, Bytes::from_static(b"a")), Some((1, Bytes::from_static(b"a"))));
        assert_eq!(whole.add(kind::PART, Bytes::from_static(b"ab")), None);
        assert_eq!(whole.add(kind::PART, Bytes::from_static(b"cd")), None);
        assert_eq!(whole.add(7, Bytes::new()), Some((7, Bytes::from_static(b"abcd"))));
        assert_eq!(whole.add(7, Bytes::new()), Some((7, Bytes::new())));
    }
}
