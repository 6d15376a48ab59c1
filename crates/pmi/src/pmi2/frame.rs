//! Frames of PMI-2: six characters of decimal length, then `cmd=NAME;key=value;...;` of that
//! length. A `;` inside a value is written twice.

/// Bytes of the length field.
const HEAD: usize = 6;

/// The most bytes that a frame's length field can name.
pub(crate) const BODY_MAX: usize = 999_999;

/// A frame's length field is not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame's length is not a number")]
pub(crate) struct BadLength;

/// The body of the first frame in `buffer` and the bytes that the frame takes; `None` while it is
/// not whole.
pub(crate) fn next(buffer: &[u8]) -> Result<Option<(&[u8], usize)>, BadLength> {
    let Some(head) = buffer.get(..HEAD) else { return Ok(None) };
    let digits = head.trim_ascii();
    let number = std::str::from_utf8(digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
    let length: usize = number.and_then(|digits| digits.parse().ok()).ok_or(BadLength)?;
    Ok(buffer.get(HEAD..HEAD + length).map(|body| (body, HEAD + length)))
}

/// A frame taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Frame {
    /// Takes a body apart. What has no `=` is left out.
    pub(crate) fn parse(body: &[u8]) -> Self {
        let mut fields = Vec::new();
        let mut field = Vec::new();
        let mut bytes = body.iter().copied().peekable();
        let mut end = |field: &mut Vec<u8>| {
            if let Some(equal) = field.iter().position(|&b| b == b'=') {
                let value = field.split_off(equal + 1);
                field.pop();
                fields.push((std::mem::take(field), value));
            }
            field.clear();
        };
        while let Some(byte) = bytes.next() {
            if byte != b';' {
                field.push(byte);
            } else if bytes.peek() == Some(&b';') {
                bytes.next();
                field.push(b';');
            } else {
                end(&mut field);
            }
        }
        end(&mut field);
        Self { fields }
    }

    /// Fields that it has.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    /// The value of the first field of that name.
    pub(crate) fn get(&self, key: &str) -> Option<&[u8]> {
        let field = self.fields.iter().find(|(name, _)| name == key.as_bytes());
        field.map(|(_, value)| value.as_slice())
    }

    /// Tells whether a field says yes.
    pub(crate) fn is_true(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| value.eq_ignore_ascii_case(b"true"))
    }
}

/// Writes a frame: the command, then fields in order.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    body: Vec<u8>,
}

impl Writer {
    /// Starts with a command.
    pub(crate) fn new(command: &str) -> Self {
        Self { body: Vec::new() }.field("cmd", command)
    }

    /// Adds a field.
    pub(crate) fn field(mut self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.body.extend_from_slice(key.as_bytes());
        self.body.push(b'=');
        for &byte in value.as_ref() {
            self.body.push(byte);
            if byte == b';' {
                self.body.push(byte);
            }
        }
        self.body.push(b';');
        self
    }

    /// The frame with its length in front. A body that no length field can name becomes `None`.
    pub(crate) fn finish(self) -> Option<Vec<u8>> {
        if self.body.len() > BODY_MAX {
            return None;
        }
        let mut frame = format!("{:<HEAD$}", self.body.len()).into_bytes();
        frame.extend_from_slice(&self.body);
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_read_back() {
        let frame = Writer::new("kvs-put").field("key", "a").field("value", "x;y;;=z").finish();
        let frame = frame.unwrap();
        assert!(frame.starts_with(b"35    cmd=kvs-put;key=a;value=x;;y;;;;=z;"), "{frame:?}");
        let (body, taken) = next(&frame).unwrap().unwrap();
        assert_eq!(taken, frame.len());
        let read = Frame::parse(body);
        assert_eq!(read.get("cmd"), Some(&b"kvs-put"[..]));
        assert_eq!(read.get("value"), Some(&b"x;y;;=z"[..]));
        assert_eq!(read.get("thrid"), None);
    }

    #[test]
    fn parts_of_a_frame_wait_for_the_rest() {
        let frame = Writer::new("finalize").finish().unwrap();
        for cut in 0..frame.len() {
            assert_eq!(next(&frame[..cut]), Ok(None));
        }
    }

    #[test]
    fn lengths_that_are_no_numbers_are_refused() {
        for head in [&b"      "[..], b"12x   ", b"-1    ", b"+1    ", b"1 2   "] {
            assert_eq!(next(head), Err(BadLength), "{head:?}");
        }
        assert_eq!(next(b"    10cmd=abort;x"), Ok(Some((&b"cmd=abort;"[..], 16))));
    }
}
