//! The Secret that carries what all pods of a cluster need: the agent's configuration and the seed of the
//! cluster's keys.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use quorate_api::ValidatedMiniCluster;
use quorate_contract::AgentConfig;
use quorate_contract::keys::Seed;
use quorate_contract::paths::{CONFIG_KEY, SEED_KEY};

use crate::{meta, names};

/// Immutable: a changed seed would reach pods at different times and split the cluster. One object for both
/// is one less to be written, watched and mounted for each cluster (docs/adr/0006-one-secret.md). The
/// configuration is written as `stringData`, so that people can read a plan; the API server keeps it as
/// `data`.
pub(crate) fn secret(cluster: &ValidatedMiniCluster, config: &AgentConfig, seed: &Seed) -> Secret {
    Secret {
        metadata: meta::object(cluster, names::secret(cluster)),
        type_: Some("Opaque".to_owned()),
        immutable: Some(true),
        data: Some([(SEED_KEY.to_owned(), ByteString(seed.bytes().to_vec()))].into()),
        string_data: Some([(CONFIG_KEY.to_owned(), config.render())].into()),
    }
}
