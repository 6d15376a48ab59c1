//! The rules of metadata and of the plain fields of the spec.

use super::groups::{self, Sizes};
use super::{
    ClusterName, Findings, Queueing, Target, ValidatedMiniCluster, ValidatedProgram, hash, local,
    pods, program, queue, topology,
};
use crate::finding::{FieldPath, Finding};
use crate::minicluster::{MiniCluster, MiniClusterSpec, OnWorkerLost};
use crate::names::{POD_SET_GROUP, QUEUE_NAME, is_controller, is_dns_1035_label, is_of_kueue};
use std::collections::BTreeMap;

/// Seconds; one less is refused by the agent, since the overlay doubts a silent broker after 5.
const SHORTEST_ORPHAN_TIMEOUT: i32 = 6;

/// Runs every rule; `None` when a part is so wrong that no whole can be made.
pub(super) fn check(
    object: &MiniCluster,
    target: Target,
    findings: &mut Findings,
) -> Option<ValidatedMiniCluster> {
    let spec = &object.spec;
    let name = name(object, findings);
    let namespace = namespace(object, findings);
    let sizes = groups::sizes(spec, findings);
    groups::budget(name.as_deref(), spec, sizes.as_ref(), findings);
    let fanout = number(findings, "spec.bootstrap.fanout", spec.bootstrap.fanout, 0, 1024);
    let port = number(findings, "spec.bootstrap.port", spec.bootstrap.port, 1, 65_535);
    let timeout = number(
        findings,
        "spec.bootstrap.timeoutSeconds",
        spec.bootstrap.timeout_seconds,
        1,
        i32::MAX,
    );
    let orphan_timeout = number(
        findings,
        "spec.bootstrap.orphanTimeoutSeconds",
        spec.orphan_timeout_seconds(),
        SHORTEST_ORPHAN_TIMEOUT,
        i32::MAX,
    );
    let max_restarts = number(
        findings,
        "spec.failurePolicy.maxRestarts",
        spec.failure_policy.max_restarts,
        0,
        i32::MAX,
    );
    let ttl = spec
        .ttl_seconds_after_finished
        .map(|n| number(findings, "spec.ttlSecondsAfterFinished", n, 0, i32::MAX));
    let deadline = spec.active_deadline_seconds.map(|n| {
        let n = i32::try_from(n).unwrap_or(if n < 0 { -1 } else { i32::MAX });
        number(findings, "spec.activeDeadlineSeconds", n, 1, i32::MAX)
    });
    let subdomain = subdomain(spec, name.as_deref(), findings);
    let merged = pods::check(spec, target, findings);
    let program = program::check(spec, sizes.as_ref(), findings);
    let on_worker_lost = on_worker_lost(spec, program.as_ref(), findings);
    let queue = queue::check(spec, &merged, findings);
    let topology = topology::check(spec, sizes.as_ref(), findings);
    let queueing = queueing(object, findings);
    pod_set_group(object, sizes.as_ref(), findings);
    managed_by(spec, findings);
    host_network_ports(spec, sizes.as_ref(), findings);
    if target == Target::Local {
        local::warn(spec, findings);
    }

    if findings.refused() {
        return None;
    }
    let (name, sizes) = (name?, sizes?);
    let groups = groups::validated(&sizes, topology.as_ref(), merged);
    Some(ValidatedMiniCluster {
        namespace,
        uid: object.metadata.uid.clone(),
        size: sizes.size,
        min_size: sizes.min_size,
        max_size: sizes.max_size,
        groups,
        program: program?,
        queue,
        flavor: spec.mpi.flavor,
        fanout,
        port: u16::try_from(port).ok()?,
        timeout_seconds: timeout,
        orphan_timeout_seconds: orphan_timeout,
        max_restarts,
        on_worker_lost,
        subdomain: subdomain.unwrap_or_else(|| name.clone()),
        name: ClusterName(name),
        network_policy: spec.network.network_policy,
        topology,
        suspend: spec.suspend,
        ttl_seconds_after_finished: ttl,
        active_deadline_seconds: deadline,
        queueing,
        written: hash::fields(spec),
        warnings: Vec::new(),
    })
}

/// What a lost worker means, or what that is without being written.
fn on_worker_lost(
    spec: &MiniClusterSpec,
    program: Option<&ValidatedProgram>,
    findings: &mut Findings,
) -> OnWorkerLost {
    let asked = spec.failure_policy.on_worker_lost;
    if asked == Some(OnWorkerLost::Replace)
        && matches!(program, Some(ValidatedProgram::Parallel(_)))
    {
        findings.push(
            Finding::error(
                FieldPath::new("spec.failurePolicy.onWorkerLost"),
                "a parallel program cannot go on without a rank",
            )
            .hint("set it to Restart or Fail, or leave it out"),
        );
    }
    asked.unwrap_or(match program {
        Some(ValidatedProgram::None) => OnWorkerLost::Replace,
        _ => OnWorkerLost::Restart,
    })
}

/// What is said to Kueue. With a queue it decides when pods run, so nobody else may.
fn queueing(object: &MiniCluster, findings: &mut Findings) -> Queueing {
    let of_kueue = |map: &Option<BTreeMap<String, String>>| -> BTreeMap<String, String> {
        map.iter()
            .flatten()
            .filter(|(key, _)| is_of_kueue(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let queueing = Queueing {
        labels: of_kueue(&object.metadata.labels),
        annotations: of_kueue(&object.metadata.annotations),
    };
    if object.spec.suspend.is_some() && queueing.labels.contains_key(QUEUE_NAME) {
        findings.push(
            Finding::error(
                FieldPath::new("spec.suspend"),
                format!("the queue decides when the pods run (label {QUEUE_NAME})"),
            )
            .hint("leave suspend out; to keep the cluster away, set active: false in its Workload"),
        );
    }
    for key in ["job-min-parallelism", "elastic-job"].map(|key| format!("kueue.x-k8s.io/{key}")) {
        if queueing.annotations.contains_key(&key) {
            findings.push(
                Finding::error(
                    FieldPath::new("metadata.annotations").key(&key),
                    "Kueue admits all pods of a cluster or none",
                )
                .hint("leave it out; with minSize the program starts before all brokers are there"),
            );
        }
    }
    queueing
}

/// Kueue places two sets of pods together and no more, one of them a single pod: a launcher and one group
/// of workers. Its own refusal comes when the JobSet is made.
fn pod_set_group(object: &MiniCluster, sizes: Option<&Sizes>, findings: &mut Findings) {
    let Some(sizes) = sizes.filter(|sizes| sizes.groups.len() != 2) else { return };
    let template = object.spec.template.as_ref().and_then(|template| template.metadata.as_ref());
    let places = [
        ("metadata.annotations", object.metadata.annotations.as_ref()),
        (
            "spec.template.metadata.annotations",
            template.and_then(|metadata| metadata.annotations.as_ref()),
        ),
    ];
    for (path, annotations) in places {
        if annotations.is_some_and(|annotations| annotations.contains_key(POD_SET_GROUP)) {
            let has = match sizes.groups.len() {
                1 => "this cluster has the launcher alone".to_owned(),
                groups => format!("this cluster has {} groups of workers", groups - 1),
            };
            findings.push(
                Finding::error(
                    FieldPath::new(path).key(POD_SET_GROUP),
                    format!("Kueue places one launcher and one group of workers together; {has}"),
                )
                .hint("leave it out, or have exactly one group of workers"),
            );
        }
    }
}

fn managed_by(spec: &MiniClusterSpec, findings: &mut Findings) {
    let Some(manager) = spec.managed_by.as_deref() else { return };
    if !is_controller(manager) || manager.len() > 63 {
        findings.push(
            Finding::error(
                FieldPath::new("spec.managedBy"),
                format!("`{manager}` is not the name of a controller"),
            )
            .hint("a name is `<domain>/<path>` with 63 characters at most, as in a Job"),
        );
    }
}

/// A number within its range as the unsigned type of the plan; out of range it is a finding.
pub(super) fn number(findings: &mut Findings, path: &str, value: i32, min: i32, max: i32) -> u32 {
    number_at(findings, FieldPath::new(path), value, min, max)
}

/// [`number`] at a path with indices.
pub(super) fn number_at(
    findings: &mut Findings,
    path: FieldPath,
    value: i32,
    min: i32,
    max: i32,
) -> u32 {
    if value < min {
        let unit =
            if max == i32::MAX { format!("{min} or more") } else { format!("{min} to {max}") };
        findings.push(
            Finding::error(path, format!("{value} is less than {min}"))
                .hint(format!("take a number of {unit}")),
        );
    } else if value > max {
        findings.push(
            Finding::error(path, format!("{value} is more than {max}"))
                .hint(format!("take a number of {min} to {max}")),
        );
    }
    u32::try_from(value).unwrap_or(0)
}

fn name(object: &MiniCluster, findings: &mut Findings) -> Option<String> {
    let path = FieldPath::new("metadata.name");
    let Some(name) = object.metadata.name.as_deref().filter(|name| !name.is_empty()) else {
        findings.push(
            Finding::error(path, "missing")
                .hint("name the cluster, for example `metadata: {name: hello}`"),
        );
        return None;
    };
    if !is_dns_1035_label(name) {
        findings.push(
            Finding::error(path, format!("`{name}` is not a name that pods can carry")).hint(
                "use lower-case letters, digits and `-`, a letter first, 63 characters at most",
            ),
        );
        return None;
    }
    Some(name.to_owned())
}

fn namespace(object: &MiniCluster, findings: &mut Findings) -> String {
    let Some(namespace) = object.metadata.namespace.as_deref() else {
        return "default".to_owned();
    };
    let label = namespace.len() <= 63
        && !namespace.is_empty()
        && !namespace.starts_with('-')
        && !namespace.ends_with('-')
        && namespace.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !label {
        findings.push(
            Finding::error(
                FieldPath::new("metadata.namespace"),
                format!("`{namespace}` is not the name of a namespace"),
            )
            .hint("use lower-case letters, digits and `-`"),
        );
    }
    namespace.to_owned()
}

fn subdomain(
    spec: &MiniClusterSpec,
    name: Option<&str>,
    findings: &mut Findings,
) -> Option<String> {
    let subdomain = spec.network.subdomain.as_deref()?;
    if !is_dns_1035_label(subdomain) {
        findings.push(
            Finding::error(
                FieldPath::new("spec.network.subdomain"),
                format!("`{subdomain}` is not the name of a Service"),
            )
            .hint(match name {
                Some(name) => format!(
                    "use lower-case letters, digits and `-`, a letter first; without it, it is `{name}`"
                ),
                None => "use lower-case letters, digits and `-`, a letter first".to_owned(),
            }),
        );
    }
    Some(subdomain.to_owned())
}

/// With host networking the last rank's port must exist.
fn host_network_ports(spec: &MiniClusterSpec, sizes: Option<&Sizes>, findings: &mut Findings) {
    let host_network = |template: Option<&k8s_openapi::api::core::v1::PodTemplateSpec>| {
        template.and_then(|t| t.spec.as_ref()).and_then(|pod| pod.host_network).unwrap_or(false)
    };
    let any = host_network(spec.template.as_ref())
        || host_network(spec.launcher.as_ref().and_then(|l| l.template.as_ref()))
        || spec.groups.iter().any(|g| host_network(g.template.as_ref()));
    let Some(sizes) = sizes.filter(|_| any) else { return };
    let last = i64::from(spec.bootstrap.port) + i64::from(sizes.max_size) - 1;
    if spec.bootstrap.port >= 1 && spec.bootstrap.port <= 65_535 && last > 65_535 {
        findings.push(
            Finding::error(
                FieldPath::new("spec.bootstrap.port"),
                format!(
                    "with host networking rank r listens on port + r: {} + {} is more than 65535",
                    spec.bootstrap.port,
                    sizes.max_size - 1
                ),
            )
            .hint(format!("set port to at most {}", 65_536 - i64::from(sizes.max_size))),
        );
    }
}
