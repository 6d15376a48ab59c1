//! Frames to bytes.

use super::wire::{Sink, put_bytes, put_text, put_u8, put_u32, put_u64, put_u128};
use super::{
    Change, Dest, Frame, Happening, Item, Message, Numbered, Outcome, Packet, Phase, Sync,
};
use crate::{ExchangeKey, Failure, FailureCode, Millis};

impl Frame {
    /// Writes the type and the fields.
    pub(super) fn body(&self, to: &mut impl Sink) {
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
                put_u8(to, notice.why as u8);
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
    put_u64(to, packet.base);
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
