//! The links downwards: taking children in, their tables, and losing them.

use super::Node;
use super::links::{Child, Role};
use super::online::Claim;
use crate::frame::{Cause, Change, Frame, Hello, MAX_INVENTORY, PROTOCOL, TablePhase, Welcome};
use crate::{CloseReason, LinkId, Rank};
use std::collections::BTreeSet;

impl Node {
    pub(super) fn hello(&mut self, link: LinkId, peer: Rank, hello: &Hello) {
        if let Some(reason) = self.objection(peer, hello) {
            self.send(link, Frame::Refuse { attempt: self.config.attempt, reason: reason.clone() });
            self.close(link, CloseReason::Refused(reason.clone()));
            self.report_refused(peer, reason);
            return;
        }
        let mut child = Child {
            boot: hello.boot,
            ranks: BTreeSet::from([peer]),
            inherited: BTreeSet::new(),
            torpid: false,
            ping: None,
            synced: false,
        };
        if let Some(old) = self.family.children.get(&peer).copied() {
            self.replace_child(old, link, peer, hello, &mut child);
        }
        self.family.children.insert(peer, link);
        if let Some(entry) = self.links.get_mut(&link) {
            entry.role = Role::Child(child);
        }
        let claim = Claim {
            link,
            boot: hello.boot,
            inventory: hello.inventory.clone(),
            torpid: false,
            fresh: true,
        };
        self.family.add(peer, claim);
        let (sync, missed) = self.place_in_stream(hello.root, hello.seen);
        self.mark_synced(link, sync.is_some());
        let welcome = Welcome { boot: self.config.boot, age: self.proof_age(), sync };
        self.send(link, Frame::Welcome(Box::new(welcome)));
        for event in missed {
            self.send(link, Frame::Event(event));
        }
    }

    /// Why a hello does not fit.
    fn objection(&self, peer: Rank, hello: &Hello) -> Option<String> {
        let own = &self.config;
        if hello.version != PROTOCOL {
            Some(format!("protocol {}, this cluster speaks {PROTOCOL}", hello.version))
        } else if hello.cluster != own.cluster {
            Some(format!("cluster {}, this is {}", hello.cluster, own.cluster))
        } else if hello.attempt != own.attempt {
            Some(format!("attempt {}, now {}", hello.attempt, own.attempt))
        } else if hello.rank != peer {
            Some(format!("says rank {} with the key of rank {peer}", hello.rank))
        } else if !hello.boot.is_known() {
            Some("no boot id".to_owned())
        } else if hello.inventory.len() > MAX_INVENTORY {
            Some(format!(
                "an inventory of {} bytes, the limit is {MAX_INVENTORY}",
                hello.inventory.len()
            ))
        } else if !self.topology.is_ancestor(own.rank, peer) {
            Some(format!("rank {} is not above rank {peer} in this cluster's tree", own.rank))
        } else {
            None
        }
    }

    /// A second hello of a rank takes the place of the first.
    fn replace_child(
        &mut self,
        old: LinkId,
        link: LinkId,
        peer: Rank,
        hello: &Hello,
        child: &mut Child,
    ) {
        let Some(entry) = self.close(old, CloseReason::Replaced) else { return };
        let Role::Child(before) = entry.role else { return };
        if before.boot != hello.boot {
            self.child_gone(old, peer, &before, Cause::Broken, "started anew");
            return;
        }
        if hello.table_follows {
            // Whoever is still below will be named again; until then nothing changes for them.
            for &rank in &before.ranks {
                self.family.inherit(rank, old, link);
            }
            child.inherited = before.ranks.iter().copied().filter(|&r| r != peer).collect();
            child.ranks = before.ranks;
        } else {
            self.family.inherit(peer, old, link);
            for &rank in before.ranks.iter().filter(|&&rank| rank != peer) {
                self.family.drop_claim(rank, old, Cause::Collateral, "its parent left it");
            }
        }
        self.exchange_link_gone(old);
    }

    pub(super) fn table(&mut self, link: LinkId, phase: TablePhase, changes: Vec<Change>) {
        let Some(entry) = self.links.get_mut(&link) else { return };
        let peer = entry.peer;
        let Role::Child(child) = &mut entry.role else { return };
        for change in changes {
            match change {
                Change::Add { rank, boot, inventory } => {
                    // A broker below the child is below it in the planned tree too.
                    if rank == peer || !self.topology.is_ancestor(peer, rank) {
                        continue;
                    }
                    child.ranks.insert(rank);
                    child.inherited.remove(&rank);
                    let claim = Claim { link, boot, inventory, torpid: false, fresh: true };
                    self.family.add(rank, claim);
                }
                Change::Gone { rank, boot: _, cause, reason } => {
                    if rank != peer && child.ranks.remove(&rank) {
                        child.inherited.remove(&rank);
                        self.family.drop_claim(rank, link, cause, &reason);
                    }
                }
                Change::Torpid { rank, boot: _, torpid } => {
                    if rank != peer && child.ranks.contains(&rank) {
                        self.family.set_torpid(rank, link, torpid);
                    }
                }
            }
        }
        if phase == TablePhase::FullEnd {
            for rank in std::mem::take(&mut child.inherited) {
                child.ranks.remove(&rank);
                self.family.drop_claim(rank, link, Cause::Collateral, "its parent left it");
            }
        }
    }

    /// A child's link is gone, and with it all that it claimed. The caller has removed the link.
    pub(super) fn child_gone(
        &mut self,
        link: LinkId,
        peer: Rank,
        child: &Child,
        cause: Cause,
        reason: &str,
    ) {
        if self.family.children.get(&peer) == Some(&link) {
            self.family.children.remove(&peer);
        }
        for &rank in &child.ranks {
            if rank == peer {
                self.family.drop_claim(rank, link, cause, reason);
            } else {
                self.family.drop_claim(rank, link, Cause::Collateral, "a broker above it is gone");
            }
        }
        self.exchange_link_gone(link);
    }

    fn end_child(&mut self, link: LinkId, close: CloseReason, cause: Cause, reason: &str) {
        if let Some(entry) = self.close(link, close)
            && let Role::Child(child) = entry.role
        {
            self.child_gone(link, entry.peer, &child, cause, reason);
        }
    }

    pub(super) fn child_silent(&mut self, link: LinkId) {
        self.end_child(link, CloseReason::Silent, Cause::Silent, "silent for too long");
    }

    pub(super) fn child_left(&mut self, link: LinkId, reason: &str) {
        self.end_child(link, CloseReason::NotNeeded, Cause::Left, reason);
    }

    pub(super) fn mark_synced(&mut self, link: LinkId, synced: bool) {
        if let Some(entry) = self.links.get_mut(&link)
            && let Role::Child(child) = &mut entry.role
        {
            child.synced = synced;
        }
    }
}
