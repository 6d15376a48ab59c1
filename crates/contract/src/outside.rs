//! The way in for people who are outside (`docs/spec/outside.md`): a verb of the agent, run in the
//! launcher for somebody who reaches its port by a port-forward.
//!
//! Owns the words and the cutting of frames; it must not know sockets, terminals or clocks.

use serde::{Deserialize, Serialize};

/// What the caller sends first, where a broker sends its preamble.
pub const PREAMBLE: [u8; 4] = *b"QRU1";
/// The most bytes of a frame's payload.
pub const FRAME_LIMIT: usize = 4 << 20;
/// Bytes of a stream that are sent at once.
pub const PIECE: usize = 32 << 10;
/// Bytes of standard input that may be under way and not taken.
pub const STDIN_WINDOW: usize = 256 << 10;
/// Bytes of a frame's head: length of what follows it (u32, big endian) and kind.
const HEAD: usize = 5;

/// Verbs of the agent that are run for somebody outside: those of the queue. What they start may be
/// anything, so this list is an interface and protects nothing.
pub const VERBS: [&str; 27] = [
    "alloc",
    "attach",
    "batch",
    "cancel",
    "events",
    "fetch",
    "hold",
    "hosts",
    "info",
    "jobs",
    "kill",
    "overlay",
    "proxy",
    "purge",
    "queue",
    "release",
    "requeue",
    "resource",
    "run",
    "signal",
    "submit",
    "submit-script",
    "top",
    "tree",
    "update",
    "version",
    "wait",
];

/// Kinds of frames.
pub mod kind {
    /// Caller, once, after [`HERE`]: JSON of [`super::Call`].
    pub const CALL: u8 = 0;
    /// Caller: a piece of standard input.
    pub const INPUT: u8 = 1;
    /// Caller: the end of standard input.
    pub const INPUT_END: u8 = 2;
    /// Caller: the terminal's rows and columns (u16, big endian, each).
    pub const SIZE: u8 = 3;
    /// Caller: the number of a signal for the verb (u8).
    pub const SIGNAL: u8 = 4;
    /// Caller: a piece of the parcel that the call has told of.
    pub const PARCEL: u8 = 5;
    /// Broker, first: JSON of [`super::Here`].
    pub const HERE: u8 = 16;
    /// Broker: a piece of standard output, or of the terminal.
    pub const OUTPUT: u8 = 17;
    /// Broker: a piece of standard error.
    pub const ERROR: u8 = 18;
    /// Broker: so many bytes of standard input were taken (u32, big endian).
    pub const TAKEN: u8 = 19;
    /// Broker, last: JSON of [`super::End`].
    pub const END: u8 = 255;
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Here {
    /// The cluster's UID.
    pub cluster: String,
    /// The agent's version.
    pub version: String,
    /// Why nobody is heard who comes this way; an [`End`] follows at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// What a cluster says of which the queue is closed to port-forwards.
pub const INSIDE_ONLY: &str = "this cluster takes no verbs by a port-forward: outside.portForward was false \
    in the values of Quorate's chart when it was made";

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// The verb, one of [`VERBS`], and its arguments.
    pub words: Vec<String>,
    /// The terminal at which it was typed; without one the three streams are apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<Terminal>,
    /// Bytes of the parcel ([`crate::parcel`]) that follows by [`kind::PARCEL`]; jobs that the verb
    /// submits get its files.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parcel: u64,
}

/// A terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Terminal {
    /// Its rows.
    pub rows: u16,
    /// Its columns.
    pub columns: u16,
    /// Its type, as `TERM` says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// How it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// The verb's exit code; 128 and the signal after a signal.
    pub code: i32,
    /// Why it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The variable by which a verb knows the name of the parcel that was sent for it.
pub const PARCEL_VARIABLE: &str = "QUORATE_PARCEL";

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Why a connection makes no sense.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// A frame without kind.
    #[error("a frame has no kind")]
    NoKind,
    /// A frame that is too long.
    #[error("a frame has {found} bytes, the limit is {FRAME_LIMIT}")]
    TooLong {
        /// The payload's length.
        found: usize,
    },
}

/// A frame's bytes. The payload must not be longer than [`FRAME_LIMIT`].
pub fn frame(kind: u8, payload: &[u8]) -> Result<Vec<u8>, FrameError> {
    if payload.len() > FRAME_LIMIT {
        return Err(FrameError::TooLong { found: payload.len() });
    }
    let length = u32::try_from(payload.len() + 1).expect("the limit fits in 32 bits");
    let mut bytes = Vec::with_capacity(HEAD + payload.len());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.push(kind);
    bytes.extend_from_slice(payload);
    Ok(bytes)
}

/// A frame whose payload is JSON.
pub fn json_frame<T: Serialize>(kind: u8, value: &T) -> Result<Vec<u8>, FrameError> {
    frame(kind, &serde_json::to_vec(value).expect("plain data always serializes"))
}

/// Cuts bytes into frames. Holds what has come of one frame, and no more than that.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: Vec<u8>,
}

impl Frames {
    /// Takes bytes as they came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, as kind and payload; `None` until more bytes came. After an error the
    /// bytes have no meaning any more.
    pub fn next_frame(&mut self) -> Result<Option<(u8, Vec<u8>)>, FrameError> {
        let Some(length) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        let Some(payload) = length.checked_sub(1) else { return Err(FrameError::NoKind) };
        if payload > FRAME_LIMIT {
            return Err(FrameError::TooLong { found: payload });
        }
        if self.buffer.len() < HEAD + payload {
            return Ok(None);
        }
        let kind = self.buffer[HEAD - 1];
        let payload = self.buffer[HEAD..HEAD + payload].to_vec();
        self.buffer.drain(..HEAD + payload.len());
        Ok(Some((kind, payload)))
    }
}

/// The payload of [`kind::SIZE`].
pub fn size(rows: u16, columns: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (rows.to_be_bytes(), columns.to_be_bytes());
    [a, b, c, d]
}

/// Rows and columns of a [`kind::SIZE`].
pub fn read_size(payload: &[u8]) -> Option<(u16, u16)> {
    let &[a, b, c, d] = payload else { return None };
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// The number of a [`kind::TAKEN`].
pub fn read_taken(payload: &[u8]) -> Option<usize> {
    Some(u32::from_be_bytes(payload.try_into().ok()?) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let sent = [
            json_frame(kind::CALL, &Call { words: vec!["jobs".into()], ..Call::default() }),
            frame(kind::INPUT_END, &[]),
            frame(kind::OUTPUT, &[9; 3000]),
        ];
        let sent: Vec<u8> = sent.into_iter().flat_map(Result::unwrap).collect();
        for step in [1, 2, 3, 5, 700, sent.len()] {
            let (mut frames, mut seen) = (Frames::default(), Vec::new());
            for piece in sent.chunks(step) {
                frames.push(piece);
                while let Some((kind, payload)) = frames.next_frame().unwrap() {
                    seen.push((kind, payload.len()));
                }
            }
            assert_eq!(seen, [(0, 18), (2, 0), (17, 3000)], "in pieces of {step}");
        }
    }

    #[test]
    fn frames_without_kind_and_beyond_the_limit_are_refused() {
        let read = |bytes: &[u8]| {
            let mut frames = Frames::default();
            frames.push(bytes);
            frames.next_frame()
        };
        assert!(matches!(read(&[0; 4]), Err(FrameError::NoKind)));
        let most = u32::try_from(FRAME_LIMIT + 1).unwrap();
        assert!(matches!(read(&most.to_be_bytes()), Ok(None)));
        assert!(matches!(read(&(most + 1).to_be_bytes()), Err(FrameError::TooLong { .. })));
        assert!(frame(1, &vec![0; FRAME_LIMIT + 1]).is_err());
    }

    #[test]
    fn what_is_not_said_takes_its_default() {
        let call: Call = serde_json::from_str(r#"{"words": ["jobs"]}"#).unwrap();
        assert_eq!(call, Call { words: vec!["jobs".into()], ..Call::default() });
    }

    #[test]
    fn sizes_and_counts_are_read_as_they_were_written() {
        assert_eq!(read_size(&size(24, 300)), Some((24, 300)));
        assert_eq!(read_size(&[1]), None);
        assert_eq!(read_taken(&70_000_u32.to_be_bytes()), Some(70_000));
        assert_eq!(read_taken(&[]), None);
    }
}
