//! The status of a MiniCluster: every field from the facts, and from the last status only what facts
//! no longer show.
//!
//! It never says more than is known. Quorate is rank 0's word; the end is JobSet's word; what is over
//! stays as it is.

mod conditions;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use quorate_api::status::{MiniClusterStatus, QueueStatus, State};
use quorate_contract::status::QueueCounts;
use quorate_plan::labels;

use crate::failure;
use crate::observed::{Observed, Obstacle};
use crate::scene::{Scene, Turn};
use crate::why::{self, Why};

/// The status that the cluster should have. Equal facts give an equal status, whatever `now` is, once
/// it is written: a caller compares and writes only what differs.
pub fn status(observed: &Observed, now: Timestamp) -> MiniClusterStatus {
    let scene = Scene::new(observed, now);
    match scene.turn {
        Turn::Deleting => scene.old,
        Turn::Over => over(&scene),
        _ => {
            let why = why::of_scene(&scene);
            living(&scene, &why)
        }
    }
}

/// Nothing changes any more, but for the generation: `kubectl wait` does not believe an older one.
fn over(scene: &Scene<'_>) -> MiniClusterStatus {
    let mut status = scene.old.clone();
    let generation = scene.observed.cluster.metadata.generation;
    status.observed_generation = generation;
    for condition in &mut status.conditions {
        condition.observed_generation = generation;
    }
    status
}

fn living(scene: &Scene<'_>, why: &Why) -> MiniClusterStatus {
    let failure = failure::known(scene);
    MiniClusterStatus {
        observed_generation: scene.observed.cluster.metadata.generation,
        state: Some(state(scene)),
        size: Some(size(scene)),
        online: Some(scene.online().cast_signed()),
        selector: Some(format!("{}={}", labels::CLUSTER, scene.observed.name())),
        attempt: Some(scene.attempt.cast_signed()),
        restarts: Some(scene.jobset.map_or(0, |jobset| jobset.restarts_counted.cast_signed())),
        start_time: scene.jobset.and_then(|jobset| jobset.created).map(Time),
        quorate_time: quorate_time(scene),
        completion_time: scene
            .verdict()
            .filter(|_| matches!(scene.turn, Turn::Succeeded | Turn::Failed))
            .map(|fact| Time(fact.since.unwrap_or(scene.now))),
        exit_code: exit_code(scene),
        reason: Some(why.cause.reason().to_owned()),
        message: Some(why.message.clone()),
        queue: queue(scene),
        conditions: conditions::all(scene, why),
        failure,
    }
}

fn state(scene: &Scene<'_>) -> State {
    let begun = quorate_time(scene).is_some();
    match scene.turn {
        Turn::Succeeded => State::Succeeded,
        Turn::Failed => State::Failed,
        Turn::Suspended => State::Suspended,
        Turn::Quorate if !scene.shape.program => State::Ready,
        Turn::Quorate | Turn::Waiting if scene.runs() => State::Running,
        // What ran has ended, but its cluster is still there.
        Turn::Ended if begun && scene.shape.program => State::Running,
        Turn::Ended if begun => State::Ready,
        Turn::Quorate | Turn::Ended => State::Starting,
        _ if scene.attempt > 0 && !begun => State::Restarting,
        _ if scene.jobset.is_some_and(|jobset| jobset.restarting.holds().is_some()) => {
            State::Restarting
        }
        _ if scene.running_pods() >= scene.shape.size => State::Starting,
        _ => State::Pending,
    }
}

/// What the launcher last told of its queue. Beside a program it is told of only once it had jobs.
fn queue(scene: &Scene<'_>) -> Option<QueueStatus> {
    let trouble = scene.live.and_then(|live| live.queue_trouble.clone());
    let troubled = trouble.is_some();
    let told = scene.live.and_then(|live| live.queue).filter(|counts| {
        let QueueCounts { pending, running, completed, failed } = *counts;
        !scene.shape.program || troubled || pending + running + completed + failed > 0
    });
    let kept = || scene.old.queue.clone().filter(|_| scene.same_run);
    told.map(|counts| QueueStatus { message: trouble, ..spoken(counts) }).or_else(kept)
}

fn spoken(counts: QueueCounts) -> QueueStatus {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    QueueStatus {
        jobs: format!("{}/{}", counts.running, counts.running.saturating_add(counts.pending)),
        pending: number(counts.pending),
        running: number(counts.running),
        completed: number(counts.completed),
        failed: number(counts.failed),
        message: None,
    }
}

/// Brokers planned now. A change that the cluster could not take has changed nothing.
fn size(scene: &Scene<'_>) -> i32 {
    let refused = scene.observed.shape.is_none()
        || scene.observed.obstacles.iter().any(|obstacle| {
            matches!(obstacle, Obstacle::Immutable { .. } | Obstacle::Queued { .. })
        });
    let planned = scene.shape.size.cast_signed();
    if refused { scene.old.size.unwrap_or(planned) } else { planned }
}

/// When this attempt had its quorum. After a suspension it needs a new one.
fn quorate_time(scene: &Scene<'_>) -> Option<Time> {
    if scene.turn == Turn::Suspended {
        return None;
    }
    let kept = scene.old.quorate_time.clone().filter(|_| scene.same_attempt());
    if kept.is_some() {
        return kept;
    }
    let told = scene.launcher.and_then(|pod| scene.report(pod)).map(|report| &report.phases);
    let reported = told
        .or_else(|| scene.live.map(|live| &live.phases))
        .and_then(|phases| phases.quorate)
        .and_then(|at| Timestamp::from_millisecond(i64::try_from(at).ok()?).ok())
        // The pod's clock may be ahead of ours.
        .map(|at| at.min(scene.now));
    let seen = match scene.turn {
        Turn::Quorate => scene
            .launcher
            .filter(|_| scene.live.is_none())
            .and_then(|pod| pod.ready_since)
            .or(Some(scene.now)),
        _ => None,
    };
    // Written times have whole seconds.
    let at = reported.or(seen)?;
    Timestamp::from_second(at.as_second()).ok().map(Time)
}

/// The launcher's code in this attempt, from its pod or as it was seen before that went.
fn exit_code(scene: &Scene<'_>) -> Option<i32> {
    if scene.turn == Turn::Succeeded {
        // JobSet completes when the launcher's Job does, and that when its pod ended with 0.
        return Some(0);
    }
    if !scene.shape.program && !matches!(scene.turn, Turn::Ended | Turn::Failed) {
        // The code of a launcher that is replaced is not that of the cluster.
        return None;
    }
    let kept = scene.old.exit_code.filter(|_| scene.same_attempt());
    scene.end().and_then(|end| end.code).or(kept)
}
