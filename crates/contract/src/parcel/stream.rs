//! Files that come back from a job, piece by piece: [`Totals`], then entries as in a parcel.
//!
//! Owns the cutting and what may come: names as [`super::check`] has them, none twice, contents as long
//! as they were said to be, and an end between two entries. Holds no more than a head and what was pushed.

use super::{ENTRIES, Entry, HEAD, ParcelError, check};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Bytes of a head's length.
const LENGTH: usize = 4;

/// What stands before the first entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Files that follow.
    pub files: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// What a stream consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// What is to come; first, and once.
    Totals(Totals),
    /// A folder, or a file whose content follows.
    Entry(Entry),
    /// Some of the content of the file before; never empty.
    Content(Vec<u8>),
}

/// A head: its length and its JSON.
pub fn head<T: Serialize>(value: &T) -> Vec<u8> {
    let text = serde_json::to_vec(value).expect("plain data always serializes");
    let length = u32::try_from(text.len()).expect("a name of at most 4095 bytes has a short head");
    [&length.to_be_bytes()[..], &text].concat()
}

/// Cuts bytes, as they come, into pieces.
#[derive(Debug, Default)]
pub struct Cutter {
    buffer: Vec<u8>,
    begun: bool,
    /// Bytes of the present file that are still to come.
    left: u64,
    seen: BTreeSet<String>,
}

impl Cutter {
    /// Takes bytes. They should be cut by [`Cutter::next_piece`] before more are pushed.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next piece; `None` until more has come. After an error nothing has a meaning any more.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, ParcelError> {
        if self.left > 0 {
            let all = self.buffer.len();
            let count = usize::try_from(self.left).map_or(all, |left| left.min(all));
            if count == 0 {
                return Ok(None);
            }
            self.left -= count as u64;
            let rest = self.buffer.split_off(count);
            return Ok(Some(Piece::Content(std::mem::replace(&mut self.buffer, rest))));
        }
        let Some(length) = self.buffer.first_chunk::<LENGTH>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > HEAD {
            return Err(ParcelError::Malformed);
        }
        let Some(text) = self.buffer.get(LENGTH..LENGTH + length) else { return Ok(None) };
        let piece = if self.begun {
            Piece::Entry(serde_json::from_slice(text).map_err(|_| ParcelError::Malformed)?)
        } else {
            Piece::Totals(serde_json::from_slice(text).map_err(|_| ParcelError::Malformed)?)
        };
        self.buffer.drain(..LENGTH + length);
        self.begun = true;
        if let Piece::Entry(entry) = &piece {
            check(&entry.path)?;
            if entry.mode > 0o777 {
                return Err(ParcelError::Malformed);
            }
            if self.seen.len() >= ENTRIES {
                return Err(ParcelError::TooMany);
            }
            if !self.seen.insert(entry.path.clone()) {
                return Err(ParcelError::Twice(entry.path.clone()));
            }
            self.left = entry.size.unwrap_or(0);
        }
        Ok(Some(piece))
    }

    /// Whether all that was told of has come.
    pub fn is_whole(&self) -> bool {
        self.begun && self.left == 0 && self.buffer.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, size: Option<u64>) -> Entry {
        Entry { path: path.to_owned(), mode: 0o640, size }
    }

    fn sent() -> Vec<u8> {
        let totals = head(&Totals { files: 2, bytes: 3000 });
        let (folder, empty) = (head(&entry("out", None)), head(&entry("out/none", Some(0))));
        let file = head(&entry("out/a", Some(3000)));
        [totals, folder, empty, file, vec![0xa5; 3000]].concat()
    }

    fn cut(bytes: &[u8], step: usize) -> Result<(Vec<Piece>, bool), ParcelError> {
        let (mut cutter, mut pieces) = (Cutter::default(), Vec::new());
        for part in bytes.chunks(step) {
            cutter.push(part);
            while let Some(piece) = cutter.next_piece()? {
                pieces.push(piece);
            }
            assert!(cutter.buffer.len() <= HEAD + LENGTH, "more is held than a head");
        }
        Ok((pieces, cutter.is_whole()))
    }

    #[test]
    fn files_come_out_as_they_went_in_however_they_are_cut() {
        let sent = sent();
        for step in [1, 3, 700, sent.len()] {
            let (pieces, whole) = cut(&sent, step).unwrap();
            assert!(whole, "in pieces of {step}");
            assert_eq!(pieces[0], Piece::Totals(Totals { files: 2, bytes: 3000 }));
            let (mut names, mut content) = (Vec::new(), 0);
            for piece in &pieces[1..] {
                match piece {
                    Piece::Entry(entry) => names.push((entry.path.as_str(), entry.size)),
                    Piece::Content(bytes) => content += bytes.len(),
                    Piece::Totals(_) => panic!("totals come once"),
                }
            }
            assert_eq!(names, [("out", None), ("out/none", Some(0)), ("out/a", Some(3000))]);
            assert_eq!(content, 3000);
        }
        for end in 0..sent.len() {
            let whole = cut(&sent[..end], 64).unwrap().1;
            let between = [head(&Totals { files: 2, bytes: 3000 }).len()];
            assert!(!whole || end >= between[0], "cut at {end}");
        }
        assert!(!cut(&sent[..sent.len() - 1], 64).unwrap().1);
    }

    #[test]
    fn names_that_lead_out_and_those_that_come_twice_are_refused() {
        for path in ["../x", "/etc/passwd", "a/../../x", "", "a//b"] {
            let bytes = [head(&Totals::default()), head(&entry(path, Some(0)))].concat();
            assert!(matches!(cut(&bytes, 9), Err(ParcelError::Name { .. })), "{path:?}");
        }
        let twice = head(&entry("a", Some(0)));
        let bytes = [head(&Totals::default()), twice.clone(), twice].concat();
        assert_eq!(cut(&bytes, 9), Err(ParcelError::Twice("a".into())));
    }

    #[test]
    fn damaged_streams_are_refused_and_do_not_panic() {
        let sent = sent();
        for at in 0..200 {
            for bit in 0..8 {
                let mut damaged = sent.clone();
                damaged[at] ^= 1 << bit;
                let _ = cut(&damaged, 33);
            }
        }
        assert_eq!(cut(&[0xff; 8], 8), Err(ParcelError::Malformed));
    }
}
