//! The fields of sacct: which there are, how wide they are, and what they show of a job or a step.
//!
//! Every field of Slurm 22.05 is known. Those that nothing here is known of, such as `MaxRSS`, are empty.

use super::Line;
use super::units::Units;
use crate::facts::{JobState, Memory, StepFacts, View};
use crate::value::limit_text;

/// Fields and their widths, in the order of `sacct --helpformat`; negative ones are filled up on the right.
pub(super) const FIELDS: &[(&str, i32)] = &[
    ("Account", 10),
    ("AdminComment", 15),
    ("AllocCPUS", 10),
    ("AllocNodes", 10),
    ("AllocTRES", 10),
    ("AssocID", 7),
    ("AveCPU", 10),
    ("AveCPUFreq", 10),
    ("AveDiskRead", 14),
    ("AveDiskWrite", 14),
    ("AvePages", 10),
    ("AveRSS", 10),
    ("AveVMSize", 10),
    ("BlockID", 16),
    ("Cluster", 10),
    ("Comment", 14),
    ("Constraints", 19),
    ("ConsumedEnergy", 14),
    ("ConsumedEnergyRaw", 17),
    ("Container", 19),
    ("CPUTime", 10),
    ("CPUTimeRAW", 10),
    ("DBIndex", -10),
    ("DerivedExitCode", 15),
    ("Elapsed", 10),
    ("ElapsedRaw", 10),
    ("Eligible", 19),
    ("End", 19),
    ("ExitCode", 8),
    ("Flags", 19),
    ("GID", 6),
    ("Group", 9),
    ("JobID", -12),
    ("JobIDRaw", -12),
    ("JobName", 10),
    ("Layout", 9),
    ("MaxDiskRead", 12),
    ("MaxDiskReadNode", 15),
    ("MaxDiskReadTask", 15),
    ("MaxDiskWrite", 12),
    ("MaxDiskWriteNode", 16),
    ("MaxDiskWriteTask", 16),
    ("MaxPages", 8),
    ("MaxPagesNode", 12),
    ("MaxPagesTask", 14),
    ("MaxRSS", 10),
    ("MaxRSSNode", 10),
    ("MaxRSSTask", 10),
    ("MaxVMSize", 10),
    ("MaxVMSizeNode", 14),
    ("MaxVMSizeTask", 14),
    ("McsLabel", 12),
    ("MinCPU", 10),
    ("MinCPUNode", 10),
    ("MinCPUTask", 10),
    ("NCPUS", 10),
    ("NNodes", 8),
    ("NodeList", 15),
    ("NTasks", 8),
    ("Partition", 10),
    ("Priority", 10),
    ("QOS", 10),
    ("QOSRAW", 6),
    ("Reason", 22),
    ("ReqCPUFreq", 10),
    ("ReqCPUFreqGov", 13),
    ("ReqCPUFreqMax", 13),
    ("ReqCPUFreqMin", 13),
    ("ReqCPUS", 8),
    ("ReqMem", 10),
    ("ReqNodes", 8),
    ("ReqTRES", 10),
    ("Reservation", 20),
    ("ReservationId", 8),
    ("Reserved", 10),
    ("ResvCPU", 10),
    ("ResvCPURAW", 10),
    ("Start", 19),
    ("State", 10),
    ("Submit", 19),
    ("SubmitLine", 20),
    ("Suspended", 10),
    ("SystemComment", 15),
    ("SystemCPU", 10),
    ("Timelimit", 10),
    ("TimelimitRaw", 10),
    ("TotalCPU", 10),
    ("TRESUsageInAve", 14),
    ("TRESUsageInMax", 14),
    ("TRESUsageInMaxNode", 18),
    ("TRESUsageInMaxTask", 18),
    ("TRESUsageInMin", 14),
    ("TRESUsageInMinNode", 18),
    ("TRESUsageInMinTask", 18),
    ("TRESUsageInTot", 14),
    ("TRESUsageOutAve", 15),
    ("TRESUsageOutMax", 15),
    ("TRESUsageOutMaxNode", 19),
    ("TRESUsageOutMaxTask", 19),
    ("TRESUsageOutMin", 15),
    ("TRESUsageOutMinNode", 19),
    ("TRESUsageOutMinTask", 19),
    ("TRESUsageOutTot", 15),
    ("UID", 6),
    ("User", 9),
    ("UserCPU", 10),
    ("WCKey", 10),
    ("WCKeyID", 10),
    ("WorkDir", 20),
];

/// What a field was called in old versions, which scripts still ask for.
const OLD: &[(&str, &str)] = &[("AllocGRES", "AllocTRES"), ("ReqGRES", "ReqTRES")];

/// Without `--format`.
pub(super) const DEFAULT: &str = "jobid,jobname,partition,account,alloccpus,state,exitcode";
/// With `--brief`.
pub(super) const BRIEF: &str = "jobid,state,exitcode";
/// With `--long`.
pub(super) const LONG: &str = "jobid,jobidraw,jobname,partition,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,\
     maxrssnode,maxrsstask,averss,maxpages,maxpagesnode,maxpagestask,avepages,mincpu,mincpunode,mincputask,\
     avecpu,ntasks,alloccpus,elapsed,state,exitcode,avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,reqmem,\
     consumedenergy,maxdiskread,maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,\
     maxdiskwritetask,avediskwrite,reqtres,alloctres,tresusageinave,tresusageinmax,tresusageinmaxnode,\
     tresusageinmaxtask,tresusageinmin,tresusageinminnode,tresusageinmintask,tresusageintot,tresusageoutmax,\
     tresusageoutmaxnode,tresusageoutmaxtask,tresusageoutave,tresusageouttot";

/// A column.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) width: i32,
}

/// What is done with a text that is wider than its column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// It ends with a `+`.
    Plus,
    /// It ends.
    Plain,
    /// It stays: a number would be another one.
    Never,
}

/// How a field is cut.
pub(super) fn cut(name: &str) -> Cut {
    match name {
        "Start" | "End" | "Submit" | "Eligible" => Cut::Plain,
        "Elapsed" | "Reserved" | "ResvCPU" | "Suspended" | "CPUTime" | "UserCPU" | "SystemCPU"
        | "TotalCPU" | "AllocCPUS" | "NCPUS" | "ReqCPUS" | "NTasks" | "UID" | "GID"
        | "Priority" | "ElapsedRaw" | "CPUTimeRAW" | "ResvCPURAW" => Cut::Never,
        _ => Cut::Plus,
    }
}

/// Reads `JobID,State%20,ExitCode`; names may be shortened and are of any case.
pub(super) fn columns(format: &str) -> Result<Vec<Column>, String> {
    let mut columns: Vec<Column> = Vec::new();
    for word in format.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let (name, width) = match word.split_once('%') {
            // What is no number is 0, as atoi(3) reads it.
            Some((name, width)) => {
                (name, Some(width.parse::<i32>().unwrap_or(0).clamp(-9999, 9999)))
            }
            None => (word, None),
        };
        let old = OLD.iter().find(|(old, _)| old.eq_ignore_ascii_case(name));
        let name = old.map_or(name, |(_, new)| *new);
        let lower = name.to_ascii_lowercase();
        let exact = FIELDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let field = exact.or_else(|| {
            FIELDS.iter().find(|(known, _)| known.to_ascii_lowercase().starts_with(&lower))
        });
        if name.eq_ignore_ascii_case("all") {
            columns.extend(FIELDS.iter().map(|&(name, width)| Column { name, width }));
            continue;
        }
        let Some((name, own)) = field else {
            return Err(format!(
                "sacct: error: Invalid field requested: \"{name}\"\nsacct: error: sacct --helpformat lists \
                 the fields"
            ));
        };
        columns.push(Column { name, width: width.unwrap_or(*own) });
    }
    Ok(columns)
}

/// What a field shows of a line.
pub(super) fn cell(name: &str, line: Line<'_>, view: &View<'_>, units: Units) -> String {
    let job = line.job;
    let waits = job.state == JobState::Pending;
    let date = |moment: Option<i64>| match moment {
        Some(moment) => view.clock.local(moment).to_string(),
        None => "Unknown".to_owned(),
    };
    if let Some(step) = line.step
        && let Some(text) = step_cell(name, line, step, view, units)
    {
        return text;
    }
    let elapsed = line.span.seconds;
    let sorted_tres =
        || tres(job.cpus, job.node_count.0, job.total_memory(), job.gpus, Some(job.cpus), units);
    let waited = {
        let from = job.eligible.unwrap_or(job.submit);
        let until = if waits { view.clock.now } else { job.start.unwrap_or(from) };
        u64::try_from(until.saturating_sub(from)).unwrap_or(0)
    };
    match name {
        "Account" => job.account.clone().unwrap_or_default(),
        "AllocCPUS" | "NCPUS" | "ReqCPUS" => job.cpus.to_string(),
        "AllocNodes" | "ConsumedEnergy" if waits => "0".to_owned(),
        "AllocNodes" | "NNodes" | "ReqNodes" => job.node_count.0.to_string(),
        "AllocTRES" if waits => String::new(),
        "AllocTRES" | "ReqTRES" => sorted_tres(),
        "Cluster" => view.cluster.name.clone(),
        "Comment" => job.comment.clone().unwrap_or_default(),
        "Constraints" => job.features.clone().unwrap_or_default(),
        "CPUTime" => limit_text(elapsed * u64::from(job.cpus)),
        "CPUTimeRAW" => (elapsed * u64::from(job.cpus)).to_string(),
        "DerivedExitCode" => "0:0".to_owned(),
        "Elapsed" => limit_text(elapsed),
        "ElapsedRaw" => elapsed.to_string(),
        "Eligible" => date(job.eligible),
        "End" => date(line.span.end),
        // The signal that ended it is its script's, in the line of the step.
        "ExitCode"
            if matches!(
                job.state,
                JobState::Timeout | JobState::Cancelled | JobState::NodeFail
            ) =>
        {
            "0:0".to_owned()
        }
        "ExitCode" => format!("{}:{}", job.exit.0, job.exit.1),
        "GID" => job.gid.to_string(),
        "Group" => job.group.clone(),
        "JobID" => job.shown_id(),
        "JobIDRaw" => job.id.to_string(),
        "JobName" => job.name.clone(),
        "NodeList" if job.nodes.is_empty() => "None assigned".to_owned(),
        "NodeList" => job.nodes.clone(),
        "Partition" => job.partition.clone(),
        "Priority" => job.priority.to_string(),
        "QOS" => job.qos.clone().unwrap_or_default(),
        "Reason" => "None".to_owned(),
        "ReqMem" => units.text(job.total_memory()),
        "Reserved" => limit_text(waited),
        "ResvCPU" => limit_text(waited * u64::from(job.cpus)),
        "ResvCPURAW" => (waited * u64::from(job.cpus)).to_string(),
        "ReqCPUFreqMin" | "ReqCPUFreqMax" | "ReqCPUFreqGov" | "ReqCPUFreq" => "Unknown".to_owned(),
        // Whoever waits may still start.
        "Start" if line.span.start.is_none() && !waits => "None".to_owned(),
        "Start" => date(line.span.start),
        "State" => match (job.state, job.cancelled_by) {
            (JobState::Cancelled, Some(user)) => format!("CANCELLED by {user}"),
            (state, _) => state.word().to_owned(),
        },
        "Submit" => date(Some(job.submit)),
        "SubmitLine" => job.submit_line.clone(),
        "Suspended" | "SystemCPU" | "TotalCPU" | "UserCPU" => "00:00:00".to_owned(),
        // Of a job that has not started a limit of its partition may still come.
        "Timelimit" | "TimelimitRaw" if waits && job.limit.is_none() => {
            "Partition_Limit".to_owned()
        }
        "Timelimit" => job.limit.map_or_else(|| "UNLIMITED".to_owned(), limit_text),
        "TimelimitRaw" => {
            job.limit.map_or_else(|| "UNLIMITED".to_owned(), |limit| (limit / 60).to_string())
        }
        "UID" => job.uid.to_string(),
        "User" => job.user.clone(),
        "WorkDir" => job.directory.clone(),
        _ => String::new(),
    }
}

/// Resources in the order of their names; billing is of jobs alone.
fn tres(
    cpus: u32,
    nodes: u32,
    memory: u64,
    gpus: u32,
    billing: Option<u32>,
    units: Units,
) -> String {
    let mut parts: Vec<String> = billing.iter().map(|each| format!("billing={each}")).collect();
    parts.push(format!("cpu={cpus}"));
    if gpus > 0 {
        parts.push(format!("gres/gpu={gpus}"));
    }
    if memory > 0 {
        parts.push(format!("mem={}", units.text(memory)));
    }
    parts.push(format!("node={nodes}"));
    parts.join(",")
}

/// What differs for a step.
fn step_cell(
    name: &str,
    line: Line<'_>,
    step: &StepFacts,
    view: &View<'_>,
    units: Units,
) -> Option<String> {
    let (job, ran) = (line.job, line.span.seconds);
    let date = |moment: Option<i64>| {
        moment.map_or_else(|| "Unknown".to_owned(), |moment| view.clock.local(moment).to_string())
    };
    Some(match name {
        "JobID" => format!("{}.{}", job.shown_id(), step.step),
        "JobIDRaw" => format!("{}.{}", job.id, step.step),
        "JobName" => step.name.clone(),
        "State" => step.state.word().to_owned(),
        "ExitCode" => format!("{}:{}", step.exit.0, step.exit.1),
        "AllocCPUS" | "NCPUS" | "ReqCPUS" => step.cpus.to_string(),
        "AllocNodes" | "NNodes" | "ReqNodes" => step.node_count.to_string(),
        "NTasks" => step.tasks.to_string(),
        "NodeList" => step.nodes.clone(),
        "Submit" | "Eligible" => date(Some(step.start)),
        "Start" => date(line.span.start),
        "End" => date(line.span.end),
        "Elapsed" => limit_text(ran),
        "ElapsedRaw" => ran.to_string(),
        "CPUTime" => limit_text(ran * u64::from(step.cpus)),
        "CPUTimeRAW" => (ran * u64::from(step.cpus)).to_string(),
        "AllocTRES" => {
            let memory = match job.memory {
                Memory::Node(each) => each * u64::from(step.node_count),
                Memory::Cpu(each) => each * u64::from(step.cpus),
            };
            tres(step.cpus, step.node_count, memory, 0, None, units)
        }
        "AveCPUFreq" | "ConsumedEnergy" => "0".to_owned(),
        "ReqCPUFreqMin" | "ReqCPUFreqMax" | "ReqCPUFreqGov" | "ReqCPUFreq"
            if step.step == "batch" =>
        {
            "0".to_owned()
        }
        "Partition" | "User" | "UID" | "GID" | "Group" | "Priority" | "QOS" | "Timelimit"
        | "TimelimitRaw" | "ReqTRES" | "WorkDir" | "ReqMem" | "Reason" | "Comment"
        | "SubmitLine" | "Reserved" | "ResvCPU" | "ResvCPURAW" | "DerivedExitCode"
        | "Constraints" => String::new(),
        _ => return None,
    })
}
