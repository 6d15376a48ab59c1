//! What a cluster on this machine does without: images, other containers, and what schedulers and
//! kubelets do. None of it is an error; the writer should know.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

use super::Findings;
use crate::finding::{FieldPath, Finding};
use crate::minicluster::MiniClusterSpec;
use crate::template::{MAIN, main_container};

/// Fields of a pod that mean the same here, or nothing anywhere but in a Job.
const POD: [&str; 8] = [
    "containers",
    "initContainers",
    "volumes",
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "automountServiceAccountToken",
    "enableServiceLinks",
    "dnsPolicy",
];
/// Fields of the main container that mean the same here. A missing image is no fault, and a given one
/// is spoken of once.
const CONTAINER: [&str; 12] = [
    "name",
    "image",
    "imagePullPolicy",
    "command",
    "args",
    "env",
    "envFrom",
    "workingDir",
    "volumeMounts",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "stdin",
];

/// Warns of everything that has no effect on this machine.
pub(super) fn warn(spec: &MiniClusterSpec, findings: &mut Findings) {
    let from_here = "programs come from this machine's file system";
    if spec.image.is_some() {
        findings.push(
            Finding::warning(FieldPath::new("spec.image"), "not used on this machine")
                .hint(from_here),
        );
    }
    if spec.resources.is_some() {
        findings.push(
            Finding::warning(FieldPath::new("spec.resources"), "not enforced on this machine")
                .hint("pods here share its CPUs and memory"),
        );
    }
    if spec.managed_by.is_some() {
        findings.push(
            Finding::warning(FieldPath::new("spec.managedBy"), "not used on this machine")
                .hint("quorate itself is in charge here"),
        );
    }
    if spec.topology.is_some() {
        findings.push(
            Finding::warning(FieldPath::new("spec.topology"), "not played on this machine")
                .hint("all pods are on one node here; names and ranks are those of its groups"),
        );
    }
    let launcher = spec.launcher.as_ref().and_then(|launcher| launcher.template.as_ref());
    let groups = spec.groups.iter().enumerate().map(|(at, group)| {
        (FieldPath::new("spec.groups").index(at).key("template"), group.template.as_ref())
    });
    let all = [
        (FieldPath::new("spec.template"), spec.template.as_ref()),
        (FieldPath::new("spec.launcher.template"), launcher),
    ];
    for (path, template) in all.into_iter().chain(groups) {
        if let Some(template) = template {
            warn_of_template(&path, template, findings);
        }
    }
}

fn warn_of_template(path: &FieldPath, template: &PodTemplateSpec, findings: &mut Findings) {
    let Some(pod) = &template.spec else { return };
    let path = path.key("spec");
    let mut unused = fields(pod, &POD);
    let main = main_container(&pod.containers);
    for (at, container) in pod.containers.iter().enumerate() {
        // An overlay may name a side-car alone; only the container called `main` is surely the main one.
        if Some(at) == main
            && (container.name == MAIN || path == FieldPath::new("spec.template.spec"))
        {
            unused.extend(fields(container, &CONTAINER));
        } else {
            findings.push(other_container(
                path.key("containers").index(at),
                "side-car",
                &container.name,
            ));
        }
    }
    for (at, container) in pod.init_containers.iter().flatten().enumerate() {
        let path = path.key("initContainers").index(at);
        findings.push(other_container(path, "init container", &container.name));
    }
    if !unused.is_empty() {
        findings.push(
            Finding::warning(path, format!("not used on this machine: {}", unused.join(", ")))
                .hint("these matter on Kubernetes only"),
        );
    }
}

fn other_container(path: FieldPath, what: &str, name: &str) -> Finding {
    Finding::warning(path, format!("{what} `{name}` does not run on this machine"))
        .hint("only the main container's program runs here; all containers run on Kubernetes")
}

/// The fields that are set and not among the known ones.
fn fields(object: &impl serde::Serialize, known: &[&str]) -> Vec<String> {
    let value = serde_json::to_value(object).expect("pod templates are plain data");
    let Value::Object(object) = value else { return Vec::new() };
    object
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| !known.contains(&name.as_str()))
        .collect()
}
