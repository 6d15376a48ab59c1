//! The rules of pod templates: what the agent needs for itself, and what a Job would refuse later.

use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec, PodTemplateSpec};

use super::program::variable_name;
use super::{Findings, Target};
use crate::finding::{FieldPath, Finding};
use crate::minicluster::MiniClusterSpec;
use crate::names::RESERVED_DOMAINS;
use crate::template::merge::{base, overlay};
use crate::template::{main_container, main_of};

/// A template with everything laid over it.
pub(super) struct Merged {
    pub(super) template: PodTemplateSpec,
    pub(super) main: usize,
}

/// The templates of all groups.
pub(super) struct MergedTemplates {
    /// For workers of no group of the user's.
    pub(super) base: Merged,
    pub(super) launcher: Merged,
    /// In the order of `spec.groups`.
    pub(super) groups: Vec<Merged>,
}

/// Variables that the agent reads; the plan sets them.
const RESERVED_VARIABLES: [&str; 8] = [
    "JOB_COMPLETION_INDEX",
    "QUORATE_JOB_INDEX",
    "QUORATE_GROUP",
    "QUORATE_ATTEMPT",
    "QUORATE_POD_NAME",
    "QUORATE_POD_UID",
    "QUORATE_POD_IP",
    "QUORATE_NODE_NAME",
];
/// Where the agent's volumes are mounted.
pub const RESERVED_DIR: &str = "/quorate";
/// How names of the plan's volumes and containers begin.
pub const RESERVED_PREFIX: &str = "quorate-";

/// Merges all templates and checks them, each finding at the template that it comes from.
pub(super) fn check(
    spec: &MiniClusterSpec,
    target: Target,
    findings: &mut Findings,
) -> MergedTemplates {
    for (at, variable) in spec.env.iter().enumerate() {
        env(&FieldPath::new("spec.env"), at, &spec.env, variable, findings);
    }
    let base = merged(base(spec));
    let path = FieldPath::new("spec.template");
    if let Some(own) = &spec.template {
        template(&path, own, &base, target, findings);
    }
    let launcher_path = FieldPath::new("spec.launcher.template");
    let upper = spec.launcher.as_ref().and_then(|launcher| launcher.template.as_ref());
    let launcher = laid_over(&base, upper, &launcher_path, target, findings);
    let groups: Vec<Merged> = spec
        .groups
        .iter()
        .enumerate()
        .map(|(at, group)| {
            let path = FieldPath::new("spec.groups").index(at).key("template");
            laid_over(&base, group.template.as_ref(), &path, target, findings)
        })
        .collect();
    whole(&path, &base, findings);
    images(&base, &launcher, &groups, target, findings);
    MergedTemplates { base, launcher, groups }
}

fn merged(template: PodTemplateSpec) -> Merged {
    let main = template.spec.as_ref().and_then(|pod| main_container(&pod.containers)).unwrap_or(0);
    Merged { template, main }
}

fn laid_over(
    base: &Merged,
    upper: Option<&PodTemplateSpec>,
    path: &FieldPath,
    target: Target,
    findings: &mut Findings,
) -> Merged {
    let Some(upper) = upper else {
        return Merged { template: base.template.clone(), main: base.main };
    };
    let result = merged(overlay(&base.template, upper));
    template(path, upper, &result, target, findings);
    let main = main_of(&result.template).map(|main| main.name.clone()).unwrap_or_default();
    for (at, container) in containers(upper).iter().enumerate() {
        if container.name == main && (container.command.is_some() || container.args.is_some()) {
            findings.push(
                Finding::error(
                    path.then("spec.containers").index(at).key("command"),
                    "the program is one for the whole cluster",
                )
                .hint("move it to spec.program"),
            );
        }
    }
    whole(path, &result, findings);
    result
}

fn containers(template: &PodTemplateSpec) -> &[Container] {
    template.spec.as_ref().map_or(&[], |pod| &pod.containers)
}

/// What one template of the user's says, seen with what it becomes.
fn template(
    path: &FieldPath,
    own: &PodTemplateSpec,
    becomes: &Merged,
    target: Target,
    findings: &mut Findings,
) {
    reserved_keys(path, own, findings);
    let Some(pod) = &own.spec else { return };
    let path = path.key("spec");
    pod_fields(&path, pod, findings);
    let main = containers(&becomes.template).get(becomes.main).map(|main| main.name.as_str());
    for (at, container) in pod.containers.iter().enumerate() {
        let path = path.key("containers").index(at);
        container_fields(&path, container, findings);
        if Some(container.name.as_str()) == main {
            main_fields(&path, container, findings);
        } else {
            image_of_other(&path, container, becomes, target, findings);
        }
    }
    for (at, container) in pod.init_containers.iter().flatten().enumerate() {
        let path = path.key("initContainers").index(at);
        container_fields(&path, container, findings);
        image_of_other(&path, container, becomes, target, findings);
    }
    let init = pod.init_containers.iter().flatten().map(|c| c.name.as_str());
    let names: Vec<&str> = pod.containers.iter().map(|c| c.name.as_str()).chain(init).collect();
    twice(&path.key("containers"), "container", &names, findings);
    let names: Vec<&str> = pod.volumes.iter().flatten().map(|v| v.name.as_str()).collect();
    twice(&path.key("volumes"), "volume", &names, findings);
    for (at, volume) in pod.volumes.iter().flatten().enumerate() {
        if volume.name.starts_with(RESERVED_PREFIX) {
            findings.push(
                Finding::error(
                    path.key("volumes").index(at).key("name"),
                    format!("names with `{RESERVED_PREFIX}` are those of the agent's volumes"),
                )
                .hint("take another name"),
            );
        }
    }
}

/// Containers besides the main one have no shorthand to take an image from.
fn image_of_other(
    path: &FieldPath,
    container: &Container,
    becomes: &Merged,
    target: Target,
    findings: &mut Findings,
) {
    let Some(pod) = &becomes.template.spec else { return };
    let mut all = pod.containers.iter().chain(pod.init_containers.iter().flatten());
    let has_image = all.any(|other| other.name == container.name && other.image.is_some());
    if !has_image && !container.name.is_empty() {
        let hint = format!("name the image of `{}`", container.name);
        no_image(path.key("image"), &hint, target, findings);
    }
}

/// Names that a pod may have once only.
fn twice(path: &FieldPath, what: &str, names: &[&str], findings: &mut Findings) {
    for (at, name) in names.iter().enumerate() {
        if !name.is_empty() && names[..at].contains(name) {
            findings.push(
                Finding::error(path.clone(), format!("a second {what} named `{name}`"))
                    .hint("give each its own name"),
            );
        }
    }
}

/// Labels and annotations that controllers give a meaning.
fn reserved_keys(path: &FieldPath, own: &PodTemplateSpec, findings: &mut Findings) {
    let Some(metadata) = &own.metadata else { return };
    let labels = metadata.labels.iter().flatten().map(|(key, _)| ("metadata.labels", key));
    let annotations =
        metadata.annotations.iter().flatten().map(|(key, _)| ("metadata.annotations", key));
    for (field, key) in labels.chain(annotations) {
        let owner = key.split_once('/').map_or("", |(domain, _)| domain);
        if owner == "alpha.jobset.sigs.k8s.io" {
            // It would give the launcher a domain of its own, and its pods wait for each other's nodes.
            findings.push(
                Finding::error(
                    path.then(field).key(key),
                    "exclusive placement by JobSet does not work with a launcher",
                )
                .hint("leave it out, and set spec.topology with exclusive: true"),
            );
        } else if RESERVED_DOMAINS.contains(&owner) {
            findings.push(
                Finding::error(
                    path.then(field).key(key),
                    format!("keys of {owner} are set by their owner"),
                )
                .hint("leave it out"),
            );
        }
    }
}

fn pod_fields(path: &FieldPath, pod: &PodSpec, findings: &mut Findings) {
    if pod.restart_policy.as_deref().is_some_and(|policy| policy != "Never") {
        findings.push(
            Finding::error(
                path.key("restartPolicy"),
                "pods of a cluster are replaced, not restarted in place",
            )
            .hint("leave it out; failurePolicy.maxRestarts restarts the cluster"),
        );
    }
    if pod.hostname.is_some() {
        findings.push(
            Finding::error(
                path.key("hostname"),
                "pods of a cluster get their names from their ranks",
            )
            .hint("leave it out"),
        );
    }
    if pod.subdomain.is_some() {
        findings.push(
            Finding::error(path.key("subdomain"), "the subdomain is one for the whole cluster")
                .hint("set spec.network.subdomain"),
        );
    }
}

fn container_fields(path: &FieldPath, container: &Container, findings: &mut Findings) {
    if container.name.is_empty() {
        findings.push(
            Finding::error(path.key("name"), "missing")
                .hint("name the container; the one that runs the program is called `main`"),
        );
    } else if container.name.starts_with(RESERVED_PREFIX) {
        findings.push(
            Finding::error(
                path.key("name"),
                format!("names with `{RESERVED_PREFIX}` are those of the agent's containers"),
            )
            .hint("take another name"),
        );
    }
    let variables = container.env.as_deref().unwrap_or_default();
    for (at, variable) in variables.iter().enumerate() {
        env(&path.key("env"), at, variables, variable, findings);
    }
}

fn env(path: &FieldPath, at: usize, all: &[EnvVar], variable: &EnvVar, findings: &mut Findings) {
    let path = path.index(at);
    variable_name(&path, &variable.name, findings);
    if RESERVED_VARIABLES.contains(&variable.name.as_str()) {
        findings.push(
            Finding::error(path.key("name"), format!("`{}` is set for the agent", variable.name))
                .hint("leave it out; programs may read it"),
        );
    }
    if variable.value.as_ref().is_some_and(|value| !value.is_empty())
        && variable.value_from.is_some()
    {
        findings.push(
            Finding::error(path.key("value"), "a variable has either `value` or `valueFrom`")
                .hint("keep one of them"),
        );
    }
    if all[..at].iter().any(|other| other.name == variable.name) {
        findings.push(
            // As the API server says it: the item as a whole is the other's double.
            Finding::error(path, format!("`{}` is there twice", variable.name))
                .hint("keep one of them"),
        );
    }
}

/// What the main container cannot have, because the agent needs it.
fn main_fields(path: &FieldPath, main: &Container, findings: &mut Findings) {
    if main.readiness_probe.is_some() {
        findings.push(
            Finding::error(
                path.key("readinessProbe"),
                "a pod of a cluster is ready when its broker is connected",
            )
            .hint("leave it out, or move it to a side-car; liveness and startup probes are yours"),
        );
    }
    if main.termination_message_path.as_deref().is_some_and(|path| path != "/dev/termination-log") {
        findings.push(
            Finding::error(path.key("terminationMessagePath"), "the agent leaves its report there")
                .hint("leave it out"),
        );
    }
    for (at, mount) in main.volume_mounts.iter().flatten().enumerate() {
        let dir = mount.mount_path.trim_end_matches('/');
        if dir == RESERVED_DIR || dir.starts_with("/quorate/") {
            findings.push(
                Finding::error(
                    path.key("volumeMounts").index(at).key("mountPath"),
                    format!("`{RESERVED_DIR}` belongs to the agent"),
                )
                .hint("mount it elsewhere"),
            );
        }
    }
}

/// What only the merged template shows: mounts of volumes that are nowhere.
fn whole(path: &FieldPath, merged: &Merged, findings: &mut Findings) {
    let Some(pod) = &merged.template.spec else { return };
    let known: Vec<&str> = pod.volumes.iter().flatten().map(|v| v.name.as_str()).collect();
    let all =
        [("containers", Some(&pod.containers)), ("initContainers", pod.init_containers.as_ref())];
    for (field, containers) in all {
        for (at, container) in containers.into_iter().flatten().enumerate() {
            let lists = [
                (
                    "volumeMounts",
                    container.volume_mounts.iter().flatten().map(|m| &m.name).collect::<Vec<_>>(),
                ),
                (
                    "volumeDevices",
                    container.volume_devices.iter().flatten().map(|d| &d.name).collect(),
                ),
            ];
            for (list, names) in lists {
                for (item, name) in names.into_iter().enumerate() {
                    if known.contains(&name.as_str()) {
                        continue;
                    }
                    let path =
                        path.key("spec").key(field).index(at).key(list).index(item).key("name");
                    let finding = Finding::error(path, format!("there is no volume `{name}`"))
                        .hint("add it to volumes, or leave the mount out");
                    // The base is part of every template: one finding is enough.
                    if !findings.0.iter().any(|old| old.message == finding.message) {
                        findings.push(finding);
                    }
                }
            }
        }
    }
}

/// On Kubernetes every main container needs an image.
fn images(
    base: &Merged,
    launcher: &Merged,
    groups: &[Merged],
    target: Target,
    findings: &mut Findings,
) {
    let workers = if groups.is_empty() { std::slice::from_ref(base) } else { groups };
    let lacks = std::iter::once(launcher).chain(workers).any(|merged| {
        containers(&merged.template)
            .get(merged.main)
            .is_none_or(|main| main.image.as_deref().unwrap_or("").is_empty())
    });
    if lacks {
        no_image(
            FieldPath::new("spec.image"),
            "name the image that has your program, none of ours is needed in it; only `quorate run` \
             on one machine does without",
            target,
            findings,
        );
    }
}

/// A missing image is wrong on Kubernetes, a warning where nobody has decided, and nothing here.
fn no_image(path: FieldPath, hint: &str, target: Target, findings: &mut Findings) {
    match target {
        Target::Kubernetes => findings.push(Finding::error(path, "missing").hint(hint)),
        Target::Any => {
            findings.push(Finding::warning(path, "missing: Kubernetes needs it").hint(hint));
        }
        Target::Local => {}
    }
}
