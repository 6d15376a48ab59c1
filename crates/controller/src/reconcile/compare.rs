//! What is to be done: a pure comparison of what is wanted with what was seen. The same input gives the
//! same actions, and once they are carried out there are none.
//!
//! What it never does: write what another one writes (`spec.suspend` of a JobSet in a queue of Kueue),
//! touch what another owner has, or send again what the API has refused.

mod excuse;
mod lost;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use quorate_api::conditions::{self, reason};
use quorate_api::jobset;
use quorate_api::minicluster::KIND;
use quorate_api::names::LAUNCHER;
use quorate_api::status::MiniClusterStatus;
use quorate_observe::{JobFacts, JobSetFacts, LostNodes, Observed, Obstacle};

use super::memory::until;
use super::plan::Wanted;

/// The label that names a WorkloadPriorityClass of Kueue.
const PRIORITY_CLASS: &str = "kueue.x-k8s.io/priority-class";

/// What was seen of one cluster.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// All that its status is made of.
    pub observed: Observed,
    /// Whether its NetworkPolicy is there.
    pub network_policy: bool,
    /// Seconds after which a broker without rank 0 has left.
    pub orphan_timeout: u32,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make all objects, the JobSet last.
    Create,
    /// Look for the JobSet by its name: there are Jobs or pods of one that no watch has shown.
    Find,
    /// Make the NetworkPolicy of a living cluster again that was deleted.
    RestorePolicy,
    /// Suspend or resume the JobSet of this UID.
    Suspend {
        /// The JobSet's UID.
        uid: String,
        /// Whether it shall be suspended.
        suspend: bool,
    },
    /// Give a JobSet labels of Kueue that its MiniCluster has now.
    Label {
        /// The JobSet's UID.
        uid: String,
        /// The labels that differ.
        labels: BTreeMap<String, String>,
    },
    /// Give a worker Job another number of pods.
    Resize {
        /// The Job.
        job: String,
        /// Its UID.
        uid: String,
        /// Pods from now on.
        pods: u32,
    },
    /// Take labels of nodes out of what a suspended Job asks for, that its JobSet does not ask for.
    Unselect {
        /// The Job.
        job: String,
        /// Its UID.
        uid: String,
        /// Keys of its node selector.
        keys: Vec<String>,
    },
    /// Leave a launcher's Job of a later attempt what is left of the time limit.
    Limit {
        /// The Job.
        job: String,
        /// Its UID.
        uid: String,
        /// Seconds from its start.
        seconds: i64,
    },
    /// Note on the JobSet of this UID which nodes its new pods are to be kept off; none takes the note
    /// away.
    KeepOff {
        /// The JobSet's UID.
        uid: String,
        /// The note.
        lost_nodes: LostNodes,
    },
    /// Say of a launcher that a worker's disruption would be what ends it, or take that back.
    Excuse {
        /// The launcher's pod.
        pod: String,
        /// Its UID.
        uid: String,
        /// Which worker, and what happens to it; nothing takes it back.
        why: Option<String>,
    },
    /// Say of a pod that it has failed, in place of a node that does not say so, and delete it.
    GiveUp {
        /// The pod.
        pod: String,
        /// Its UID.
        uid: String,
        /// Why, for people; nothing where Kubernetes has said so already.
        why: Option<String>,
    },
    /// Delete the MiniCluster: its time after the end is over.
    DeleteCluster,
}

/// What a comparison comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// What to do, in this order.
    pub actions: Vec<Action>,
    /// What keeps the cluster from being what is wanted.
    pub obstacles: Vec<Obstacle>,
    /// When time alone will have changed the answer.
    pub again: Option<Duration>,
}

impl Decision {
    fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Looks again at `then`, or earlier.
    fn look_at(&mut self, then: Timestamp, now: Timestamp) {
        let wait = until(then, now);
        self.again = Some(self.again.map_or(wait, |again| again.min(wait)));
    }
}

/// Compares.
pub fn compare(wanted: &Wanted, seen: &Seen, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    let observed = &seen.observed;
    let cluster = &observed.cluster;
    if cluster.metadata.deletion_timestamp.is_some() {
        // Owner references take everything else along.
        return decision;
    }
    let status = cluster.status.as_ref();
    if let Some(end) = ended(status) {
        if let Some(ttl) = wanted.ttl_seconds {
            let due = end + SignedDuration::from_secs(i64::from(ttl));
            if due <= now {
                decision.act(Action::DeleteCluster);
            } else {
                decision.look_at(due, now);
            }
        }
        return decision;
    }
    excuse::launcher(wanted, seen, &mut decision);
    lost::nodes(seen, now, &mut decision);
    match observed.own_jobset() {
        None => begin(observed, &mut decision),
        Some(jobset) if jobset.deleting.is_some() || over(jobset) => {}
        Some(jobset) => {
            keep(wanted, seen, &mut decision);
            match quorate_plan::changes(
                jobset.spec_hash.as_deref().unwrap_or_default(),
                &wanted.identity,
            ) {
                Some(fields) => decision.obstacles.push(Obstacle::Immutable { fields }),
                None => live(wanted, seen, jobset, &mut decision),
            }
        }
    }
    decision
}

/// When the cluster ended, if its status says that it has.
fn ended(status: Option<&MiniClusterStatus>) -> Option<Timestamp> {
    let status = status?;
    let over = [conditions::SUCCEEDED, conditions::FAILED];
    let over = status
        .conditions
        .iter()
        .find(|c| over.contains(&c.type_.as_str()) && c.status == "True")?;
    let end = status.completion_time.as_ref().unwrap_or(&over.last_transition_time);
    Some(end.0)
}

/// Whether a JobSet has ended; its end is for the status to tell.
fn over(jobset: &JobSetFacts) -> bool {
    jobset.completed.holds().is_some() || jobset.failed.holds().is_some()
}

/// There is no JobSet of this cluster.
fn begin(observed: &Observed, decision: &mut Decision) {
    if let Some(jobset) = observed.jobset.as_deref() {
        match &jobset.owner {
            // That of a former cluster of the same name: on its way out, with all its pods.
            Some((kind, _, _)) if kind == KIND => {}
            owner => decision.obstacles.push(Obstacle::NameTaken {
                kind: "JobSet".to_owned(),
                name: jobset.name.clone(),
                owner: owner.as_ref().map(|(kind, name, _)| format!("{kind}/{name}")),
            }),
        }
        return;
    }
    // Jobs and pods of a former JobSet have the names, host names and keys of the next one's: they must
    // be gone. The watch tells when they are.
    let jobs: Vec<_> = observed.jobs.iter().filter(|job| !job.jobset.is_empty()).collect();
    let pods = observed.pods.iter().any(|pod| !pod.jobset.is_empty() && !pod.ended());
    if jobs.is_empty() && !pods {
        decision.act(Action::Create);
    } else if jobs.iter().any(|job| job.deleting.is_none()) {
        // Nobody takes them away. Has the JobSet lost the label by which it is watched?
        decision.act(Action::Find);
    }
}

/// What has to be there as long as pods may start.
fn keep(wanted: &Wanted, seen: &Seen, decision: &mut Decision) {
    if wanted.network_policy.is_some() && !seen.network_policy {
        decision.act(Action::RestorePolicy);
    }
}

/// What a living JobSet takes: suspension and size.
fn live(wanted: &Wanted, seen: &Seen, jobset: &JobSetFacts, decision: &mut Decision) {
    let observed = &seen.observed;
    if jobset.managed_by.as_deref().is_some_and(|by| by != jobset::CONTROLLER) {
        // Its Jobs and pods are elsewhere.
        return;
    }
    // Kueue may manage JobSets without a queue too; then it has made a Workload.
    let queued = jobset.queue.is_some() || observed.own_workload().is_some();
    let queue = || jobset.queue.clone().unwrap_or_default();
    if !queued {
        let status = observed.cluster.status.as_ref();
        if let Some(suspend) = suspension(wanted.suspend, jobset, status) {
            decision.act(Action::Suspend { uid: jobset.uid.clone(), suspend });
        }
    } else if wanted.suspend.is_some_and(|suspend| suspend != jobset.suspend.unwrap_or(false)) {
        let field = "spec.suspend".to_owned();
        decision.obstacles.push(Obstacle::Queued { field, queue: queue() });
    }
    if let Some(limit) = limit(wanted, observed) {
        decision.act(limit);
    }
    queueing(wanted, jobset, decision);
    if queued && jobset.suspend == Some(true) {
        decision.actions.extend(observed.own_jobs().filter_map(|job| unselect(jobset, job)));
    }
    for group in wanted.shape.groups.iter().filter(|group| group.name != LAUNCHER) {
        let differs = |job: &&JobFacts| {
            let planned = pods(group.pods_per_job());
            job.completions != planned || job.parallelism != planned
        };
        let jobs = observed.own_jobs().filter(|job| job.group == group.name);
        let Some(job) = jobs.filter(|job| alive(job)).find(differs) else { continue };
        if queued {
            // Kueue admitted so many pods; more would run without quota.
            let field = "spec.size".to_owned();
            decision.obstacles.push(Obstacle::Queued { field, queue: queue() });
        } else if pods(group.pods_per_job()) >= job.parallelism || may_shrink(wanted, observed) {
            let (job, uid) = (job.name.clone(), job.uid.clone());
            decision.act(Action::Resize { job, uid, pods: group.size });
        }
    }
}

/// Whether pods may go: a queue first lets the jobs on them end, and says so once they have. Where its
/// launcher cannot be asked, nobody can wait for it.
fn may_shrink(wanted: &Wanted, observed: &Observed) -> bool {
    let Some(live) = observed.live().filter(|_| !wanted.shape.program) else { return true };
    let size = wanted.shape.size;
    // A broker that has not come yet has no job.
    live.size <= size || live.free_from.is_some_and(|rank| rank <= size)
}

/// Kueue gives a JobSet the labels of the flavor that it is admitted to, and takes them back when it is
/// evicted. JobSet passes that on to its Jobs by adding alone, so one that comes back on a flavor with other
/// keys would ask for nodes that have both. Kubernetes takes the change of a suspended Job without pods
/// (MutableSchedulingDirectivesForSuspendedJobs, on since 1.36).
fn unselect(jobset: &JobSetFacts, job: &JobFacts) -> Option<Action> {
    if !alive(job) || !job.suspended || job.active > 0 {
        return None;
    }
    let planned = jobset.node_keys.iter().find(|(group, _)| *group == job.group);
    let planned = planned.map(|(_, keys)| keys.as_slice()).unwrap_or_default();
    let keys: Vec<String> =
        job.node_keys.iter().filter(|key| !planned.contains(key)).cloned().collect();
    let (job, uid) = (job.name.clone(), job.uid.clone());
    (!keys.is_empty()).then_some(Action::Unselect { job, uid, keys })
}

fn alive(job: &JobFacts) -> bool {
    job.deleting.is_none() && job.complete.holds().is_none() && job.failed.holds().is_none()
}

/// JobSet makes every attempt's Job with the whole time limit. A later one gets what earlier ones left,
/// so that the limit is that of the whole run, as in a Job; like there a suspension begins it anew.
fn limit(wanted: &Wanted, observed: &Observed) -> Option<Action> {
    let limit = i64::from(wanted.active_deadline_seconds?);
    if observed.attempt() == 0 {
        return None;
    }
    let status = observed.cluster.status.as_ref()?;
    let started = status.start_time.as_ref()?.0;
    let resumed = status.conditions.iter().find(|c| c.type_ == conditions::SUSPENDED);
    let resumed = resumed.filter(|c| c.status == "False").map(|c| c.last_transition_time.0);
    let begun = resumed.map_or(started, |resumed| started.max(resumed));
    let mut jobs = observed.own_jobs().filter(|job| job.group == LAUNCHER);
    let job = jobs.find(|job| alive(job) && !job.suspended)?;
    let seconds = (limit - job.started?.duration_since(begun).as_secs()).max(1);
    let (name, uid) = (job.name.clone(), job.uid.clone());
    job.limit.is_none_or(|limit| limit > seconds).then_some(Action::Limit {
        job: name,
        uid,
        seconds,
    })
}

/// Labels of Kueue that were changed after the JobSet was made. Kueue takes another queue while the
/// JobSet is suspended, and another priority at any time; the rest it would refuse. Labels that only
/// the JobSet has are Kueue's own.
fn queueing(wanted: &Wanted, jobset: &JobSetFacts, decision: &mut Decision) {
    let has = |key: &String| jobset.queueing.get(key);
    let differ = wanted.queueing.iter().filter(|(key, value)| has(key) != Some(value));
    let (mut take, mut refuse) = (BTreeMap::new(), Vec::new());
    for (key, value) in differ {
        let running = jobset.suspend != Some(true);
        if running && !(key == PRIORITY_CLASS && has(key).is_some()) {
            refuse.push(format!("metadata.labels[{key}]"));
        } else {
            take.insert(key.clone(), value.clone());
        }
    }
    if !take.is_empty() {
        decision.act(Action::Label { uid: jobset.uid.clone(), labels: take });
    }
    // Kueue reads annotations when it makes its Workload, and pods have those of their templates. Those
    // that only the JobSet has may be Kueue's own.
    for (key, value) in &wanted.queue_notes {
        if !jobset.queue_notes.contains(&(key.clone(), value.clone())) {
            refuse.push(format!("metadata.annotations[{key}]"));
        }
    }
    if !refuse.is_empty() {
        decision.obstacles.push(Obstacle::Immutable { fields: refuse });
    }
}

fn pods(size: u32) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}

/// What `spec.suspend` of a JobSet has to become. A field that is not written says nothing, unless the
/// JobSet stands still because it once was.
fn suspension(
    wanted: Option<bool>,
    jobset: &JobSetFacts,
    status: Option<&MiniClusterStatus>,
) -> Option<bool> {
    let is = jobset.suspend.unwrap_or(false);
    let by_spec = || {
        status.into_iter().flat_map(|status| &status.conditions).any(|c| {
            c.type_ == conditions::SUSPENDED
                && c.status == "True"
                && c.reason == reason::SUSPENDED_BY_SPEC
        })
    };
    let shall = match wanted {
        Some(suspend) => suspend,
        None if is && by_spec() => false,
        None => return None,
    };
    (is != shall).then_some(shall)
}

#[cfg(test)]
mod tests;
