//! Reading and writing of numbers, texts and byte strings. Nothing here allocates more than the
//! bytes that are there to be read.

use super::codec::FrameError;
use super::{MAX_MESSAGE, MAX_TEXT};
use bytes::{Buf, Bytes, BytesMut};

/// Where encoded bytes go.
pub(super) trait Sink {
    /// A few bytes.
    fn put(&mut self, bytes: &[u8]);
    /// A payload, which may be shared instead of copied.
    fn share(&mut self, bytes: &Bytes);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
    fn share(&mut self, bytes: &Bytes) {
        self.extend_from_slice(bytes);
    }
}

/// Counts.
pub(super) struct Length(pub(super) usize);

impl Sink for Length {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
    fn share(&mut self, bytes: &Bytes) {
        self.0 += bytes.len();
    }
}

/// Keeps payloads of some size as they are, between runs of copied bytes.
pub(super) struct Segments<'a> {
    pub(super) scratch: BytesMut,
    pub(super) out: &'a mut Vec<Bytes>,
}

/// Below this a copy is cheaper than one more buffer to write.
const WORTH_SHARING: usize = 1024;

impl Segments<'_> {
    pub(super) fn flush(&mut self) {
        if !self.scratch.is_empty() {
            self.out.push(self.scratch.split().freeze());
        }
    }
}

impl Sink for Segments<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.scratch.extend_from_slice(bytes);
    }
    fn share(&mut self, bytes: &Bytes) {
        if bytes.len() < WORTH_SHARING {
            self.put(bytes);
        } else {
            self.flush();
            self.out.push(bytes.clone());
        }
    }
}

pub(super) fn put_u8(to: &mut impl Sink, value: u8) {
    to.put(&[value]);
}

pub(super) fn put_u32(to: &mut impl Sink, value: u32) {
    to.put(&value.to_be_bytes());
}

pub(super) fn put_u64(to: &mut impl Sink, value: u64) {
    to.put(&value.to_be_bytes());
}

pub(super) fn put_u128(to: &mut impl Sink, value: u128) {
    to.put(&value.to_be_bytes());
}

/// A text with its length; longer ones than [`MAX_TEXT`] are cut at a character.
pub(super) fn put_text(to: &mut impl Sink, text: &str) {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    to.put(&(end as u16).to_be_bytes());
    to.put(&text.as_bytes()[..end]);
}

pub(super) fn put_bytes(to: &mut impl Sink, bytes: &Bytes) {
    put_u32(to, bytes.len() as u32);
    to.share(bytes);
}

/// Reads what the `put` functions wrote.
pub(super) struct Reader {
    pub(super) rest: Bytes,
}

impl Reader {
    fn need(&self, bytes: usize) -> Result<(), FrameError> {
        if self.rest.len() < bytes { Err(FrameError::Truncated) } else { Ok(()) }
    }

    pub(super) fn u8(&mut self) -> Result<u8, FrameError> {
        self.need(1)?;
        Ok(self.rest.get_u8())
    }

    pub(super) fn flag(&mut self) -> Result<bool, FrameError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(FrameError::Value("flag")),
        }
    }

    pub(super) fn u32(&mut self) -> Result<u32, FrameError> {
        self.need(4)?;
        Ok(self.rest.get_u32())
    }

    pub(super) fn u64(&mut self) -> Result<u64, FrameError> {
        self.need(8)?;
        Ok(self.rest.get_u64())
    }

    pub(super) fn u128(&mut self) -> Result<u128, FrameError> {
        self.need(16)?;
        Ok(self.rest.get_u128())
    }

    pub(super) fn text(&mut self) -> Result<String, FrameError> {
        self.need(2)?;
        let len = self.rest.get_u16() as usize;
        if len > MAX_TEXT {
            return Err(FrameError::Value("text length"));
        }
        self.need(len)?;
        let bytes = self.rest.split_to(len);
        std::str::from_utf8(&bytes).map(str::to_owned).map_err(|_| FrameError::Value("text"))
    }

    pub(super) fn bytes(&mut self) -> Result<Bytes, FrameError> {
        let len = self.u32()? as usize;
        self.need(len)?;
        Ok(self.rest.split_to(len))
    }

    /// The size of a whole payload whose first part follows.
    pub(super) fn total(&mut self) -> Result<u32, FrameError> {
        let total = self.u32()?;
        if total as usize > MAX_MESSAGE {
            Err(FrameError::Value("payload size"))
        } else {
            Ok(total)
        }
    }

    /// A count of entries of at least `least` bytes each: never more than the bytes that are left
    /// can hold.
    pub(super) fn count(&mut self, least: usize) -> Result<usize, FrameError> {
        let count = self.u32()? as usize;
        self.need(count.checked_mul(least).ok_or(FrameError::Truncated)?)?;
        Ok(count)
    }
}
