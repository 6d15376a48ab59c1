//! Facts from a queue: its jobs, nodes and lanes in Slurm's words.
//!
//! What the queue does not know (names of users, the hosts of submitters, why the scheduler passed a
//! job over) comes in with [`Known`].

use super::{
    ArrayFacts, ArrayTasks, Cluster, JobFacts, JobState, Memory, NodeBase, NodeFacts, NodeFlag,
    PartitionFacts, StepFacts,
};
use crate::calendar::Clock;
use crate::options;
use quorate_hostlist::{HostList, IdSet};
use quorate_queue::{
    ArrayElement, Condition, Constraint, Forecast, Job, JobId, Lane, NodeState, Program, Queue,
    Standing, State, Time,
};
use std::collections::BTreeMap;

/// What the queue does not know.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The cluster's name.
    pub cluster: &'a str,
    /// The host of rank 0.
    pub host: &'a str,
    /// The name of the first lane, in which jobs are that name none.
    pub first_lane: &'a str,
    /// Names of users by number; others are shown as numbers.
    pub users: &'a BTreeMap<u32, String>,
    /// Groups of users: number and name; others are shown as their user.
    pub groups: &'a BTreeMap<u32, (u32, String)>,
    /// What time it is, and where.
    pub clock: Clock,
}

/// Everything that a queue knows. Of steps only those that are the whole job: its script, or what srun
/// was called for outside of one. Steps within a script are jobs of its own cluster, which the agent asks.
pub fn cluster(queue: &Queue, known: &Known<'_>) -> Cluster {
    let hosts: BTreeMap<u32, &str> =
        queue.pool().nodes().map(|(offer, _)| (offer.rank, offer.host.as_str())).collect();
    let forecasts: BTreeMap<JobId, Forecast> =
        queue.forecasts().iter().map(|forecast| (forecast.job, *forecast)).collect();
    let first = queue.waiting().next().map(|job| job.id);
    let mut jobs: Vec<JobFacts> = Vec::new();
    let mut arrays: BTreeMap<JobId, usize> = BTreeMap::new();
    for job in queue.jobs() {
        let reason = reason(queue, job, first, known.clock);
        let mut facts = facts(job, &hosts, forecasts.get(&job.id), &reason, known);
        facts.dependency = dependency(queue, job);
        let waits = facts.state == JobState::Pending;
        let element = job.submission.element.filter(|_| waits);
        // Tasks of an array that wait are one job, as long as they wait for the same.
        let known_array = element.and_then(|element| arrays.get(&element.array).copied());
        match (element, known_array) {
            (Some(element), Some(at)) if jobs[at].reason == facts.reason => {
                if let Some(ArrayFacts { tasks: ArrayTasks::Waiting(indices), .. }) =
                    &mut jobs[at].array
                {
                    indices.insert(element.index);
                }
            }
            (Some(element), _) => {
                arrays.insert(element.array, jobs.len());
                jobs.push(facts);
            }
            (None, _) => jobs.push(facts),
        }
    }
    let lanes: Vec<&Lane> = queue.lanes().collect();
    Cluster {
        name: known.cluster.to_owned(),
        host: known.host.to_owned(),
        jobs,
        steps: queue.jobs().filter_map(|job| step(job, &hosts)).collect(),
        nodes: nodes(queue, &lanes, known),
        partitions: lanes.iter().map(|lane| partition(lane, known)).collect(),
    }
}

/// The step that is all of a job: `batch` of a script, `0` of a command.
fn step(job: &Job, hosts: &BTreeMap<u32, &str>) -> Option<StepFacts> {
    job.started?;
    let spec = job.spec();
    let parts = &job.allocation.as_ref()?.parts;
    let (step, name, parts, tasks) = match &spec.program {
        Program::Script { .. } => ("batch", "batch".to_owned(), parts.get(..1)?, 1),
        Program::Command(_) => ("0", job.name().into_owned(), &parts[..], spec.request.tasks),
        Program::Instance => return None,
    };
    let cores = |part: &quorate_queue::Part| u32::try_from(part.cores.len()).unwrap_or(u32::MAX);
    let state = match state(job) {
        JobState::Timeout => JobState::Cancelled,
        JobState::Completing => JobState::Running,
        state => state,
    };
    let names = parts.iter().map(|part| hosts.get(&part.rank).copied().unwrap_or("unknown"));
    Some(StepFacts {
        job: job.id.0,
        step: step.to_owned(),
        name,
        state,
        exit: exit(job),
        start: job.allocated.and_then(seconds).unwrap_or(0),
        end: job.ended.and_then(seconds),
        nodes: names.collect::<HostList>().to_string(),
        node_count: u32::try_from(parts.len()).unwrap_or(u32::MAX),
        cpus: parts.iter().map(cores).sum(),
        tasks,
    })
}

/// Exit code and signal of a job.
fn exit(job: &Job) -> (u8, u8) {
    let code = job.exit_code().unwrap_or(0);
    match job.standing() {
        Some(Standing::Cancelled) if job.started.is_none() => (0, 0),
        Some(Standing::Cancelled | Standing::TimedOut) => (0, 15),
        Some(Standing::Failed) if code > 128 => (0, code - 128),
        _ => (code, 0),
    }
}

fn seconds(time: Time) -> Option<i64> {
    (time != Time::NEVER).then(|| i64::try_from(time.0 / 1000).ok()).flatten()
}

/// Slurm's state of a job.
pub fn state(job: &Job) -> JobState {
    match job.state {
        State::Depend | State::Priority | State::Sched => JobState::Pending,
        State::Run => JobState::Running,
        State::Cleanup if job.holds_nodes() => JobState::Completing,
        State::Cleanup | State::Inactive => match job.standing() {
            Some(Standing::Completed) => JobState::Completed,
            Some(Standing::Cancelled) => JobState::Cancelled,
            Some(Standing::TimedOut) => JobState::Timeout,
            Some(Standing::Failed) => match job.cause.as_ref().map(|cause| &*cause.kind) {
                Some("node-lost") => JobState::NodeFail,
                _ => JobState::Failed,
            },
            None => JobState::Completing,
        },
    }
}

/// Why a job is in its state, in Slurm's words; `first` is the job that waits for nodes and comes first.
fn reason(queue: &Queue, job: &Job, first: Option<JobId>, clock: Clock) -> String {
    let word = match state(job) {
        JobState::Pending if job.held => "JobHeldUser",
        JobState::Pending => match job.state {
            State::Depend => {
                let begin = job.spec().begin.and_then(seconds);
                if begin.is_some_and(|begin| begin > clock.now) {
                    "BeginTime"
                } else {
                    "Dependency"
                }
            }
            _ if at_limit(queue, job) => "JobArrayTaskLimit",
            _ if lane_stopped(queue, job) => "PartitionDown",
            _ if first == Some(job.id) => "Resources",
            _ if queue.forecasts().iter().any(|forecast| forecast.job == job.id) => "Resources",
            _ => "Priority",
        },
        JobState::Failed => match job.cause.as_ref().map(|cause| &*cause.kind) {
            Some("dependency") => "DependencyNeverSatisfied",
            Some("exec") => "JobLaunchFailure",
            _ => "NonZeroExitCode",
        },
        JobState::Timeout => "TimeLimit",
        JobState::NodeFail => "NodeDown",
        _ => "None",
    };
    word.to_owned()
}

/// Whether as many of its array run as may.
fn at_limit(queue: &Queue, job: &Job) -> bool {
    let Some(ArrayElement { array, limit: Some(limit), .. }) = job.submission.element else {
        return false;
    };
    let of_array =
        |other: &&Job| other.submission.element.is_some_and(|element| element.array == array);
    queue.running().filter(of_array).count() >= limit as usize
}

fn lane_stopped(queue: &Queue, job: &Job) -> bool {
    let name = job.spec().queue.as_deref();
    let lane = match name {
        Some(name) => queue.lanes().find(|lane| lane.name == name),
        None => queue.lanes().next(),
    };
    lane.is_some_and(|lane| !lane.started)
}

/// What a job still waits for: `afterok:17(unfulfilled)`.
fn dependency(queue: &Queue, job: &Job) -> Option<String> {
    if job.state != State::Depend && job.state != State::Cleanup {
        return None;
    }
    let mut parts: Vec<String> = Vec::new();
    for dependency in &job.spec().dependencies {
        let on = queue.job(dependency.job);
        let over = on.is_none_or(|on| on.state == State::Inactive);
        let good = on.is_some_and(|on| on.standing() == Some(Standing::Completed));
        let (name, done, never) = match dependency.on {
            Condition::AfterStart => {
                ("after", on.is_none_or(|on| on.started.is_some()) || over, false)
            }
            Condition::AfterAny => ("afterany", over, false),
            Condition::AfterOk => ("afterok", over && good, over && !good),
            Condition::AfterNotOk => ("afternotok", over && !good, over && good),
        };
        if !done {
            let how = if never { "failed" } else { "unfulfilled" };
            parts.push(format!("{name}:{}({how})", dependency.job));
        }
    }
    if job.spec().singleton {
        parts.push("singleton(unfulfilled)".to_owned());
    }
    (!parts.is_empty()).then(|| parts.join(","))
}

fn facts(
    job: &Job,
    hosts: &BTreeMap<u32, &str>,
    forecast: Option<&Forecast>,
    reason: &str,
    known: &Known<'_>,
) -> JobFacts {
    let spec = job.spec();
    let state = state(job);
    let uid = job.submission.user;
    let user = known.users.get(&uid).cloned().unwrap_or_else(|| uid.to_string());
    let (gid, group) = known.groups.get(&uid).cloned().unwrap_or_else(|| (uid, user.clone()));
    let label = |name: &str| spec.labels.get(name).cloned();
    let request = &spec.request;
    let batch = matches!(spec.program, Program::Script { .. });
    let names: Vec<&str> = job
        .allocation
        .iter()
        .flat_map(|allocation| &allocation.parts)
        .map(|part| hosts.get(&part.rank).copied().unwrap_or("unknown"))
        .collect();
    let cores = |job: &Job| -> Option<u32> {
        let parts = &job.allocation.as_ref()?.parts;
        Some(parts.iter().map(|part| u32::try_from(part.cores.len()).unwrap_or(u32::MAX)).sum())
    };
    let asked = request.tasks.saturating_mul(request.cores_per_task);
    let count = match (u32::try_from(names.len()).unwrap_or(u32::MAX), request.nodes) {
        (0, None) => (1, 0),
        (0, Some(range)) => range,
        (had, _) => (had, 0),
    };
    let memory = if request.memory_per_task > 0 {
        let each = request.memory_per_task / u64::from(request.cores_per_task.max(1));
        Memory::Cpu(each.div_ceil(1 << 20))
    } else {
        Memory::Node(request.memory_per_node.div_ceil(1 << 20))
    };
    let (start, end) = match state {
        JobState::Pending => {
            let start = spec.begin.or(forecast.map(|forecast| forecast.start)).and_then(seconds);
            let limit = job.time_limit.and_then(|limit| i64::try_from(limit).ok());
            (start, start.zip(limit).map(|(start, limit)| start + limit))
        }
        JobState::Running | JobState::Completing => {
            (job.allocated.and_then(seconds), seconds(job.end_at_latest()))
        }
        _ => {
            let ended = job.ended.and_then(seconds);
            (job.allocated.and_then(seconds).or(ended), ended)
        }
    };
    let array = job.submission.element.map(|element| ArrayFacts {
        job: element.array.0,
        tasks: if state == JobState::Pending {
            ArrayTasks::Waiting(IdSet::from_iter([element.index]))
        } else {
            ArrayTasks::One(element.index)
        },
        limit: element.limit,
    });
    let eligible = match state {
        JobState::Pending if job.held || job.state == State::Depend => {
            spec.begin.and_then(seconds).filter(|_| !job.held)
        }
        _ => seconds(job.submitted.max(spec.begin.unwrap_or_default())),
    };
    JobFacts {
        id: job.id.0,
        array,
        name: job.name().into_owned(),
        user,
        uid,
        group,
        gid,
        priority: if job.held { 0 } else { job.priority },
        nice: label(options::NICE).and_then(|nice| nice.parse().ok()).unwrap_or(0),
        account: label(options::ACCOUNT),
        qos: label(options::QOS),
        state,
        reason: reason.to_owned(),
        dependency: None,
        requeue: spec.requeue,
        restarts: job.requeues,
        batch,
        exit: exit(job),
        cancelled_by: (state == JobState::Cancelled).then_some(uid),
        limit: job.time_limit,
        submit: seconds(job.submitted).unwrap_or(0),
        eligible,
        accrue: eligible,
        start,
        end,
        looked_at: None,
        partition: spec.queue.clone().unwrap_or_else(|| known.first_lane.to_owned()),
        from: (
            spec.environment
                .get("SLURM_SUBMIT_HOST")
                .cloned()
                .unwrap_or_else(|| known.host.to_owned()),
            0,
        ),
        wanted_nodes: listed(spec.constraint.as_ref(), false).join(","),
        excluded_nodes: listed(spec.constraint.as_ref(), true).join(","),
        nodes: names
            .iter()
            .collect::<Vec<_>>()
            .into_iter()
            .map(|name| (*name).to_owned())
            .collect::<HostList>()
            .to_string(),
        planned_nodes: None,
        batch_host: names.first().filter(|_| batch).map(|name| (*name).to_owned()),
        node_count: count,
        cpus: cores(job).unwrap_or(asked),
        tasks: Some(request.tasks),
        cpus_per_task: request.cores_per_task,
        tasks_per_node: request.tasks_per_node.unwrap_or(0),
        min_cpus: request.cores_per_task,
        memory,
        gpus: request.gpus_per_task.saturating_mul(request.tasks),
        gres: (request.gpus_per_task > 0).then(|| {
            let per_node = request.gpus_per_task * request.tasks.div_ceil(count.0.max(1));
            format!("gres:gpu:{per_node}")
        }),
        features: features(spec.constraint.as_ref()),
        exclusive: request.exclusive,
        command: label(options::COMMAND),
        directory: spec.directory.clone(),
        comment: label(options::COMMENT),
        files: files(job),
        submit_line: label(options::SUBMIT_LINE).unwrap_or_default(),
    }
}

/// Standard error, input and output of a batch job, absolute.
fn files(job: &Job) -> Option<[String; 3]> {
    let spec = job.spec();
    if !matches!(spec.program, Program::Script { .. }) {
        return None;
    }
    let path = |text: &str| {
        let name = job.filled(text);
        if name.starts_with('/') { name.into_owned() } else { format!("{}/{name}", spec.directory) }
    };
    let streams = &spec.streams;
    let output = path(streams.output.as_deref().unwrap_or("/dev/null"));
    Some([
        streams.error.as_deref().map_or_else(|| output.clone(), path),
        path(streams.input.as_deref().unwrap_or("/dev/null")),
        output,
    ])
}

/// The features that a constraint asks for, joined by `&`.
fn features(constraint: Option<&Constraint>) -> Option<String> {
    fn text(constraint: &Constraint) -> Option<String> {
        let join = |list: &[Constraint], by: &str| {
            let parts: Vec<String> = list.iter().filter_map(text).collect();
            (!parts.is_empty()).then(|| parts.join(by))
        };
        match constraint {
            Constraint::Properties(names) => Some(names.join("&")),
            Constraint::And(list) => join(list, "&"),
            Constraint::Or(list) => join(list, "|"),
            Constraint::Not(_) | Constraint::Hostlist(_) | Constraint::Ranks(_) => None,
        }
    }
    constraint.and_then(text)
}

/// The host lists that a constraint asks for, or those that it forbids.
fn listed(constraint: Option<&Constraint>, forbidden: bool) -> Vec<String> {
    match constraint {
        Some(Constraint::Hostlist(list)) if !forbidden => list.clone(),
        Some(Constraint::And(list)) => {
            list.iter().flat_map(|each| listed(Some(each), forbidden)).collect()
        }
        Some(Constraint::Not(list)) if forbidden => {
            list.iter().flat_map(|each| listed(Some(each), false)).collect()
        }
        _ => Vec::new(),
    }
}

fn nodes(queue: &Queue, lanes: &[&Lane], known: &Known<'_>) -> Vec<NodeFacts> {
    let pool = queue.pool();
    let count = |set: &IdSet| u32::try_from(set.len()).unwrap_or(u32::MAX);
    let node = |(offer, free): (&quorate_queue::Offer, quorate_queue::Part)| {
        let (cpus, idle) = (count(&offer.cores), count(&free.cores));
        let used = cpus.saturating_sub(idle);
        let (base, drain) = match pool.state(offer.rank) {
            Some(NodeState::Down) => (NodeBase::Down, None),
            Some(NodeState::Drained(reason)) => (busy(used, cpus), Some(reason)),
            _ => (busy(used, cpus), None),
        };
        let mut flags = Vec::new();
        if drain.is_some() {
            flags.push(NodeFlag::Drain);
        }
        if base == NodeBase::Down {
            flags.push(NodeFlag::NotResponding);
        }
        let partitions = lanes
            .iter()
            .filter(|lane| lane.requires.as_ref().is_none_or(|need| holds(need, offer)))
            .map(|lane| lane.name.clone())
            .collect();
        NodeFacts {
            name: offer.host.clone(),
            host: offer.host.clone(),
            address: offer.host.clone(),
            cpus,
            used_cpus: used,
            memory: offer.memory >> 20,
            used_memory: (offer.memory.saturating_sub(free.memory)) >> 20,
            free_memory: None,
            load: None,
            gpus: count(&offer.gpus),
            used_gpus: count(&offer.gpus).saturating_sub(count(&free.gpus)),
            features: offer.properties.clone(),
            base,
            flags,
            reason: drain.map(|reason| (reason.into(), "root".to_owned(), known.clock.now)),
            partitions,
            shape: (1, cpus, 1),
            boot: None,
            started: None,
            last_busy: None,
            words: BTreeMap::new(),
        }
    };
    pool.nodes().map(node).collect()
}

fn busy(used: u32, cpus: u32) -> NodeBase {
    match used {
        0 => NodeBase::Idle,
        used if used >= cpus => NodeBase::Allocated,
        _ => NodeBase::Mixed,
    }
}

/// Whether a node is in a lane.
fn holds(need: &Constraint, offer: &quorate_queue::Offer) -> bool {
    match need {
        Constraint::And(list) => list.iter().all(|each| holds(each, offer)),
        Constraint::Or(list) => list.is_empty() || list.iter().any(|each| holds(each, offer)),
        Constraint::Not(list) => !list.iter().all(|each| holds(each, offer)),
        Constraint::Properties(names) => names.iter().all(|name| match name.strip_prefix('^') {
            Some(name) => !offer.properties.iter().any(|there| there == name),
            None => offer.properties.contains(name),
        }),
        Constraint::Hostlist(lists) => lists.iter().any(|list| {
            list.parse::<HostList>().is_ok_and(|list| list.find(&offer.host).is_some())
        }),
        Constraint::Ranks(sets) => {
            sets.iter().any(|set| set.parse::<IdSet>().is_ok_and(|set| set.contains(offer.rank)))
        }
    }
}

fn partition(lane: &Lane, known: &Known<'_>) -> PartitionFacts {
    PartitionFacts {
        name: lane.name.clone(),
        default: lane.name == known.first_lane,
        state: match (lane.enabled, lane.started) {
            (true, true) => "UP",
            (true, false) => "DOWN",
            (false, true) => "DRAIN",
            (false, false) => "INACTIVE",
        },
        limit: lane.limits.time,
        default_limit: lane.limits.default_time,
        max_nodes: lane.limits.nodes,
    }
}

#[cfg(test)]
mod tests;
