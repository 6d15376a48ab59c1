//! From a log to the queue it is the log of.

use super::lane::LaneState;
use super::{Queue, QueueError, Settings};
use crate::event::{Entry, Event};
use crate::id::JobId;
use crate::job::{Job, Standing, State};
use crate::jobspec::Jobspec;
use crate::time::Time;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A queue made from its log.
#[derive(Debug)]
pub struct Replayed {
    /// The queue; brokers have yet to come.
    pub queue: Queue,
    /// Jobs of which the log tells what cannot have happened, with the reason. They are not in the
    /// queue; what is left of their tasks must be ended.
    pub set_aside: Vec<(JobId, String)>,
}

impl Queue {
    /// Replays a log. `damaged` are jobs of which entries are known to be missing. Settings of queues
    /// in the log win over those given.
    pub fn replay(
        settings: Settings,
        entries: impl IntoIterator<Item = Entry>,
        damaged: impl IntoIterator<Item = JobId>,
    ) -> Result<Replayed, QueueError> {
        let mut queue = Self::new(settings)?;
        let mut aside: BTreeSet<JobId> = damaged.into_iter().collect();
        let mut set_aside: Vec<(JobId, String)> =
            aside.iter().map(|id| (*id, "a line of its log is damaged".to_owned())).collect();
        for id in &aside {
            queue.next = queue.next.max(JobId(id.0 + 1));
        }
        // What the jobs of whole submissions are, also of those that were purged since.
        let mut specs: HashMap<JobId, Arc<Jobspec>> = HashMap::new();
        for Entry { time, job, mut event } in entries {
            let Some(id) = job else {
                queue.replay_own(event)?;
                continue;
            };
            queue.next = queue.next.max(JobId(id.0.saturating_add(1)));
            if let Event::Submit(submission) = &event {
                specs.insert(id, Arc::clone(&submission.spec));
            }
            if aside.contains(&id) {
                continue;
            }
            if let Event::Copy(copy) = &event {
                let Some(spec) = specs.get(&copy.of) else {
                    aside.insert(id);
                    let reason = format!("what it is stood with job {}, which is lost", copy.of);
                    set_aside.push((id, reason));
                    continue;
                };
                event = Event::Submit(Arc::new(copy.with(Arc::clone(spec))));
            }
            if let Err(reason) = queue.replay_job(time, id, event) {
                queue.forget(id);
                aside.insert(id);
                set_aside.push((id, reason));
            }
        }
        // What a crash kept from being decided is decided at the first tick.
        let unsettled =
            queue.jobs.values().filter(|job| job.state != State::Inactive).map(|job| job.id);
        queue.stirred = unsettled.collect();
        queue.restless = true;
        queue.effects.clear();
        Ok(Replayed { queue, set_aside })
    }

    /// Says in the log that a new life begins, and decides what the last one left undecided.
    pub fn resume(&mut self, now: Time) {
        self.record(now, None, Event::Restart {});
        self.tick(now);
    }

    fn replay_own(&mut self, event: Event) -> Result<(), QueueError> {
        match event {
            Event::Ids { next } => self.next = self.next.max(next),
            Event::Reserve { below, boot } => self.reserved = (below, boot),
            Event::Purge { jobs } => {
                for (first, last) in jobs {
                    let gone: Vec<JobId> =
                        self.jobs.range(first..=last).map(|(id, _)| *id).collect();
                    for id in gone {
                        self.forget(id);
                    }
                }
            }
            Event::Drain { rank, reason } => self.pool.drain(rank, reason),
            Event::Undrain { rank } => self.pool.undrain(rank),
            Event::Lane(lane) => {
                self.lanes.insert(lane.name.clone(), LaneState::new(*lane)?);
            }
            // A marker for people; and events of jobs without a job, which no version writes.
            _ => {}
        }
        Ok(())
    }

    fn replay_job(&mut self, time: Time, id: JobId, event: Event) -> Result<(), String> {
        match event {
            Event::Submit(submission) if !self.jobs.contains_key(&id) => {
                self.enter(Job::new(id, time, submission));
                Ok(())
            }
            event => self.apply(time, id, event).map_err(|illegal| illegal.to_string()),
        }
    }

    /// Takes a job out of everything.
    pub(super) fn forget(&mut self, id: JobId) {
        let Some(job) = self.jobs.remove(&id) else { return };
        self.order.remove(&(u32::MAX - job.priority, id));
        self.over.remove(&(job.over_at(), id));
        self.conditions.remove(&id);
        self.timers.retain(|(_, each)| *each != id);
        let running = self.running.remove(&id);
        if running {
            let _ = self.pool.give_back(id);
            self.array_freed(Self::array_of(&job));
        }
        self.completed -= usize::from(job.standing() == Some(Standing::Completed));
        self.tallies.of(&job, &self.first_lane).goes(&job, running);
        let _ = self.unname(job.submission.user, &job.spec().name, id);
    }
}
