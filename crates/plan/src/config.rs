//! The agent's configuration.

use quorate_api::ValidatedMiniCluster;
use quorate_api::minicluster::{Flavor, MpiStart};
use quorate_api::validate::{ValidatedJob, ValidatedNamedQueue, ValidatedProgram};
use quorate_contract::config::{
    self as contract, AgentConfig, Bootstrap, Cluster, Group, MpiFlavor, NamedQueue, Parallel,
    Program, Queue, Slots, VERSION,
};
use quorate_contract::paths::STATE_DIR;

/// Stands for the UID of an object that nobody has stored or named yet.
const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

pub(crate) fn agent_config(cluster: &ValidatedMiniCluster, domain: Option<&str>) -> AgentConfig {
    AgentConfig {
        version: VERSION,
        cluster: Cluster {
            name: cluster.name.to_string(),
            namespace: cluster.namespace.clone(),
            uid: cluster.uid.clone().unwrap_or_else(|| NO_UID.to_owned()),
            subdomain: cluster.subdomain.clone(),
            domain: domain.map(str::to_owned),
        },
        size: cluster.size,
        min_size: cluster.min_size,
        max_size: cluster.max_size,
        groups: cluster
            .groups
            .iter()
            .map(|group| Group {
                name: group.name.to_string(),
                first_rank: group.first_rank,
                count: group.max_size,
                pods_per_job: (group.jobs > 1).then(|| group.pods_per_job()),
                slots: group.slots.map_or(Slots::Auto, Slots::Fixed),
            })
            .collect(),
        bootstrap: Bootstrap {
            fanout: cluster.fanout,
            port: cluster.port,
            port_per_rank: cluster.port_per_rank(),
            timeout_seconds: cluster.timeout_seconds,
            orphan_timeout_seconds: cluster.orphan_timeout_seconds,
        },
        program: program(&cluster.program),
        queue: queue(cluster),
        mpi: match cluster.flavor {
            Flavor::Auto => MpiFlavor::Auto,
            Flavor::OpenMPI => MpiFlavor::OpenMPI,
            Flavor::MPICH => MpiFlavor::MPICH,
            Flavor::Intel => MpiFlavor::Intel,
        },
        names: Vec::new(),
    }
}

fn queue(cluster: &ValidatedMiniCluster) -> Queue {
    let queue = &cluster.queue;
    Queue {
        state_dir: queue.state_volume.as_ref().map(|_| format!("{STATE_DIR}/{}", cluster.name)),
        fifo: queue.fifo,
        idle_timeout_seconds: queue.idle_timeout_seconds,
        inside_only: false,
        queues: queue.queues.iter().map(named_queue).collect(),
    }
}

fn named_queue(queue: &ValidatedNamedQueue) -> NamedQueue {
    NamedQueue {
        name: queue.name.clone(),
        groups: queue.groups.clone(),
        max_nodes: queue.nodes,
        max_tasks: queue.tasks,
        max_cores: queue.cores,
        max_gpus: queue.gpus,
        max_time_seconds: queue.time,
        default_time_seconds: queue.default_time,
    }
}

/// A program as agents read it.
pub fn program(program: &ValidatedProgram) -> Program {
    match program {
        ValidatedProgram::None => Program::None,
        ValidatedProgram::Command { argv } => Program::Command { argv: argv.clone() },
        ValidatedProgram::Script { text } => Program::Script { text: text.clone() },
        ValidatedProgram::Jobs(jobs) => Program::Jobs { jobs: jobs.iter().map(job).collect() },
        ValidatedProgram::Parallel(parallel) => Program::Parallel(Parallel {
            argv: parallel.argv.clone(),
            tasks: parallel.tasks,
            tasks_per_node: parallel.tasks_per_node,
            cpus_per_task: parallel.cpus_per_task,
            oversubscribe: parallel.oversubscribe,
            label_io: parallel.label_io,
            env: parallel.env.clone(),
            working_dir: parallel.working_dir.clone(),
            mpi: match parallel.mpi {
                MpiStart::Auto => contract::MpiStart::Auto,
                MpiStart::Pmi1 => contract::MpiStart::Pmi1,
                MpiStart::Pmi2 => contract::MpiStart::Pmi2,
                MpiStart::Pmix => contract::MpiStart::Pmix,
                MpiStart::None => contract::MpiStart::None,
            },
        }),
    }
}

fn job(job: &ValidatedJob) -> contract::Job {
    contract::Job {
        name: job.name.clone(),
        argv: job.argv.clone(),
        tasks: job.tasks,
        nodes: job.nodes,
        tasks_per_node: job.tasks_per_node,
        cpus_per_task: job.cpus_per_task,
        gpus_per_task: job.gpus_per_task,
        time_limit_seconds: job.time_limit_seconds,
        env: job.env.clone(),
        working_dir: job.working_dir.clone(),
        after: job.after.clone(),
    }
}
