//! The shell of the election: reads, watches and replaces the Lease, runs the work while leading.
//!
//! Must not: decide (`decide` does), or let the work go on behind a closed fence.

use super::candidate::Candidate;
use super::decide::{Decision, Holder, Loss};
use super::fence::Fence;
use crate::metrics::Metrics;
use crate::telemetry::chain;
use backon::{BackoffBuilder, ExponentialBuilder};
use futures_util::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// A request for the Lease failed.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// It could not be read.
    #[error("cannot read the lease `{name}`")]
    Read {
        /// The Lease.
        name: String,
        /// What the API said.
        #[source]
        source: Box<kube::Error>,
    },
    /// It could not be created or replaced, for another reason than a conflict.
    #[error("cannot write the lease `{name}`")]
    Write {
        /// The Lease.
        name: String,
        /// What the API said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API did not answer in time.
    #[error("no answer about the lease `{name}` within {limit:?}")]
    Silence {
        /// The Lease.
        name: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The work ended without being told to.
    #[error("the controller's work ended by itself")]
    WorkEnded,
}

impl LeaseError {
    /// One word for logs and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Read { .. } => "LeaseRead",
            Self::Write { .. } => "LeaseWrite",
            Self::Silence { .. } => "LeaseSilence",
            Self::WorkEnded => "WorkEnded",
        }
    }
}

/// What the rest of the process may know of the election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether the Lease was read or written at least once: a follower is ready from then on.
    pub seen: bool,
    /// Whether this process leads.
    pub leads: bool,
}

/// A candidate with its connection to the API.
pub struct Election {
    leases: Api<Lease>,
    name: String,
    candidate: Candidate,
    fence: Fence,
    metrics: Arc<Metrics>,
    standing: watch::Sender<Standing>,
    /// The whole Lease as last seen, so that a replace keeps what others put there.
    known: Option<Lease>,
}

/// How a term ended.
enum Ended {
    Lost(Loss),
    Stopped,
    Work,
}

/// What became of a write of the Lease.
enum Wrote {
    Confirmed,
    /// Another was quicker, or the Lease is gone: read it again.
    Conflict,
}

impl Election {
    /// A follower. `leases` must not pass through `fence`, or nobody could ever lead.
    pub fn new(
        leases: Api<Lease>,
        name: String,
        candidate: Candidate,
        fence: Fence,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (standing, _) = watch::channel(Standing::default());
        Self { leases, name, candidate, fence, metrics, standing, known: None }
    }

    /// Follows the standing of this process.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Leads when it can and runs `work` meanwhile, again after each loss, until `stop`. The token
    /// that `work` gets is cancelled when the term is over; what does not end within the grace is
    /// aborted. On `stop` the Lease is given up after the work has ended, so that the next
    /// controller begins at once.
    pub async fn run<W, F>(mut self, stop: CancellationToken, mut work: W) -> Result<(), LeaseError>
    where
        W: FnMut(CancellationToken) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        while self.follow(&stop).await {
            info!(identity = self.candidate.me(), lease = %self.name, "leading");
            self.stand(true);
            let term = CancellationToken::new();
            let mut running = tokio::spawn(work(term.clone()));
            let ended = self.lead(&stop, &mut running).await;
            term.cancel();
            match ended {
                Ended::Lost(why) => {
                    self.fence.close();
                    self.metrics.term_lost(why.reason());
                    warn!(reason = why.reason(), ?why, "lost the lease; the work stops");
                    self.end(running).await;
                    self.candidate.stepped_down();
                    self.stand(false);
                }
                Ended::Stopped => {
                    self.end(running).await;
                    self.fence.close();
                    self.stand(false);
                    self.release().await;
                    return Ok(());
                }
                Ended::Work => {
                    self.fence.close();
                    self.stand(false);
                    self.release().await;
                    return Err(LeaseError::WorkEnded);
                }
            }
        }
        Ok(())
    }

    /// Waits for the work to end; the fence is closed or closes by itself meanwhile.
    async fn end(&self, mut running: JoinHandle<()>) {
        let grace = self.candidate.timing().grace();
        if timeout(grace, &mut running).await.is_err() {
            warn!(?grace, "the work did not end in time and is aborted");
            running.abort();
            // Aborted or ended in the last moment: both are an end.
            let _ = running.await;
        }
    }

    fn stand(&self, leads: bool) {
        self.metrics.leads(leads);
        self.standing.send_replace(Standing { seen: true, leads });
    }

    /// Until this process leads (true) or is to stop (false).
    async fn follow(&mut self, stop: &CancellationToken) -> bool {
        tokio::select! {
            () = stop.cancelled() => false,
            () = self.acquire() => true,
        }
    }

    /// Watches the Lease and takes it when it is free.
    async fn acquire(&mut self) {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut events = watcher(self.leases.clone(), config).default_backoff().boxed();
        let mut pauses = pauses();
        let mut listing = None;
        // Nothing is known before the first list is complete.
        let mut listed = false;
        loop {
            let pause = match self.candidate.decide(self.fence.now()) {
                _ if !listed => None,
                Decision::Wait { until } => Some(until.saturating_sub(self.fence.now())),
                _ => match self.write().await {
                    Ok(Wrote::Confirmed) => return,
                    Ok(Wrote::Conflict) => Some(self.read_again(&mut pauses).await),
                    Err(error) => {
                        say(&error);
                        Some(pauses.next().unwrap_or(LONGEST_PAUSE))
                    }
                },
            };
            tokio::select! {
                () = sleep(pause.unwrap_or_default()), if pause.is_some() => {}
                Some(event) = events.next() => listed |= self.heard(event, &mut listing),
            }
        }
    }

    /// Takes in an event of the watch; answers whether a list is now complete.
    fn heard(
        &mut self,
        event: Result<watcher::Event<Lease>, watcher::Error>,
        listing: &mut Option<Lease>,
    ) -> bool {
        match event {
            Ok(watcher::Event::Init) => *listing = None,
            Ok(watcher::Event::InitApply(lease)) => *listing = Some(lease),
            Ok(watcher::Event::InitDone) => {
                self.saw(listing.take());
                return true;
            }
            Ok(watcher::Event::Apply(lease)) => self.saw(Some(lease)),
            Ok(watcher::Event::Delete(_)) => self.saw(None),
            Err(error) => warn!(%error, lease = %self.name, "cannot watch the lease"),
        }
        false
    }

    /// The Lease is like this now.
    fn saw(&mut self, lease: Option<Lease>) {
        self.candidate.saw(lease.as_ref().map(sight), self.fence.now());
        self.known = lease;
        self.standing.send_if_modified(|standing| !std::mem::replace(&mut standing.seen, true));
    }

    /// Renews until the term ends.
    async fn lead(&mut self, stop: &CancellationToken, running: &mut JoinHandle<()>) -> Ended {
        let mut pauses = pauses();
        loop {
            let now = self.fence.now();
            let next = match self.candidate.decide(now) {
                Decision::Lost { why } => return Ended::Lost(why),
                Decision::Wait { until } => until.saturating_sub(now),
                Decision::Acquire | Decision::Renew => match self.write().await {
                    Ok(Wrote::Confirmed) => {
                        pauses = self::pauses();
                        continue;
                    }
                    Ok(Wrote::Conflict) => self.read_again(&mut pauses).await,
                    Err(error) => {
                        say(&error);
                        pauses.next().unwrap_or(LONGEST_PAUSE)
                    }
                },
            };
            let left = self.candidate.leads_until().unwrap_or_default();
            let next = next.min(left.saturating_sub(self.fence.now()));
            tokio::select! {
                () = sleep(next) => {}
                () = stop.cancelled() => return Ended::Stopped,
                _ = &mut *running => return Ended::Work,
            }
        }
    }

    /// Creates or replaces the Lease in this process's name and opens the fence if that is confirmed.
    async fn write(&mut self) -> Result<Wrote, LeaseError> {
        let sent = self.fence.now();
        let lease = claim(self.known.as_ref(), &self.name, &self.candidate);
        let params = PostParams::default();
        let written = match self.known {
            Some(_) => self.bounded(self.leases.replace(&self.name, &params, &lease)).await?,
            None => self.bounded(self.leases.create(&params, &lease)).await?,
        };
        match written {
            Ok(lease) => {
                self.candidate.confirmed(sight(&lease).0, sent, self.fence.now());
                self.known = Some(lease);
                if let Some(until) = self.candidate.leads_until() {
                    self.fence.open_until(until);
                }
                Ok(Wrote::Confirmed)
            }
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {
                Ok(Wrote::Conflict)
            }
            Err(source) => {
                Err(LeaseError::Write { name: self.name.clone(), source: Box::new(source) })
            }
        }
    }

    /// Reads the Lease after a conflict; answers how long to wait before the next try.
    async fn read_again(&mut self, pauses: &mut impl Iterator<Item = Duration>) -> Duration {
        let read = match self.bounded(self.leases.get_opt(&self.name)).await {
            Ok(Ok(lease)) => {
                self.saw(lease);
                return Duration::ZERO;
            }
            Ok(Err(source)) => {
                LeaseError::Read { name: self.name.clone(), source: Box::new(source) }
            }
            Err(silence) => silence,
        };
        say(&read);
        pauses.next().unwrap_or(LONGEST_PAUSE)
    }

    /// Gives the Lease up, so that nobody has to wait for its end. A failure costs only that wait.
    async fn release(&mut self) {
        let Some(mut lease) = self.known.take() else { return };
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = None;
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        match self.bounded(self.leases.replace(&self.name, &PostParams::default(), &lease)).await {
            Ok(Ok(_)) => info!(lease = %self.name, "gave the lease up"),
            Ok(Err(error)) => warn!(%error, lease = %self.name, "cannot give the lease up"),
            Err(silence) => warn!(error = %silence, lease = %self.name, "cannot give the lease up"),
        }
        self.candidate.stepped_down();
    }

    /// Waits for an answer no longer than a renewal may take, so that one lost answer leaves time
    /// for another try.
    async fn bounded<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<Result<T, kube::Error>, LeaseError> {
        let limit = self.candidate.timing().renew_every() / 2;
        let silence = |_| LeaseError::Silence { name: self.name.clone(), limit };
        timeout(limit, request).await.map_err(silence)
    }
}

fn say(error: &LeaseError) {
    warn!(error = chain(error), reason = error.reason(), "the lease could not be kept up");
}

/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Pauses between tries: from 100 ms, doubled, with jitter so that two candidates do not keep step.
fn pauses() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(100))
        .with_max_delay(LONGEST_PAUSE)
        .with_jitter()
        .without_max_times()
        .build()
}

/// What a candidate must know of a Lease: its version and its holder.
fn sight(lease: &Lease) -> (String, Holder) {
    let spec = lease.spec.as_ref();
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
    let holder = Holder {
        identity: spec.and_then(|spec| spec.holder_identity.clone()),
        duration: seconds.and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs),
    };
    (lease.metadata.resource_version.clone().unwrap_or_default(), holder)
}

/// The Lease in the candidate's name: what was there before, with a new holder or renew time.
fn claim(before: Option<&Lease>, name: &str, candidate: &Candidate) -> Lease {
    let now = MicroTime(Timestamp::now());
    let mut lease = before.cloned().unwrap_or_else(|| Lease {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        spec: None,
    });
    let spec = lease.spec.get_or_insert_default();
    if spec.holder_identity.as_deref() != Some(candidate.me()) {
        let first = before.is_none();
        spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0) + i32::from(!first));
        spec.acquire_time = Some(now.clone());
        spec.holder_identity = Some(candidate.me().to_owned());
    }
    spec.renew_time = Some(now);
    spec.lease_duration_seconds =
        i32::try_from(candidate.timing().duration.as_secs()).ok().or(spec.lease_duration_seconds);
    lease
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Timing;

    fn candidate(me: &str) -> Candidate {
        let timing = Timing::new(Duration::from_secs(15), Duration::from_secs(10)).unwrap();
        Candidate::new(me.into(), timing)
    }

    #[test]
    fn a_claim_counts_changes_of_the_holder_and_keeps_the_rest() {
        let first = claim(None, "quorate", &candidate("a"));
        let spec = first.spec.clone().unwrap();
        assert_eq!(spec.holder_identity.as_deref(), Some("a"));
        assert_eq!((spec.lease_transitions, spec.lease_duration_seconds), (Some(0), Some(15)));

        let mut held = first;
        held.metadata.resource_version = Some("7".into());
        held.metadata.labels = Some([("team".to_owned(), "hpc".to_owned())].into());
        let renewed = claim(Some(&held), "quorate", &candidate("a"));
        assert_eq!(renewed.spec.as_ref().unwrap().lease_transitions, Some(0));
        assert_eq!(renewed.spec.as_ref().unwrap().acquire_time, spec.acquire_time);

        let taken = claim(Some(&held), "quorate", &candidate("b"));
        assert_eq!(taken.spec.unwrap().lease_transitions, Some(1));
        // The version makes the replace fail if another was quicker.
        assert_eq!(taken.metadata, held.metadata);
    }
}
