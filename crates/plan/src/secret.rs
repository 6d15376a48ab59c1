//! The Secret that carries the seed of the cluster's keys.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use quorate_api::ValidatedMiniCluster;
use quorate_contract::keys::Seed;
use quorate_contract::paths::SEED_KEY;

use crate::{meta, names};

/// Immutable: a changed seed would reach pods at different times and split the cluster.
pub(crate) fn secret(cluster: &ValidatedMiniCluster, seed: &Seed) -> Secret {
    Secret {
        metadata: meta::object(cluster, names::secret(cluster)),
        type_: Some("Opaque".to_owned()),
        immutable: Some(true),
        data: Some([(SEED_KEY.to_owned(), ByteString(seed.bytes().to_vec()))].into()),
        string_data: None,
    }
}
