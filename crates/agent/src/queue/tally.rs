//! How many jobs there are, for the cluster's status, and the end of a cluster that nobody uses.
//!
//! Owns: counting, and [`Idle`], which decides when `queue.idleTimeoutSeconds` is over. It changes no
//! job. What is told of the cluster is told once a second at most.

use super::keeper::{Closed, Keeping};
use crate::broker::Overlay;
use crate::job::Jobs;
use quorate_contract::config::Program;
use quorate_contract::status::{BrokerState, NamedCounts, QUEUES_TOLD, QueueCounts};
use quorate_queue::{Counts, LaneCounts, Queue};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Changes that come closer together are counted as one.
const SETTLE: Duration = Duration::from_secs(1);

/// When a cluster without work is over. Pure: the time counts from any fixed moment.
#[derive(Clone, Copy, Debug)]
struct Idle {
    /// How long it may be without work; `None` for ever.
    limit: Option<Duration>,
    /// Since when it has been.
    since: Option<Duration>,
}

/// What comes of idleness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It stays as long as nothing changes.
    Stays,
    /// It stays until then, if no work comes.
    Until(Duration),
    /// It is over.
    Over,
}

impl Idle {
    fn new(limit: Option<Duration>) -> Self {
        Self { limit, since: None }
    }

    /// Whether there is work at `now`.
    fn see(&mut self, now: Duration, busy: bool) -> Verdict {
        let Some(limit) = self.limit else { return Verdict::Stays };
        if busy {
            self.since = None;
            return Verdict::Stays;
        }
        let end = *self.since.get_or_insert(now) + limit;
        if now >= end { Verdict::Over } else { Verdict::Until(end) }
    }
}

/// The queue's jobs by what became of them: all, and those of each named queue.
fn count(queue: &Queue) -> (QueueCounts, Vec<NamedCounts>) {
    let named = queue.lane_counts().into_iter().take(QUEUES_TOLD);
    (told(queue.counts()), named.map(|(name, counts)| named_counts(name, counts)).collect())
}

fn told(counts: Counts) -> QueueCounts {
    QueueCounts {
        pending: counts.pending as u64,
        running: counts.running as u64,
        completed: counts.completed as u64,
        failed: counts.failed as u64,
    }
}

fn named_counts(name: &str, counts: LaneCounts) -> NamedCounts {
    NamedCounts {
        name: name.to_owned(),
        jobs: told(counts.jobs),
        started: counts.started,
        ended_well: counts.completed,
        ended_badly: counts.failed,
        oldest: counts.oldest.map(|time| time.0),
    }
}

/// Starts it, on rank 0.
pub(super) fn start(keeping: &Keeping, jobs: &Jobs, overlay: &Overlay) {
    let (keeping, jobs, overlay) = (keeping.clone(), jobs.clone(), overlay.clone());
    tokio::spawn(async move {
        // Without a queue, or in a broker that leaves, there is nothing to count.
        let _ = tally(&keeping, &jobs, &overlay).await;
    });
}

async fn tally(keeping: &Keeping, jobs: &Jobs, overlay: &Overlay) -> Result<(), Closed> {
    let mut changes = keeping.changes();
    let mut trouble = keeping.trouble();
    let mut members = overlay.membership();
    let config = overlay.config();
    let limit = config.queue.idle_timeout_seconds.filter(|_| config.program == Program::None);
    let mut idle = Idle::new(limit.map(|seconds| Duration::from_secs(seconds.into())));
    let begun = Instant::now();
    loop {
        changes.mark_unchanged();
        let counted = keeping.look(count).await;
        // A queue that could not be opened counts nothing, and says why.
        let (counts, queues) = counted.as_ref().cloned().unwrap_or_default();
        let why = trouble.borrow_and_update().clone();
        if counted.is_ok() || why.is_some() {
            overlay.jobs_counted(counts, queues, why).await.map_err(|_| Closed)?;
        }
        counted?;
        let up = members.borrow_and_update().state == BrokerState::Run;
        // What was started beside the queue is work too, and says nothing when it ends.
        let beside = jobs.leads();
        let busy = !up || beside || counts.pending + counts.running > 0;
        let wake = match idle.see(begun.elapsed(), busy) {
            Verdict::Over => {
                let seconds = limit.unwrap_or_default();
                let reason = format!("there was no job for {seconds} s (queue.idleTimeoutSeconds)");
                tracing::info!(reason, "the cluster ends");
                return overlay.finish(reason).await.map_err(|_| Closed);
            }
            Verdict::Until(end) => Some(begun + end),
            Verdict::Stays => None,
        };
        sleep(SETTLE).await;
        let again = (beside && limit.is_some()).then(|| Instant::now() + SETTLE);
        let wake = async {
            match [wake, again].into_iter().flatten().min() {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = changes.changed() => changed.map_err(|_| Closed)?,
            changed = trouble.changed() => changed.map_err(|_| Closed)?,
            changed = members.changed(), if limit.is_some() => changed.map_err(|_| Closed)?,
            () = wake => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_cluster_without_work_is_over_when_its_time_is() {
        let mut idle = Idle::new(Some(at(60)));
        assert_eq!(idle.see(at(5), false), Verdict::Until(at(65)));
        assert_eq!(idle.see(at(64), false), Verdict::Until(at(65)));
        assert_eq!(idle.see(at(65), false), Verdict::Over);
    }

    #[test]
    fn work_begins_the_time_anew() {
        let mut idle = Idle::new(Some(at(60)));
        assert_eq!(idle.see(at(0), false), Verdict::Until(at(60)));
        assert_eq!(idle.see(at(59), true), Verdict::Stays);
        assert_eq!(idle.see(at(200), true), Verdict::Stays, "work is never idle");
        assert_eq!(idle.see(at(201), false), Verdict::Until(at(261)));
    }

    #[test]
    fn without_a_limit_a_cluster_stays() {
        let mut idle = Idle::new(None);
        assert_eq!(idle.see(at(0), false), Verdict::Stays);
        assert_eq!(idle.see(at(1_000_000), false), Verdict::Stays);
    }
}
