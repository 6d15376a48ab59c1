//! The unix socket between a broker and the verbs that are typed in its pod.
//!
//! A connection carries one call: the client sends [`Hello`] as JSON in a frame of kind
//! [`kind::CALL`], then both sides send frames whose kinds belong to the verb, and the broker
//! ends it with a frame of kind [`kind::END`]. Only the uid that owns the broker may connect.
//!
//! Frame: length of what follows (u32, big endian), kind (u8), payload.

pub mod blocking;
mod connection;
#[cfg(test)]
mod documented;
mod frame;
pub mod server;

pub use connection::{Call, Connection, End, Hello, LocalError, ReadHalf, WriteHalf, connect};

/// The most bytes of a frame's payload.
pub const FRAME_LIMIT: usize = 16 * 1024 * 1024;

/// Frame kinds that all verbs share; verbs use 1 to 253 as they like.
pub mod kind {
    /// The client's opening, JSON of [`super::Hello`].
    pub const CALL: u8 = 0;
    /// The broker's closing, JSON of [`super::End`].
    pub const END: u8 = 255;
}
