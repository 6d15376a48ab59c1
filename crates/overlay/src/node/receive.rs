//! Reliable messages: the receiving side, acknowledgements, and the end of a session.

use super::Node;
use super::session::weight;
use crate::frame::{Dest, Frame, Message, Packet, Why};
use crate::{BootId, Delivery, Failure, FailureCode, Millis, Rank};
use bytes::BytesMut;

/// Bytes received without an acknowledgement that cause one at once.
const ACK_BYTES: usize = super::session::WINDOW / 4;

impl Node {
    /// A packet came in on a link: for this broker, or to pass on.
    pub(super) fn packet(&mut self, packet: Box<Packet>, from_parent: bool) {
        let to = packet.to.rank;
        if to != self.config.rank {
            if self.is_root() && !self.family.contains(to) {
                if packet.message.is_some() || packet.check {
                    self.bounce(packet.from, packet.from_boot, packet.to);
                }
                return;
            }
            self.forward(to, Frame::Packet(packet), from_parent);
            return;
        }
        let packet = *packet;
        if !self.admit(packet.from, packet.from_boot, &packet.to) {
            return;
        }
        self.peer_epoch(packet.from, packet.to.epoch);
        let session = self.sessions.session(packet.from);
        if packet.to.epoch == session.peer_epoch && packet.base > session.expected {
            // The peer takes for delivered what this side knows nothing of. It will begin another
            // epoch, and with that all channels fail, here too.
            let dest = Dest { boot: self.config.boot, ..packet.to };
            self.notify(packet.from, packet.from_boot, &dest, Why::Forgotten);
            return;
        }
        self.acknowledged(packet.from, packet.ack_epoch, packet.ack, packet.gap);
        if let Some(message) = packet.message {
            self.take(packet.from, packet.to, message);
        }
        if packet.check {
            self.transmit(packet.from, 0, None, false);
        }
    }

    /// Whether a packet from this life of a peer to that life of this broker is to be taken in.
    pub(super) fn admit(&mut self, from: Rank, boot: BootId, to: &Dest) -> bool {
        if to.boot.is_known() && to.boot != self.config.boot {
            self.notify(from, boot, to, Why::Replaced);
            return false;
        }
        if self.sessions.is_dead(from, boot) {
            return false;
        }
        let session = self.sessions.session(from);
        if session.boot.is_known() && session.boot != boot {
            let former = session.boot;
            self.forget_peer(from, former, "started anew");
        }
        self.sessions.session(from).boot = boot;
        true
    }

    fn acknowledged(&mut self, peer: Rank, epoch: u32, ack: u64, gap: bool) {
        let pause = Millis(self.config.timing.resend_after.0 / 8);
        let now = self.now;
        let Some(session) = self.sessions.get_mut(peer) else { return };
        if epoch != session.epoch {
            return;
        }
        let mut progress = false;
        while session.in_flight > 0
            && session.queue.front().is_some_and(|queued| queued.sequence <= ack)
        {
            if let Some(queued) = session.queue.pop_front() {
                session.bytes -= queued.bytes();
                session.in_flight_bytes -= queued.bytes();
                session.in_flight -= 1;
                progress = true;
            }
        }
        if progress {
            session.tries = 0;
            session.resend_at = None;
        }
        if gap && session.resent_at.is_none_or(|at| now.since(at) >= pause) {
            session.resend_at = None;
            self.resend(peer);
        }
        if progress {
            self.pump(peer);
            self.unblock(peer);
        } else {
            self.start_timeout(peer);
        }
    }

    /// Notes that the peer has begun an epoch.
    fn peer_epoch(&mut self, from: Rank, epoch: u32) {
        let session = self.sessions.session(from);
        if epoch <= session.peer_epoch {
            return;
        }
        let anew = session.peer_epoch != 0;
        session.peer_epoch = epoch;
        session.expected = 1;
        session.assembling = None;
        if anew {
            // The peer has given up on everything that was under way from it.
            self.fail_channels(from, &Failure::new(FailureCode::PeerLost, "peer gave up"));
        }
    }

    /// Takes a message if it is the next one.
    pub(super) fn take(&mut self, from: Rank, to: Dest, message: Message) {
        let delay = self.config.timing.ack_delay;
        let now = self.now;
        self.peer_epoch(from, to.epoch);
        let session = self.sessions.session(from);
        if to.epoch < session.peer_epoch {
            return;
        }
        if to.sequence != session.expected {
            // A repeat, or something before it is missing: say at once where we are, but once for
            // a whole burst.
            session.gap |= to.sequence > session.expected;
            session.ack_at.get_or_insert(now);
            self.sessions.arm(from);
            return;
        }
        session.expected += 1;
        session.unacked += weight(&message);
        let due = if session.unacked >= ACK_BYTES { now } else { now + delay };
        session.ack_at = Some(session.ack_at.map_or(due, |at| at.min(due)));
        self.sessions.arm(from);
        if let Some(whole) = self.assemble(from, message) {
            self.message(from, whole);
        }
    }

    /// Joins the parts of a payload; the message when it is whole.
    fn assemble(&mut self, from: Rank, message: Message) -> Option<Message> {
        let session = self.sessions.get_mut(from)?;
        match &message {
            Message::Part { payload } => {
                let (_, buffer, total) = session.assembling.as_mut()?;
                if buffer.len() + payload.len() > *total {
                    session.assembling = None;
                    return None;
                }
                buffer.extend_from_slice(payload);
                if buffer.len() < *total {
                    return None;
                }
                let (mut head, buffer, _) = session.assembling.take()?;
                match &mut head {
                    Message::Open { payload, .. }
                    | Message::Data { payload, .. }
                    | Message::Cast { payload, .. }
                    | Message::Publish { payload, .. } => *payload = buffer.freeze(),
                    _ => return None,
                }
                Some(head)
            }
            Message::Open { total, payload, .. }
            | Message::Data { total, payload, .. }
            | Message::Cast { total, payload, .. }
            | Message::Publish { total, payload, .. }
                if payload.len() < *total as usize =>
            {
                // Grows with what comes, not with what is announced.
                let (buffer, total) = (BytesMut::from(&payload[..]), *total as usize);
                session.assembling = Some((message, buffer, total));
                None
            }
            _ => Some(message),
        }
    }

    /// Rank 0 cannot pass a packet on.
    pub(super) fn bounce(&mut self, from: Rank, boot: BootId, to: Dest) {
        let away = self.registry.as_ref().is_some_and(|registry| {
            registry.knows(to.rank)
                && (!to.boot.is_known() || registry.boot(to.rank) == Some(to.boot))
        });
        // A rank 0 that was just started does not know yet who talks to whom.
        let newborn =
            to.boot.is_known() && self.now.since(self.started) < self.config.timing.reparent_grace;
        // A broker that is looking for another parent gets the packet when it is sent again.
        if !away && !newborn {
            self.notify(from, boot, &to, Why::NotConnected);
        }
    }

    /// All that is open to a life of a peer has failed, since that life is over.
    pub(super) fn forget_peer(&mut self, peer: Rank, boot: BootId, reason: &str) {
        self.sessions.bury(peer, boot);
        let bound = self.sessions.peers.get(&peer).map(|session| session.boot);
        if bound == Some(boot) {
            let failure = Failure::new(FailureCode::PeerLost, format!("rank {peer} {reason}"));
            self.fail_session(peer, &failure);
            self.sessions.remove(peer);
        }
    }

    /// Gives up on everything under way to a peer; the numbers start anew.
    pub(super) fn fail_session(&mut self, peer: Rank, failure: &Failure) {
        let Some(session) = self.sessions.get_mut(peer) else { return };
        session.epoch += 1;
        session.next = 1;
        session.in_flight = 0;
        session.in_flight_bytes = 0;
        session.bytes = 0;
        session.resend_at = None;
        session.tries = 0;
        let queue = std::mem::take(&mut session.queue);
        self.sessions.arm(peer);
        for queued in queue {
            if let Message::Cast { service, .. } = queued.message {
                let failed = vec![(peer, failure.clone())];
                self.deliver(Delivery::CastFailed { service, failed });
            }
        }
        self.fail_channels(peer, failure);
    }
}
