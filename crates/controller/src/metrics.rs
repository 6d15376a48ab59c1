//! What the controller counts (`docs/spec/metrics.md`).
//!
//! Owns: names, labels and buckets, and the text that Prometheus scrapes. Must not: have a label per
//! object, whose number nothing bounds; what one MiniCluster does is in its status and events.

mod census;
mod launchers;
mod milestones;
mod process;
mod queues;

pub use census::Census;
pub use launchers::{LauncherSample, Launchers};
pub use milestones::{Ended, Milestones, Phase, ended};

use crate::request::Call;
use prometheus_client::encoding::{EncodeLabelSet, prometheus_text, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;
use std::time::Duration;

/// Start-up takes from parts of a second to an hour in a queue; runs take days.
const PHASE_BUCKETS: [f64; 16] = [
    0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0,
    21_600.0, 86_400.0,
];
/// A reconciliation is a few requests to the API.
const RECONCILE_BUCKETS: [f64; 12] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
/// A request to the API; its server gives up after a minute.
const REQUEST_BUCKETS: [f64; 10] = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PhaseLabel {
    phase: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CauseLabel {
    cause: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct VerbLabel {
    verb: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    resource: String,
    code: String,
}

/// Why a whole cluster began again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartCause {
    /// A failure, counted against `failurePolicy.maxRestarts`.
    Failure,
    /// Kubernetes took a pod away: drain, preemption, a lost node.
    Disruption,
}

/// The text formats that are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text 0.0.4: what every scraper and `promtool` read.
    Prometheus,
    /// OpenMetrics 1.0, for those that ask for it.
    OpenMetrics,
}

impl Format {
    /// What a scraper accepts, from its `Accept` header.
    pub fn accepted(accept: Option<&str>) -> Self {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Self::OpenMetrics,
            _ => Self::Prometheus,
        }
    }

    /// The `Content-Type` of the answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// All metrics of a controller; shared behind an `Arc`.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    phases: Family<PhaseLabel, Histogram, fn() -> Histogram>,
    restarts: Family<CauseLabel, Counter>,
    reconciles: Histogram,
    reconcile_errors: Family<ReasonLabel, Counter>,
    /// MiniClusters that wait for their reconciliation.
    pub queue_depth: Gauge,
    /// Reconciliations at work.
    pub reconciles_active: Gauge,
    requests: Family<RequestLabels, Counter>,
    request_durations: Family<VerbLabel, Histogram, fn() -> Histogram>,
    leads: Gauge,
    terms_lost: Family<ReasonLabel, Counter>,
    census: Arc<census::Slot>,
    launchers: Launchers,
}

impl Metrics {
    /// Registers everything, with the metrics of this process.
    pub fn new() -> Self {
        let mut metrics = Self::without_process();
        metrics.registry.register_collector(Box::new(process::Process::of_this()));
        metrics
    }

    /// All but the metrics of the process, which no test can foretell.
    fn without_process() -> Self {
        let mut registry = Registry::default();
        let r = registry.sub_registry_with_prefix("quorate");
        let phases = Family::new_with_constructor((|| Histogram::new(PHASE_BUCKETS)) as fn() -> _);
        r.register_with_unit(
            "phase_duration",
            "How long a phase of the first attempt of a MiniCluster took, from the end of the phase before it",
            Unit::Seconds,
            phases.clone(),
        );
        let restarts = Family::default();
        r.register("restarts", "Times that a whole cluster began again", restarts.clone());
        let reconciles = Histogram::new(RECONCILE_BUCKETS);
        r.register_with_unit(
            "reconcile_duration",
            "How long a reconciliation took, failed ones included",
            Unit::Seconds,
            reconciles.clone(),
        );
        let reconcile_errors = Family::default();
        r.register("reconcile_errors", "Failed reconciliations", reconcile_errors.clone());
        let queue_depth = Gauge::default();
        r.register(
            "reconcile_queue_depth",
            "MiniClusters that wait for their reconciliation",
            queue_depth.clone(),
        );
        let reconciles_active = Gauge::default();
        r.register("reconciles_active", "Reconciliations at work", reconciles_active.clone());
        let requests = Family::default();
        r.register(
            "api_requests",
            "Requests to the Kubernetes API, by the code of their answer",
            requests.clone(),
        );
        let request_durations =
            Family::new_with_constructor((|| Histogram::new(REQUEST_BUCKETS)) as fn() -> _);
        r.register_with_unit(
            "api_request_duration",
            "How long the Kubernetes API took to answer; watches until their first byte",
            Unit::Seconds,
            request_durations.clone(),
        );
        let leads = Gauge::default();
        r.register("leader", "1 in the controller that holds the leader lease", leads.clone());
        let terms_lost = Family::default();
        r.register("leader_losses", "Times that the leader lease was lost", terms_lost.clone());
        r.register(
            "build",
            "What runs",
            Info::new([("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
        );
        let launchers = Launchers::register(r);
        let census: Arc<census::Slot> = Arc::default();
        r.register_collector(Box::new(Arc::clone(&census)));
        Self {
            registry,
            phases,
            restarts,
            reconciles,
            reconcile_errors,
            queue_depth,
            reconciles_active,
            requests,
            request_durations,
            leads,
            terms_lost,
            census,
            launchers,
        }
    }

    /// Observes the phases that have ended between two looks at one MiniCluster.
    pub fn milestones(&self, before: &Milestones, after: &Milestones) {
        for ended in ended(before, after) {
            let label = PhaseLabel { phase: ended.phase.name() };
            self.phases.get_or_create(&label).observe(ended.took().as_secs_f64());
        }
    }

    /// A whole cluster began again.
    pub fn restarted(&self, cause: RestartCause) {
        let cause = match cause {
            RestartCause::Failure => "failure",
            RestartCause::Disruption => "disruption",
        };
        self.restarts.get_or_create(&CauseLabel { cause }).inc();
    }

    /// A reconciliation ended; `failed` is the reason of its error.
    pub fn reconciled(&self, took: Duration, failed: Option<&'static str>) {
        self.reconciles.observe(took.as_secs_f64());
        if let Some(reason) = failed {
            self.reconcile_errors.get_or_create(&ReasonLabel { reason }).inc();
        }
    }

    /// A request to the API ended with this status, or with a word when no status came.
    pub fn requested(&self, call: &Call, code: &str, took: Duration) {
        let labels = RequestLabels {
            verb: call.verb,
            resource: call.resource.clone(),
            code: code.to_owned(),
        };
        self.requests.get_or_create(&labels).inc();
        let verb = VerbLabel { verb: call.verb };
        self.request_durations.get_or_create(&verb).observe(took.as_secs_f64());
    }

    /// Whether this process leads.
    pub fn leads(&self, leads: bool) {
        self.leads.set(i64::from(leads));
    }

    /// A term as leader ended against its will.
    pub fn term_lost(&self, reason: &'static str) {
        self.terms_lost.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Counts MiniClusters at every scrape by asking `source`, until the next call. A controller that
    /// stops leading passes `None`, since its caches are no longer true.
    pub fn count_miniclusters(&self, source: Option<Box<dyn Fn() -> Census + Send + Sync>>) {
        self.census.set(source);
    }

    /// What launchers tell.
    pub fn launchers(&self) -> &Launchers {
        &self.launchers
    }

    /// The text that is scraped.
    pub fn encode(&self, format: Format) -> String {
        let mut text = String::new();
        let encoded = match format {
            Format::Prometheus => prometheus_text::encode(&mut text, &self.registry),
            Format::OpenMetrics => text::encode(&mut text, &self.registry),
        };
        encoded.expect("writing to a String succeeds because it has no limit");
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
