//! The conditions: types and reasons are those of `quorate_api::conditions`, messages those of
//! `crate::why`. A condition's time moves only when its value does.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use quorate_api::conditions::{self as kind, reason};

use crate::scene::{Scene, Turn};
use crate::why::{self, Cause, Why};

/// All conditions, in the order of a cluster's life.
pub(super) fn all(scene: &Scene<'_>, why: &Why) -> Vec<Condition> {
    let mut list = vec![accepted(scene)];
    list.extend(suspended(scene));
    list.push(quorate(scene));
    list.push(running(scene));
    list.extend(ended(scene, why));
    list.into_iter().map(|said| said.condition(scene)).collect()
}

/// What a condition says.
struct Said {
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
    /// When it became so, where that is known better than "when it was noticed".
    at: Option<Timestamp>,
}

impl Said {
    fn condition(self, scene: &Scene<'_>) -> Condition {
        let status = if self.holds { "True" } else { "False" };
        let before = scene
            .old
            .conditions
            .iter()
            .find(|one| one.type_ == self.kind && one.status == status)
            .map(|one| one.last_transition_time.clone());
        // Written times have whole seconds.
        let now = Timestamp::from_second(self.at.unwrap_or(scene.now).as_second());
        Condition {
            type_: self.kind.to_owned(),
            status: status.to_owned(),
            reason: self.reason.to_owned(),
            message: self.message,
            last_transition_time: before.unwrap_or_else(|| Time(now.unwrap_or(scene.now))),
            observed_generation: scene.observed.cluster.metadata.generation,
        }
    }
}

fn says(kind: &'static str, holds: bool, reason: &'static str, message: impl Into<String>) -> Said {
    Said { kind, holds, reason, message: message.into(), at: None }
}

fn accepted(scene: &Scene<'_>) -> Said {
    match why::refusal(scene) {
        Some((cause, message)) => says(kind::ACCEPTED, false, cause.reason(), message),
        None => says(kind::ACCEPTED, true, reason::PLANNED, ""),
    }
}

/// Not there unless it was ever suspended, as with Jobs.
fn suspended(scene: &Scene<'_>) -> Option<Said> {
    if scene.turn == Turn::Suspended {
        let (cause, message) = why::beneath(scene);
        return Some(says(kind::SUSPENDED, true, cause.reason(), message));
    }
    let before = scene.old.conditions.iter().any(|one| one.type_ == kind::SUSPENDED);
    before.then(|| says(kind::SUSPENDED, false, reason::RESUMED, ""))
}

fn quorate(scene: &Scene<'_>) -> Said {
    match scene.turn {
        Turn::Quorate => says(kind::QUORATE, true, reason::QUORUM_REACHED, ""),
        Turn::Succeeded | Turn::Failed => says(kind::QUORATE, false, reason::FINISHED, ""),
        Turn::Ended => says(kind::QUORATE, false, reason::PROGRAM_ENDED, ""),
        _ => {
            // A change that is not taken keeps no broker away.
            let refusal = why::refusal(scene).filter(|(cause, _)| *cause != Cause::Immutable);
            let (cause, message) = refusal.unwrap_or_else(|| why::beneath(scene));
            says(kind::QUORATE, false, cause.reason(), message)
        }
    }
}

fn running(scene: &Scene<'_>) -> Said {
    match scene.turn {
        Turn::Quorate if !scene.shape.program => says(kind::RUNNING, true, reason::READY, ""),
        Turn::Quorate | Turn::Waiting if scene.runs() => {
            says(kind::RUNNING, true, reason::PROGRAM_STARTED, "")
        }
        Turn::Quorate => says(kind::RUNNING, false, reason::STARTING, ""),
        Turn::Succeeded | Turn::Failed => says(kind::RUNNING, false, reason::FINISHED, ""),
        Turn::Ended => says(kind::RUNNING, false, reason::PROGRAM_ENDED, ""),
        _ => says(kind::RUNNING, false, reason::NOT_QUORATE, ""),
    }
}

fn ended(scene: &Scene<'_>, why: &Why) -> Option<Said> {
    let kind = match scene.turn {
        Turn::Succeeded => kind::SUCCEEDED,
        Turn::Failed => kind::FAILED,
        _ => return None,
    };
    let at = scene.verdict().and_then(|fact| fact.since);
    Some(Said { at, ..says(kind, true, why.cause.reason(), why.message.clone()) })
}
