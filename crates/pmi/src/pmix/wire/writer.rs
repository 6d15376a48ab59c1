//! Writing packed bytes.

use super::{Encoding, types};

/// Writes packed bytes.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    encoding: Encoding,
}

impl Writer {
    /// Starts empty.
    pub(crate) fn new(encoding: Encoding) -> Self {
        Self { bytes: Vec::new(), encoding }
    }

    /// What was written.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends what is packed already.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn flexible(&mut self, mut value: u64) -> &mut Self {
        for _ in 0..8 {
            if value < 0x80 {
                return self.u8(value as u8);
            }
            self.u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8)
    }

    /// A byte.
    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes.push(value);
        self
    }

    /// A number of 16 bits; also the code of a type.
    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        match self.encoding {
            Encoding::V3 => self.raw(&value.to_be_bytes()),
            Encoding::V41 => self.flexible(u64::from(value)),
        }
    }

    /// An unsigned number; also a rank.
    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        match self.encoding {
            Encoding::V3 => self.raw(&value.to_be_bytes()),
            Encoding::V41 => self.flexible(u64::from(value)),
        }
    }

    /// A signed number; also a status.
    pub(crate) fn i32(&mut self, value: i32) -> &mut Self {
        match self.encoding {
            Encoding::V3 => self.raw(&value.to_be_bytes()),
            Encoding::V41 => self.flexible(u64::from((value << 1 ^ value >> 31).cast_unsigned())),
        }
    }

    /// A size.
    pub(crate) fn size(&mut self, value: usize) -> &mut Self {
        match self.encoding {
            Encoding::V3 => self.u16(types::UINT64).raw(&(value as u64).to_be_bytes()),
            Encoding::V41 => self.flexible(value as u64),
        }
    }

    /// The count that begins a pack.
    pub(crate) fn pack(&mut self, count: usize) -> &mut Self {
        self.i32(i32::try_from(count).unwrap_or(i32::MAX))
    }

    /// A string.
    pub(crate) fn string(&mut self, value: &str) -> &mut Self {
        let len = i32::try_from(value.len() + 1).unwrap_or(i32::MAX);
        self.i32(len).raw(value.as_bytes()).u8(0)
    }

    /// A byte object.
    pub(crate) fn object(&mut self, bytes: &[u8]) -> &mut Self {
        self.size(bytes.len()).raw(bytes)
    }

    /// A process.
    pub(crate) fn process(&mut self, namespace: &str, rank: u32) -> &mut Self {
        self.string(namespace).u32(rank)
    }
}
