//! Wires watches, queue and pipeline together until it is told to stop.

mod definitions;

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use kube::Client;
use kube::runtime::applier;
use kube::runtime::controller::{Config, Error as QueueError};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio_util::sync::CancellationToken;

use crate::context::{Context, Options};
use crate::launcher::{Launchers, Stored};
use crate::metrics::{Census, Metrics};
use crate::reconcile::{reconcile, retry};
use crate::watch::{self, Caches, Key, Packed, Scope};

/// Works until `stop` is cancelled; what was begun is finished first.
///
/// `client` refuses writes once this process no longer leads (`request::refused_by_fence` tells);
/// `synced` is set once the caches are filled.
pub async fn run(
    client: Client,
    options: Options,
    metrics: Arc<Metrics>,
    synced: tokio::sync::watch::Sender<bool>,
    stop: CancellationToken,
) {
    let scopes = scopes(&options);
    tokio::select! {
        () = stop.cancelled() => return,
        () = definitions::wait(&client, &scopes) => {}
    }
    let caches = Arc::new(Caches::new(scopes.len()));
    let seeds = Arc::new(Stored(client.clone()));
    let launchers = Arc::new(Launchers::new(seeds, Arc::clone(&metrics)));
    let context = Context::new(client, options, Arc::clone(&caches), metrics)
        .with_launchers(launchers.clone());
    let context = Arc::new(context);
    let kueue = watch::kueue(&context.client).await;
    let looks = look_at(&context, &launchers, &scopes, kueue, &stop);
    tokio::pin!(looks);
    tokio::select! {
        () = &mut looks => return,
        () = caches.ready() => {}
    }
    tracing::info!(
        jobsets = caches.jobsets.len(),
        pods = caches.pods.len(),
        kueue,
        concurrency = context.options.concurrency,
        "caches filled"
    );
    synced.send_replace(true);
    looks.await;
}

/// Looks at every MiniCluster of which something new is known, until it is told to stop.
async fn look_at(
    context: &Arc<Context>,
    launchers: &Launchers,
    scopes: &[Scope],
    kueue: Option<&'static str>,
    stop: &CancellationToken,
) {
    // Each scope has a store of its own, and its share of the work.
    let share = usize::from(context.options.concurrency).div_ceil(scopes.len());
    let config = Config::default().concurrency(u16::try_from(share).unwrap_or(u16::MAX));
    let mut stores = Vec::new();
    let looks: Vec<_> = scopes
        .iter()
        .map(|scope| {
            let forgetful = Arc::clone(context);
            let (store, clusters) =
                watch::clusters(&context.client, scope, move |key| forgetful.forget(&key));
            stores.push(store.clone());
            let children = watch::children(&context.client, scope, &context.caches, kueue);
            let asking = Arc::clone(context);
            let asked = move |request: &watch::Request| {
                if let Ok(request) = request {
                    asking.asked(key(&request.obj_ref));
                }
            };
            let told = launchers.changes(scope).map(|key| watch::request(&key));
            let news = stream::select(stream::select(clusters, children), told);
            let stopped = Box::pin(stop.clone().cancelled_owned());
            applier(
                |object, context| Box::pin(reconcile(object, context)),
                retry,
                Arc::clone(context),
                store,
                news.inspect(asked).take_until(stopped),
                config.clone(),
            )
            .boxed()
        })
        .collect();
    context.metrics.count_miniclusters(Some(Box::new(move || {
        let clusters = stores.iter().flat_map(Store::state);
        Census::of(clusters.map(|cluster| cluster.status()))
    })));
    stream::select_all(looks)
        .for_each(|look| async {
            match look {
                // The error of a look was told where the wait after it is decided.
                Ok(_) | Err(QueueError::ReconcilerFailed(..)) => {}
                // An object that is gone before its turn has nobody to tell.
                Err(QueueError::ObjectNotFound(gone)) => {
                    let key = Key::new(gone.namespace.unwrap_or_default(), gone.name);
                    context.begun(&key);
                    // A watch that was interrupted does not tell what was deleted meanwhile.
                    context.forget(&key);
                }
                Err(error) => tracing::warn!(%error, "the queue stumbled"),
            }
        })
        .await;
}

fn key(object: &ObjectRef<Packed>) -> Key {
    Key::new(object.namespace.clone().unwrap_or_default(), object.name.clone())
}

/// The namespaces to watch, or one scope for all of them.
fn scopes(options: &Options) -> Vec<Scope> {
    if options.namespaces.is_empty() {
        return vec![None];
    }
    options.namespaces.iter().cloned().map(Some).collect()
}
