//! Taking jobs: all that can be known to be wrong is said at once, and nothing is taken then.

use super::{Queue, QueueError};
use crate::event::{Event, Submission};
use crate::id::{ArrayElement, ArraySpan, JobId};
use crate::job::Job;
use crate::jobspec::{Condition, Jobspec, Request};
use crate::pool::{Pool, Want};
use crate::time::Time;
use quorate_hostlist::IdSet;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most jobs of one submission.
const MAX_AT_ONCE: u64 = 1_000_000;

/// How many jobs one specification makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copies {
    /// One.
    One,
    /// Independent jobs that are all the same.
    Many(u32),
    /// Independent jobs, each with a number of its own in place of `{cc}`.
    Each {
        /// The numbers.
        numbers: IdSet,
    },
    /// An array: one job for each index.
    Array {
        /// The indices.
        indices: IdSet,
        /// How many of them may run at once.
        limit: Option<u32>,
    },
}

impl Copies {
    fn count(&self) -> u64 {
        match self {
            Self::One => 1,
            Self::Many(count) => (*count).into(),
            Self::Each { numbers } => numbers.len() as u64,
            Self::Array { indices, .. } => indices.len() as u64,
        }
    }

    /// Place in an array and number among copies of each job.
    fn elements(&self, first: JobId) -> Box<dyn Iterator<Item = Place> + '_> {
        match self {
            Self::One => Box::new(std::iter::once((None, None))),
            Self::Many(count) => Box::new((0..*count).map(|_| (None, None))),
            Self::Each { numbers } => Box::new(numbers.iter().map(|number| (None, Some(number)))),
            Self::Array { indices, limit } => {
                let span = ArraySpan::of(indices);
                Box::new(indices.iter().map(move |index| {
                    (Some(ArrayElement { array: first, index, limit: *limit, span }), None)
                }))
            }
        }
    }
}

type Place = (Option<ArrayElement>, Option<u32>);

impl Queue {
    /// Takes a job or several; answers the number of the first, the others follow it.
    pub fn submit(
        &mut self,
        now: Time,
        user: u32,
        mut spec: Jobspec,
        copies: &Copies,
    ) -> Result<JobId, QueueError> {
        let count = copies.count();
        if count == 0 || count > MAX_AT_ONCE {
            return Err(QueueError::Count { count, limit: MAX_AT_ONCE });
        }
        spec.time_limit = self.admit(&spec)?;
        let first = self.next;
        let plain = Arc::new(Submission { user, element: None, cc: None, spec: Arc::new(spec) });
        for (element, cc) in copies.elements(first) {
            let id = self.next;
            self.next = JobId(id.0 + 1);
            let submission = match (element, cc) {
                (None, None) => Arc::clone(&plain),
                _ => Arc::new(Submission { user, element, cc, spec: Arc::clone(&plain.spec) }),
            };
            let event = if id == first {
                Event::Submit(Arc::clone(&submission))
            } else {
                Event::Copy(Box::new(submission.copy_of(first)))
            };
            self.record(now, Some(id), event);
            self.enter(Job::new(id, now, submission));
            self.stirred.push_back(id);
        }
        self.settle(now);
        Ok(first)
    }

    /// Takes jobs back that nobody was told of, because their entries could not be made durable.
    pub fn retract(&mut self, jobs: &BTreeSet<JobId>) {
        for id in jobs {
            self.forget(*id);
        }
        self.entries.retain(|entry| entry.job.is_none_or(|id| !jobs.contains(&id)));
        self.effects.retain(|effect| !jobs.contains(&effect.job()));
        self.restless = true;
    }

    /// Whether more brokers may come than are known: what does not fit then waits.
    pub fn set_may_grow(&mut self, may_grow: bool) {
        self.may_grow = may_grow;
    }

    /// Whether a job would be taken; answers the time limit that it would get.
    pub fn admit(&mut self, spec: &Jobspec) -> Result<Option<u64>, QueueError> {
        spec.check().map_err(QueueError::Jobspec)?;
        let limit = self.lane_of(spec)?.lane.admit(spec)?;
        for dependency in &spec.dependencies {
            let known = self.jobs.contains_key(&dependency.job);
            // A purged job is over: for who waits for its end, that is an answer.
            let over = dependency.on == Condition::AfterAny && dependency.job < self.next;
            if !known && !over {
                return Err(QueueError::UnknownDependency { job: dependency.job });
            }
        }
        self.feasible(spec)?;
        Ok(limit)
    }

    pub(super) fn feasible(&mut self, spec: &Jobspec) -> Result<(), QueueError> {
        if self.may_grow {
            return Ok(());
        }
        let constraint = spec
            .constraint
            .as_ref()
            .map(|constraint| constraint.compile().expect("the specification was checked before"));
        if self.best.is_none() {
            self.best = Some(self.pool.at_its_best());
        }
        let lane = self.lane_of(spec)?;
        let want = Want {
            request: &spec.request,
            constraint: constraint.as_ref(),
            lane: lane.condition.as_ref(),
        };
        let best = self.best.as_ref().expect("it was made above");
        if best.place(want).is_some() {
            return Ok(());
        }
        let conditions = constraint.is_some() || lane.condition.is_some();
        Err(QueueError::Infeasible { reason: shortage(best, &spec.request, conditions) })
    }
}

/// What an empty cluster is short of, in the words of the request.
fn shortage(pool: &Pool, request: &Request, conditions: bool) -> String {
    let (mut nodes, mut cores, mut gpus) = (0_u64, 0, 0);
    for (offer, _) in pool.nodes() {
        nodes += 1;
        cores += offer.cores.len() as u64;
        gpus += offer.gpus.len() as u64;
    }
    let tasks = u64::from(request.tasks);
    let asked_cores = tasks * u64::from(request.cores_per_task);
    let asked_gpus = tasks * u64::from(request.gpus_per_task);
    let asked_nodes = request.nodes.map_or(1, |(fewest, _)| u64::from(fewest));
    for (asked, there, what) in [
        (asked_nodes, nodes, "nodes"),
        (asked_cores, cores, "cores"),
        (asked_gpus, gpus, "accelerators"),
    ] {
        if asked > there {
            return format!("it asks for {asked} {what}, and there are {there}");
        }
    }
    let mut each = vec![format!("{} cores", request.cores_per_task)];
    if request.gpus_per_task > 0 {
        each.push(format!("{} accelerators", request.gpus_per_task));
    }
    if request.memory_per_task > 0 || request.memory_per_node > 0 {
        let node = request.memory_per_node;
        each.push(format!("{} bytes of memory (and {node} on each node)", request.memory_per_task));
    }
    let which = if conditions { "the nodes that its constraints leave" } else { "the nodes" };
    format!("{which} do not hold {tasks} tasks of {} each", each.join(", "))
}
