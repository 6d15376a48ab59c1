//! Asks the launchers of running clusters what their brokers know (`docs/spec/observe.md`): one
//! connection per cluster, beside the reconciliation, which takes the last words and never waits.
//!
//! Owns: whom to ask, when to try again, and what was heard. What is heard only adds to what pods
//! say: a launcher that cannot be reached costs nothing but its words. A launcher that never
//! answers is tried at growing intervals, and no Secret is read for it.

mod connection;
mod seeds;
mod target;
mod waits;

pub use connection::ConnectionError;
pub use seeds::{SeedError, Seeds, Stored};
pub use target::Target;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use k8s_openapi::jiff::Timestamp;
use quorate_contract::ClusterStatus;
use quorate_contract::status::NamedCounts;
use quorate_observe::{Live, Observed};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::AbortHandle;

use crate::context;
use crate::metrics::{LauncherSample, Metrics};
use crate::telemetry::chain;
use crate::watch::{Key, Scope};
use connection::{Connection, Identified};
use waits::{Try, Waits};

/// Launchers that are dialed at the same time. More wait: connections that nobody answers hold a
/// socket for seconds each.
const DIALS: usize = 64;

/// Asks launchers. Dropping it ends all connections.
pub struct Launchers {
    shared: Arc<Shared>,
    seeds: Arc<dyn Seeds>,
}

struct Shared {
    metrics: Arc<Metrics>,
    /// Since when anybody is asked.
    since: Timestamp,
    dials: Semaphore,
    table: Mutex<HashMap<Key, Entry>>,
    listeners: Mutex<Vec<(Scope, mpsc::UnboundedSender<Key>)>>,
}

/// One cluster that is asked about.
struct Entry {
    target: watch::Sender<Target>,
    task: AbortHandle,
    heard: Option<Heard>,
    silent_since: Option<Timestamp>,
}

/// The last words of a launcher.
#[derive(Clone)]
struct Heard {
    pod_uid: String,
    at: Timestamp,
    status: Arc<ClusterStatus>,
}

impl Launchers {
    /// Asks nobody yet.
    pub fn new(seeds: Arc<dyn Seeds>, metrics: Arc<Metrics>) -> Self {
        let shared = Shared {
            metrics,
            since: Timestamp::now(),
            dials: Semaphore::new(DIALS),
            table: Mutex::default(),
            listeners: Mutex::default(),
        };
        Self { shared: Arc::new(shared), seeds }
    }

    /// Clusters of a scope of which something new was heard, from now on.
    pub fn changes(&self, scope: &Scope) -> BoxStream<'static, Key> {
        let (sender, receiver) = mpsc::unbounded_channel();
        lock(&self.shared.listeners).push((scope.clone(), sender));
        stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await.map(|key| (key, receiver))
        })
        .boxed()
    }

    /// Asks about a cluster from now on, at this target; `None` ends that.
    pub fn ask(&self, key: &Key, target: Option<Target>) {
        let mut table = lock(&self.shared.table);
        let Some(target) = target else {
            if let Some(entry) = table.remove(key) {
                entry.task.abort();
                self.shared.metrics.launchers().gone(&entry.target.borrow().cluster_uid);
            }
            return;
        };
        if let Some(entry) = table.get_mut(key) {
            let (cluster, pod) = {
                let known = entry.target.borrow();
                (known.cluster_uid.clone(), known.pod_uid.clone())
            };
            if cluster != target.cluster_uid {
                self.shared.metrics.launchers().gone(&cluster);
            } else if pod != target.pod_uid {
                // Until the next pod has spoken.
                self.shared.metrics.launchers().silent(&cluster);
            }
            if entry.heard.as_ref().is_some_and(|heard| heard.pod_uid != target.pod_uid) {
                entry.heard = None;
            }
            entry.target.send_if_modified(|known| {
                let new = *known != target;
                *known = target;
                new
            });
            return;
        }
        let (target, targets) = watch::channel(target);
        let asking = follow(self.shared.clone(), self.seeds.clone(), key.clone(), targets);
        let task = tokio::spawn(asking).abort_handle();
        table.insert(key.clone(), Entry { target, task, heard: None, silent_since: None });
    }

    /// The last words of a cluster's launcher, while it is connected.
    pub fn status(&self, key: &Key) -> Option<Live> {
        let heard = lock(&self.shared.table).get(key)?.heard.clone()?;
        let Heard { pod_uid, at, status } = heard;
        Some(Live { pod_uid, at, status: (*status).clone() })
    }

    /// Since when a launcher that is asked cannot be reached.
    pub fn silent_since(&self, key: &Key) -> Option<Timestamp> {
        lock(&self.shared.table).get(key)?.silent_since
    }
}

impl Drop for Launchers {
    fn drop(&mut self) {
        for (_, entry) in lock(&self.shared.table).drain() {
            entry.task.abort();
            // A controller that no longer leads tells nothing of clusters.
            self.shared.metrics.launchers().gone(&entry.target.borrow().cluster_uid);
        }
    }
}

impl context::Launchers for Launchers {
    fn heard(&self, cluster: &Key) -> Option<Live> {
        self.status(cluster)
    }

    fn follow(&self, cluster: &Key, observed: Option<&Observed>) {
        self.ask(cluster, observed.and_then(Target::of));
    }
}

impl Shared {
    /// Takes note of a status; the reconciliation is told when it says something new.
    fn told(&self, key: &Key, target: &Target, status: ClusterStatus) {
        let mut table = lock(&self.table);
        let Some(entry) = table.get_mut(key) else { return };
        // The target has changed while this was under way.
        if entry.target.borrow().pod_uid != target.pod_uid {
            return;
        }
        let last = entry.heard.as_ref().map(|heard| heard.status.clone());
        if entry.silent_since.take().is_some() {
            tracing::info!(mc.ns = key.namespace, mc.name = key.name, "the launcher answers again");
        }
        let sample = sample(&status, last.as_deref(), self.since);
        self.metrics.launchers().told(&target.cluster_uid, &sample);
        let new = last.is_none_or(|last| target::says_more(&last, &status));
        let status = Arc::new(status);
        entry.heard = Some(Heard { pod_uid: target.pod_uid.clone(), at: Timestamp::now(), status });
        drop(table);
        if new {
            self.tell(key);
        }
    }

    /// A launcher could not be reached, or its connection has ended.
    fn silent(&self, key: &Key, target: &Target, error: &ConnectionError) {
        let mut table = lock(&self.table);
        let Some(entry) = table.get_mut(key) else { return };
        if entry.silent_since.is_none() {
            entry.silent_since = Some(Timestamp::now());
            tracing::info!(
                mc.ns = key.namespace,
                mc.name = key.name,
                address = %target.address,
                reason = error.reason(),
                error = %chain(error),
                "the launcher is not reachable"
            );
        }
        let lost = entry.heard.take().is_some();
        if lost {
            self.metrics.launchers().silent(&target.cluster_uid);
        }
        drop(table);
        if lost {
            self.tell(key);
        }
    }

    fn tell(&self, key: &Key) {
        lock(&self.listeners).retain(|(scope, listener)| {
            if scope.as_ref().is_some_and(|namespace| *namespace != key.namespace) {
                return true;
            }
            listener.send(key.clone()).is_ok()
        });
    }
}

/// Asks one launcher, again and again, until it is aborted or the cluster is no longer asked about.
async fn follow(
    shared: Arc<Shared>,
    seeds: Arc<dyn Seeds>,
    key: Key,
    mut targets: watch::Receiver<Target>,
) {
    let mut waits = Waits::new();
    let mut identity: Option<Identified> = None;
    loop {
        let target = targets.borrow_and_update().clone();
        let mut heard = false;
        let tcp = {
            let _permit = shared.dials.acquire().await;
            connection::dial(&target).await
        };
        // On the heap, and only once there is a connection: a task that waits for its turn is small.
        let result = Box::pin(async {
            let tcp = tcp?;
            let known = match identity.take().filter(|known| known.is_of(&target)) {
                Some(known) => known,
                None => Identified::new(&*seeds, &key, &target).await?,
            };
            let mut connection = Connection::open(tcp, identity.insert(known)).await?;
            connection
                .listen(&mut targets, &target, |status| {
                    heard = true;
                    shared.told(&key, &target, status);
                })
                .await
        })
        .await;
        let tried = match result {
            // Another pod is the launcher now.
            Ok(()) => {
                waits = Waits::new();
                continue;
            }
            Err(error) => {
                if error.is_about_keys() {
                    identity = None;
                }
                // A broker that was started again answers at once: only who does not is silent.
                if !heard {
                    shared.silent(&key, &target, &error);
                }
                match error {
                    _ if heard => Try::Heard,
                    error if error.is_unanswered() => Try::Unanswered,
                    _ => Try::Refused,
                }
            }
        };
        let wait = waits.after(tried);
        let moved = async {
            while targets.changed().await.is_ok() {
                if !targets.borrow().same_place(&target) {
                    return;
                }
            }
            // Nobody asks any more.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = moved => waits = Waits::new(),
        }
    }
}

/// What metrics need of a status, when launchers are asked `since` then. A round trip that was told
/// before does not count twice.
fn sample(
    status: &ClusterStatus,
    last: Option<&ClusterStatus>,
    since: Timestamp,
) -> LauncherSample {
    let figures = status.figures.clone().unwrap_or_default();
    let told = last.and_then(|last| last.figures.as_ref()?.round_trip.as_ref());
    let fresh = figures.round_trip.as_ref().filter(|fresh| Some(*fresh) != told);
    let began = status.phases.agent_started.and_then(|ms| i64::try_from(ms).ok());
    LauncherSample {
        online: status.online,
        inherited: began.is_some_and(|began| began < since.as_millisecond()),
        received: figures.bytes_in,
        sent: figures.bytes_out,
        queues: queues(status),
        round_trip: fresh.map(|fresh| Duration::from_micros(fresh.most_micros)),
    }
}

/// The jobs of each queue. Agents that do not tell them apart have them all in one.
fn queues(status: &ClusterStatus) -> Vec<NamedCounts> {
    let all = || {
        let jobs = status.queue?;
        Some(NamedCounts { name: "default".to_owned(), jobs, ..NamedCounts::default() })
    };
    if status.queues.is_empty() { all().into_iter().collect() } else { status.queues.clone() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
