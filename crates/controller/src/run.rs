//! Wires watches, queue and pipeline together until it is told to stop.

mod definitions;

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, FuturesUnordered, StreamExt};
use kube::Client;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::context::{Context, Options};
use crate::delivery;
use crate::launcher::{Launchers, Stored};
use crate::metrics::{Census, Metrics};
use crate::queue::{Lane, Queue};
use crate::reconcile::{reconcile, retry};
use crate::watch::{self, Caches, Key, Packed, Scope};

/// Where news of a cluster come from.
#[derive(Clone, Copy)]
enum Source {
    /// Its own object, or its launcher.
    Word,
    /// What it became.
    Objects,
}

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
    let known =
        async { tokio::join!(watch::kueue(&context.client), delivery::Keeper::begin(&context)) };
    let (kueue, delivery) = tokio::select! {
        () = stop.cancelled() => return,
        known = known => known,
    };
    let looks = async {
        tokio::select! {
            () = look_at(&context, &launchers, &scopes, kueue, &stop) => {}
            () = delivery.keep(&context) => {}
        }
    };
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
    let (mut stores, mut news) = (Vec::new(), Vec::new());
    for scope in scopes {
        let forgetful = Arc::clone(context);
        let (store, clusters) =
            watch::clusters(&context.client, scope, move |key| forgetful.forget(&key));
        stores.push((scope.clone(), store));
        let children = watch::children(&context.client, scope, &context.caches, kueue);
        // What people ask for and what brokers say is looked at once; objects have more to say in a moment.
        news.push(clusters.map(|key| (key, Source::Word)).boxed());
        news.push(children.map(|key| (key, Source::Objects)).boxed());
        news.push(launchers.changes(scope).map(|key| (key, Source::Word)).boxed());
    }
    let counted = stores.clone();
    context.metrics.count_miniclusters(Some(Box::new(move || {
        let clusters = counted.iter().flat_map(|(_, store)| store.state());
        Census::of(clusters.map(|cluster| cluster.status()))
    })));
    let stopped = Box::pin(stop.clone().cancelled_owned());
    let mut news = stream::select_all(news).take_until(stopped);
    let mut queue = Queue::new(usize::from(context.options.concurrency));
    let lane = |key: &Key| match context.caches.jobsets.get(key, &key.name) {
        Some(_) => Lane::Follow,
        None => Lane::Make,
    };
    let mut looks = FuturesUnordered::new();
    // Who looks before everything is read takes for missing what is there.
    let read = async {
        for (_, store) in &stores {
            // It cannot fail: its writer lives in the stream of news.
            let _ = store.wait_until_ready().await;
        }
        context.caches.ready().await;
    };
    tokio::pin!(read);
    let mut all_read = false;
    loop {
        while all_read && let Some(key) = queue.begin() {
            let Some(cluster) = find(&stores, &key) else {
                // Gone before its turn. A watch that was interrupted does not tell what was deleted
                // meanwhile.
                context.forget(&key);
                queue.done(&key, Lane::Follow);
                queue.forget(&key);
                continue;
            };
            looks.push(look(key, cluster, Arc::clone(context)));
        }
        context.metrics.queue_depth.set(i64::try_from(queue.waiting()).unwrap_or(i64::MAX));
        let due = queue.next_due();
        let due = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            asked = news.next() => {
                let Some((key, source)) = asked else { break };
                let lane = lane(&key);
                let wait = match (lane, source) {
                    (Lane::Follow, Source::Objects) => context.patience(&key),
                    _ => Duration::ZERO,
                };
                if wait.is_zero() {
                    queue.ask(key, lane);
                } else {
                    queue.later(key, Instant::now() + wait);
                }
            }
            Some((key, again)) = looks.next() => {
                queue.done(&key, lane(&key));
                if let Some(wait) = again {
                    queue.later(key, Instant::now() + wait);
                }
            }
            () = due => queue.wake(Instant::now(), lane),
            () = &mut read, if !all_read => all_read = true,
        }
    }
    // What was begun is finished.
    while looks.next().await.is_some() {}
}

/// One look, and after how long the next one is due if nothing happens before.
async fn look(key: Key, cluster: Arc<Packed>, context: Arc<Context>) -> (Key, Option<Duration>) {
    let again = match reconcile(Arc::clone(&cluster), Arc::clone(&context)).await {
        Ok(again) => again,
        Err(error) => Some(retry(&cluster, &error, &context)),
    };
    (key, again)
}

/// A cluster, in the store of its scope.
fn find(stores: &[(Scope, Store<Packed>)], key: &Key) -> Option<Arc<Packed>> {
    let object = ObjectRef::new(&key.name).within(&key.namespace);
    stores
        .iter()
        .filter(|(scope, _)| scope.as_ref().is_none_or(|scope| *scope == key.namespace))
        .find_map(|(_, store)| store.get(&object))
}

/// The namespaces to watch, or one scope for all of them.
fn scopes(options: &Options) -> Vec<Scope> {
    if options.namespaces.is_empty() {
        return vec![None];
    }
    options.namespaces.iter().cloned().map(Some).collect()
}
