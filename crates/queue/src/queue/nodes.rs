//! Brokers that come, go and are drained.

use super::{Queue, QueueError};
use crate::event::Event;
use crate::id::JobId;
use crate::job::State;
use crate::pool::{NodeState, Offer};
use crate::time::Time;
use std::sync::Arc;

impl Queue {
    /// A broker is here with what it offers. Jobs that it kept over a restart have their part still.
    pub fn node_here(&mut self, offer: Offer) {
        self.pool.arrive(offer);
        self.best = None;
        self.restless = true;
    }

    /// A broker is away for a moment: nothing is started there, its jobs go on.
    pub fn node_away(&mut self, rank: u32) {
        self.pool.leave(rank);
        self.restless = true;
    }

    /// A broker is lost with the tasks that it had. Nested instances go on without it, if it was not
    /// their first and they did not ask to begin again. Other jobs fail, or go back into the queue if
    /// they asked for that; their other nodes are freed once the shell says that their tasks are gone.
    pub fn node_lost(&mut self, now: Time, rank: u32, why: &str) {
        self.pool.leave(rank);
        self.restless = true;
        let hit: Vec<JobId> = self
            .running()
            .filter(|job| job.outcome.is_none() && job.cause.is_none())
            .filter(|job| {
                let parts = job.allocation.iter().flat_map(|allocation| &allocation.parts);
                parts.into_iter().any(|part| part.rank == rank)
            })
            .map(|job| job.id)
            .collect();
        for id in hit {
            if self.jobs[&id].shrinks_without(rank) {
                self.happen(now, id, Event::Shrink { rank, note: why.into() });
            } else {
                self.fail(now, id, "node-lost", why);
            }
        }
        self.settle(now);
    }

    /// A broker is lost, and will not come again: what only it could run is refused from now on, and
    /// jobs that wait for it fail with what is missing.
    pub fn node_gone(&mut self, now: Time, rank: u32, why: &str) {
        self.node_lost(now, rank, why);
        self.pool.forget(rank);
        self.best = None;
        let waiting: Vec<JobId> =
            self.jobs.values().filter(|job| job.state < State::Run).map(|job| job.id).collect();
        for id in waiting {
            let spec = Arc::clone(&self.jobs[&id].submission.spec);
            if let Err(QueueError::Infeasible { reason }) = self.feasible(&spec) {
                self.fail(now, id, "unsatisfiable", &format!("{reason}: {why}"));
            }
        }
        self.settle(now);
    }

    /// Nothing new is started on a broker; what runs there goes on.
    pub fn drain(&mut self, now: Time, rank: u32, reason: &str) -> Result<(), QueueError> {
        self.rank_known(rank)?;
        self.pool.drain(rank, reason.into());
        self.restless = true;
        self.record(now, None, Event::Drain { rank, reason: reason.into() });
        Ok(())
    }

    /// As [`Queue::drain`], of a queue that is about to take the place of another.
    pub fn keep_drained(&mut self, rank: u32, reason: &str) {
        self.pool.drain(rank, reason.into());
    }

    /// Jobs may be started on a broker again.
    pub fn undrain(&mut self, now: Time, rank: u32) -> Result<(), QueueError> {
        self.rank_known(rank)?;
        if self.pool.drains().any(|(drained, _)| drained == rank) {
            self.pool.undrain(rank);
            self.restless = true;
            self.record(now, None, Event::Undrain { rank });
        }
        Ok(())
    }

    fn rank_known(&self, rank: u32) -> Result<NodeState, QueueError> {
        self.pool.state(rank).ok_or(QueueError::UnknownRank { rank })
    }
}
