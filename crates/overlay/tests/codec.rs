//! Frames: what is written is read back, and no input is worse than an error.

use proptest::collection::vec;
use proptest::prelude::*;
use quorate_hostlist::IdSet;
use quorate_overlay::frame::{
    Cast, Cause, Change, Decoder, Dest, Frame, FrameError, Gather, Happening, Hello, Item,
    MAX_FRAME, Message, Notice, Numbered, Outcome, Packet, Phase, ResultPart, Sync, TablePhase,
    Welcome, Why,
};
use quorate_overlay::{BootId, Bytes, ExchangeKey, Failure, FailureCode, Millis};
use std::sync::Arc;

fn bytes(most: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..most).prop_map(Bytes::from)
}

fn boot() -> impl Strategy<Value = BootId> {
    any::<u128>().prop_map(BootId)
}

fn text() -> impl Strategy<Value = String> {
    "[ -~äß☃]{0,40}"
}

fn age() -> impl Strategy<Value = Option<Millis>> {
    proptest::option::of((0u64..1 << 40).prop_map(Millis))
}

fn outcome() -> impl Strategy<Value = Arc<Outcome>> {
    (any::<bool>(), any::<bool>(), text())
        .prop_map(|(done, bootstrap, reason)| Arc::new(Outcome { done, bootstrap, reason }))
}

fn sync() -> impl Strategy<Value = Sync> {
    let phase =
        prop_oneof![Just(Phase::Forming), Just(Phase::Run), outcome().prop_map(Phase::Cleanup)];
    (boot(), any::<u64>(), phase).prop_map(|(root, next, phase)| Sync { root, next, phase })
}

fn failure() -> impl Strategy<Value = Failure> {
    (0..FailureCode::ALL.len(), text())
        .prop_map(|(code, text)| Failure::new(FailureCode::ALL[code], text))
}

fn key() -> impl Strategy<Value = ExchangeKey> {
    (any::<u64>(), any::<u32>()).prop_map(|(job, sequence)| ExchangeKey { job, sequence })
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    let item = (any::<u32>(), 0u32..1000, bytes(2000), 0u32..1000).prop_map(
        |(rank, offset, bytes, more)| Item {
            rank,
            total: offset + bytes.len() as u32 + more,
            offset,
            bytes,
        },
    );
    vec(item, 0..6)
}

fn dest() -> impl Strategy<Value = Dest> {
    (any::<u32>(), boot(), any::<u32>(), any::<u64>())
        .prop_map(|(rank, boot, epoch, sequence)| Dest { rank, boot, epoch, sequence })
}

fn message() -> impl Strategy<Value = Message> {
    let sized = || (bytes(3000), 0u32..1000);
    prop_oneof![
        (any::<u64>(), text(), sized()).prop_map(|(channel, service, (payload, more))| {
            Message::Open { channel, service, total: payload.len() as u32 + more, payload }
        }),
        (any::<u64>(), sized()).prop_map(|(channel, (payload, more))| Message::Data {
            channel,
            total: payload.len() as u32 + more,
            payload
        }),
        (any::<u64>(), any::<u32>())
            .prop_map(|(channel, credits)| Message::Grant { channel, credits }),
        (any::<u64>(), proptest::option::of(failure())).prop_map(|(channel, failure)| {
            Message::Close { channel, result: failure.map_or(Ok(()), Err) }
        }),
        (text(), sized()).prop_map(|(service, (payload, more))| Message::Cast {
            service,
            total: payload.len() as u32 + more,
            payload
        }),
        (text(), sized()).prop_map(|(topic, (payload, more))| Message::Publish {
            topic,
            total: payload.len() as u32 + more,
            payload
        }),
        bytes(3000).prop_map(|payload| Message::Part { payload }),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let cause = prop_oneof![
        Just(Cause::Collateral),
        Just(Cause::Broken),
        Just(Cause::Silent),
        Just(Cause::Left)
    ];
    prop_oneof![
        (any::<u32>(), boot(), bytes(400)).prop_map(|(rank, boot, inventory)| Change::Add {
            rank,
            boot,
            inventory
        }),
        (any::<u32>(), boot(), cause, text())
            .prop_map(|(rank, boot, cause, reason)| Change::Gone { rank, boot, cause, reason }),
        (any::<u32>(), boot(), any::<bool>()).prop_map(|(rank, boot, torpid)| Change::Torpid {
            rank,
            boot,
            torpid
        }),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        Just(Happening::Run),
        outcome().prop_map(Happening::Cleanup),
        (any::<u32>(), boot(), text()).prop_map(|(rank, boot, reason)| Happening::Offline {
            rank,
            boot,
            reason
        }),
        (text(), bytes(2000)).prop_map(|(topic, payload)| Happening::Published { topic, payload }),
        any::<u64>().prop_map(|job| Happening::EndJob { job }),
    ]
}

fn hello() -> impl Strategy<Value = Frame> {
    let ids = (any::<u32>(), text(), any::<u32>(), any::<u32>());
    (ids, boot(), boot(), any::<u64>(), any::<bool>(), bytes(500)).prop_map(
        |((version, cluster, attempt, rank), boot, root, seen, table_follows, inventory)| {
            Frame::Hello(Box::new(Hello {
                version,
                cluster,
                attempt,
                rank,
                boot,
                root,
                seen,
                table_follows,
                inventory,
            }))
        },
    )
}

fn frame() -> impl Strategy<Value = Frame> {
    let phase =
        prop_oneof![Just(TablePhase::Delta), Just(TablePhase::Full), Just(TablePhase::FullEnd)];
    let members = proptest::collection::btree_set(0u32..5000, 0..50)
        .prop_map(|ids| ids.into_iter().collect::<IdSet>());
    let packet = (any::<u32>(), boot(), dest(), any::<u64>(), any::<u32>(), any::<u64>());
    let why = prop_oneof![Just(Why::NotConnected), Just(Why::Replaced), Just(Why::Forgotten)];
    let notice = (any::<u32>(), boot(), any::<u32>(), boot(), any::<u32>(), why);
    prop_oneof![
        hello(),
        Just(Frame::Probe),
        age().prop_map(|age| Frame::ProbeReply { age }),
        (boot(), age(), proptest::option::of(sync()))
            .prop_map(|(boot, age, sync)| Frame::Welcome(Box::new(Welcome { boot, age, sync }))),
        (any::<u32>(), text()).prop_map(|(attempt, reason)| Frame::Refuse { attempt, reason }),
        any::<u64>().prop_map(|stamp| Frame::Ping { stamp: Millis(stamp) }),
        (any::<u64>(), any::<u64>())
            .prop_map(|(s, a)| Frame::Pong { stamp: Millis(s), ahead: Millis(a) }),
        (phase, vec(change(), 0..10)).prop_map(|(phase, changes)| Frame::Table { phase, changes }),
        vec((any::<u32>(), boot()), 0..20).prop_map(|members| Frame::Confirm { members }),
        (any::<u32>(), boot(), text()).prop_map(|(rank, boot, reason)| Frame::Expel {
            rank,
            boot,
            reason
        }),
        (any::<u32>(), text()).prop_map(|(rank, reason)| Frame::Refused { rank, reason }),
        sync().prop_map(Frame::Sync),
        (any::<u64>(), happening())
            .prop_map(|(sequence, what)| Frame::Event(Arc::new(Numbered { sequence, what }))),
        (packet, any::<bool>(), any::<bool>(), proptest::option::of(message())).prop_map(
            |((from, from_boot, to, ack, ack_epoch, base), gap, check, message)| {
                Frame::Packet(Box::new(Packet {
                    from,
                    from_boot,
                    to,
                    ack,
                    ack_epoch,
                    base,
                    gap,
                    check,
                    message,
                }))
            }
        ),
        (any::<u32>(), boot(), vec(dest(), 0..20), message()).prop_map(
            |(from, from_boot, to, message)| {
                Frame::Cast(Box::new(Cast { from, from_boot, to, message }))
            }
        ),
        notice.prop_map(|(to, to_boot, about, about_boot, epoch, why)| {
            Frame::Notice(Box::new(Notice { to, to_boot, about, about_boot, epoch, why }))
        }),
        (key(), members, items()).prop_map(|(key, members, items)| {
            Frame::Gather(Arc::new(Gather { key, members, items }))
        }),
        (key(), any::<bool>(), any::<bool>(), items()).prop_map(|(key, first, last, items)| {
            Frame::Result(Arc::new(ResultPart { key, first, last, items }))
        }),
        (key(), any::<u32>(), failure()).prop_map(|(key, rank, failure)| Frame::Failed {
            key,
            rank,
            failure
        }),
        text().prop_map(|reason| Frame::Leave { reason }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn decoding_gives_back_what_was_encoded(frame in frame()) {
        let mut encoded = Vec::new();
        frame.encode(&mut encoded);
        prop_assert_eq!(encoded.len(), frame.wire_len());
        let mut shared = Vec::new();
        frame.encode_shared(&mut shared);
        prop_assert_eq!(&shared.concat(), &encoded);
        let decoded = Frame::decode(Bytes::from(encoded).slice(4..));
        prop_assert_eq!(decoded, Ok(frame));
    }

    #[test]
    fn a_stream_is_cut_at_any_place(frames in vec(frame(), 1..5), cut in 1usize..700) {
        let mut stream = Vec::new();
        for frame in &frames {
            frame.encode(&mut stream);
        }
        let mut decoder = Decoder::new();
        let mut got = Vec::new();
        for chunk in stream.chunks(cut) {
            decoder.buffer().extend_from_slice(chunk);
            while let Some(frame) = decoder.next_frame().unwrap() {
                got.push(frame);
            }
        }
        prop_assert_eq!(got, frames);
        prop_assert!(decoder.buffer().is_empty());
    }

    #[test]
    fn a_frame_that_is_cut_short_is_an_error(frame in frame(), at in any::<proptest::sample::Index>()) {
        let mut encoded = Vec::new();
        frame.encode(&mut encoded);
        let body = Bytes::from(encoded).slice(4..);
        let short = body.slice(..at.index(body.len()));
        prop_assert!(Frame::decode(short).is_err());
    }
}

/// A small generator, for speed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn a_million_damaged_or_random_inputs_are_errors_or_frames() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let seeds: Vec<Vec<u8>> = (0..500)
        .map(|_| {
            let mut encoded = Vec::new();
            frame().new_tree(&mut runner).unwrap().current().encode(&mut encoded);
            encoded.drain(..4);
            encoded.truncate(600);
            encoded
        })
        .collect();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut frames, mut errors) = (0u32, 0u32);
    for round in 0..1_000_000u32 {
        let mut input = seeds[random.next() as usize % seeds.len()].clone();
        if round % 4 == 0 {
            // Random bytes behind a type that exists.
            let length = 1 + random.next() as usize % 80;
            input.clear();
            input.push(1 + (random.next() % 21) as u8);
            input.extend((0..length).map(|_| random.next() as u8));
        } else {
            for _ in 0..=random.next() % 4 {
                let at = random.next() as usize % input.len();
                match random.next() % 4 {
                    0 => input[at] ^= 1 << (random.next() % 8),
                    1 => input[at] = random.next() as u8,
                    2 => input[at] = 0xff,
                    _ => {
                        input.truncate(at + 1);
                    }
                }
            }
        }
        match Frame::decode(Bytes::from(input)) {
            Ok(_) => frames += 1,
            Err(_) => errors += 1,
        }
    }
    println!("1,000,000 inputs: {frames} frames, {errors} errors");
    // Both kinds have to occur, or the inputs test nothing.
    assert!(frames > 10_000 && errors > 100_000);
}

#[test]
fn lengths_beyond_the_limit_are_refused_before_anything_is_kept() {
    for length in [0u32, MAX_FRAME as u32 + 1, u32::MAX] {
        let mut decoder = Decoder::new();
        decoder.buffer().extend_from_slice(&length.to_be_bytes());
        let before = decoder.buffer().capacity();
        assert_eq!(decoder.next_frame(), Err(FrameError::Length { length: length as usize }));
        assert_eq!(decoder.buffer().capacity(), before);
    }
}

#[test]
fn a_count_that_the_frame_cannot_hold_is_refused() {
    // A table of four billion changes, in ten bytes.
    let input = [8u8, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    assert_eq!(Frame::decode(Bytes::copy_from_slice(&input)), Err(FrameError::Truncated));
}
