//! The rules of `spec.program.script` and `spec.program.jobs`.

use super::Findings;
use super::program::{argv, variables};
use super::spec::number_at;
use crate::finding::{FieldPath, Finding};
use crate::minicluster::Job;

/// A job of a program that is a list of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedJob {
    /// What people call it; unique.
    pub name: String,
    /// Program and arguments; at least one.
    pub argv: Vec<String>,
    /// Tasks in all.
    pub tasks: Option<u32>,
    /// Nodes.
    pub nodes: Option<u32>,
    /// The most tasks of one node.
    pub tasks_per_node: Option<u32>,
    /// Cores of each task.
    pub cpus_per_task: Option<u32>,
    /// Accelerators of each task.
    pub gpus_per_task: Option<u32>,
    /// Seconds that it may take.
    pub time_limit_seconds: Option<u32>,
    /// Variables of each task, in order.
    pub env: Vec<(String, String)>,
    /// The directory to start in.
    pub working_dir: Option<String>,
    /// Names of jobs before it.
    pub after: Vec<String>,
}

/// A batch script. Its directives are read where it runs.
pub(super) fn script(path: &FieldPath, text: &str, findings: &mut Findings) {
    if !text.starts_with("#!") {
        findings.push(
            Finding::error(path.clone(), "the first line names no interpreter")
                .hint("begin it with `#!/bin/sh`, or whatever runs it"),
        );
    }
    if text.contains('\0') {
        findings.push(
            Finding::error(path.clone(), "a script cannot hold a NUL character")
                .hint("take it out"),
        );
    }
}

/// A list of jobs.
pub(super) fn jobs(
    path: &FieldPath,
    wanted: &[Job],
    size: Option<u32>,
    findings: &mut Findings,
) -> Vec<ValidatedJob> {
    let checked = wanted.iter().enumerate();
    checked.map(|(at, one)| job(&path.index(at), one, &wanted[..at], size, findings)).collect()
}

fn job(
    path: &FieldPath,
    wanted: &Job,
    before: &[Job],
    size: Option<u32>,
    findings: &mut Findings,
) -> ValidatedJob {
    let name = &wanted.name;
    if name.is_empty() {
        findings
            .push(Finding::error(path.key("name"), "empty").hint("give the job a name of its own"));
    } else if before.iter().any(|other| other.name == *name) {
        findings.push(
            // As the API server says it: the item as a whole is the other's double.
            Finding::error(path.clone(), format!("`{name}` is there twice"))
                .hint("give each job a name of its own"),
        );
    }
    if wanted.command.is_empty() {
        findings.push(
            Finding::error(path.key("command"), "empty")
                .hint("name the program of each task, for example `command: [./step]`"),
        );
    }
    for (at, after) in wanted.after.iter().enumerate() {
        if !before.iter().any(|other| other.name == *after) {
            findings.push(
                Finding::error(
                    path.key("after").index(at),
                    format!("`{after}` is no job before this one"),
                )
                .hint("name a job that stands before it in the list"),
            );
        }
    }
    variables(path, &wanted.env, findings);
    let argv = if wanted.command.is_empty() {
        None
    } else {
        argv(path, &wanted.command, &wanted.args, findings)
    };
    let mut count = |field: &str, value: Option<i32>, least: i32| {
        value.map(|value| number_at(findings, path.key(field), value, least, i32::MAX))
    };
    let valid = ValidatedJob {
        name: name.clone(),
        argv: argv.unwrap_or_default(),
        tasks: count("tasks", wanted.tasks, 1),
        nodes: count("nodes", wanted.nodes, 1),
        tasks_per_node: count("tasksPerNode", wanted.tasks_per_node, 1),
        cpus_per_task: count("cpusPerTask", wanted.cpus_per_task, 1),
        gpus_per_task: count("gpusPerTask", wanted.gpus_per_task, 0),
        time_limit_seconds: count("timeLimitSeconds", wanted.time_limit_seconds, 1),
        env: wanted.env.iter().map(|one| (one.name.clone(), one.value.clone())).collect(),
        working_dir: wanted.working_dir.clone(),
        after: wanted.after.clone(),
    };
    if let (Some(nodes), Some(size)) = (valid.nodes, size)
        && nodes > size
    {
        findings.push(
            Finding::error(
                path.key("nodes"),
                format!("{nodes} is more than the {size} of the cluster"),
            )
            .hint("ask for fewer, or raise size"),
        );
    }
    valid
}
