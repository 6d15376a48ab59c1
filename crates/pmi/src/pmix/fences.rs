//! Fences of PMIx: of the whole job through the exchange, of some ranks within this node. Owns who
//! is let into which.

use super::cleanup::WILDCARD;
use super::wire::Proc;
use super::{Pmix, Session, send_status, status};
use crate::core::Core;
use crate::effect::Sequence;
use crate::fence::Waiter;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A fence of some ranks of this node.
#[derive(Clone, Debug)]
pub(super) struct LocalFence {
    pub(super) ranks: Vec<u32>,
    pub(super) entered: Vec<(Session, Waiter)>,
}

impl Pmix {
    pub(super) fn enter(
        &mut self,
        core: &mut Core,
        session: Session,
        waiter: Waiter,
        procs: &[Proc<'_>],
    ) {
        let Some(index) = core.index_of(session.rank) else { return };
        let answer = |core: &mut Core, code| send_status(core, session, waiter, code);
        let namespace = core.layout.job().namespace().as_bytes();
        if procs.iter().any(|proc| proc.namespace != namespace) {
            return answer(core, status::NOT_SUPPORTED);
        }
        if self.fence.waiting(index) >= core.options.max_waiting {
            return answer(core, status::OUT_OF_RESOURCE);
        }
        let mut ranks: Vec<u32> = procs.iter().map(|proc| proc.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let all = ranks.is_empty()
            || ranks.contains(&WILDCARD)
            || ranks.iter().copied().eq(0..core.layout.job().size());
        if !all {
            return self.enter_local(core, session, waiter, ranks);
        }
        if let Some(sequence) = self.fence.enter(index, waiter) {
            let blob = self.modex.take_blob(core.layout.local_ranks());
            if !core.exchange(sequence, blob) {
                self.exchanged(core, sequence, &[]);
            }
        }
    }

    /// A fence of some ranks: served when all of them are here.
    fn enter_local(&mut self, core: &mut Core, session: Session, waiter: Waiter, ranks: Vec<u32>) {
        let local = ranks.iter().all(|&rank| core.layout.is_local(rank));
        if !local || !ranks.contains(&session.rank) {
            return send_status(core, session, waiter, status::NOT_SUPPORTED);
        }
        let is_new = |fence: &LocalFence| {
            fence.ranks == ranks && fence.entered.iter().all(|(s, _)| s.rank != session.rank)
        };
        let place = match self.local_fences.iter().position(is_new) {
            Some(place) => place,
            None if self.local_fences.len() >= core.options.max_waiting => {
                return send_status(core, session, waiter, status::OUT_OF_RESOURCE);
            }
            None => {
                self.local_fences.push(LocalFence { ranks, entered: Vec::new() });
                self.local_fences.len() - 1
            }
        };
        let fence = &mut self.local_fences[place];
        fence.entered.push((session, waiter));
        if fence.entered.len() == fence.ranks.len() {
            for (session, waiter) in self.local_fences.remove(place).entered {
                send_status(core, session, waiter, status::SUCCESS);
            }
        }
    }

    /// The blobs of the other nodes have come.
    pub(crate) fn exchanged(
        &mut self,
        core: &mut Core,
        sequence: Sequence,
        blobs: &[(u32, Arc<[u8]>)],
    ) {
        let job = core.layout.job().clone();
        let mut code = status::SUCCESS;
        for (node, blob) in core.others(blobs) {
            let from_there = |rank| job.node_of(rank) == Some(node);
            if self.modex.add_page(node, blob, from_there).is_err() {
                code = status::ERROR;
            }
        }
        self.release(core, sequence, code);
        let waited_for: BTreeSet<u32> = self.asking.iter().map(|asking| asking.rank).collect();
        for rank in waited_for {
            self.serve(core, rank);
        }
    }

    /// The exchange will not come about.
    pub(crate) fn failed(&mut self, core: &mut Core, sequence: Sequence) {
        self.release(core, sequence, status::UNREACHABLE);
    }

    fn release(&mut self, core: &mut Core, sequence: Sequence, code: i32) {
        for waiter in self.fence.finish(sequence.number).unwrap_or_default() {
            if let Some(&session) = self.sessions.get(&waiter.client) {
                send_status(core, session, waiter, code);
            }
        }
    }
}
