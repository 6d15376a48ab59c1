//! The packed data of PMIx, in the two encodings that clients since 3.0 use. Owns the primitive
//! types and the general values; knows no command.
//!
//! A *pack* is a count and that many elements of one type; most packs hold one element. The bytes
//! do not say what they are, so reader and writer must agree on the order (`docs/spec/pmi.md`).

mod reader;
mod writer;

pub(crate) use reader::Reader;
pub(crate) use writer::Writer;

/// How numbers look on the wire. The client names it in its hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Encoding {
    /// `v3`, of PMIx 3.x: big-endian numbers of full width.
    V3,
    /// `v41`, of PMIx 4.1 and later: seven bits a byte, signed numbers zig-zag.
    V41,
}

impl Encoding {
    /// The one that a client names; `None` for those that are not served.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"v3" => Some(Self::V3),
            b"v41" => Some(Self::V41),
            _ => None,
        }
    }
}

/// Codes of data types.
pub(crate) mod types {
    pub(crate) const STRING: u16 = 3;
    pub(crate) const UINT16: u16 = 13;
    pub(crate) const UINT32: u16 = 14;
    pub(crate) const UINT64: u16 = 15;
    pub(crate) const INFO: u16 = 24;
    pub(crate) const BYTE_OBJECT: u16 = 27;
    pub(crate) const DATA_ARRAY: u16 = 39;
    pub(crate) const PROC_RANK: u16 = 40;
}

/// Why packed bytes cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    /// They end within an element.
    #[error("the message ends within an element")]
    Truncated,
    /// A pack holds another number of elements than it must.
    #[error("a pack holds {found} elements where {expected} are due")]
    Count {
        /// Elements that it holds.
        found: i32,
        /// Elements that it must hold.
        expected: usize,
    },
    /// A number is out of the range of its type.
    #[error("a number is out of range")]
    Range,
    /// A data type that is not known.
    #[error("data type {code} is not known")]
    Type {
        /// Its code.
        code: u16,
    },
    /// Arrays within arrays within arrays ...
    #[error("arrays are nested too deep")]
    Depth,
}

/// What a value says, as far as a server asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// No value; where a flag is asked for, it means yes.
    None,
    /// Yes or no.
    Bool(bool),
    /// A string without its end mark.
    Str(&'a [u8]),
    /// A whole number.
    Number(i64),
    /// Anything else.
    Other,
}

impl Value<'_> {
    /// Tells whether it says yes.
    pub(crate) fn is_true(self) -> bool {
        matches!(self, Self::None | Self::Bool(true))
    }
}

/// A key and a value: a directive of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Info<'a> {
    /// The key.
    pub(crate) key: &'a [u8],
    /// What it says.
    pub(crate) value: Value<'a>,
}

/// A process: namespace and rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proc<'a> {
    /// The namespace.
    pub(crate) namespace: &'a [u8],
    /// The rank, or one of the special ranks.
    pub(crate) rank: u32,
}

#[cfg(test)]
mod tests;
