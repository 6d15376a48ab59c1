//! A group's pod template: the user's, with the agent added. What the user wrote stays as it is and
//! in its order; the agent's parts go before (init container, variables) or after (volumes, mounts).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, EnvVar, EnvVarSource, ExecAction, ObjectFieldSelector,
    PodSpec, PodTemplateSpec, Probe, SecretVolumeSource, Toleration, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use quorate_api::ValidatedMiniCluster;
use quorate_api::jobset::label::{JOB_INDEX, RESTART_ATTEMPT};
use quorate_api::names::LAUNCHER;
use quorate_api::validate::ValidatedGroup;
use quorate_contract::{env, paths};

use crate::names::pod as name;
use crate::{Context, delivery, labels, names, placement};

/// Seconds between SIGTERM and SIGKILL unless the template says otherwise: Kubernetes' own default.
const GRACE_SECONDS: i64 = 30;
/// Where POSIX shared memory lives.
const SHM_DIR: &str = "/dev/shm";

/// Annotations for Kueue on the JobSet, or on a template at least: those that no template has a word of its
/// own about.
pub fn queue_notes(cluster: &ValidatedMiniCluster) -> BTreeMap<String, String> {
    let own = |group: &ValidatedGroup, key: &String| {
        let metadata = group.template.metadata.as_ref();
        let annotations = metadata.and_then(|metadata| metadata.annotations.as_ref());
        annotations.is_some_and(|annotations| annotations.contains_key(key))
    };
    let notes = cluster.queueing.annotations.iter();
    notes
        .filter(|(key, _)| {
            !labels::of_pod_set(key) || cluster.groups.iter().any(|group| !own(group, key))
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

pub(crate) fn template(
    cluster: &ValidatedMiniCluster,
    group: &ValidatedGroup,
    context: &Context,
) -> PodTemplateSpec {
    let mut template = group.template.clone();
    let metadata = template.metadata.get_or_insert_default();
    let pod_labels = metadata.labels.get_or_insert_default();
    pod_labels.extend(labels::of_pod(cluster, group.name.as_str()));
    for (key, value) in &cluster.queueing.annotations {
        if labels::of_pod_set(key) {
            // A template's own word about its group stands.
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }

    let pod = template.spec.get_or_insert_default();
    pod.restart_policy = Some("Never".to_owned());
    pod.termination_grace_period_seconds.get_or_insert(GRACE_SECONDS);
    pod.automount_service_account_token.get_or_insert(false);
    // Variables for each Service of the namespace would swamp the environment of every rank.
    pod.enable_service_links.get_or_insert(false);
    leave_lost_nodes(pod, cluster.orphan_timeout_seconds);
    if let Some(topology) = cluster.topology.as_ref().filter(|_| group.name.as_str() != LAUNCHER) {
        placement::place(pod, topology);
    }
    if group.host_network() {
        // The default policy would resolve with the node's file, which knows no Service.
        pod.dns_policy.get_or_insert_with(|| "ClusterFirstWithHostNet".to_owned());
    }

    let own_shm = main(pod, group)
        .volume_mounts
        .iter()
        .flatten()
        .any(|mount| mount.mount_path.trim_end_matches('/') == SHM_DIR);
    if let Some(install) = delivery::install(pod, context) {
        pod.init_containers.get_or_insert_default().insert(0, install);
    }
    pod.volumes.get_or_insert_default().extend(volumes(cluster, group, context, !own_shm));
    let main = &mut pod.containers[group.main];
    agent(main, group, !own_shm);
    if let Some(volume) = &cluster.queue.state_volume
        && group.name.as_str() == LAUNCHER
    {
        let mounts = main.volume_mounts.get_or_insert_default();
        mounts.push(mount(volume, paths::STATE_DIR, false));
    }
    template
}

fn main<'a>(pod: &'a PodSpec, group: &ValidatedGroup) -> &'a Container {
    &pod.containers[group.main]
}

/// Kubernetes leaves pods on a node that does not answer for 300 s unless they say otherwise. Their
/// brokers have left after the orphan timeout, so no pod has to stay for longer. What the user's
/// template says of these taints stands.
fn leave_lost_nodes(pod: &mut PodSpec, seconds: u32) {
    let tolerations = pod.tolerations.get_or_insert_default();
    for taint in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let said = tolerations.iter().any(|one| {
            one.key.as_deref().is_none_or(|key| key.is_empty() || key == taint)
                && one.effect.as_deref().is_none_or(|effect| effect == "NoExecute")
        });
        if !said {
            tolerations.push(Toleration {
                key: Some(taint.to_owned()),
                operator: Some("Exists".to_owned()),
                effect: Some("NoExecute".to_owned()),
                toleration_seconds: Some(i64::from(seconds)),
                value: None,
            });
        }
    }
}

/// Makes the main container run the broker, which runs the user's program.
fn agent(main: &mut Container, group: &ValidatedGroup, shm: bool) {
    main.command = Some(vec![paths::AGENT.to_owned(), "broker".to_owned()]);
    main.args = None;
    // First, so that the user's variables may refer to them.
    main.env.get_or_insert_default().splice(0..0, variables(group));
    let mut mounts = vec![
        mount(name::BIN, paths::BIN_DIR, true),
        mount(name::CONFIG, paths::CONFIG_DIR, true),
        mount(name::RUN, paths::RUN_DIR, false),
    ];
    if shm {
        mounts.push(mount(name::SHM, SHM_DIR, false));
    }
    main.volume_mounts.get_or_insert_default().extend(mounts);
    main.readiness_probe = Some(Probe {
        exec: Some(ExecAction { command: Some(vec![paths::AGENT.to_owned(), "ready".to_owned()]) }),
        initial_delay_seconds: Some(0),
        // The shortest that Kubernetes knows: readiness is how the owner learns of the quorum.
        period_seconds: Some(1),
        timeout_seconds: Some(5),
        success_threshold: Some(1),
        failure_threshold: Some(3),
        ..Probe::default()
    });
    main.termination_message_path = Some(paths::TERMINATION_LOG.to_owned());
    main.termination_message_policy.get_or_insert_with(|| "File".to_owned());
}

fn variables(group: &ValidatedGroup) -> Vec<EnvVar> {
    let field = |name: &str, path: String| EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: Some("v1".to_owned()),
                field_path: path,
            }),
            ..EnvVarSource::default()
        }),
    };
    let mut variables = vec![
        EnvVar {
            name: env::GROUP.to_owned(),
            value: Some(group.name.to_string()),
            value_from: None,
        },
        field(env::ATTEMPT, format!("metadata.labels['{RESTART_ATTEMPT}']")),
        field(env::POD_NAME, "metadata.name".to_owned()),
        field(env::POD_UID, "metadata.uid".to_owned()),
        field(env::POD_IP, "status.podIP".to_owned()),
        field(env::NODE_NAME, "spec.nodeName".to_owned()),
    ];
    if group.jobs > 1 {
        variables.push(field(env::JOB_INDEX, format!("metadata.labels['{JOB_INDEX}']")));
    }
    variables
}

pub(crate) fn mount(volume: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

fn volumes(
    cluster: &ValidatedMiniCluster,
    group: &ValidatedGroup,
    context: &Context,
    shm: bool,
) -> Vec<Volume> {
    let mut volumes = vec![
        delivery::volume(context),
        Volume {
            name: name::CONFIG.to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(names::secret(cluster)),
                // Readable by whatever user the image runs as: all of a pod is one trust domain.
                default_mode: Some(0o444),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        },
        memory(name::RUN, Some("64Mi".to_owned())),
    ];
    if shm {
        volumes.push(memory(name::SHM, shm_size(group)));
    }
    volumes
}

fn memory(name: &str, limit: Option<String>) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: Some("Memory".to_owned()),
            size_limit: limit.map(Quantity),
        }),
        ..Volume::default()
    }
}

/// 128 MiB, and 64 MiB for each task: Open MPI 5 takes 16 MiB a rank at start, and the container
/// runtime's default of 64 MiB is not enough for a few. Without known slots there is no limit of our
/// own; the pod's memory limit holds anyway.
fn shm_size(group: &ValidatedGroup) -> Option<String> {
    group.slots.map(|slots| format!("{}Mi", 128 + 64 * u64::from(slots)))
}
