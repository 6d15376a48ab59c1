//! Pods that are kept away: by the spec, by Kueue, by someone else.

use super::{Cause, Found, words};
use crate::facts::workload::WorkloadFacts;
use crate::scene::{Scene, Turn};

/// Who runs a JobSet that Kueue hands to another cluster (`spec.managedBy`).
const MULTIKUEUE: &str = "kueue.x-k8s.io/multikueue";

/// The reason of a Workload's end when the pods could not be given what its flavor asks for.
const FAILED_TO_START: &str = "FailedToStart";

pub(super) fn look(scene: &Scene<'_>) -> Option<Found> {
    if scene.turn != Turn::Suspended {
        return None;
    }
    let jobset = scene.jobset;
    let since = jobset.and_then(|jobset| jobset.suspended.holds()).and_then(|fact| fact.since);
    let workload = scene.observed.own_workload();
    let queue = jobset.and_then(|jobset| jobset.queue.as_deref());
    let elsewhere = jobset.and_then(|jobset| jobset.managed_by.as_deref()) == Some(MULTIKUEUE);
    let found = if elsewhere {
        multikueue(queue.unwrap_or_default())
    } else if scene.observed.cluster.spec.suspend == Some(true) && queue.is_none() {
        by_spec(scene)
    } else if let Some(workload) = workload {
        by_kueue(workload, scene.observed.preemptor.as_deref())
    } else if let Some(queue) = queue {
        Found::new(
            Cause::WaitingForAdmission,
            format!("it waits for Kueue, which has not made a Workload in queue {queue} yet"),
        )
        .advise("if it stays so, check that Kueue runs and manages JobSets in this namespace")
    } else {
        Found::new(Cause::SuspendedByOther, "someone else has suspended its JobSet")
            .advise("resume the JobSet, or find out who suspended it")
    };
    Some(Found { since: found.since.or(since), ..found })
}

fn by_spec(scene: &Scene<'_>) -> Found {
    let stays = scene.observed.all_pods().any(|pod| !pod.ended());
    let message = if stays {
        "spec.suspend is true; its pods are being stopped"
    } else {
        "spec.suspend is true"
    };
    Found::new(Cause::SuspendedBySpec, message).advise("set spec.suspend to false")
}

/// JobSet and Workload travel; the Secret that the pods need does not.
fn multikueue(queue: &str) -> Found {
    let message = format!(
        "queue {queue} hands JobSets to other clusters by MultiKueue, where the Secret of this \
         one is not: a MiniCluster cannot run there"
    );
    Found::new(Cause::JobSetSilent, message)
        .advise("take a LocalQueue whose ClusterQueue has no MultiKueue admission check")
}

fn by_kueue(workload: &WorkloadFacts, preemptor: Option<&WorkloadFacts>) -> Found {
    let queue = &workload.queue;
    let reserved = workload.quota_reserved.holds();
    let evicted = workload.evicted.holds();
    if !workload.active {
        let why = evicted.map(|fact| words::quote(&fact.message)).filter(|why| !why.is_empty());
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        return Found::new(
            Cause::QueueEvicted,
            format!("its Workload {} is switched off{why}", workload.name),
        )
        .since(evicted.and_then(|fact| fact.since))
        .advise(format!("set spec.active of Workload {} to true", workload.name));
    }
    if let Some(fact) = evicted
        && reserved.is_none()
    {
        let words = words::quote(&fact.message);
        let by = preemptor.map(|other| match other.jobset.as_str() {
            "" => format!(" for the Workload {}", other.name),
            jobset => format!(" for the JobSet {jobset}"),
        });
        let by = by.unwrap_or_default();
        return Found::new(
            Cause::QueueEvicted,
            format!(
                "Kueue took it out of queue {queue}{by} ({}: {words}); it waits to be admitted again",
                fact.reason
            ),
        )
        .since(fact.since);
    }
    // Kueue tries it once and never again.
    if let Some(fact) = workload.finished.holds().filter(|fact| fact.reason == FAILED_TO_START) {
        let words = words::quote(&fact.message);
        return Found::new(
            Cause::QueueEvicted,
            format!("Kueue has given it up in queue {queue}, as its flavor contradicts the pods: {words}"),
        )
        .since(fact.since)
        .advise("leave what the flavor sets out of nodeSelector in spec.template; then delete and create again");
    }
    if let Some(fact) = workload.quota_reserved.denied() {
        let words = words::quote(&fact.message);
        let found = if fact.reason == "Inadmissible" {
            let message = format!("Kueue cannot admit it in queue {queue}: {words}");
            Found::new(Cause::WaitingForAdmission, message)
                .advise(format!("check the LocalQueue {queue} and its ClusterQueue"))
        } else {
            let message = format!("it waits in queue {queue} of Kueue: {}", assigned(&words));
            Found::new(Cause::WaitingForAdmission, message)
        };
        return found.since(fact.since.or(workload.created));
    }
    let message = match reserved {
        Some(_) if workload.admitted.holds().is_some() => {
            format!("Kueue has admitted it in queue {queue} and is about to resume it")
        }
        Some(_) => format!("it has its quota in queue {queue} and waits for admission checks"),
        None => format!("it waits in queue {queue} of Kueue"),
    };
    let since = reserved.and_then(|fact| fact.since).or(workload.created);
    Found::new(Cause::WaitingForAdmission, message).since(since)
}

/// Kueue's words about flavors, shorter: a pod set is a group.
fn assigned(words: &str) -> String {
    match words.strip_prefix("couldn't assign flavors to pod set ") {
        Some(rest) => format!("group {rest}"),
        None => words.to_owned(),
    }
}
