//! What `ls` and `status` print of clusters on Kubernetes. Pure: facts and the time in, text out.

use crate::table;
use crate::terminal::age;
use k8s_openapi::jiff::Timestamp;
use quorate_api::MiniCluster;
use quorate_api::conditions;
use quorate_api::status::{Failure, MiniClusterStatus, QueueStatus};
use quorate_observe::{ContainerState, Observed, Phase, PodFacts, Why};
use quorate_overlay::Topology;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The columns of `ls`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    /// Clusters of several namespaces.
    pub(super) namespaces: bool,
    /// More of each.
    pub(super) wide: bool,
}

/// The table of `ls`.
pub(super) fn list(clusters: &[MiniCluster], columns: Columns, now: Timestamp) -> String {
    let mut heading = vec!["NAME", "SIZE", "ONLINE", "STATE", "JOBS", "AGE"];
    if columns.namespaces {
        heading.insert(0, "NAMESPACE");
    }
    if columns.wide {
        heading.extend(["ATTEMPT", "RESTARTS", "MESSAGE"]);
    }
    let rows: Vec<Vec<String>> = clusters.iter().map(|one| row(one, columns, now)).collect();
    table::render(&heading, &rows)
}

fn row(cluster: &MiniCluster, columns: Columns, now: Timestamp) -> Vec<String> {
    let status = cluster.status.clone().unwrap_or_default();
    let metadata = &cluster.metadata;
    let number = |number: Option<i32>| number.map_or("-".to_owned(), |number| number.to_string());
    let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
    let mut row = vec![
        metadata.name.clone().unwrap_or_default(),
        number(status.size.or(cluster.spec.size)),
        number(status.online),
        state(cluster),
        status.queue.as_ref().map_or("-".to_owned(), |queue| queue.jobs.clone()),
        created.map_or("-".to_owned(), |created| age(seconds(created, now))),
    ];
    if columns.namespaces {
        row.insert(0, metadata.namespace.clone().unwrap_or_default());
    }
    if columns.wide {
        row.extend([
            number(status.attempt),
            number(status.restarts),
            status.message.unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    row
}

/// The list as data, with the names that clusters of this machine have too.
pub(super) fn list_data(clusters: &[MiniCluster], now: Timestamp) -> Value {
    let one = |cluster: &MiniCluster| {
        let status = cluster.status.clone().unwrap_or_default();
        let metadata = &cluster.metadata;
        let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
        json!({
            "name": metadata.name,
            "namespace": metadata.namespace,
            "size": status.size.or(cluster.spec.size),
            "online": status.online,
            "state": state(cluster),
            "queue": status.queue,
            "attempt": status.attempt,
            "restarts": status.restarts,
            "ageSeconds": created.map(|created| seconds(created, now)),
            "reason": status.reason,
            "message": status.message,
        })
    };
    clusters.iter().map(one).collect()
}

/// The one word for a cluster; `Ending` and `-` (nobody has looked at it) are no states of the API.
pub(super) fn state(cluster: &MiniCluster) -> String {
    if cluster.metadata.deletion_timestamp.is_some() {
        return "Ending".to_owned();
    }
    let state = cluster.status.as_ref().and_then(|status| status.state);
    state.map_or("-".to_owned(), |state| format!("{state:?}"))
}

/// The jobs of a queue in words.
fn jobs(queue: &QueueStatus) -> String {
    format!(
        "{} running, {} waiting, {} completed, {} failed",
        queue.running, queue.pending, queue.completed, queue.failed
    )
}

/// What `status` shows.
pub(super) struct Picture<'a> {
    pub(super) observed: &'a Observed,
    pub(super) why: &'a Why,
    pub(super) status: &'a MiniClusterStatus,
    /// Resources that could not be read.
    pub(super) unseen: &'a [String],
    pub(super) now: Timestamp,
    /// Whether trees are drawn with lines.
    pub(super) unicode: bool,
}

impl Picture<'_> {
    /// For people.
    pub(super) fn text(&self) -> String {
        let name = self.observed.cluster.metadata.name.as_deref().unwrap_or_default();
        let mut text = self.why.render(name, self.now);
        text.push('\n');
        let mut line = |what: &str, words: &str| text.push_str(&format!("  {what:<9} {words}\n"));
        let phases = self.phases();
        if !phases.is_empty() {
            let words: Vec<String> = phases
                .iter()
                .map(|(phase, after)| format!("{phase} {}", age(after.as_secs())))
                .collect();
            line("started", &(words.join(", ") + " after its creation"));
        }
        if let Some(queue) = &self.status.queue {
            line("jobs", &jobs(queue));
        }
        if let Some(words) = self.restarts() {
            line("restarts", &words);
        }
        // What the owner wrote outlives the pods that show it.
        let kept = self.observed.cluster.status.as_ref().and_then(|old| old.failure.as_ref());
        if let Some(failure) = self.status.failure.as_ref().or(kept) {
            for (at, words) in failure_lines(failure).iter().enumerate() {
                line(if at == 0 { "failure" } else { "" }, words);
            }
        }
        if !self.unseen.is_empty() {
            line("not seen", &self.unseen.join(", "));
        }
        let rows = self.brokers();
        if !rows.is_empty() {
            text.push('\n');
            let heading = ["RANK", "BROKER", "STATE", "NODE", "ADDRESS", "AGE", "WHY"];
            text.push_str(&table::render(&heading, &rows));
        }
        text
    }

    /// For programs.
    pub(super) fn data(&self) -> Value {
        let why = self.why;
        let brokers: Vec<Value> = self
            .by_rank()
            .iter()
            .map(|(rank, pod)| {
                json!({
                    "rank": rank, "name": pod.short_name(), "pod": pod.name, "node": pod.node,
                    "address": pod.address, "state": pod_state(pod), "attempt": pod.attempt,
                })
            })
            .collect();
        let phases: serde_json::Map<String, Value> = self
            .phases()
            .into_iter()
            .map(|(phase, after)| (phase.to_owned(), json!(after.as_secs_f64())))
            .collect();
        json!({
            "name": self.observed.cluster.metadata.name,
            "namespace": self.observed.cluster.metadata.namespace,
            "status": self.status,
            "why": why_data(why),
            "secondsFromCreation": phases,
            "brokers": brokers,
            "notSeen": self.unseen,
        })
    }

    /// Turns that were reached, with the time from the creation of the object.
    fn phases(&self) -> Vec<(&'static str, Duration)> {
        let created = self.observed.cluster.metadata.creation_timestamp.as_ref().map(|t| t.0);
        let Some(created) = created else { return Vec::new() };
        let time = |time: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time| time.0;
        let running: Vec<Option<Timestamp>> =
            self.by_rank().values().map(|pod| running_since(pod)).collect();
        let pods = match running.iter().flatten().max() {
            Some(last) if running.iter().all(Option::is_some) => Some(*last),
            _ => None,
        };
        [
            ("jobset", self.status.start_time.as_ref().map(time)),
            ("pods", pods),
            ("quorate", self.status.quorate_time.as_ref().map(time)),
            ("program", program_started(self.status)),
            ("ended", self.status.completion_time.as_ref().map(time)),
        ]
        .into_iter()
        .filter_map(|(phase, at)| Some((phase, Duration::from_secs(seconds(created, at?)))))
        .collect()
    }

    fn restarts(&self) -> Option<String> {
        let attempt = self.status.attempt.unwrap_or(0);
        let counted = self.status.restarts.unwrap_or(0);
        if attempt == 0 && counted == 0 {
            return None;
        }
        let most = self.observed.cluster.spec.failure_policy.max_restarts;
        let free = attempt - counted;
        let mut words = format!("{counted} of {most}");
        if free > 0 {
            words += &format!(", and {free} after disruptions that do not count");
        }
        Some(words)
    }

    /// The youngest pod of this attempt for each rank.
    fn by_rank(&self) -> BTreeMap<u32, &PodFacts> {
        let mut by_rank: BTreeMap<u32, &PodFacts> = BTreeMap::new();
        let Some(shape) = self.observed.shape.as_deref() else { return by_rank };
        for pod in self.observed.own_pods() {
            let Some(rank) = shape.rank(pod) else { continue };
            let younger = by_rank.get(&rank).is_none_or(|known| {
                (pod.deleting.is_none(), pod.created) > (known.deleting.is_none(), known.created)
            });
            if younger {
                by_rank.insert(rank, pod);
            }
        }
        by_rank
    }

    /// The tree of brokers as rows of a table.
    fn brokers(&self) -> Vec<Vec<String>> {
        let by_rank = self.by_rank();
        let Some(shape) = self.observed.shape.as_deref() else { return Vec::new() };
        let fanout = self.observed.cluster.spec.bootstrap.fanout.max(0).cast_unsigned();
        let most = self.observed.cluster.spec.max_size.map_or(shape.size, i32::cast_unsigned);
        let tree = Topology::new(most.max(shape.size).max(1), fanout);
        let missing: BTreeMap<u32, &str> = self
            .observed
            .live()
            .into_iter()
            .flat_map(|live| live.missing.iter().map(|one| (one.rank, one.why.as_str())))
            .collect();
        let mut rows = Vec::new();
        self.branch(0, "", shape.size, tree, &mut |rank, line| {
            let name = shape
                .groups
                .iter()
                .find(|group| rank >= group.first_rank && rank - group.first_rank < group.size)
                .map(|group| format!("{}-0-{}", group.name, rank - group.first_rank));
            // Ranks are fixed for the largest size: some are not there now.
            let Some(name) = name else { return };
            let pod = by_rank.get(&rank);
            let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            rows.push(vec![
                rank.to_string(),
                format!("{line}{name}"),
                pod.map_or_else(|| "Missing".to_owned(), |pod| pod_state(pod)),
                or_none(pod.and_then(|pod| pod.node.clone())),
                or_none(pod.and_then(|pod| pod.address.clone())),
                or_none(
                    pod.and_then(|pod| pod.created).map(|created| age(seconds(created, self.now))),
                ),
                missing.get(&rank).copied().map(str::to_owned).unwrap_or_default(),
            ]);
        });
        rows
    }

    /// Calls `row` for a broker and all below it, with the lines that lead there.
    fn branch(
        &self,
        rank: u32,
        indent: &str,
        size: u32,
        tree: Topology,
        row: &mut impl FnMut(u32, &str),
    ) {
        if rank == 0 {
            row(0, "");
        }
        let children: Vec<u32> = tree.children(rank).filter(|child| *child < size).collect();
        for (at, child) in children.iter().enumerate() {
            let last = at + 1 == children.len();
            let (joint, below) = match (self.unicode, last) {
                (true, false) => ("├─ ", "│  "),
                (true, true) => ("└─ ", "   "),
                (false, false) => ("|- ", "|  "),
                (false, true) => ("`- ", "   "),
            };
            row(*child, &format!("{indent}{joint}"));
            self.branch(*child, &format!("{indent}{below}"), size, tree, row);
        }
    }
}

/// Why as data.
pub(super) fn why_data(why: &Why) -> Value {
    json!({
        "cause": why.cause.reason(),
        "message": why.message,
        "since": why.since.map(|since| since.to_string()),
        "online": why.brokers.online,
        "size": why.brokers.size,
        "quorum": why.brokers.quorum,
        "missing": why.brokers.missing,
        "toDo": why.to_do,
    })
}

/// The state of a broker as its pod shows it.
fn pod_state(pod: &PodFacts) -> String {
    if pod.deleting.is_some() && !pod.ended() {
        return "Ending".to_owned();
    }
    let main = pod.main.as_ref().map(|main| &main.state);
    match (pod.phase, main) {
        (Phase::Succeeded, _) => "Done".to_owned(),
        (Phase::Failed, Some(ContainerState::Terminated { code, .. })) => format!("Failed {code}"),
        (Phase::Failed, _) => "Failed".to_owned(),
        _ if pod.ready => "Online".to_owned(),
        (_, Some(ContainerState::Running { .. })) => "Joining".to_owned(),
        (_, Some(ContainerState::Waiting { reason, .. })) if !reason.is_empty() => reason.clone(),
        _ if pod.node.is_none() => "Unscheduled".to_owned(),
        _ => "Pending".to_owned(),
    }
}

/// Since when a pod's main container has run; of an ended one nothing is known.
pub(super) fn running_since(pod: &PodFacts) -> Option<Timestamp> {
    match &pod.main.as_ref()?.state {
        ContainerState::Running { since } => *since,
        _ => None,
    }
}

/// Whether a pod's command has been started.
pub(super) fn has_started(pod: &PodFacts) -> bool {
    pod.main.as_ref().is_some_and(|main| {
        matches!(main.state, ContainerState::Running { .. } | ContainerState::Terminated { .. })
    })
}

fn failure_lines(failure: &Failure) -> Vec<String> {
    let mut first = match failure.attempt {
        Some(attempt) => format!("attempt {attempt}: "),
        None => String::new(),
    };
    match (&failure.message, failure.rank) {
        (Some(message), _) => first += message,
        (None, Some(rank)) => first += &format!("rank {rank}"),
        (None, None) => first += failure.reason.as_deref().unwrap_or("it failed"),
    }
    let place: Vec<String> = [("pod", &failure.pod), ("node", &failure.node)]
        .into_iter()
        .filter_map(|(what, name)| Some(format!("{what} {}", name.as_ref()?)))
        .collect();
    if !place.is_empty() {
        first += &format!(" ({})", place.join(", "));
    }
    let mut lines = vec![first];
    lines.extend(failure.log_tail.iter().map(|line| format!("| {line}")));
    lines
}

/// Whole seconds from one time to another; 0 if the clocks disagree.
pub(super) fn seconds(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_second() - from.as_second()).unwrap_or(0)
}

/// Whether a pod's main container has ended.
pub(super) fn main_ended(pod: &PodFacts) -> bool {
    let state = pod.main.as_ref().map(|main| &main.state);
    matches!(state, Some(ContainerState::Terminated { .. }))
}

/// When the program started. A cluster without one is Running too, for whoever comes.
fn program_started(status: &MiniClusterStatus) -> Option<Timestamp> {
    let started = status.conditions.iter().find(|condition| {
        condition.type_ == conditions::RUNNING
            && condition.status == "True"
            && condition.reason == conditions::reason::PROGRAM_STARTED
    });
    started.map(|condition| condition.last_transition_time.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cluster_that_waits_for_jobs_has_started_no_program() {
        let status = |reason: &str| -> MiniClusterStatus {
            serde_json::from_value(json!({"conditions": [{
                "type": "Running", "status": "True", "reason": reason, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:09Z",
            }]}))
            .unwrap()
        };
        assert_eq!(program_started(&status("Ready")), None);
        let at: Timestamp = "2026-01-01T00:00:09Z".parse().unwrap();
        assert_eq!(program_started(&status("ProgramStarted")), Some(at));
    }
}
