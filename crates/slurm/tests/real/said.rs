//! The command lines that are compared, and the facts in what the real Slurm's scontrol and sacct say.

use quorate_slurm::calendar::Clock;
use quorate_slurm::facts::{
    ArrayFacts, ArrayTasks, Cluster, JobFacts, JobState, Memory, NodeBase, NodeFacts, NodeFlag,
    PartitionFacts, StepFacts,
};
use quorate_slurm::value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The commands: a name, and the words of the command line.
pub(crate) fn commands() -> Vec<(String, Vec<String>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/commands.txt");
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut words = line.split(' ').map(str::to_owned);
            (words.next().unwrap(), words.collect())
        })
        .collect()
}

/// Blocks of `Key=Value`, of which some values are the rest of their line.
fn blocks(text: &str) -> Vec<BTreeMap<String, String>> {
    const WHOLE: &[&str] =
        &["Command", "WorkDir", "Comment", "StdErr", "StdIn", "StdOut", "OS", "Reason", "JobName"];
    text.split("\n\n")
        .filter(|block| !block.trim().is_empty())
        .map(|block| {
            let mut read = BTreeMap::new();
            for line in block.lines() {
                let line = line.trim_start();
                let first = line.split('=').next().unwrap();
                if WHOLE.contains(&first) {
                    let value = &line[first.len() + 1..];
                    read.insert(first.to_owned(), value.trim_end().to_owned());
                    continue;
                }
                for word in line.split(' ').filter(|word| !word.is_empty()) {
                    let (key, value) = word.split_once('=').unwrap_or((word, ""));
                    read.insert(key.to_owned(), value.to_owned());
                }
            }
            read
        })
        .collect()
}

type Block = BTreeMap<String, String>;

fn date(text: &str) -> Option<i64> {
    let time = value::begin(text, Clock::default()).ok()?;
    i64::try_from(time.0 / 1000).ok()
}

fn optional(text: &str) -> Option<String> {
    (text != "(null)").then(|| text.to_owned())
}

fn id(text: &str) -> (String, u32) {
    let (name, number) = text.split_once('(').unwrap();
    (name.to_owned(), number.trim_end_matches(')').parse().unwrap())
}

fn pair<T: std::str::FromStr>(text: &str, by: char) -> (T, T) {
    let (a, b) = text.split_once(by).unwrap();
    (a.parse().ok().unwrap(), b.parse().ok().unwrap())
}

fn megabytes(text: &str) -> u64 {
    value::memory(text).unwrap() >> 20
}

/// The facts in what scontrol and sacct say; `host` is the controller's.
pub(crate) fn cluster(output: &BTreeMap<String, String>, host: &str) -> Cluster {
    let mut jobs: Vec<JobFacts> = blocks(&output["jobs"]).iter().map(job).collect();
    let (mut steps, mut cancelled) = (Vec::new(), BTreeMap::new());
    for line in output["accounted"].lines() {
        let cells: Vec<&str> = line.split('|').collect();
        if let Some((job, step)) = cells[0].split_once('.') {
            steps.push(accounted(job, step, &cells));
        } else if let Some(user) = cells[2].strip_prefix("CANCELLED by ") {
            cancelled.insert(cells[0].parse::<u64>().unwrap(), user.parse::<u32>().unwrap());
        }
    }
    // Without a database scontrol alone knows of steps, and of those that run.
    if steps.is_empty() {
        steps = blocks(&output["steps"]).iter().map(|block| shown(block, &jobs)).collect();
        // It leaves out those of arrays: what is sure of them is the script.
        let scripts =
            jobs.iter().filter(|job| job.array.is_some() && job.state == JobState::Running);
        steps.extend(scripts.map(script));
    }
    for job in &mut jobs {
        // sacct leaves out a job that was never eligible, unless it is asked for its state.
        let root = (job.state == JobState::Cancelled).then_some(0);
        job.cancelled_by = cancelled.get(&job.id).copied().or(root);
    }
    Cluster {
        name: "lab".into(),
        host: host.to_owned(),
        jobs,
        steps,
        nodes: blocks(&output["nodes"]).iter().map(node).collect(),
        partitions: blocks(&output["partitions"]).iter().map(partition).collect(),
    }
}

/// The step of a script that runs on one node.
fn script(job: &JobFacts) -> StepFacts {
    StepFacts {
        job: job.id,
        step: "batch".into(),
        name: "batch".into(),
        state: JobState::Running,
        exit: (0, 0),
        start: job.start.unwrap(),
        end: None,
        nodes: job.batch_host.clone().unwrap(),
        node_count: 1,
        cpus: job.cpus,
        tasks: 1,
    }
}

/// A step as `scontrol show step` has it.
fn shown(block: &Block, jobs: &[JobFacts]) -> StepFacts {
    let get = |key: &str| block.get(key).map_or("", String::as_str);
    let number = |key: &str| get(key).parse().unwrap();
    let (job, step) = get("StepId").split_once('.').unwrap();
    StepFacts {
        job: jobs.iter().find(|each| each.shown_id() == job).unwrap().id,
        step: step.to_owned(),
        name: get("Name").to_owned(),
        state: JobState::read(get("State")).unwrap(),
        exit: (0, 0),
        start: date(get("StartTime")).unwrap(),
        end: None,
        nodes: get("NodeList").to_owned(),
        node_count: number("Nodes"),
        cpus: number("CPUs"),
        tasks: number("Tasks"),
    }
}

fn accounted(job: &str, step: &str, cells: &[&str]) -> StepFacts {
    StepFacts {
        job: job.parse().unwrap(),
        step: step.to_owned(),
        name: cells[1].to_owned(),
        state: JobState::read(cells[2].split(' ').next().unwrap()).unwrap(),
        // A step that nobody heard of again has none.
        exit: if cells[3].is_empty() { (0, 0) } else { pair(cells[3], ':') },
        start: date(cells[4]).unwrap(),
        end: date(cells[5]),
        nodes: cells[6].to_owned(),
        node_count: cells[7].parse().unwrap(),
        cpus: cells[8].parse().unwrap(),
        tasks: cells[9].parse().unwrap(),
    }
}

fn job(block: &Block) -> JobFacts {
    let get = |key: &str| block.get(key).map_or("", String::as_str);
    let number = |key: &str| get(key).parse().unwrap();
    let head = get("JobId");
    let first = head.split(' ').next().unwrap();
    let id_of = first.parse().unwrap();
    let array = block.get("ArrayJobId").map(|array| {
        let tasks = get("ArrayTaskId");
        let read = value::array(tasks).unwrap();
        ArrayFacts {
            job: array.parse().unwrap(),
            tasks: match tasks.parse() {
                Ok(index) => ArrayTasks::One(index),
                Err(_) => ArrayTasks::Waiting(read.indices),
            },
            limit: block.get("ArrayTaskThrottle").map(|limit| limit.parse().unwrap()),
        }
    });
    let ((user, uid), (group, gid)) = (id(get("UserId")), id(get("GroupId")));
    let state = JobState::read(get("JobState")).unwrap();
    let memory = match block.get("MinMemoryNode") {
        Some(each) => Memory::Node(megabytes(each)),
        None => Memory::Cpu(megabytes(get("MinMemoryCPU"))),
    };
    let node_count = match get("NumNodes").split_once('-') {
        Some((fewest, most)) => (fewest.parse().unwrap(), most.parse().unwrap()),
        None => (number("NumNodes"), 0),
    };
    let (from, session) = get("AllocNode:Sid").split_once(':').unwrap();
    let (per_node, _) = get("NtasksPerN:B:S:C").split_once(':').unwrap();
    JobFacts {
        id: id_of,
        array,
        name: get("JobName").to_owned(),
        user,
        uid,
        group,
        gid,
        priority: number("Priority"),
        nice: get("Nice").parse().unwrap(),
        account: optional(get("Account")),
        qos: optional(get("QOS")),
        state,
        reason: if get("Reason").starts_with("Nodes_") {
            get("Reason").replace('_', " ")
        } else {
            get("Reason").to_owned()
        },
        dependency: optional(get("Dependency")),
        requeue: get("Requeue") == "1",
        restarts: number("Restarts"),
        batch: get("BatchFlag") == "1",
        exit: pair(get("ExitCode"), ':'),
        cancelled_by: None,
        limit: value::time_limit(get("TimeLimit")).unwrap(),
        submit: date(get("SubmitTime")).unwrap(),
        eligible: date(get("EligibleTime")),
        accrue: date(get("AccrueTime")),
        start: date(get("StartTime")),
        end: date(get("EndTime")),
        looked_at: date(get("LastSchedEval")).map(|at| (at, get("Scheduler").to_owned())),
        partition: get("Partition").to_owned(),
        from: (from.to_owned(), session.parse().unwrap()),
        wanted_nodes: optional(get("ReqNodeList")).unwrap_or_default(),
        excluded_nodes: optional(get("ExcNodeList")).unwrap_or_default(),
        nodes: get("NodeList").to_owned(),
        planned_nodes: block.get("SchedNodeList").cloned(),
        batch_host: block.get("BatchHost").cloned(),
        node_count,
        cpus: number("NumCPUs"),
        tasks: get("NumTasks").parse().ok(),
        cpus_per_task: number("CPUs/Task"),
        tasks_per_node: per_node.parse().unwrap(),
        min_cpus: number("MinCPUsNode"),
        memory,
        gpus: 0,
        gres: None,
        features: optional(get("Features")),
        exclusive: get("OverSubscribe") == "NO",
        command: optional(get("Command")),
        directory: get("WorkDir").to_owned(),
        comment: block.get("Comment").cloned(),
        files: block
            .get("StdErr")
            .map(|error| [error.clone(), get("StdIn").to_owned(), get("StdOut").to_owned()]),
        submit_line: String::new(),
    }
}

fn node(block: &Block) -> NodeFacts {
    let get = |key: &str| block.get(key).map_or("", String::as_str);
    let number = |key: &str| get(key).parse().unwrap();
    let states: Vec<&str> = get("State").split('+').collect();
    let flag = |word: &&str| {
        [NodeFlag::Drain, NodeFlag::NotResponding, NodeFlag::Planned]
            .into_iter()
            .find(|flag| flag.word() == *word)
    };
    let base =
        [NodeBase::Unknown, NodeBase::Down, NodeBase::Idle, NodeBase::Allocated, NodeBase::Mixed]
            .into_iter()
            .find(|base| base.word() == states[0]);
    let words = ["Arch", "OS", "Port", "Version"];
    NodeFacts {
        name: get("NodeName").to_owned(),
        host: get("NodeHostName").to_owned(),
        address: get("NodeAddr").to_owned(),
        cpus: number("CPUTot"),
        used_cpus: number("CPUAlloc"),
        memory: number("RealMemory").into(),
        used_memory: number("AllocMem").into(),
        free_memory: get("FreeMem").parse().ok(),
        load: get("CPULoad").replace('.', "").parse().ok(),
        gpus: 0,
        used_gpus: 0,
        features: optional(get("AvailableFeatures"))
            .map(|list| list.split(',').map(str::to_owned).collect())
            .unwrap_or_default(),
        base: base.unwrap(),
        flags: states[1..].iter().filter_map(flag).collect(),
        reason: block.get("Reason").map(|text| {
            let (reason, rest) = text.rsplit_once(" [").unwrap();
            let (user, when) = rest.trim_end_matches(']').split_once('@').unwrap();
            (reason.to_owned(), user.to_owned(), date(when).unwrap())
        }),
        partitions: get("Partitions").split(',').map(str::to_owned).collect(),
        shape: (number("Sockets"), number("CoresPerSocket"), number("ThreadsPerCore")),
        boot: date(get("BootTime")),
        started: date(get("SlurmdStartTime")),
        last_busy: date(get("LastBusyTime")),
        words: words
            .iter()
            .filter_map(|word| Some(((*word).to_owned(), block.get(*word)?.clone())))
            .collect(),
    }
}

fn partition(block: &Block) -> PartitionFacts {
    let get = |key: &str| block.get(key).map_or("", String::as_str);
    PartitionFacts {
        name: get("PartitionName").to_owned(),
        default: get("Default") == "YES",
        state: if get("State") == "UP" { "UP" } else { "DOWN" },
        limit: value::time_limit(get("MaxTime")).unwrap(),
        default_limit: value::time_limit(get("DefaultTime")).ok().flatten(),
        max_nodes: get("MaxNodes").parse().ok(),
    }
}
