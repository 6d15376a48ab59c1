//! A launcher whose worker Kubernetes takes away.
//!
//! A program that loses a rank ends, and two Jobs fail: the worker's by its disruption, which does not
//! count against `maxRestarts`, and the launcher's by the exit code of a launcher that lost a broker, which
//! does. JobSet judges by whichever it sees first, and the launcher needs one pod to end. So the launcher's
//! pod gets the worker's condition as soon as that is known, long before the worker has ended: both Jobs
//! then fail by a disruption. The kubelet keeps a condition `DisruptionTarget` that it did not set.
//!
//! A broker that falls silent is taken for a node that is lost as long as it is silent.

use quorate_api::minicluster::OnWorkerLost;
use quorate_api::names::LAUNCHER;
use quorate_observe::Observed;

use super::{Action, Decision, Seen};
use crate::reconcile::plan::Wanted;

/// Decides about the launcher of the attempt that runs.
pub(super) fn launcher(wanted: &Wanted, seen: &Seen, decision: &mut Decision) {
    let observed = &seen.observed;
    let policy = observed.cluster.spec.failure_policy.on_worker_lost;
    // Where a lost worker is to fail the cluster, its reason makes no difference.
    if !wanted.shape.program || policy == Some(OnWorkerLost::Fail) {
        return;
    }
    let launcher = observed.launcher().filter(|pod| !pod.ended() && pod.disruption.is_none());
    let Some(launcher) = launcher else { return };
    let why = disrupted(observed);
    // The worker is gone before its launcher is known to have ended, so that says nothing.
    if (why.is_some() && !launcher.excused)
        || (why.is_none() && launcher.excused && whole(wanted, observed))
    {
        let (pod, uid) = (launcher.name.clone(), launcher.uid.clone());
        decision.act(Action::Excuse { pod, uid, why });
    }
}

/// Whether the launcher itself says that all brokers are there.
fn whole(wanted: &Wanted, observed: &Observed) -> bool {
    observed.live().is_some_and(|live| live.online >= wanted.shape.size)
}

/// Which worker of this attempt is taken away or does not answer.
fn disrupted(observed: &Observed) -> Option<String> {
    let workers = observed.own_pods().filter(|pod| pod.group != LAUNCHER);
    let taken = workers
        .filter_map(|pod| Some((pod.short_name(), &pod.disruption.as_ref()?.reason)))
        .min()
        .map(|(name, reason)| format!("{name} is taken away ({reason})"));
    taken.or_else(|| {
        let silent = &observed.live()?.torpid_ranks;
        (!silent.is_empty()).then(|| format!("nothing is heard of rank {silent}"))
    })
}
