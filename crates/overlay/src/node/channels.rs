//! Channels: requests and streams between services, with credits.

use super::Node;
use super::session::parts;
use crate::frame::{Happening, Message};
use crate::{Bytes, ChannelId, Delivery, Failure, FailureCode, INITIAL_CREDITS, MAX_MESSAGE, Rank};
use std::collections::{BTreeMap, BTreeSet};

/// The most channels of one broker; more are refused with `Limit`.
const MAX_CHANNELS: usize = 65_536;

/// The most messages that an end may be granted ahead.
const MAX_CREDITS: u32 = 1 << 16;

/// The channels of a node.
#[derive(Debug, Default)]
pub(super) struct Channels {
    open: BTreeMap<ChannelId, Channel>,
    /// Channels that peers opened, by the opener's id.
    accepted: BTreeMap<(Rank, u64), ChannelId>,
    next: u64,
    /// Channels to this broker itself whose sender waits for credit.
    blocked_here: BTreeSet<ChannelId>,
}

/// One channel's end.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) peer: Rank,
    /// The id that goes on the wire.
    wire: u64,
    /// Messages that this end may send.
    pub(super) credits: u32,
    /// Messages that the other end may send.
    allowed: u32,
}

impl Channels {
    /// Ids of channels opened here are even, those of accepted ones odd.
    pub(super) fn new_id(&mut self) -> ChannelId {
        self.next += 2;
        ChannelId(self.next)
    }

    pub(super) fn get(&self, channel: ChannelId) -> Option<&Channel> {
        self.open.get(&channel)
    }

    pub(super) fn check_bounds(&self) -> Result<(), String> {
        if self.open.len() > MAX_CHANNELS || self.accepted.len() > self.open.len() {
            return Err(format!("{} channels are open", self.open.len()));
        }
        Ok(())
    }

    /// The local end that a wire id of a peer belongs to.
    fn find(&self, from: Rank, wire: u64) -> Option<ChannelId> {
        if wire.is_multiple_of(2) {
            self.accepted.get(&(from, wire)).copied()
        } else {
            let id = ChannelId(wire - 1);
            self.open.get(&id).filter(|channel| channel.peer == from).map(|_| id)
        }
    }

    fn remove(&mut self, id: ChannelId) -> Option<Channel> {
        let channel = self.open.remove(&id)?;
        self.blocked_here.remove(&id);
        if channel.wire % 2 == 1 {
            self.accepted.remove(&(channel.peer, channel.wire - 1));
        }
        Some(channel)
    }
}

fn too_large(bytes: usize) -> Failure {
    Failure::new(
        FailureCode::Limit,
        format!("a message of {bytes} bytes, the limit is {MAX_MESSAGE}"),
    )
}

impl Node {
    pub(super) fn open(&mut self, id: ChannelId, to: Rank, service: String, payload: &Bytes) {
        let check = match self.reachable(to) {
            Ok(()) if payload.len() > MAX_MESSAGE => Err(too_large(payload.len())),
            Ok(()) if self.channels.open.len() >= MAX_CHANNELS => {
                Err(Failure::new(FailureCode::Limit, "too many open channels"))
            }
            Ok(()) if self.sessions.is_full(to) => Err(Failure::new(
                FailureCode::Limit,
                format!("too much is on the way to rank {to}"),
            )),
            other => other,
        };
        if let Err(failure) = check {
            self.deliver(Delivery::Closed { channel: id, result: Err(failure) });
            return;
        }
        let channel =
            Channel { peer: to, wire: id.0, credits: INITIAL_CREDITS, allowed: INITIAL_CREDITS };
        self.channels.open.insert(id, channel);
        let total = payload.len() as u32;
        let (payload, rest) = self.cut(to, payload);
        self.post_all(to, Message::Open { channel: id.0, service, total, payload }, rest);
        if let Some(session) = self.sessions.get_mut(to) {
            session.channels.insert(id);
            self.expect_check(to);
        }
    }

    pub(super) fn send_data(&mut self, id: ChannelId, payload: Bytes) {
        let Some(channel) = self.channels.open.get_mut(&id) else { return };
        let (peer, wire) = (channel.peer, channel.wire);
        if payload.len() > MAX_MESSAGE {
            let failure = too_large(payload.len());
            self.close_channel(id, Err(failure.clone()));
            self.deliver(Delivery::Closed { channel: id, result: Err(failure) });
            return;
        }
        if channel.credits == 0 || self.sessions.is_full(peer) {
            if let Some(session) = self.sessions.get_mut(peer) {
                session.blocked.insert(id);
            } else {
                self.channels.blocked_here.insert(id);
            }
            self.deliver(Delivery::Blocked { channel: id, payload });
            return;
        }
        channel.credits -= 1;
        let total = payload.len() as u32;
        let (payload, rest) = self.cut(peer, &payload);
        self.post_all(peer, Message::Data { channel: wire, total, payload }, rest);
    }

    /// A payload in parts, except for this broker itself.
    fn cut(&self, to: Rank, payload: &Bytes) -> (Bytes, Vec<Bytes>) {
        if to == self.config.rank { (payload.clone(), Vec::new()) } else { parts(payload) }
    }

    pub(super) fn grant(&mut self, id: ChannelId, credits: u32) {
        let Some(channel) = self.channels.open.get_mut(&id) else { return };
        let credits = credits.min(MAX_CREDITS.saturating_sub(channel.allowed));
        if credits > 0 {
            channel.allowed += credits;
            let (peer, wire) = (channel.peer, channel.wire);
            self.post(peer, Message::Grant { channel: wire, credits });
        }
    }

    pub(super) fn close_channel(&mut self, id: ChannelId, result: Result<(), Failure>) {
        if let Some(channel) = self.channels.remove(id) {
            self.detach(id, channel.peer);
            self.post(channel.peer, Message::Close { channel: channel.wire, result });
        }
    }

    fn detach(&mut self, id: ChannelId, peer: Rank) {
        if let Some(session) = self.sessions.get_mut(peer) {
            session.channels.remove(&id);
            session.blocked.remove(&id);
        }
    }

    /// A whole message of a peer, or of this broker itself.
    pub(super) fn message(&mut self, from: Rank, message: Message) {
        match message {
            Message::Open { channel, service, payload, .. } => {
                self.opened(from, channel, service, payload);
            }
            Message::Data { channel, payload, .. } => {
                let Some(id) = self.channels.find(from, channel) else { return };
                let Some(end) = self.channels.open.get_mut(&id) else { return };
                if end.allowed == 0 {
                    let failure = Failure::new(FailureCode::Denied, "sent without credit");
                    self.close_channel(id, Err(failure.clone()));
                    self.deliver(Delivery::Closed { channel: id, result: Err(failure) });
                    return;
                }
                end.allowed -= 1;
                self.deliver(Delivery::Data { channel: id, payload });
            }
            Message::Grant { channel, credits } => {
                let Some(id) = self.channels.find(from, channel) else { return };
                if let Some(end) = self.channels.open.get_mut(&id) {
                    end.credits = end.credits.saturating_add(credits).min(MAX_CREDITS);
                }
                self.unblock(from);
            }
            Message::Close { channel, result } => {
                if let Some(id) = self.channels.find(from, channel) {
                    self.channels.remove(id);
                    self.detach(id, from);
                    self.deliver(Delivery::Closed { channel: id, result });
                }
            }
            Message::Cast { service, payload, .. } => {
                self.deliver(Delivery::Cast { from, service, payload });
            }
            Message::Publish { topic, payload, .. } => {
                if self.is_root() {
                    self.publish_event(Happening::Published { topic, payload });
                }
            }
            Message::Part { .. } => {}
        }
    }

    fn opened(&mut self, from: Rank, wire: u64, service: String, payload: Bytes) {
        if wire % 2 == 1 || self.channels.accepted.contains_key(&(from, wire)) {
            return;
        }
        if self.channels.open.len() >= MAX_CHANNELS {
            let failure = Failure::new(FailureCode::Limit, "too many open channels");
            self.post(from, Message::Close { channel: wire + 1, result: Err(failure) });
            return;
        }
        let id = ChannelId(self.channels.new_id().0 + 1);
        let channel = Channel {
            peer: from,
            wire: wire + 1,
            credits: INITIAL_CREDITS,
            allowed: INITIAL_CREDITS,
        };
        self.channels.open.insert(id, channel);
        self.channels.accepted.insert((from, wire), id);
        if let Some(session) = self.sessions.get_mut(from) {
            session.channels.insert(id);
            self.expect_check(from);
        }
        self.deliver(Delivery::Opened { channel: id, from, service, payload });
    }

    /// Tells services that may send again.
    pub(super) fn unblock(&mut self, peer: Rank) {
        if self.sessions.is_full(peer) {
            return;
        }
        let waiting = match self.sessions.get_mut(peer) {
            Some(session) => session.blocked.clone(),
            None => self.channels.blocked_here.clone(),
        };
        for id in waiting {
            let credits = self.channels.get(id).map_or(0, |channel| channel.credits);
            if credits > 0 {
                match self.sessions.get_mut(peer) {
                    Some(session) => {
                        session.blocked.remove(&id);
                    }
                    None => {
                        self.channels.blocked_here.remove(&id);
                    }
                }
                self.deliver(Delivery::Writable { channel: id, credits });
            }
        }
    }

    /// Ends all channels to a peer badly.
    pub(super) fn fail_channels(&mut self, peer: Rank, failure: &Failure) {
        let Some(session) = self.sessions.get_mut(peer) else { return };
        session.blocked.clear();
        for id in std::mem::take(&mut session.channels) {
            if self.channels.remove(id).is_some() {
                self.deliver(Delivery::Closed { channel: id, result: Err(failure.clone()) });
            }
        }
    }

    pub(super) fn publish(&mut self, topic: String, payload: Bytes) {
        if payload.len() > crate::frame::PART {
            self.deliver(Delivery::PublishRefused {
                topic,
                payload,
                failure: Failure::new(FailureCode::Limit, "an event has at most 64 KiB"),
            });
            return;
        }
        if let Err(failure) = self.reachable(0) {
            self.deliver(Delivery::PublishRefused { topic, payload, failure });
        } else if self.sessions.is_full(0) {
            let failure = Failure::new(FailureCode::Limit, "too much is on the way to rank 0");
            self.deliver(Delivery::PublishRefused { topic, payload, failure });
        } else {
            let total = payload.len() as u32;
            self.post(0, Message::Publish { topic, total, payload });
        }
    }
}
