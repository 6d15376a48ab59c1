//! Whose controllers are measured, and with what objects.

use crate::bench::objects::{self, collection};
use anyhow::Result;
use quorate_testbed::addons::Addon;
use serde_json::Value;

/// All pods of the objects' namespace.
pub(super) const PODS_PATH: &str = "/api/v1/namespaces/default/pods";

/// A project whose controller is measured beside ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Peer {
    /// Kubeflow Trainer as it comes.
    Trainer,
    /// mpi-operator with the limits under which it is quickest.
    MpiOperatorTuned,
    /// mpi-operator as it comes: it makes two jobs in three seconds.
    MpiOperator,
}

/// Who turns objects into others.
pub(super) struct Contestant {
    /// What people call it.
    pub name: &'static str,
    /// How the control plane starts it.
    pub addon: Option<Addon>,
    /// Its program's file name.
    pub program: Option<&'static str>,
    /// Objects that must be there before, by the collection that they belong to.
    pub first: Vec<(String, Value)>,
    /// Where its objects are created.
    pub parents: String,
    /// One of them.
    pub object: fn(&str) -> Result<Value>,
    /// What it makes of each.
    pub children: String,
    /// What comes behind the object's name in the child's.
    pub suffix: &'static str,
}

/// Ours.
pub(super) fn miniclusters() -> Contestant {
    Contestant {
        name: "Quorate",
        addon: None,
        program: None,
        first: Vec::new(),
        parents: collection("quorate.dev/v1alpha1", "miniclusters"),
        object: |name| Ok(objects::minicluster(name)),
        children: collection("jobset.x-k8s.io/v1alpha2", "jobsets"),
        suffix: "",
    }
}

/// Nobody: what JobSet, the Job controller and the API server take by themselves.
pub(super) fn jobsets() -> Contestant {
    Contestant {
        name: "plain JobSets",
        parents: collection("jobset.x-k8s.io/v1alpha2", "jobsets"),
        object: objects::jobset,
        ..miniclusters()
    }
}

pub(super) fn of(peer: Peer) -> Contestant {
    match peer {
        Peer::Trainer => Contestant {
            name: "Trainer 2.2.1",
            addon: Some(Addon::Trainer),
            program: Some("trainer"),
            first: vec![(
                "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes".to_owned(),
                objects::training_runtime(),
            )],
            parents: collection("trainer.kubeflow.org/v1alpha1", "trainjobs"),
            object: |name| Ok(objects::trainjob(name)),
            ..miniclusters()
        },
        Peer::MpiOperatorTuned => Contestant {
            name: "mpi-operator 0.8.0 tuned",
            addon: Some(Addon::MpiOperatorTuned),
            ..of(Peer::MpiOperator)
        },
        Peer::MpiOperator => Contestant {
            name: "mpi-operator 0.8.0",
            addon: Some(Addon::MpiOperator),
            program: Some("mpi-operator"),
            first: Vec::new(),
            parents: collection("kubeflow.org/v2beta1", "mpijobs"),
            object: |name| Ok(objects::mpijob(name)),
            children: collection("batch/v1", "jobs"),
            suffix: "-launcher",
        },
    }
}
