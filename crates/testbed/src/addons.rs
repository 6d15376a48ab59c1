//! What a cluster can have beside its core: controllers of other projects, started on request.
//!
//! Owns: which there are, their flags and configuration, and the objects that must exist before they
//! start. Must not: start a process or know how one is watched; [`crate::keeper`] and
//! [`crate::node`] do.
//!
//! Pure but for [`Addon::install`], which creates objects.

pub mod kueue;
mod peers;
pub mod policies;
pub mod stages;

use crate::api::{Api, ApiError};
use crate::component::Recipe;
use crate::layout::Folder;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A controller beside the core.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Addon {
    /// Kueue with its integration for JobSets: queues, quotas, admission.
    Kueue,
    /// kube-network-policies on every node: without it no NetworkPolicy has an effect.
    NetworkPolicies,
    /// mpi-operator with its own limits, a peer in benchmarks.
    MpiOperator,
    /// mpi-operator with the limits under which it is quickest.
    MpiOperatorTuned,
    /// Kubeflow Trainer, a peer in benchmarks.
    Trainer,
}

/// Why an addon is not there.
#[derive(Debug, thiserror::Error)]
pub enum AddonError {
    /// The API refused an object.
    #[error("cannot create what {addon} needs")]
    Api {
        /// Which addon.
        addon: Addon,
        /// Why not.
        #[source]
        source: ApiError,
    },
    /// A file of its sources could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file does not hold what it is known to hold.
    #[error("{}: {what}", path.display())]
    Unexpected {
        /// Which.
        path: PathBuf,
        /// What is not as it was.
        what: String,
    },
}

impl std::fmt::Display for Addon {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.module())
    }
}

impl Addon {
    /// The module that it is built from.
    pub fn module(self) -> &'static str {
        match self {
            Self::Kueue => "kueue",
            Self::NetworkPolicies => "network-policies",
            Self::MpiOperator | Self::MpiOperatorTuned => "mpi-operator",
            Self::Trainer => "trainer",
        }
    }

    /// How it is started beside the control plane; none for what runs on nodes. `output` is what the
    /// module was built into.
    pub fn recipe(self, folder: &Folder, output: &Path) -> Option<Recipe> {
        match self {
            Self::Kueue => Some(kueue::recipe(folder, output)),
            Self::NetworkPolicies => None,
            Self::MpiOperator => Some(peers::mpi_operator(folder, output, false)),
            Self::MpiOperatorTuned => Some(peers::mpi_operator(folder, output, true)),
            Self::Trainer => Some(peers::trainer(folder, output)),
        }
    }

    /// The files that it reads, in the keeper's mount namespace, whose `/etc` is the cluster's own.
    pub fn files(self, folder: &Folder) -> Vec<(PathBuf, String)> {
        match self {
            Self::Kueue => vec![(folder.path("kueue.json"), kueue::configuration(folder))],
            Self::Trainer => vec![(folder.path("trainer.json"), peers::trainer_configuration())],
            Self::NetworkPolicies | Self::MpiOperator | Self::MpiOperatorTuned => Vec::new(),
        }
    }

    /// Where it wants to find a copy of the webhooks' certificate, beside the common one.
    pub fn certificates(self, folder: &Folder) -> Option<PathBuf> {
        match self {
            Self::Kueue => Some(kueue::CERTIFICATES.into()),
            Self::Trainer => Some(peers::trainer_certificates(folder)),
            Self::NetworkPolicies | Self::MpiOperator | Self::MpiOperatorTuned => None,
        }
    }

    /// Creates what must exist before it starts.
    pub fn install(self, api: &Api, output: &Path) -> Result<(), AddonError> {
        let failed = |source| AddonError::Api { addon: self, source };
        let own = match self {
            Self::NetworkPolicies => return Ok(()),
            Self::Kueue => kueue::NAMESPACE,
            Self::MpiOperator | Self::MpiOperatorTuned => peers::MPI_NAMESPACE,
            Self::Trainer => peers::TRAINER_NAMESPACE,
        };
        api.create("/api/v1/namespaces", &namespace(own)).map_err(failed)?;
        for path in files_in(&output.join("share/crds"))? {
            let yaml = read(&path)?;
            api.create_yaml("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &yaml)
                .map_err(failed)?;
        }
        Ok(())
    }

    /// What the API must serve before it starts, or it ends at once.
    pub fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Kueue => kueue::SERVED,
            Self::NetworkPolicies => &[],
            Self::MpiOperator | Self::MpiOperatorTuned => {
                &["/apis/kubeflow.org/v2beta1/mpijobs?limit=1"]
            }
            Self::Trainer => &[
                "/apis/trainer.kubeflow.org/v1alpha1/trainjobs?limit=1",
                "/apis/trainer.kubeflow.org/v1alpha1/trainingruntimes?limit=1",
                "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes?limit=1",
                "/apis/jobset.x-k8s.io/v1alpha2/jobsets?limit=1",
            ],
        }
    }

    /// Its webhooks, which may be created only when it answers them. `authority` is the certificate
    /// that signed its own, in base64.
    pub fn webhooks(self, authority: &str) -> Vec<(&'static str, Value)> {
        match self {
            Self::Kueue => kueue::webhooks(authority).into(),
            Self::Trainer => peers::trainer_webhooks(authority).into(),
            Self::NetworkPolicies | Self::MpiOperator | Self::MpiOperatorTuned => Vec::new(),
        }
    }
}

fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

fn read(path: &Path) -> Result<Vec<u8>, AddonError> {
    fs::read(path).map_err(|source| AddonError::Read { path: path.to_path_buf(), source })
}

/// The files of a folder, in order.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>, AddonError> {
    let failed = |source| AddonError::Read { path: folder.to_path_buf(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        found.push(entry.map_err(failed)?.path());
    }
    found.sort();
    Ok(found)
}
