//! Who is below: what the children claim, and telling it upwards.
//!
//! A child's link carries an exact, ordered copy of the child's own table, so whatever a link
//! claimed ends with the link. The same rank may be claimed by two links while it moves from one
//! parent to another; the claim that came last decides where messages go. Upwards goes only the
//! difference between what is so and what the parent was last told.

use super::Node;
use super::links::Role;
use crate::frame::{Cause, Change, Frame, TablePhase};
use crate::{BootId, LinkId, Millis, Rank};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// The most bytes of inventories in one table frame.
const TABLE_PART: usize = 64 << 10;

/// The brokers below.
#[derive(Debug, Default)]
pub(super) struct Family {
    pub(super) children: BTreeMap<Rank, LinkId>,
    /// By rank, the latest claim last; never an empty list.
    claims: BTreeMap<Rank, Vec<Claim>>,
    /// What the parent was told.
    reported: BTreeMap<Rank, (BootId, bool)>,
    /// Ranks whose claims have changed since.
    dirty: BTreeSet<Rank>,
    /// How the last claim of a dirty rank ended.
    ended: BTreeMap<Rank, (BootId, Cause, String)>,
    flushed_at: Option<Millis>,
}

/// A child's word that it reaches a broker.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) link: LinkId,
    pub(super) boot: BootId,
    pub(super) inventory: Bytes,
    pub(super) torpid: bool,
    /// Not told upwards yet. A claim that was made anew goes up even when it says nothing new: rank
    /// 0's confirmation may have been lost with the former link.
    pub(super) fresh: bool,
}

impl Family {
    pub(super) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    pub(super) fn ranks(&self) -> impl Iterator<Item = Rank> + '_ {
        self.claims.keys().copied()
    }

    pub(super) fn claim(&self, rank: Rank) -> Option<&Claim> {
        self.claims.get(&rank)?.last()
    }

    pub(super) fn link_of(&self, rank: Rank) -> Option<LinkId> {
        self.claim(rank).map(|claim| claim.link)
    }

    pub(super) fn link_of_boot(&self, rank: Rank, boot: BootId) -> Option<LinkId> {
        let claims = self.claims.get(&rank)?;
        claims.iter().rev().find(|claim| claim.boot == boot).map(|claim| claim.link)
    }

    pub(super) fn contains(&self, rank: Rank) -> bool {
        self.claims.contains_key(&rank)
    }

    pub(super) fn take_dirty(&mut self) -> BTreeSet<Rank> {
        std::mem::take(&mut self.dirty)
    }

    pub(super) fn ended(&mut self, rank: Rank) -> Option<(BootId, Cause, String)> {
        self.ended.remove(&rank)
    }

    pub(super) fn add(&mut self, rank: Rank, claim: Claim) {
        let claims = self.claims.entry(rank).or_default();
        claims.retain(|c| c.link != claim.link);
        claims.push(claim);
        self.ended.remove(&rank);
        self.dirty.insert(rank);
    }

    /// A link took the place of another that led to the same life of the same child.
    pub(super) fn inherit(&mut self, rank: Rank, from: LinkId, to: LinkId) {
        if let Some(claim) =
            self.claims.get_mut(&rank).and_then(|all| all.iter_mut().find(|c| c.link == from))
        {
            claim.link = to;
        }
    }

    pub(super) fn drop_claim(&mut self, rank: Rank, link: LinkId, cause: Cause, reason: &str) {
        let Some(claims) = self.claims.get_mut(&rank) else { return };
        let Some(at) = claims.iter().position(|c| c.link == link) else { return };
        let gone = claims.remove(at);
        if claims.is_empty() {
            self.claims.remove(&rank);
            self.ended.insert(rank, (gone.boot, cause, reason.to_owned()));
        }
        self.dirty.insert(rank);
    }

    pub(super) fn set_torpid(&mut self, rank: Rank, link: LinkId, torpid: bool) {
        if let Some(claim) =
            self.claims.get_mut(&rank).and_then(|all| all.iter_mut().find(|c| c.link == link))
        {
            claim.torpid = torpid;
            self.dirty.insert(rank);
        }
    }

    /// The difference to what the parent was told, for the dirty ranks.
    fn changes(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        for rank in std::mem::take(&mut self.dirty) {
            let told = self.reported.get(&rank).copied();
            let Some(claim) = self.claims.get_mut(&rank).and_then(|claims| claims.last_mut())
            else {
                let ended = self.ended.remove(&rank);
                if let Some((boot, _)) = told {
                    self.reported.remove(&rank);
                    let (cause, reason) = ended.map_or_else(
                        || (Cause::Collateral, String::new()),
                        |(_, cause, reason)| (cause, reason),
                    );
                    changes.push(Change::Gone { rank, boot, cause, reason });
                }
                continue;
            };
            let fresh = std::mem::take(&mut claim.fresh);
            if fresh || told.map(|(boot, _)| boot) != Some(claim.boot) {
                changes.push(Change::Add {
                    rank,
                    boot: claim.boot,
                    inventory: claim.inventory.clone(),
                });
            }
            // An added claim counts as lively.
            let was_torpid =
                !fresh && told.is_some_and(|(boot, torpid)| boot == claim.boot && torpid);
            if was_torpid != claim.torpid {
                changes.push(Change::Torpid { rank, boot: claim.boot, torpid: claim.torpid });
            }
            self.reported.insert(rank, (claim.boot, claim.torpid));
        }
        changes
    }
}

impl Node {
    pub(super) fn family_deadline(&self) -> Option<Millis> {
        if self.is_root() || self.uplink.parent.is_none() || self.family.dirty.is_empty() {
            return None;
        }
        Some(self.flush_at())
    }

    /// The first change goes up at once, those that follow closely are collected.
    fn flush_at(&self) -> Millis {
        self.family.flushed_at.map_or(self.now, |at| at + self.config.timing.aggregate)
    }

    pub(super) fn tick_family(&mut self) {
        if self.family.dirty.is_empty() || self.is_root() || self.now < self.flush_at() {
            return;
        }
        if let Some(parent) = self.uplink.parent {
            self.family.flushed_at = Some(self.now);
            let changes = self.family.changes();
            self.send_table(parent, changes, TablePhase::Delta);
        }
    }

    /// Tells a new parent everything.
    pub(super) fn report_all(&mut self, announced: bool) {
        let Some(parent) = self.uplink.parent else { return };
        self.family.reported.clear();
        self.family.dirty = self.family.claims.keys().copied().collect();
        self.family.flushed_at = Some(self.now);
        let changes = self.family.changes();
        let phase = if announced { TablePhase::Full } else { TablePhase::Delta };
        self.send_table(parent, changes, phase);
        if announced {
            self.send(parent, Frame::Table { phase: TablePhase::FullEnd, changes: Vec::new() });
        }
    }

    fn send_table(&mut self, parent: LinkId, changes: Vec<Change>, phase: TablePhase) {
        let (mut part, mut bytes) = (Vec::new(), 0);
        for change in changes {
            bytes += 32
                + match &change {
                    Change::Add { inventory, .. } => inventory.len(),
                    Change::Gone { reason, .. } => reason.len(),
                    Change::Torpid { .. } => 0,
                };
            part.push(change);
            if bytes >= TABLE_PART {
                bytes = 0;
                let changes = std::mem::take(&mut part);
                self.send(parent, Frame::Table { phase, changes });
            }
        }
        if !part.is_empty() {
            self.send(parent, Frame::Table { phase, changes: part });
        }
    }

    /// Rank 0 knows these brokers; passed on towards them.
    pub(super) fn confirm(&mut self, members: Vec<(Rank, BootId)>) {
        let mut below: BTreeMap<LinkId, Vec<(Rank, BootId)>> = BTreeMap::new();
        for (rank, boot) in members {
            if rank == self.config.rank {
                if boot == self.config.boot {
                    self.uplink.confirmed = true;
                    // The first ping's answer is still to come; from here on there is a lease.
                    let now = self.now;
                    self.uplink.proof.get_or_insert(now);
                    self.advance("rank 0 knows this broker");
                }
            } else if let Some(link) = self.family.link_of_boot(rank, boot) {
                below.entry(link).or_default().push((rank, boot));
            }
        }
        for (link, members) in below {
            self.send(link, Frame::Confirm { members });
        }
    }

    pub(super) fn mark_torpid(&mut self, link: LinkId, peer: Rank, torpid: bool) {
        if let Some(entry) = self.links.get_mut(&link)
            && let Role::Child(child) = &mut entry.role
        {
            child.torpid = torpid;
        }
        self.family.set_torpid(peer, link, torpid);
    }
}
