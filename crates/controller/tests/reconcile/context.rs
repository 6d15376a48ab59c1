//! What a reconciliation shares, as tests have it: one worker, all namespaces, the agent copied.

use std::sync::Arc;

use kube::Client;
use quorate_controller::context::{Context, Options};
use quorate_controller::metrics::Metrics;
use quorate_controller::watch::Caches;

/// A context that knows nothing yet, before this API server.
pub(crate) fn context(client: Client) -> Arc<Context> {
    let options = Options {
        namespaces: Vec::new(),
        plan: quorate_plan::Context {
            agent_image: "agent:1".into(),
            agent_delivery: quorate_plan::Delivery::Copy,
            port_forward: true,
            cluster_domain: None,
        },
        choose_delivery: false,
        concurrency: 1,
    };
    let (caches, metrics) = (Arc::new(Caches::new(0)), Arc::new(Metrics::new()));
    Arc::new(Context::new(client, options, caches, metrics))
}
