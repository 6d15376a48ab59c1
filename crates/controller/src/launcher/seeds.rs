//! Where the seed of a cluster comes from: its Secret, read when a launcher is there to be asked.

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use quorate_contract::keys::{SEED_LENGTH, Seed};
use quorate_contract::paths::SEED_KEY;
use zeroize::Zeroizing;

use crate::watch::Key;

/// Gives seeds.
pub trait Seeds: Send + Sync {
    /// The seed of the cluster with this key and UID.
    fn seed<'a>(&'a self, key: &'a Key, uid: &'a str) -> BoxFuture<'a, Result<Seed, SeedError>>;
}

/// Why there is no seed.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// The Secret cannot be read.
    #[error("cannot read the Secret of the cluster's keys")]
    Read(#[source] Box<kube::Error>),
    /// It belongs to somebody else, or to a former cluster of the name.
    #[error("the Secret of the cluster's keys does not belong to it")]
    Foreign,
    /// It holds no seed.
    #[error("the Secret of the cluster's keys holds no seed of {SEED_LENGTH} bytes")]
    Shape,
}

/// Seeds as the plan stores them.
pub struct Stored(pub Client);

impl Seeds for Stored {
    fn seed<'a>(&'a self, key: &'a Key, uid: &'a str) -> BoxFuture<'a, Result<Seed, SeedError>> {
        Box::pin(async move {
            let api: Api<Secret> = Api::namespaced(self.0.clone(), &key.namespace);
            let name = quorate_plan::names::secret_of(&key.name, Some(uid));
            let mut secret =
                api.get(&name).await.map_err(|error| SeedError::Read(Box::new(error)))?;
            let owners = secret.metadata.owner_references.as_deref().unwrap_or_default();
            if !owners.iter().any(|owner| owner.uid == uid) {
                return Err(SeedError::Foreign);
            }
            let data = secret.data.as_mut().and_then(|data| data.remove(SEED_KEY));
            let bytes = Zeroizing::new(data.ok_or(SeedError::Shape)?.0);
            let bytes = <[u8; SEED_LENGTH]>::try_from(bytes.as_slice());
            bytes.map(Seed::new).map_err(|_| SeedError::Shape)
        })
    }
}
