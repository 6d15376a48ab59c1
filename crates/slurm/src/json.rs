//! `--json` of squeue and sacct, in the shape of Slurm's OpenAPI v0.0.38 (Slurm 22.05): what programs
//! read of it, with the same names, types and units.

use crate::facts::{ArrayTasks, JobFacts, JobState, Memory, StepFacts, View};
use serde_json::{Value, json};

fn envelope(name: &str) -> Value {
    let version = crate::VERSION.trim_start_matches("slurm-wlm ");
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let (major, minor, micro) = (parts.next(), parts.next(), parts.next());
    json!({
        "plugin": {"type": format!("openapi/{name}"), "name": "Slurm OpenAPI v0.0.38"},
        "Slurm": {"version": {"major": major, "minor": minor, "micro": micro}, "release": version},
    })
}

fn page(meta: &Value, jobs: &[Value]) -> String {
    let page = json!({"meta": meta, "errors": [], "jobs": jobs});
    format!("{page:#}\n")
}

/// A wait status, as in wait(2).
fn status(exit: (u8, u8)) -> u32 {
    u32::from(exit.0) << 8 | u32::from(exit.1)
}

/// All jobs, whatever else squeue was told.
pub(crate) fn squeue(view: &View<'_>) -> String {
    let jobs: Vec<Value> = view.cluster.jobs.iter().map(|job| queued(job, view)).collect();
    page(&envelope("v0.0.38"), &jobs)
}

fn queued(job: &JobFacts, view: &View<'_>) -> Value {
    let (array, index, waiting) = match &job.array {
        None => (0, Value::Null, String::new()),
        Some(array) => match &array.tasks {
            ArrayTasks::One(index) => (array.job, json!(index), String::new()),
            ArrayTasks::Waiting(_) => (array.job, Value::Null, array.shown(false)),
        },
    };
    let limit = job.array.as_ref().and_then(|array| array.limit).unwrap_or(0);
    let (per_node, per_cpu) = match job.memory {
        Memory::Node(each) => (json!(each), Value::Null),
        Memory::Cpu(each) => (Value::Null, json!(each)),
    };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let [error, input, output] = job.files.clone().unwrap_or_default();
    let mut value = json!({
        "account": text(&job.account),
        "accrue_time": job.accrue.unwrap_or(0),
        "array_job_id": array,
        "array_task_id": index,
        "array_max_tasks": limit,
        "array_task_string": waiting,
        "batch_flag": job.batch,
        "batch_host": text(&job.batch_host),
        "cluster": view.cluster.name,
        "command": text(&job.command),
        "comment": text(&job.comment),
        "cpus": job.cpus,
        "cpus_per_task": if job.cpus_per_task > 1 { json!(job.cpus_per_task) } else { Value::Null },
        "current_working_directory": job.directory,
        "dependency": text(&job.dependency),
        "derived_exit_code": 0,
        "eligible_time": job.eligible.unwrap_or(0),
        "end_time": job.end.unwrap_or(0),
        "excluded_nodes": job.excluded_nodes,
        "exit_code": status(job.exit),
        "features": text(&job.features),
        "group_id": job.gid,
        "group_name": job.group,
        "job_id": job.id,
        "job_state": job.state.word(),
    });
    let more = json!({
        "last_sched_evaluation": job.looked_at.as_ref().map_or(0, |(moment, _)| *moment),
        "memory_per_cpu": per_cpu,
        "memory_per_node": per_node,
        "minimum_cpus_per_node": job.min_cpus,
        "name": job.name,
        "nice": if job.nice == 0 { Value::Null } else { json!(job.nice) },
        "node_count": job.node_count.0,
        "nodes": job.nodes,
        "partition": job.partition,
        "priority": job.priority,
        "qos": text(&job.qos),
        "requeue": job.requeue,
        "required_nodes": job.wanted_nodes,
        "restart_cnt": job.restarts,
        "start_time": job.start.unwrap_or(0),
        "state_description": "",
        "state_reason": job.reason,
        "submit_time": job.submit,
        "tasks": job.tasks.unwrap_or(1),
        "tasks_per_node": job.tasks_per_node,
        "time_limit": job.limit.map(|limit| limit / 60),
        "tres_alloc_str": if job.state == JobState::Pending { String::new() } else { job.tres() },
        "tres_per_node": text(&job.gres),
        "tres_req_str": job.tres(),
        "user_id": job.uid,
        "user_name": job.user,
    });
    let files = json!({
        "standard_error": error,
        "standard_input": input,
        "standard_output": output,
    });
    for part in [more, files] {
        let (Value::Object(all), Value::Object(part)) = (&mut value, part) else { continue };
        all.extend(part);
    }
    value
}

/// The selected jobs with their steps.
pub(crate) fn sacct(jobs: &[JobFacts], view: &View<'_>) -> String {
    let jobs: Vec<Value> = jobs.iter().map(|job| accounted(job, view)).collect();
    page(&envelope("dbv0.0.38"), &jobs)
}

/// How a job or step ended.
fn exit_code(exit: (u8, u8)) -> Value {
    match exit {
        (0, 0) => json!({"status": "SUCCESS", "return_code": 0}),
        (code, 0) => json!({"status": "ERROR", "return_code": code}),
        (_, signal) => {
            let name = crate::value::signal_name(signal.into());
            json!({
                "status": "SIGNALED",
                "return_code": null,
                "signal": {"signal_id": signal, "name": name},
            })
        }
    }
}

fn accounted(job: &JobFacts, view: &View<'_>) -> Value {
    let waits = job.state == JobState::Pending;
    let over = !job.state.is_active();
    // What ended it by order is in its steps.
    let ended = match job.state {
        JobState::Timeout | JobState::Cancelled => (0, 0),
        _ => job.exit,
    };
    let index = match job.array.as_ref().map(|array| &array.tasks) {
        Some(ArrayTasks::One(index)) => json!(index),
        _ => Value::Null,
    };
    let steps = view.cluster.steps.iter().filter(|step| step.job == job.id);
    json!({
        "account": job.account,
        "comment": {"administrator": null, "job": job.comment, "system": null},
        "allocation_nodes": if waits { 0 } else { job.node_count.0 },
        "array": {
            "job_id": job.array.as_ref().map_or(0, |array| array.job),
            "limits": {"max": {"running": {
                "tasks": job.array.as_ref().and_then(|array| array.limit).unwrap_or(0),
            }}},
            "task": null,
            "task_id": index,
        },
        "cluster": view.cluster.name,
        "constraints": job.features.clone().unwrap_or_default(),
        "derived_exit_code": exit_code((0, 0)),
        "exit_code": exit_code(ended),
        "group": job.group,
        "job_id": job.id,
        "kill_request_user": job.cancelled_by.map(|_| job.user.clone()),
        "name": job.name,
        "nodes": if job.nodes.is_empty() { "None assigned" } else { job.nodes.as_str() },
        "partition": job.partition,
        "priority": job.priority,
        "qos": job.qos,
        "required": {"CPUs": job.cpus, "memory": job.total_memory()},
        "state": {"current": job.state.word(), "reason": job.reason},
        "steps": steps.map(|step| step_value(step, view)).collect::<Vec<_>>(),
        "time": {
            "elapsed": job.elapsed(view.clock.now),
            "eligible": job.eligible.unwrap_or(0),
            "end": job.end.filter(|_| over).unwrap_or(0),
            "start": job.start.filter(|_| !waits).unwrap_or(0),
            "submission": job.submit,
            "suspended": 0,
            "limit": job.limit.map(|limit| limit / 60),
        },
        "user": job.user,
        "working_directory": job.directory,
    })
}

fn step_value(step: &StepFacts, view: &View<'_>) -> Value {
    let names: quorate_hostlist::HostList = step.nodes.parse().unwrap_or_default();
    let list: Vec<&str> = names.iter().collect();
    let ran = step.end.unwrap_or(view.clock.now).saturating_sub(step.start);
    json!({
        "nodes": {"list": list, "count": step.node_count, "range": step.nodes},
        "time": {"elapsed": ran, "start": step.start, "end": step.end.unwrap_or(0), "suspended": 0},
        "exit_code": exit_code(step.exit),
        "tasks": {"count": step.tasks},
        "state": step.state.word(),
        "step": {"job_id": step.job, "het": {"component": null}, "id": step.step, "name": step.name},
    })
}
