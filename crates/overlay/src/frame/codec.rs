//! Frames as bytes: a length (u32, big-endian, of what follows), a type (u8), then the fields in
//! the order of their declaration: numbers big-endian, flags one byte, texts with a u16 length,
//! byte strings with a u32 length, lists with a u32 count, optional values behind a flag.
//! `Hello` is JSON, so that brokers of any version can tell each other why they do not match.

use super::wire::{
    Length, Reader, Segments, Sink, put_bytes, put_text, put_u8, put_u32, put_u64, put_u128,
};
use super::{
    Cast, Cause, Change, Dest, Frame, Gather, Happening, Hello, Item, MAX_FRAME, MAX_MESSAGE,
    Message, Notice, Numbered, Outcome, Packet, Phase, ResultPart, Sync, TablePhase, Welcome,
};
use crate::{BootId, ExchangeKey, Failure, FailureCode, Millis};
use bytes::{Buf, Bytes, BytesMut};
use std::sync::Arc;

/// Why bytes are not a frame. The link is useless after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length is zero or above [`MAX_FRAME`].
    #[error("a frame of {length} bytes, the limit is {MAX_FRAME}")]
    Length {
        /// The length.
        length: usize,
    },
    /// No such type of frame.
    #[error("unknown frame type {kind}")]
    Kind {
        /// The type.
        kind: u8,
    },
    /// The frame ends within a field.
    #[error("a frame ends within a field")]
    Truncated,
    /// The frame goes on after its last field.
    #[error("{left} bytes after the end of a frame")]
    Trailing {
        /// How many.
        left: usize,
    },
    /// A field has a value that it cannot have.
    #[error("a frame has a wrong {0}")]
    Value(&'static str),
}

impl Frame {
    /// Bytes on the wire, the length prefix included.
    pub fn wire_len(&self) -> usize {
        let mut length = Length(4);
        self.body(&mut length);
        length.0
    }

    /// Appends the frame to a buffer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        self.body(out);
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Appends the frame as buffers for a vectored write; large payloads are shared, not copied.
    pub fn encode_shared(&self, out: &mut Vec<Bytes>) {
        let length = (self.wire_len() - 4) as u32;
        let mut segments = Segments { scratch: BytesMut::with_capacity(256), out };
        put_u32(&mut segments, length);
        self.body(&mut segments);
        segments.flush();
    }

    fn body(&self, to: &mut impl Sink) {
        match self {
            Self::Hello(hello) => {
                put_u8(to, 1);
                let json = serde_json::to_vec(hello).expect("plain data always serializes");
                put_bytes(to, &json.into());
                put_bytes(to, &hello.inventory);
            }
            Self::Probe => put_u8(to, 2),
            Self::ProbeReply { age } => {
                put_u8(to, 3);
                put_age(to, *age);
            }
            Self::Welcome(welcome) => {
                put_u8(to, 4);
                put_u128(to, welcome.boot.0);
                put_age(to, welcome.age);
                put_u8(to, u8::from(welcome.sync.is_some()));
                if let Some(sync) = &welcome.sync {
                    put_sync(to, sync);
                }
            }
            Self::Refuse { attempt, reason } => {
                put_u8(to, 5);
                put_u32(to, *attempt);
                put_text(to, reason);
            }
            Self::Ping { stamp } => {
                put_u8(to, 6);
                put_u64(to, stamp.0);
            }
            Self::Pong { stamp, ahead } => {
                put_u8(to, 7);
                put_u64(to, stamp.0);
                put_u64(to, ahead.0);
            }
            Self::Table { phase, changes } => {
                put_u8(to, 8);
                put_u8(to, *phase as u8);
                put_u32(to, changes.len() as u32);
                for change in changes {
                    put_change(to, change);
                }
            }
            Self::Confirm { members } => {
                put_u8(to, 9);
                put_u32(to, members.len() as u32);
                for (rank, boot) in members {
                    put_u32(to, *rank);
                    put_u128(to, boot.0);
                }
            }
            Self::Expel { rank, boot, reason } => {
                put_u8(to, 10);
                put_u32(to, *rank);
                put_u128(to, boot.0);
                put_text(to, reason);
            }
            Self::Refused { rank, reason } => {
                put_u8(to, 11);
                put_u32(to, *rank);
                put_text(to, reason);
            }
            Self::Sync(sync) => {
                put_u8(to, 12);
                put_sync(to, sync);
            }
            Self::Event(event) => {
                put_u8(to, 13);
                put_event(to, event);
            }
            Self::Packet(packet) => {
                put_u8(to, 14);
                put_packet(to, packet);
            }
            Self::Cast(cast) => {
                put_u8(to, 15);
                put_u32(to, cast.from);
                put_u128(to, cast.from_boot.0);
                put_u32(to, cast.to.len() as u32);
                for dest in &cast.to {
                    put_dest(to, dest);
                }
                put_message(to, &cast.message);
            }
            Self::Notice(notice) => {
                put_u8(to, 16);
                put_u32(to, notice.to);
                put_u128(to, notice.to_boot.0);
                put_u32(to, notice.about);
                put_u128(to, notice.about_boot.0);
                put_u32(to, notice.epoch);
                put_u8(to, u8::from(notice.replaced));
            }
            Self::Gather(gather) => {
                put_u8(to, 17);
                put_key(to, gather.key);
                put_bytes(to, &gather.members.to_string().into());
                put_items(to, &gather.items);
            }
            Self::Result(part) => {
                put_u8(to, 18);
                put_key(to, part.key);
                put_u8(to, u8::from(part.first));
                put_u8(to, u8::from(part.last));
                put_items(to, &part.items);
            }
            Self::Failed { key, rank, failure } => {
                put_u8(to, 19);
                put_key(to, *key);
                put_u32(to, *rank);
                put_failure(to, failure);
            }
            Self::Leave { reason } => {
                put_u8(to, 20);
                put_text(to, reason);
            }
        }
    }

    /// Reads a frame from the bytes after the length prefix. Payloads share `bytes`.
    pub fn decode(bytes: Bytes) -> Result<Self, FrameError> {
        if bytes.is_empty() || bytes.len() > MAX_FRAME {
            return Err(FrameError::Length { length: bytes.len() });
        }
        let mut from = Reader { rest: bytes };
        let frame = read_frame(&mut from)?;
        match from.rest.len() {
            0 => Ok(frame),
            left => Err(FrameError::Trailing { left }),
        }
    }
}

/// Cuts a stream of bytes into frames.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where the shell reads bytes into. Holds at most one frame that is not whole, and what came
    /// with its end.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next frame; `None` until more bytes are there.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(prefix) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length == 0 || length > MAX_FRAME {
            return Err(FrameError::Length { length });
        }
        if self.buffer.len() < 4 + length {
            self.buffer.reserve(4 + length - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(4);
        Frame::decode(self.buffer.split_to(length).freeze()).map(Some)
    }
}

fn put_age(to: &mut impl Sink, age: Option<Millis>) {
    // No span is as long as this number.
    put_u64(to, age.map_or(u64::MAX, |age| age.0));
}

fn put_sync(to: &mut impl Sink, sync: &Sync) {
    put_u128(to, sync.root.0);
    put_u64(to, sync.next);
    match &sync.phase {
        Phase::Forming => put_u8(to, 0),
        Phase::Run => put_u8(to, 1),
        Phase::Cleanup(outcome) => {
            put_u8(to, 2);
            put_outcome(to, outcome);
        }
    }
}

fn put_outcome(to: &mut impl Sink, outcome: &Outcome) {
    put_u8(to, u8::from(outcome.done));
    put_u8(to, u8::from(outcome.bootstrap));
    put_text(to, &outcome.reason);
}

fn put_change(to: &mut impl Sink, change: &Change) {
    match change {
        Change::Add { rank, boot, inventory } => {
            put_u8(to, 0);
            put_u32(to, *rank);
            put_u128(to, boot.0);
            put_bytes(to, inventory);
        }
        Change::Gone { rank, boot, cause, reason } => {
            put_u8(to, 1);
            put_u32(to, *rank);
            put_u128(to, boot.0);
            put_u8(to, *cause as u8);
            put_text(to, reason);
        }
        Change::Torpid { rank, boot, torpid } => {
            put_u8(to, 2);
            put_u32(to, *rank);
            put_u128(to, boot.0);
            put_u8(to, u8::from(*torpid));
        }
    }
}

fn put_event(to: &mut impl Sink, event: &Numbered) {
    put_u64(to, event.sequence);
    match &event.what {
        Happening::Run => put_u8(to, 0),
        Happening::Cleanup(outcome) => {
            put_u8(to, 1);
            put_outcome(to, outcome);
        }
        Happening::Offline { rank, boot, reason } => {
            put_u8(to, 2);
            put_u32(to, *rank);
            put_u128(to, boot.0);
            put_text(to, reason);
        }
        Happening::Published { topic, payload } => {
            put_u8(to, 3);
            put_text(to, topic);
            put_bytes(to, payload);
        }
        Happening::EndJob { job } => {
            put_u8(to, 4);
            put_u64(to, *job);
        }
    }
}

fn put_packet(to: &mut impl Sink, packet: &Packet) {
    put_u32(to, packet.from);
    put_u128(to, packet.from_boot.0);
    put_dest(to, &packet.to);
    put_u64(to, packet.ack);
    put_u32(to, packet.ack_epoch);
    put_u8(to, u8::from(packet.gap));
    put_u8(to, u8::from(packet.check));
    put_u8(to, u8::from(packet.message.is_some()));
    if let Some(message) = &packet.message {
        put_message(to, message);
    }
}

fn put_dest(to: &mut impl Sink, dest: &Dest) {
    put_u32(to, dest.rank);
    put_u128(to, dest.boot.0);
    put_u32(to, dest.epoch);
    put_u64(to, dest.sequence);
}

fn put_message(to: &mut impl Sink, message: &Message) {
    match message {
        Message::Open { channel, service, total, payload } => {
            put_u8(to, 0);
            put_u64(to, *channel);
            put_text(to, service);
            put_u32(to, *total);
            put_bytes(to, payload);
        }
        Message::Data { channel, total, payload } => {
            put_u8(to, 1);
            put_u64(to, *channel);
            put_u32(to, *total);
            put_bytes(to, payload);
        }
        Message::Grant { channel, credits } => {
            put_u8(to, 2);
            put_u64(to, *channel);
            put_u32(to, *credits);
        }
        Message::Close { channel, result } => {
            put_u8(to, 3);
            put_u64(to, *channel);
            put_u8(to, u8::from(result.is_err()));
            if let Err(failure) = result {
                put_failure(to, failure);
            }
        }
        Message::Cast { service, total, payload } => {
            put_u8(to, 4);
            put_text(to, service);
            put_u32(to, *total);
            put_bytes(to, payload);
        }
        Message::Publish { topic, total, payload } => {
            put_u8(to, 5);
            put_text(to, topic);
            put_u32(to, *total);
            put_bytes(to, payload);
        }
        Message::Part { payload } => {
            put_u8(to, 6);
            put_bytes(to, payload);
        }
    }
}

fn put_failure(to: &mut impl Sink, failure: &Failure) {
    let code = FailureCode::ALL.iter().position(|&c| c == failure.code).map_or(0, |at| at + 1);
    put_u8(to, code as u8);
    put_text(to, &failure.text);
}

fn put_key(to: &mut impl Sink, key: ExchangeKey) {
    put_u64(to, key.job);
    put_u32(to, key.sequence);
}

fn put_items(to: &mut impl Sink, items: &[Item]) {
    put_u32(to, items.len() as u32);
    for item in items {
        put_u32(to, item.rank);
        put_u32(to, item.total);
        put_u32(to, item.offset);
        put_bytes(to, &item.bytes);
    }
}

fn read_frame(from: &mut Reader) -> Result<Frame, FrameError> {
    Ok(match from.u8()? {
        1 => {
            let json = from.bytes()?;
            let mut hello: Hello =
                serde_json::from_slice(&json).map_err(|_| FrameError::Value("hello"))?;
            hello.inventory = from.bytes()?;
            Frame::Hello(Box::new(hello))
        }
        2 => Frame::Probe,
        3 => Frame::ProbeReply { age: read_age(from)? },
        4 => Frame::Welcome(Box::new(Welcome {
            boot: BootId(from.u128()?),
            age: read_age(from)?,
            sync: if from.flag()? { Some(read_sync(from)?) } else { None },
        })),
        5 => Frame::Refuse { attempt: from.u32()?, reason: from.text()? },
        6 => Frame::Ping { stamp: Millis(from.u64()?) },
        7 => Frame::Pong { stamp: Millis(from.u64()?), ahead: Millis(from.u64()?) },
        8 => {
            let phase = match from.u8()? {
                0 => TablePhase::Delta,
                1 => TablePhase::Full,
                2 => TablePhase::FullEnd,
                _ => return Err(FrameError::Value("table phase")),
            };
            let count = from.count(21)?;
            Frame::Table { phase, changes: list(count, || read_change(from))? }
        }
        9 => {
            let count = from.count(20)?;
            Frame::Confirm { members: list(count, || Ok((from.u32()?, BootId(from.u128()?))))? }
        }
        10 => Frame::Expel { rank: from.u32()?, boot: BootId(from.u128()?), reason: from.text()? },
        11 => Frame::Refused { rank: from.u32()?, reason: from.text()? },
        12 => Frame::Sync(read_sync(from)?),
        13 => Frame::Event(Arc::new(read_event(from)?)),
        14 => Frame::Packet(Box::new(read_packet(from)?)),
        15 => {
            let (rank, boot) = (from.u32()?, BootId(from.u128()?));
            let count = from.count(32)?;
            Frame::Cast(Box::new(Cast {
                from: rank,
                from_boot: boot,
                to: list(count, || read_dest(from))?,
                message: read_message(from)?,
            }))
        }
        16 => Frame::Notice(Box::new(Notice {
            to: from.u32()?,
            to_boot: BootId(from.u128()?),
            about: from.u32()?,
            about_boot: BootId(from.u128()?),
            epoch: from.u32()?,
            replaced: from.flag()?,
        })),
        17 => {
            let key = read_key(from)?;
            let members = from.bytes()?;
            let members = std::str::from_utf8(&members)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or(FrameError::Value("member set"))?;
            Frame::Gather(Arc::new(Gather { key, members, items: read_items(from)? }))
        }
        18 => Frame::Result(Arc::new(ResultPart {
            key: read_key(from)?,
            first: from.flag()?,
            last: from.flag()?,
            items: read_items(from)?,
        })),
        19 => {
            Frame::Failed { key: read_key(from)?, rank: from.u32()?, failure: read_failure(from)? }
        }
        20 => Frame::Leave { reason: from.text()? },
        kind => return Err(FrameError::Kind { kind }),
    })
}

/// Collects `count` entries, whose bytes are known to be there.
fn list<T>(
    count: usize,
    mut read: impl FnMut() -> Result<T, FrameError>,
) -> Result<Vec<T>, FrameError> {
    let mut all = Vec::with_capacity(count.min(1024));
    for _ in 0..count {
        all.push(read()?);
    }
    Ok(all)
}

fn read_age(from: &mut Reader) -> Result<Option<Millis>, FrameError> {
    Ok(Some(from.u64()?).filter(|&age| age != u64::MAX).map(Millis))
}

fn read_sync(from: &mut Reader) -> Result<Sync, FrameError> {
    Ok(Sync {
        root: BootId(from.u128()?),
        next: from.u64()?,
        phase: match from.u8()? {
            0 => Phase::Forming,
            1 => Phase::Run,
            2 => Phase::Cleanup(Arc::new(read_outcome(from)?)),
            _ => return Err(FrameError::Value("phase")),
        },
    })
}

fn read_outcome(from: &mut Reader) -> Result<Outcome, FrameError> {
    Ok(Outcome { done: from.flag()?, bootstrap: from.flag()?, reason: from.text()? })
}

fn read_change(from: &mut Reader) -> Result<Change, FrameError> {
    let kind = from.u8()?;
    let (rank, boot) = (from.u32()?, BootId(from.u128()?));
    Ok(match kind {
        0 => Change::Add { rank, boot, inventory: from.bytes()? },
        1 => Change::Gone {
            rank,
            boot,
            cause: match from.u8()? {
                0 => Cause::Collateral,
                1 => Cause::Broken,
                2 => Cause::Silent,
                3 => Cause::Left,
                _ => return Err(FrameError::Value("cause")),
            },
            reason: from.text()?,
        },
        2 => Change::Torpid { rank, boot, torpid: from.flag()? },
        _ => return Err(FrameError::Value("change")),
    })
}

fn read_event(from: &mut Reader) -> Result<Numbered, FrameError> {
    Ok(Numbered {
        sequence: from.u64()?,
        what: match from.u8()? {
            0 => Happening::Run,
            1 => Happening::Cleanup(Arc::new(read_outcome(from)?)),
            2 => Happening::Offline {
                rank: from.u32()?,
                boot: BootId(from.u128()?),
                reason: from.text()?,
            },
            3 => Happening::Published { topic: from.text()?, payload: from.bytes()? },
            4 => Happening::EndJob { job: from.u64()? },
            _ => return Err(FrameError::Value("event")),
        },
    })
}

fn read_packet(from: &mut Reader) -> Result<Packet, FrameError> {
    Ok(Packet {
        from: from.u32()?,
        from_boot: BootId(from.u128()?),
        to: read_dest(from)?,
        ack: from.u64()?,
        ack_epoch: from.u32()?,
        gap: from.flag()?,
        check: from.flag()?,
        message: if from.flag()? { Some(read_message(from)?) } else { None },
    })
}

fn read_dest(from: &mut Reader) -> Result<Dest, FrameError> {
    Ok(Dest {
        rank: from.u32()?,
        boot: BootId(from.u128()?),
        epoch: from.u32()?,
        sequence: from.u64()?,
    })
}

fn read_message(from: &mut Reader) -> Result<Message, FrameError> {
    let message = match from.u8()? {
        0 => Message::Open {
            channel: from.u64()?,
            service: from.text()?,
            total: from.total()?,
            payload: from.bytes()?,
        },
        1 => Message::Data { channel: from.u64()?, total: from.total()?, payload: from.bytes()? },
        2 => Message::Grant { channel: from.u64()?, credits: from.u32()? },
        3 => Message::Close {
            channel: from.u64()?,
            result: if from.flag()? { Err(read_failure(from)?) } else { Ok(()) },
        },
        4 => Message::Cast { service: from.text()?, total: from.total()?, payload: from.bytes()? },
        5 => Message::Publish { topic: from.text()?, total: from.total()?, payload: from.bytes()? },
        6 => Message::Part { payload: from.bytes()? },
        _ => return Err(FrameError::Value("message")),
    };
    match &message {
        Message::Open { total, payload, .. }
        | Message::Data { total, payload, .. }
        | Message::Cast { total, payload, .. }
        | Message::Publish { total, payload, .. }
            if payload.len() > *total as usize =>
        {
            Err(FrameError::Value("payload size"))
        }
        _ => Ok(message),
    }
}

fn read_failure(from: &mut Reader) -> Result<Failure, FrameError> {
    let code = usize::from(from.u8()?)
        .checked_sub(1)
        .and_then(|at| FailureCode::ALL.get(at))
        .ok_or(FrameError::Value("failure code"))?;
    Ok(Failure { code: *code, text: from.text()? })
}

fn read_key(from: &mut Reader) -> Result<ExchangeKey, FrameError> {
    Ok(ExchangeKey { job: from.u64()?, sequence: from.u32()? })
}

fn read_items(from: &mut Reader) -> Result<Vec<Item>, FrameError> {
    let count = from.count(16)?;
    list(count, || {
        let item = Item {
            rank: from.u32()?,
            total: from.u32()?,
            offset: from.u32()?,
            bytes: from.bytes()?,
        };
        let end = item.offset as usize + item.bytes.len();
        if end > item.total as usize || item.total as usize > MAX_MESSAGE {
            return Err(FrameError::Value("blob size"));
        }
        Ok(item)
    })
}
