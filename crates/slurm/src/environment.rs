//! The variables that batch scripts, tasks of srun and shells of salloc find.

/// Variables of one job that no prefix tells.
const OWN: &[&str] = &[
    "GTIDS",
    "LOCALID",
    "NODEID",
    "PROCID",
    "RESTART_COUNT",
    "STEPID",
    "TASK_PID",
    "TASKS_PER_NODE",
    "CPUS_ON_NODE",
    "GPUS_ON_NODE",
    "LAUNCH_NODE_IPADDR",
];

/// Whether a variable says something of one job, so that another must not inherit it.
pub fn of_a_job(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("SLURM_") else {
        return matches!(name, "SLURMD_NODENAME" | "ENVIRONMENT");
    };
    OWN.contains(&rest)
        || ["ARRAY_", "STEP_", "JOB_", "SRUN_", "TOPOLOGY_"]
            .iter()
            .any(|start| rest.starts_with(start))
}
