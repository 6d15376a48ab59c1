//! Arguments, variables and paths as JSON strings, without loss.
//!
//! Owns: a mapping of any byte string to Unicode text and back. Unix file names are bytes, JSON
//! strings are not. Bytes that are not UTF-8 become characters of the private use plane 16,
//! U+10FF00 plus the byte; a character that is itself in that range is written byte by byte, so
//! that the way back is unambiguous.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

const BASE: u32 = 0x0010_ff00;

/// Text for any byte string.
pub fn encode(bytes: impl AsRef<OsStr>) -> String {
    let mut text = String::new();
    for chunk in bytes.as_ref().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if u32::from(c) >= BASE {
                let mut buffer = [0; 4];
                c.encode_utf8(&mut buffer).bytes().for_each(|b| text.push(escape(b)));
            } else {
                text.push(c);
            }
        }
        chunk.invalid().iter().for_each(|b| text.push(escape(*b)));
    }
    text
}

/// The byte string of a text.
pub fn decode(text: &str) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        if let Some(byte) = u32::from(c).checked_sub(BASE) {
            bytes.push(byte as u8);
        } else {
            let mut buffer = [0; 4];
            bytes.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
        }
    }
    OsString::from_vec(bytes)
}

fn escape(byte: u8) -> char {
    char::from_u32(BASE + u32::from(byte)).expect("U+10FF00..=U+10FFFF are characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn every_byte_string_comes_back(bytes: Vec<u8>) {
            let original = OsString::from_vec(bytes);
            assert_eq!(decode(&encode(&original)), original);
        }
    }

    #[test]
    fn plain_text_stays_plain() {
        assert_eq!(encode("naïve ✓"), "naïve ✓");
        let high = OsString::from("\u{10ff41}x");
        assert_eq!(decode(&encode(&high)), high);
    }
}
