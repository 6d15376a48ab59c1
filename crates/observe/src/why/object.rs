//! What keeps the object from becoming anything.

use quorate_api::minicluster::MANAGER;

use super::{Cause, Found, making, words};
use crate::observed::{Obstacle, TRIED_AGAIN};
use crate::scene::Scene;

const TAKE_BACK: &str = "take the change back, or delete the cluster and create it again";

pub(super) fn look(scene: &Scene<'_>) -> Option<Found> {
    let observed = scene.observed;
    invalid(scene).or_else(|| former(scene)).or_else(|| {
        observed
            .obstacles
            .iter()
            .filter_map(|one| match one {
                Obstacle::NameTaken { .. } => Some((0, one)),
                Obstacle::Refused { .. } => Some((1, one)),
                Obstacle::Immutable { .. } => Some((2, one)),
                Obstacle::Queued { .. } => Some((3, one)),
                // No reason to be found wanting: it is told where a JobSet is missing.
                Obstacle::Delayed { .. } => None,
                Obstacle::Told { message, .. } if message.ends_with(TRIED_AGAIN) => None,
                Obstacle::Told { .. } => Some((4, one)),
                Obstacle::Unseen => Some((5, one)),
            })
            .min_by_key(|(rank, _)| *rank)
            .and_then(|(_, one)| obstacle(scene, one))
    })
}

/// What keeps the JobSet from being made, but may pass.
pub(super) fn delay(scene: &Scene<'_>) -> Option<Found> {
    scene.observed.obstacles.iter().find_map(|obstacle| match obstacle {
        Obstacle::Delayed { kind, name, message } => {
            let message = format!(
                "the {kind} {name} cannot be made yet: {}{TRIED_AGAIN}",
                words::quote(message)
            );
            Some(Found::new(Cause::Starting, message))
        }
        Obstacle::Told { message, .. } if message.ends_with(TRIED_AGAIN) => {
            Some(Found::new(Cause::Starting, message.clone()))
        }
        _ => None,
    })
}

fn invalid(scene: &Scene<'_>) -> Option<Found> {
    let errors: Vec<_> = scene.observed.errors().collect();
    let first = errors.first()?;
    let message = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let found = Found::new(Cause::Invalid, message);
    Some(match &first.hint {
        Some(hint) => found.advise(hint.clone()),
        None => found,
    })
}

/// A JobSet of this name that this object does not own.
fn former(scene: &Scene<'_>) -> Option<Found> {
    let observed = scene.observed;
    let jobset = observed.jobset.as_deref().filter(|_| observed.own_jobset().is_none())?;
    match &jobset.owner {
        Some((kind, name, _)) if kind == "MiniCluster" && name == observed.name() => {
            let message = format!(
                "the JobSet {name} still belongs to an earlier MiniCluster of this name; \
                 this one starts when that is gone"
            );
            Some(Found::new(Cause::NameTaken, message).since(jobset.deleting))
        }
        owner => {
            let owner = owner.as_ref().map(|(kind, name, _)| format!("{kind}/{name}"));
            Some(taken("JobSet", &jobset.name, owner.as_deref()))
        }
    }
}

fn taken(kind: &str, name: &str, owner: Option<&str>) -> Found {
    let owner = owner.map(|owner| format!("belongs to {owner}"));
    let owner = owner.unwrap_or_else(|| "was made by someone else".to_owned());
    Found::new(Cause::NameTaken, format!("there is a {kind} {name} already, which {owner}"))
        .advise(format!("delete or rename the {kind} {name}, or give this cluster another name"))
}

fn obstacle(scene: &Scene<'_>, obstacle: &Obstacle) -> Option<Found> {
    Some(match obstacle {
        Obstacle::NameTaken { kind, name, owner } => taken(kind, name, owner.as_deref()),
        Obstacle::Queued { field, queue } => queued(field, queue),
        Obstacle::Refused { kind, name, message } => {
            making::refusal(Cause::Refused, &format!("the {kind} {name} is refused"), message)
        }
        Obstacle::Immutable { fields } => {
            let what = match fields.as_slice() {
                [] => "the changed fields".to_owned(),
                fields => words::list(fields, 5),
            };
            Found::new(
                Cause::Immutable,
                format!("{what} cannot change while the cluster lives; it goes on as it was"),
            )
            .advise(TAKE_BACK)
        }
        Obstacle::Told { reason, message } => {
            let cause = Cause::of_word(reason).unwrap_or(Cause::Refused);
            let found = Found::new(cause, message.clone());
            match cause {
                Cause::NameTaken => found
                    .advise("delete or rename what is named, or give this cluster another name"),
                Cause::Immutable => found.advise(TAKE_BACK),
                Cause::Refused => found.advise(making::CHANGE),
                _ => found,
            }
        }
        Obstacle::Unseen => match scene.observed.cluster.spec.managed_by.as_deref() {
            Some(other) if other != MANAGER => Found::new(
                Cause::Starting,
                format!("{other}, which manages it, has not looked at it yet"),
            )
            .advise(format!("look at {other} (spec.managedBy)")),
            _ => Found::new(Cause::Starting, "no controller has looked at it yet").advise(
                "if it stays so, check that the controller runs: kubectl get pods -A \
                     -l app.kubernetes.io/name=quorate-controller",
            ),
        },
        Obstacle::Delayed { .. } => return None,
    })
}

/// What Kueue decides: it admits all pods of a JobSet or none, and says when they run.
fn queued(field: &str, queue: &str) -> Found {
    let place = if queue.is_empty() { String::new() } else { format!(" in queue {queue}") };
    let (what, to_do) = if field == "spec.suspend" {
        (
            "decides when its pods run",
            "leave spec.suspend out; to keep the cluster away, set active: false in its Workload",
        )
    } else {
        (
            "has admitted its pods all together, and takes no more or less",
            "take the change back, or delete the cluster and create it again with the other size",
        )
    };
    let message = format!("{field} has no effect: Kueue{place} {what}; it goes on as it was");
    Found::new(Cause::Immutable, message).advise(to_do)
}
