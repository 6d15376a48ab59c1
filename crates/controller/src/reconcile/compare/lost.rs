//! Pods on nodes that do not answer.
//!
//! Kubernetes waits for such a node: a pod that is being deleted there stays Terminating until the node
//! comes back, and a JobSet that restarts waits for that pod. No node is read here; the pods' own facts
//! and what brokers said are enough, because of one promise: a broker that has lost rank 0 stops its
//! tasks and ends its pod within `orphanTimeoutSeconds`, and rank 0 gives it up only after that time
//! (`lost_after` of the overlay is a third longer). So a pod that should have ended and whose node has
//! not said so is on a node that does not answer, and nothing of it runs any more that could meet the
//! next attempt, which the handshake would refuse anyway.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use quorate_api::names::LAUNCHER;
use quorate_contract::report::Reason;
use quorate_observe::{ContainerState, Observed, PodFacts};

use super::{Action, Decision, Lost, Seen};

/// Seconds that a kubelet has, beyond the grace period, to say that a pod has ended.
const KUBELET: SignedDuration = SignedDuration::from_secs(10);
/// Seconds that a node has to say that the pod of a broker has ended, after rank 0 gave that up. A
/// pod's end usually shows within two.
const SILENCE: i64 = 3;

/// The pods that rank 0 of this attempt has given up, with those that were known already.
pub fn given_up(observed: &Observed, orphan_timeout: u32, known: Lost) -> Lost {
    let attempt = observed.attempt();
    let mut lost =
        if known.attempt == attempt { known } else { Lost { attempt, ..Lost::default() } };
    let launcher = observed.launcher();
    let report = launcher.and_then(|launcher| launcher.report.as_deref());
    let mut short_names = Vec::new();
    if let Some(report) = report.filter(|report| report.reason == Reason::BrokerLost)
        && let Some(pod) = report.failure.as_ref().and_then(|failure| failure.pod.clone())
    {
        short_names.push(pod);
    }
    for missing in observed.live().into_iter().flat_map(|live| &live.missing) {
        let silent = missing.silent_seconds.is_some_and(|s| s >= u64::from(orphan_timeout));
        if silent && missing.why.starts_with("lost") {
            short_names.push(missing.pod.clone());
        }
    }
    for pod in observed.own_pods() {
        let named = short_names.iter().any(|name| *name == pod.short_name() || *name == pod.name);
        if named && !pod.ended() && !lost.pods.contains(&pod.name) {
            lost.pods.push(pod.name.clone());
            lost.nodes.extend(pod.node.clone());
        }
    }
    lost
}

/// Decides about pods that hang.
pub(super) fn stuck(seen: &Seen, now: Timestamp, decision: &mut Decision) {
    let observed = &seen.observed;
    // Those of a former JobSet of this cluster hold up the next one just as well.
    let mut pods: Vec<&PodFacts> = observed.pods.iter().map(AsRef::as_ref).collect();
    pods.retain(|pod| !pod.jobset.is_empty() && !pod.ended() && pod.node.is_some());
    for pod in pods {
        let Some(gone_by) = pod.deleting else { continue };
        let due = if lost(seen, pod) { now } else { gone_by + KUBELET };
        if due <= now {
            let (pod, uid) = (pod.name.clone(), pod.uid.clone());
            decision.act(Action::ForceDelete { pod, uid });
        } else {
            decision.look_at(due, now);
        }
    }
    if let Some(launcher) = deserted(observed) {
        let (pod, uid) = (launcher.name.clone(), launcher.uid.clone());
        decision.act(Action::Evict { pod, uid });
    }
    for pod in observed.own_pods().filter(|pod| silent(seen, pod)) {
        let (pod, uid) = (pod.name.clone(), pod.uid.clone());
        decision.act(Action::Evict { pod, uid });
    }
}

/// Whether rank 0 has given a pod up, or another one on its node.
fn lost(seen: &Seen, pod: &PodFacts) -> bool {
    seen.lost.attempt == pod.attempt
        && (seen.lost.pods.contains(&pod.name)
            || pod.node.as_ref().is_some_and(|node| seen.lost.nodes.contains(node)))
}

/// Whether a pod that rank 0 has given up still counts as running.
fn silent(seen: &Seen, pod: &PodFacts) -> bool {
    let given_up = seen.observed.live().into_iter().flat_map(|live| &live.missing).any(|missing| {
        let bound = u64::try_from(i64::from(seen.orphan_timeout) + SILENCE).unwrap_or(u64::MAX);
        missing.pod == pod.short_name()
            && missing.why.starts_with("lost")
            && missing.silent_seconds.is_some_and(|silent| silent >= bound)
    });
    given_up && runs(pod) && pod.deleting.is_none()
}

/// The launcher, if all workers have ended because they had lost it, while it still counts as running.
fn deserted(observed: &Observed) -> Option<&PodFacts> {
    let launcher = observed.launcher().filter(|pod| runs(pod) && pod.deleting.is_none())?;
    if observed.live().is_some() {
        return None;
    }
    let mut workers = observed.own_pods().filter(|pod| pod.group != LAUNCHER).peekable();
    workers.peek()?;
    let orphan = |pod: &PodFacts| {
        pod.report.as_ref().is_some_and(|report| report.reason == Reason::Orphaned)
    };
    workers.all(orphan).then_some(launcher)
}

fn runs(pod: &PodFacts) -> bool {
    !pod.ended()
        && pod
            .main
            .as_ref()
            .is_some_and(|main| matches!(main.state, ContainerState::Running { .. }))
}
