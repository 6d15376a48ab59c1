//! Which waiting jobs start now: priority order, with or without EASY back-fill
//! (docs/spec/scheduling.md).
//!
//! Pure: it is given the waiting jobs in their order, what is free, and when what runs ends at the
//! latest. The first job of a queue that does not fit gets a reservation: the earliest moment at
//! which it fits if every running job uses up its time. Jobs behind it may start before it only if
//! they cannot delay that: they end before the moment, or they take nothing of what was reserved.

use crate::constraint::Compiled;
use crate::id::JobId;
use crate::jobspec::Request;
use crate::pool::{Allocation, Pool, Want};
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Whether jobs may overtake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// No: the first that does not fit stops its queue.
    Fifo,
    /// Yes, if that delays no first job.
    #[default]
    Easy,
}

/// When a waiting job starts if every running job uses up its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// The job.
    pub job: JobId,
    /// The moment; [`Time::NEVER`] if it waits for a job without a time limit.
    pub start: Time,
}

/// A job that waits for nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting<'a> {
    pub(crate) job: JobId,
    /// Which queue, as a number.
    pub(crate) lane: u32,
    pub(crate) request: &'a Request,
    pub(crate) constraint: Option<&'a Compiled>,
    pub(crate) lane_constraint: Option<&'a Compiled>,
    /// Its time limit in seconds.
    pub(crate) limit: Option<u64>,
}

impl<'a> Waiting<'a> {
    fn want(&self) -> Want<'a> {
        Want { request: self.request, constraint: self.constraint, lane: self.lane_constraint }
    }

    fn end(&self, start: Time) -> Time {
        self.limit.map_or(Time::NEVER, |seconds| start.after_seconds(seconds))
    }
}

/// A job that has nodes, and when it ends at the latest.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) job: JobId,
    pub(crate) end: Time,
}

/// What a pass decided.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    /// Jobs that start, in order.
    pub(crate) starts: Vec<(JobId, Arc<Allocation>)>,
    /// What was reserved for those that come first and do not fit.
    pub(crate) forecasts: Vec<Forecast>,
}

/// Allocations as jobs have had them: another job that gets the same shares it, as most jobs of many do.
#[derive(Debug, Default)]
pub(crate) struct Seen(HashSet<Arc<Allocation>>);

impl Seen {
    /// How many are kept; then it begins anew.
    const MOST: usize = 4096;

    pub(crate) fn share(&mut self, allocation: Allocation) -> Arc<Allocation> {
        if let Some(seen) = self.0.get(&allocation) {
            return Arc::clone(seen);
        }
        if self.0.len() >= Self::MOST {
            self.0.clear();
        }
        let allocation = Arc::new(allocation);
        self.0.insert(Arc::clone(&allocation));
        allocation
    }
}

/// What is kept for the first jobs that do not fit.
struct Reserved {
    /// The earliest of their moments.
    until: Time,
    /// What is free now and still free at all of those moments with those jobs running.
    beyond: Pool,
}

/// Decides once. `running` holds everything that has nodes in `pool`; `depth` is how many waiting jobs
/// are looked at beyond the first that does not fit. `seen` changes no decision.
pub(crate) fn pass<'a>(
    policy: Policy,
    pool: &mut Pool,
    waiting: impl Iterator<Item = Waiting<'a>>,
    mut running: Vec<Running>,
    depth: usize,
    now: Time,
    seen: &mut Seen,
) -> Decision {
    let mut decision = Decision::default();
    let mut reserved: Option<Reserved> = None;
    let mut stopped: BTreeSet<u32> = BTreeSet::new();
    let mut overtaken = 0;
    for job in waiting {
        if !pool.has_room() || overtaken > depth {
            break;
        }
        let blocked = stopped.contains(&job.lane);
        if blocked && policy == Policy::Fifo {
            continue;
        }
        let end = job.end(now);
        let place = match &reserved {
            None => pool.place(job.want()),
            Some(kept) if end <= kept.until && kept.until != Time::NEVER => pool.place(job.want()),
            Some(kept) => kept.beyond.place(job.want()),
        };
        if let Some(allocation) = place {
            let allocation = seen.share(allocation);
            if let Some(kept) = &mut reserved {
                kept.beyond.withhold(&allocation);
            }
            pool.take(job.job, Arc::clone(&allocation))
                .expect("what was placed is free, and a waiting job has no nodes");
            running.push(Running { job: job.job, end });
            decision.starts.push((job.job, allocation));
            continue;
        }
        overtaken += 1;
        if blocked {
            continue;
        }
        // A job that does not fit even when all is free waits for a node: nobody waits behind it.
        let Some((start, after)) = reserve(pool, &job, &mut running, now) else { continue };
        stopped.insert(job.lane);
        decision.forecasts.push(Forecast { job: job.job, start });
        reserved = Some(match reserved {
            None => Reserved { until: start, beyond: pool.shared_with(&after) },
            Some(kept) => {
                Reserved { until: kept.until.min(start), beyond: kept.beyond.shared_with(&after) }
            }
        });
    }
    decision
}

/// The earliest moment at which a job fits, and what is free then with the job on its nodes.
fn reserve(
    pool: &Pool,
    job: &Waiting<'_>,
    running: &mut [Running],
    now: Time,
) -> Option<(Time, Pool)> {
    running.sort_unstable_by_key(|each| (each.end, each.job));
    let mut then = pool.clone();
    let mut moment = now;
    for each in running.iter() {
        // All that ends at one moment is free before anybody looks.
        if each.end > moment {
            if let Some(allocation) = then.place(job.want()) {
                then.withhold(&allocation);
                return Some((moment, then));
            }
            moment = each.end;
        }
        then.give_back(each.job).ok()?;
    }
    let allocation = then.place(job.want())?;
    then.withhold(&allocation);
    Some((moment, then))
}
