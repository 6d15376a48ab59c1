//! The jobs of queues by the queue's name, added up over all clusters whose launcher can be reached.
//!
//! Owns: which names are labels. There are no more of them than [`NAMES`], however many clusters come
//! and go; what is beyond is [`OTHER`].

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use quorate_contract::status::{NamedCounts, QueueCounts};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The most names of queues that are labels. Most clusters call theirs `default`.
const NAMES: usize = 100;
/// The label of all others. No queue can be called so: names are labels of DNS (RFC 1123).
const OTHER: &str = "_other";

/// All queues of all clusters.
#[derive(Debug, Default)]
pub(super) struct Queues(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    clusters: HashMap<String, Cluster>,
    totals: BTreeMap<String, Totals>,
}

/// What one launcher told last.
#[derive(Debug, Default)]
struct Cluster {
    silent: bool,
    queues: Vec<NamedCounts>,
}

/// What has happened in the queues of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    started: u64,
    ended_well: u64,
    ended_badly: u64,
}

/// What is in the queues of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Now {
    jobs: QueueCounts,
    oldest: Option<u64>,
}

impl Queues {
    /// A launcher told this. Of one that is `inherited` another controller has counted what was before.
    pub(super) fn told(&self, cluster: &str, inherited: bool, queues: &[NamedCounts]) {
        let mut told = self.lock();
        let known = told.clusters.contains_key(cluster);
        let before = told.clusters.remove(cluster).unwrap_or_default().queues;
        for queue in queues {
            let last = before.iter().find(|last| last.name == queue.name);
            let last = last.or_else(|| (inherited && !known).then_some(queue));
            let grown = |of: fn(&NamedCounts) -> u64| {
                let (now, before) = (of(queue), last.map_or(0, of));
                // A launcher that was started again counts from zero.
                if now >= before { now - before } else { now }
            };
            let label = told.label(&queue.name).to_owned();
            let totals = told.totals.entry(label).or_default();
            totals.started += grown(|queue| queue.started);
            totals.ended_well += grown(|queue| queue.ended_well);
            totals.ended_badly += grown(|queue| queue.ended_badly);
        }
        let now = Cluster { silent: false, queues: queues.to_vec() };
        told.clusters.insert(cluster.to_owned(), now);
    }

    /// A launcher can no longer be reached. What it had counted is remembered: it may come back.
    pub(super) fn silent(&self, cluster: &str) {
        if let Some(cluster) = self.lock().clusters.get_mut(cluster) {
            cluster.silent = true;
        }
    }

    /// A launcher is gone.
    pub(super) fn gone(&self, cluster: &str) {
        self.lock().clusters.remove(cluster);
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn label<'a>(&self, name: &'a str) -> &'a str {
        let room = self.totals.len() < NAMES || self.totals.contains_key(name);
        if room { name } else { OTHER }
    }

    /// What is there now, by label. A name that was once a label stays one.
    fn now(&self) -> BTreeMap<&str, Now> {
        let mut all: BTreeMap<&str, Now> =
            self.totals.keys().map(|label| (label.as_str(), Now::default())).collect();
        let reached = self.clusters.values().filter(|cluster| !cluster.silent);
        for queue in reached.flat_map(|cluster| &cluster.queues) {
            let now = all.entry(self.label(&queue.name)).or_default();
            now.jobs.pending += queue.jobs.pending;
            now.jobs.running += queue.jobs.running;
            now.jobs.completed += queue.jobs.completed;
            now.jobs.failed += queue.jobs.failed;
            now.oldest = now.oldest.into_iter().chain(queue.oldest).min();
        }
        all
    }
}

/// For how many seconds the oldest has waited; clocks of two machines may differ.
fn waited(oldest: Option<u64>, now: u64) -> f64 {
    let millis = oldest.map_or(0, |oldest| now.saturating_sub(oldest));
    // Exact up to some hundred thousand years.
    millis as f64 / 1000.0
}

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let told = self.lock();
        let all = told.now();
        let mut jobs = encoder.encode_descriptor(
            "queue_jobs",
            "Jobs in the queues of clusters whose launcher can be reached, by what they do",
            None,
            MetricType::Gauge,
        )?;
        for (name, Now { jobs: QueueCounts { pending, running, completed, failed }, .. }) in &all {
            for (state, count) in [
                ("pending", pending),
                ("running", running),
                ("completed", completed),
                ("failed", failed),
            ] {
                let count = i64::try_from(*count).unwrap_or(i64::MAX);
                ConstGauge::new(count)
                    .encode(jobs.encode_family(&[("queue", *name), ("state", state)])?)?;
            }
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let clock = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let mut oldest = encoder.encode_descriptor(
            "queue_oldest_wait",
            "How long the job has waited that waits for nodes the longest, since it was submitted",
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        for (name, now) in &all {
            ConstGauge::new(waited(now.oldest, clock))
                .encode(oldest.encode_family(&[("queue", *name)])?)?;
        }
        let mut started = encoder.encode_descriptor(
            "queue_jobs_started",
            "Jobs that were started",
            None,
            MetricType::Counter,
        )?;
        for (name, totals) in &told.totals {
            ConstCounter::new(totals.started)
                .encode(started.encode_family(&[("queue", name.as_str())])?)?;
        }
        let mut ended = encoder.encode_descriptor(
            "queue_jobs_ended",
            "Jobs that ended, by whether with code 0",
            None,
            MetricType::Counter,
        )?;
        for (name, totals) in &told.totals {
            for (result, count) in
                [("completed", totals.ended_well), ("failed", totals.ended_badly)]
            {
                ConstCounter::new(count).encode(
                    ended.encode_family(&[("queue", name.as_str()), ("result", result)])?,
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str, pending: u64, started: u64) -> NamedCounts {
        let jobs = QueueCounts { pending, running: 1, completed: 7, failed: 3 };
        let name = name.to_owned();
        NamedCounts { name, jobs, started, ended_badly: 1, ..NamedCounts::default() }
    }

    fn pending(queues: &Queues, name: &str) -> Option<u64> {
        queues.lock().now().get(name).map(|now| now.jobs.pending)
    }

    fn started(queues: &Queues, name: &str) -> u64 {
        queues.lock().totals[name].started
    }

    #[test]
    fn jobs_add_up_by_the_name_of_their_queue_and_leave_with_their_cluster() {
        let queues = Queues::default();
        queues.told("a", false, &[queue("short", 5, 0), queue("long", 1, 0)]);
        queues.told("b", false, &[queue("short", 2, 0)]);
        queues.told("a", false, &[queue("short", 3, 0), queue("long", 1, 0)]);
        assert_eq!((pending(&queues, "short"), pending(&queues, "long")), (Some(5), Some(1)));
        queues.silent("a");
        assert_eq!((pending(&queues, "short"), pending(&queues, "long")), (Some(2), Some(0)));
        queues.told("a", false, &[queue("short", 3, 0)]);
        queues.gone("b");
        queues.gone("b");
        assert_eq!(pending(&queues, "short"), Some(3));
    }

    #[test]
    fn starts_are_counted_once_whoever_dies_meanwhile() {
        let queues = Queues::default();
        // Another controller has counted 100; a launcher that begins again counts from zero.
        for count in [100, 130, 5, 6] {
            queues.told("a", true, &[queue("short", 0, count)]);
        }
        queues.silent("a");
        queues.told("a", true, &[queue("short", 0, 9)]);
        assert_eq!(started(&queues, "short"), 30 + 9);
        // A queue that is new in a known cluster is counted from its beginning.
        queues.told("a", true, &[queue("short", 0, 9), queue("new", 0, 2)]);
        assert_eq!(started(&queues, "new"), 2);
    }

    #[test]
    fn names_of_queues_are_labels_up_to_a_bound() {
        let queues = Queues::default();
        for at in 0..NAMES + 50 {
            queues.told(&format!("c{at}"), false, &[queue(&format!("q{at}"), 1, 1)]);
        }
        assert_eq!(queues.lock().now().len(), NAMES + 1);
        assert_eq!((pending(&queues, OTHER), started(&queues, OTHER)), (Some(50), 50));
        assert_eq!(pending(&queues, "q0"), Some(1));
    }

    #[test]
    fn the_longest_wait_is_that_of_the_oldest_of_all_clusters() {
        let queues = Queues::default();
        let waits = |oldest| NamedCounts { oldest: Some(oldest), ..queue("short", 1, 0) };
        queues.told("a", false, &[waits(9_000)]);
        queues.told("b", false, &[waits(4_000)]);
        queues.told("c", false, &[queue("short", 0, 0)]);
        let oldest = queues.lock().now()["short"].oldest;
        assert!((waited(oldest, 10_500) - 6.5).abs() < 1e-9);
        assert!(waited(oldest, 3_000).abs() < 1e-9, "a clock that is behind");
        assert!(waited(None, 3_000).abs() < 1e-9);
    }
}
