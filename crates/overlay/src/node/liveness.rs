//! Who is alive: pings up, proofs down, silent children, and the node's own fence.
//!
//! The proof that rank 0 lives is a lease on the own clock. A child's ping carries the child's
//! time; the parent notes when it came in. When the parent learns that rank 0 lived at a point
//! `ahead` after that, it tells the child, which then knows the same of its own clock: no clocks
//! are compared, and a frame that was stuck for long proves nothing that is not true.

use super::Node;
use super::links::Role;
use crate::frame::Frame;
use crate::{CloseReason, Effect, ExitReason, FenceReason, LinkId, Millis, Rank};

impl Node {
    pub(super) fn liveness_deadline(&self) -> Option<Millis> {
        let scan = (!self.links.is_empty()).then_some(self.scan_at);
        let ping = self.uplink.parent.map(|_| self.uplink.ping_at);
        [scan, ping, self.fence_at()].into_iter().flatten().min()
    }

    /// When this broker has to take itself for cut off.
    fn fence_at(&self) -> Option<Millis> {
        if self.is_root() {
            return None;
        }
        Some(match self.uplink.proof {
            Some(proof) => proof + self.config.timing.orphan_timeout,
            None => self.started + self.config.timing.bootstrap_timeout,
        })
    }

    pub(super) fn tick_liveness(&mut self) {
        if self.fence_at().is_some_and(|at| self.now >= at) {
            match self.uplink.proof {
                Some(proof) if !self.is_over() => {
                    let silent = self.now.since(proof);
                    self.fence(FenceReason::Orphaned { silent });
                }
                Some(_) => self.finished("cut off from rank 0"),
                None => self.exit(
                    ExitReason::BootstrapTimeout { missing: Vec::new() },
                    "no contact with rank 0",
                ),
            }
            return;
        }
        if let Some(parent) = self.uplink.parent
            && self.now >= self.uplink.ping_at
        {
            self.uplink.ping_at = self.now + self.config.timing.keepalive;
            self.send(parent, Frame::Ping { stamp: self.now });
        }
        if self.now >= self.scan_at {
            // Coarse on purpose: one walk over the links instead of a timer for each.
            self.scan_at = self.now + Millis((self.config.timing.torpid_after.0 / 4).max(1));
            self.scan();
        }
    }

    /// Looks for links that have been silent for too long.
    fn scan(&mut self) {
        let timing = &self.config.timing;
        let (mut torpid, mut lost, mut mute) = (Vec::new(), Vec::new(), Vec::new());
        for (&link, entry) in &mut self.links {
            let silent = self.now.since(entry.heard);
            match &mut entry.role {
                Role::Child(_) if silent >= timing.lost_after => lost.push(link),
                Role::Child(child) if silent >= timing.torpid_after && !child.torpid => {
                    child.torpid = true;
                    torpid.push((link, entry.peer));
                }
                Role::Fresh if silent >= timing.dial_timeout => mute.push(link),
                _ => {}
            }
        }
        for (link, peer) in torpid {
            self.mark_torpid(link, peer, true);
        }
        for link in lost {
            self.child_silent(link);
        }
        for link in mute {
            self.close(link, CloseReason::Timeout);
        }
    }

    /// Age of this broker's own proof that rank 0 lives.
    pub(super) fn proof_age(&self) -> Option<Millis> {
        if self.is_root() {
            return Some(Millis(0));
        }
        self.uplink.proof.map(|proof| self.now.since(proof))
    }

    pub(super) fn ping(&mut self, link: LinkId, stamp: Millis) {
        let now = self.now;
        if let Some(entry) = self.links.get_mut(&link)
            && let Role::Child(child) = &mut entry.role
        {
            child.ping = Some((stamp, now));
        }
        if self.is_root() {
            self.send(link, Frame::Pong { stamp, ahead: Millis(0) });
        }
    }

    /// Tells the children what a fresher proof says about their clocks.
    pub(super) fn pass_proof_on(&mut self, proof: Millis) {
        let told: Vec<(LinkId, Frame)> = self
            .family
            .children
            .values()
            .filter_map(|link| match &self.links.get(link)?.role {
                Role::Child(child) => {
                    let (stamp, came_in) = child.ping?;
                    (proof >= came_in)
                        .then(|| (*link, Frame::Pong { stamp, ahead: proof - came_in }))
                }
                _ => None,
            })
            .collect();
        for (link, frame) in told {
            self.send(link, frame);
        }
    }

    /// Rank 0 has said that a boot is lost: passed on, or obeyed.
    pub(super) fn expel(&mut self, rank: Rank, boot: crate::BootId, reason: String) {
        if rank != self.config.rank {
            if let Some(link) = self.family.link_of_boot(rank, boot) {
                self.send(link, Frame::Expel { rank, boot, reason });
            }
        } else if boot == self.config.boot {
            if self.is_over() {
                self.finished("declared lost by rank 0");
            } else {
                self.fence(FenceReason::Expelled { reason });
            }
        }
    }

    /// Tasks must stop: the cluster goes on without this broker.
    fn fence(&mut self, reason: FenceReason) {
        self.effects.push(Effect::SelfFence { reason: reason.clone() });
        self.exit(ExitReason::Fenced(reason), "fenced");
    }
}
