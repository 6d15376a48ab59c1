//! Objects that make no objects: a JobSet without Jobs, Jobs without pods. Nothing of this is in any
//! status, so the words come from events.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use quorate_api::jobset;

use super::{Cause, Found, words};
use crate::facts::event::EventFacts;
use crate::scene::Scene;

/// How long JobSet may make no Job at all while this cluster waits for its first. It takes a fraction of
/// a second as a rule, but a controller that is given a thousand JobSets at once needs minutes for the
/// last ones, and must not be called silent by each of them: what it does for others counts.
const SILENCE: SignedDuration = SignedDuration::from_secs(60);

/// What to do about a refused object.
pub(super) const CHANGE: &str = "change what is refused; it is tried again when the object changes";

pub(super) fn look(scene: &Scene<'_>) -> Option<Found> {
    scene.jobset?;
    let missing = scene.shape.size.saturating_sub(scene.pods.len() as u32);
    if missing == 0 {
        return None;
    }
    jobs_refused(scene).or_else(|| pods_refused(scene, missing)).or_else(|| {
        let since = silent_since(scene)?;
        (scene.now >= since + SILENCE).then(|| silence(scene).since(Some(since)))
    })
}

/// Since when this cluster waits for JobSet, and JobSet has done nothing for others.
fn silent_since(scene: &Scene<'_>) -> Option<Timestamp> {
    let jobset = scene.jobset.filter(|jobset| !jobset.seen && no_children(scene))?;
    let created = jobset.created?;
    Some(scene.observed.jobset_acted.map_or(created, |acted| acted.max(created)))
}

/// When a silence becomes too long.
pub(super) fn deadlines(scene: &Scene<'_>) -> impl Iterator<Item = Timestamp> {
    silent_since(scene).map(|since| since + SILENCE).into_iter()
}

fn no_children(scene: &Scene<'_>) -> bool {
    scene.pods.is_empty() && scene.observed.own_jobs().next().is_none()
}

/// Whether a group has fewer Jobs than planned, as far as that is known.
fn lacks_jobs(scene: &Scene<'_>) -> bool {
    if scene.observed.own_jobs().next().is_none() {
        return scene.pods.is_empty();
    }
    scene.shape.groups.iter().any(|group| {
        let jobs = scene.observed.own_jobs().filter(|job| job.group == group.name).count();
        jobs < group.jobs.max(1) as usize
    })
}

fn silence(scene: &Scene<'_>) -> Found {
    let other = scene
        .jobset
        .and_then(|jobset| jobset.managed_by.as_deref())
        .filter(|name| *name != jobset::CONTROLLER);
    match other {
        Some(name) => Found::new(
            Cause::JobSetSilent,
            format!("its JobSet is managed by {name}, which has made no Jobs"),
        )
        .advise(format!("look at {name}")),
        None => {
            Found::new(Cause::JobSetSilent, "JobSet has made no Jobs: its controller is silent")
                .advise("check that JobSet's controller runs: kubectl -n jobset-system get pods")
        }
    }
}

/// The JobSet controller could not make something.
fn jobs_refused(scene: &Scene<'_>) -> Option<Found> {
    let jobset = scene.jobset?;
    let event = newest(scene, |event| {
        event.kind == "JobSet"
            && event.name == jobset.name
            && (event.uid.is_empty() || event.uid == jobset.uid)
            && matches!(
                event.reason.as_str(),
                "JobCreationFailed" | "HeadlessServiceCreationFailed" | "PVCCreationFailed"
            )
    })?;
    let what = match event.reason.as_str() {
        "JobCreationFailed" => "a Job",
        "HeadlessServiceCreationFailed" => "the headless Service",
        _ => "a PersistentVolumeClaim",
    };
    // Such an event may be of an attempt that is over: what it is about has to be missing.
    if what == "a Job" && (!lacks_jobs(scene) || !is_of_now(scene, event)) {
        return None;
    }
    let groups = if what == "a Job" { without_a_job(scene) } else { Vec::new() };
    let what = match groups.as_slice() {
        [] => what.to_owned(),
        [only] => format!("the Job of group {only}"),
        _ if no_children(scene) => "a Job".to_owned(),
        some => format!("the Jobs of groups {}", words::list(some, 3)),
    };
    let frame = "creation failed with error: ";
    let words = event.message.split_once(frame).map_or(&*event.message, |(_, words)| words);
    Some(refusal(Cause::JobsRefused, &format!("JobSet cannot make {what}"), words))
        .map(|found| found.since(event.first))
}

/// Groups that have neither a Job nor a pod; one with several Jobs may lack some only.
fn without_a_job(scene: &Scene<'_>) -> Vec<String> {
    let Some(jobset) = scene.jobset else { return Vec::new() };
    let has_a_job = |group: &str| {
        let prefix = format!("{}-{group}-", jobset.name);
        let is_of_group = |name: &str| {
            name.strip_prefix(&prefix).is_some_and(|index| index.parse::<u32>().is_ok())
        };
        scene.observed.own_jobs().any(|job| is_of_group(&job.name))
            || scene.pods.values().any(|pod| pod.group == group)
    };
    let groups = scene.shape.groups.iter().filter(|group| group.size > 0);
    groups.map(|group| group.name.clone()).filter(|group| !has_a_job(group)).collect()
}

/// Whether an event is not older than the Jobs that there are. Times of objects have whole seconds.
fn is_of_now(scene: &Scene<'_>, event: &EventFacts) -> bool {
    let youngest = scene.observed.own_jobs().filter_map(|job| job.created).max();
    youngest.is_none_or(|youngest| event.last.is_some_and(|last| last >= youngest))
}

/// A Job could not make pods.
fn pods_refused(scene: &Scene<'_>, missing: u32) -> Option<Found> {
    let jobset = scene.jobset?;
    let mine = |event: &EventFacts| {
        let mut jobs = scene.observed.own_jobs().peekable();
        if jobs.peek().is_some() {
            return jobs.any(|job| job.name == event.name && job.uid == event.uid);
        }
        // Without the Jobs themselves, their names have to do.
        scene.shape.groups.iter().any(|group| {
            let prefix = format!("{}-{}-", jobset.name, group.name);
            let index = event.name.strip_prefix(&prefix).and_then(|rest| rest.parse().ok());
            index.is_some_and(|index: u32| index < group.jobs.max(1))
        })
    };
    let event = newest(scene, |event| {
        event.kind == "Job"
            && event.reason == "FailedCreate"
            && mine(event)
            // Exclusive placement holds followers back until the leader has its node.
            && !event.message.contains("follower pod node selector not set")
    })?;
    let size = scene.shape.size;
    let what = if missing == size {
        "no pod can be made".to_owned()
    } else {
        format!("{missing} of {size} pods cannot be made")
    };
    let words = event.message.strip_prefix("Error creating: ").unwrap_or(&event.message);
    Some(refusal(Cause::PodsRefused, &what, words).since(event.first))
}

/// What an admission plugin said, in our words. `cause` is for what has no cause of its own.
pub(super) fn refusal(cause: Cause, what: &str, words: &str) -> Found {
    if let Some((_, quota)) = words.split_once("exceeded quota: ") {
        let (name, figures) = quota.split_once(", requested: ").unwrap_or((quota, ""));
        let name = name.trim_end_matches([',', ' ']);
        let figures = if figures.is_empty() {
            String::new()
        } else {
            format!(" (requested: {})", words::quote(figures))
        };
        return Found::new(
            Cause::QuotaExceeded,
            format!("{what}: the ResourceQuota {name} leaves no room{figures}"),
        )
        .advise("ask for less, wait until others are done, or have the quota raised");
    }
    if let Some((_, rest)) = words.split_once("violates PodSecurity ") {
        let (level, rules) = rest.split_once(": ").unwrap_or((rest, ""));
        return Found::new(
            Cause::PodsRefused,
            format!("{what}: the namespace wants Pod Security {level}: {}", words::quote(rules)),
        )
        .advise("set what is named in the securityContext of spec.template");
    }
    // `pods "x" is forbidden: ...` names an object that never was.
    let bare = match words.split_once(" is forbidden: ") {
        Some((subject, rest)) if subject.split(' ').count() == 2 => rest,
        _ => words,
    };
    let found = Found::new(cause, format!("{what}: {}", policy(&words::quote(bare))));
    match cause {
        Cause::PodsRefused => found
            .advise("change spec.template as the message says, or ask whoever runs that webhook"),
        Cause::Refused => found.advise(CHANGE),
        _ => found,
    }
}

/// The words of a ValidatingAdmissionPolicy without the frame that names policy and binding.
fn policy(words: &str) -> String {
    let parts = words.strip_prefix("ValidatingAdmissionPolicy '").and_then(|rest| {
        let (name, rest) = rest.split_once('\'')?;
        Some((name, rest.split_once(" denied request: ")?.1))
    });
    match parts {
        Some((name, said)) => format!("the admission policy {name} says: {said}"),
        None => words.to_owned(),
    }
}

/// The newest warning of some kind.
fn newest<'a>(scene: &Scene<'a>, fits: impl Fn(&EventFacts) -> bool) -> Option<&'a EventFacts> {
    scene
        .observed
        .events
        .iter()
        .filter(|event| event.warning && fits(event))
        .max_by_key(|event| (event.last, &event.message))
}
