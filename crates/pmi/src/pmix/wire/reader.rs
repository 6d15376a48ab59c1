//! Reading packed bytes. Never takes more from them than there is, whatever lengths they claim.

use super::{Encoding, Info, Proc, Value, WireError};

/// Arrays within arrays that are followed.
const DEPTH_MAX: usize = 8;

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

    /// A number of 16 bits; also the code of a type.
    pub(super) fn u16(&mut self) -> Result<u16, WireError> {
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
