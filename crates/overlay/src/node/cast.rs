//! One message to many: it travels once per link of the tree, and each member takes it as a
//! message of its own session, with the guarantees of those. What a member does not acknowledge is
//! sent to it alone.

use super::Node;
use super::session::parts;
use crate::frame::{Cast, Dest, Frame, MAX_MESSAGE, Message};
use crate::{Delivery, Failure, FailureCode, LinkId, Rank};
use bytes::Bytes;
use quorate_hostlist::IdSet;
use std::collections::BTreeMap;

/// Destinations in one frame: 32 bytes each, half a frame.
const DESTS: usize = 16_384;

impl Node {
    pub(super) fn cast(&mut self, to: &IdSet, service: &str, payload: &Bytes) {
        let mut failed: Vec<(Rank, Failure)> = Vec::new();
        let mut members = Vec::new();
        for rank in to.iter() {
            let check = match self.reachable(rank) {
                Ok(()) if payload.len() > MAX_MESSAGE => {
                    Err(Failure::new(FailureCode::Limit, "the message is too large"))
                }
                Ok(()) if self.sessions.is_full(rank) => Err(Failure::new(
                    FailureCode::Limit,
                    format!("too much is on the way to rank {rank}"),
                )),
                other => other,
            };
            match check {
                Ok(()) => members.push(rank),
                Err(failure) => failed.push((rank, failure)),
            }
        }
        if !failed.is_empty() {
            self.deliver(Delivery::CastFailed { service: service.to_owned(), failed });
        }
        let total = payload.len() as u32;
        if members.contains(&self.config.rank) {
            let (service, payload) = (service.to_owned(), payload.clone());
            self.loopback.push_back(Message::Cast { service, total, payload });
            members.retain(|&rank| rank != self.config.rank);
        }
        let (first, rest) = parts(payload);
        self.cast_message(
            &members,
            &Message::Cast { service: service.to_owned(), total, payload: first },
        );
        for payload in rest {
            self.cast_message(&members, &Message::Part { payload });
        }
    }

    fn cast_message(&mut self, members: &[Rank], message: &Message) {
        let dests: Vec<Dest> =
            members.iter().filter_map(|&rank| self.queue_for_cast(rank, message.clone())).collect();
        let (from, from_boot) = (self.config.rank, self.config.boot);
        self.spread(Cast { from, from_boot, to: dests, message: message.clone() }, false);
    }

    /// Sends a cast on, once per link that leads to some of its members.
    fn spread(&mut self, cast: Cast, from_parent: bool) {
        let mut by_link: BTreeMap<LinkId, Vec<Dest>> = BTreeMap::new();
        for dest in cast.to {
            let link = match self.family.link_of(dest.rank) {
                Some(link) => Some(link),
                None if from_parent => None,
                None => self.uplink.parent,
            };
            match link {
                Some(link) => by_link.entry(link).or_default().push(dest),
                None if self.is_root() => self.bounce(cast.from, cast.from_boot, dest),
                None => {}
            }
        }
        for (link, dests) in by_link {
            for to in dests.chunks(DESTS) {
                let cast = Cast {
                    from: cast.from,
                    from_boot: cast.from_boot,
                    to: to.to_vec(),
                    message: cast.message.clone(),
                };
                self.send(link, Frame::Cast(Box::new(cast)));
            }
        }
    }

    /// A cast came in: taken, if this broker is a member, and sent on.
    pub(super) fn cast_frame(&mut self, mut cast: Cast, from_parent: bool) {
        let me = self.config.rank;
        let own = cast.to.iter().copied().find(|dest| dest.rank == me);
        cast.to.retain(|dest| dest.rank != me);
        let (from, boot) = (cast.from, cast.from_boot);
        let message = own.map(|_| cast.message.clone());
        self.spread(cast, from_parent);
        if let (Some(dest), Some(message)) = (own, message)
            && self.admit(from, boot, &dest)
        {
            self.take(from, dest, message);
        }
    }
}
