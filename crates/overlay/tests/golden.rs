//! The bytes of one frame of each type. A change here is a change of the protocol: raise
//! `PROTOCOL` with it.

use quorate_overlay::frame::{
    Cast, Cause, Change, Dest, Frame, Gather, Happening, Hello, Item, Message, Notice, Numbered,
    Outcome, Packet, Phase, ResultPart, Sync, TablePhase, Welcome, Why,
};
use quorate_overlay::{BootId, Bytes, ExchangeKey, Failure, FailureCode, Millis};
use std::fmt::Write as _;
use std::sync::Arc;

fn frames() -> Vec<(&'static str, Frame)> {
    let (a, b) = (BootId(0xa1), BootId(0xb2));
    let outcome = Arc::new(Outcome { done: true, bootstrap: false, reason: "end".into() });
    let key = ExchangeKey { job: 7, sequence: 1 };
    let dest = Dest { rank: 5, boot: b, epoch: 1, sequence: 9 };
    let packet = |message| {
        Frame::Packet(Box::new(Packet {
            from: 3,
            from_boot: a,
            to: dest,
            ack: 8,
            ack_epoch: 1,
            base: 9,
            gap: false,
            check: true,
            message,
        }))
    };
    let event = |what| Frame::Event(Arc::new(Numbered { sequence: 4, what }));
    let payload = Bytes::from_static(b"data");
    let item = |rank| Item { rank, total: 4, offset: 0, bytes: payload.clone() };
    let hello = Hello {
        version: 1,
        cluster: "uid".into(),
        attempt: 2,
        rank: 3,
        boot: a,
        root: b,
        seen: 4,
        table_follows: true,
        inventory: Bytes::from_static(b"{}"),
    };
    let sync = Sync { root: a, next: 5, phase: Phase::Cleanup(Arc::clone(&outcome)) };
    vec![
        ("hello", Frame::Hello(Box::new(hello))),
        ("probe", Frame::Probe),
        ("probe reply", Frame::ProbeReply { age: None }),
        (
            "welcome",
            Frame::Welcome(Box::new(Welcome {
                boot: a,
                age: Some(Millis(12)),
                sync: Some(Sync { root: b, next: 1, phase: Phase::Run }),
            })),
        ),
        ("refuse", Frame::Refuse { attempt: 1, reason: "attempt 0, now 1".into() }),
        ("ping", Frame::Ping { stamp: Millis(1000) }),
        ("pong", Frame::Pong { stamp: Millis(1000), ahead: Millis(2) }),
        (
            "table",
            Frame::Table {
                phase: TablePhase::Full,
                changes: vec![
                    Change::Add { rank: 1, boot: a, inventory: Bytes::from_static(b"{}") },
                    Change::Gone { rank: 2, boot: b, cause: Cause::Broken, reason: "reset".into() },
                    Change::Torpid { rank: 1, boot: a, torpid: true },
                ],
            },
        ),
        ("confirm", Frame::Confirm { members: vec![(1, a), (2, b)] }),
        ("expel", Frame::Expel { rank: 1, boot: a, reason: "lost".into() }),
        ("refused", Frame::Refused { rank: 1, reason: "cluster x".into() }),
        ("sync", Frame::Sync(sync)),
        ("event run", event(Happening::Run)),
        ("event cleanup", event(Happening::Cleanup(outcome))),
        ("event offline", event(Happening::Offline { rank: 6, boot: a, reason: "gone".into() })),
        (
            "event published",
            event(Happening::Published { topic: "t".into(), payload: payload.clone() }),
        ),
        ("event end of job", event(Happening::EndJob { job: 7 })),
        ("acknowledgement", packet(None)),
        (
            "open",
            packet(Some(Message::Open {
                channel: 2,
                service: "exec".into(),
                total: 4,
                payload: payload.clone(),
            })),
        ),
        ("data", packet(Some(Message::Data { channel: 3, total: 9, payload: payload.clone() }))),
        ("part", packet(Some(Message::Part { payload: payload.clone() }))),
        ("grant", packet(Some(Message::Grant { channel: 2, credits: 16 }))),
        ("close", packet(Some(Message::Close { channel: 2, result: Ok(()) }))),
        (
            "close badly",
            packet(Some(Message::Close {
                channel: 2,
                result: Err(Failure::new(FailureCode::NoService, "no exec")),
            })),
        ),
        (
            "publish",
            packet(Some(Message::Publish {
                topic: "t".into(),
                total: 4,
                payload: payload.clone(),
            })),
        ),
        (
            "cast",
            Frame::Cast(Box::new(Cast {
                from: 0,
                from_boot: a,
                to: vec![dest],
                message: Message::Cast {
                    service: "launch".into(),
                    total: 4,
                    payload: payload.clone(),
                },
            })),
        ),
        (
            "notice",
            Frame::Notice(Box::new(Notice {
                to: 3,
                to_boot: a,
                about: 5,
                about_boot: b,
                epoch: 1,
                why: Why::Replaced,
            })),
        ),
        (
            "gather",
            Frame::Gather(Arc::new(Gather {
                key,
                members: [0, 1, 2, 5].into_iter().collect(),
                items: vec![item(1), item(5)],
            })),
        ),
        (
            "result",
            Frame::Result(Arc::new(ResultPart {
                key,
                first: true,
                last: false,
                items: vec![item(0)],
            })),
        ),
        (
            "failed",
            Frame::Failed { key, rank: 2, failure: Failure::new(FailureCode::PeerLost, "lost") },
        ),
        ("leave", Frame::Leave { reason: "finished".into() }),
    ]
}

#[test]
fn frames_have_these_bytes() {
    let mut text = String::new();
    for (name, frame) in frames() {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        assert_eq!(Frame::decode(Bytes::copy_from_slice(&bytes[4..])), Ok(frame), "{name}");
        writeln!(text, "{name}").unwrap();
        for row in bytes.chunks(32) {
            text.push_str("   ");
            for four in row.chunks(4) {
                text.push(' ');
                for byte in four {
                    write!(text, "{byte:02x}").unwrap();
                }
            }
            text.push('\n');
        }
    }
    insta::assert_snapshot!("frames", text);
}
