//! How many MiniClusters are in which state and condition: counted at each scrape from the
//! controller's cache, so that nothing can drift.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use quorate_api::status::MiniClusterStatus;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{PoisonError, RwLock};

/// Where the numbers come from.
pub(super) type Source = Box<dyn Fn() -> Census + Send + Sync>;

/// MiniClusters by state, and by condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    states: BTreeMap<String, i64>,
    conditions: BTreeMap<(String, String), i64>,
}

impl Census {
    /// Counts MiniClusters with these statuses, one of which may not have been written yet.
    pub fn of(statuses: impl IntoIterator<Item = Option<MiniClusterStatus>>) -> Self {
        let mut census = Self::default();
        for status in statuses {
            let state = status.as_ref().and_then(|status| status.state);
            // One that nobody has looked at yet has no state.
            let state = state.map_or_else(|| "Unknown".to_owned(), |state| format!("{state:?}"));
            *census.states.entry(state).or_default() += 1;
            for condition in status.into_iter().flat_map(|status| status.conditions) {
                let key = (condition.type_, condition.status);
                *census.conditions.entry(key).or_default() += 1;
            }
        }
        census
    }
}

/// Holds the source, and asks it at each scrape.
#[derive(Default)]
pub(super) struct Slot(RwLock<Option<Source>>);

impl Slot {
    pub(super) fn set(&self, source: Option<Source>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = source;
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

impl Collector for Slot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let source = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(census) = source.as_ref().map(|count| count()) else { return Ok(()) };
        let mut states = encoder.encode_descriptor(
            "miniclusters",
            "MiniClusters by the state that `kubectl get` shows",
            None,
            MetricType::Gauge,
        )?;
        for (state, count) in &census.states {
            let labels = [("state", state.as_str())];
            ConstGauge::new(*count).encode(states.encode_family(&labels)?)?;
        }
        let mut conditions = encoder.encode_descriptor(
            "conditions",
            "MiniClusters that have a condition with this status",
            None,
            MetricType::Gauge,
        )?;
        for ((kind, status), count) in &census.conditions {
            let labels = [("type", kind.as_str()), ("status", status.as_str())];
            ConstGauge::new(*count).encode(conditions.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
