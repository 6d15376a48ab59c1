//! A dump that is put into an empty queue.

use super::Keeper;
use super::asked::{Closed, Command, Keeping};
use super::durable::refused;
use super::nodes::Nodes;
use super::opening::settings;
use crate::logs::chain;
use crate::queue::protocol::Put;
use quorate_queue::{JobId, Queue, Restored, Time};
use tokio::sync::oneshot;

/// A dump that waits to be put into the queue.
pub(in crate::queue) struct Restore {
    pub(super) dump: Vec<u8>,
    pub(super) reply: oneshot::Sender<Result<Put, String>>,
}

impl Keeping {
    /// Puts a dump into the queue; tells what came of it once it is durable.
    pub(in crate::queue) async fn restore(&self, dump: Vec<u8>) -> Result<Put, String> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Restore(Box::new(Restore { dump, reply }));
        self.tell(command).await.map_err(|closed| closed.to_string())?;
        answer.await.unwrap_or_else(|_| Err(Closed.to_string()))
    }
}

impl Keeper {
    /// The queue becomes that of a dump, all of it or nothing.
    pub(super) fn restore(&mut self, now: Time, dump: &[u8]) -> Result<Put, String> {
        if let Some(why) = &self.sick {
            return Err(refused(why));
        }
        if self.compaction.is_under_way() {
            return Err("the queue's log is being written anew; try again in a moment".to_owned());
        }
        let known = self.queue.jobs().count();
        if known > 0 {
            return Err(format!(
                "the queue has jobs already ({known}): restore into a cluster that has none, or let them end \
                 and forget them with `purge`"
            ));
        }
        let settings = settings(&self.overlay);
        let Restored { mut queue, failed, begun_again } =
            Queue::restore(settings, dump, now).map_err(|error| chain(&error))?;
        for (rank, reason) in self.queue.pool().drains() {
            queue.keep_drained(rank, reason);
        }
        // Numbers that were given here are not given again either.
        queue.skip_to(self.queue.next_id());
        let latest = queue.compacted(now).map(|entry| entry.time).max();
        self.clock.last = latest.unwrap_or(now).max(now);
        let store = self.store.as_mut().ok_or("the log is being written; try again")?;
        store.restart(queue.compacted(now)).map_err(|error| chain(&error))?;
        // What had not been written of the empty queue is in the new log, or of no interest to it.
        self.pending.clear();
        self.deferred.clear();
        self.forgotten = 0;
        let put =
            Put { jobs: queue.jobs().count() as u64, failed, begun_again, next: queue.next_id() };
        self.queue = queue;
        // All brokers are told anew.
        self.nodes = Nodes::new(self.overlay.clone());
        self.nodes.tell(&mut self.queue, now);
        self.changed.send_modify(|count| *count += 1);
        let count = |jobs: &[JobId]| jobs.len();
        let (jobs, failed, again) = (put.jobs, count(&put.failed), count(&put.begun_again));
        tracing::warn!(jobs, failed, again, "a dump was put into the queue");
        Ok(put)
    }
}
