//! What ended an attempt: from the launcher's report, from what Kubernetes says of pods, from the
//! conditions of Jobs. What was found once is kept, because pods and their reports go when the
//! JobSet starts again or fails.

use quorate_api::conditions::reason;
use quorate_api::jobset::job_failure;
use quorate_api::minicluster::OnWorkerLost;
use quorate_api::names::LAUNCHER;
use quorate_api::status::Failure;
use quorate_contract::Report;
use quorate_contract::report::Reason;

use crate::facts::pod::{ContainerState, PodFacts};
use crate::scene::{End, Scene, Turn, end_of};
use crate::why::{runtime, words};

/// The newest failure that is known, from the facts or from the last status.
pub(crate) fn known(scene: &Scene<'_>) -> Option<Failure> {
    let kept = scene.old.failure.clone().filter(|_| scene.same_run || scene.turn == Turn::Over);
    let found = find(scene);
    match (kept, found) {
        (Some(kept), Some(found)) => {
            Some(if weight(&found) > weight(&kept) { found } else { kept })
        }
        (kept, found) => found.or(kept),
    }
}

/// The same, if it is of the attempt that runs now.
pub(crate) fn of_this_attempt(scene: &Scene<'_>) -> Option<Failure> {
    known(scene).filter(|failure| failure.attempt == Some(scene.attempt.cast_signed()))
}

/// Later attempts count more; within one, a cause counts more than its consequence: the launcher's
/// "a broker was lost" says less than "that pod was out of memory".
fn weight(failure: &Failure) -> (Option<i32>, u8) {
    let word = failure.reason.as_deref().unwrap_or_default();
    let said = match word {
        reason::DEADLINE_EXCEEDED | reason::OUT_OF_MEMORY | reason::PROBE_FAILED => 4,
        reason::NODE_LOST | reason::POD_EVICTED => 3,
        "" | reason::JOBSET_FAILED => 0,
        _ if word == Reason::BrokerLost.as_str() || word == Reason::Terminated.as_str() => 1,
        _ => 2,
    };
    (failure.attempt, said)
}

/// The newest failure that the facts show.
fn find(scene: &Scene<'_>) -> Option<Failure> {
    if scene.turn == Turn::Over || scene.turn == Turn::Succeeded {
        return None;
    }
    let launcher = scene
        .observed
        .all_pods()
        .filter(|pod| pod.group == LAUNCHER)
        .filter_map(|pod| of_launcher(scene, pod))
        .max_by_key(weight);
    if scene.turn == Turn::Failed || launcher.as_ref().is_some_and(|one| weight(one).1 <= 1) {
        return launcher.into_iter().chain(of_jobs(scene)).max_by_key(weight);
    }
    launcher
}

/// How a launcher's pod failed, if it did.
fn of_launcher<'a>(scene: &Scene<'a>, pod: &'a PodFacts) -> Option<Failure> {
    let end = end_of(pod);
    let mut failure = match (scene.report(pod), &end) {
        (Some(report), _) if report.exit_code != 0 => of_report(report),
        (Some(_), Some(End { code: Some(0), .. })) => return None,
        (_, Some(end)) if end.code != Some(0) => of_end(scene, pod, end),
        _ => return None,
    };
    failure.attempt = Some(pod.attempt.cast_signed());
    failure.node = failure.node.or_else(|| {
        let named = |one: &&PodFacts| failure.pod.as_ref() == Some(&one.short_name());
        let mut pods = scene.observed.all_pods().filter(|one| one.attempt == pod.attempt);
        pods.find(named).and_then(|one| one.node.clone())
    });
    // What Kubernetes did to a pod explains what the launcher could only see from outside.
    let vague = weight(&failure).1 <= 1;
    let taken = vague
        .then(|| {
            let mut pods: Vec<_> = scene
                .observed
                .all_pods()
                .filter(|one| one.attempt == pod.attempt)
                .filter(|one| {
                    one.uid == pod.uid
                        || failure.pod.as_ref().is_none_or(|name| *name == one.short_name())
                })
                .filter_map(|one| of_kubernetes(scene, one))
                .collect();
            pods.sort_by(|a, b| a.pod.cmp(&b.pod));
            pods.into_iter().max_by_key(weight)
        })
        .flatten();
    // That it was told to stop is what everything looks like from inside.
    let told_to_stop = failure.reason.as_deref() == Some(Reason::Terminated.as_str());
    match taken {
        Some(cause) => Some(Failure {
            message: cause.message.map(|message| match &failure.message {
                Some(own) if own != &message && !told_to_stop => format!("{message} ({own})"),
                _ => message,
            }),
            rank: failure.rank,
            attempt: failure.attempt,
            log_tail: failure.log_tail,
            ..cause
        }),
        None => Some(failure),
    }
}

fn of_report(report: &Report) -> Failure {
    let first = report.failure.clone().unwrap_or_default();
    Failure {
        attempt: None,
        reason: Some(report.reason.as_str().to_owned()),
        message: Some(report.message.clone()),
        rank: first.rank.map(u32::cast_signed),
        pod: first.pod,
        node: first.node,
        exit_code: first.exit_code.or(Some(report.exit_code)),
        signal: first.signal,
        log_tail: first.log_tail,
    }
}

/// The end of a pod that left no report.
fn of_end(scene: &Scene<'_>, pod: &PodFacts, end: &End<'_>) -> Failure {
    if let Some(failure) = of_kubernetes(scene, pod) {
        return failure;
    }
    if let Some(failure) = of_init(pod) {
        return failure;
    }
    let name = pod.short_name();
    let code = end.code.map(|code| format!(" with code {code}")).unwrap_or_default();
    let words = words::quote(end.message);
    let words = if words.is_empty() { String::new() } else { format!(": {words}") };
    let (word, message) = if never_started(end.reason) {
        let words = runtime::refusal(end.message);
        (reason::CANNOT_RUN, format!("the main container of {name} cannot run: {words}"))
    } else {
        (reason::CONTAINER_FAILED, format!("the main container of {name} ended{code}{words}"))
    };
    from_pod(pod, word, message, end.code)
}

/// An init container that ended with an error, or was never started, so that the pod's own command
/// never ran.
fn of_init(pod: &PodFacts) -> Option<Failure> {
    pod.others.iter().filter(|container| container.init).find_map(|container| {
        let ContainerState::Terminated { code, reason, message, .. } = &container.state else {
            return None;
        };
        let who = format!("init container {} of {}", container.name, pod.short_name());
        let (word, message) = if never_started(reason) {
            (reason::CANNOT_RUN, format!("{who} cannot run: {}", runtime::refusal(message)))
        } else {
            let words = words::quote(message);
            let words = if words.is_empty() { String::new() } else { format!(": {words}") };
            (reason::INIT_FAILED, format!("{who} ended with code {code}{words}"))
        };
        (*code != 0).then(|| from_pod(pod, word, message, Some(*code)))
    })
}

/// Whether a container ended because its process could not be started.
fn never_started(reason: &str) -> bool {
    matches!(reason, "StartError" | "ContainerCannotRun")
}

/// The kubelet's last word on why it killed a main container: only events have it.
fn of_probe(scene: &Scene<'_>, pod: &PodFacts) -> Option<Failure> {
    let Some(ContainerState::Terminated { code, .. }) = pod.main.as_ref().map(|main| &main.state)
    else {
        return None;
    };
    // SIGTERM, or SIGKILL after the grace period.
    if pod.deleting.is_some() || !matches!(code, 143 | 137) {
        return None;
    }
    let probes = [("Liveness probe failed:", "liveness"), ("Startup probe failed:", "startup")];
    let (probe, said) = scene
        .observed
        .events
        .iter()
        .filter(|event| event.warning && event.kind == "Pod" && event.uid == pod.uid)
        .filter(|event| event.reason == "Unhealthy")
        .find_map(|event| {
            probes
                .iter()
                .find_map(|(head, probe)| Some((*probe, event.message.strip_prefix(head)?)))
        })?;
    let words = words::quote(said);
    let words = if words.is_empty() { String::new() } else { format!(": {words}") };
    let node = pod.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
    let message = format!(
        "the kubelet ended {}{node} because its {probe} probe failed{words}",
        pod.short_name()
    );
    Some(from_pod(pod, reason::PROBE_FAILED, message, Some(*code)))
}

/// The sentence about a failure, with the last line that the failed rank has written.
pub(crate) fn sentence(failure: &Failure) -> Option<String> {
    let message = failure.message.clone()?;
    let last = failure.log_tail.iter().rev().map(|line| words::quote(line));
    let last = last.into_iter().find(|line| !line.is_empty());
    Some(match (failure.rank, last) {
        (Some(rank), Some(line)) => format!("{message}; last line of rank {rank}: {line}"),
        (None, Some(line)) => format!("{message}; last line: {line}"),
        (_, None) => message,
    })
}

/// What Kubernetes says that it did to a pod.
pub(crate) fn of_kubernetes(scene: &Scene<'_>, pod: &PodFacts) -> Option<Failure> {
    let name = pod.short_name();
    let node = pod.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
    let killed = pod.main.iter().map(AsRef::as_ref).chain(&pod.others).find(|container| {
        matches!(&container.state, ContainerState::Terminated { reason, .. } if reason == "OOMKilled")
    });
    if let Some(container) = killed {
        let message = format!(
            "container {} of {name}{node} was killed because it used more memory than its limit",
            container.name
        );
        return Some(from_pod(pod, reason::OUT_OF_MEMORY, message, Some(137)));
    }
    if let Some(disruption) = &pod.disruption {
        let words = words::quote(&disruption.message);
        let words = if words.is_empty() { disruption.reason.clone() } else { words };
        let lost = [reason::NODE_LOST, "DeletionByPodGC"].contains(&disruption.reason.as_str());
        let word = if lost { reason::NODE_LOST } else { reason::POD_EVICTED };
        let message = if disruption.reason == reason::NODE_LOST {
            format!("pod {name} was given up: {words}")
        } else {
            format!("Kubernetes took pod {name}{node} away: {words}")
        };
        return Some(from_pod(pod, word, message, None));
    }
    if !pod.reason.is_empty() && pod.ended() {
        let words = words::quote(&pod.message);
        let words = if words.is_empty() { String::new() } else { format!(": {words}") };
        let message = format!("pod {name}{node} was ended ({}){words}", pod.reason);
        return Some(from_pod(pod, reason::POD_EVICTED, message, None));
    }
    of_probe(scene, pod)
}

fn from_pod(pod: &PodFacts, word: &str, message: String, code: Option<i32>) -> Failure {
    Failure {
        attempt: Some(pod.attempt.cast_signed()),
        reason: Some(word.to_owned()),
        message: Some(message),
        rank: None,
        pod: Some(pod.short_name()),
        node: pod.node.clone(),
        exit_code: code,
        signal: None,
        log_tail: Vec::new(),
    }
}

/// What the conditions of this attempt's Jobs and of the JobSet say.
fn of_jobs(scene: &Scene<'_>) -> Option<Failure> {
    let attempt = Some(scene.attempt.cast_signed());
    let failed = scene
        .observed
        .own_jobs()
        .filter_map(|job| Some((job, job.failed.holds()?)))
        .min_by_key(|(job, fact)| (fact.since, job.group != LAUNCHER, job.name.clone()));
    let deadline = |message: String| Failure {
        attempt,
        reason: Some(reason::DEADLINE_EXCEEDED.to_owned()),
        message: Some(message),
        ..Failure::default()
    };
    let spec = &scene.observed.cluster.spec;
    let limit = spec.active_deadline_seconds;
    let limited = limit.is_some();
    let limit = limit.map(|seconds| format!(" of {seconds} s")).unwrap_or_default();
    let over = format!("the time limit{limit} was over (activeDeadlineSeconds)");
    // The plan's rules that fail a JobSet at once: one on the time limit, and those on lost workers
    // where the user wants no restart for them.
    let by_rule =
        scene.verdict().is_some_and(|fact| fact.reason == "FailJobSetFailurePolicyAction");
    let may_lose = spec.failure_policy.on_worker_lost != Some(OnWorkerLost::Fail);
    match failed {
        Some((_, fact)) if fact.reason == job_failure::DEADLINE_EXCEEDED => Some(deadline(over)),
        _ if by_rule && limited && may_lose => Some(deadline(over)),
        Some((job, fact)) if job.group != LAUNCHER => Some(Failure {
            attempt,
            reason: Some(reason::JOBSET_FAILED.to_owned()),
            message: Some(format!(
                "the Job of group {} failed ({}): {}",
                job.group,
                fact.reason,
                words::quote(&fact.message)
            )),
            ..Failure::default()
        }),
        _ if by_rule && !may_lose => Some(Failure {
            attempt,
            reason: Some(reason::JOBSET_FAILED.to_owned()),
            message: Some("a worker was lost, and failurePolicy.onWorkerLost is Fail".to_owned()),
            ..Failure::default()
        }),
        _ => None,
    }
}
