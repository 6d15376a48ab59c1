//! One look at one MiniCluster.
//!
//! ```text
//! fetch      caches, memory        no request
//! validate   pure                  findings, or what is wanted
//! plan       pure                  once per generation; in full only to create
//! compare    pure                  actions, obstacles
//! apply      requests              creates, patches of one field, deletes
//! publish    requests              status if it changed, events of transitions
//! ```
//!
//! A look decides by what is there, never by what the last look did: memory only saves work.

pub mod apply;
pub mod compare;
mod count;
pub mod fetch;
mod memory;
pub mod plan;
pub mod publish;
pub mod validate;

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};
use quorate_api::MiniCluster;
use quorate_api::minicluster::MANAGER;
use quorate_observe::Obstacle;
use tracing::Instrument as _;
use tracing::field::Empty;

use crate::context::Context;
use crate::telemetry::chain;
use crate::watch::{Key, Packed};
use apply::{Applied, ApplyError, NOT_INSTALLED, apply};
use compare::{Action, Decision, compare};
use publish::{PublishError, publish};

pub use memory::Memory;
use memory::Refused;

/// Seconds until a name that is taken is tried again.
const TAKEN: i64 = 30;
/// Seconds until what was refused is tried again: a quota or a role may have changed.
const REFUSED: i64 = 300;

/// Why a look did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An action could not be carried out.
    #[error("cannot make the cluster what it shall be")]
    Apply(#[source] ApplyError),
    /// The status could not be written.
    #[error("cannot say what the cluster is")]
    Publish(#[source] PublishError),
}

impl Error {
    /// The machine's word, for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Apply(error) => error.reason(),
            Self::Publish(_) => "Status",
        }
    }
}

/// Looks at a cluster and does what is to be done. Returns after how long the next look is due, if
/// nothing happens before.
pub async fn reconcile(
    object: Arc<Packed>,
    context: Arc<Context>,
) -> Result<Option<Duration>, Error> {
    context.caches.ready().await;
    let key = crate::watch::key(object.meta());
    let cluster = match object.read() {
        Ok(cluster) => Arc::new(cluster),
        Err(error) => {
            // The definition refuses such an object; it is of another release, and its own change is
            // what to wait for.
            tracing::warn!(mc.ns = key.namespace, mc.name = key.name, %error, "cannot read a MiniCluster");
            return Ok(None);
        }
    };
    if cluster.spec.managed_by.as_deref().is_some_and(|manager| manager != MANAGER) {
        return Ok(None);
    }
    let mut memory = context.recall(&key, &cluster.uid().unwrap_or_default());
    let begun = Instant::now();
    context.metrics.reconciles_active.inc();
    let span = tracing::debug_span!(
        "look",
        mc.ns = key.namespace,
        mc.name = key.name,
        mc.uid = cluster.metadata.uid,
        mc.generation = cluster.metadata.generation,
        reason = Empty,
        otel.status_code = Empty,
    );
    let result = look(&context, &key, &cluster, &mut memory).instrument(span.clone()).await;
    if let Err(error) = &result {
        span.record("reason", error.reason()).record("otel.status_code", "ERROR");
    }
    context.metrics.reconciles_active.dec();
    context.metrics.reconciled(begun.elapsed(), result.as_ref().err().map(Error::reason));
    memory.errors = if result.is_ok() { 0 } else { memory.errors.saturating_add(1) };
    context.remember(key, memory);
    result
}

/// How long to wait after an error.
pub fn retry(object: &Packed, error: &Error, context: &Context) -> Duration {
    let key = crate::watch::key(object.meta());
    let memory = context.recall(&key, object.meta().uid.as_deref().unwrap_or_default());
    let wait = memory.backoff(jitter());
    tracing::warn!(
        mc.ns = key.namespace,
        mc.name = key.name,
        reason = error.reason(),
        error = %chain(error),
        again_ms = wait.as_millis(),
        "look failed"
    );
    context.remember(key, memory);
    wait
}

/// One look. Returns when the next one is due, if nothing happens before.
async fn look(
    context: &Context,
    key: &Key,
    cluster: &Arc<MiniCluster>,
    memory: &mut Memory,
) -> Result<Option<Duration>, Error> {
    let now = Timestamp::now();
    let generation = cluster.metadata.generation;
    let mut seen = fetch::fetch(context, key, cluster, memory);
    let decision = match validate::wanted(cluster, memory) {
        Ok(wanted) => {
            seen.observed.shape = Some(Arc::clone(&wanted.shape));
            seen.observed.findings.clone_from(&wanted.warnings);
            compare(&wanted, &seen, now)
        }
        Err(findings) => {
            seen.observed.findings.clone_from(&findings);
            Decision::default()
        }
    };
    let Decision { mut actions, obstacles, mut again } = decision;
    seen.observed.obstacles = obstacles;
    if let Some(refused) = memory.still_refused(generation, now) {
        // The same request would get the same answer. Pods that hang are another matter.
        actions.retain(|action| {
            matches!(action, Action::GiveUp { .. } | Action::KeepOff { .. } | Action::Excuse { .. })
        });
        seen.observed.obstacles.extend(refused.obstacles.iter().cloned());
        sooner(&mut again, memory::until(refused.until, now));
    } else {
        memory.refused = None;
    }
    let applied = apply(context, key, cluster, &actions).await;
    if let Ok(Applied { learned, obstacles }) = &applied {
        if *learned && obstacles.is_empty() {
            // Others wait to be created, and the status would be another one in a moment.
            return Ok(Some(Duration::ZERO));
        }
        if *learned {
            sooner(&mut again, Duration::ZERO);
        }
        if !obstacles.is_empty() {
            let wait = spread(obstacles.iter().map(patience).max().unwrap_or(REFUSED));
            let until = now + wait;
            memory.refused = Some(Refused { generation, obstacles: obstacles.clone(), until });
            seen.observed.obstacles.extend(obstacles.iter().cloned());
            sooner(&mut again, memory::until(until, now));
        }
    }
    if let Err(error) = &applied
        && memory.errors > 0
    {
        // Told from the second time on: most of what fails once does not fail twice.
        seen.observed.obstacles.extend(error.delay());
    }
    if let Some(launchers) = &context.launchers {
        launchers.follow(key, Some(&seen.observed));
    }
    let told = publish(context, key, &seen.observed, memory, now).await;
    applied.map_err(Error::Apply)?;
    if let Some(wait) = told.map_err(Error::Publish)? {
        sooner(&mut again, wait);
    }
    Ok(again)
}

fn sooner(again: &mut Option<Duration>, wait: Duration) {
    *again = Some(again.map_or(wait, |again| again.min(wait)));
}

fn patience(obstacle: &Obstacle) -> i64 {
    match obstacle {
        Obstacle::NameTaken { .. } => TAKEN,
        // Room comes without a change of the object, and so does a definition.
        Obstacle::Refused { message, .. }
            if message.contains("exceeded quota") || message.ends_with(NOT_INSTALLED) =>
        {
            TAKEN
        }
        _ => REFUSED,
    }
}

/// A span of seconds, spread by half.
fn spread(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs_f64(seconds as f64 * (0.75 + jitter() / 2.0))
}

/// A number in 0..1. Without a random source there is no spread, which is no harm.
fn jitter() -> f64 {
    f64::from(getrandom::u32().unwrap_or(u32::MAX / 2)) / f64::from(u32::MAX)
}
