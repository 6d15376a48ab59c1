//! Wires watches, queue and pipeline together until it is told to stop.

use kube::Client;
use kube::api::{Api, ListParams};
use quorate_api::MiniCluster;
use tokio_util::sync::CancellationToken;

use crate::context::Options;

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
pub async fn run(
    client: Client,
    options: Options,
    stop: CancellationToken,
) -> Result<(), RunError> {
    let objects = Api::<MiniCluster>::all(client)
        .list(&ListParams::default().limit(1))
        .await
        .map_err(|error| RunError::List(Box::new(error)))?;
    tracing::info!(seen = objects.items.len(), concurrency = options.concurrency, "started");
    stop.cancelled().await;
    Ok(())
}
