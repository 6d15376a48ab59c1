//! Numbers and byte strings as the blobs between nodes carry them: seven bits a byte, lowest first,
//! the top bit set on all but the last byte; strings with their length before them.

/// Appends a number.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a byte string.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads what [`put`] and [`put_bytes`] wrote. `None` means that the bytes are not whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at an offset.
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// Where the next read starts.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Tells whether all was read.
    pub(crate) fn is_done(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// A number; one that does not fit 64 bits is not whole.
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                return None;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A byte string.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let end = self.at.checked_add(len)?;
        let bytes = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_strings_read_back() {
        let mut out = Vec::new();
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            out.clear();
            put(&mut out, value);
            put_bytes(&mut out, b"key");
            let mut reader = Reader::new(&out, 0);
            assert_eq!(reader.number(), Some(value));
            assert_eq!(reader.bytes(), Some(&b"key"[..]));
            assert!(reader.is_done());
        }
    }

    #[test]
    fn what_is_cut_or_too_large_is_refused() {
        assert_eq!(Reader::new(&[0x80], 0).number(), None);
        assert_eq!(Reader::new(&[0xff; 10], 0).number(), None);
        assert_eq!(Reader::new(&[5, b'a'], 0).bytes(), None);
        let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(Reader::new(&huge, 0).bytes(), None);
    }
}
