//! Who waits for the end of which job.
//!
//! Owns: the waiters until they are told. That a job is over is the queue's to say, and is told only once
//! it is durable.

use super::asked::Waiter;
use quorate_queue::{Job, JobId, Queue, State};
use std::collections::BTreeMap;

/// All who wait.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    by_job: BTreeMap<JobId, Few>,
}

/// Who waits for one job: nearly always one.
#[derive(Debug)]
struct Few(Waiter, Vec<Waiter>);

impl Waiters {
    /// Tells of each of these jobs once it is over: at once of those that are, or that nobody knows.
    pub(super) fn wait(&mut self, queue: &Queue, jobs: Vec<JobId>, waiter: &Waiter) {
        for id in jobs {
            if is_over(queue, id) {
                let _ = waiter.send((id, queue.job(id).and_then(Job::exit_code)));
            } else {
                self.by_job
                    .entry(id)
                    .and_modify(|Few(_, others)| others.push(waiter.clone()))
                    .or_insert_with(|| Few(waiter.clone(), Vec::new()));
            }
        }
    }

    /// A job is over.
    pub(super) fn release(&mut self, queue: &Queue, id: JobId) {
        let Some(Few(first, others)) = self.by_job.remove(&id) else { return };
        let code = queue.job(id).and_then(Job::exit_code);
        for waiter in std::iter::once(first).chain(others) {
            let _ = waiter.send((id, code));
        }
    }

    /// Tells of all that are over, written down or not.
    pub(super) fn release_all(&mut self, queue: &Queue) {
        let over: Vec<JobId> =
            self.by_job.keys().copied().filter(|id| is_over(queue, *id)).collect();
        for id in over {
            self.release(queue, id);
        }
    }
}

fn is_over(queue: &Queue, id: JobId) -> bool {
    queue.job(id).is_none_or(|job| job.state == State::Inactive)
}
