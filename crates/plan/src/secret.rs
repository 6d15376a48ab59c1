//! The seed of the brokers' keys and the Secret that carries it.

use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use quorate_api::ValidatedMiniCluster;
use quorate_contract::paths::SEED_KEY;

use crate::{meta, names};

/// 32 random bytes from which each rank derives its key. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    /// Takes bytes from the caller's random source.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes, for the one file that holds them.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(<redacted>)")
    }
}

/// Immutable: a changed seed would reach pods at different times and split the cluster.
pub(crate) fn secret(cluster: &ValidatedMiniCluster, seed: &Seed) -> Secret {
    Secret {
        metadata: meta::object(cluster, names::secret(cluster)),
        type_: Some("Opaque".to_owned()),
        immutable: Some(true),
        data: Some([(SEED_KEY.to_owned(), ByteString(seed.0.to_vec()))].into()),
        string_data: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_does_not_show_itself() {
        assert_eq!(format!("{:?}", Seed::new([7; 32])), "Seed(<redacted>)");
    }
}
