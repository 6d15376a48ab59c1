//! The messages of a watch, with the fields that facts are taken from; all others are passed over. They
//! serialize to the JSON that the API server would have written of these fields.
//!
//! Numbers are those of `generated.proto` of Kubernetes 1.36 (k8s.io/api `core/v1` and `batch/v1`,
//! k8s.io/apimachinery `meta/v1` and `runtime`), which never change: stored objects have them. A text that is
//! empty is written by the server in protobuf and left out in JSON; here it is left out.

use k8s_openapi::jiff::Timestamp;
use prost::Message;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// `runtime.Unknown`: what is around each object.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Envelope {
    #[prost(message, optional, tag = "1")]
    pub kind: Option<Kind>,
    #[prost(bytes = "vec", tag = "2")]
    pub raw: Vec<u8>,
}

/// `runtime.TypeMeta`.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Kind {
    #[prost(string, tag = "1")]
    pub api_version: String,
    #[prost(string, tag = "2")]
    pub kind: String,
}

/// `meta/v1.WatchEvent`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchEvent {
    #[prost(string, tag = "1")]
    pub kind: String,
    #[prost(message, optional, tag = "2")]
    pub object: Option<Raw>,
}

/// `runtime.RawExtension`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Raw {
    #[prost(bytes = "vec", tag = "1")]
    pub raw: Vec<u8>,
}

/// An object in JSON.
#[derive(Serialize)]
pub(super) struct Object<S, T> {
    #[serde(flatten)]
    pub kind: Kind,
    pub metadata: ObjectMeta,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<S>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<T>,
}

/// `meta/v1.Status`, of a request or a watch that cannot be answered.
#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct Refusal {
    #[prost(string, tag = "2")]
    pub status: String,
    #[prost(string, tag = "3")]
    pub message: String,
    #[prost(string, tag = "4")]
    pub reason: String,
    #[prost(int32, tag = "6")]
    pub code: i32,
}

/// `meta/v1.ObjectMeta`.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectMeta {
    #[prost(string, tag = "1")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[prost(string, tag = "3")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[prost(string, tag = "5")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[prost(string, tag = "6")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    #[prost(int64, tag = "7")]
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: i64,
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "is_never")]
    pub creation_timestamp: Option<Time>,
    #[prost(message, optional, tag = "9")]
    #[serde(skip_serializing_if = "is_never")]
    pub deletion_timestamp: Option<Time>,
    #[prost(int64, optional, tag = "10")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    #[prost(btree_map = "string, string", tag = "11")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "13")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    #[prost(string, repeated, tag = "14")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
}

/// `meta/v1.OwnerReference`.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OwnerReference {
    #[prost(string, tag = "5")]
    pub api_version: String,
    #[prost(string, tag = "1")]
    pub kind: String,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub uid: String,
    #[prost(bool, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[prost(bool, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// `meta/v1.Time`; the beginning of Unix time stands for none.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Time {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl Serialize for Time {
    /// RFC 3339 in whole seconds, as the API server writes it.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let time = Timestamp::from_second(self.seconds).map_err(S::Error::custom)?;
        serializer.collect_str(&time)
    }
}

/// `resource.Quantity`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Quantity {
    #[prost(string, tag = "1")]
    pub string: String,
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.string.serialize(serializer)
    }
}

/// `core/v1.Pod`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Pod {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    pub spec: Option<PodSpec>,
    #[prost(message, optional, tag = "3")]
    pub status: Option<PodStatus>,
}

/// `core/v1.PodSpec`.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodSpec {
    #[prost(message, repeated, tag = "2")]
    pub containers: Vec<Container>,
    #[prost(string, tag = "10")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,
}

/// `core/v1.Container`.
#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct Container {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
}

/// `core/v1.ResourceRequirements`.
#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct Resources {
    #[prost(btree_map = "string, message", tag = "1")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Quantity>,
    #[prost(btree_map = "string, message", tag = "2")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
}

/// `core/v1.PodStatus`.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodStatus {
    #[prost(string, tag = "1")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    #[prost(message, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[prost(string, tag = "3")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[prost(string, tag = "4")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[prost(string, tag = "6")]
    #[serde(rename = "podIP", skip_serializing_if = "String::is_empty")]
    pub pod_ip: String,
    #[prost(message, repeated, tag = "8")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub container_statuses: Vec<ContainerStatus>,
    #[prost(message, repeated, tag = "10")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// `core/v1.PodCondition` and `batch/v1.JobCondition`, which have these fields under the same numbers.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    #[prost(string, tag = "1")]
    #[serde(rename = "type")]
    pub kind: String,
    #[prost(string, tag = "2")]
    pub status: String,
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "is_never")]
    pub last_transition_time: Option<Time>,
    #[prost(string, tag = "5")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[prost(string, tag = "6")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// `core/v1.ContainerStatus`.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerStatus {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ContainerState>,
    #[prost(bool, tag = "4")]
    pub ready: bool,
    #[prost(int32, tag = "5")]
    pub restart_count: i32,
    #[prost(string, tag = "6")]
    pub image: String,
    #[prost(string, tag = "7")]
    #[serde(rename = "imageID")]
    pub image_id: String,
}

/// `core/v1.ContainerState`.
#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct ContainerState {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminated: Option<Terminated>,
}

/// `core/v1.ContainerStateWaiting`.
#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct Waiting {
    #[prost(string, tag = "1")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// `core/v1.ContainerStateRunning`.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Running {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "is_never")]
    pub started_at: Option<Time>,
}

/// `core/v1.ContainerStateTerminated`.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Terminated {
    #[prost(int32, tag = "1")]
    pub exit_code: i32,
    #[prost(int32, tag = "2")]
    #[serde(skip_serializing_if = "is_zero")]
    pub signal: i32,
    #[prost(string, tag = "3")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[prost(string, tag = "4")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "is_never")]
    pub finished_at: Option<Time>,
}

/// `batch/v1.Job`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Job {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    pub spec: Option<JobSpec>,
    #[prost(message, optional, tag = "3")]
    pub status: Option<JobStatus>,
}

/// `batch/v1.JobSpec`.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobSpec {
    #[prost(int32, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions: Option<i32>,
    #[prost(int64, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    #[prost(message, required, tag = "6")]
    pub template: Template,
    #[prost(bool, optional, tag = "10")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
}

/// `core/v1.PodTemplateSpec`.
#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct Template {
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<NodeChoice>,
}

/// `core/v1.PodSpec` of a template.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeChoice {
    #[prost(btree_map = "string, string", tag = "7")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
}

/// `batch/v1.JobStatus`.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobStatus {
    #[prost(message, repeated, tag = "1")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "is_never")]
    pub start_time: Option<Time>,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "is_never")]
    pub completion_time: Option<Time>,
    #[prost(int32, tag = "4")]
    #[serde(skip_serializing_if = "is_zero")]
    pub active: i32,
    #[prost(int32, tag = "5")]
    #[serde(skip_serializing_if = "is_zero")]
    pub succeeded: i32,
    #[prost(int32, tag = "6")]
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: i32,
    #[prost(int32, optional, tag = "9")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<i32>,
}

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

#[expect(clippy::ref_option, reason = "serde asks it so")]
fn is_never(time: &Option<Time>) -> bool {
    time.is_none_or(|time| time == Time::default())
}
