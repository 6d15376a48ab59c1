//! The rules of the program: exactly one, with a command, and with room for its tasks.

use super::groups::Sizes;
use super::jobs;
use super::spec::number_at;
use super::{Findings, ValidatedParallel, ValidatedProgram};
use crate::finding::{FieldPath, Finding};
use crate::minicluster::{MiniClusterSpec, Parallel, Program, Variable};
use crate::names::is_variable;
use crate::template::main_container;

/// The one program, or `None` after a finding.
pub(super) fn check(
    spec: &MiniClusterSpec,
    sizes: Option<&Sizes>,
    findings: &mut Findings,
) -> Option<ValidatedProgram> {
    let before = findings.0.len();
    let mut found: Vec<(FieldPath, ValidatedProgram)> = Vec::new();

    if let Some(program) = &spec.program {
        let path = FieldPath::new("spec.program");
        let command = argv(&path, &program.command, &program.args, findings);
        if let Some(argv) = command {
            found.push((path.key("command"), ValidatedProgram::Command { argv }));
        }
        if let Some(wanted) = &program.parallel {
            let path = path.key("parallel");
            let parallel = parallel(&path, wanted, sizes, findings);
            found.push((path, ValidatedProgram::Parallel(parallel)));
        }
        if let Some(text) = &program.script {
            let path = path.key("script");
            jobs::script(&path, text, findings);
            found.push((path, ValidatedProgram::Script { text: text.clone() }));
        }
        if !program.jobs.is_empty() {
            let path = path.key("jobs");
            let size = sizes.map(|sizes| sizes.size);
            let jobs = jobs::jobs(&path, &program.jobs, size, findings);
            found.push((path, ValidatedProgram::Jobs(jobs)));
        }
        if *program == Program::default() {
            findings.push(
                Finding::error(path, "none of `command`, `parallel`, `script` and `jobs`").hint(
                    "give one of them, or leave program out for a cluster that stays up until deleted",
                ),
            );
        }
    }
    let path = FieldPath::new("spec");
    if let Some(argv) = argv(&path, &spec.command, &spec.args, findings) {
        found.push((path.key("command"), ValidatedProgram::Command { argv }));
    }
    if let Some(pod) = spec.template.as_ref().and_then(|template| template.spec.as_ref())
        && let Some(at) = main_container(&pod.containers)
    {
        let main = &pod.containers[at];
        let path = FieldPath::new("spec.template.spec.containers").index(at);
        let command = main.command.clone().unwrap_or_default();
        let args = main.args.clone().unwrap_or_default();
        if let Some(argv) = argv(&path, &command, &args, findings) {
            found.push((path.key("command"), ValidatedProgram::Command { argv }));
        }
    }

    if let [first, second, ..] = found.as_slice() {
        // The API server cannot point to an item of a list for this, and both are to say the same.
        let (at, message) = if second.0.to_string().starts_with("spec.template.") {
            (&first.0, "two programs at once: the main container has a command too".to_owned())
        } else {
            (&second.0, format!("two programs at once: {} is there too", first.0))
        };
        findings.push(Finding::error(at.clone(), message).hint(
            "keep one of them; command and args outside of program are short for program.command",
        ));
    }
    if findings.0.len() > before {
        return None;
    }
    Some(found.pop().map_or(ValidatedProgram::None, |(_, program)| program))
}

/// The argument list of `command` and `args` under `path`; `None` when both are empty.
pub(super) fn argv(
    path: &FieldPath,
    command: &[String],
    args: &[String],
    findings: &mut Findings,
) -> Option<Vec<String>> {
    let Some(program) = command.first() else {
        if !args.is_empty() {
            findings.push(
                Finding::error(path.key("args"), "arguments without a command").hint(
                    "name the program in command: the agent starts it, and it cannot know the image's entrypoint",
                ),
            );
        }
        return None;
    };
    if program.is_empty() {
        findings.push(
            Finding::error(path.key("command").index(0), "the program's name is empty")
                .hint("name the program, for example `command: [./hello]`"),
        );
    }
    for (field, list) in [("command", command), ("args", args)] {
        if let Some(at) = list.iter().position(|word| word.contains('\0')) {
            findings.push(
                Finding::error(
                    path.key(field).index(at),
                    "an argument cannot hold a NUL character",
                )
                .hint("take it out"),
            );
        }
    }
    Some(command.iter().chain(args).cloned().collect())
}

fn parallel(
    path: &FieldPath,
    wanted: &Parallel,
    sizes: Option<&Sizes>,
    findings: &mut Findings,
) -> ValidatedParallel {
    if wanted.command.is_empty() {
        findings.push(
            Finding::error(path.key("command"), "empty")
                .hint("name the program of each rank, for example `command: [./hello]`"),
        );
    }
    let command = if wanted.command.is_empty() {
        Vec::new()
    } else {
        argv(path, &wanted.command, &wanted.args, findings).unwrap_or_default()
    };
    let before = findings.0.len();
    let mut count = |field: &str, value: Option<i32>| {
        value.map(|value| number_at(findings, path.key(field), value, 1, i32::MAX))
    };
    let parallel = ValidatedParallel {
        argv: command,
        tasks: count("tasks", wanted.tasks),
        tasks_per_node: count("tasksPerNode", wanted.tasks_per_node),
        cpus_per_task: count("cpusPerTask", wanted.cpus_per_task),
        oversubscribe: wanted.oversubscribe,
        label_io: wanted.label_io,
        env: wanted.env.iter().map(|v| (v.name.clone(), v.value.clone())).collect(),
        working_dir: wanted.working_dir.clone(),
        mpi: wanted.mpi,
    };
    let numbers_are_good = findings.0.len() == before;
    variables(path, &wanted.env, findings);
    if let Some(sizes) = sizes.filter(|_| numbers_are_good) {
        room(path, &parallel, sizes, findings);
    }
    parallel
}

/// Variables with plain values: good names, each once.
pub(super) fn variables(path: &FieldPath, env: &[Variable], findings: &mut Findings) {
    for (at, variable) in env.iter().enumerate() {
        variable_name(&path.key("env").index(at), &variable.name, findings);
        if env[..at].iter().any(|other| other.name == variable.name) {
            findings.push(
                Finding::error(
                    path.key("env").index(at),
                    format!("`{}` is there twice", variable.name),
                )
                .hint("keep one of them"),
            );
        }
    }
}

/// A variable's name must be one that Kubernetes and `execve` take.
pub(super) fn variable_name(path: &FieldPath, name: &str, findings: &mut Findings) {
    if !is_variable(name) {
        findings.push(
            Finding::error(path.key("name"), format!("`{name}` is not the name of a variable"))
                .hint("use printable characters without `=`, at least one"),
        );
    }
}

/// Whether the tasks have room. Slots that follow the pods' CPUs are not known here; the agent
/// judges those when it starts the program.
fn room(path: &FieldPath, wanted: &ValidatedParallel, sizes: &Sizes, findings: &mut Findings) {
    let takers: Vec<_> = sizes.groups.iter().filter(|group| group.slots != Some(0)).collect();
    let pods: u64 = takers.iter().map(|group| u64::from(group.size)).sum();
    if pods == 0 {
        findings.push(
            Finding::error(path.clone(), "no pod takes tasks: all slots are 0")
                .hint("add workers, or give the launcher slots"),
        );
        return;
    }
    if let (Some(tasks), Some(each)) = (wanted.tasks, wanted.tasks_per_node)
        && u64::from(tasks) > u64::from(each) * pods
    {
        findings.push(
            Finding::error(
                path.key("tasks"),
                format!(
                    "{tasks} is more than tasksPerNode {each} on {pods} pods = {}",
                    u64::from(each) * pods
                ),
            )
            .hint("raise tasksPerNode or the size, or leave one of tasks and tasksPerNode out"),
        );
        return;
    }
    if wanted.oversubscribe {
        return;
    }
    let way_out = "ask for fewer, raise slots, or set oversubscribe: true";
    if let Some(each) = wanted.tasks_per_node {
        let small = takers.iter().find(|group| group.slots.is_some_and(|slots| slots < each));
        if let Some((group, slots)) = small.and_then(|group| Some((group, group.slots?))) {
            findings.push(
                Finding::error(
                    path.key("tasksPerNode"),
                    format!(
                        "{each} is more than the {slots} slots of each pod of `{}`",
                        group.name
                    ),
                )
                .hint(way_out),
            );
        }
        return;
    }
    let capacity: Option<u64> = takers
        .iter()
        .map(|group| group.slots.map(|slots| u64::from(slots) * u64::from(group.size)))
        .sum();
    if let (Some(tasks), Some(capacity)) = (wanted.tasks, capacity)
        && u64::from(tasks) > capacity
    {
        let parts: Vec<String> = takers
            .iter()
            .map(|group| format!("{} {} × {}", group.name, group.size, group.slots.unwrap_or(0)))
            .collect();
        findings.push(
            Finding::error(
                path.key("tasks"),
                format!("{tasks} is more than the {capacity} slots of the cluster"),
            )
            .hint(format!("{way_out}; the slots are {}", parts.join(", "))),
        );
    }
}
