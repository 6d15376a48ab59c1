//! One local connection, seen from either side.

use super::frame::{self, Frames};
use super::{FRAME_LIMIT, kind};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// The opening of a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// The verb's name.
    pub verb: String,
    /// What the verb needs to know; its own shape.
    pub args: serde_json::Value,
}

/// The closing of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The code that the client exits with.
    pub code: i32,
    /// A sentence for people when something went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Why a local call failed.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// Nobody listens on the socket.
    #[error("nobody answers on {}", path.display())]
    Connect {
        /// The socket's path.
        path: PathBuf,
        /// The system's word for it.
        #[source]
        source: io::Error,
    },
    /// What was asked for did not begin in the time that the caller had.
    #[error("it did not begin in time")]
    TooLate,
    /// The other side went away in the middle of a frame.
    #[error("the broker's connection broke")]
    Broken(#[source] io::Error),
    /// A frame that this version does not understand.
    #[error(
        "the broker's connection carries {found} bytes in one frame, the limit is {FRAME_LIMIT}"
    )]
    TooLong {
        /// The payload's length.
        found: usize,
    },
    /// A frame of no bytes at all.
    #[error("the broker's connection carries a frame without kind")]
    NoKind,
    /// The opening or closing is not the JSON expected.
    #[error("the broker's connection carries an unreadable message")]
    Unreadable(#[source] serde_json::Error),
    /// The other side closed without an end frame.
    #[error("the broker left before the call ended")]
    NoEnd,
}

/// A call as the broker sees it.
#[derive(Debug)]
pub struct Call {
    /// What the client asked for.
    pub hello: Hello,
    /// The client's user id.
    pub uid: u32,
    /// The client's process id.
    pub pid: i32,
    /// The rest of the conversation. `recv` gives `None` when the client has gone.
    pub connection: Connection,
}

impl Call {
    /// Ends the call.
    pub async fn end(mut self, code: i32, error: Option<String>) -> Result<(), LocalError> {
        self.connection.end(code, error).await
    }
}

/// Frames over a unix stream.
#[derive(Debug)]
pub struct Connection {
    reader: ReadHalf,
    writer: WriteHalf,
}

/// Connects to a broker's socket and opens a call.
pub async fn connect(path: &Path, hello: &Hello) -> Result<Connection, LocalError> {
    let stream = UnixStream::connect(path)
        .await
        .map_err(|source| LocalError::Connect { path: path.to_owned(), source })?;
    let mut connection = Connection::new(stream);
    let text = serde_json::to_vec(hello).map_err(LocalError::Unreadable)?;
    connection.send(kind::CALL, &text).await?;
    Ok(connection)
}

impl Connection {
    /// Wraps a connected stream.
    pub fn new(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        Self {
            reader: ReadHalf { stream: reader, frames: Frames::default() },
            writer: WriteHalf { stream: writer },
        }
    }

    /// As [`WriteHalf::send`].
    pub async fn send(&mut self, kind: u8, payload: &[u8]) -> Result<(), LocalError> {
        self.writer.send(kind, payload).await
    }

    /// As [`ReadHalf::recv`].
    pub async fn recv(&mut self) -> Result<Option<(u8, Bytes)>, LocalError> {
        self.reader.recv().await
    }

    /// As [`WriteHalf::end`].
    pub async fn end(&mut self, code: i32, error: Option<String>) -> Result<(), LocalError> {
        self.writer.end(code, error).await
    }

    /// Reads up to the end frame, for verbs whose answer is one payload: the payloads of all
    /// frames before it, and the end.
    pub async fn finish(mut self) -> Result<(Vec<Bytes>, End), LocalError> {
        let mut payloads = Vec::new();
        while let Some((kind, payload)) = self.recv().await? {
            if kind == kind::END {
                let end = serde_json::from_slice(&payload).map_err(LocalError::Unreadable)?;
                return Ok((payloads, end));
            }
            payloads.push(payload);
        }
        Err(LocalError::NoEnd)
    }

    /// Reads and drops whatever comes until the other side has closed.
    pub async fn drain(mut self) {
        let mut dropped = [0; 1024];
        while matches!(self.reader.stream.read(&mut dropped).await, Ok(1..)) {}
    }

    /// The two directions, to be used by different tasks.
    pub fn split(self) -> (ReadHalf, WriteHalf) {
        (self.reader, self.writer)
    }
}

/// The incoming direction of a [`Connection`].
#[derive(Debug)]
pub struct ReadHalf {
    stream: OwnedReadHalf,
    frames: Frames,
}

impl ReadHalf {
    /// The next frame; `None` when the other side has closed. Safe to cancel.
    pub async fn recv(&mut self) -> Result<Option<(u8, Bytes)>, LocalError> {
        loop {
            if let Some(frame) = self.frames.next()? {
                return Ok(Some(frame));
            }
            let read = self.stream.read_buf(self.frames.room()).await;
            match read.map_err(LocalError::Broken)? {
                0 if self.frames.is_empty() => return Ok(None),
                0 => return Err(LocalError::Broken(io::ErrorKind::UnexpectedEof.into())),
                _ => {}
            }
        }
    }
}

/// The outgoing direction of a [`Connection`].
#[derive(Debug)]
pub struct WriteHalf {
    stream: OwnedWriteHalf,
}

impl WriteHalf {
    /// Sends a frame; waits while the other side does not read.
    pub async fn send(&mut self, kind: u8, payload: &[u8]) -> Result<(), LocalError> {
        let head = frame::head(kind, payload.len())?;
        if payload.len() <= 4096 {
            let frame = [&head[..], payload].concat();
            return self.stream.write_all(&frame).await.map_err(LocalError::Broken);
        }
        self.stream.write_all(&head).await.map_err(LocalError::Broken)?;
        self.stream.write_all(payload).await.map_err(LocalError::Broken)
    }

    /// Ends the call (the broker's side).
    pub async fn end(&mut self, code: i32, error: Option<String>) -> Result<(), LocalError> {
        let text = serde_json::to_vec(&End { code, error }).map_err(LocalError::Unreadable)?;
        self.send(kind::END, &text).await
    }
}
