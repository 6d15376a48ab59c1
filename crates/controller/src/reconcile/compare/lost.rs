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
use quorate_contract::status::Missing;
use quorate_observe::{ContainerState, Observed, PodFacts};

use super::{Action, Decision, Seen};

/// Seconds that a kubelet has, beyond the grace period, to say that a pod has ended.
const KUBELET: SignedDuration = SignedDuration::from_secs(10);
/// Seconds that a node has to say that the pod of a broker has ended, after rank 0 gave that up. A
/// pod's end usually shows within two.
const SILENCE: i64 = 3;

/// Pods of an attempt that rank 0 has given up, and the nodes that they were on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost(Vec<(u32, String)>);

impl Lost {
    /// What rank 0 said last: live, in the report that the launcher's pod leaves behind, and in the
    /// status, which keeps it when that pod is gone.
    pub(super) fn of(observed: &Observed, orphan_timeout: u32) -> Self {
        let mut named: Vec<(u32, &str)> = Vec::new();
        for pod in observed.all_pods().filter(|pod| pod.group == LAUNCHER) {
            let report = pod.report.as_ref().filter(|report| report.reason == Reason::BrokerLost);
            let lost = report.and_then(|report| report.failure.as_ref()?.pod.as_deref());
            named.extend(lost.map(|lost| (pod.attempt, lost)));
        }
        let status = observed.cluster.status.as_ref();
        if let Some(failure) = status.and_then(|status| status.failure.as_ref())
            && failure.reason.as_deref() == Some(Reason::BrokerLost.as_str())
            && let (Some(attempt), Some(pod)) = (failure.attempt, failure.pod.as_deref())
        {
            named.push((attempt.cast_unsigned(), pod));
        }
        for missing in observed.live().into_iter().flat_map(|live| &live.missing) {
            if given_up(missing, i64::from(orphan_timeout)) {
                named.push((observed.attempt(), &missing.pod));
            }
        }
        let nodes = observed.all_pods().filter_map(|pod| {
            let is = |(attempt, name): &(u32, &str)| {
                *attempt == pod.attempt && (*name == pod.short_name() || *name == pod.name)
            };
            (named.iter().any(is) && !pod.ended())
                .then(|| Some((pod.attempt, pod.node.clone()?)))?
        });
        Self(nodes.collect())
    }

    /// Whether a pod is on a node of which rank 0 has given up a pod in the same attempt.
    fn has(&self, pod: &PodFacts) -> bool {
        self.0.iter().any(|(attempt, node)| {
            *attempt == pod.attempt && pod.node.as_deref() == Some(node.as_str())
        })
    }
}

/// Whether rank 0 says that it has lost a broker that it has not heard for so many seconds.
fn given_up(missing: &Missing, seconds: i64) -> bool {
    let bound = u64::try_from(seconds).unwrap_or(u64::MAX);
    missing.why.starts_with("lost") && missing.silent_seconds.is_some_and(|silent| silent >= bound)
}

/// Decides about pods that hang.
pub(super) fn stuck(seen: &Seen, now: Timestamp, decision: &mut Decision) {
    let observed = &seen.observed;
    let lost = Lost::of(observed, seen.orphan_timeout);
    // Those of a former JobSet of this cluster hold up the next one just as well.
    let mut pods: Vec<&PodFacts> = observed.pods.iter().map(AsRef::as_ref).collect();
    pods.retain(|pod| !pod.jobset.is_empty() && !pod.ended() && pod.node.is_some());
    for pod in pods {
        let Some(gone_by) = pod.deleting else { continue };
        let due = if lost.has(pod) || abandoned(pod) { now } else { gone_by + KUBELET };
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

/// Whether Kubernetes itself takes a pod off a node that does not answer. It has waited for the node
/// and then for the time that the pod tolerates, which the plan sets to the orphan timeout.
fn abandoned(pod: &PodFacts) -> bool {
    pod.disruption.as_ref().is_some_and(|why| why.reason == "DeletionByTaintManager")
}

/// Whether a pod that rank 0 has given up still counts as running.
fn silent(seen: &Seen, pod: &PodFacts) -> bool {
    let bound = i64::from(seen.orphan_timeout) + SILENCE;
    let missing = seen.observed.live().into_iter().flat_map(|live| &live.missing);
    let given_up = missing
        .filter(|missing| missing.pod == pod.short_name())
        .any(|missing| given_up(missing, bound));
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
