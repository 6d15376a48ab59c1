//! The variables of Slurm that a job of one of Slurm's names finds. Pure.

use quorate_contract::{AgentConfig, env as names};
use quorate_queue::{ArraySpan, Job, Part, Program};
use quorate_slurm::environment::{self, ArrayPlace, Placed, Share, Stepped, Task, Variables};
use quorate_slurm::options::{ACCOUNT, QOS};

/// What a task alone knows; each pod sets these ([`crate::launch::environment::task`]).
const OF_A_TASK: [&str; 5] =
    ["SLURM_GTIDS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_PROCID", "SLURM_TASK_PID"];

/// Keeps launchers of MPI from starting their daemons by Slurm, whose variables they see, although
/// host files and the remote shell are there for them (mpirun(1), prterun(1)).
const LAUNCHERS: [(&str, &str); 4] = [
    ("OMPI_MCA_plm", "rsh"),
    ("OMPI_MCA_ras", "^slurm"),
    ("PRTE_MCA_plm", "ssh"),
    ("PRTE_MCA_ras", "^slurm"),
];

/// The variables of a job that was submitted by one of Slurm's names; none of another.
pub(in crate::queue) fn variables(job: &Job, config: &AgentConfig, partition: &str) -> Variables {
    let spec = job.spec();
    if !spec.environment.contains_key(names::SLURM) {
        return Variables::new();
    }
    let (placed, outer) = placed(job, config, partition);
    let shares = placed.shares.clone();
    if matches!(spec.program, Program::Command(_)) {
        let stepped = Stepped {
            step: if outer.is_some() { u32::try_from(job.id.0 - 1).unwrap_or(0) } else { 0 },
            shares,
            distribution: spec
                .options
                .get("distribution")
                .cloned()
                .unwrap_or_else(|| "block".into()),
            launcher: config.host_name(0).unwrap_or_default(),
        };
        let mut all = environment::task(&placed, &stepped, &Task::default());
        let told = |name: &str| outer.is_some() && spec.environment.contains_key(name);
        all.retain(|name, _| {
            let of_a_task = OF_A_TASK.contains(&name.as_str());
            !(of_a_task || environment::of_the_whole_job(name) && told(name))
        });
        return all;
    }
    let mut all = environment::batch(&placed, 0);
    all.remove("SLURM_TASK_PID");
    for (name, value) in LAUNCHERS {
        all.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    all
}

/// What a command finds that runs beside an allocation, as salloc's does: what is known of the job.
pub(in crate::queue) fn of_an_allocation(
    job: &Job,
    config: &AgentConfig,
    first_lane: &str,
) -> Variables {
    let partition = job.spec().queue.as_deref().unwrap_or(first_lane);
    let mut all = environment::shell(&placed(job, config, partition).0);
    for (name, value) in LAUNCHERS {
        all.insert(name.to_owned(), value.to_owned());
    }
    all
}

/// The job as Slurm's variables tell of it, and the number of the script's job that it is a step of.
fn placed(job: &Job, config: &AgentConfig, partition: &str) -> (Placed, Option<u64>) {
    let spec = job.spec();
    let parts = job.allocation.iter().flat_map(|allocation| &allocation.parts);
    let shares: Vec<Share> = parts.map(|part| share(part, config)).collect();
    // Within a script the job is the script's, and this is a step of it.
    let outer = spec.environment.get("SLURM_JOB_ID").and_then(|id| id.parse().ok());
    let seconds = |time: quorate_queue::Time| i64::try_from(time.0 / 1000).unwrap_or(i64::MAX);
    let start = job.allocated.map(seconds).unwrap_or_default();
    let limit = job.time_limit.and_then(|limit| i64::try_from(limit).ok());
    let label = |name: &str| spec.labels.get(name).cloned();
    let user = spec.environment.get("USER").cloned();
    let uid = job.submission.user;
    let placed = Placed {
        job: outer.unwrap_or(job.id.0),
        name: job.name().into_owned(),
        cluster: config.cluster.name.clone(),
        partition: partition.to_owned(),
        account: label(ACCOUNT),
        qos: label(QOS),
        user: (user.unwrap_or_else(|| uid.to_string()), uid),
        gid: uid,
        shares,
        array: job.submission.element.and_then(|element| {
            let ArraySpan { count, least, most, step } = element.span?;
            let (job, index) = (element.array.0, element.index);
            Some(ArrayPlace { job, index, count, least, most, step })
        }),
        start,
        end: limit.map(|limit| start.saturating_add(limit)),
        restarts: job.requeues,
    };
    (placed, outer)
}

fn share(part: &Part, config: &AgentConfig) -> Share {
    Share {
        node: config.host_name(part.rank).unwrap_or_default(),
        tasks: part.tasks,
        cpus: u32::try_from(part.cores.len()).unwrap_or(u32::MAX),
        gpus: part.gpus.iter().collect(),
    }
}
