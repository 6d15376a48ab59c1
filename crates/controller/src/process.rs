//! One controller process from its settings to its end.
//!
//! Owns: what is built in which order, and what stops when. Must not: know how MiniClusters are made
//! (`run` does) or who leads (`lease` does).
//!
//! ```text
//! SIGTERM ──▶ work ends ──▶ fence closes ──▶ lease is given up ──▶ servers end ──▶ exit 0
//! ```

use crate::context::Options;
use crate::lease::{Candidate, Election, Fence, LeaseError, Standing, Timing, TimingError};
use crate::metrics::Metrics;
use crate::request::{self, ApiLayer, TokenBucket};
use crate::serve::{Health, ListenError, Pages, listen, serve};
use crate::settings::{LeaseSettings, Settings};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use kube::{Client, Config};
use std::fs;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;

/// Why a controller could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// No API to talk to.
    #[error(
        "cannot find a Kubernetes API: neither a pod's service account nor a usable kubeconfig"
    )]
    Config(#[source] Box<kube::config::InferConfigError>),
    /// The client cannot be built from what was found.
    #[error("cannot make a client for the Kubernetes API at {url}")]
    Client {
        /// The API's address.
        url: String,
        /// What is wrong.
        #[source]
        source: Box<kube::Error>,
    },
    /// `--lease-renew-deadline-seconds` or `--lease-duration-seconds`.
    #[error("--lease-renew-deadline-seconds does not fit --lease-duration-seconds")]
    Timing(#[source] TimingError),
    /// A server cannot start.
    #[error("cannot serve health and metrics")]
    Listen(#[source] ListenError),
    /// The identity's random suffix.
    #[error("cannot draw a random identity; name one with --identity")]
    Identity(#[source] getrandom::Error),
    /// The election ended.
    #[error("the election ended")]
    Election(#[source] LeaseError),
}

/// Runs until `stop`; what was begun is finished first.
pub async fn run(settings: &Settings, stop: CancellationToken) -> Result<(), ProcessError> {
    let config = Config::infer().await.map_err(|e| ProcessError::Config(Box::new(e)))?;
    let timing = settings.lease.timing().map_err(ProcessError::Timing)?;
    let metrics = Arc::new(Metrics::new());
    let fence =
        if settings.lease.leader_election { Fence::new(timing.grace()) } else { Fence::open() };
    let rate =
        (settings.api_qps > 0).then(|| TokenBucket::new(settings.api_qps, settings.api_burst));
    let layer = ApiLayer::fenced(Arc::clone(&metrics), fence.clone()).with_rate(rate);
    let work = Work {
        client: client(&config, &layer, timing)?,
        options: settings.options(),
        metrics: Arc::clone(&metrics),
        synced: watch::channel(false).0,
    };

    let health_listener = listen(settings.health_address, "--health-address");
    let health_listener = health_listener.await.map_err(ProcessError::Listen)?;
    let metrics_listener = listen(settings.metrics_address, "--metrics-address");
    let metrics_listener = metrics_listener.await.map_err(ProcessError::Listen)?;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        api = %config.cluster_url,
        health = health_listener.local_addr().ok().map(tracing::field::display),
        metrics = metrics_listener.local_addr().ok().map(tracing::field::display),
        "started"
    );

    // Servers outlive the work: a probe must not fail while the pod is leaving.
    let tasks = TaskTracker::new();
    let stop_serving = CancellationToken::new();
    let serve_on = |listener, pages| {
        tasks.spawn(serve(listener, pages, stop_serving.clone()));
    };
    serve_on(metrics_listener, Pages::Metrics(Arc::clone(&metrics)));
    let synced = work.synced.subscribe();
    let outcome = if settings.lease.leader_election {
        let me = identity(&settings.lease).map_err(ProcessError::Identity)?;
        let lease = &settings.lease;
        let namespace = lease.lease_namespace.as_ref().unwrap_or(&config.default_namespace);
        let api = client(&config, &ApiLayer::counting(Arc::clone(&metrics)), timing)?;
        let election = Election::new(
            Api::<Lease>::namespaced(api, namespace),
            lease.lease_name.clone(),
            Candidate::new(me, timing),
            fence,
            Arc::clone(&metrics),
        );
        serve_on(health_listener, Pages::Health(Health::new(election.standing(), synced)));
        election.run(stop, move |term| work.clone().run(term)).await
    } else {
        let (_alone, standing) = watch::channel(Standing { seen: true, leads: true });
        metrics.leads(true);
        serve_on(health_listener, Pages::Health(Health::new(standing, synced)));
        work.run(stop.clone()).await;
        if stop.is_cancelled() { Ok(()) } else { Err(LeaseError::WorkEnded) }
    };
    stop_serving.cancel();
    tasks.close();
    tasks.wait().await;
    outcome.map_err(ProcessError::Election)
}

/// What a leader does; cheap to clone, once per term.
#[derive(Clone)]
struct Work {
    client: Client,
    options: Options,
    metrics: Arc<Metrics>,
    synced: watch::Sender<bool>,
}

impl Work {
    async fn run(self, term: CancellationToken) {
        let Self { client, options, metrics, synced } = self;
        crate::run(client, options, Arc::clone(&metrics), synced.clone(), term).await;
        synced.send_replace(false);
        metrics.count_miniclusters(None);
    }
}

/// A client whose requests pass `layer`, and whose connections end before another may lead.
fn client(config: &Config, layer: &ApiLayer, timing: Timing) -> Result<Client, ProcessError> {
    request::client(config, layer, timing.grace()).map_err(|source| ProcessError::Client {
        url: config.cluster_url.to_string(),
        source: Box::new(source),
    })
}

/// The name in the lease: as told, else the host's with a suffix that no other process has.
fn identity(settings: &LeaseSettings) -> Result<String, getrandom::Error> {
    if let Some(identity) = &settings.identity {
        return Ok(identity.clone());
    }
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = Some(host.trim()).filter(|host| !host.is_empty()).unwrap_or("quorate-controller");
    Ok(format!("{host}_{:08x}", getrandom::u32()?))
}
