//! Metadata of all objects: name, namespace, labels and the owner.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use quorate_api::ValidatedMiniCluster;
use quorate_api::minicluster::{API_VERSION, KIND};

use crate::labels;

/// Metadata of an object that the MiniCluster owns. Without a UID there is no owner to refer to.
pub(crate) fn object(cluster: &ValidatedMiniCluster, name: String) -> ObjectMeta {
    let owner = cluster.uid.clone().map(|uid| OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        name: cluster.name.to_string(),
        uid,
        controller: Some(true),
        block_owner_deletion: Some(true),
    });
    ObjectMeta {
        name: Some(name),
        namespace: Some(cluster.namespace.clone()),
        labels: Some(labels::of_object(cluster)),
        owner_references: owner.map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}
