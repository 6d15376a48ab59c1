//! What is kept of a pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodCondition, PodSpec};
use k8s_openapi::jiff::Timestamp;
use quorate_api::jobset::label as jobset_label;
use quorate_contract::Report;
use quorate_plan::labels;

use super::{annotation, at, controller, label, number};

/// The label and the annotation with a pod's index in its Indexed Job (batch/v1).
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The reason of a condition `DisruptionTarget` that a launcher has in place of a worker that Kubernetes
/// takes away: its Job, and the JobSet, then take its end for what it is. Nothing happens to this pod.
pub const EXCUSED: &str = "WorkerDisrupted";
/// The main container, if a pod has one of this name; else its first is.
const MAIN: &str = "main";

/// One pod of a cluster. [`PodFacts::from_pod`] takes any pod; a pod without the labels of a cluster
/// becomes facts that belong to no JobSet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodFacts {
    /// The name, with the random end that its Job gave it.
    pub name: String,
    /// The UID.
    pub uid: String,
    /// The UID of the JobSet that it belongs to.
    pub jobset: String,
    /// The UID of the Job that made it.
    pub job: String,
    /// The group, which is also the replicated job: `launcher`, `worker`, ...
    pub group: String,
    /// The index of its Job among those of the group.
    pub job_index: u32,
    /// The index in its Job. [`crate::Shape::rank`] makes the rank of it.
    pub index: u32,
    /// The restart attempt that it belongs to.
    pub attempt: u32,
    /// The node, once it is scheduled.
    pub node: Option<String>,
    /// The phase.
    pub phase: Phase,
    /// The machine's word for the phase, `Evicted` for example; empty as a rule.
    pub reason: String,
    /// The sentence that belongs to `reason`.
    pub message: String,
    /// Whether its readiness probe passes: the broker is connected, on the launcher: the cluster is
    /// quorate.
    pub ready: bool,
    /// When `ready` was last changed.
    pub ready_since: Option<Timestamp>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The address, once it has one.
    pub address: Option<String>,
    /// The time by which it should be gone, once its deletion was asked for.
    pub deleting: Option<Timestamp>,
    /// Seconds between the request to delete it and that time.
    pub grace: u32,
    /// The nodes that it is kept off because they do not answer, separated by commas.
    pub kept_off: String,
    /// Why the scheduler has not placed it.
    pub unscheduled: Option<Box<Unscheduled>>,
    /// Why Kubernetes itself takes it away.
    pub disruption: Option<Box<Disruption>>,
    /// Whether it is said of it that it would end because of another pod's disruption ([`EXCUSED`]).
    pub excused: bool,
    /// The main container, once the kubelet has spoken of it.
    pub main: Option<Box<ContainerFacts>>,
    /// Init containers that are not done and other containers that do not run as they should.
    pub others: Vec<ContainerFacts>,
    /// What a container left behind as its termination message: the report of this pod's agent.
    pub report: Option<Box<Report>>,
}

/// The phase of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not all containers have been started.
    #[default]
    Pending,
    /// At least one container runs.
    Running,
    /// All containers ended with 0.
    Succeeded,
    /// All containers ended, one with another code, or the pod was taken away.
    Failed,
}

/// Why the scheduler has not placed a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unscheduled {
    /// `Unschedulable` or `SchedulingGated`.
    pub reason: String,
    /// The scheduler's words.
    pub message: String,
    /// Since when.
    pub since: Option<Timestamp>,
    /// What the pod asks for.
    pub requests: Requests,
}

/// Resources that a pod asks for, as people write them: `cpu` → `4`, `memory` → `8Gi`. Sums over
/// containers are kept for CPUs only, in thousandths; of other resources the largest container's.
pub type Requests = BTreeMap<String, String>;

/// Why Kubernetes takes a pod away (the condition DisruptionTarget).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disruption {
    /// `PreemptionByScheduler`, `DeletionByTaintManager`, `EvictionByEvictionAPI`,
    /// `DeletionByPodGC`, `TerminationByKubelet`; `NodeLost` when this project gave the pod up.
    pub reason: String,
    /// The sentence.
    pub message: String,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// One container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerFacts {
    /// The name.
    pub name: String,
    /// Whether it is an init container.
    pub init: bool,
    /// The image; kept only while the container waits.
    pub image: String,
    /// How often the kubelet started it again.
    pub restarts: i32,
    /// What it does.
    pub state: ContainerState,
}

/// What a container does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContainerState {
    /// Nothing was said yet.
    #[default]
    Unknown,
    /// It waits.
    Waiting {
        /// `ContainerCreating`, `ImagePullBackOff`, `CreateContainerConfigError`, ...
        reason: String,
        /// The runtime's or the registry's words.
        message: String,
    },
    /// It runs.
    Running {
        /// Since when.
        since: Option<Timestamp>,
    },
    /// It ended.
    Terminated {
        /// The exit code.
        code: i32,
        /// The signal, if the runtime says so.
        signal: Option<i32>,
        /// `Completed`, `Error`, `OOMKilled`, `StartError`, ...
        reason: String,
        /// The end of its termination message, unless that was a report.
        message: String,
        /// When it ended.
        at: Option<Timestamp>,
    },
}

impl PodFacts {
    /// Reads a pod.
    pub fn from_pod(pod: &Pod) -> Self {
        let metadata = &pod.metadata;
        let spec = pod.spec.as_ref();
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let find = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind);
        let ready = find("Ready");
        let main_name = spec.map(main_container).unwrap_or_default();
        let target = find("DisruptionTarget").filter(|condition| condition.status == "True");
        let excused = target.is_some_and(|target| target.reason.as_deref() == Some(EXCUSED));
        let mut facts = Self {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            jobset: label(metadata, jobset_label::JOBSET_UID).unwrap_or_default().to_owned(),
            job: controller(metadata).map(|owner| owner.uid.clone()).unwrap_or_default(),
            group: label(metadata, labels::GROUP)
                .or_else(|| label(metadata, jobset_label::REPLICATED_JOB))
                .unwrap_or_default()
                .to_owned(),
            job_index: number(label(metadata, jobset_label::JOB_INDEX)),
            index: number(label(metadata, INDEX).or_else(|| annotation(metadata, INDEX))),
            attempt: number(label(metadata, jobset_label::RESTART_ATTEMPT)),
            node: spec.and_then(|spec| spec.node_name.clone()),
            phase: phase(status.and_then(|status| status.phase.as_deref())),
            reason: status.and_then(|status| status.reason.clone()).unwrap_or_default(),
            message: status.and_then(|status| status.message.clone()).unwrap_or_default(),
            ready: ready.is_some_and(|condition| condition.status == "True"),
            ready_since: ready.and_then(|condition| at(condition.last_transition_time.as_ref())),
            created: at(metadata.creation_timestamp.as_ref()),
            address: status.and_then(|status| status.pod_ip.clone()),
            deleting: at(metadata.deletion_timestamp.as_ref()),
            grace: metadata
                .deletion_grace_period_seconds
                .and_then(|seconds| u32::try_from(seconds).ok())
                .unwrap_or(0),
            kept_off: annotation(metadata, labels::LOST_NODES).unwrap_or_default().to_owned(),
            unscheduled: find("PodScheduled")
                .filter(|condition| condition.status == "False")
                .map(|condition| Box::new(unscheduled(condition, spec))),
            disruption: target
                .filter(|_| !excused)
                .map(|condition| Box::new(disruption(condition))),
            excused,
            ..Self::default()
        };
        let Some(status) = status else { return facts };
        for (init, container) in status
            .init_container_statuses
            .iter()
            .flatten()
            .map(|container| (true, container))
            .chain(status.container_statuses.iter().flatten().map(|container| (false, container)))
        {
            let main = !init && container.name == main_name;
            let (read, report) = read_container(container, init);
            if let Some(report) = report
                && (main || facts.report.is_none())
            {
                facts.report = Some(Box::new(report));
            }
            if main {
                facts.main = Some(Box::new(read));
            } else if !read.as_it_should() {
                facts.others.push(read);
            }
        }
        facts
    }

    /// Whether it ended, whichever way.
    pub fn ended(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// The name that people use for it: group, Job and index, `worker-0-3`.
    pub fn short_name(&self) -> String {
        format!("{}-{}-{}", self.group, self.job_index, self.index)
    }
}

impl ContainerFacts {
    /// Whether there is nothing to say of it: it runs, or it ended with 0.
    fn as_it_should(&self) -> bool {
        match &self.state {
            ContainerState::Running { .. } => self.restarts == 0,
            ContainerState::Terminated { code, .. } => *code == 0,
            ContainerState::Waiting { .. } | ContainerState::Unknown => false,
        }
    }
}

fn phase(text: Option<&str>) -> Phase {
    match text {
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        _ => Phase::Pending,
    }
}

fn main_container(spec: &PodSpec) -> &str {
    let mut containers = spec.containers.iter();
    let first = containers.clone().next().map(|first| first.name.as_str()).unwrap_or_default();
    containers.find(|container| container.name == MAIN).map_or(first, |main| main.name.as_str())
}

fn unscheduled(condition: &PodCondition, spec: Option<&PodSpec>) -> Unscheduled {
    Unscheduled {
        reason: condition.reason.clone().unwrap_or_default(),
        message: condition.message.clone().unwrap_or_default(),
        since: at(condition.last_transition_time.as_ref()),
        requests: spec.map(|spec| requests(&spec.containers)).unwrap_or_default(),
    }
}

fn disruption(condition: &PodCondition) -> Disruption {
    Disruption {
        reason: condition.reason.clone().unwrap_or_default(),
        message: condition.message.clone().unwrap_or_default(),
        since: at(condition.last_transition_time.as_ref()),
    }
}

/// What the containers ask for. With one container, as a rule, these are its own words.
fn requests(containers: &[Container]) -> Requests {
    let mut sum = Requests::new();
    for container in containers {
        let Some(resources) = &container.resources else { continue };
        let limits = resources.limits.iter().flatten();
        // A limit without a request is a request (core/v1 defaults).
        let asked = limits.chain(resources.requests.iter().flatten());
        let mut own = Requests::new();
        for (name, quantity) in asked {
            own.insert(name.clone(), quantity.0.clone());
        }
        for (name, quantity) in own {
            match sum.get_mut(&name) {
                None => {
                    sum.insert(name, quantity);
                }
                Some(before) if name == "cpu" => {
                    if let (Some(a), Some(b)) = (thousandths(before), thousandths(&quantity)) {
                        *before = written(a + b);
                    }
                }
                Some(_) => {}
            }
        }
    }
    sum
}

/// CPUs in thousandths: `4`, `500m`, `0.5`.
fn thousandths(text: &str) -> Option<u64> {
    if let Some(milli) = text.strip_suffix('m') {
        return milli.parse().ok();
    }
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part: String = part.chars().chain("000".chars()).take(3).collect();
    Some(whole.parse::<u64>().ok()? * 1000 + part.parse::<u64>().ok()?)
}

fn written(thousandths: u64) -> String {
    if thousandths.is_multiple_of(1000) {
        (thousandths / 1000).to_string()
    } else {
        format!("{thousandths}m")
    }
}

fn read_container(container: &ContainerStatus, init: bool) -> (ContainerFacts, Option<Report>) {
    let mut report = None;
    let mut image = String::new();
    let state = container.state.as_ref();
    let state = if let Some(waiting) = state.and_then(|state| state.waiting.as_ref()) {
        image.clone_from(&container.image);
        ContainerState::Waiting {
            reason: waiting.reason.clone().unwrap_or_default(),
            message: waiting.message.clone().unwrap_or_default(),
        }
    } else if let Some(running) = state.and_then(|state| state.running.as_ref()) {
        ContainerState::Running { since: at(running.started_at.as_ref()) }
    } else if let Some(ended) = state.and_then(|state| state.terminated.as_ref()) {
        let message = ended.message.clone().unwrap_or_default();
        report = Report::parse(&message).ok();
        ContainerState::Terminated {
            code: ended.exit_code,
            signal: ended.signal.filter(|signal| *signal != 0),
            reason: ended.reason.clone().unwrap_or_default(),
            message: if report.is_some() { String::new() } else { message },
            at: at(ended.finished_at.as_ref()),
        }
    } else {
        ContainerState::Unknown
    };
    let facts = ContainerFacts {
        name: container.name.clone(),
        init,
        image,
        restarts: container.restart_count,
        state,
    };
    (facts, report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_of_containers_add_up() {
        assert_eq!(thousandths("4"), Some(4000));
        assert_eq!(thousandths("0.5"), Some(500));
        assert_eq!(thousandths("1500m"), Some(1500));
        assert_eq!(thousandths("many"), None);
        assert_eq!(written(4000), "4");
        assert_eq!(written(4500), "4500m");
    }

    #[test]
    fn a_pod_of_nobody_becomes_facts_of_nobody() {
        let facts = PodFacts::from_pod(&Pod::default());
        assert_eq!(facts, PodFacts::default());
    }

    #[test]
    fn facts_stay_small() {
        // Three thousand of them, with their text, are to fit into a few MiB.
        assert!(size_of::<PodFacts>() <= 512, "{}", size_of::<PodFacts>());
    }
}
