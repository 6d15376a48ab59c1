//! The packed data of PMIx, in the two encodings that clients since 3.0 use. Owns the primitive
//! types and the general values; knows no command.
//!
//! A *pack* is a count and that many elements of one type; most packs hold one element. The bytes
//! do not say what they are, so reader and writer must agree on the order (`docs/spec/pmi.md`).

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

/// Arrays within arrays that are followed.
const DEPTH_MAX: usize = 8;

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

/// Reads packed bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    encoding: Encoding,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub(crate) fn new(bytes: &'a [u8], encoding: Encoding) -> Self {
        Self { bytes, at: 0, encoding }
    }

    /// Tells whether all was read.
    pub(crate) fn is_done(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let end = self.at.checked_add(len).ok_or(WireError::Truncated)?;
        let bytes = self.bytes.get(self.at..end).ok_or(WireError::Truncated)?;
        self.at = end;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let bytes = self.take(N)?;
        Ok(bytes.try_into().expect("the length holds because take was asked for it"))
    }

    /// A number of seven bits a byte; a ninth byte would hold eight.
    fn flexible(&mut self) -> Result<u64, WireError> {
        let mut value = 0u64;
        for shift in (0..56).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Ok(value | u64::from(self.u8()?) << 56)
    }

    fn zigzag(&mut self) -> Result<i64, WireError> {
        let value = self.flexible()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// A byte.
    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, WireError> {
        match self.encoding {
            Encoding::V3 => Ok(u16::from_be_bytes(self.array()?)),
            Encoding::V41 => u16::try_from(self.flexible()?).map_err(|_| WireError::Range),
        }
    }

    /// An unsigned number; also a rank.
    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        match self.encoding {
            Encoding::V3 => Ok(u32::from_be_bytes(self.array()?)),
            Encoding::V41 => u32::try_from(self.flexible()?).map_err(|_| WireError::Range),
        }
    }

    /// A signed number; also a status.
    pub(crate) fn i32(&mut self) -> Result<i32, WireError> {
        match self.encoding {
            Encoding::V3 => Ok(i32::from_be_bytes(self.array()?)),
            Encoding::V41 => i32::try_from(self.zigzag()?).map_err(|_| WireError::Range),
        }
    }

    /// A size. In `v3`, types whose width depends on the machine say what they are.
    pub(crate) fn size(&mut self) -> Result<usize, WireError> {
        let value = match self.encoding {
            Encoding::V41 => self.flexible()?,
            Encoding::V3 => u64::try_from(self.described()?).map_err(|_| WireError::Range)?,
        };
        usize::try_from(value).map_err(|_| WireError::Range)
    }

    /// A number behind the code of its type (`v3`).
    fn described(&mut self) -> Result<i64, WireError> {
        match self.u16()? {
            9 => self.i32().map(i64::from),
            14 => self.u32().map(i64::from),
            10 => Ok(i64::from_be_bytes(self.array()?)),
            15 => i64::try_from(u64::from_be_bytes(self.array()?)).map_err(|_| WireError::Range),
            code => Err(WireError::Type { code }),
        }
    }

    /// The count that begins a pack, which must be `expected`.
    pub(crate) fn pack(&mut self, expected: usize) -> Result<(), WireError> {
        let found = self.i32()?;
        if usize::try_from(found) == Ok(expected) {
            return Ok(());
        }
        Err(WireError::Count { found, expected })
    }

    /// A string without its end mark; the empty string when there is none.
    pub(crate) fn string(&mut self) -> Result<&'a [u8], WireError> {
        let len = usize::try_from(self.i32()?).map_err(|_| WireError::Range)?;
        let bytes = self.take(len)?;
        Ok(bytes.strip_suffix(&[0]).unwrap_or(bytes))
    }

    /// A byte object.
    pub(crate) fn object(&mut self) -> Result<&'a [u8], WireError> {
        let len = self.size()?;
        self.take(len)
    }

    /// A process.
    pub(crate) fn process(&mut self) -> Result<Proc<'a>, WireError> {
        Ok(Proc { namespace: self.string()?, rank: self.u32()? })
    }

    /// The number of elements that a following pack has: a pack of one size.
    pub(crate) fn length(&mut self) -> Result<usize, WireError> {
        self.pack(1)?;
        self.size()
    }

    /// An array: its length, and a pack of so many elements unless it is empty. Elements take a
    /// byte at least, so that what is stored is bounded by the message.
    pub(crate) fn list<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        let length = self.length()?;
        if length == 0 {
            return Ok(Vec::new());
        }
        if length > self.bytes.len() - self.at {
            return Err(WireError::Truncated);
        }
        self.pack(length)?;
        let mut elements = Vec::with_capacity(length.min(64));
        for _ in 0..length {
            elements.push(element(self)?);
        }
        Ok(elements)
    }

    /// A directive.
    pub(crate) fn info(&mut self) -> Result<Info<'a>, WireError> {
        self.info_at(0)
    }

    fn info_at(&mut self, depth: usize) -> Result<Info<'a>, WireError> {
        let key = self.string()?;
        self.u32()?;
        let code = self.u16()?;
        Ok(Info { key, value: self.value(code, depth)? })
    }

    /// A value of a type.
    fn value(&mut self, code: u16, depth: usize) -> Result<Value<'a>, WireError> {
        let old = self.encoding == Encoding::V3;
        Ok(match code {
            0 => Value::None,
            1 => Value::Bool(self.u8()? != 0),
            3 => Value::Str(self.string()?),
            code if old_described(self.encoding, code) => Value::Number(self.described()?),
            6 => Value::Number(self.zigzag()?),
            7 => Value::Number(i64::from(self.u8()?.cast_signed())),
            12 => Value::Number(i64::from(self.u8()?)),
            8 if old => Value::Number(i64::from(self.u16()?.cast_signed())),
            8 | 10 if !old => Value::Number(self.zigzag()?),
            9 | 20 => Value::Number(i64::from(self.i32()?)),
            10 => Value::Number(i64::from_be_bytes(self.array()?)),
            13 => Value::Number(i64::from(self.u16()?)),
            14 | 40 => Value::Number(i64::from(self.u32()?)),
            15 | 19 if old => Value::Number(u64::from_be_bytes(self.array()?).cast_signed()),
            4 | 5 | 11 | 15 | 19 => Value::Number(self.flexible()?.cast_signed()),
            _ => {
                self.skip(code, depth)?;
                Value::Other
            }
        })
    }

    /// Passes over a value that no server asks about.
    fn skip(&mut self, code: u16, depth: usize) -> Result<(), WireError> {
        match code {
            // Byte, persistence, pointer, scope, range, command, states, directive, link.
            2 | 30..=34 | 37 | 43 | 50 | 51 => drop(self.u8()?),
            // Float and double travel as text; namespace.
            16 | 17 | 60 => drop(self.string()?),
            // Time with microseconds.
            18 => {
                for _ in 0..2 {
                    self.value(10, depth)?;
                }
            }
            22 => drop(self.process()?),
            24 => drop(self.info_at(depth)?),
            27 | 42 | 59 => drop(self.object()?),
            35 => drop(self.u32()?),
            36 | 45 => drop(self.u16()?),
            // Process info: process, host, program, process id, state.
            38 => {
                self.process()?;
                self.string()?;
                self.string()?;
                self.value(5, depth)?;
                self.u8()?;
            }
            39 => {
                let code = self.u16()?;
                let length = self.size()?;
                if depth >= DEPTH_MAX {
                    return Err(WireError::Depth);
                }
                if old_described(self.encoding, code) && length > 0 {
                    // Here the description stands once, before all elements.
                    let width = if matches!(self.u16()?, 9 | 14) { 4 } else { 8 };
                    self.take(length.checked_mul(width).ok_or(WireError::Truncated)?)?;
                } else if code != 0 {
                    // Every other type takes a byte at least, so a false length ends the message.
                    for _ in 0..length {
                        self.value(code, depth + 1)?;
                    }
                }
            }
            // Environment variable: name, value, separator.
            46 => {
                self.string()?;
                self.string()?;
                self.u8()?;
            }
            code => return Err(WireError::Type { code }),
        }
        Ok(())
    }
}

/// Tells whether values of a type have the code of their real type before them: size, process id,
/// int and uint in `v3`, whose width depends on the machine.
fn old_described(encoding: Encoding, code: u16) -> bool {
    encoding == Encoding::V3 && matches!(code, 4..=6 | 11)
}

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

#[cfg(test)]
mod tests;
