//! What squeue shows of a job in each column, by letter and by long name (squeue(1), -o and -O).

use super::Column;
use crate::facts::{JobFacts, JobState, Memory, StepFacts, View, megabytes};
use crate::value::elapsed;

/// Letter, long names, header.
const FIELDS: &[(&str, &[&str], &str)] = &[
    ("a", &["account"], "ACCOUNT"),
    ("A", &["jobid"], "JOBID"),
    ("b", &["tres-per-node", "gres"], "TRES_PER_NODE"),
    ("B", &["batchhost"], "EXEC_HOST"),
    ("c", &["mincpus"], "MIN_CPUS"),
    ("C", &["numcpus"], "CPUS"),
    ("d", &["mintmpdisk"], "MIN_TMP_DISK"),
    ("D", &["numnodes"], "NODES"),
    ("e", &["endtime"], "END_TIME"),
    ("E", &["dependency"], "DEPENDENCY"),
    ("f", &["feature"], "FEATURES"),
    ("F", &["arrayjobid"], "ARRAY_JOB_ID"),
    ("g", &["groupname"], "GROUP"),
    ("G", &["groupid"], "GROUP"),
    ("h", &["oversubscribe"], "OVER_SUBSCRIBE"),
    ("H", &["sockets"], "SOCKETS_PER_NODE"),
    ("i", &["jobarrayid"], "JOBID"),
    ("I", &["cores"], "CORES_PER_SOCKET"),
    ("j", &["name"], "NAME"),
    ("J", &["threads"], "THREADS_PER_CORE"),
    ("k", &["comment"], "COMMENT"),
    ("K", &["arraytaskid"], "ARRAY_TASK_ID"),
    ("l", &["timelimit"], "TIME_LIMIT"),
    ("L", &["timeleft"], "TIME_LEFT"),
    ("m", &["minmemory"], "MIN_MEMORY"),
    ("M", &["timeused"], "TIME"),
    ("n", &["reqnodes"], "REQ_NODES"),
    ("N", &["nodelist"], "NODELIST"),
    ("o", &["command"], "COMMAND"),
    ("O", &["contiguous"], "CONTIGUOUS"),
    ("p", &["priority"], "PRIORITY"),
    ("P", &["partition"], "PARTITION"),
    ("q", &["qos"], "QOS"),
    ("Q", &["prioritylong"], "PRIORITY"),
    ("r", &["reason"], "REASON"),
    ("R", &["reasonlist"], "NODELIST(REASON)"),
    ("S", &["starttime"], "START_TIME"),
    ("t", &["statecompact"], "ST"),
    ("T", &["state"], "STATE"),
    ("u", &["username"], "USER"),
    ("U", &["userid"], "UID"),
    ("v", &["reservation"], "RESERVATION"),
    ("V", &["submittime"], "SUBMIT_TIME"),
    ("w", &["wckey"], "WCKEY"),
    ("W", &["licenses"], "LICENSES"),
    ("x", &["exc_nodes"], "EXC_NODES"),
    ("X", &["corespec"], "CORE_SPEC"),
    ("y", &["nice"], "NICE"),
    ("Y", &["schednodes"], "SCHEDNODES"),
    ("z", &["sct"], "S:C:T"),
    ("Z", &["workdir"], "WORK_DIR"),
];

/// The letter of a column, whichever way it was named.
fn letter(column: &Column) -> Option<(&'static str, &'static str)> {
    FIELDS
        .iter()
        .find(|(letter, names, _)| column.key == *letter || names.contains(&column.key.as_str()))
        .map(|(letter, _, header)| (*letter, *header))
}

/// The head of a column; unknown ones are empty.
pub(super) fn header(column: &Column, steps: bool) -> String {
    match letter(column) {
        Some(("i", _)) if steps => "STEPID".to_owned(),
        Some((_, header)) => header.to_owned(),
        None => String::new(),
    }
}

/// What a column shows of a job.
pub(super) fn job(column: &Column, job: &JobFacts, view: &View<'_>) -> String {
    let Some((letter, _)) = letter(column) else { return String::new() };
    let null = |text: &Option<String>| text.clone().unwrap_or_else(|| "(null)".to_owned());
    let date = |moment: Option<i64>| match moment {
        Some(moment) => view.clock.local(moment).to_string(),
        None => "N/A".to_owned(),
    };
    match letter {
        "a" => null(&job.account),
        "A" => job.id.to_string(),
        "b" => job.gres.clone().unwrap_or_else(|| "N/A".to_owned()),
        // Without a script it is the host of the submitter.
        "B" if !job.batch => job.from.0.clone(),
        "B" => job.batch_host.clone().unwrap_or_else(|| "n/a".to_owned()),
        "c" => job.min_cpus.to_string(),
        "C" => job.cpus.to_string(),
        "D" => job.node_count.0.to_string(),
        // A start is known, and no end.
        "e" if job.start.is_some() && job.end.is_none() => "NONE".to_owned(),
        "e" => date(job.end),
        "E" => null(&job.dependency),
        "f" => null(&job.features),
        "F" => job.array.as_ref().map_or(job.id, |array| array.job).to_string(),
        "g" => job.group.clone(),
        "G" => job.gid.to_string(),
        "h" => if job.exclusive { "NO" } else { "OK" }.to_owned(),
        "i" => job.shown_id(),
        "j" => job.name.clone(),
        "k" => null(&job.comment),
        "K" => job.array.as_ref().map_or_else(|| "N/A".to_owned(), |array| array.shown(false)),
        "l" => job.limit.map_or_else(|| "UNLIMITED".to_owned(), elapsed),
        "L" => left(job, view.clock.now),
        "m" => megabytes(match job.memory {
            Memory::Node(each) | Memory::Cpu(each) => each,
        }),
        "M" => elapsed(job.elapsed(view.clock.now)),
        "n" => job.wanted_nodes.clone(),
        "N" => job.nodes.clone(),
        "o" => null(&job.command),
        "p" => format!("{:.14}", f64::from(job.priority) / f64::from(u32::MAX)),
        "P" => job.partition.clone(),
        "q" => null(&job.qos),
        "Q" => job.priority.to_string(),
        "r" => job.reason.clone(),
        "R" => nodes_or_reason(job),
        "S" => date(job.start),
        "t" => job.state.code().to_owned(),
        "T" => job.state.word().to_owned(),
        "u" => job.user.clone(),
        "U" => job.uid.to_string(),
        "V" => date(Some(job.submit)),
        "x" => job.excluded_nodes.clone(),
        "X" => "N/A".to_owned(),
        "y" => job.nice.to_string(),
        "Y" => null(&job.planned_nodes),
        "z" => "*:*:*".to_owned(),
        "Z" => job.directory.clone(),
        "H" | "I" | "J" => "*".to_owned(),
        "d" | "O" => "0".to_owned(),
        _ => "(null)".to_owned(),
    }
}

/// Nodes, or the reason in parentheses while it waits and after it failed.
fn nodes_or_reason(job: &JobFacts) -> String {
    match job.state {
        JobState::Pending | JobState::Failed | JobState::Timeout | JobState::OutOfMemory => {
            format!("({})", job.reason)
        }
        _ => job.nodes.clone(),
    }
}

fn left(job: &JobFacts, now: i64) -> String {
    let Some(limit) = job.limit else { return "UNLIMITED".to_owned() };
    match limit.checked_sub(job.elapsed(now)) {
        Some(left) => elapsed(left),
        None => "INVALID".to_owned(),
    }
}

/// What a column shows of a step.
pub(super) fn step(column: &Column, job: &JobFacts, step: &StepFacts, view: &View<'_>) -> String {
    let Some((letter, _)) = letter(column) else { return String::new() };
    let ran = step.end.unwrap_or(view.clock.now).saturating_sub(step.start);
    match letter {
        "A" => job.id.to_string(),
        "F" => job.array.as_ref().map_or(job.id, |array| array.job).to_string(),
        "i" => format!("{}.{}", job.shown_id(), step.step),
        "j" => step.name.clone(),
        "M" => elapsed(u64::try_from(ran).unwrap_or(0)),
        "N" => step.nodes.clone(),
        "P" => job.partition.clone(),
        "S" => view.clock.local(step.start).to_string(),
        "u" => job.user.clone(),
        "U" => job.uid.to_string(),
        "C" => step.cpus.to_string(),
        _ => "N/A".to_owned(),
    }
}
