//! Rank 0's truth about who is online.
//!
//! A broker is online from its first claim with a readable inventory until it is declared lost. A
//! claim that ends starts a grace, since links break and brokers move; only silence beyond
//! `lost_after`, a farewell, or another life of the same rank are final at once. A life that has
//! been declared lost never comes back: it is expelled, so that its tasks stop.

use super::Node;
use crate::frame::{Cause, Frame, Happening};
use crate::{BootId, Delivery, Effect, Inventory, LinkId, Millis, Rank, State};
use quorate_hostlist::IdSet;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Lives of one rank that are remembered as lost.
const DEAD_BOOTS: usize = 4;

/// A planned broker that is not online.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its rank.
    pub rank: Rank,
    /// How long ago it was last heard of, so far as that is known; `None` if it never was.
    pub silent: Option<Millis>,
    /// `no contact`, `refused: attempt 0, now 1`, `lost: silent for too long`.
    pub why: String,
}

/// Who is online.
#[derive(Debug, Default)]
pub(super) struct Registry {
    members: BTreeMap<Rank, Member>,
    /// Members whose claim has ended, by the end of their grace.
    graces: BTreeSet<(Millis, Rank)>,
    dead: BTreeMap<Rank, VecDeque<BootId>>,
    /// When a rank that was lost was last heard of, and why it was lost.
    past: BTreeMap<Rank, (Millis, String)>,
    /// Who was refused, and why.
    refused: BTreeMap<Rank, String>,
}

#[derive(Debug)]
struct Member {
    boot: BootId,
    inventory: Arc<Inventory>,
    torpid: bool,
    /// No claim since; lost at this point.
    grace: Option<(Millis, String)>,
    /// When the last claim ended, if none has come since.
    claimed: Millis,
    /// Its own link broke: it is away until it comes back or is lost.
    away: bool,
}

impl Registry {
    /// Those that may be away for less than their grace included.
    pub(super) fn online(&self) -> IdSet {
        self.members.keys().copied().collect()
    }

    /// Those whose own link has not broken.
    pub(super) fn present(&self) -> IdSet {
        self.members.iter().filter(|(_, m)| !m.away).map(|(&rank, _)| rank).collect()
    }

    /// The highest rank that is online.
    pub(super) fn highest(&self) -> Option<Rank> {
        self.members.last_key_value().map(|(&rank, _)| rank)
    }

    pub(super) fn knows(&self, rank: Rank) -> bool {
        self.members.contains_key(&rank)
    }

    pub(super) fn boot(&self, rank: Rank) -> Option<BootId> {
        self.members.get(&rank).map(|member| member.boot)
    }

    pub(super) fn torpid(&self) -> IdSet {
        self.members.iter().filter(|(_, m)| m.torpid).map(|(&rank, _)| rank).collect()
    }

    pub(super) fn inventory(&self, rank: Rank) -> Option<Arc<Inventory>> {
        self.members.get(&rank).map(|member| Arc::clone(&member.inventory))
    }

    pub(super) fn missing(&self, size: u32, now: Millis) -> Vec<Missing> {
        (0..size)
            .filter(|rank| self.members.get(rank).is_none_or(|member| member.away))
            .map(|rank| {
                if let Some((_, why)) = self.members.get(&rank).and_then(|m| m.grace.as_ref()) {
                    // It was online a moment ago, and may be back in another.
                    return Missing { rank, silent: None, why: format!("away: {why}") };
                }
                let past = self.past.get(&rank);
                let why = match (self.refused.get(&rank), past) {
                    (Some(reason), _) => format!("refused: {reason}"),
                    (None, Some((_, reason))) => format!("lost: {reason}"),
                    (None, None) => "no contact".to_owned(),
                };
                Missing { rank, silent: past.map(|(at, _)| now.since(*at)), why }
            })
            .collect()
    }

    /// What is known of why a rank is not there, for the failure of a request to it.
    pub(super) fn why_gone(&self, rank: Rank) -> String {
        match self.past.get(&rank) {
            Some((_, reason)) => format!("rank {rank} is not connected ({reason})"),
            None => format!("rank {rank} has not been connected yet"),
        }
    }
}

impl Node {
    /// So many brokers are planned from now on.
    pub(super) fn resize(&mut self, size: u32) {
        if self.is_root() {
            self.config.size = size.clamp(1, self.topology.size());
        }
    }

    pub(super) fn start_root(&mut self) {
        self.set_state(State::Init, "start");
        let (rank, boot) = (self.config.rank, self.config.boot);
        self.stream.root = boot;
        let inventory = Arc::new(self.config.inventory.clone());
        self.member_online(rank, boot, inventory);
        self.set_state(State::Quorum, "own inventory is known");
    }

    pub(super) fn registry_deadline(&self) -> Option<Millis> {
        let registry = self.registry.as_ref()?;
        let grace = registry.graces.first().map(|&(at, _)| at);
        let bootstrap =
            self.stream.is_forming().then(|| self.started + self.config.timing.bootstrap_timeout);
        [grace, bootstrap].into_iter().flatten().min()
    }

    pub(super) fn tick_registry(&mut self) {
        if self.registry.is_none() {
            return;
        }
        let mut confirmed: BTreeMap<LinkId, Vec<(Rank, BootId)>> = BTreeMap::new();
        for rank in self.family.take_dirty() {
            if let Some((link, boot)) = self.review(rank) {
                confirmed.entry(link).or_default().push((rank, boot));
            }
        }
        for (link, members) in confirmed {
            // A frame has room for some 50,000.
            for members in members.chunks(10_000) {
                self.send(link, Frame::Confirm { members: members.to_vec() });
            }
        }
        while let Some(rank) = self.registry.as_mut().and_then(|r| match r.graces.first() {
            Some(&(at, rank)) if at <= self.now => r.graces.pop_first().map(|_| rank),
            _ => None,
        }) {
            let member = self.registry.as_ref().and_then(|r| r.members.get(&rank));
            if let Some(member) = member
                && let Some((_, reason)) = member.grace.clone()
            {
                let heard = member.claimed;
                self.member_offline(rank, heard, &reason);
            }
        }
        self.judge_quorum();
    }

    fn judge_quorum(&mut self) {
        if !self.stream.is_forming() {
            return;
        }
        let online = self.registry.as_ref().map_or(0, |registry| registry.members.len());
        if online as u64 >= u64::from(self.config.min_size) {
            self.publish_event(Happening::Run);
        } else if self.now >= self.started + self.config.timing.bootstrap_timeout {
            self.bootstrap_failed();
        }
    }

    /// Looks at a rank whose claims have changed; the link and boot to confirm, if any.
    fn review(&mut self, rank: Rank) -> Option<(LinkId, BootId)> {
        let registry = self.registry.as_mut()?;
        let Some(claim) = self.family.claim(rank) else {
            let (boot, cause, reason) = self.family.ended(rank)?;
            if registry.boot(rank) == Some(boot) {
                self.member_away(rank, cause, reason);
            }
            return None;
        };
        let (link, boot, torpid) = (claim.link, claim.boot, claim.torpid);
        if registry.dead.get(&rank).is_some_and(|dead| dead.contains(&boot)) {
            let reason = registry.past.get(&rank).map(|(_, why)| why.clone()).unwrap_or_default();
            self.send(link, Frame::Expel { rank, boot, reason });
            return None;
        }
        if registry.boot(rank) != Some(boot) {
            let Ok(inventory) = serde_json::from_slice::<Inventory>(&claim.inventory) else {
                registry.refused.insert(rank, "unreadable inventory".to_owned());
                return None;
            };
            if registry.knows(rank) {
                self.member_offline(rank, self.now, "started anew");
            }
            self.member_online(rank, boot, Arc::new(inventory));
        }
        let member = self.registry.as_mut()?.members.get_mut(&rank)?;
        let grace = member.grace.take();
        let back = std::mem::take(&mut member.away);
        let turned = member.torpid != torpid;
        member.torpid = torpid;
        if let Some((until, _)) = grace {
            self.registry.as_mut()?.graces.remove(&(until, rank));
        }
        if back {
            self.deliver(Delivery::Back { rank });
        }
        if turned {
            self.deliver(if torpid {
                Delivery::Torpid { rank }
            } else {
                Delivery::Lively { rank }
            });
        }
        Some((link, boot))
    }

    fn member_online(&mut self, rank: Rank, boot: BootId, inventory: Arc<Inventory>) {
        let Some(registry) = &mut self.registry else { return };
        registry.refused.remove(&rank);
        registry.members.insert(
            rank,
            Member {
                boot,
                inventory: Arc::clone(&inventory),
                torpid: false,
                grace: None,
                claimed: Millis(0),
                away: false,
            },
        );
        self.deliver(Delivery::Online { rank, boot, inventory });
    }

    /// Nobody claims a member any more.
    fn member_away(&mut self, rank: Rank, cause: Cause, reason: String) {
        let timing = &self.config.timing;
        let grace = match cause {
            Cause::Left => return self.member_offline(rank, self.now, &reason),
            // So long, at least, nothing was heard of it.
            Cause::Silent => {
                let heard = self.now.since(timing.lost_after);
                return self.member_offline(rank, heard, &reason);
            }
            Cause::Broken => timing.rejoin_grace,
            Cause::Collateral => timing.reparent_grace,
        };
        let Some(registry) = &mut self.registry else { return };
        if let Some(member) = registry.members.get_mut(&rank)
            && member.grace.is_none()
        {
            let until = self.now + grace;
            member.grace = Some((until, reason));
            member.claimed = self.now;
            member.away = cause == Cause::Broken;
            let away = member.away;
            registry.graces.insert((until, rank));
            if away {
                self.deliver(Delivery::Away { rank });
            }
        }
    }

    /// A member is lost that was last heard of at `heard`: final for this life of it.
    fn member_offline(&mut self, rank: Rank, heard: Millis, reason: &str) {
        let Some(registry) = &mut self.registry else { return };
        let Some(member) = registry.members.remove(&rank) else { return };
        if let Some((until, _)) = member.grace {
            registry.graces.remove(&(until, rank));
        }
        registry.past.insert(rank, (heard, reason.to_owned()));
        let dead = registry.dead.entry(rank).or_default();
        dead.push_back(member.boot);
        if dead.len() > DEAD_BOOTS {
            dead.pop_front();
        }
        if member.torpid {
            self.effects.push(Effect::Deliver(Delivery::Lively { rank }));
        }
        if self.is_over() {
            // Everybody leaves now; nobody waits for news of it.
            self.forget_peer(rank, member.boot, reason);
            self.exchange_member_lost(rank, reason);
            return;
        }
        self.publish_event(Happening::Offline {
            rank,
            boot: member.boot,
            reason: reason.to_owned(),
        });
        self.exchange_member_lost(rank, reason);
    }

    /// A peer was turned away, here or further down: rank 0 shows it to people.
    pub(super) fn report_refused(&mut self, rank: Rank, reason: String) {
        match &mut self.registry {
            Some(registry) => {
                if !registry.knows(rank) && rank < self.topology.size() {
                    registry.refused.insert(rank, reason);
                }
            }
            None => {
                if let Some(parent) = self.uplink.parent {
                    self.send(parent, Frame::Refused { rank, reason });
                } else {
                    self.uplink.keep_refusal(rank, reason);
                }
            }
        }
    }

    /// Tells a new parent what could not be told while there was none.
    pub(super) fn report_refusals(&mut self) {
        for (rank, reason) in self.uplink.take_refusals() {
            self.report_refused(rank, reason);
        }
    }
}
