//! Frames as bytes: a length (u32, big-endian, of what follows), a type (u8), then the fields in
//! the order of their declaration: numbers big-endian, flags one byte, texts with a u16 length,
//! byte strings with a u32 length, lists with a u32 count, optional values behind a flag.
//! `Hello` is JSON, so that brokers of any version can tell each other why they do not match.

use super::decode::read_frame;
use super::wire::{Length, Reader, Segments, put_u32};
use super::{Frame, MAX_FRAME};
use bytes::{Buf, Bytes, BytesMut};

/// Why bytes are not a frame. The link is useless after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length is zero or above [`MAX_FRAME`].
    #[error("a frame of {length} bytes, the limit is {MAX_FRAME}")]
    Length {
        /// The length.
        length: usize,
    },
    /// No such type of frame.
    #[error("unknown frame type {kind}")]
    Kind {
        /// The type.
        kind: u8,
    },
    /// The frame ends within a field.
    #[error("a frame ends within a field")]
    Truncated,
    /// The frame goes on after its last field.
    #[error("{left} bytes after the end of a frame")]
    Trailing {
        /// How many.
        left: usize,
    },
    /// A field has a value that it cannot have.
    #[error("a frame has a wrong {0}")]
    Value(&'static str),
}

impl Frame {
    /// Bytes on the wire, the length prefix included.
    pub fn wire_len(&self) -> usize {
        let mut length = Length(4);
        self.body(&mut length);
        length.0
    }

    /// Appends the frame to a buffer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        self.body(out);
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Appends the frame as buffers for a vectored write; large payloads are shared, not copied.
    pub fn encode_shared(&self, out: &mut Vec<Bytes>) {
        let length = (self.wire_len() - 4) as u32;
        let mut segments = Segments { scratch: BytesMut::with_capacity(256), out };
        put_u32(&mut segments, length);
        self.body(&mut segments);
        segments.flush();
    }

    /// Reads a frame from the bytes after the length prefix. Payloads share `bytes`.
    pub fn decode(bytes: Bytes) -> Result<Self, FrameError> {
        if bytes.is_empty() || bytes.len() > MAX_FRAME {
            return Err(FrameError::Length { length: bytes.len() });
        }
        let mut from = Reader { rest: bytes };
        let frame = read_frame(&mut from)?;
        match from.rest.len() {
            0 => Ok(frame),
            left => Err(FrameError::Trailing { left }),
        }
    }
}

/// Cuts a stream of bytes into frames.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where the shell reads bytes into. Holds at most one frame that is not whole, and what came
    /// with its end.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next frame; `None` until more bytes are there.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(prefix) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length == 0 || length > MAX_FRAME {
            return Err(FrameError::Length { length });
        }
        if self.buffer.len() < 4 + length {
            self.buffer.reserve(4 + length - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(4);
        Frame::decode(self.buffer.split_to(length).freeze()).map(Some)
    }
}
