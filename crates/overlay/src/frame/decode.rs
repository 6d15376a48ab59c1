//! Bytes to frames.

use super::codec::FrameError;
use super::wire::Reader;
use super::{
    Cast, Cause, Change, Dest, Frame, Gather, Happening, Hello, Item, MAX_MESSAGE, Message, Notice,
    Numbered, Outcome, Packet, Phase, ResultPart, Sync, TablePhase, Welcome, Why,
};
use crate::{BootId, ExchangeKey, Failure, FailureCode, Millis};
use std::sync::Arc;

/// Reads the type and the fields.
pub(super) fn read_frame(from: &mut Reader) -> Result<Frame, FrameError> {
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
            why: match from.u8()? {
                0 => Why::NotConnected,
                1 => Why::Replaced,
                2 => Why::Forgotten,
                _ => return Err(FrameError::Value("notice")),
            },
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
        base: from.u64()?,
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
