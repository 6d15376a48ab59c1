//! A whole queue as one file, and back (docs/spec/eventlog.md).
//!
//! A dump is a compacted log whose first entry stands at its end again, so that one that was cut short
//! is known as such.

use super::{Queue, QueueError, Settings};
use crate::event::{Event, Outcome};
use crate::id::JobId;
use crate::job::State;
use crate::log;
use crate::time::Time;

/// The code of tasks that ran when the queue was dumped.
const LOST: u8 = 69;

/// A queue made from a dump.
#[derive(Debug)]
pub struct Restored {
    /// The queue; brokers have yet to come.
    pub queue: Queue,
    /// Jobs that had nodes, and have failed for it.
    pub failed: Vec<JobId>,
    /// Jobs that had nodes, and begin again.
    pub begun_again: Vec<JobId>,
}

/// Why a file is no dump. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// It ends too early.
    #[error("it is not a whole dump: its end is missing")]
    Cut,
    /// A line cannot be read.
    #[error("it is no dump, or damaged: line {line}: {what}")]
    Damaged {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// It tells of a job what cannot have happened.
    #[error("what it tells of job {job} cannot have happened: {reason}")]
    Job {
        /// The job.
        job: JobId,
        /// Why not.
        reason: String,
    },
    /// It tells of a queue what cannot be.
    #[error("it cannot be restored")]
    Queue(#[source] QueueError),
}

impl Queue {
    /// A queue from the bytes of a dump. Jobs that had nodes have them no more: they fail once, or begin
    /// again if they asked for it. Brokers that were drained are those of the old cluster.
    pub fn restore(settings: Settings, bytes: &[u8], now: Time) -> Result<Restored, RestoreError> {
        let log::Contents { mut entries, damage, torn, .. } = log::decode(bytes);
        if let Some(damage) = damage.first() {
            return Err(RestoreError::Damaged { line: damage.line, what: damage.what });
        }
        let whole = torn == 0 && entries.len() > 1 && entries.first() == entries.last();
        if !whole || !matches!(entries[0].event, Event::Ids { .. }) {
            return Err(RestoreError::Cut);
        }
        let local = |event: &Event| {
            matches!(event, Event::Drain { .. } | Event::Undrain { .. } | Event::Reserve { .. })
        };
        entries.retain(|entry| !local(&entry.event));
        let replayed = Self::replay(settings, entries, []).map_err(RestoreError::Queue)?;
        if let Some((job, reason)) = replayed.set_aside.into_iter().next() {
            return Err(RestoreError::Job { job, reason });
        }
        let mut queue = replayed.queue;
        let held: Vec<JobId> = queue.running().map(|job| job.id).collect();
        let why = "it had nodes when the queue was dumped";
        let (mut failed, mut begun_again) = (Vec::new(), Vec::new());
        for id in held {
            let outcome = Outcome { code: LOST, rank: None, message: why.to_owned() };
            queue.tasks_lost(now, id, why).map_err(RestoreError::Queue)?;
            queue.finished(now, id, outcome).map_err(RestoreError::Queue)?;
            let over = queue.jobs.get(&id).is_none_or(|job| job.state == State::Inactive);
            if over { failed.push(id) } else { begun_again.push(id) }
        }
        queue.tick(now);
        queue.entries.clear();
        queue.effects.clear();
        Ok(Restored { queue, failed, begun_again })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Entry;
    use crate::jobspec::Jobspec;
    use crate::pool::Offer;
    use crate::queue::Copies;
    use quorate_hostlist::IdSet;

    fn bytes(entries: &[Entry]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for entry in entries {
            log::encode(entry, &mut bytes);
        }
        bytes
    }

    /// One job that is over, two that run, one that waits; number 5 is next.
    fn full() -> Queue {
        let mut queue = Queue::new(Settings::default()).unwrap();
        let cores = IdSet::first_n(2);
        queue.node_here(Offer { rank: 0, cores, memory: 1 << 30, ..Offer::default() });
        let job = Jobspec::command("j", &["true"]);
        let again = Jobspec { requeue: true, ..job.clone() };
        for spec in [job.clone(), job.clone(), again, job] {
            queue.submit(Time(1), 7, spec, &Copies::One).unwrap();
            queue.schedule(Time(2));
            queue.started(Time(3), JobId(1)).unwrap();
            queue.finished(Time(4), JobId(1), Outcome::default()).unwrap();
        }
        queue.drain(Time(5), 0, "old").unwrap();
        queue
    }

    #[test]
    fn what_was_dumped_is_restored_and_what_had_nodes_ends_or_begins_again() {
        let queue = full();
        let states = |queue: &Queue| queue.jobs().map(|job| job.state).collect::<Vec<_>>();
        assert_eq!(states(&queue), [State::Inactive, State::Run, State::Run, State::Sched]);
        let dump = bytes(&queue.dump(Time(9)));
        let restored = Queue::restore(Settings::default(), &dump, Time(10)).unwrap();
        assert_eq!((restored.failed, restored.begun_again), (vec![JobId(2)], vec![JobId(3)]));
        let mut copy = restored.queue;
        let ends = [State::Inactive, State::Inactive, State::Sched, State::Sched];
        assert_eq!(states(&copy), ends);
        assert_eq!(copy.job(JobId(1)), queue.job(JobId(1)));
        assert_eq!(copy.job(JobId(2)).unwrap().exit_code(), Some(1), "it had not started");
        assert_eq!((copy.running().count(), copy.pool().drains().count()), (0, 0));
        assert_eq!(copy.next_id(), JobId(5));
        // It is as good as new: brokers that come take its jobs.
        let cores = IdSet::first_n(1);
        copy.node_here(Offer { rank: 3, cores, memory: 1 << 30, ..Offer::default() });
        copy.schedule(Time(11));
        assert_eq!(copy.running().count(), 1);
        let again = Queue::replay(Settings::default(), copy.compacted(Time(12)), []).unwrap();
        assert!(again.set_aside.is_empty() && again.queue.jobs().eq(copy.jobs()));
    }

    #[test]
    fn a_file_that_is_cut_damaged_or_no_dump_is_refused() {
        let dump = bytes(&full().dump(Time(9)));
        let restore = |bytes: &[u8]| {
            Queue::restore(Settings::default(), bytes, Time(10)).map(drop).unwrap_err()
        };
        let mut cut = 0;
        while cut < dump.len() {
            assert_eq!(restore(&dump[..cut]), RestoreError::Cut, "cut at {cut}");
            cut += 7;
        }
        let mut damaged = dump.clone();
        damaged[40] ^= 1;
        assert!(matches!(restore(&damaged), RestoreError::Damaged { line: 1, .. }));
        assert!(matches!(restore(b"#!/bin/sh\n"), RestoreError::Damaged { line: 1, .. }));
        // A log is no dump: it may be of a queue that has gone on since.
        let log = bytes(&full().compacted(Time(9)).collect::<Vec<_>>());
        assert_eq!(restore(&log), RestoreError::Cut);
    }
}
