//! The status channel (`docs/spec/observe.md`): what an observer asks a launcher's broker and what
//! it is told, as lines of JSON over the TLS connection of `docs/spec/handshake.md`.
//!
//! Owns the words and the cutting of lines; it must not know sockets, TLS or clocks.

use crate::status::ClusterStatus;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What an observer sends before TLS, where a broker sends its preamble.
pub const PREAMBLE: [u8; 4] = *b"QRO1";
/// The channel's name in TLS (ALPN, RFC 7301): binds its version into the proof.
pub const ALPN: &[u8] = b"quorate-observe/1";
/// The longest line that an observer may send, its end included.
pub const MOST_ASKED: usize = 1024;
/// The longest line that a broker sends, its end included.
pub const MOST_TOLD: usize = 64 * 1024;
/// Changes that come closer together are told as one.
pub const SETTLE: Duration = Duration::from_millis(100);
/// A status is told at least this often, so that a reader knows that the broker lives.
pub const REFRESH: Duration = Duration::from_secs(10);

/// What an observer asks for. A line that is none of these ends the connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ask {
    /// The cluster is to have so many brokers from now on, the launcher included.
    Size(u32),
}

/// What a broker says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Tell {
    /// The cluster now.
    Status(Box<ClusterStatus>),
    /// This broker does not answer, and why; the last line of the connection.
    Refused(String),
}

/// Why a line is not taken.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// It does not end in time.
    #[error("a line is longer than {limit} bytes")]
    TooLong {
        /// The most bytes of a line.
        limit: usize,
    },
    /// It is not the JSON that this version expects.
    #[error("an unreadable line")]
    Parse(#[source] serde_json::Error),
}

/// A value as a line.
pub fn line<T: Serialize>(value: &T) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("plain data always serializes");
    line.push(b'\n');
    line
}

/// Cuts bytes into lines and reads each. Holds at most one line that has not ended yet.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    buffer: Vec<u8>,
    /// Up to here the buffer is known to hold no end of a line.
    searched: usize,
}

impl Lines {
    /// Takes lines of at most so many bytes, their ends included.
    pub fn new(limit: usize) -> Self {
        Self { limit, buffer: Vec::new(), searched: 0 }
    }

    /// Takes bytes as they came. Give at most [`Lines::room`] at once.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes that can be taken before lines have to be read.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.buffer.len())
    }

    /// The next whole line; `None` until more bytes came. After an error the bytes have no meaning
    /// any more.
    pub fn next_line<T: for<'a> Deserialize<'a>>(&mut self) -> Result<Option<T>, LineError> {
        let end = self.buffer[self.searched..].iter().position(|&byte| byte == b'\n');
        let Some(end) = end.map(|at| self.searched + at) else {
            self.searched = self.buffer.len();
            if self.buffer.len() >= self.limit {
                return Err(LineError::TooLong { limit: self.limit });
            }
            return Ok(None);
        };
        let value = serde_json::from_slice(&self.buffer[..end]).map_err(LineError::Parse)?;
        self.buffer.drain(..=end);
        self.searched = 0;
        Ok(Some(value))
    }
}

#[cfg(test)]
mod tests;
