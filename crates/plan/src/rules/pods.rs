//! Rules of a pod template in a JobSet: what would keep its Job from making pods.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::JobSpec;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Rules;

pub(super) fn check(job: &JobSpec, path: &str, rules: &mut Rules) {
    keys(job.template.metadata.as_ref(), &format!("{path}.template.metadata"), rules);
    let path = format!("{path}.template.spec");
    let Some(pod) = &job.template.spec else {
        return rules.check(false, path, "set");
    };
    rules.check(
        pod.restart_policy.as_deref() == Some("Never"),
        format!("{path}.restartPolicy"),
        "Never: the webhook's default loses pods at the back-off limit and excludes a pod failure policy",
    );
    rules.check(
        pod.hostname.is_none() && pod.subdomain.is_none(),
        format!("{path}.hostname"),
        "not set, as subdomain: JobSet sets them",
    );
    rules.check(!pod.containers.is_empty(), format!("{path}.containers"), "at least one");
    containers(pod, &path, rules);
    let mut names = BTreeSet::new();
    for (at, volume) in pod.volumes.iter().flatten().enumerate() {
        let path = format!("{path}.volumes[{at}].name");
        rules.check(names.insert(volume.name.as_str()), path, "unique");
    }
}

fn containers(pod: &PodSpec, path: &str, rules: &mut Rules) {
    let volumes: BTreeSet<&str> = pod.volumes.iter().flatten().map(|v| v.name.as_str()).collect();
    let mut names = BTreeSet::new();
    let init = pod.init_containers.iter().flatten().enumerate();
    let lists =
        init.map(|(at, container)| (format!("{path}.initContainers[{at}]"), container)).chain(
            pod.containers
                .iter()
                .enumerate()
                .map(|(at, container)| (format!("{path}.containers[{at}]"), container)),
        );
    for (path, container) in lists {
        rules.check(
            names.insert(container.name.as_str()),
            format!("{path}.name"),
            "unique in the pod",
        );
        mounts(container, &volumes, &path, rules);
    }
}

fn mounts(container: &Container, volumes: &BTreeSet<&str>, path: &str, rules: &mut Rules) {
    let mut places = BTreeSet::new();
    for (at, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let path = format!("{path}.volumeMounts[{at}]");
        rules.check(
            volumes.contains(mount.name.as_str()),
            format!("{path}.name"),
            "the name of a volume",
        );
        rules.check(
            places.insert(mount.mount_path.as_str()),
            format!("{path}.mountPath"),
            "unique in the container",
        );
    }
}

/// Labels that are no labels, and keys that JobSet and the Job controller set themselves.
pub(super) fn keys(metadata: Option<&ObjectMeta>, path: &str, rules: &mut Rules) {
    let Some(metadata) = metadata else { return };
    for (key, value) in metadata.labels.iter().flatten() {
        rules.check(
            is_label_value(value),
            format!("{path}.labels[{key}]"),
            "a label's value, at most 63 characters",
        );
    }
    let keys = metadata.labels.iter().chain(&metadata.annotations).flat_map(|map| map.keys());
    for key in keys {
        rules.check(
            !key.starts_with("jobset.sigs.k8s.io/") && !key.starts_with("batch.kubernetes.io/"),
            format!("{path}[{key}]"),
            "not set: it belongs to a controller",
        );
    }
}

fn is_label_value(value: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_alphanumeric();
    value.is_empty()
        || value.len() <= 63
            && value.starts_with(alphanumeric)
            && value.ends_with(alphanumeric)
            && value.chars().all(|c| alphanumeric(c) || "-_.".contains(c))
}
