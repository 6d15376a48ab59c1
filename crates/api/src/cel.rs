//! The rules that the API server runs (CEL, KEP-2876): those of `crate::validate` that span fields.
//! Ranges and patterns are in the schema itself. Messages name what is wrong and the way out;
//! [`figures`] are in those that have something to count.
//!
//! The API server makes the schema of all fields of an object anew for each field that a rule asks for, and again
//! if it is there (Kubernetes 1.36, `cel/model.Structural.Properties`), which is most of what a rule costs it.
//! So each asks first for a field that few objects have.
//!
//! What these cannot see, such as two overlays that only together break a rule, is refused by
//! `crate::validate` with the condition `Accepted` = False.

pub(crate) mod figures;

use kube::core::Rule;

use crate::names::{BUDGET, MAX_SIZE, RESERVED_DOMAINS};

/// Sizes of the groups that are written.
const GROUPS: &str = "self.groups.map(g, g.size)";
/// `spec.size`, or what it is without being written.
const SIZE: &str =
    "(has(self.size) ? self.size : 1 + (has(self.groups) ? self.groups.map(g, g.size).sum() : 0))";
/// `spec.maxSize`, or what it is without being written.
const MAX: &str = "(has(self.maxSize) ? self.maxSize : has(self.size) ? self.size : \
     1 + (has(self.groups) ? self.groups.map(g, g.size).sum() : 0))";
/// Slots of the launcher; -1 when its CPUs decide.
const LAUNCHER_SLOTS: &str = "(has(self.launcher) && has(self.launcher.slots) ? self.launcher.slots : \
     has(self.slots) ? self.slots : -1)";

pub(crate) fn min_size() -> Rule {
    Rule::new(format!("!has(self.minSize) || self.minSize <= {SIZE}"))
        .message("minSize is more than size: set minSize to at most size, or raise size")
        .field_path(".minSize")
}

pub(crate) fn max_size() -> Rule {
    Rule::new(format!("!has(self.maxSize) || self.maxSize >= {SIZE}"))
        .message("maxSize is less than size: set maxSize to at least size, or leave it out")
        .field_path(".maxSize")
}

pub(crate) fn growth() -> Rule {
    Rule::new(format!("!has(self.maxSize) || self.maxSize <= {SIZE} || {SIZE} >= 2"))
        .message("a cluster that may grow starts with at least one worker: set size to 2 or more")
        .field_path(".maxSize")
}

pub(crate) fn groups_fill_size() -> Rule {
    Rule::new(
        "!has(self.groups) || !has(self.size) || self.groups.size() == 0 || \
         self.size == 1 + self.groups.map(g, g.size).sum()",
    )
    .message("size is not 1 launcher + the sizes of groups: leave size out, or set it to the sum")
    .field_path(".size")
}

pub(crate) fn groups_fit() -> Rule {
    // Without groups it is `size`, whose own bound says so.
    Rule::new(format!("!has(self.groups) || {SIZE} <= {MAX_SIZE}"))
        .message("the groups have more than 100000 pods together: make them smaller")
        .field_path(".groups")
}

/// Whether a program stands in `command`, or in the field of `program`.
const COMMAND: &str = "(has(self.command) && self.command.size() > 0)";

/// Whether a field of `object` that holds a program is there.
fn has_program(object: &str, field: &str) -> String {
    match field {
        "command" | "jobs" => {
            format!("(has({object}.{field}) && {object}.{field}.size() > 0)")
        }
        _ => format!("has({object}.{field})"),
    }
}

fn in_program(field: &str) -> String {
    format!("(has(self.program) && {})", has_program("self.program", field))
}

fn beside(field: &str) -> String {
    format!("two programs at once: spec.program.{field} is there too; keep one of them")
}

/// `spec.command` beside a program in a field of `spec.program`.
pub(crate) fn command_or(field: &str) -> Rule {
    Rule::new(format!("!{} || !{COMMAND}", in_program(field)))
        .message(beside(field).as_str())
        .field_path(".command")
}

/// A program and the main container's own; the path is the program's, since no rule can name an item
/// of a list.
fn alone(program: &str, path: &str) -> Rule {
    Rule::new(format!(
        "!has(self.template) || !{program} || !has(self.template.spec) || \
         !has(self.template.spec.containers) || \
         self.template.spec.containers.all(c, c.name != 'main' || !has(c.command))"
    ))
    .message("two programs at once: the main container has a command too; keep one of them")
    .field_path(path)
}

pub(crate) fn command_alone() -> Rule {
    alone(COMMAND, ".command")
}

pub(crate) fn alone_in_program(field: &str) -> Rule {
    alone(&in_program(field), &format!(".program.{field}"))
}

pub(crate) fn args_with_command() -> Rule {
    Rule::new("!has(self.args) || self.args.size() == 0 || (has(self.command) && self.command.size() > 0)")
        .message("arguments without a command: name the program in command, the image's entrypoint is not used")
        .field_path(".args")
}

/// Without a program of any kind.
fn no_program() -> String {
    format!(
        "!has(self.program) && !{COMMAND} && (!has(self.template) || !has(self.template.spec) || \
         !has(self.template.spec.containers) || \
         self.template.spec.containers.all(c, c.name != 'main' || !has(c.command)))"
    )
}

/// Fields of the queue that only a cluster without a program may have.
fn of_queue_alone(field: &str) -> Rule {
    Rule::new(format!("!has(self.queue) || !has(self.queue.{field}) || ({})", no_program()))
        .message("the queue of a cluster with a program ends with it: leave it out, or the program")
        .field_path(format!(".queue.{field}"))
}

pub(crate) fn idle_without_program() -> Rule {
    of_queue_alone("idleTimeoutSeconds")
}

pub(crate) fn state_without_program() -> Rule {
    of_queue_alone("stateVolume")
}

/// On `spec.program`.
pub(crate) fn some_program() -> Rule {
    let any = ["command", "parallel", "script", "jobs"].map(|field| has_program("self", field));
    Rule::new(format!("{} || has(self.args)", any.join(" || "))).message(
        "none of `command`, `parallel`, `script` and `jobs`: give one of them, or leave program out \
         for a cluster that stays up until deleted",
    )
}

/// On `spec.program`: two fields that both hold a program.
pub(crate) fn two_in_program(first: &str, second: &str) -> Rule {
    Rule::new(format!("!{} || !{}", has_program("self", first), has_program("self", second)))
        .message(beside(first).as_str())
        .field_path(format!(".{second}"))
}

/// Slots of a group; -1 when its CPUs decide.
const GROUP_SLOTS: &str = "(has(g.slots) ? g.slots : has(self.slots) ? self.slots : -1)";

/// Slots of the cluster, where all are known.
fn slots_of_all() -> String {
    format!(
        "{LAUNCHER_SLOTS} + (has(self.groups) && self.groups.size() > 0 ? \
         self.groups.map(g, g.size * {GROUP_SLOTS}).sum() : \
         {SIZE} > 1 ? ({SIZE} - 1) * self.slots : 0)"
    )
}

pub(crate) fn tasks_have_slots() -> Rule {
    let slots = slots_of_all();
    let known = format!(
        "{LAUNCHER_SLOTS} >= 0 && (has(self.groups) && self.groups.size() > 0 ? \
         self.groups.all(g, {GROUP_SLOTS} >= 0) : {SIZE} == 1 || has(self.slots))"
    );
    Rule::new(format!(
        "!has(self.program) || !has(self.program.parallel) || !has(self.program.parallel.tasks) || \
         has(self.program.parallel.tasksPerNode) || self.program.parallel.oversubscribe || \
         !({known}) || self.program.parallel.tasks <= {slots}"
    ))
    .message("more tasks than slots: ask for fewer, raise slots, or set oversubscribe: true")
    .field_path(".program.parallel.tasks")
}

pub(crate) fn host_ports() -> Rule {
    let host = |template: &str| {
        format!(
            "(has({template}.spec) && has({template}.spec.hostNetwork) && {template}.spec.hostNetwork)"
        )
    };
    let base = host("self.template");
    let launcher = host("self.launcher.template");
    let group = host("g.template");
    Rule::new(format!(
        "!((has(self.template) && {base}) || \
         (has(self.launcher) && has(self.launcher.template) && {launcher}) || \
         (has(self.groups) && self.groups.exists(g, has(g.template) && {group}))) || \
         self.bootstrap.port + {MAX} <= 65536"
    ))
    .message(
        "with host networking rank r listens on port + r, and the last one is beyond 65535: set a \
         lower port",
    )
    .field_path(".bootstrap.port")
}

pub(crate) fn replace() -> Rule {
    Rule::new(
        "!has(self.program) || !has(self.program.parallel) || !has(self.failurePolicy) || \
         !has(self.failurePolicy.onWorkerLost) || self.failurePolicy.onWorkerLost != 'Replace'",
    )
    .message("a parallel program cannot go on without a rank: set onWorkerLost to Restart or Fail")
    .field_path(".failurePolicy.onWorkerLost")
}

/// As in a Job: who is in charge is decided once.
pub(crate) fn managed_by() -> Rule {
    Rule::new(
        "has(self.managedBy) == has(oldSelf.managedBy) && \
         (!has(self.managedBy) || self.managedBy == oldSelf.managedBy)",
    )
    .message("managedBy cannot be changed: make a new MiniCluster")
    .field_path(".managedBy")
}

pub(crate) fn topology_has_workers() -> Rule {
    Rule::new(format!("!has(self.topology) || {SIZE} >= 2"))
        .message(
            "a topology places workers, and there are none: set size to 2 or more, or leave topology \
             out",
        )
        .field_path(".topology")
}

pub(crate) fn topology_groups_are_full() -> Rule {
    Rule::new(format!(
        "!has(self.topology) || !has(self.topology.groupSize) || \
         (has(self.groups) && self.groups.size() > 0 ? \
         self.groups.all(g, g.size % self.topology.groupSize == 0) : \
         ({SIZE} - 1) % self.topology.groupSize == 0)"
    ))
    .message(
        "workers are left over: make each worker group a multiple of groupSize, or leave groupSize \
         out",
    )
    .field_path(".topology.groupSize")
}

pub(crate) fn topology_groups_do_not_grow() -> Rule {
    Rule::new(format!(
        "!has(self.topology) || !has(self.topology.groupSize) || self.topology.groupSize == 1 || \
         !has(self.maxSize) || self.maxSize <= {SIZE}"
    ))
    .message(
        "a cluster with topology groups cannot grow, since their Jobs are planned once: leave \
         maxSize out, or topology.groupSize",
    )
    .field_path(".maxSize")
}

/// On `spec.topology`.
pub(crate) fn topology_says_something() -> Rule {
    Rule::new("self.exclusive || !has(self.groupSize) || self.groupSize > 1")
        .message(
            "groups of one pod that may share a domain ask for nothing: set exclusive to true, or \
             another groupSize",
        )
        .field_path(".groupSize")
}

pub(crate) fn image() -> Rule {
    let image = |template: &str| {
        format!(
            "has({template}.spec) && has({template}.spec.containers) && \
             {template}.spec.containers.exists(c, has(c.image))"
        )
    };
    let base = image("self.template");
    let launcher = image("self.launcher.template");
    let group = image("g.template");
    Rule::new(format!(
        "has(self.image) || (has(self.template) && {base}) || \
         ((has(self.launcher) && has(self.launcher.template) && {launcher}) && \
         (!has(self.groups) || self.groups.all(g, has(g.template) && {group})))"
    ))
    .message("missing: name the image that has your program; none of ours is needed in it")
    .field_path(".image")
}

/// On the whole object. Metadata is not part of the schema, so the rule can name no field path.
pub(crate) fn name() -> Rule {
    Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')").message(
        "metadata.name is not a name that pods can carry: use lower-case letters, digits and -, a \
             letter first",
    )
}

/// Characters that the names of pods have beyond their budget (`crate::names`), at most.
fn budget_overrun() -> String {
    let digits = |pods: &str| {
        format!(
            "({pods} <= 10 ? 1 : {pods} <= 100 ? 2 : {pods} <= 1000 ? 3 : {pods} <= 10000 ? 4 : 5)"
        )
    };
    let size = SIZE.replace("self.", "self.spec.");
    let max = MAX.replace("self.", "self.spec.");
    let last = "self.spec.groups[self.spec.groups.size() - 1]";
    format!(
        "size(self.metadata.name) + ([10] + (has(self.spec.groups) && self.spec.groups.size() > 0 ? \
         self.spec.groups.map(g, size(g.name) + 1 + {each}) + [size({last}.name) + 1 + {grown}] : \
         {max} == 1 ? [10] : [7 + {default}])).max() - {BUDGET}",
        each = digits("g.size"),
        grown = digits(&format!("({last}.size + {max} - {size})")),
        default = digits(&format!("({max} - 1)")),
    )
}

/// On the whole object: names of pods have 63 characters at most (`crate::names`).
pub(crate) fn name_budget() -> Rule {
    let (own, overrun) = ("size(self.metadata.name)", budget_overrun());
    // Without groups the largest cluster adds `-worker-0-` and the digits of its largest index.
    let most = BUDGET - 7 - 5;
    Rule::new(format!("(!has(self.spec.groups) && {own} <= {most}) || {overrun} <= 0")).message(
        "metadata.name is too long: names of pods, made of it, the group and the largest index, \
             have 63 characters at most; shorten the name or the group",
    )
}

/// On a group.
pub(crate) fn group_name() -> Rule {
    Rule::new("self.name != 'launcher'")
        .message(
            "`launcher` is the name of rank 0's own group: take another name; what is special about \
             the launcher goes to spec.launcher",
        )
        .field_path(".name")
}

/// On a pod template, whole or overlay.
pub(crate) fn of_template() -> Vec<Rule> {
    let mut rules = vec![
        Rule::new(
            "!has(self.spec) || !has(self.spec.restartPolicy) || self.spec.restartPolicy == 'Never'",
        )
        .message(
            "pods of a cluster are replaced, not restarted in place: leave it out; \
             failurePolicy.maxRestarts restarts the cluster",
        )
        .field_path(".spec.restartPolicy"),
        Rule::new("!has(self.spec) || !has(self.spec.hostname)")
            .message("pods of a cluster get their names from their ranks: leave it out")
            .field_path(".spec.hostname"),
        Rule::new("!has(self.spec) || !has(self.spec.subdomain)")
            .message("the subdomain is one for the whole cluster: set spec.network.subdomain")
            .field_path(".spec.subdomain"),
    ];
    for (field, message) in [
        ("labels", "labels of quorate.dev, JobSet and Job are set by their owners: leave them out"),
        (
            "annotations",
            "annotations of quorate.dev, JobSet and Job are set by their owners: leave them out",
        ),
    ] {
        let domains = RESERVED_DOMAINS.map(|domain| format!("key.startsWith('{domain}/')"));
        rules.push(
            Rule::new(format!(
                "!has(self.metadata) || !has(self.metadata.{field}) || \
                 !self.metadata.{field}.exists(key, {})",
                domains.join(" || ")
            ))
            .message(message)
            .field_path(format!(".metadata.{field}")),
        );
    }
    rules
}

/// On each container of a pod template: only there a path can name the item.
pub(crate) fn of_container(overlay: bool) -> Vec<Rule> {
    let mut rules = vec![
        Rule::new("self.name != 'main' || !has(self.readinessProbe)")
            .message(
                "a pod of a cluster is ready when its broker is connected: leave it out, or move it \
                 to a side-car",
            )
            .field_path(".readinessProbe"),
        Rule::new("!self.name.startsWith('quorate-')")
            .message("names with `quorate-` are those of the agent's containers: take another name")
            .field_path(".name"),
    ];
    if overlay {
        rules.push(
            Rule::new("self.name != 'main' || (!has(self.command) && !has(self.args))")
                .message("the program is one for the whole cluster: move it to spec.program")
                .field_path(".command"),
        );
    }
    rules
}

/// On each volume of a pod template.
pub(crate) fn of_volume() -> Vec<Rule> {
    vec![
        Rule::new("!self.name.startsWith('quorate-')")
            .message("names with `quorate-` are those of the agent's volumes: take another name")
            .field_path(".name"),
    ]
}
