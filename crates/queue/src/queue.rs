//! The queue: everything that is known of a cluster's jobs, and what is decided about them.
//!
//! A change is an event that is applied to its job, kept for the log and followed by all that comes
//! of it. The shell calls [`Queue::take`] after each batch of calls, makes the entries durable, and
//! carries out the effects then: a job is never started that a restarted queue would not know.

mod control;
mod counts;
mod dump;
mod lane;
mod nodes;
mod progress;
mod replay;
mod snapshot;
mod start;
mod submit;

pub use counts::{Counts, LaneCounts};
pub use dump::{RestoreError, Restored};
pub use lane::{Lane, Limits};
pub use replay::Replayed;
pub use snapshot::Snapshot;
pub use submit::Copies;

use crate::constraint::{Compiled, ConstraintError};
use crate::event::{Entry, Event};
use crate::id::{ArrayElement, JobId};
use crate::job::{Job, State};
use crate::jobspec::JobspecError;
use crate::pool::Pool;
use crate::schedule::{Forecast, Policy, Seen};
use crate::time::Time;
use counts::Tallies;
use lane::LaneState;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// How a queue works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether jobs may overtake.
    pub policy: Policy,
    /// How many waiting jobs are looked at beyond the first that does not fit.
    pub depth: usize,
    /// More brokers may come than were seen so far: what does not fit on them waits instead of being
    /// refused.
    pub may_grow: bool,
    /// The queues; jobs that name none are in the first.
    pub lanes: Vec<Lane>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::Easy,
            depth: 1000,
            may_grow: false,
            lanes: vec![Lane::named("default")],
        }
    }
}

/// What the shell has to do, once the entries before it are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start the job's tasks on its nodes, then say [`Queue::started`] and later [`Queue::finished`].
    Launch(JobId),
    /// End the job's tasks, then say [`Queue::finished`]. Asked for again, end them harder.
    Stop(JobId),
    /// Send the signal before its end that the job asked for.
    Warn(JobId),
    /// Lead the job's tasks again, which go on since before rank 0 was started anew.
    Reattach(JobId),
}

impl Effect {
    /// The job that it is about.
    pub fn job(self) -> JobId {
        match self {
            Self::Launch(id) | Self::Stop(id) | Self::Warn(id) | Self::Reattach(id) => id,
        }
    }
}

/// Why the queue refuses. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The job itself cannot be taken.
    #[error("the job cannot be taken")]
    Jobspec(#[source] JobspecError),
    /// There is no such queue.
    #[error("there is no queue `{name}`; there are {known}")]
    UnknownLane {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The queue takes no jobs.
    #[error("queue `{name}` takes no jobs{}", reason_after(.reason))]
    Disabled {
        /// The queue.
        name: String,
        /// Why, in the words of who disabled it.
        reason: String,
    },
    /// The job asks for more than its queue allows.
    #[error("{field} is {value}, and queue `{lane}` allows {limit}")]
    OverLimit {
        /// What is too much.
        field: &'static str,
        /// What was asked for.
        value: u64,
        /// The most.
        limit: u64,
        /// The queue.
        lane: String,
    },
    /// The job has no time limit, and its queue needs one.
    #[error("queue `{lane}` needs a time limit of at most {limit} s, and the job has none")]
    NoTimeLimit {
        /// The queue.
        lane: String,
        /// The most seconds.
        limit: u64,
    },
    /// The cluster could not run it if it were empty.
    #[error("the cluster cannot run it, even when nothing else runs: {reason}")]
    Infeasible {
        /// What is missing.
        reason: String,
    },
    /// A dependency on a job that the queue does not know.
    #[error("it depends on job {job}, which is not known (it may have been purged)")]
    UnknownDependency {
        /// The job.
        job: JobId,
    },
    /// No job, or more than there may be.
    #[error("{count} jobs are asked for; at least 1 and at most {limit} can be submitted at once")]
    Count {
        /// How many.
        count: u64,
        /// The most.
        limit: u64,
    },
    /// There is no such job.
    #[error("there is no job {job}")]
    UnknownJob {
        /// The job.
        job: JobId,
    },
    /// The job is over.
    #[error("job {job} is over ({state:?})")]
    Over {
        /// The job.
        job: JobId,
        /// Its state.
        state: State,
    },
    /// What was asked for cannot be done in the job's state.
    #[error("job {job} is in state {state:?}: {what}")]
    State {
        /// The job.
        job: JobId,
        /// Its state.
        state: State,
        /// What can be done.
        what: &'static str,
    },
    /// There is no such broker.
    #[error("there is no broker {rank}")]
    UnknownRank {
        /// Its rank.
        rank: u32,
    },
    /// A queue's condition is malformed.
    #[error("the condition of queue `{lane}` is malformed")]
    LaneConstraint {
        /// The queue.
        lane: String,
        /// What is wrong.
        #[source]
        source: ConstraintError,
    },
}

fn reason_after(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

/// The queue.
#[derive(Debug)]
pub struct Queue {
    policy: Policy,
    depth: usize,
    may_grow: bool,
    first_lane: String,
    lanes: BTreeMap<String, LaneState>,
    pool: Pool,
    seen: Seen,
    /// All nodes with nothing on them, made when it is needed.
    best: Option<Pool>,
    /// Shared with snapshots.
    jobs: BTreeMap<JobId, Arc<Job>>,
    /// Conditions of the jobs that have one.
    conditions: BTreeMap<JobId, Compiled>,
    /// Jobs that wait for nodes: (inverted priority, id).
    order: BTreeSet<(u32, JobId)>,
    /// Jobs that have nodes.
    running: BTreeSet<JobId>,
    /// Jobs that are over, by when they ended.
    over: BTreeSet<(Time, JobId)>,
    /// How many of them completed.
    completed: usize,
    tallies: Tallies,
    /// Who waits for a job.
    dependents: BTreeMap<JobId, Vec<JobId>>,
    /// Active jobs of a user and name.
    names: BTreeMap<u32, BTreeMap<String, BTreeSet<JobId>>>,
    /// How many jobs of an array have nodes.
    arrays: BTreeMap<JobId, u32>,
    /// Moments at which a job has to be looked at.
    timers: BTreeSet<(Time, JobId)>,
    /// Jobs that may be able to go on.
    stirred: VecDeque<JobId>,
    /// Something changed that the scheduler should know.
    restless: bool,
    next: JobId,
    /// Numbers that may be given without being durable, and in which boot of the machine.
    reserved: (JobId, Box<str>),
    forecasts: Vec<Forecast>,
    entries: Vec<Entry>,
    effects: Vec<Effect>,
}

impl Queue {
    /// An empty queue.
    pub fn new(settings: Settings) -> Result<Self, QueueError> {
        let mut lanes = BTreeMap::new();
        let first_lane =
            settings.lanes.first().map_or_else(|| "default".to_owned(), |lane| lane.name.clone());
        for lane in settings.lanes {
            lanes.insert(lane.name.clone(), LaneState::new(lane)?);
        }
        if lanes.is_empty() {
            lanes.insert(first_lane.clone(), LaneState::new(Lane::named(&first_lane))?);
        }
        Ok(Self {
            policy: settings.policy,
            depth: settings.depth,
            may_grow: settings.may_grow,
            first_lane,
            lanes,
            pool: Pool::default(),
            seen: Seen::default(),
            best: None,
            jobs: BTreeMap::new(),
            conditions: BTreeMap::new(),
            order: BTreeSet::new(),
            running: BTreeSet::new(),
            over: BTreeSet::new(),
            completed: 0,
            tallies: Tallies::default(),
            dependents: BTreeMap::new(),
            names: BTreeMap::new(),
            arrays: BTreeMap::new(),
            timers: BTreeSet::new(),
            stirred: VecDeque::new(),
            restless: false,
            next: JobId(1),
            reserved: (JobId(0), Box::default()),
            forecasts: Vec::new(),
            entries: Vec::new(),
            effects: Vec::new(),
        })
    }

    /// What has to be made durable, and what has to be done after that.
    pub fn take(&mut self) -> (Vec<Entry>, Vec<Effect>) {
        (std::mem::take(&mut self.entries), std::mem::take(&mut self.effects))
    }

    /// A job.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id).map(|job| &**job)
    }

    /// All jobs that are known, by number.
    pub fn jobs(&self) -> impl DoubleEndedIterator<Item = &Job> {
        self.jobs.values().map(AsRef::as_ref)
    }

    /// Jobs that wait for nodes, the first first.
    pub fn waiting(&self) -> impl Iterator<Item = &Job> {
        self.order.iter().map(|(_, id)| &*self.jobs[id])
    }

    /// Jobs that have nodes.
    pub fn running(&self) -> impl Iterator<Item = &Job> {
        self.running.iter().map(|id| &*self.jobs[id])
    }

    /// How many jobs are over and not forgotten.
    pub fn over(&self) -> usize {
        self.over.len()
    }

    /// The nodes.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The queues, by name.
    pub fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.values().map(|state| &state.lane)
    }

    /// The queue that jobs are in which name none.
    pub fn first_lane(&self) -> &str {
        &self.first_lane
    }

    /// The queue that a job is in.
    pub fn lane_name<'a>(&'a self, job: &'a Job) -> &'a str {
        job.spec().queue.as_deref().unwrap_or(&self.first_lane)
    }

    /// When the first jobs that do not fit start at the latest, as of the last pass.
    pub fn forecasts(&self) -> &[Forecast] {
        &self.forecasts
    }

    /// The number that the next job gets.
    pub fn next_id(&self) -> JobId {
        self.next
    }

    /// Whether all numbers that were given are below those that were reserved in this boot.
    pub fn within_reserve(&self) -> bool {
        self.next <= self.reserved.0
    }

    /// Reserves so many numbers from the next one on. The entry has to be durable before one of them is
    /// told.
    pub fn reserve(&mut self, now: Time, count: u64, boot: &str) -> Entry {
        let below = JobId(self.next.0.saturating_add(count));
        self.reserved = (below, boot.into());
        Entry { time: now, job: None, event: Event::Reserve { below, boot: boot.into() } }
    }

    /// After a replay: says in which boot of the machine this is. Numbers that were reserved in another
    /// may have been given to jobs of which nothing is left, and are not given again.
    pub fn boot_is(&mut self, boot: &str) {
        if *self.reserved.1 != *boot {
            self.next = self.next.max(self.reserved.0);
            self.reserved = (JobId(0), Box::default());
        }
    }

    /// Gives no number below this one.
    pub fn skip_to(&mut self, next: JobId) {
        self.next = self.next.max(next);
    }

    /// When [`Queue::tick`] has to be called at the latest.
    pub fn wake_at(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }

    fn known(&self, id: JobId) -> Result<&Job, QueueError> {
        self.job(id).ok_or(QueueError::UnknownJob { job: id })
    }

    /// The limit of an array, if the job is of one that has a limit.
    fn limited(job: &Job) -> Option<(JobId, u32)> {
        let ArrayElement { array, limit, .. } = job.submission.element?;
        Some((array, limit?))
    }

    /// The array that a job is of.
    fn array_of(job: &Job) -> Option<JobId> {
        job.submission.element.map(|element| element.array)
    }

    fn record(&mut self, time: Time, job: Option<JobId>, event: Event) {
        self.entries.push(Entry { time, job, event });
    }
}

#[cfg(test)]
mod tests;
