//! The queue at a moment, for whoever writes all of it down while it goes on.
//!
//! A snapshot shares the jobs with the queue: taking one costs a count for each job, and a job is copied
//! only when something happens to it while a snapshot of it is there.

use super::Queue;
use crate::event::{Entry, Event};
use crate::id::JobId;
use crate::job::Job;
use crate::jobspec::Jobspec;
use crate::time::Time;
use std::collections::HashMap;
use std::sync::Arc;

/// The queue as it was.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What concerns the whole queue.
    own: Vec<Entry>,
    jobs: Vec<Arc<Job>>,
}

impl Queue {
    /// The queue as it is now.
    pub fn snapshot(&self, now: Time) -> Snapshot {
        let mut events = vec![Event::Ids { next: self.next }];
        if self.reserved.0 > self.next {
            let (below, boot) = self.reserved.clone();
            events.push(Event::Reserve { below, boot });
        }
        events.extend(self.lanes.values().map(|state| Event::Lane(Box::new(state.lane.clone()))));
        let drains = self.pool.drains();
        events.extend(drains.map(|(rank, reason)| Event::Drain { rank, reason: reason.into() }));
        let own = events.into_iter().map(|event| Entry { time: now, job: None, event }).collect();
        Snapshot { own, jobs: self.jobs.values().map(Arc::clone).collect() }
    }

    /// A log that replays to this queue: the events of the jobs that are still known.
    pub fn compacted(&self, now: Time) -> impl Iterator<Item = Entry> + use<> {
        self.snapshot(now).into_entries()
    }

    /// All that is known of the queue and its jobs, as a dump.
    pub fn dump(&self, now: Time) -> Vec<Entry> {
        self.snapshot(now).into_dump()
    }
}

impl Snapshot {
    /// A log that replays to the queue as it was; entries of what happened since may follow.
    pub fn into_entries(self) -> impl Iterator<Item = Entry> {
        let mut said: HashMap<*const Jobspec, JobId> = HashMap::new();
        let jobs = self.jobs.into_iter().flat_map(move |job| {
            let first = *said.entry(Arc::as_ptr(&job.submission.spec)).or_insert(job.id);
            (0..job.history.len()).map(move |at| {
                let (time, event) = &job.history[at];
                let event = match event {
                    Event::Submit(submission) if first != job.id => {
                        Event::Copy(Box::new(submission.copy_of(first)))
                    }
                    event => event.clone(),
                };
                Entry { time: *time, job: Some(job.id), event }
            })
        });
        self.own.into_iter().chain(jobs)
    }

    /// The same as a dump, whose first entry stands at its end again.
    pub fn into_dump(self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self.into_entries().collect();
        entries.extend(entries.first().cloned());
        entries
    }
}
