//! How much a job needs: tasks, nodes, cores, accelerators and memory from options that overlap.

use super::Reader;
use crate::options::{OptionError, Tool};
use crate::value::{self, Gpus};
use quorate_queue::Request;

/// What a job needs.
pub(super) struct Size {
    pub(super) request: Request,
    /// The number of tasks was asked for, and not derived.
    pub(super) tasks_given: bool,
    /// The type of its accelerators.
    pub(super) model: Option<String>,
}

/// Reads the options that say how much.
pub(super) fn size(reader: &Reader<'_>, notes: &mut Vec<String>) -> Result<Size, OptionError> {
    let given = reader.count("ntasks")?;
    let per_node = match reader.count("ntasks-per-node")? {
        Some(count) => Some(count),
        None => reader.count("tasks-per-node")?,
    };
    let mut nodes = nodes(reader)?;
    if let Some(list) = reader.value("nodelist", super::hosts)? {
        let listed = u32::try_from(list.len()).unwrap_or(u32::MAX);
        nodes = Some(within(reader, nodes, listed)?);
    }
    let fewest = nodes.map_or(1, |(fewest, _)| fewest);
    let tasks = match (given, per_node) {
        (Some(tasks), _) => tasks,
        (None, Some(per_node)) => fewest.saturating_mul(per_node),
        (None, None) => fewest,
    };
    if let Some((fewest, most)) = nodes
        && given.is_some()
        && tasks < fewest
    {
        notes.push(format!(
            "Warning: can't run {tasks} processes on {fewest} nodes, setting nnodes to {tasks}"
        ));
        nodes = Some((tasks, most.clamp(tasks, tasks.max(1))));
    }
    let mut request = Request {
        tasks,
        nodes,
        tasks_per_node: per_node,
        exclusive: exclusive(reader)?,
        ..Request::default()
    };
    // A step of srun shares what its allocation has: `--exclusive` is about its cores alone.
    if reader.settings.tool() == Tool::Srun && reader.settings.has("jobid") {
        request.exclusive = false;
    }
    let model = gpus(reader, &mut request)?;
    cores(reader, &mut request)?;
    memory(reader, &mut request)?;
    Ok(Size { request, tasks_given: given.is_some(), model })
}

/// Whole nodes, whomever they are not shared with.
fn exclusive(reader: &Reader<'_>) -> Result<bool, OptionError> {
    reader.value("exclusive", |text| match text {
        "user" | "mcs" | "topo" | "exclusive" => Ok(()),
        _ => Err(value::ValueError::Form {
            text: text.to_owned(),
            expected: "user or mcs, or nothing",
        }),
    })?;
    Ok(reader.settings.has("exclusive"))
}

fn nodes(reader: &Reader<'_>) -> Result<Option<(u32, u32)>, OptionError> {
    let Some(text) = reader.settings.text("nodes") else { return Ok(None) };
    match value::nodes(text) {
        Ok(range) => Ok(Some(range)),
        Err(value::ValueError::Unsupported { .. }) => reader.value("nodes", value::nodes),
        Err(_) => {
            let backwards = text.split_once('-').and_then(|(fewest, most)| {
                let (fewest, most): (u32, u32) = (fewest.parse().ok()?, most.parse().ok()?);
                (fewest > most && most > 0).then_some((fewest, most))
            });
            let error = match backwards {
                Some((fewest, most)) => OptionError::NodeRange { fewest, most },
                None => OptionError::Nodes { value: text.to_owned() },
            };
            Err(reader.settings.blame("nodes", error))
        }
    }
}

/// The nodes that are asked for, when there is a list of nodes.
fn within(
    reader: &Reader<'_>,
    nodes: Option<(u32, u32)>,
    listed: u32,
) -> Result<(u32, u32), OptionError> {
    match nodes {
        None => Ok((listed, listed)),
        Some((_, most)) if most < listed => Err(reader
            .conflict("nodelist", format!("invalid number of nodes (-N {listed}-{most})"))),
        Some((fewest, _)) if fewest > listed => Err(reader.conflict(
            "nodelist",
            format!(
                "--nodes asks for {fewest} nodes and --nodelist names {listed}: a job runs on listed \
                 nodes alone; list more of them, or use --constraint"
            ),
        )),
        Some((fewest, most)) => Ok((fewest.max(listed), most.min(listed).max(fewest))),
    }
}

/// Accelerators of each task from those of a job, of a node or of a task; answers their type.
fn gpus(reader: &Reader<'_>, request: &mut Request) -> Result<Option<String>, OptionError> {
    let of_task = reader.value("gpus-per-task", value::gpus)?.flatten();
    let of_node = match reader.value("gpus-per-node", value::gpus)?.flatten() {
        Some(gpus) => Some(("gpus-per-node", gpus)),
        None => reader.value("gres", value::gres)?.flatten().map(|gpus| ("gres", gpus)),
    };
    let of_job = reader.value("gpus", value::gpus)?.flatten();
    if let Some(Gpus { model, count }) = of_task {
        // Tasks from accelerators, as Slurm does when it is not told how many.
        if let (Some(total), false) = (&of_job, reader.settings.has("ntasks"))
            && request.nodes.is_none()
            && request.tasks_per_node.is_none()
        {
            if total.count % count != 0 {
                return Err(uneven(reader, "gpus", total.count, count, "the GPUs of a task"));
            }
            request.tasks = total.count / count;
        }
        request.gpus_per_task = count;
        return Ok(model);
    }
    if let Some((option, Gpus { model, count })) = of_node {
        let tasks = tasks_of_node(request);
        if count % tasks != 0 {
            return Err(uneven(reader, option, count, tasks, "the tasks of a node"));
        }
        request.gpus_per_task = count / tasks;
        return Ok(model);
    }
    let Some(Gpus { model, count }) = of_job else { return Ok(None) };
    if count % request.tasks != 0 {
        return Err(uneven(reader, "gpus", count, request.tasks, "the tasks"));
    }
    request.gpus_per_task = count / request.tasks;
    Ok(model)
}

fn uneven(
    reader: &Reader<'_>,
    option: &'static str,
    gpus: u32,
    by: u32,
    what: &str,
) -> OptionError {
    reader.conflict(
        option,
        format!(
            "--{option} asks for {gpus} GPUs, which is no multiple of {what} ({by}): a GPU belongs to \
             one task; use --gpus-per-task, or other numbers of tasks"
        ),
    )
}

/// How many tasks run on a node: as many as were asked for, or an even share.
fn tasks_of_node(request: &Request) -> u32 {
    let share = match request.nodes {
        Some((fewest, most)) if fewest == most => request.tasks.div_ceil(fewest),
        _ => request.tasks,
    };
    request.tasks_per_node.map_or(share, |limit| limit.min(share)).max(1)
}

fn cores(reader: &Reader<'_>, request: &mut Request) -> Result<(), OptionError> {
    if let Some(cores) = reader.count("cpus-per-task")? {
        request.cores_per_task = cores;
    }
    if let Some(cores) = reader.count("cpus-per-gpu")? {
        if request.gpus_per_task == 0 {
            return Err(without_gpus(reader, "cpus-per-gpu"));
        }
        request.cores_per_task = cores.saturating_mul(request.gpus_per_task);
    }
    Ok(())
}

fn memory(reader: &Reader<'_>, request: &mut Request) -> Result<(), OptionError> {
    if let Some(bytes) = reader.value("mem", value::memory)? {
        request.memory_per_node = bytes;
    }
    if let Some(bytes) = reader.value("mem-per-cpu", value::memory)? {
        request.memory_per_task = bytes.saturating_mul(request.cores_per_task.into());
    }
    if let Some(bytes) = reader.value("mem-per-gpu", value::memory)? {
        if request.gpus_per_task == 0 {
            return Err(without_gpus(reader, "mem-per-gpu"));
        }
        request.memory_per_task = bytes.saturating_mul(request.gpus_per_task.into());
    }
    Ok(())
}

fn without_gpus(reader: &Reader<'_>, option: &'static str) -> OptionError {
    reader.conflict(
        option,
        format!("--{option} needs GPUs: ask for some with --gpus-per-task, --gpus or --gres=gpu:N"),
    )
}
