//! What launchers tell of their overlays and queues, added up over all clusters.

use super::queues::Queues;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use quorate_contract::status::NamedCounts;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// From a node's own loopback to an ocean.
const ROUND_TRIP_BUCKETS: [f64; 9] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.05, 0.25, 1.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DirectionLabel {
    direction: &'static str,
}

/// What one launcher told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LauncherSample {
    /// Brokers connected, the launcher included.
    pub online: u32,
    /// Whether the launcher began before anybody here asked: another controller has counted what it
    /// had moved until then.
    pub inherited: bool,
    /// The jobs of each of its queues.
    pub queues: Vec<NamedCounts>,
    /// Bytes that the launcher's broker received since its start.
    pub received: u64,
    /// Bytes that it sent.
    pub sent: u64,
    /// The round trip to its slowest child, if it was measured.
    pub round_trip: Option<Duration>,
}

/// Sums over all launchers that can be reached.
#[derive(Debug, Default)]
pub struct Launchers {
    online: Gauge,
    queues: Arc<Queues>,
    round_trips: RoundTrips,
    bytes: Family<DirectionLabel, Counter>,
    last: Mutex<HashMap<String, LauncherSample>>,
}

#[derive(Clone, Debug)]
struct RoundTrips(Histogram);

impl Default for RoundTrips {
    fn default() -> Self {
        Self(Histogram::new(ROUND_TRIP_BUCKETS))
    }
}

impl Launchers {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let launchers = Self::default();
        registry.register(
            "brokers_online",
            "Brokers that are connected, over all clusters whose launcher can be reached",
            launchers.online.clone(),
        );
        registry.register_collector(Box::new(Arc::clone(&launchers.queues)));
        registry.register_with_unit(
            "overlay_round_trip",
            "Round trips between launchers and their slowest child",
            Unit::Seconds,
            launchers.round_trips.0.clone(),
        );
        registry.register_with_unit(
            "overlay",
            "Bytes that launchers received and sent over their overlays",
            Unit::Bytes,
            launchers.bytes.clone(),
        );
        launchers
    }

    /// A launcher told this; `cluster` is its UID. Counters go on when a launcher's process starts
    /// again and counts from zero.
    pub fn told(&self, cluster: &str, sample: &LauncherSample) {
        if let Some(round_trip) = sample.round_trip {
            self.round_trips.0.observe(round_trip.as_secs_f64());
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = || {
            let counted = sample.inherited.then(|| sample.clone());
            LauncherSample { online: 0, ..counted.unwrap_or_default() }
        };
        let before = last.insert(cluster.to_owned(), sample.clone()).unwrap_or_else(begin);
        let grown = |now: u64, before: u64| if now >= before { now - before } else { now };
        let add = |direction, bytes| {
            self.bytes.get_or_create(&DirectionLabel { direction }).inc_by(bytes);
        };
        add("received", grown(sample.received, before.received));
        add("sent", grown(sample.sent, before.sent));
        self.online.inc_by(i64::from(sample.online) - i64::from(before.online));
        self.queues.told(cluster, sample.inherited, &sample.queues);
    }

    /// A launcher can no longer be reached. What it had counted is remembered: it may come back.
    pub fn silent(&self, cluster: &str) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = last.get_mut(cluster) {
            self.online.dec_by(i64::from(std::mem::take(&mut before.online)));
        }
        self.queues.silent(cluster);
    }

    /// A launcher is gone, or nobody asks it any more.
    pub fn gone(&self, cluster: &str) {
        self.silent(cluster);
        self.queues.gone(cluster);
        self.last.lock().unwrap_or_else(PoisonError::into_inner).remove(cluster);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(online: u32, received: u64) -> LauncherSample {
        LauncherSample { online, received, ..LauncherSample::default() }
    }

    #[test]
    fn brokers_add_up_and_leave_with_their_cluster() {
        let launchers = Launchers::default();
        launchers.told("a", &sample(4, 0));
        launchers.told("b", &sample(16, 0));
        launchers.told("a", &sample(3, 0));
        assert_eq!(launchers.online.get(), 19);
        launchers.gone("b");
        launchers.gone("b");
        assert_eq!(launchers.online.get(), 3);
    }

    #[test]
    fn a_launcher_that_counts_from_zero_again_takes_nothing_away() {
        let launchers = Launchers::default();
        for received in [100, 250, 20, 30] {
            launchers.told("a", &sample(1, received));
        }
        assert_eq!(received(&launchers), 280);
    }

    fn received(launchers: &Launchers) -> u64 {
        launchers.bytes.get_or_create(&DirectionLabel { direction: "received" }).get()
    }

    #[test]
    fn a_launcher_that_was_silent_for_a_while_is_not_counted_twice() {
        let launchers = Launchers::default();
        launchers.told("a", &sample(4, 1_000));
        launchers.silent("a");
        assert_eq!(launchers.online.get(), 0);
        launchers.told("a", &sample(4, 1_100));
        assert_eq!((launchers.online.get(), received(&launchers)), (4, 1_100));
    }

    #[test]
    fn what_the_controller_before_has_counted_is_left_to_it() {
        let launchers = Launchers::default();
        let inherited = |received| LauncherSample { inherited: true, ..sample(4, received) };
        launchers.told("a", &inherited(1_000));
        launchers.told("a", &inherited(1_250));
        assert_eq!((launchers.online.get(), received(&launchers)), (4, 250));
    }
}
