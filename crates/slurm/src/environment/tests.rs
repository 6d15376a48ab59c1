use super::*;
use quorate_hostlist::IdSet;

/// Variables that are Slurm's own plumbing, or are there only since srun or the submitter had said so.
const LEFT_OUT: &[&str] = &[
    "SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0",
    "SLURM_LABELIO",
    "SLURM_MPI_TYPE",
    "SLURM_SRUN_COMM_PORT",
    "SLURM_STEP_LAUNCHER_PORT",
    "SLURM_UMASK",
    "SLURM_WORKING_CLUSTER",
];
/// In the job's environment from its submit on.
const SUBMITTED: &[&str] = &[
    "SLURM_CPUS_PER_TASK",
    "SLURM_MEM_PER_NODE",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_SUBMIT_DIR",
    "SLURM_SUBMIT_HOST",
];

fn share(node: &str, tasks: u32) -> Share {
    Share { node: node.into(), tasks, cpus: tasks, gpus: Vec::new() }
}

fn placed() -> Placed {
    let indices = "4,6,8".parse::<IdSet>().unwrap();
    Placed {
        job: 27,
        name: "envs".into(),
        cluster: "lab".into(),
        partition: "batch".into(),
        account: Some("root".into()),
        qos: Some("normal".into()),
        user: ("root".into(), 0),
        gid: 0,
        shares: vec![share("worker-0-0", 2), share("worker-0-2", 1)],
        array: Some(ArrayPlace::among(26, 4, &indices)),
        start: 1_795_888_000,
        end: None,
        restarts: 0,
    }
}

/// Whatever the real Slurm said is said with the same words.
fn holds_all(ours: &Variables, theirs: &str) {
    let mut compared = 0;
    for line in theirs.lines() {
        let (name, value) = line.split_once('=').unwrap();
        if LEFT_OUT.contains(&name) || SUBMITTED.contains(&name) && !ours.contains_key(name) {
            continue;
        }
        assert_eq!(ours.get(name).map(String::as_str), Some(value), "{name}");
        compared += 1;
    }
    assert!(compared >= 12, "{compared}");
}

#[test]
fn a_batch_script_finds_what_it_finds_in_the_real_slurm() {
    let theirs = include_str!("../../tests/fixtures/real/environment-batch.txt");
    let process = theirs.split("SLURM_TASK_PID=").nth(1).unwrap().lines().next().unwrap();
    holds_all(&batch(&placed(), process.parse().unwrap()), theirs);
}

#[test]
fn a_task_finds_what_it_finds_in_the_real_slurm() {
    let theirs = include_str!("../../tests/fixtures/real/environment-task.txt");
    let process = theirs.split("SLURM_TASK_PID=").nth(1).unwrap().lines().next().unwrap();
    let stepped = Stepped {
        step: 0,
        shares: placed().shares,
        distribution: "block".into(),
        launcher: "127.0.0.1".into(),
    };
    let process = process.parse().unwrap();
    let rank = Task { rank: 1, local: 1, node: 0, beside: &[0, 1], process };
    holds_all(&task(&placed(), &stepped, &rank), theirs);
}

#[test]
fn a_shell_finds_what_it_finds_in_the_real_slurm() {
    let theirs = include_str!("../../tests/fixtures/real/environment-shell.txt");
    let placed = Placed {
        job: 29,
        name: "al".into(),
        shares: vec![share("worker-0-0", 2), share("worker-0-1", 1)],
        array: None,
        ..placed()
    };
    holds_all(&shell(&placed), theirs);
}

/// What Lightning's and JAX's detection of Slurm read: `SLURM_NTASKS` and a job name other than
/// `bash` there, `SLURM_JOB_ID`, `SLURM_STEP_NODELIST` and ranks here.
#[test]
fn frameworks_find_their_ranks() {
    let stepped = Stepped { shares: placed().shares, ..Stepped::default() };
    let rank = Task { rank: 2, local: 0, node: 1, beside: &[2], process: 7 };
    let found = task(&placed(), &stepped, &rank);
    for (name, value) in [
        ("SLURM_NTASKS", "3"),
        ("SLURM_PROCID", "2"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_NODEID", "1"),
        ("SLURM_JOB_ID", "27"),
        ("SLURM_STEP_NODELIST", "worker-0-[0,2]"),
        ("SLURM_STEP_NUM_NODES", "2"),
        ("SLURM_STEP_NUM_TASKS", "3"),
        ("SLURM_JOB_NODELIST", "worker-0-[0,2]"),
        ("SLURM_TASKS_PER_NODE", "2,1"),
        ("SLURMD_NODENAME", "worker-0-2"),
    ] {
        assert_eq!(found.get(name).map(String::as_str), Some(value), "{name}");
    }
}

#[test]
fn counts_are_told_with_their_repeats() {
    assert_eq!(counts([2, 2, 2, 1]), "2(x3),1");
    assert_eq!(counts([1, 2, 1]), "1,2,1");
    assert_eq!(counts([]), "");
}

#[test]
fn accelerators_are_named_by_number() {
    let mut placed = placed();
    placed.shares[0].gpus = vec![0, 3];
    let found = batch(&placed, 1);
    assert_eq!(found["SLURM_JOB_GPUS"], "0,3");
    assert_eq!(found["SLURM_GPUS_ON_NODE"], "2");
}

#[test]
fn every_variable_of_a_job_is_kept_from_others() {
    let stepped = Stepped { shares: placed().shares, ..Stepped::default() };
    let rank = Task { beside: &[0], ..Task::default() };
    let all = task(&placed(), &stepped, &rank);
    let harmless =
        ["SLURM_CLUSTER_NAME", "SLURM_DISTRIBUTION", "SLURM_NODE_ALIASES", "SLURM_PRIO_PROCESS"];
    for name in all.keys().filter(|name| !harmless.contains(&name.as_str())) {
        let size = ["SLURM_NNODES", "SLURM_NODELIST", "SLURM_NTASKS", "SLURM_NPROCS"]
            .contains(&name.as_str());
        assert!(of_a_job(name) || size, "{name}");
    }
}
