//! Everything that was seen of one cluster, as plain data.
//!
//! Whoever fills it may put in whatever it found under the cluster's names and labels:
//! [`Observed::own_jobset`] and its kin believe only what belongs to this object's UID and to the
//! attempt that runs now. A former cluster of the same name, a foreign object and a straggler of an
//! earlier attempt are thus never taken for this one.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use quorate_api::conditions;
use quorate_api::names::{LAUNCHER, WORKER};
use quorate_api::validate::ValidatedProgram;
use quorate_api::{Finding, MiniCluster, Severity, ValidatedMiniCluster};
use quorate_contract::ClusterStatus;

use crate::facts::event::EventFacts;
use crate::facts::job::JobFacts;
use crate::facts::jobset::JobSetFacts;
use crate::facts::pod::PodFacts;
use crate::facts::workload::WorkloadFacts;

/// What was seen of one cluster at one time.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The object itself, with the status that was written last.
    pub cluster: Arc<MiniCluster>,
    /// What validation made of it; `None` when it is not valid.
    pub shape: Option<Arc<Shape>>,
    /// What validation found: with an error there is no shape.
    pub findings: Vec<Finding>,
    /// What kept the plan from being carried out.
    pub obstacles: Vec<Obstacle>,
    /// The JobSet of the cluster's name, whoever owns it.
    pub jobset: Option<Arc<JobSetFacts>>,
    /// Jobs of that JobSet. May be empty although there are some: then pods alone are believed.
    pub jobs: Vec<Arc<JobFacts>>,
    /// Pods with the cluster's label.
    pub pods: Vec<Arc<PodFacts>>,
    /// What the launcher's broker said, while it is connected.
    pub live: Option<Live>,
    /// The Workload, where Kueue is installed.
    pub workload: Option<Arc<WorkloadFacts>>,
    /// The Workload of the same namespace that took its place ([`WorkloadFacts::preemptor`]).
    pub preemptor: Option<Arc<WorkloadFacts>>,
    /// Events about the JobSet, its Jobs and pods. May be empty although there are some.
    pub events: Vec<EventFacts>,
    /// When JobSet last made a Job, of whatever cluster; nothing if that is not known.
    pub jobset_acted: Option<Timestamp>,
}

/// The part of a validated MiniCluster that its status needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Brokers now.
    pub size: u32,
    /// The quorum.
    pub min_size: u32,
    /// Restarts that a failure may cost.
    pub max_restarts: u32,
    /// Whether there is a program; without one the cluster stays up for people.
    pub program: bool,
    /// Groups in rank order; the first is the launcher's.
    pub groups: Vec<GroupShape>,
}

/// One group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupShape {
    /// `launcher`, `worker`, ...
    pub name: String,
    /// The rank of its pod with index 0.
    pub first_rank: u32,
    /// Pods now.
    pub size: u32,
    /// The Jobs that they are in, equally many in each; 0 is taken for 1.
    pub jobs: u32,
}

impl GroupShape {
    /// Pods of each of its Jobs.
    pub fn pods_per_job(&self) -> u32 {
        self.size / self.jobs.max(1)
    }

    /// The name that people use for its n-th pod: group, Job and index, `worker-0-3`.
    pub(crate) fn pod_name(&self, n: u32) -> String {
        let (job, index) = match self.jobs {
            0 | 1 => (0, n),
            _ => (n / self.pods_per_job().max(1), n % self.pods_per_job().max(1)),
        };
        format!("{}-{job}-{index}", self.name)
    }
}

/// What kept the plan from being carried out. Whoever applies the plan finds it; whoever looks from
/// outside has [`Obstacle::told`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// An object of a planned name belongs to someone else. It is left alone.
    NameTaken {
        /// Its kind: `JobSet`, `Secret`, `NetworkPolicy`, `Service`.
        kind: String,
        /// Its name.
        name: String,
        /// Who controls it, as `Kind/name`, if anyone does.
        owner: Option<String>,
    },
    /// The user changed what a living JobSet cannot take. The cluster goes on as it was.
    Immutable {
        /// The changed fields, such as `spec.image`; may be empty when they are not known.
        fields: Vec<String>,
    },
    /// The user asks for what Kueue alone decides. The cluster goes on as it was.
    Queued {
        /// What was asked for, such as `spec.size`.
        field: String,
        /// The LocalQueue; empty when Kueue manages JobSets outside of queues.
        queue: String,
    },
    /// The API server or a webhook refused an object, and will do so again (403, 422).
    Refused {
        /// The object's kind.
        kind: String,
        /// The object's name.
        name: String,
        /// The words of the refusal.
        message: String,
    },
    /// An object could not be made so far, for a reason that may pass: a webhook that cannot be
    /// reached, an error of the server, the remains of a former cluster. It is tried again.
    Delayed {
        /// The object's kind.
        kind: String,
        /// The object's name.
        name: String,
        /// Why not.
        message: String,
    },
    /// Any of these, as the last status tells it.
    Told {
        /// The reason of the condition `Accepted`.
        reason: String,
        /// Its sentence.
        message: String,
    },
    /// No controller has written a status yet.
    Unseen,
}

/// How a status ends that tells of a delay: nobody has to do anything.
pub(crate) const TRIED_AGAIN: &str = "; it is tried again";

impl Obstacle {
    /// What the status of a cluster tells to someone who did not try to carry out the plan.
    pub fn told(cluster: &MiniCluster) -> Option<Self> {
        let Some(status) = &cluster.status else { return Some(Self::Unseen) };
        let told = |reason: &str, message: &str| Self::Told {
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        if status.observed_generation == cluster.metadata.generation
            && let (Some(reason), Some(message)) = (&status.reason, &status.message)
            && reason == conditions::reason::STARTING
            && message.ends_with(TRIED_AGAIN)
        {
            return Some(told(reason, message));
        }
        let accepted = status.conditions.iter().find(|one| one.type_ == conditions::ACCEPTED)?;
        // A status of an older generation speaks of another spec.
        let of_now = accepted.observed_generation == cluster.metadata.generation;
        (accepted.status == "False" && of_now).then(|| told(&accepted.reason, &accepted.message))
    }
}

/// What the launcher's broker said of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// The launcher's pod that said it.
    pub pod_uid: String,
    /// When it was received.
    pub at: Timestamp,
    /// Its words.
    pub status: ClusterStatus,
}

impl Shape {
    /// The shape of a valid cluster.
    pub fn of(cluster: &ValidatedMiniCluster) -> Self {
        Self {
            size: cluster.size,
            min_size: cluster.min_size,
            max_restarts: cluster.max_restarts,
            program: !matches!(cluster.program, ValidatedProgram::None),
            groups: cluster
                .groups
                .iter()
                .map(|group| GroupShape {
                    name: group.name.to_string(),
                    first_rank: group.first_rank,
                    size: group.size,
                    jobs: group.jobs,
                })
                .collect(),
        }
    }

    /// What can be said of a cluster that is not valid: its size, if that makes sense.
    fn guess(cluster: &MiniCluster) -> Self {
        let spec = &cluster.spec;
        let groups: i32 = spec.groups.iter().map(|group| group.size.max(0)).sum();
        let size = spec.size.unwrap_or(1 + groups).max(1).cast_unsigned();
        let program = spec.has_program();
        let min_size = spec.min_size.map_or(size, |min| min.max(1).cast_unsigned());
        let together = spec.topology.as_ref().and_then(|topology| topology.group_size).unwrap_or(0);
        let jobs = match together.max(0).cast_unsigned() {
            pods @ 2.. if (size - 1).is_multiple_of(pods) => (size - 1) / pods,
            _ => 1,
        };
        let workers = GroupShape { name: WORKER.to_owned(), first_rank: 1, size: size - 1, jobs };
        let launcher = GroupShape { name: LAUNCHER.to_owned(), first_rank: 0, size: 1, jobs: 1 };
        let max_restarts = spec.failure_policy.max_restarts.max(0).cast_unsigned();
        Self { size, min_size, max_restarts, program, groups: vec![launcher, workers] }
    }

    /// The rank of a pod of this cluster; `None` for a group that it does not have.
    pub fn rank(&self, pod: &PodFacts) -> Option<u32> {
        let group = self.groups.iter().find(|group| group.name == pod.group)?;
        let before =
            if group.jobs > 1 { pod.job_index.checked_mul(group.pods_per_job())? } else { 0 };
        group.first_rank.checked_add(before)?.checked_add(pod.index)
    }
}

impl Observed {
    /// The cluster's name.
    pub(crate) fn name(&self) -> &str {
        self.cluster.metadata.name.as_deref().unwrap_or_default()
    }

    /// The cluster's shape, guessed when the object is not valid.
    pub(crate) fn shape(&self) -> Shape {
        self.shape.as_deref().cloned().unwrap_or_else(|| Shape::guess(&self.cluster))
    }

    /// Findings that refuse the object.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error)
    }

    /// The JobSet, if this very object owns it.
    pub fn own_jobset(&self) -> Option<&JobSetFacts> {
        let uid = self.cluster.metadata.uid.as_deref()?;
        self.jobset
            .as_deref()
            .filter(|jobset| jobset.owner.as_ref().is_some_and(|(_, _, owner)| owner == uid))
    }

    /// The attempt that runs now, counted from 0. A pod or Job of the next attempt may be seen
    /// before the JobSet's own figure.
    pub fn attempt(&self) -> u32 {
        let Some(jobset) = self.own_jobset() else { return 0 };
        let jobs = self.jobs.iter().filter(|job| job.jobset == jobset.uid).map(|job| job.attempt);
        let pods = self.pods.iter().filter(|pod| pod.jobset == jobset.uid).map(|pod| pod.attempt);
        jobs.chain(pods).fold(jobset.restarts, u32::max)
    }

    /// Jobs of this attempt.
    pub fn own_jobs(&self) -> impl Iterator<Item = &JobFacts> {
        let attempt = self.attempt();
        let uid = self.own_jobset().map(|jobset| jobset.uid.as_str());
        self.jobs
            .iter()
            .map(AsRef::as_ref)
            .filter(move |job| Some(job.jobset.as_str()) == uid && job.attempt == attempt)
    }

    /// All pods of this JobSet, those of earlier attempts too.
    pub fn all_pods(&self) -> impl Iterator<Item = &PodFacts> {
        let uid = self.own_jobset().map(|jobset| jobset.uid.as_str());
        self.pods.iter().map(AsRef::as_ref).filter(move |pod| Some(pod.jobset.as_str()) == uid)
    }

    /// Pods of this attempt, in no order. A rank that was replaced has several.
    pub fn own_pods(&self) -> impl Iterator<Item = &PodFacts> {
        let attempt = self.attempt();
        self.all_pods().filter(move |pod| pod.attempt == attempt)
    }

    /// The launcher's pod of this attempt: the youngest, and rather one that is not on its way out.
    pub fn launcher(&self) -> Option<&PodFacts> {
        self.own_pods()
            .filter(|pod| pod.group == LAUNCHER)
            .max_by_key(|pod| (pod.deleting.is_none(), pod.created, &pod.uid))
    }

    /// The live words, if they are of this attempt's launcher and that still runs.
    pub fn live(&self) -> Option<&ClusterStatus> {
        let launcher = self.launcher().filter(|pod| !pod.ended())?;
        let live = self.live.as_ref().filter(|live| live.pod_uid == launcher.uid)?;
        (live.status.attempt == self.attempt()).then_some(&live.status)
    }

    /// The Workload, if it is of this JobSet.
    pub fn own_workload(&self) -> Option<&WorkloadFacts> {
        let uid = &self.own_jobset()?.uid;
        self.workload.as_deref().filter(|workload| workload.owners.contains(uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(job_index: u32, index: u32) -> PodFacts {
        PodFacts { group: WORKER.to_owned(), job_index, index, ..PodFacts::default() }
    }

    #[test]
    fn ranks_of_a_group_of_several_jobs_are_those_of_its_names() {
        let workers = GroupShape { name: WORKER.to_owned(), first_rank: 1, size: 6, jobs: 3 };
        let names: Vec<String> = (0..6).map(|n| workers.pod_name(n)).collect();
        assert_eq!(names[..3], ["worker-0-0", "worker-0-1", "worker-1-0"]);
        let shape = Shape { groups: vec![workers], ..Shape::default() };
        for (n, name) in names.iter().enumerate() {
            let n = u32::try_from(n).unwrap();
            let pod = pod(n / 2, n % 2);
            assert_eq!((&pod.short_name(), shape.rank(&pod)), (name, Some(1 + n)));
        }
    }

    #[test]
    fn a_group_that_shrinks_keeps_the_ranks_of_those_that_leave() {
        let workers = GroupShape { name: WORKER.to_owned(), first_rank: 1, size: 2, jobs: 1 };
        let shape = Shape { groups: vec![workers], ..Shape::default() };
        assert_eq!(shape.rank(&pod(0, 5)), Some(6));
    }
}
