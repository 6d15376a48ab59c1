//! The brokers, as the queue is told of them.
//!
//! Owns: turning membership and losses into offers: a broker's slots become cores, numbered from 0; its
//! group is a property. Which CPUs those cores are is the broker's own affair.

use crate::broker::{Inventory, Member, Offline, Overlay};
use quorate_queue::{Offer, Queue, Time};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{broadcast, watch};

/// What the queue was told.
#[derive(Debug)]
pub(super) struct Nodes {
    overlay: Overlay,
    membership: watch::Receiver<Arc<crate::broker::Membership>>,
    losses: broadcast::Receiver<Offline>,
    /// Brokers as they were told, and whether they take jobs.
    known: BTreeMap<u32, (Arc<Inventory>, bool)>,
    /// News that came by a wait.
    lost: Vec<Offline>,
    /// Brokers that will not come again.
    gone: usize,
}

impl Nodes {
    /// Nobody yet.
    pub(super) fn new(overlay: Overlay) -> Self {
        let (mut membership, losses) = (overlay.membership(), overlay.offline());
        membership.mark_changed();
        Self { overlay, membership, losses, known: BTreeMap::new(), lost: Vec::new(), gone: 0 }
    }

    /// Waits for news. Safe to cancel.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            biased;
            lost = self.losses.recv() => match lost {
                Ok(lost) => self.lost.push(lost),
                // What was missed shows in the membership.
                Err(broadcast::error::RecvError::Lagged(_)) => self.membership.mark_changed(),
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            },
            changed = self.membership.changed() => if changed.is_err() {
                std::future::pending::<()>().await;
            },
        }
    }

    /// Tells the queue what is new.
    pub(super) fn tell(&mut self, queue: &mut Queue, now: Time) {
        while let Ok(lost) = self.losses.try_recv() {
            self.lost.push(lost);
        }
        for Offline { rank, reason } in std::mem::take(&mut self.lost) {
            let pod = self.overlay.config().display_name(rank);
            self.lose(queue, now, rank, &format!("{pod} was lost: {reason}"));
        }
        let membership = self.membership.borrow_and_update().clone();
        let gone: Vec<u32> = self
            .known
            .keys()
            .filter(|rank| !membership.online.contains_key(rank))
            .copied()
            .collect();
        for rank in gone {
            // Lost without a word of it: the news was missed.
            let pod = self.overlay.config().display_name(rank);
            self.lose(queue, now, rank, &format!("{pod} is not connected any more"));
        }
        for (rank, member) in &membership.online {
            let goes = *rank >= membership.wanted;
            let takes = !member.torpid && !member.draining && !goes;
            if self.known.get(rank).is_some_and(|(inventory, took)| {
                Arc::ptr_eq(inventory, &member.inventory) && *took == takes
            }) {
                continue;
            }
            if takes {
                queue.node_here(self.offer(*rank, member));
            } else {
                queue.node_away(*rank);
            }
            self.known.insert(*rank, (member.inventory.clone(), takes));
        }
        let config = self.overlay.config();
        // Until all have come once, what does not fit may fit later.
        let complete = (membership.online.len() + self.gone) as u32 >= membership.size;
        queue.set_may_grow(!complete || config.max_size > membership.size);
    }

    /// In a nested instance nobody starts a broker again that was lost.
    fn lose(&mut self, queue: &mut Queue, now: Time, rank: u32, why: &str) {
        let known = self.known.remove(&rank).is_some();
        if self.overlay.settings().outer_marks.is_none() {
            queue.node_lost(now, rank, why);
        } else if known {
            queue.node_gone(now, rank, why);
            self.gone += 1;
        }
    }

    fn offer(&self, rank: u32, member: &Member) -> Offer {
        let config = self.overlay.config();
        let inventory = &member.inventory;
        let group = config.locate(rank).map(|(group, _)| group.name.clone());
        Offer {
            rank,
            host: config.host_name(rank).unwrap_or_else(|| inventory.host.clone()),
            cores: (0..inventory.slots).collect(),
            gpus: (0..inventory.gpus.len() as u32).collect(),
            memory: inventory.memory,
            properties: group.into_iter().collect(),
        }
    }
}
