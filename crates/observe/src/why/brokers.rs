//! Clusters in which nothing is wrong: quorate ones, and those on their way there.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use quorate_api::names::LAUNCHER;
use quorate_contract::status::{DIAL_FAILED, Leaving};

use super::{Cause, Found, words};
use crate::facts::pod::{ContainerState, Phase, PodFacts};
use crate::failure;
use crate::scene::{Scene, Turn};

/// How long pods and brokers may take before anyone is named: most are there by then, and a status
/// that names each of them in turn would be written each time.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// The cluster is quorate.
pub(super) fn quorate(scene: &Scene<'_>) -> Option<Found> {
    if scene.turn != Turn::Quorate {
        return None;
    }
    let since = scene.old.quorate_time.as_ref().filter(|_| scene.same_attempt()).map(|at| at.0);
    let since = since.or_else(|| scene.launcher.and_then(|pod| pod.ready_since));
    let found = if let Some(leaving) = scene.live.and_then(|live| live.leaving.as_ref()) {
        self::leaving(leaving)
    } else if !scene.shape.program {
        Found::new(Cause::Ready, "it is up and takes work")
    } else if !scene.runs() {
        Found::new(Cause::WaitingForBrokers, "it is quorate and about to start the program")
    } else {
        let placed = scene.live.and_then(|live| live.program.as_ref()).map(|program| {
            format!(
                ": {} {} on {} {}",
                program.tasks,
                words::plural(program.tasks, "rank", "ranks"),
                program.pods,
                words::plural(program.pods, "pod", "pods")
            )
        });
        Found::new(Cause::ProgramRuns, format!("the program runs{}", placed.unwrap_or_default()))
    };
    Some(found.since(since))
}

/// It runs, and is to be smaller. That counts jobs, not time: the sentence changes when one ends.
fn leaving(leaving: &Leaving) -> Found {
    let (jobs, number) = (words::plural(leaving.jobs, "job", "jobs"), leaving.jobs);
    let has = words::plural(leaving.jobs, "has", "have");
    let message = format!(
        "it is up, and gets smaller once {number} {jobs} on {} {has} ended",
        words::quote(&leaving.pods)
    );
    Found::new(Cause::WaitingForJobs, message).advise("cancel them, if it has to be sooner")
}

/// Not quorate, and no trouble found.
pub(super) fn look(scene: &Scene<'_>) -> Found {
    let Some(jobset) = scene.jobset else {
        return super::object::delay(scene)
            .unwrap_or_else(|| Found::new(Cause::Starting, "its JobSet is about to be made"));
    };
    let begun = begun(scene);
    if (scene.attempt > 0 && !scene.was_quorate()) || jobset.restarting.holds().is_some() {
        let since = jobset.restarting.holds().and_then(|fact| fact.since);
        return restarting(scene).since(since.or(begun));
    }
    if scene.running_pods() < scene.shape.size {
        return starting(scene).since(begun);
    }
    waiting(scene)
}

/// When it is time to name who is late.
pub(super) fn deadlines(scene: &Scene<'_>) -> impl Iterator<Item = Timestamp> {
    let waits = scene.turn == Turn::Waiting && scene.jobset.is_some();
    youngest(scene).filter(|_| waits).map(|at| at + PATIENCE).into_iter()
}

/// When the last thing was made: a pod, else a Job, else the JobSet.
fn youngest(scene: &Scene<'_>) -> Option<Timestamp> {
    let pods = scene.pods.values().filter_map(|pod| pod.created).max();
    pods.or_else(|| scene.observed.own_jobs().filter_map(|job| job.created).max())
        .or_else(|| scene.jobset.and_then(|jobset| jobset.created))
}

/// When this attempt began, as far as its pods show.
fn begun(scene: &Scene<'_>) -> Option<Timestamp> {
    let pods = scene.pods.values().filter_map(|pod| pod.created).min();
    pods.or_else(|| scene.jobset.and_then(|jobset| jobset.created))
}

/// Whether it is still too early to name anyone.
fn early(scene: &Scene<'_>) -> bool {
    youngest(scene).is_none_or(|at| scene.now < at + PATIENCE)
}

fn restarting(scene: &Scene<'_>) -> Found {
    let last = failure::known(scene)
        .filter(|one| one.attempt.is_some_and(|attempt| attempt < scene.attempt.cast_signed()))
        .and_then(|one| failure::sentence(&one));
    let after = last.map(|message| format!(" after this: {message}")).unwrap_or_default();
    let counted = scene.jobset.map_or(0, |jobset| jobset.restarts_counted);
    let budget = match scene.shape.max_restarts {
        0 => String::new(),
        max => format!(" ({counted} of {max} restarts used)"),
    };
    Found::new(Cause::Restarting, format!("attempt {} begins{budget}{after}", scene.attempt))
}

fn starting(scene: &Scene<'_>) -> Found {
    let size = scene.shape.size;
    if early(scene) {
        return Found::new(Cause::PodsStarting, "its pods are being started");
    }
    let late: Vec<String> = (0..size)
        .filter_map(|rank| match scene.pods.get(&rank) {
            Some(pod) if pod.phase == Phase::Running => None,
            Some(pod) => Some(format!("{} ({})", pod.short_name(), doing(pod))),
            None => Some(format!("{} (not made)", name_of(scene, rank))),
        })
        .collect();
    let message = format!(
        "{} of {size} {} not run yet: {}",
        late.len(),
        words::plural(size, "pod does", "pods do"),
        words::list(&late, 3)
    );
    Found::new(Cause::PodsStarting, message)
}

fn name_of(scene: &Scene<'_>, rank: u32) -> String {
    let groups = scene.shape.groups.iter();
    let group =
        groups.filter(|group| group.first_rank <= rank).max_by_key(|group| group.first_rank);
    group.map_or_else(|| format!("rank {rank}"), |group| group.pod_name(rank - group.first_rank))
}

/// What a pod that does not run is doing.
fn doing(pod: &PodFacts) -> String {
    let waits = pod.others.iter().chain(pod.main.as_deref()).find_map(|one| match &one.state {
        ContainerState::Waiting { reason, .. } if !reason.is_empty() => Some(reason.as_str()),
        _ => None,
    });
    let node = pod.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
    let what = if pod.deleting.is_some() {
        "being replaced"
    } else if pod.ended() {
        "ended, its Job will replace it"
    } else if pod.node.is_none() {
        "not scheduled"
    } else {
        waits.unwrap_or("starting")
    };
    format!("{what}{node}")
}

/// What a broker that is not connected says of its last try, as the kubelet has written it down.
fn dial_failure(scene: &Scene<'_>, pod: &PodFacts) -> Option<String> {
    let newest = scene
        .observed
        .events
        .iter()
        .filter(|event| event.kind == "Pod" && event.uid == pod.uid && event.reason == "Unhealthy")
        .max_by_key(|event| (event.last, &event.message))?;
    let (_, words) = newest.message.split_once(DIAL_FAILED)?;
    Some(words::quote(words))
}

/// A broker that is not connected: why, as rank 0 sees it; since when, by the readiness of its pod; and
/// what it says itself. (How long rank 0 has heard nothing is a figure that runs.)
fn away(scene: &Scene<'_>, name: &str, why: Option<&str>, pod: Option<&PodFacts>) -> String {
    let since = pod.and_then(|pod| pod.ready_since.or(pod.created));
    let why = [why.map(str::to_owned), since.map(|since| format!("since {since}"))];
    let says =
        pod.and_then(|pod| dial_failure(scene, pod)).map(|words| format!("it says: {words}"));
    let why: Vec<String> = why.into_iter().flatten().collect();
    let parts: Vec<String> =
        [(!why.is_empty()).then(|| why.join(", ")), says].into_iter().flatten().collect();
    match parts.join("; ") {
        parts if parts.is_empty() => name.to_owned(),
        parts => format!("{name} ({parts})"),
    }
}

fn waiting(scene: &Scene<'_>) -> Found {
    let size = scene.shape.size;
    let quorum = scene.shape.min_size;
    let begun = scene.pods.values().filter_map(|pod| pod.created).max();
    if early(scene) {
        let message = "its pods run, brokers are finding each other";
        return Found::new(Cause::WaitingForBrokers, message).since(begun);
    }
    let missing: Vec<String> = match scene.live {
        Some(live) => live
            .missing
            .iter()
            .map(|one| {
                let pod = scene.pods.get(&one.rank).copied();
                away(scene, &one.pod, Some(&one.why), pod)
            })
            .collect(),
        // A launcher is ready when the others are there.
        None => scene
            .pods
            .values()
            .filter(|pod| !pod.ready && pod.group != LAUNCHER)
            .map(|pod| away(scene, &pod.short_name(), None, Some(pod)))
            .collect(),
    };
    let online = scene.online();
    let named = match words::list(&missing, 5) {
        names if names.is_empty() => String::new(),
        names => format!("; missing: {names}"),
    };
    let message = format!(
        "{online} of {size} brokers {} connected, the quorum is {quorum}{named}",
        words::plural(online, "is", "are")
    );
    Found::new(Cause::WaitingForBrokers, message).since(begun).advise(
        "look at the logs of the pods that are missing; can they reach the launcher's port?",
    )
}
