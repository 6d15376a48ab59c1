//! What people and clocks do to jobs that were taken, and what the shell says of their tasks.

use super::{Effect, Queue, QueueError};
use crate::event::{Event, Outcome};
use crate::id::JobId;
use crate::job::{Job, Standing, State};
use crate::time::Time;

impl Queue {
    /// Ends a job in whatever state it is. Asked for again, its tasks are ended harder.
    pub fn cancel(&mut self, now: Time, id: JobId, note: &str) -> Result<(), QueueError> {
        self.active(id)?;
        self.fail(now, id, "cancel", note);
        self.settle(now);
        Ok(())
    }

    /// Lets a job begin again: at once if it waits, else when its tasks are gone.
    pub fn requeue(&mut self, now: Time, id: JobId, note: &str) -> Result<(), QueueError> {
        let job = self.active(id)?;
        if !job.holds_nodes() {
            let what = "only a job that has nodes can begin again";
            return Err(QueueError::State { job: id, state: job.state, what });
        }
        self.fail(now, id, "requeue", note);
        self.settle(now);
        Ok(())
    }

    /// Keeps a waiting job from being started.
    pub fn hold(&mut self, now: Time, id: JobId) -> Result<(), QueueError> {
        self.pending(id)?;
        self.happen(now, id, Event::Hold {});
        Ok(())
    }

    /// Lets a held job be started.
    pub fn release(&mut self, now: Time, id: JobId) -> Result<(), QueueError> {
        self.pending(id)?;
        self.happen(now, id, Event::Release {});
        self.stirred.push_back(id);
        self.settle(now);
        Ok(())
    }

    /// Changes the urgency of a waiting job, 0 (held) to 31.
    pub fn set_urgency(&mut self, now: Time, id: JobId, urgency: u8) -> Result<(), QueueError> {
        let job = self.pending(id)?;
        if urgency > 31 {
            let range = crate::jobspec::JobspecError::Range {
                field: "urgency",
                value: urgency.into(),
                range: "0 to 31",
            };
            return Err(QueueError::Jobspec(range));
        }
        if job.urgency != urgency || job.held {
            self.happen(now, id, Event::Urgency { urgency });
            self.stirred.push_back(id);
            self.settle(now);
        }
        Ok(())
    }

    /// Changes the time limit of a job that is not over; what has passed counts.
    pub fn set_time_limit(
        &mut self,
        now: Time,
        id: JobId,
        seconds: Option<u64>,
    ) -> Result<(), QueueError> {
        let job = self.active(id)?;
        if job.state == State::Cleanup {
            let what = "its tasks are being ended already";
            return Err(QueueError::State { job: id, state: job.state, what });
        }
        let mut spec = job.spec().clone();
        spec.time_limit = seconds;
        spec.check().map_err(QueueError::Jobspec)?;
        let lane = &self.lane_of(&spec)?.lane;
        if let Some(limit) = lane.limits.time {
            match seconds {
                Some(value) if value > limit => {
                    let (field, lane) = ("timeLimit", lane.name.clone());
                    return Err(QueueError::OverLimit { field, value, limit, lane });
                }
                None => {
                    return Err(QueueError::NoTimeLimit { lane: lane.name.clone(), limit });
                }
                Some(_) => {}
            }
        }
        self.happen(now, id, Event::Limit { seconds });
        self.restless = true;
        Ok(())
    }

    /// Changes how many jobs of the array of a job may run at once: said of each of them, since each
    /// knows the limit. What runs already goes on.
    pub fn set_array_limit(
        &mut self,
        now: Time,
        id: JobId,
        limit: Option<u32>,
    ) -> Result<(), QueueError> {
        let job = self.active(id)?;
        let what = if job.submission.element.is_none() {
            "only jobs of an array have such a limit"
        } else if limit == Some(0) {
            "the limit of an array is at least 1"
        } else if job.state == State::Cleanup {
            "its tasks are being ended already"
        } else {
            self.happen(now, id, Event::Throttle { limit });
            self.restless = true;
            return Ok(());
        };
        Err(QueueError::State { job: id, state: job.state, what })
    }

    /// Keeps something worth knowing with a job.
    pub fn memo(&mut self, now: Time, id: JobId, key: &str, value: &str) -> Result<(), QueueError> {
        self.known(id)?;
        self.happen(now, id, Event::Memo { key: key.into(), value: value.into() });
        Ok(())
    }

    /// The tasks of a job run. Said once for each [`Effect::Launch`]; after a restart it may be said
    /// again, which changes nothing.
    pub fn started(&mut self, now: Time, id: JobId) -> Result<(), QueueError> {
        let job = self.known(id)?;
        if job.state == State::Run && job.started.is_none() {
            self.happen(now, id, Event::Start {});
            self.settle(now);
        }
        Ok(())
    }

    /// The tasks of a job are gone. Nodes are freed exactly once, however often it is said.
    pub fn finished(&mut self, now: Time, id: JobId, outcome: Outcome) -> Result<(), QueueError> {
        let job = self.known(id)?;
        if job.holds_nodes() && job.outcome.is_none() {
            self.happen(now, id, Event::Finish(outcome.shared()));
            self.stirred.push_back(id);
            self.settle(now);
        }
        Ok(())
    }

    /// The tasks of a job could not be started: it fails with that, once.
    pub fn not_started(
        &mut self,
        now: Time,
        id: JobId,
        outcome: Outcome,
    ) -> Result<(), QueueError> {
        let job = self.known(id)?;
        if job.holds_nodes() && job.outcome.is_none() {
            let note = outcome.message.clone();
            self.fail(now, id, "exec", &note);
            self.effects.retain(|effect| *effect != Effect::Stop(id));
            self.finished(now, id, outcome)?;
        }
        Ok(())
    }

    /// The tasks of a job were lost with nobody to say how they ended: it fails with that once, or
    /// begins again if it asked for it. Its nodes stay with it until [`Queue::finished`].
    pub fn tasks_lost(&mut self, now: Time, id: JobId, why: &str) -> Result<(), QueueError> {
        let job = self.known(id)?;
        if job.holds_nodes() && job.outcome.is_none() && job.cause.is_none() {
            self.fail(now, id, "node-lost", why);
            self.effects.retain(|effect| *effect != Effect::Stop(id));
        }
        Ok(())
    }

    /// The tasks of a job went on while rank 0 was started anew: they are led again
    /// ([`crate::reattach`]), but for those of nodes that were lost meanwhile, each with the reason. Tells
    /// whether the job still wants that.
    pub fn reattached(&mut self, now: Time, id: JobId, without: &[(u32, String)]) -> bool {
        let goes_on = self.jobs.get(&id).is_some_and(|job| {
            job.state == State::Run && without.iter().all(|(rank, _)| job.shrinks_without(*rank))
        });
        if goes_on {
            for (rank, why) in without {
                let note = why.as_str().into();
                self.happen(now, id, Event::Shrink { rank: *rank, note });
            }
            self.happen(now, id, Event::Reattach {});
            self.effects.push(Effect::Reattach(id));
        }
        goes_on
    }

    /// Lets time pass: jobs begin that waited for a moment, and end that have used up their time.
    pub fn tick(&mut self, now: Time) {
        while let Some(&(time, id)) = self.timers.first() {
            if time > now {
                break;
            }
            self.timers.pop_first();
            let Some(job) = self.jobs.get(&id) else { continue };
            if job.state == State::Run && job.end_at_latest() <= now {
                let seconds = job.time_limit.unwrap_or(0);
                self.fail(now, id, "timeout", &format!("its time limit of {seconds} s is over"));
            } else if job.warn_at().is_some_and(|at| at <= now) {
                self.happen(now, id, Event::warning(job.spec().signal));
                self.effects.push(Effect::Warn(id));
            } else {
                self.stirred.push_back(id);
            }
        }
        self.settle(now);
    }

    /// Forgets jobs that are over: those that ended before a moment, and the oldest beyond a number.
    /// Answers how many. Their numbers are never given again.
    pub fn purge(&mut self, now: Time, ended_before: Time, keep: usize) -> usize {
        let beyond = self.over.len().saturating_sub(keep);
        let aged = |at: usize, ended: Time| at < beyond || ended < ended_before;
        let mut gone: Vec<JobId> = Vec::new();
        while let Some((ended, id)) = self.over.first().copied()
            && aged(gone.len(), ended)
        {
            self.over.pop_first();
            gone.push(id);
        }
        if gone.is_empty() {
            return 0;
        }
        gone.sort_unstable();
        for id in &gone {
            if let Some(job) = self.jobs.remove(id) {
                self.completed -= usize::from(job.standing() == Some(Standing::Completed));
                self.tallies.of(&job, &self.first_lane).goes(&job, false);
            }
        }
        self.record(now, None, Event::Purge { jobs: runs(&gone) });
        gone.len()
    }

    fn active(&self, id: JobId) -> Result<&Job, QueueError> {
        let job = self.known(id)?;
        match job.state {
            State::Inactive => Err(QueueError::Over { job: id, state: job.state }),
            _ => Ok(job),
        }
    }

    fn pending(&self, id: JobId) -> Result<&Job, QueueError> {
        let job = self.active(id)?;
        if job.state >= State::Run {
            let what = "only a job that waits can be held, released or moved";
            return Err(QueueError::State { job: id, state: job.state, what });
        }
        Ok(job)
    }
}

/// Sorted numbers as first and last of runs.
fn runs(ids: &[JobId]) -> Vec<(JobId, JobId)> {
    let mut runs: Vec<(JobId, JobId)> = Vec::new();
    for id in ids {
        match runs.last_mut() {
            Some((_, last)) if last.0 + 1 == id.0 => *last = *id,
            _ => runs.push((*id, *id)),
        }
    }
    runs
}
