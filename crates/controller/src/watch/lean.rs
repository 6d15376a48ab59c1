//! Objects as watches bring them, without what nobody here reads.
//!
//! Most bytes of a pod or a Job are its `managedFields` and its containers' settings. `k8s_openapi` makes a
//! map of maps of the former and a structure of every one of the latter, which took most of the processor time
//! that following a cluster's pods took in all. What is not read is passed over byte by byte instead.
//!
//! Objects read this way have facts taken from them; they are never written back.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::{
    Container, Pod, PodSpec, PodStatus, PodTemplateSpec, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt as _};
use quorate_api::jobset::{JobSet, JobSetSpec, JobSetStatus};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};

/// An object of which only that is there which facts are taken from.
#[derive(Clone, Debug)]
pub struct Lean<K>(pub K);

/// How a kind is read.
pub trait Readable: Resource + Sized {
    /// What is read of its `spec`.
    type Spec: DeserializeOwned;
    /// What is read of its `status`.
    type Status: DeserializeOwned;

    /// The object of its parts.
    fn of(metadata: ObjectMeta, spec: Option<Self::Spec>, status: Option<Self::Status>) -> Self;
}

impl<'de, K: Readable> Deserialize<'de> for Lean<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(bound = "S: DeserializeOwned, T: DeserializeOwned")]
        struct Parts<S, T> {
            metadata: Meta,
            spec: Option<S>,
            status: Option<T>,
        }
        let Parts { metadata, spec, status } = Parts::deserialize(deserializer)?;
        Ok(Self(K::of(metadata.into(), spec, status)))
    }
}

impl<K: Resource> Resource for Lean<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(kind: &K::DynamicType) -> Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &K::DynamicType) -> Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &K::DynamicType) -> Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &K::DynamicType) -> Cow<'_, str> {
        K::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

/// Metadata without `managedFields`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Meta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
}

impl From<Meta> for ObjectMeta {
    fn from(meta: Meta) -> Self {
        Self {
            name: meta.name,
            namespace: meta.namespace,
            uid: meta.uid,
            resource_version: meta.resource_version,
            generation: meta.generation,
            labels: meta.labels,
            annotations: meta.annotations,
            owner_references: meta.owner_references,
            finalizers: meta.finalizers,
            creation_timestamp: meta.creation_timestamp,
            deletion_timestamp: meta.deletion_timestamp,
            deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
            ..Self::default()
        }
    }
}

/// A pod's node, and what its containers ask for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodParts {
    node_name: Option<String>,
    #[serde(default)]
    containers: Vec<ContainerParts>,
}

#[derive(Deserialize)]
struct ContainerParts {
    name: String,
    resources: Option<ResourceRequirements>,
}

impl Readable for Pod {
    type Spec = PodParts;
    type Status = PodStatus;

    fn of(metadata: ObjectMeta, spec: Option<PodParts>, status: Option<PodStatus>) -> Self {
        let container = |ContainerParts { name, resources }| Container {
            name,
            resources,
            ..Container::default()
        };
        let spec = spec.map(|PodParts { node_name, containers }| PodSpec {
            node_name,
            containers: containers.into_iter().map(container).collect(),
            ..PodSpec::default()
        });
        Self { metadata, spec, status }
    }
}

/// A Job's figures, and which nodes its pods want.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobParts {
    parallelism: Option<i32>,
    completions: Option<i32>,
    suspend: Option<bool>,
    active_deadline_seconds: Option<i64>,
    template: TemplateParts,
}

#[derive(Deserialize)]
struct TemplateParts {
    spec: Option<NodeParts>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeParts {
    node_selector: Option<BTreeMap<String, String>>,
}

impl Readable for Job {
    type Spec = JobParts;
    type Status = JobStatus;

    fn of(metadata: ObjectMeta, spec: Option<JobParts>, status: Option<JobStatus>) -> Self {
        let spec = spec.map(|parts| JobSpec {
            parallelism: parts.parallelism,
            completions: parts.completions,
            suspend: parts.suspend,
            active_deadline_seconds: parts.active_deadline_seconds,
            template: PodTemplateSpec {
                spec: parts.template.spec.map(|NodeParts { node_selector }| PodSpec {
                    node_selector,
                    ..PodSpec::default()
                }),
                ..PodTemplateSpec::default()
            },
            ..JobSpec::default()
        });
        Self { metadata, spec, status }
    }
}

impl Readable for JobSet {
    type Spec = JobSetSpec;
    type Status = JobSetStatus;

    fn of(metadata: ObjectMeta, spec: Option<JobSetSpec>, status: Option<JobSetStatus>) -> Self {
        Self { metadata, spec: spec.unwrap_or_default(), status }
    }
}

impl<K: Resource> Readable for PartialObjectMeta<K> {
    type Spec = IgnoredAny;
    type Status = IgnoredAny;

    fn of(metadata: ObjectMeta, _: Option<IgnoredAny>, _: Option<IgnoredAny>) -> Self {
        metadata.into_response_partial()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_observe::{JobFacts, PodFacts};
    use serde_json::{Value, json};

    fn metadata() -> Value {
        json!({
            "name": "hello-worker-0-1-x7k2p", "generateName": "hello-worker-0-1-", "namespace": "hpc", "uid": "u",
            "resourceVersion": "7", "generation": 3, "creationTimestamp": "2026-11-01T10:00:02Z",
            "deletionTimestamp": "2026-11-01T10:00:09Z", "deletionGracePeriodSeconds": 30,
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "labels": {
                "quorate.dev/cluster": "hello", "quorate.dev/group": "worker",
                "jobset.sigs.k8s.io/jobset-uid": "j", "jobset.sigs.k8s.io/restart-attempt": "2",
                "batch.kubernetes.io/job-completion-index": "1",
            },
            "annotations": {"quorate.dev/lost-nodes": "n1"},
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": "hello-worker-0", "uid": "k",
                "controller": true,
            }],
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:spec": {"f:size": {}}}}],
        })
    }

    fn pod() -> Value {
        let resources = json!({"requests": {"cpu": "500m"}, "limits": {"nvidia.com/gpu": "2"}});
        let unscheduled = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes", "lastTransitionTime": "2026-11-01T10:00:05Z",
        });
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata(),
            "spec": {
                "nodeName": "node-017", "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [
                    {"name": "side", "image": "i", "env": [{"name": "A", "value": "b"}]},
                    {"name": "main", "image": "i", "resources": resources},
                ],
            },
            "status": {
                "phase": "Pending", "podIP": "10.244.17.23", "conditions": [unscheduled],
                "containerStatuses": [{
                    "name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 1,
                    "state": {"waiting": {"reason": "ImagePullBackOff", "message": "m"}},
                }],
            },
        })
    }

    fn job() -> Value {
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(),
            "spec": {
                "parallelism": 4, "completions": 5, "suspend": true, "activeDeadlineSeconds": 60,
                "backoffLimit": 1,
                "template": {"spec": {
                    "nodeSelector": {"gpu": "yes"}, "containers": [{"name": "main", "image": "i"}],
                }},
            },
            "status": {
                "active": 2, "ready": 1, "failed": 1, "startTime": "2026-11-01T10:00:01Z",
                "conditions": [{"type": "Failed", "status": "True", "reason": "r", "message": "m"}],
            },
        })
    }

    fn read<K: DeserializeOwned>(value: &Value) -> K {
        serde_json::from_str(&value.to_string()).unwrap()
    }

    /// A field that facts come to be taken from must not be passed over here.
    #[test]
    fn its_facts_are_those_of_the_whole_object() {
        let Lean(lean) = read::<Lean<Pod>>(&pod());
        assert_eq!(PodFacts::from_pod(&lean), PodFacts::from_pod(&read(&pod())));
        let Lean(lean) = read::<Lean<Job>>(&job());
        assert_eq!(JobFacts::from_job(&lean), JobFacts::from_job(&read(&job())));
    }

    #[test]
    fn its_metadata_has_all_but_who_wrote_it() {
        let whole: ObjectMeta = read(&metadata());
        let lean = ObjectMeta::from(read::<Meta>(&metadata()));
        assert_eq!(lean, ObjectMeta { managed_fields: None, generate_name: None, ..whole });
        let Lean(partial) = read::<Lean<PartialObjectMeta<Pod>>>(&pod());
        assert_eq!(partial.metadata, lean);
    }

    #[test]
    fn an_object_with_nothing_in_it_can_be_read() {
        let bare = json!({"metadata": {"name": "bare"}});
        assert_eq!(read::<Lean<Pod>>(&bare).meta().name.as_deref(), Some("bare"));
        assert!(read::<Lean<Job>>(&bare).0.spec.is_none());
        assert_eq!(read::<Lean<JobSet>>(&bare).0.spec, JobSetSpec::default());
    }
}
