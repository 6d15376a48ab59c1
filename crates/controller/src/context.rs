//! What every reconciliation shares: the client, the caches, and what is remembered of each cluster
//! between two looks at it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use kube::api::PatchParams;
use quorate_api::status::State;
use quorate_plan::Delivery;

use crate::events::Recorder;
use crate::metrics::Metrics;
use crate::reconcile::Memory;
use crate::watch::{Caches, Key};

/// Marks every write of this process (`metadata.managedFields`), and names it in events.
pub const FIELD_MANAGER: &str = "quorate-controller";

/// What every patch is sent with.
pub(crate) fn written_here() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

/// What the controller was told at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Namespaces to watch; empty means all.
    pub namespaces: Vec<String>,
    /// What the plan needs to know: the agent's image, the cluster's DNS domain.
    pub plan: quorate_plan::Context,
    /// The agent comes by what the nodes can do (`delivery`), and as the plan says until that is known.
    pub choose_delivery: bool,
    /// MiniClusters that are worked on at the same time: 1 or more.
    pub concurrency: u16,
}

/// What every reconciliation shares.
pub struct Context {
    /// The way to the API server.
    pub client: Client,
    /// What the controller was told.
    pub options: Options,
    /// What is known of all objects.
    pub caches: Arc<Caches>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The one recorder of events.
    pub recorder: Recorder,
    /// What launchers say of their clusters, where someone asks them.
    pub launchers: Option<Arc<dyn Launchers>>,
    /// How the agent comes into pods of clusters that are made now.
    delivery: Mutex<Delivery>,
    memories: Mutex<HashMap<Key, Memory>>,
    /// Clusters that are on their way to their quorum.
    starting: Mutex<HashSet<Key>>,
}

/// What launchers say of their clusters, for what the status of pods cannot carry. Whoever asks them
/// does it beside the reconciliation, which takes the last words and never waits.
pub trait Launchers: Send + Sync {
    /// The last words of a cluster's launcher, if it is connected.
    fn heard(&self, cluster: &Key) -> Option<quorate_observe::Live>;

    /// Tells that a cluster runs, is over or is gone; `observed` is what is known of it.
    fn follow(&self, cluster: &Key, observed: Option<&quorate_observe::Observed>);
}

impl Context {
    /// A context that remembers nothing yet.
    pub fn new(
        client: Client,
        options: Options,
        caches: Arc<Caches>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            recorder: Recorder::new(client.clone(), FIELD_MANAGER),
            client,
            delivery: Mutex::new(options.plan.agent_delivery),
            options,
            caches,
            metrics,
            launchers: None,
            memories: Mutex::default(),
            starting: Mutex::default(),
        }
    }

    /// The same with someone who asks launchers.
    #[must_use]
    pub fn with_launchers(mut self, launchers: Arc<dyn Launchers>) -> Self {
        self.launchers = Some(launchers);
        self
    }

    /// What the plan of a cluster that is made now needs to know.
    pub(crate) fn plan(&self) -> quorate_plan::Context {
        let agent_delivery = *self.delivery.lock().unwrap_or_else(PoisonError::into_inner);
        quorate_plan::Context { agent_delivery, ..self.options.plan.clone() }
    }

    /// How the agent comes from now on.
    pub(crate) fn deliver(&self, delivery: Delivery) {
        *self.delivery.lock().unwrap_or_else(PoisonError::into_inner) = delivery;
    }

    /// Takes note of whether a cluster is on its way to its quorum; answers how many are.
    pub(crate) fn starting(&self, key: &Key, state: Option<State>) -> usize {
        let mut all = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(state, None | Some(State::Pending | State::Starting)) {
            all.remove(key);
        } else if !all.contains(key) {
            all.insert(key.clone());
        }
        all.len()
    }

    /// How long news of a cluster's objects can wait for others to come: a cluster among many that are on
    /// their way has something new to say all the time, and one look is for all of it.
    pub(crate) fn patience(&self, key: &Key) -> Duration {
        let all = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if all.contains(key) { quorate_observe::patience(all.len()) } else { Duration::ZERO }
    }

    /// Takes out what is remembered of a cluster: a cluster is never looked at twice at a time. What
    /// was remembered of a former object of the same name is dropped.
    pub(crate) fn recall(&self, key: &Key, uid: &str) -> Memory {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.remove(key).filter(|memory| memory.uid == uid).unwrap_or_else(|| Memory::new(uid))
    }

    /// Remembers a cluster until the next look.
    pub(crate) fn remember(&self, key: Key, memory: Memory) {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner).insert(key, memory);
    }

    /// Forgets a cluster that is gone.
    pub fn forget(&self, key: &Key) {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.starting.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        if let Some(launchers) = &self.launchers {
            launchers.follow(key, None);
        }
    }
}
