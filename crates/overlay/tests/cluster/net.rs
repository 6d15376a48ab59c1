//! The network: connections that keep their order, and all that can happen to them.

use crate::world::{Happening, HostId, World};
use quorate_overlay::frame::Frame;
use quorate_overlay::{Bytes, Command, DialFailure, Event, LinkId, Rank};
use std::collections::VecDeque;

pub(crate) type ConnId = usize;

pub(crate) struct End {
    pub(crate) host: HostId,
    pub(crate) life: u32,
    pub(crate) link: LinkId,
}

pub(crate) enum Parcel {
    Frame(Frame, usize),
    Fin(String),
}

pub(crate) struct Conn {
    pub(crate) ends: [End; 2],
    /// What travels towards each end.
    pub(crate) queues: [VecDeque<(u64, Parcel)>; 2],
    pub(crate) latest: [u64; 2],
    /// Each end has been told, or has told, that it is over.
    pub(crate) over: [bool; 2],
    pub(crate) latency: u64,
}

impl World {
    /// Lets everything that waited for a partition or a pause go on.
    pub(crate) fn kick(&mut self) {
        for conn in 0..self.conns.len() {
            for side in 0..2 {
                if self.conns[conn].as_ref().is_some_and(|c| !c.queues[side].is_empty()) {
                    let at = self.now;
                    self.at(at, Happening::Arrive(conn, side));
                }
            }
        }
    }

    /// Breaks a random connection of a host; what is on the way is lost.
    pub(crate) fn break_connection(&mut self, host: HostId) {
        let count = self.hosts[host].links.len() as u64;
        if count == 0 {
            return;
        }
        let pick = self.random.below(count) as usize;
        let Some(&(conn, _)) = self.hosts[host].links.values().nth(pick) else { return };
        if let Some(c) = &mut self.conns[conn] {
            for side in (0..2).filter(|&side| !c.over[side]) {
                let keep = self.random.below(c.queues[side].len() as u64 + 1) as usize;
                c.queues[side].truncate(keep);
            }
        }
        self.fin(conn, 0, "connection broke");
        self.fin(conn, 1, "connection broke");
    }

    pub(crate) fn fin(&mut self, conn: ConnId, side: usize, reason: &str) {
        let delay = 1 + self.random.below(3);
        let now = self.now;
        let Some(c) = &mut self.conns[conn] else { return };
        if std::mem::replace(&mut c.over[side], true) {
            return;
        }
        let at = c.latest[side].max(now + delay);
        c.latest[side] = at;
        c.queues[side].push_back((at, Parcel::Fin(reason.to_owned())));
        self.at(at, Happening::Arrive(conn, side));
    }

    pub(crate) fn dialled(&mut self, from: HostId, life: u32, link: LinkId, to: Rank) {
        if self.hosts[from].life != life || self.hosts[from].node.is_none() {
            return;
        }
        let target = to as usize;
        let delay = 1 + self.random.below(self.setup.latency + 1);
        if self.hosts[from].group != self.hosts[target].group {
            // Packets vanish; the dial times out.
            return;
        }
        let failure = if self.hosts[target].node.is_none() {
            Some(DialFailure::Unreachable("connection refused".into()))
        } else if self.hosts[from].attempt != self.hosts[target].attempt && self.random.chance(50) {
            if !self.hosts[target].paused {
                let (rank, reason) =
                    (self.hosts[from].rank, format!("attempt {}, now 1", self.hosts[from].attempt));
                self.command(target, Command::PeerRefused { rank, reason });
            }
            Some(DialFailure::WrongKey("handshake failed".into()))
        } else {
            None
        };
        if let Some(failure) = failure {
            let at = self.now + delay;
            self.at(at, Happening::DialFailed { from, life, link, failure });
            return;
        }
        if self.hosts[target].paused {
            // The handshake waits for the process.
            let at = self.now + 100;
            self.at(at, Happening::Dialled { from, life, link, to });
            return;
        }
        self.hosts[target].accepted += 1;
        let their = LinkId::accepted(self.hosts[target].accepted);
        let peer = self.hosts[from].rank;
        let conn = self.conns.len();
        self.conns.push(Some(Conn {
            ends: [
                End { host: from, life, link },
                End { host: target, life: self.hosts[target].life, link: their },
            ],
            queues: [VecDeque::new(), VecDeque::new()],
            latest: [self.now + delay, self.now],
            over: [false, false],
            latency: self.random.below(self.setup.latency + 1),
        }));
        self.hosts[from].links.insert(link, (conn, 0));
        self.hosts[target].links.insert(their, (conn, 1));
        let at = self.now + delay;
        self.at(at, Happening::Established(conn));
        self.handle(target, Event::Accepted { link: their, peer });
    }

    /// Delivers what has arrived at one end of a connection.
    pub(crate) fn arrive(&mut self, conn: ConnId, side: usize) {
        loop {
            let Some(c) = &mut self.conns[conn] else { return };
            let end = &c.ends[side];
            let (host, life, link) = (end.host, end.life, end.link);
            let (peer, peer_life, peer_link) =
                (c.ends[1 - side].host, c.ends[1 - side].life, c.ends[1 - side].link);
            match c.queues[side].front() {
                Some(&(at, _)) if at <= self.now => {}
                _ => return,
            }
            let gone = self.hosts[host].life != life
                || self.hosts[host].node.is_none()
                || !self.hosts[host].links.contains_key(&link);
            if gone {
                c.queues[side].clear();
                return;
            }
            if self.hosts[host].paused || self.hosts[host].group != self.hosts[peer].group {
                // `kick` comes back to it.
                return;
            }
            let Some((_, parcel)) = c.queues[side].pop_front() else { return };
            match parcel {
                Parcel::Frame(frame, bytes) => {
                    if self.hosts[peer].life == peer_life {
                        self.hosts[peer].written.push((peer_link, bytes));
                    }
                    self.handle(host, Event::Frame { link, frame });
                }
                Parcel::Fin(reason) => {
                    self.hosts[host].links.remove(&link);
                    self.fin(conn, 1 - side, "closed");
                    self.handle(host, Event::Closed { link, reason });
                }
            }
        }
    }

    pub(crate) fn transmit(&mut self, host: HostId, link: LinkId, frame: Frame) {
        let Some(&(conn, side)) = self.hosts[host].links.get(&link) else { return };
        self.frames += 1;
        let bytes = frame.wire_len();
        let frame = if self.setup.codec {
            let mut encoded = Vec::with_capacity(bytes);
            frame.encode(&mut encoded);
            assert_eq!(encoded.len(), bytes, "wire_len of {frame:?}");
            let decoded = Frame::decode(Bytes::from(encoded).slice(4..));
            // Bulk is compared by those who get it.
            assert!(bytes > 4096 || decoded.as_ref() == Ok(&frame), "{frame:?}");
            decoded.unwrap_or(frame)
        } else {
            frame
        };
        let Some(c) = &mut self.conns[conn] else { return };
        if c.over[1 - side] {
            return;
        }
        let other = 1 - side;
        let jitter = if self.setup.latency == 0 { 0 } else { self.order % 2 };
        let at = c.latest[other].max(self.now + c.latency + jitter);
        c.latest[other] = at;
        c.queues[other].push_back((at, Parcel::Frame(frame, bytes)));
        self.at(at, Happening::Arrive(conn, other));
    }
}
