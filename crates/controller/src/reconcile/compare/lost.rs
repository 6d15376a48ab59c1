//! Pods on nodes that do not answer.
//!
//! Kubernetes waits for such a node. A pod that is being deleted there stays Terminating until the node
//! comes back, its Job waits for it to have failed, a JobSet that restarts waits for the Job, and the
//! scheduler takes the node for good until its heartbeats have been missed for 40 s or more. No node is
//! read here; the pods' own facts and what brokers said are enough, because of one promise: a broker that
//! has lost rank 0 stops its tasks and ends its pod within `orphanTimeoutSeconds`, and rank 0 gives it up
//! a third later ([`fenced_after`]). So a pod that must have ended and whose node has not said so is on
//! a node that does not answer, and nothing of it runs any more that could meet the next attempt, which
//! the handshake would refuse anyway. The argument in full: `docs/adr/0001-recovery.md`.

use std::collections::BTreeSet;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use quorate_api::names::LAUNCHER;
use quorate_contract::report::Reason;
use quorate_contract::status::Missing;
use quorate_observe::{ContainerFacts, ContainerState, LostNodes, Observed, Phase, PodFacts};

use super::{Action, Decision, Seen};

/// Seconds that a kubelet has, beyond the grace period, to say that a pod has ended.
const KUBELET: SignedDuration = SignedDuration::from_secs(10);
/// How long a node is avoided. By then Kubernetes has noticed by itself (it takes 40 to 50 s), or the
/// node is back.
const AVOIDED: SignedDuration = SignedDuration::from_secs(60);
/// Seconds between the end of a pod's readiness and its deletion by the taint manager that show that it was
/// the node's silence which made both.
const SILENT: SignedDuration = SignedDuration::from_secs(3);

/// How brokers say that another one was lost for its silence, that is after the bound, and not because it
/// was told to stop or its connection broke.
const FOR_SILENCE: &str = "silent for too long";

/// Decides about pods that hang, and about the nodes that they hang on.
pub(super) fn nodes(seen: &Seen, now: Timestamp, decision: &mut Decision) {
    let gone = gone(seen, now, decision);
    let lost = gone.iter().filter_map(|(pod, _)| pod.node.clone()).collect();
    // Before their pods go: what comes in their place is not to go there.
    note(&seen.observed, lost, now, decision);
    for (pod, why) in gone {
        // What Kubernetes said of it stands.
        let why = pod.disruption.is_none().then_some(why);
        let (pod, uid) = (pod.name.clone(), pod.uid.clone());
        decision.act(Action::GiveUp { pod, uid, why });
    }
}

/// Pods that are to be given up, and why.
fn gone<'a>(
    seen: &'a Seen,
    now: Timestamp,
    decision: &mut Decision,
) -> Vec<(&'a PodFacts, String)> {
    let observed = &seen.observed;
    let bound = fenced_after(seen.orphan_timeout);
    let lost = Lost::of(observed, bound, now, decision);
    let mut gone = Vec::new();
    // Those of a former JobSet of this cluster hold up the next one just as well.
    for pod in observed.pods.iter().map(AsRef::as_ref) {
        if pod.jobset.is_empty() || pod.ended() {
            continue;
        }
        let Some(node) = pod.node.as_deref() else {
            if stale(observed, pod, now) {
                gone.push((pod, "it was kept off nodes that may answer again".to_owned()));
            }
            continue;
        };
        let Some(gone_by) = pod.deleting else {
            if lost.names(pod) && runs(pod) && observed.own_pods().any(|own| own.uid == pod.uid) {
                gone.push((pod, format!("node {node} does not answer: the launcher lost it")));
            }
            continue;
        };
        if lost.has(pod) || abandoned(pod) {
            gone.push((pod, format!("node {node} does not answer")));
            continue;
        }
        let asked = gone_by - SignedDuration::from_secs(i64::from(pod.grace));
        let due = (gone_by + KUBELET).max(asked + bound);
        if due <= now {
            gone.push((pod, format!("node {node} did not end it in time")));
        } else {
            decision.look_at(due, now);
        }
    }
    if let Some(launcher) = deserted(observed) {
        let node = launcher.node.as_deref().unwrap_or_default();
        gone.push((launcher, format!("node {node} does not answer: all workers lost it")));
    }
    gone
}

/// Keeps new pods off `lost` nodes for a while, and ends that.
fn note(observed: &Observed, lost: BTreeSet<String>, now: Timestamp, decision: &mut Decision) {
    let Some(jobset) = observed.own_jobset() else { return };
    let noted = &jobset.lost_nodes;
    let holds = !noted.nodes.is_empty() && noted.until > now;
    let lost_nodes = if lost.is_empty() || (holds && lost.is_subset(&noted.nodes)) {
        if holds {
            decision.look_at(noted.until, now);
        }
        if holds || noted.nodes.is_empty() {
            return;
        }
        LostNodes::default()
    } else {
        let known = noted.nodes.iter().filter(|_| holds).cloned();
        LostNodes { nodes: known.chain(lost).collect(), until: now + AVOIDED }
    };
    decision.act(Action::KeepOff { uid: jobset.uid.clone(), lost_nodes });
}

/// How long rank 0 has to have heard nothing of a broker to know that it has left: the orphan timeout and a
/// third more for what a busy machine takes, as the brokers themselves count (`lost_after`).
fn fenced_after(orphan_timeout: u32) -> SignedDuration {
    SignedDuration::from_secs(i64::from(orphan_timeout) + i64::from(orphan_timeout) / 3)
}

/// A pod that rank 0 has given up.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GivenUp {
    attempt: u32,
    /// Short or whole, as it was told.
    name: String,
    /// When its broker was last heard, where that was told.
    heard: Option<Timestamp>,
}

impl GivenUp {
    /// Whether it is this pod. One of the same name that began to run after the lost broker was last heard
    /// has come in its place, and has yet to join.
    fn is(&self, pod: &PodFacts) -> bool {
        let named = self.name == pod.short_name() || self.name == pod.name;
        let later = self.heard.is_some_and(|heard| began(pod).is_some_and(|began| began > heard));
        self.attempt == pod.attempt && named && !later
    }
}

/// Pods that rank 0 has given up, and the nodes that they were on, by attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lost {
    pods: Vec<GivenUp>,
    nodes: Vec<(u32, String)>,
}

impl Lost {
    /// What rank 0 said last: live, in the report that the launcher's pod leaves behind, and in the
    /// status, which keeps it when that pod is gone.
    fn of(
        observed: &Observed,
        bound: SignedDuration,
        now: Timestamp,
        decision: &mut Decision,
    ) -> Self {
        let mut pods: Vec<GivenUp> = Vec::new();
        for missing in observed.live().into_iter().flat_map(|live| &live.missing) {
            let heard = observed.live.as_ref().map_or(now, |live| live.at);
            let Some(heard) = last_heard(missing, heard) else { continue };
            if heard + bound <= now {
                let (attempt, name) = (observed.attempt(), missing.pod.clone());
                pods.push(GivenUp { attempt, name, heard: Some(heard) });
            } else {
                decision.look_at(heard + bound, now);
            }
        }
        let mut named = pods.clone();
        for pod in observed.all_pods().filter(|pod| pod.group == LAUNCHER) {
            let report = pod.report.as_ref().filter(|report| {
                report.reason == Reason::BrokerLost && report.message.contains(FOR_SILENCE)
            });
            let lost = report.and_then(|report| report.failure.as_ref()?.pod.clone());
            let attempt = pod.attempt;
            named.extend(lost.map(|name| GivenUp { attempt, name, heard: None }));
        }
        let status = observed.cluster.status.as_ref();
        if let Some(failure) = status.and_then(|status| status.failure.as_ref())
            && failure.reason.as_deref() == Some(Reason::BrokerLost.as_str())
            && failure.message.as_ref().is_some_and(|message| message.contains(FOR_SILENCE))
            && let (Some(attempt), Some(name)) = (failure.attempt, failure.pod.clone())
        {
            named.push(GivenUp { attempt: attempt.cast_unsigned(), name, heard: None });
        }
        let nodes = observed.all_pods().filter_map(|pod| {
            (named.iter().any(|lost| lost.is(pod)) && !pod.ended())
                .then(|| Some((pod.attempt, pod.node.clone()?)))?
        });
        Self { nodes: nodes.collect(), pods }
    }

    /// Whether a pod is on a node of which rank 0 has given up a pod in the same attempt.
    fn has(&self, pod: &PodFacts) -> bool {
        self.nodes.iter().any(|(attempt, node)| {
            *attempt == pod.attempt && pod.node.as_deref() == Some(node.as_str())
        })
    }

    /// Whether rank 0, which still runs, has given up this very pod.
    fn names(&self, pod: &PodFacts) -> bool {
        self.pods.iter().any(|lost| lost.is(pod))
    }
}

/// When a broker was last heard that rank 0 says it has lost, as told at `told`.
fn last_heard(missing: &Missing, told: Timestamp) -> Option<Timestamp> {
    let silent = missing.silent_seconds.filter(|_| missing.why.starts_with("lost"))?;
    Some(told - SignedDuration::from_secs(i64::try_from(silent).unwrap_or(i64::MAX)))
}

/// Whether Kubernetes itself takes a pod off a node that does not answer: the pod was not ready any more
/// long before, or its kubelet has never said a word of it. Other taints leave a pod ready until then,
/// and its node lets it go in time.
fn abandoned(pod: &PodFacts) -> bool {
    let Some(why) = &pod.disruption else { return false };
    if why.reason != "DeletionByTaintManager" {
        return false;
    }
    let silent = match (pod.ready_since, why.since) {
        (Some(unready), Some(deleted)) => !pod.ready && unready + SILENT <= deleted,
        _ => false,
    };
    silent || (pod.phase == Phase::Pending && pod.main.is_none())
}

/// Whether a pod that no node took was kept off nodes that are not avoided any more.
fn stale(observed: &Observed, pod: &PodFacts, now: Timestamp) -> bool {
    let noted = observed.own_jobset().map(|jobset| &jobset.lost_nodes);
    let avoided = |name| noted.is_some_and(|noted| noted.until > now && noted.nodes.contains(name));
    pod.unscheduled.is_some()
        && pod.deleting.is_none()
        && !pod.kept_off.is_empty()
        && !pod.kept_off.split(',').all(avoided)
}

/// The launcher, if it is silent and every worker on another node has ended because it had lost it,
/// while it still counts as running.
fn deserted(observed: &Observed) -> Option<&PodFacts> {
    let launcher = observed.launcher().filter(|pod| runs(pod) && pod.deleting.is_none())?;
    if observed.live().is_some() {
        return None;
    }
    let orphan = |pod: &PodFacts| {
        pod.report.as_ref().is_some_and(|report| report.reason == Reason::Orphaned)
    };
    // Those that are there too are as silent as it is.
    let elsewhere = observed
        .own_pods()
        .filter(|pod| pod.group != LAUNCHER && pod.node.is_some() && pod.node != launcher.node);
    let rank = |pod: &PodFacts| (pod.group.clone(), pod.index);
    let (mut all, mut orphans) = (BTreeSet::new(), BTreeSet::new());
    for pod in elsewhere {
        all.insert(rank(pod));
        if orphan(pod) {
            orphans.insert(rank(pod));
        }
    }
    (!all.is_empty() && all == orphans).then_some(launcher)
}

fn runs(pod: &PodFacts) -> bool {
    let running = |main: &ContainerFacts| matches!(main.state, ContainerState::Running { .. });
    !pod.ended() && pod.main.as_deref().is_some_and(running)
}

/// Since when the main container of a pod runs, by its kubelet.
fn began(pod: &PodFacts) -> Option<Timestamp> {
    match pod.main.as_ref()?.state {
        ContainerState::Running { since } => since,
        _ => None,
    }
}
