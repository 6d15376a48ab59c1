//! Reliable, ordered messages between any two brokers.
//!
//! A session is one direction of numbers from this boot to a peer's boot, and the reverse. The
//! receiver takes exactly the next number and acknowledges it; the sender keeps what is not
//! acknowledged and sends it again, all of it, after a time-out, when the receiver names a gap, or
//! when this broker got another parent. So links, and brokers in between, may die at any point:
//! what crossed them arrives once, in order, as long as both ends live. `epoch` counts how often
//! the sender has given up and started its numbers anew.

use super::Node;
use crate::frame::{Dest, Frame, Message, PART, Packet};
use crate::{BootId, ChannelId, Failure, FailureCode, Millis, Rank};
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bytes to one peer that may be on the way unacknowledged.
pub(super) const WINDOW: usize = 256 << 10;

/// Bytes to one peer beyond which local services get no more in. One message more may start below
/// it, so the queue is bounded by this and one [`crate::MAX_MESSAGE`].
pub(super) const BACKLOG: usize = 1 << 20;

/// Lives of a peer that are remembered as over.
const DEAD_BOOTS: usize = 4;

/// The sessions of a node.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    pub(super) peers: BTreeMap<Rank, Session>,
    timers: BTreeSet<(Millis, Rank)>,
    dead: BTreeMap<Rank, VecDeque<BootId>>,
    /// The last epoch of sessions that were given up: a peer that lives on after all must not take
    /// new numbers for old ones.
    epochs: BTreeMap<Rank, u32>,
}

/// Messages to and from one peer.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// The peer's boot, as far as it has answered.
    pub(super) boot: BootId,
    /// This side's numbers.
    pub(super) epoch: u32,
    pub(super) next: u64,
    pub(super) queue: VecDeque<Queued>,
    pub(super) bytes: usize,
    /// How many at the head of the queue have been sent, and their bytes.
    pub(super) in_flight: usize,
    pub(super) in_flight_bytes: usize,
    pub(super) resend_at: Option<Millis>,
    pub(super) resent_at: Option<Millis>,
    /// Time-outs since the last progress.
    pub(super) tries: u32,
    /// The peer's numbers.
    pub(super) peer_epoch: u32,
    pub(super) expected: u64,
    pub(super) assembling: Option<(Message, BytesMut, usize)>,
    pub(super) ack_at: Option<Millis>,
    pub(super) unacked: usize,
    pub(super) gap: bool,
    /// When the peer of open channels is next asked whether it is still the same.
    pub(super) check_at: Option<Millis>,
    /// The entry of this session in the timers.
    pub(super) armed: Option<Millis>,
    pub(super) channels: BTreeSet<ChannelId>,
    /// Channels here that want to send and may not.
    pub(super) blocked: BTreeSet<ChannelId>,
}

/// A message with its number.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) sequence: u64,
    pub(super) message: Message,
}

impl Session {
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    fn timer_is_stale(&self) -> bool {
        self.armed != self.next_timer()
    }

    fn next_timer(&self) -> Option<Millis> {
        [self.ack_at, self.resend_at, self.check_at].into_iter().flatten().min()
    }
}

impl Queued {
    pub(super) fn bytes(&self) -> usize {
        weight(&self.message)
    }
}

/// What a message counts for in windows and backlogs.
pub(super) fn weight(message: &Message) -> usize {
    64 + match message {
        Message::Open { payload, service, .. } | Message::Cast { payload, service, .. } => {
            payload.len() + service.len()
        }
        Message::Publish { payload, topic, .. } => payload.len() + topic.len(),
        Message::Data { payload, .. } | Message::Part { payload } => payload.len(),
        Message::Close { .. } | Message::Grant { .. } => 0,
    }
}

impl Sessions {
    pub(super) fn deadline(&self) -> Option<Millis> {
        self.timers.first().map(|&(at, _)| at)
    }

    /// Whether local services get no more in to a peer.
    pub(super) fn is_full(&self, peer: Rank) -> bool {
        self.peers.get(&peer).is_some_and(|s| s.bytes >= BACKLOG)
    }

    pub(super) fn get_mut(&mut self, peer: Rank) -> Option<&mut Session> {
        self.peers.get_mut(&peer)
    }

    pub(super) fn check_bounds(&self) -> Result<(), String> {
        // What ends a channel, and credits, are taken in beyond the backlog: 64 bytes each.
        let most = BACKLOG + crate::MAX_MESSAGE + (2 << 20);
        for (peer, session) in &self.peers {
            if session.bytes > most {
                return Err(format!("{} bytes are queued for rank {peer}", session.bytes));
            }
            // The first message of a window may be larger than the rest of it.
            if session.in_flight_bytes > WINDOW + PART + 8192 {
                let bytes = session.in_flight_bytes;
                return Err(format!("{bytes} bytes are on the way to rank {peer}"));
            }
            if session.timer_is_stale() {
                return Err(format!("the timer of the session with rank {peer} is stale"));
            }
        }
        Ok(())
    }

    pub(super) fn session(&mut self, peer: Rank) -> &mut Session {
        let used = &self.epochs;
        self.peers.entry(peer).or_insert_with(|| {
            let epoch = used.get(&peer).map_or(1, |epoch| epoch + 1);
            Session { epoch, next: 1, expected: 1, ..Session::default() }
        })
    }

    /// News of losses came from a rank 0 that is over; the next one may know better.
    pub(super) fn absolve(&mut self) {
        self.dead.clear();
    }

    pub(super) fn is_dead(&self, peer: Rank, boot: BootId) -> bool {
        self.dead.get(&peer).is_some_and(|dead| dead.contains(&boot))
    }

    pub(super) fn bury(&mut self, peer: Rank, boot: BootId) {
        if boot.is_known() && !self.is_dead(peer, boot) {
            let dead = self.dead.entry(peer).or_default();
            dead.push_back(boot);
            if dead.len() > DEAD_BOOTS {
                dead.pop_front();
            }
        }
    }

    /// Brings a session's timer in line with what it waits for.
    pub(super) fn arm(&mut self, peer: Rank) {
        let Some(session) = self.peers.get_mut(&peer) else { return };
        let wanted = session.next_timer();
        if wanted != session.armed {
            if let Some(at) = session.armed {
                self.timers.remove(&(at, peer));
            }
            if let Some(at) = wanted {
                self.timers.insert((at, peer));
            }
            session.armed = wanted;
        }
    }

    pub(super) fn remove(&mut self, peer: Rank) {
        if let Some(session) = self.peers.remove(&peer) {
            self.epochs.insert(peer, session.epoch);
            if let Some(at) = session.armed {
                self.timers.remove(&(at, peer));
            }
        }
    }
}

/// Cuts a payload: the first part, and the rest in parts.
pub(super) fn parts(payload: &Bytes) -> (Bytes, Vec<Bytes>) {
    let first = payload.slice(..payload.len().min(PART));
    let rest = (first.len()..payload.len())
        .step_by(PART)
        .map(|at| payload.slice(at..payload.len().min(at + PART)))
        .collect();
    (first, rest)
}

impl Node {
    /// Whether there is any point in sending to a broker; the reason if there is none.
    pub(super) fn reachable(&self, to: Rank) -> Result<(), Failure> {
        let not_connected = |text: String| Err(Failure::new(FailureCode::NotConnected, text));
        if to >= self.topology.size() {
            return not_connected(format!("there is no rank {to} in this cluster"));
        }
        match &self.registry {
            Some(registry) if !registry.knows(to) => not_connected(registry.why_gone(to)),
            None if !self.is_member() && to != self.config.rank => {
                not_connected("this broker has not joined the cluster yet".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Queues a message and sends what the window allows.
    pub(super) fn post(&mut self, to: Rank, message: Message) {
        if to == self.config.rank {
            self.loopback.push_back(message);
        } else {
            self.queue(to, message);
            self.pump(to);
        }
    }

    /// Queues a message and the parts of its payload.
    pub(super) fn post_all(&mut self, to: Rank, head: Message, rest: Vec<Bytes>) {
        self.post(to, head);
        for payload in rest {
            self.post(to, Message::Part { payload });
        }
    }

    fn queue(&mut self, to: Rank, message: Message) {
        let known = self.known_boot(to);
        let session = self.sessions.session(to);
        if !session.boot.is_known()
            && let Some(boot) = known
        {
            session.boot = boot;
        }
        session.bytes += weight(&message);
        session.queue.push_back(Queued { sequence: session.next, message });
        session.next += 1;
    }

    /// A peer's boot, where this broker has a say of its own.
    fn known_boot(&self, peer: Rank) -> Option<BootId> {
        match &self.registry {
            Some(registry) => registry.boot(peer),
            None if peer == 0 => Some(self.stream.root).filter(|root| root.is_known()),
            None => None,
        }
    }

    /// Sends queued messages as far as the window allows.
    pub(super) fn pump(&mut self, to: Rank) {
        while let Some(session) = self.sessions.get_mut(to) {
            let Some(next) = session.queue.get(session.in_flight) else { break };
            if session.in_flight > 0 && session.in_flight_bytes + next.bytes() > WINDOW {
                break;
            }
            let (sequence, message) = (next.sequence, next.message.clone());
            session.in_flight_bytes += next.bytes();
            session.in_flight += 1;
            self.transmit(to, sequence, Some(message), false);
        }
        self.start_timeout(to);
    }

    /// Takes the next message as sent by other means; `None` when the window is closed.
    pub(super) fn queue_for_cast(&mut self, to: Rank, message: Message) -> Option<Dest> {
        self.queue(to, message);
        let session = self.sessions.get_mut(to)?;
        let next = session.queue.get(session.in_flight)?;
        let is_last = session.in_flight + 1 == session.queue.len();
        if !is_last || (session.in_flight > 0 && session.in_flight_bytes + next.bytes() > WINDOW) {
            return None;
        }
        session.in_flight_bytes += next.bytes();
        session.in_flight += 1;
        let dest =
            Dest { rank: to, boot: session.boot, epoch: session.epoch, sequence: next.sequence };
        self.start_timeout(to);
        Some(dest)
    }

    pub(super) fn start_timeout(&mut self, to: Rank) {
        let after = self.config.timing.resend_after;
        let now = self.now;
        if let Some(session) = self.sessions.get_mut(to) {
            if session.in_flight == 0 {
                session.resend_at = None;
            } else if session.resend_at.is_none() {
                let wait = Millis(after.0 << session.tries.min(3));
                session.resend_at = Some(now + wait);
            }
        }
        self.sessions.arm(to);
    }

    /// Sends one packet, which acknowledges what has come so far.
    pub(super) fn transmit(
        &mut self,
        to: Rank,
        sequence: u64,
        message: Option<Message>,
        check: bool,
    ) {
        let (from, from_boot) = (self.config.rank, self.config.boot);
        let Some(session) = self.sessions.get_mut(to) else { return };
        let packet = Packet {
            from,
            from_boot,
            to: Dest { rank: to, boot: session.boot, epoch: session.epoch, sequence },
            ack: session.expected - 1,
            ack_epoch: session.peer_epoch,
            base: session.queue.front().map_or(session.next, |queued| queued.sequence),
            gap: std::mem::take(&mut session.gap),
            check,
            message,
        };
        session.ack_at = None;
        session.unacked = 0;
        self.sessions.arm(to);
        self.forward(packet.to.rank, Frame::Packet(Box::new(packet)), false);
    }

    /// Sends a frame towards a broker; `false` when there is no way at the moment.
    pub(super) fn forward(&mut self, to: Rank, frame: Frame, from_parent: bool) -> bool {
        let link = match self.family.link_of(to) {
            Some(link) => link,
            // What came down never goes up again: the table above is about to change.
            None if from_parent => return false,
            None => match self.uplink.parent {
                Some(parent) => parent,
                None => return false,
            },
        };
        self.send(link, frame);
        true
    }

    pub(super) fn tick_sessions(&mut self) {
        while let Some(&(at, peer)) = self.sessions.timers.first() {
            if at > self.now {
                break;
            }
            let now = self.now;
            let Some(session) = self.sessions.get_mut(peer) else { break };
            if session.resend_at.is_some_and(|at| at <= now) {
                session.tries += 1;
                session.resend_at = None;
                self.resend(peer);
                self.start_timeout(peer);
            } else if session.ack_at.is_some_and(|at| at <= now) {
                self.transmit(peer, 0, None, false);
            } else if session.check_at.is_some_and(|at| at <= now) {
                session.check_at = None;
                if !session.channels.is_empty() {
                    self.transmit(peer, 0, None, true);
                    self.expect_check(peer);
                }
            }
            self.sessions.arm(peer);
        }
    }

    /// There is an open channel: the peer is asked now and then whether it is still the same. News
    /// of a loss can pass a broker by only when rank 0 was started anew or events were missed, and
    /// rank 0 itself misses none.
    pub(super) fn expect_check(&mut self, peer: Rank) {
        let at = self.now + self.config.timing.orphan_timeout;
        if !self.is_root()
            && peer != 0
            && let Some(session) = self.sessions.get_mut(peer)
            && session.check_at.is_none()
        {
            session.check_at = Some(at);
            self.sessions.arm(peer);
        }
    }

    /// Sends everything that is on the way once more.
    pub(super) fn resend(&mut self, peer: Rank) {
        let now = self.now;
        let Some(session) = self.sessions.get_mut(peer) else { return };
        session.resent_at = Some(now);
        let again: Vec<(u64, Message)> = session
            .queue
            .iter()
            .take(session.in_flight)
            .map(|queued| (queued.sequence, queued.message.clone()))
            .collect();
        for (sequence, message) in again {
            self.transmit(peer, sequence, Some(message), false);
        }
    }

    /// There is a new parent: what went up by the old one may be lost.
    pub(super) fn resend_up(&mut self) {
        let peers: Vec<Rank> = self
            .sessions
            .peers
            .iter()
            .filter(|(peer, session)| session.in_flight > 0 && !self.family.contains(**peer))
            .map(|(&peer, _)| peer)
            .collect();
        for peer in peers {
            if let Some(session) = self.sessions.get_mut(peer) {
                session.tries = 0;
                session.resend_at = None;
            }
            self.resend(peer);
            self.start_timeout(peer);
        }
    }

    /// Asks all peers with open channels whether they are still the ones: news of their loss may
    /// have been missed.
    pub(super) fn check_peers(&mut self) {
        let peers: Vec<Rank> = self
            .sessions
            .peers
            .iter()
            .filter(|(_, session)| !session.channels.is_empty())
            .map(|(&peer, _)| peer)
            .collect();
        for peer in peers {
            self.transmit(peer, 0, None, true);
        }
    }
}
