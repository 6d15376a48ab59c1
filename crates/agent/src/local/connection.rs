//! One local connection, seen from either side.

use super::{FRAME_LIMIT, kind};
use bytes::{Bytes, BytesMut};
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
    /// No broker listens on the socket.
    #[error("no broker answers on {}", path.display())]
    Connect {
        /// The socket's path.
        path: PathBuf,
        /// The system's word for it.
        #[source]
        source: io::Error,
    },
    /// The other side went away in the middle of a frame.
    #[error("the broker's connection broke")]
    Broken(#[source] io::Error),
    /// A frame that this version does not understand.
    #[error(
        "the broker's connection carries {found} bytes in one frame, the limit is {FRAME_LIMIT}"
    )]
    TooLong {
        /// The frame's length.
        found: usize,
    },
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
            reader: ReadHalf { stream: reader, buffer: BytesMut::new() },
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

    /// The two directions, to be used by different tasks.
    pub fn split(self) -> (ReadHalf, WriteHalf) {
        (self.reader, self.writer)
    }
}

/// The incoming direction of a [`Connection`].
#[derive(Debug)]
pub struct ReadHalf {
    stream: OwnedReadHalf,
    buffer: BytesMut,
}

impl ReadHalf {
    /// The next frame; `None` when the other side has closed. Safe to cancel.
    pub async fn recv(&mut self) -> Result<Option<(u8, Bytes)>, LocalError> {
        loop {
            if let Some(length) = self.buffer.first_chunk::<4>() {
                let length = u32::from_be_bytes(*length) as usize;
                if length == 0 || length > FRAME_LIMIT + 1 {
                    return Err(LocalError::TooLong { found: length });
                }
                if self.buffer.len() >= 4 + length {
                    let mut frame = self.buffer.split_to(4 + length).freeze().split_off(4);
                    let payload = frame.split_off(1);
                    return Ok(Some((frame[0], payload)));
                }
                self.buffer.reserve(4 + length - self.buffer.len());
            }
            let read = self.stream.read_buf(&mut self.buffer).await;
            match read.map_err(LocalError::Broken)? {
                0 if self.buffer.is_empty() => return Ok(None),
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
        if payload.len() > FRAME_LIMIT {
            return Err(LocalError::TooLong { found: payload.len() });
        }
        let length = u32::try_from(payload.len() + 1).expect("the frame limit fits in 32 bits");
        let mut head = [0; 5];
        head[..4].copy_from_slice(&length.to_be_bytes());
        head[4] = kind;
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
