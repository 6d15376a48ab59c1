//! From an object to what it asks for, or to what is wrong with it. Pure; done once for each
//! change of an object, since merging templates costs more than everything else of a quiet look.

use std::sync::Arc;

use quorate_api::{Finding, MiniCluster, Target, ValidatedMiniCluster};

use super::memory::{Memory, Validated};
use super::plan::Wanted;

/// What an object asks for, from memory where that has it.
pub fn wanted(cluster: &MiniCluster, memory: &mut Memory) -> Validated {
    let metadata = &cluster.metadata;
    let generation = metadata.generation.unwrap_or_default();
    match &memory.validated {
        Some(((read, labels, annotations), result))
            if *read == generation
                && *labels == metadata.labels
                && *annotations == metadata.annotations =>
        {
            result.clone()
        }
        _ => {
            let result =
                validated(cluster).map(|cluster| Arc::new(Wanted::of(&cluster))).map_err(Arc::new);
            let read = (generation, metadata.labels.clone(), metadata.annotations.clone());
            memory.validated = Some((read, result.clone()));
            result
        }
    }
}

/// The sole input of the plan.
pub fn validated(cluster: &MiniCluster) -> Result<ValidatedMiniCluster, Vec<Finding>> {
    quorate_api::validate(cluster, Target::Kubernetes)
}
