//! The texts of `scontrol show`: lines of `Key=Value`, in Slurm's order.

use crate::facts::{
    JobFacts, JobState, Memory, NodeBase, NodeFacts, PartitionFacts, View, megabytes,
};
use crate::value::limit_text;
use quorate_hostlist::HostList;

/// Lines joined as Slurm does, with or without line ends.
fn joined(lines: &[String], one_line: bool) -> String {
    if one_line { lines.join(" ") } else { lines.join("\n   ") }
}

fn null(text: Option<&String>) -> &str {
    text.map_or("(null)", String::as_str)
}

fn or_null(text: &str) -> &str {
    if text.is_empty() { "(null)" } else { text }
}

fn limit(seconds: Option<u64>) -> String {
    seconds.map_or_else(|| "UNLIMITED".to_owned(), limit_text)
}

/// One job.
pub(super) fn job(job: &JobFacts, one_line: bool, view: &View<'_>) -> String {
    let date = |moment: Option<i64>| match moment {
        Some(moment) => view.clock.local(moment).to_string(),
        None => "Unknown".to_owned(),
    };
    let mut head = format!("JobId={}", job.id);
    if let Some(array) = &job.array {
        head += &format!(" ArrayJobId={} ArrayTaskId={}", array.job, array.shown(false));
        if let Some(limit) = array.limit {
            head += &format!(" ArrayTaskThrottle={limit}");
        }
    }
    head += &format!(" JobName={}", job.name);
    let nodes = match job.node_count {
        (fewest, 0) => fewest.to_string(),
        (fewest, most) => format!("{fewest}-{most}"),
    };
    let (looked_at, scheduler) = match &job.looked_at {
        Some((moment, scheduler)) => (date(Some(*moment)), scheduler.as_str()),
        None => ("Unknown".to_owned(), "Main"),
    };
    let planned = job.planned_nodes.as_ref().map(|nodes| format!(" SchedNodeList={nodes}"));
    let memory = match job.memory {
        Memory::Node(0) => "MinMemoryNode=0".to_owned(),
        Memory::Node(each) => format!("MinMemoryNode={}", megabytes(each)),
        Memory::Cpu(each) => format!("MinMemoryCPU={}", megabytes(each)),
    };
    let tasks = job.tasks.map_or_else(|| "N/A".to_owned(), |tasks| tasks.to_string());
    let mut lines = vec![
        head,
        format!(
            "UserId={}({}) GroupId={}({}) MCS_label=N/A",
            job.user, job.uid, job.group, job.gid
        ),
        format!(
            "Priority={} Nice={} Account={} QOS={}",
            job.priority,
            job.nice,
            null(job.account.as_ref()),
            null(job.qos.as_ref())
        ),
        format!(
            "JobState={} Reason={} Dependency={}",
            job.state.word(),
            job.reason.replace(' ', "_"),
            null(job.dependency.as_ref())
        ),
        format!(
            "Requeue={} Restarts={} BatchFlag={} Reboot=0 ExitCode={}:{}",
            u8::from(job.requeue),
            job.restarts,
            u8::from(job.batch),
            job.exit.0,
            job.exit.1
        ),
        format!(
            "RunTime={} TimeLimit={} TimeMin=N/A",
            limit_text(job.elapsed(view.clock.now)),
            limit(job.limit)
        ),
        format!("SubmitTime={} EligibleTime={}", date(Some(job.submit)), date(job.eligible)),
        format!("AccrueTime={}", date(job.accrue)),
        format!("StartTime={} EndTime={} Deadline=N/A", date(job.start), date(job.end)),
        format!(
            "SuspendTime=None SecsPreSuspend=0 LastSchedEval={looked_at} Scheduler={scheduler}"
        ),
        format!("Partition={} AllocNode:Sid={}:{}", job.partition, job.from.0, job.from.1),
        format!(
            "ReqNodeList={} ExcNodeList={}",
            or_null(job.wanted_nodes.as_ref()),
            or_null(job.excluded_nodes.as_ref())
        ),
        format!("NodeList={}{}", job.nodes, planned.unwrap_or_default()),
    ];
    if let Some(host) = &job.batch_host {
        lines.push(format!("BatchHost={host}"));
    }
    lines.extend([
        format!(
            "NumNodes={nodes} NumCPUs={} NumTasks={tasks} CPUs/Task={} ReqB:S:C:T=0:0:*:*",
            job.cpus, job.cpus_per_task
        ),
        format!("TRES={}", job.tres()),
        format!("Socks/Node=* NtasksPerN:B:S:C={}:0:*:* CoreSpec=*", job.tasks_per_node),
        format!("MinCPUsNode={} {memory} MinTmpDiskNode=0", job.min_cpus),
        format!("Features={} DelayBoot=00:00:00", null(job.features.as_ref())),
        format!(
            "OverSubscribe={} Contiguous=0 Licenses=(null) Network=(null)",
            if job.exclusive { "NO" } else { "OK" }
        ),
        format!("Command={}", null(job.command.as_ref())),
        format!("WorkDir={}", job.directory),
    ]);
    if let Some(comment) = &job.comment {
        lines.push(format!("Comment={comment} "));
    }
    if let Some([error, input, output]) = &job.files {
        lines.push(format!("StdErr={error}"));
        lines.push(format!("StdIn={input}"));
        lines.push(format!("StdOut={output}"));
    }
    lines.push("Power=".to_owned());
    if let Some(gres) = &job.gres {
        lines.push(format!("TresPerNode={gres}"));
    }
    lines.push(String::new());
    joined(&lines, one_line) + if one_line { "\n" } else { "\n\n" }
}

/// One node.
pub(super) fn node(node: &NodeFacts, one_line: bool, view: &View<'_>) -> String {
    let (sockets, cores, threads) = node.shape;
    let word = |key: &str| node.words.get(key).map(String::as_str);
    let date = |moment: Option<i64>| match moment {
        Some(moment) => view.clock.local(moment).to_string(),
        None => "None".to_owned(),
    };
    let load = node
        .load
        .map_or_else(|| "N/A".to_owned(), |load| format!("{}.{:02}", load / 100, load % 100));
    let features =
        if node.features.is_empty() { "(null)".to_owned() } else { node.features.join(",") };
    let gres = if node.gpus == 0 { "(null)".to_owned() } else { format!("gpu:{}", node.gpus) };
    let mut state = node.base.word().to_owned();
    for flag in &node.flags {
        state += &format!("+{}", flag.word());
    }
    let free = node.free_memory.map_or_else(|| "N/A".to_owned(), |free| free.to_string());
    let gpus = |count: u32| if count > 0 { format!(",gres/gpu={count}") } else { String::new() };
    let used = if node.used_cpus == 0 && node.used_memory == 0 {
        String::new()
    } else {
        let memory = if node.used_memory == 0 {
            String::new()
        } else {
            format!(",mem={}", megabytes(node.used_memory))
        };
        format!("cpu={}{memory}{}", node.used_cpus, gpus(node.used_gpus))
    };
    let mut lines = vec![
        format!(
            "NodeName={} Arch={} CoresPerSocket={cores} ",
            node.name,
            word("Arch").unwrap_or("x86_64")
        ),
        format!(
            "CPUAlloc={} CPUEfctv={} CPUTot={} CPULoad={load}",
            node.used_cpus, node.cpus, node.cpus
        ),
        format!("AvailableFeatures={features}"),
        format!("ActiveFeatures={features}"),
        format!("Gres={gres}"),
    ];
    let mut address = format!("NodeAddr={} NodeHostName={}", node.address, node.host);
    for key in ["Port", "Version"] {
        if let Some(value) = word(key) {
            address += &format!(" {key}={value}");
        }
    }
    lines.push(address);
    if let Some(system) = word("OS") {
        lines.push(format!("OS={system} "));
    }
    lines.extend([
        format!(
            "RealMemory={} AllocMem={} FreeMem={free} Sockets={sockets} Boards=1",
            node.memory, node.used_memory
        ),
        format!(
            "State={state} ThreadsPerCore={threads} TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A"
        ),
        format!("Partitions={} ", node.partitions.join(",")),
        format!("BootTime={} SlurmdStartTime={}", date(node.boot), date(node.started)),
        format!("LastBusyTime={}", date(node.last_busy)),
        format!(
            "CfgTRES=cpu={},mem={},billing={}{}",
            node.cpus,
            megabytes(node.memory),
            node.cpus,
            gpus(node.gpus)
        ),
        format!("AllocTRES={used}"),
        "CapWatts=n/a".to_owned(),
        "CurrentWatts=0 AveWatts=0".to_owned(),
        "ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s".to_owned(),
    ]);
    if let Some((text, user, when)) = &node.reason {
        lines.push(format!("Reason={text} [{user}@{}]", view.clock.local(*when)));
    }
    joined(&lines, one_line) + if one_line { "\n" } else { "\n\n" }
}

/// One partition.
pub(super) fn partition(partition: &PartitionFacts, one_line: bool, view: &View<'_>) -> String {
    let nodes: Vec<&NodeFacts> = view
        .cluster
        .nodes
        .iter()
        .filter(|node| node.partitions.contains(&partition.name))
        .collect();
    let names: HostList = nodes.iter().map(|node| node.name.as_str()).collect();
    let cpus: u32 = nodes.iter().map(|node| node.cpus).sum();
    let memory: u64 = nodes.iter().map(|node| node.memory).sum();
    let gpus: u32 = nodes.iter().map(|node| node.gpus).sum();
    let gpus = if gpus > 0 { format!(",gres/gpu={gpus}") } else { String::new() };
    let most = partition.max_nodes.map_or_else(|| "UNLIMITED".to_owned(), |most| most.to_string());
    let lines = [
        format!("PartitionName={}", partition.name),
        "AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL".to_owned(),
        format!("AllocNodes=ALL Default={} QoS=N/A", if partition.default { "YES" } else { "NO" }),
        format!(
            "DefaultTime={} DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO",
            partition.default_limit.map_or_else(|| "NONE".to_owned(), limit_text)
        ),
        format!(
            "MaxNodes={most} MaxTime={} MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED",
            limit(partition.limit)
        ),
        format!("Nodes={names}"),
        "PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO".to_owned(),
        "OverTimeLimit=NONE PreemptMode=OFF".to_owned(),
        format!(
            "State={} TotalCPUs={cpus} TotalNodes={} SelectTypeParameters=NONE",
            partition.state,
            nodes.len()
        ),
        "JobDefaults=(null)".to_owned(),
        "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED".to_owned(),
        format!(
            "TRES=cpu={cpus},mem={},node={},billing={cpus}{gpus}",
            megabytes(memory),
            nodes.len()
        ),
    ];
    joined(&lines, one_line) + if one_line { "\n" } else { "\n\n" }
}

/// The few settings that programs ask for.
pub(super) fn config(view: &View<'_>) -> String {
    let up = view.cluster.nodes.iter().filter(|node| node.base != NodeBase::Down).count();
    let running = view.cluster.jobs.iter().filter(|job| job.state == JobState::Running).count();
    let mut text = format!("Configuration data as of {}\n", view.clock.local(view.clock.now));
    for (key, value) in [
        ("AccountingStorageType", "accounting_storage/quorate".to_owned()),
        ("ClusterName", view.cluster.name.clone()),
        ("DefMemPerNode", "UNLIMITED".to_owned()),
        ("JobRequeue", "1".to_owned()),
        ("KillWait", "30 sec".to_owned()),
        ("MaxArraySize", "1000001".to_owned()),
        ("MpiDefault", "none".to_owned()),
        ("NodesUp", up.to_string()),
        ("RunningJobs", running.to_string()),
        ("SLURM_VERSION", crate::VERSION.trim_start_matches("slurm-wlm ").to_owned()),
    ] {
        text += &format!("{key:<23} = {value}\n");
    }
    text
}
