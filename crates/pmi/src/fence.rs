//! Fences of one protocol: which local ranks have entered, and who waits for which exchange. Owns
//! the numbering; the data that an exchange carries belongs to the protocols.
//!
//! A rank may enter again before an earlier fence of its own is over (PMIx allows it): the k-th
//! entries of all ranks make the k-th fence.

use crate::effect::Protocol;
use crate::effect::{ClientId, Sequence};
use std::collections::{BTreeMap, VecDeque};

/// Who waits, and what its answer must carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    /// The client.
    pub(crate) client: ClientId,
    /// The tag of its request (PMIx); 0 for the others.
    pub(crate) tag: u32,
}

/// The fences of one protocol.
#[derive(Debug)]
pub(crate) struct Fence {
    protocol: Protocol,
    /// Entries of each local rank that no exchange has taken yet.
    entered: Vec<VecDeque<Waiter>>,
    /// Ranks with at least one such entry.
    ready: usize,
    next: u64,
    in_flight: BTreeMap<u64, Vec<Waiter>>,
}

impl Fence {
    /// Fences of `ranks` local ranks.
    pub(crate) fn new(protocol: Protocol, ranks: usize) -> Self {
        let entered = vec![VecDeque::new(); ranks];
        Self { protocol, entered, ready: 0, next: 0, in_flight: BTreeMap::new() }
    }

    /// A local rank (by its index among the local ranks) enters. When it is the last one, the
    /// exchange that is now due.
    pub(crate) fn enter(&mut self, index: usize, waiter: Waiter) -> Option<Sequence> {
        let queue = &mut self.entered[index];
        if queue.is_empty() {
            self.ready += 1;
        }
        queue.push_back(waiter);
        if self.ready < self.entered.len() {
            return None;
        }
        let waiters: Vec<_> = self.entered.iter_mut().filter_map(VecDeque::pop_front).collect();
        self.ready = self.entered.iter().filter(|queue| !queue.is_empty()).count();
        let number = self.next;
        self.next += 1;
        self.in_flight.insert(number, waiters);
        Some(Sequence { protocol: self.protocol, number })
    }

    /// Entries of a rank that wait.
    pub(crate) fn waiting(&self, index: usize) -> usize {
        self.entered[index].len()
    }

    /// Ranks that wait for other local ranks.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// The exchanges that were due so far.
    pub(crate) fn exchanges(&self) -> u64 {
        self.next
    }

    /// An exchange is over, one way or the other: who waited for it. `None` when there is no such
    /// exchange.
    pub(crate) fn finish(&mut self, number: u64) -> Option<Vec<Waiter>> {
        self.in_flight.remove(&number)
    }

    /// A client is gone: it waits for nothing more.
    pub(crate) fn forget(&mut self, client: ClientId) {
        for queue in &mut self.entered {
            if !queue.is_empty() {
                queue.retain(|waiter| waiter.client != client);
                self.ready -= usize::from(queue.is_empty());
            }
        }
        for waiters in self.in_flight.values_mut() {
            waiters.retain(|waiter| waiter.client != client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(client: u64) -> Waiter {
        Waiter { client: ClientId(client), tag: 0 }
    }

    #[test]
    fn the_last_rank_to_enter_starts_the_exchange() {
        let mut fence = Fence::new(Protocol::Pmi1, 2);
        assert_eq!(fence.enter(1, waiter(1)), None);
        let due = fence.enter(0, waiter(0)).unwrap();
        assert_eq!((due.protocol, due.number), (Protocol::Pmi1, 0));
        assert_eq!(fence.finish(0).unwrap().len(), 2);
        assert_eq!(fence.finish(0), None);
    }

    #[test]
    fn a_rank_that_runs_ahead_enters_the_next_fence() {
        let mut fence = Fence::new(Protocol::Pmix, 2);
        assert_eq!(fence.enter(0, waiter(0)), None);
        assert_eq!(fence.enter(0, waiter(0)), None);
        assert_eq!(fence.enter(1, waiter(1)).unwrap().number, 0);
        assert_eq!(fence.ready(), 1);
        assert_eq!(fence.enter(1, waiter(1)).unwrap().number, 1);
        assert_eq!(fence.ready(), 0);
    }

    #[test]
    fn a_client_that_is_gone_no_longer_counts() {
        let mut fence = Fence::new(Protocol::Pmi1, 2);
        fence.enter(0, waiter(7));
        fence.forget(ClientId(7));
        assert_eq!(fence.enter(1, waiter(1)), None);
        assert_eq!(fence.ready(), 1);
    }
}
