//! The numbered events of rank 0, flooded down the tree.
//!
//! Every broker keeps the last events, so that a child which comes from elsewhere gets what it
//! missed, without a gap and in order. Beyond that memory the gap is named, never hidden.

use super::Node;
use super::links::Role;
use crate::frame::{Frame, Happening, Numbered, Phase, Sync};
use crate::{BootId, Delivery, LinkId, State};
use std::collections::VecDeque;
use std::sync::Arc;

/// Events that are remembered, and their bytes, whichever is less.
const HISTORY: usize = 512;
const HISTORY_BYTES: usize = 256 << 10;

/// Where this broker is in the events of rank 0.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The life of rank 0 that the numbers belong to.
    pub(super) root: BootId,
    /// The last event that was taken in.
    pub(super) last: u64,
    history: VecDeque<Arc<Numbered>>,
    bytes: usize,
    pub(super) phase: Phase,
}

impl Stream {
    pub(super) fn is_forming(&self) -> bool {
        self.phase == Phase::Forming
    }

    fn remember(&mut self, event: &Arc<Numbered>) {
        self.last = event.sequence;
        self.bytes += size(event);
        self.history.push_back(Arc::clone(event));
        while self.history.len() > HISTORY || self.bytes > HISTORY_BYTES {
            match self.history.pop_front() {
                Some(old) => self.bytes -= size(&old),
                None => break,
            }
        }
    }

    pub(super) fn check_bounds(&self) -> Result<(), String> {
        if self.history.len() > HISTORY || self.bytes > HISTORY_BYTES {
            return Err(format!("{} events, {} bytes are kept", self.history.len(), self.bytes));
        }
        Ok(())
    }

    fn restart(&mut self, root: BootId, next: u64, phase: Phase) {
        *self = Self { root, last: next.saturating_sub(1), phase, ..Self::default() };
    }
}

fn size(event: &Numbered) -> usize {
    64 + match &event.what {
        Happening::Published { topic, payload } => topic.len() + payload.len(),
        Happening::Offline { reason, .. } => reason.len(),
        _ => 0,
    }
}

impl Node {
    /// Whether the cluster's work is over.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.stream.phase, Phase::Cleanup(_))
    }

    /// Where a child that has seen events up to `seen` of `root` goes on, and what it missed.
    pub(super) fn place_in_stream(
        &self,
        root: BootId,
        seen: u64,
    ) -> (Option<Sync>, Vec<Arc<Numbered>>) {
        let stream = &self.stream;
        if !stream.root.is_known() {
            return (None, Vec::new());
        }
        let first = stream.last + 1 - stream.history.len() as u64;
        let remembered = root == stream.root && seen + 1 >= first && seen < stream.last;
        let (next, missed) = if remembered {
            let missed =
                stream.history.iter().filter(|event| event.sequence > seen).cloned().collect();
            (seen + 1, missed)
        } else {
            (stream.last + 1, Vec::new())
        };
        // The phase is the one before the next event: what the missed events change comes with
        // them, except that a phase never goes back.
        (Some(Sync { root: stream.root, next, phase: stream.phase.clone() }), missed)
    }

    /// The parent says where the stream goes on.
    pub(super) fn sync(&mut self, sync: Sync) {
        if self.is_over() {
            // There is no way back from the end.
            return;
        }
        if sync.root != self.stream.root {
            let former = std::mem::replace(&mut self.stream.root, sync.root);
            self.stream.restart(sync.root, sync.next, sync.phase);
            if former.is_known() {
                self.root_replaced(former, sync.root);
            }
            self.sync_children();
            self.advance("rank 0 is in touch");
            self.phase_entered("joined");
        } else if sync.next > self.stream.last + 1 {
            let (from, to) = (self.stream.last + 1, sync.next - 1);
            self.stream.restart(sync.root, sync.next, sync.phase);
            self.sync_children();
            self.deliver(Delivery::EventsLost { from, to });
            self.check_peers();
            self.advance("events were missed");
            self.phase_entered("events were missed");
        }
    }

    fn sync_children(&mut self) {
        let sync = Sync {
            root: self.stream.root,
            next: self.stream.last + 1,
            phase: self.stream.phase.clone(),
        };
        let links: Vec<LinkId> = self.family.children.values().copied().collect();
        for link in links {
            self.mark_synced(link, true);
            self.send(link, Frame::Sync(sync.clone()));
        }
    }

    fn root_replaced(&mut self, former: BootId, boot: BootId) {
        self.uplink.root_replaced(former);
        self.sessions.absolve();
        self.forget_peer(0, former, "rank 0 was started anew");
        self.exchange_root_lost();
        self.deliver(Delivery::RootReplaced { boot });
    }

    /// The parent passes an event on.
    pub(super) fn event(&mut self, event: &Arc<Numbered>) {
        if event.sequence == self.stream.last + 1 && self.stream.root.is_known() {
            self.apply(event);
        }
        // Others have been seen by way of another parent.
    }

    /// On rank 0: numbers an event and tells everybody.
    pub(super) fn publish_event(&mut self, what: Happening) {
        let event = Arc::new(Numbered { sequence: self.stream.last + 1, what });
        self.apply(&event);
    }

    fn apply(&mut self, event: &Arc<Numbered>) {
        self.stream.remember(event);
        let links: Vec<LinkId> = self
            .family
            .children
            .values()
            .copied()
            .filter(|link| {
                matches!(self.links.get(link).map(|l| &l.role), Some(Role::Child(c)) if c.synced)
            })
            .collect();
        for link in links {
            self.send(link, Frame::Event(Arc::clone(event)));
        }
        match &event.what {
            Happening::Run => {
                if self.is_over() {
                    return;
                }
                self.stream.phase = Phase::Run;
                if self.is_root() {
                    self.set_state(State::Run, "quorate");
                }
                self.advance("quorate");
            }
            Happening::Cleanup(outcome) => {
                self.stream.phase = Phase::Cleanup(Arc::clone(outcome));
                self.phase_entered("the work is over");
            }
            Happening::Offline { rank, boot, reason } => {
                if *rank == self.config.rank {
                    return self.expel(*rank, *boot, reason.clone());
                }
                self.forget_peer(*rank, *boot, reason);
                self.deliver(Delivery::Offline {
                    rank: *rank,
                    boot: *boot,
                    reason: reason.clone(),
                });
            }
            Happening::Published { topic, payload } => {
                self.deliver(Delivery::Published {
                    sequence: event.sequence,
                    topic: topic.clone(),
                    payload: payload.clone(),
                });
            }
            Happening::EndJob { job } => self.drop_job(*job),
        }
    }
}
