//! Pods that cannot start, or were lost. The worst trouble is told, and of several pods with the same
//! one the pod of the lowest rank speaks for all.
//!
//! The order: a lost node, a pod taken away, out of memory, a probe that failed, a container that
//! cannot run, an init container that failed, a container that failed, a missing Secret or ConfigMap,
//! an image, a volume, a sandbox, a closed gate, no node. What stops others from getting further comes
//! first: a pod that waits for a node is often only the consequence of one that does not go away.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use quorate_api::conditions::reason;
use quorate_api::status::Failure;

use super::{Cause, Found, runtime, scheduler, topology, words};
use crate::facts::pod::{ContainerFacts, ContainerState, Phase, PodFacts};
use crate::failure;
use crate::scene::Scene;

/// How long after its time a pod may still be there before its node is suspected.
const OVERDUE: SignedDuration = SignedDuration::from_secs(5);

pub(super) fn look(scene: &Scene<'_>) -> Option<Found> {
    let mut troubles: Vec<(Trouble, &PodFacts)> = stuck(scene).collect();
    let pods = scene.pods.values();
    troubles.extend(pods.filter_map(|pod| Some((trouble(scene, pod)?, *pod))));
    let worst =
        troubles.iter().map(|(trouble, _)| trouble.cause).min_by_key(|cause| order(*cause))?;
    let same: Vec<&(Trouble, &PodFacts)> =
        troubles.iter().filter(|(trouble, _)| trouble.cause == worst).collect();
    let (first, pod) = same.first()?;
    let names: Vec<String> = same.iter().map(|(_, pod)| pod.short_name()).collect();
    Some(tell(scene, first, pod, &names))
}

/// When a pod that is on its way out becomes overdue.
pub(super) fn deadlines(scene: &Scene<'_>) -> impl Iterator<Item = Timestamp> {
    scene.observed.all_pods().filter_map(|pod| pod.deleting).map(|at| at + OVERDUE)
}

/// Something that is wrong with one pod.
struct Trouble {
    cause: Cause,
    /// What there is to say besides the cause.
    words: String,
    since: Option<Timestamp>,
}

fn order(cause: Cause) -> usize {
    const ORDER: [Cause; 13] = [
        Cause::NodeLost,
        Cause::PodEvicted,
        Cause::OutOfMemory,
        Cause::ProbeFailed,
        Cause::CannotRun,
        Cause::InitFailed,
        Cause::ContainerFailed,
        Cause::ConfigMissing,
        Cause::ImagePull,
        Cause::MountFailed,
        Cause::SandboxFailed,
        Cause::SchedulingGated,
        Cause::Unschedulable,
    ];
    ORDER.iter().position(|one| *one == cause).unwrap_or(ORDER.len())
}

/// Pods of any attempt that should be gone and are not: the next attempt waits for them.
fn stuck<'a>(scene: &Scene<'a>) -> impl Iterator<Item = (Trouble, &'a PodFacts)> {
    let now = scene.now;
    scene.observed.all_pods().filter_map(move |pod| {
        let due = pod.deleting.filter(|due| now >= *due + OVERDUE && !pod.ended())?;
        let node = pod.node.as_deref()?;
        let words = node.to_owned();
        Some((Trouble { cause: Cause::NodeLost, words, since: Some(due) }, pod))
    })
}

fn trouble(scene: &Scene<'_>, pod: &PodFacts) -> Option<Trouble> {
    if let Some(failure) = failure::of_kubernetes(scene, pod) {
        return Some(by_kubernetes(pod, failure));
    }
    if pod.phase == Phase::Running && pod.ready {
        return None;
    }
    let containers = pod.others.iter().chain(pod.main.as_deref());
    let worst = containers
        .filter_map(|container| by_container(pod, container))
        .min_by_key(|trouble| order(trouble.cause));
    worst.or_else(|| by_event(scene, pod)).or_else(|| by_scheduler(pod))
}

fn by_kubernetes(pod: &PodFacts, failure: Failure) -> Trouble {
    let cause = match failure.reason.as_deref() {
        Some(reason::OUT_OF_MEMORY) => Cause::OutOfMemory,
        Some(reason::NODE_LOST) => Cause::NodeLost,
        Some(reason::PROBE_FAILED) => Cause::ProbeFailed,
        _ => Cause::PodEvicted,
    };
    let since = pod.disruption.as_ref().and_then(|disruption| disruption.since);
    Trouble { cause, words: failure.message.unwrap_or_default(), since }
}

fn by_container(pod: &PodFacts, container: &ContainerFacts) -> Option<Trouble> {
    let name = &container.name;
    let (cause, words, since) = match &container.state {
        ContainerState::Waiting { reason, message } => {
            let words = words::quote(message);
            let (cause, words) = match reason.as_str() {
                "ErrImagePull"
                | "ImagePullBackOff"
                | "InvalidImageName"
                | "ErrImageNeverPull"
                | "RegistryUnavailable"
                | "ImageInspectError"
                | "SignatureValidationFailed" => {
                    (Cause::ImagePull, runtime::pull(message, &container.image))
                }
                "CreateContainerConfigError" => {
                    (Cause::ConfigMissing, format!("container {name}: {words}"))
                }
                "CreateContainerError"
                | "RunContainerError"
                | "PreCreateHookError"
                | "PreStartHookError"
                | "PostStartHookError" => {
                    (Cause::CannotRun, format!("container {name}: {}", runtime::refusal(message)))
                }
                "CrashLoopBackOff" if container.init => (
                    Cause::InitFailed,
                    format!("init container {name} ends with an error again and again"),
                ),
                "CrashLoopBackOff" => (
                    Cause::ContainerFailed,
                    format!("container {name} ends with an error again and again"),
                ),
                _ => return None,
            };
            (cause, words, pod.created)
        }
        ContainerState::Terminated { code, reason, message, at, .. } if *code != 0 => {
            let words = words::quote(message);
            let said = if words.is_empty() { String::new() } else { format!(": {words}") };
            let ended = format!("ended with code {code}{said}");
            if matches!(reason.as_str(), "StartError" | "ContainerCannotRun") {
                (Cause::CannotRun, format!("container {name}: {}", runtime::refusal(message)), *at)
            } else if container.init {
                (Cause::InitFailed, format!("init container {name} {ended}"), *at)
            } else {
                let report = pod.report.as_ref().filter(|report| report.exit_code == *code);
                match report {
                    // Being told to stop is how every replaced pod ends.
                    Some(_) if *code == 143 || pod.deleting.is_some() => return None,
                    Some(report) => (Cause::ContainerFailed, report.message.clone(), *at),
                    None => (Cause::ContainerFailed, format!("container {name} {ended}"), *at),
                }
            }
        }
        _ => return None,
    };
    Some(Trouble { cause, words, since })
}

/// What the kubelet tells in events only.
fn by_event(scene: &Scene<'_>, pod: &PodFacts) -> Option<Trouble> {
    if pod.phase != Phase::Pending || pod.node.is_none() {
        return None;
    }
    let (cause, event) = scene
        .observed
        .events
        .iter()
        .filter(|event| event.warning && event.kind == "Pod" && event.uid == pod.uid)
        .filter_map(|event| {
            let cause = match event.reason.as_str() {
                "FailedMount" | "FailedAttachVolume" | "FailedMapVolume" => Cause::MountFailed,
                "FailedCreatePodSandBox" | "NetworkNotReady" => Cause::SandboxFailed,
                _ => return None,
            };
            Some((cause, event))
        })
        .max_by_key(|(_, event)| (event.last, &event.message))?;
    Some(Trouble { cause, words: words::quote(&event.message), since: event.first })
}

fn by_scheduler(pod: &PodFacts) -> Option<Trouble> {
    let why = pod.unscheduled.as_deref()?;
    let gated = why.reason == "SchedulingGated";
    let cause = if gated { Cause::SchedulingGated } else { Cause::Unschedulable };
    Some(Trouble { cause, words: why.message.clone(), since: why.since.or(pod.created) })
}

/// The sentence for one trouble of one or several pods.
fn tell(scene: &Scene<'_>, trouble: &Trouble, pod: &PodFacts, names: &[String]) -> Found {
    let size = scene.shape.size;
    let who = words::pods(names, size);
    let words = &trouble.words;
    let more = match names.len() - 1 {
        0 => String::new(),
        n => format!(" (and {n} more {} like it)", words::plural(n as u32, "pod", "pods")),
    };
    let name = pod.short_name();
    let found = match trouble.cause {
        Cause::NodeLost if pod.deleting.is_some() => Found::new(
            Cause::NodeLost,
            format!("pod {name} hangs on node {words}, which does not answer{more}"),
        )
        .advise(
            "wait: pods on a lost node are removed by force once they have fenced themselves off",
        ),
        Cause::NodeLost | Cause::PodEvicted | Cause::OutOfMemory | Cause::ProbeFailed => {
            let found = Found::new(trouble.cause, format!("{words}{more}"));
            match trouble.cause {
                Cause::OutOfMemory => {
                    found.advise("raise resources.limits.memory, or put fewer tasks on a pod")
                }
                Cause::ProbeFailed => found
                    .advise("mend what the probe asks, or give it a longer period or threshold"),
                _ => found,
            }
        }
        Cause::CannotRun => Found::new(trouble.cause, format!("{name} cannot run {words}{more}"))
            .advise(runtime::remedy(words)),
        Cause::InitFailed => Found::new(trouble.cause, format!("{words}, in {name}{more}"))
            .advise("read the logs of that init container"),
        Cause::ContainerFailed => Found::new(trouble.cause, format!("{words}, in {name}{more}"))
            .advise("read the logs of that pod"),
        Cause::ConfigMissing => {
            Found::new(trouble.cause, format!("{who} cannot be configured: {words}"))
                .advise("make what is missing; the pods start as soon as it is there")
        }
        Cause::ImagePull => Found::new(trouble.cause, format!("{who} cannot pull image {words}"))
            .advise("check the image's name, and imagePullSecrets if the registry wants a login"),
        Cause::MountFailed => Found::new(trouble.cause, format!("{who} cannot mount: {words}"))
            .advise(runtime::mount_remedy(words)),
        Cause::SandboxFailed => {
            let node = pod.node.as_deref().unwrap_or("its node");
            Found::new(trouble.cause, format!("{who} cannot be set up on {node}: {words}"))
                .advise("look at the container runtime and the network plugin of that node")
        }
        Cause::SchedulingGated => {
            Found::new(trouble.cause, format!("{who} {} held back by a scheduling gate", is(names)))
                .advise("find out who is to remove the gate (spec.schedulingGates of the pods)")
        }
        _ => unschedulable(scene, pod, names, &who, words),
    };
    found.since(trouble.since)
}

fn is(names: &[String]) -> &'static str {
    words::plural(names.len() as u32, "is", "are")
}

fn unschedulable(
    scene: &Scene<'_>,
    pod: &PodFacts,
    names: &[String],
    who: &str,
    words: &str,
) -> Found {
    let requests = pod.unscheduled.as_ref().map(|why| why.requests.clone()).unwrap_or_default();
    let verdict = scheduler::condense(words, &requests);
    let topology = scene.observed.cluster.spec.topology.as_ref();
    let topology = topology.filter(|_| scheduler::is_about_affinity(words));
    let wish = topology.map(|topology| format!("; {}", topology::wish(topology)));
    let message =
        format!("{who} cannot be scheduled: {}{}", verdict.words, wish.unwrap_or_default());
    let found = Found::new(Cause::Unschedulable, message);
    let placed = scene.shape.size.saturating_sub(names.len() as u32);
    let launcher = scene.pods.get(&0).is_some_and(|pod| pod.node.is_some());
    let fewer = if launcher && placed < scene.shape.min_size {
        format!(", or set minSize: {placed}")
    } else {
        String::new()
    };
    match verdict.resource.as_deref() {
        Some(resource) => {
            let unit = if resource == "cpu" { "CPUs" } else { resource };
            let asked = requests.get(resource).map(|asked| words::quantity(resource, asked));
            let less = match asked {
                Some(asked) if resource == "cpu" => {
                    format!("ask for less than {asked} {unit} a pod")
                }
                Some(asked) => format!("ask for less than {asked} of {unit} a pod"),
                None => format!("ask for less {unit}"),
            };
            found.advise(format!("{less}{fewer}, or add nodes"))
        }
        None if verdict.words.contains("PersistentVolumeClaim") => {
            found.advise("make the PersistentVolumeClaim, or have its volume provisioned")
        }
        None => found.advise(match topology {
            Some(topology) => format!("{}{fewer}, {}", topology::TO_DO, topology::more(topology)),
            None => format!("change what is named{fewer}, or add nodes that fit"),
        }),
    }
}
