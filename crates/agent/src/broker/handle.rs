//! [`Overlay`]: the handle by which the rest of the agent uses the broker.

use super::channel::{Channel, ChannelId};
use super::inventory::Inventory;
use crate::settings::Settings;
use bytes::Bytes;
use quorate_contract::AgentConfig;
use quorate_contract::report::{Phases, Report};
use quorate_contract::status::{
    BrokerState, ClusterStatus, Leaving, NamedCounts, ProgramStatus, QueueCounts,
};
use quorate_overlay::Command;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

/// Why a request, channel or cast failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverlayError {
    /// The rank is not connected, or not part of the cluster.
    #[error("rank {rank} is not connected")]
    NotConnected {
        /// The rank that was asked for.
        rank: u32,
    },
    /// The rank was lost before it answered.
    #[error("rank {rank} was lost before it answered: {reason}")]
    Lost {
        /// The rank that was asked.
        rank: u32,
        /// What is known of why.
        reason: String,
    },
    /// The service answered with a failure.
    #[error("the service {service} on rank {rank} refused: {reason}")]
    Refused {
        /// The rank that was asked.
        rank: u32,
        /// The service's name.
        service: String,
        /// What it said.
        reason: String,
    },
    /// No service of that name is registered there.
    #[error("rank {rank} has no service {service}")]
    NoService {
        /// The rank that was asked.
        rank: u32,
        /// The service's name.
        service: String,
    },
    /// Too much is waiting for the rank; try again later.
    #[error("too much is waiting for rank {rank}")]
    Busy {
        /// The rank that was asked.
        rank: u32,
    },
    /// This broker is leaving.
    #[error("this broker is leaving the overlay")]
    Leaving,
}

/// Why an exchange did not complete. Every member sees the failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// A member was lost before all had contributed.
    #[error("rank {rank} was lost during an exchange")]
    Lost {
        /// The lost member.
        rank: u32,
    },
    /// Members disagree about who takes part, or the blobs are too large in all.
    #[error("the exchange was refused: {reason}")]
    Refused {
        /// What is wrong.
        reason: String,
    },
    /// This broker is leaving.
    #[error("this broker is leaving the overlay")]
    Leaving,
}

/// A connected broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What it told about its pod.
    pub inventory: Arc<Inventory>,
    /// It has been silent for too long: nothing new should be started there.
    pub torpid: bool,
    /// It was told to stop: nothing new may be started there.
    pub draining: bool,
}

/// Who is in the cluster, as far as this broker knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// This broker's state.
    pub state: BrokerState,
    /// Brokers that the cluster is planned to have now, as this broker knows it; follows growth
    /// and shrinking on rank 0.
    pub size: u32,
    /// Brokers that it is to have (rank 0). Fewer than `size` while jobs end on those beyond.
    pub wanted: u32,
    /// Nothing is left on the brokers from this rank on, which are to go (rank 0).
    pub free_from: Option<u32>,
    /// The connected ranks. Complete on rank 0 (itself included); elsewhere this broker alone.
    pub online: BTreeMap<u32, Member>,
}

impl Membership {
    /// Whether a rank was told to stop.
    pub fn is_draining(&self, rank: u32) -> bool {
        self.online.get(&rank).is_some_and(|member| member.draining)
    }
}

/// A rank was lost or has left. Every broker is told of every rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offline {
    /// The lost rank.
    pub rank: u32,
    /// What is known of why.
    pub reason: String,
}

/// A cast from here did not reach some ranks, and will not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CastFailed {
    /// The service of the cast.
    pub service: String,
    /// Who did not get it, and why.
    pub ranks: Vec<(u32, String)>,
}

/// The broker, seen by the rest of the agent. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Overlay {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Arc<Settings>,
    pub(crate) node: mpsc::Sender<ToNode>,
    pub(crate) membership: watch::Receiver<Arc<Membership>>,
    pub(crate) offline: broadcast::Sender<Offline>,
    pub(crate) cast_failed: broadcast::Sender<CastFailed>,
    /// Counts changes that [`Overlay::status`] shows.
    pub(crate) changed: watch::Receiver<u64>,
    /// Why the last dial failed, until one succeeds.
    pub(crate) dial_failure: watch::Receiver<Option<String>>,
}

/// What tasks ask of the node task.
#[derive(Debug)]
pub(crate) enum ToNode {
    /// Open a channel.
    Open { to: u32, service: String, first: Bytes, reply: Reply<Channel> },
    /// One message of a channel, already paid for with credit.
    Data { id: ChannelId, part: Bytes },
    /// End of the outgoing direction of a channel.
    Finish { id: ChannelId, outcome: Result<(), String> },
    /// Ask and wait for one answer.
    Request { to: u32, service: String, body: Bytes, reply: Reply<Bytes> },
    /// The answer of one of our services to a request from outside.
    Respond { request: ChannelId, outcome: Result<Bytes, String> },
    /// Tell many.
    Cast { to: Vec<u32>, service: String, body: Bytes, reply: Reply<()> },
    /// One contribution to an exchange.
    Exchange {
        job: u64,
        sequence: u64,
        members: Vec<u32>,
        blob: Bytes,
        reply: oneshot::Sender<Result<Vec<(u32, Bytes)>, ExchangeError>>,
    },
    /// Tell all, in one order.
    Publish { topic: String, body: Bytes },
    /// A job has no more exchanges.
    EndJob { job: u64 },
    /// The way to a rank.
    Hop { to: u32, reply: oneshot::Sender<Option<u32>> },
    /// A wish of the broker's own life.
    Life(Command),
    /// What the cluster looks like (rank 0 answers for all).
    Status { reply: oneshot::Sender<ClusterStatus> },
    /// The program's shape, for the status.
    Program { status: ProgramStatus },
    /// How many jobs there are, and why no more are taken, for the status.
    Queue { counts: QueueCounts, queues: Vec<NamedCounts>, trouble: Option<String> },
    /// Which brokers wait for jobs before they can go, for the status.
    Leaving { leaving: Option<Leaving> },
    /// How far this broker has come, and how the program ended, for the status.
    Progress { phases: Phases, report: Option<Box<Report>> },
    /// The cluster is to have so many brokers (rank 0).
    Size { size: u32 },
    /// Nothing is left on the brokers beyond a size that was wanted (rank 0).
    Shrunk { size: u32 },
    /// A broker was told to stop (rank 0).
    Draining { rank: u32 },
}

pub(crate) type Reply<T> = oneshot::Sender<Result<T, OverlayError>>;

impl Overlay {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    /// This broker's rank.
    pub fn rank(&self) -> u32 {
        self.shared.settings.rank
    }

    /// Brokers that the cluster is planned to have now.
    pub fn size(&self) -> u32 {
        self.shared.membership.borrow().size
    }

    /// Nothing is left on the brokers beyond a size that was wanted.
    pub(crate) async fn shrunk(&self, size: u32) -> Result<(), OverlayError> {
        self.tell(ToNode::Shrunk { size }).await
    }

    /// Why this broker does not reach its parent: the last dial's error, until one succeeds.
    pub fn dial_failure(&self) -> Option<String> {
        self.shared.dial_failure.borrow().clone()
    }

    /// The cluster's configuration.
    pub fn config(&self) -> &AgentConfig {
        &self.shared.settings.config
    }

    /// What else this pod was told: run directory, attempt, pod and node names.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.shared.settings
    }

    /// Who is connected, as a value that can be waited on.
    pub fn membership(&self) -> watch::Receiver<Arc<Membership>> {
        self.shared.membership.clone()
    }

    /// Ranks that are lost from now on.
    pub fn offline(&self) -> broadcast::Receiver<Offline> {
        self.shared.offline.subscribe()
    }

    /// Opens a channel to a service of a rank, this one included. `first` travels with the
    /// opening; the call returns as soon as the opening is on its way, so that a refusal shows
    /// up in [`Channel::recv`].
    pub async fn open(
        &self,
        to: u32,
        service: &str,
        first: Bytes,
    ) -> Result<Channel, OverlayError> {
        let service = service.to_owned();
        self.ask(|reply| ToNode::Open { to, service, first, reply }).await
    }

    /// Asks a service of a rank, this one included, and waits for its answer. A lost rank fails
    /// the request at once.
    pub async fn request(
        &self,
        to: u32,
        service: &str,
        body: Bytes,
    ) -> Result<Bytes, OverlayError> {
        let service = service.to_owned();
        self.ask(|reply| ToNode::Request { to, service, body, reply }).await
    }

    /// Tells a service of many ranks the same, once each, by the tree: one message per link.
    /// Casts of one broker to one rank arrive in order. There is no answer; losses show up as
    /// [`Offline`] events. Ranks may include this one.
    pub async fn cast(&self, to: &[u32], service: &str, body: Bytes) -> Result<(), OverlayError> {
        let (to, service) = (to.to_vec(), service.to_owned());
        self.ask(|reply| ToNode::Cast { to, service, body, reply }).await
    }

    /// Contributes to a reduction over `members` (ascending ranks, this one among them) and waits
    /// for the blobs of all, in rank order. `(job, sequence)` names the exchange.
    pub async fn exchange(
        &self,
        job: u64,
        sequence: u64,
        members: &[u32],
        blob: Bytes,
    ) -> Result<Vec<(u32, Bytes)>, ExchangeError> {
        let members = members.to_vec();
        let (reply, answer) = oneshot::channel();
        let command = ToNode::Exchange { job, sequence, members, blob, reply };
        self.shared.node.send(command).await.map_err(|_| ExchangeError::Leaving)?;
        answer.await.map_err(|_| ExchangeError::Leaving)?
    }

    /// The job has no more exchanges: frees their memory here, and on rank 0 everywhere.
    pub async fn end_job(&self, job: u64) -> Result<(), OverlayError> {
        self.tell(ToNode::EndJob { job }).await
    }

    /// Publishes an event to all brokers; all get the events of the cluster in the same order.
    pub async fn publish(&self, topic: &str, body: Bytes) -> Result<(), OverlayError> {
        self.tell(ToNode::Publish { topic: topic.to_owned(), body }).await
    }

    /// Casts from here that did not reach somebody, from now on.
    pub fn cast_failures(&self) -> broadcast::Receiver<CastFailed> {
        self.shared.cast_failed.subscribe()
    }

    /// Counts the changes that [`Overlay::status`] shows, as a value that can be waited on.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.clone()
    }

    /// The neighbour through which a rank is reached now.
    pub async fn next_hop(&self, to: u32) -> Result<Option<u32>, OverlayError> {
        let (reply, answer) = oneshot::channel();
        self.tell(ToNode::Hop { to, reply }).await?;
        answer.await.map_err(|_| OverlayError::Leaving)
    }

    /// The cluster as this broker knows it; the whole of it on rank 0.
    pub async fn status(&self) -> Result<ClusterStatus, OverlayError> {
        let (reply, answer) = oneshot::channel();
        self.tell(ToNode::Status { reply }).await?;
        answer.await.map_err(|_| OverlayError::Leaving)
    }

    /// Publishes the shape of the running program in [`Overlay::status`] (rank 0).
    pub async fn program_started(&self, status: ProgramStatus) -> Result<(), OverlayError> {
        self.tell(ToNode::Program { status }).await
    }

    /// Publishes how many jobs there are, and why no more are taken, in [`Overlay::status`] (rank 0).
    pub async fn jobs_counted(
        &self,
        counts: QueueCounts,
        queues: Vec<NamedCounts>,
        trouble: Option<String>,
    ) -> Result<(), OverlayError> {
        self.tell(ToNode::Queue { counts, queues, trouble }).await
    }

    /// Publishes which brokers wait for jobs before they can go, in [`Overlay::status`] (rank 0).
    pub(crate) async fn leaving(&self, leaving: Option<Leaving>) -> Result<(), OverlayError> {
        self.tell(ToNode::Leaving { leaving }).await
    }

    /// The cluster's work is done: ends it, as succeeded unless its program says else (rank 0).
    pub async fn finish(&self, reason: String) -> Result<(), OverlayError> {
        self.tell(ToNode::Life(Command::Finish { done: true, reason })).await
    }

    /// Says that this broker, which is rank 0, is about to leave, and waits until all here know.
    pub(crate) async fn drain_itself(&self) {
        let rank = self.rank();
        let mut members = self.membership();
        let known = |members: &Arc<Membership>| members.is_draining(rank);
        if self.tell(ToNode::Draining { rank }).await.is_ok() {
            let _ = members.wait_for(known).await;
        }
    }

    pub(crate) async fn tell(&self, command: ToNode) -> Result<(), OverlayError> {
        self.shared.node.send(command).await.map_err(|_| OverlayError::Leaving)
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> ToNode) -> Result<T, OverlayError> {
        let (reply, answer) = oneshot::channel();
        self.tell(command(reply)).await?;
        answer.await.map_err(|_| OverlayError::Leaving)?
    }
}
