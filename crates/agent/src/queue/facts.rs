//! What is told of the queue: jobs, brokers and queues as plain data.
//!
//! Owns: the way from the queue to [`JobFacts`], [`NodeFacts`] and [`LaneFacts`], the choice of jobs by a
//! [`Selection`], and the words for why a job waits. Pure.

use super::protocol::{JobFacts, LaneFacts, NodeFacts, Selection, Shown};
use super::steps;
use quorate_contract::AgentConfig;
use quorate_queue::{
    Condition, Job, JobId, Lane, NodeState, Phase, Program, Queue, Standing, State, Streams, Time,
};

/// The chosen jobs, by number; an unknown number is an error.
pub(super) fn choose(queue: &Queue, selection: &Selection) -> Result<Vec<JobId>, String> {
    let mut chosen: Vec<JobId> = if selection.ids.is_empty() {
        queue.jobs().filter(|job| fits(queue, job, selection)).map(|job| job.id).collect()
    } else {
        for id in &selection.ids {
            if queue.job(*id).is_none() {
                return Err(unknown(queue, *id));
            }
        }
        let known = selection.ids.iter().filter_map(|id| queue.job(*id));
        known.filter(|job| fits(queue, job, selection)).map(|job| job.id).collect()
    };
    if let Some(last) = selection.last {
        let last = usize::try_from(last).unwrap_or(usize::MAX);
        chosen.drain(..chosen.len().saturating_sub(last));
    }
    Ok(chosen)
}

/// The words for a number that no known job has.
pub(super) fn unknown(queue: &Queue, id: JobId) -> String {
    if id < queue.next_id() {
        format!("job {id} is not known any more: it was over long ago and is forgotten")
    } else {
        format!("there is no job {id}")
    }
}

fn fits(queue: &Queue, job: &Job, selection: &Selection) -> bool {
    let states = &selection.states;
    (states.is_empty() || states.iter().any(|shown| shows(job, *shown)))
        && selection.user.is_none_or(|user| job.submission.user == user)
        && selection.name.as_ref().is_none_or(|name| job.name() == name.as_str())
        && selection.queue.as_ref().is_none_or(|name| queue.lane_name(job) == name)
}

fn shows(job: &Job, shown: Shown) -> bool {
    match shown {
        Shown::In(state) => job.state == state,
        Shown::Active => job.state != State::Inactive,
        Shown::Pending => job.phase() == Phase::Pending,
        Shown::Running => job.phase() == Phase::Running,
        Shown::As(standing) => job.standing() == Some(standing),
    }
}

/// All that is known of a job.
pub(super) fn job(queue: &Queue, job: &Job, config: &AgentConfig) -> JobFacts {
    let spec = job.spec();
    let request = &spec.request;
    let ranks = job.allocation.as_ref().map(|allocation| allocation.ranks()).unwrap_or_default();
    let least = request.nodes.map_or(1, |(fewest, _)| fewest);
    let forecast = queue.forecasts().iter().find(|forecast| forecast.job == job.id);
    let filled = |text: &Option<String>| text.as_ref().map(|text| job.filled(text).into_owned());
    JobFacts {
        id: job.id,
        name: job.name().into_owned(),
        user: job.submission.user,
        state: job.state,
        standing: job.standing(),
        code: job.exit_code(),
        outcome: job.outcome.as_deref().cloned(),
        why: why(queue, job),
        urgency: job.urgency,
        held: job.held,
        priority: job.priority,
        queue: queue.lane_name(job).to_owned(),
        tasks: request.tasks,
        nodes: if ranks.is_empty() { least } else { ranks.len() as u32 },
        cores_per_task: request.cores_per_task,
        gpus_per_task: request.gpus_per_task,
        memory_per_node: request.memory_per_node,
        exclusive: request.exclusive,
        time_limit: job.time_limit,
        submitted: job.submitted,
        begin: spec.begin,
        forecast: forecast.map(|forecast| forecast.start).filter(|start| *start != Time::NEVER),
        allocated: job.allocated,
        started: job.started,
        ended: job.ended,
        pods: ranks.iter().map(|rank| config.display_name(rank)).collect(),
        ranks: if ranks.is_empty() { String::new() } else { ranks.to_string() },
        array: job.submission.element,
        requeues: job.requeues,
        dependencies: spec.dependencies.clone(),
        command: match &spec.program {
            Program::Command(words) => {
                words.iter().map(|word| job.filled(word).into_owned()).collect()
            }
            Program::Script { args, .. } => {
                std::iter::once(spec.name.clone()).chain(args.iter().cloned()).collect()
            }
            Program::Instance => Vec::new(),
        },
        directory: spec.directory.clone(),
        streams: Streams {
            input: filled(&spec.streams.input),
            output: filled(&spec.streams.output),
            error: filled(&spec.streams.error),
            ..spec.streams.clone()
        },
        labels: spec.labels.clone(),
        steps: steps::of_ended(job),
    }
}

/// Why a job waits, or why it ended as it did.
fn why(queue: &Queue, job: &Job) -> String {
    match job.state {
        State::Depend => waits_for(queue, job),
        State::Priority => "held".to_owned(),
        State::Sched => {
            let lane = queue.lanes().find(|lane| lane.name == queue.lane_name(job));
            match lane {
                Some(lane) if !lane.started => {
                    let reason = &lane.reason;
                    let colon = if reason.is_empty() { "" } else { ": " };
                    format!("queue {} is stopped{colon}{reason}", lane.name)
                }
                _ if queue.forecasts().iter().any(|forecast| forecast.job == job.id) => {
                    "waits for nodes, is the next".to_owned()
                }
                _ => "waits for nodes".to_owned(),
            }
        }
        State::Run | State::Cleanup => String::new(),
        State::Inactive => match (job.standing(), &job.cause, &job.outcome) {
            (Some(Standing::Completed), ..) => String::new(),
            (Some(Standing::TimedOut), ..) => "its time limit was reached".to_owned(),
            (_, Some(cause), _) if !cause.note.is_empty() => cause.note.clone().into(),
            (_, Some(cause), _) => cause.kind.clone().into(),
            (_, None, Some(outcome)) => outcome.message.clone(),
            (_, None, None) => String::new(),
        },
    }
}

fn waits_for(queue: &Queue, job: &Job) -> String {
    let spec = job.spec();
    let open: Vec<String> = spec
        .dependencies
        .iter()
        .filter(|dependency| {
            queue.job(dependency.job).is_some_and(|other| other.state != State::Inactive)
        })
        .map(|dependency| {
            let on = match dependency.on {
                Condition::AfterStart => "the start",
                Condition::AfterAny => "the end",
                Condition::AfterOk => "the success",
                Condition::AfterNotOk => "the failure",
            };
            format!("{on} of job {}", dependency.job)
        })
        .collect();
    if !open.is_empty() {
        format!("waits for {}", open.join(", "))
    } else if spec.singleton {
        format!("waits for the end of other jobs named {}", job.name())
    } else {
        "waits for its time".to_owned()
    }
}

/// All brokers, by rank.
pub(super) fn nodes(queue: &Queue, config: &AgentConfig) -> Vec<NodeFacts> {
    let pool = queue.pool();
    let mut facts: Vec<NodeFacts> = pool
        .nodes()
        .map(|(offer, free)| {
            let drained = pool.drains().find(|(rank, _)| *rank == offer.rank);
            NodeFacts {
                rank: offer.rank,
                pod: config.display_name(offer.rank),
                host: offer.host.clone(),
                up: pool.state(offer.rank) != Some(NodeState::Down),
                drained: drained.map(|(_, reason)| reason.to_owned()),
                cores: offer.cores.len() as u32,
                free_cores: free.cores.len() as u32,
                gpus: offer.gpus.len() as u32,
                free_gpus: free.gpus.len() as u32,
                memory: offer.memory,
                free_memory: free.memory,
                properties: offer.properties.clone(),
                jobs: Vec::new(),
            }
        })
        .collect();
    for job in queue.running() {
        for part in job.allocation.iter().flat_map(|allocation| &allocation.parts) {
            if let Ok(at) = facts.binary_search_by_key(&part.rank, |node| node.rank) {
                facts[at].jobs.push(job.id);
            }
        }
    }
    facts
}

/// All queues, by name.
pub(super) fn lanes(queue: &Queue) -> Vec<LaneFacts> {
    let counts = queue.lane_counts();
    let facts = |lane: &Lane| {
        let jobs = counts.get(lane.name.as_str()).map(|counts| counts.jobs).unwrap_or_default();
        LaneFacts {
            default: lane.name == queue.first_lane(),
            lane: lane.clone(),
            pending: jobs.pending as u64,
            running: jobs.running as u64,
            completed: jobs.completed as u64,
            failed: jobs.failed as u64,
        }
    };
    queue.lanes().map(facts).collect()
}
