//! Frames of the local socket (`docs/spec/local-socket.md`), taken from bytes as they come and
//! made for sending. Owns the format and its limit; knows no socket.

use super::{FRAME_LIMIT, LocalError};
use bytes::{Bytes, BytesMut};

/// Bytes of a frame's length field.
const LENGTH: usize = 4;

/// Room that a peer has before it has sent anything.
const FIRST_ROOM: usize = 4096;

/// What has come and is no whole frame yet.
#[derive(Debug, Default)]
pub(super) struct Frames {
    buffer: BytesMut,
}

impl Frames {
    /// Where the next bytes go. There is room behind what has come: for the rest of the frame, but
    /// not for much more than has come already, whatever length the peer claims.
    pub(super) fn room(&mut self) -> &mut BytesMut {
        let come = self.buffer.len();
        let missing = self.claimed().map_or(0, |length| (LENGTH + length).saturating_sub(come));
        self.buffer.reserve(missing.min(come).max(FIRST_ROOM));
        &mut self.buffer
    }

    /// Whether the peer is between two frames.
    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The next whole frame, as kind and payload; `None` when more has to come.
    pub(super) fn next(&mut self) -> Result<Option<(u8, Bytes)>, LocalError> {
        let Some(length) = self.claimed() else { return Ok(None) };
        if length == 0 {
            return Err(LocalError::NoKind);
        }
        if length > FRAME_LIMIT + 1 {
            return Err(LocalError::TooLong { found: length - 1 });
        }
        if self.buffer.len() < LENGTH + length {
            return Ok(None);
        }
        let mut frame = self.buffer.split_to(LENGTH + length).freeze().split_off(LENGTH);
        let payload = frame.split_off(1);
        Ok(Some((frame[0], payload)))
    }

    fn claimed(&self) -> Option<usize> {
        self.buffer.first_chunk::<LENGTH>().map(|length| u32::from_be_bytes(*length) as usize)
    }
}

/// What goes before a payload.
pub(super) fn head(kind: u8, payload: usize) -> Result<[u8; LENGTH + 1], LocalError> {
    if payload > FRAME_LIMIT {
        return Err(LocalError::TooLong { found: payload });
    }
    let length = u32::try_from(payload + 1).expect("the frame limit fits in 32 bits");
    let [a, b, c, d] = length.to_be_bytes();
    Ok([a, b, c, d, kind])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        [&head(kind, payload.len()).unwrap()[..], payload].concat()
    }

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let sent = [frame(0, b"{}"), frame(7, b""), frame(255, &[9; 3000])].concat();
        for step in [1, 2, 3, 5, 700, sent.len()] {
            let (mut frames, mut seen) = (Frames::default(), Vec::new());
            for piece in sent.chunks(step) {
                frames.room().extend_from_slice(piece);
                while let Some((kind, payload)) = frames.next().unwrap() {
                    seen.push((kind, payload.len()));
                }
            }
            assert_eq!(seen, [(0, 2), (7, 0), (255, 3000)], "in pieces of {step}");
            assert!(frames.is_empty());
        }
    }

    #[test]
    fn a_frame_without_kind_and_one_beyond_the_limit_are_refused() {
        let read = |bytes: &[u8]| {
            let mut frames = Frames::default();
            frames.room().extend_from_slice(bytes);
            frames.next()
        };
        assert!(matches!(read(&[0; 4]), Err(LocalError::NoKind)));
        let most = u32::try_from(FRAME_LIMIT + 1).unwrap();
        assert!(matches!(read(&most.to_be_bytes()), Ok(None)));
        let beyond = read(&(most + 1).to_be_bytes());
        assert!(matches!(beyond, Err(LocalError::TooLong { found }) if found == FRAME_LIMIT + 1));
        assert!(matches!(head(1, FRAME_LIMIT + 1), Err(LocalError::TooLong { .. })));
    }

    #[test]
    fn a_claimed_length_takes_no_memory() {
        let mut frames = Frames::default();
        frames.room().extend_from_slice(&(16_u32 << 20).to_be_bytes());
        assert!(frames.next().unwrap().is_none());
        assert!(frames.room().capacity() <= 2 * FIRST_ROOM);
    }

    /// A million hostile inputs: damaged frames, noise and wrong lengths, in pieces of any size.
    /// Nothing panics, and what is kept and given out is no more than what came.
    #[test]
    fn a_million_damaged_streams_do_not_panic() {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let call = br#"{"verb":"overlay.status","args":{"watch":true}}"#;
        let good = [frame(0, call), frame(1, b"a line\n"), frame(2, b""), frame(255, b"{}")];
        let (mut whole, mut refused) = (0_u32, 0_u32);
        for _ in 0..1_000_000_u32 {
            let mut bytes = good[random.below(good.len())].clone();
            for _ in 0..random.below(3) {
                let more = &good[random.below(good.len())];
                bytes.extend_from_slice(more);
            }
            for _ in 0..random.below(4) {
                let at = random.below(bytes.len());
                bytes[at] = [0, 1, 0x7f, 0xff, random.next() as u8][random.below(5)];
            }
            bytes.truncate(bytes.len() - random.below(3));
            let (mut frames, mut rest, mut given) = (Frames::default(), &bytes[..], 0);
            'stream: while !rest.is_empty() {
                let (piece, left) = rest.split_at(1 + random.below(rest.len()));
                rest = left;
                frames.room().extend_from_slice(piece);
                assert!(frames.buffer.capacity() <= 2 * (FIRST_ROOM + bytes.len()));
                loop {
                    match frames.next() {
                        Ok(None) => break,
                        Ok(Some((_, payload))) => {
                            given += LENGTH + 1 + payload.len();
                            whole += 1;
                        }
                        Err(_) => {
                            refused += 1;
                            break 'stream;
                        }
                    }
                }
            }
            assert!(given + frames.buffer.len() <= bytes.len());
        }
        assert!(whole > 100_000 && refused > 10_000, "{whole} read, {refused} refused: no teeth");
    }
}
