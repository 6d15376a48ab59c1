//! From an object to what it asks for, or to what is wrong with it. Pure; done once for each
//! generation of an object, since merging templates costs more than everything else of a quiet look.

use std::sync::Arc;

use quorate_api::{Finding, MiniCluster, Target, ValidatedMiniCluster};

use super::memory::{Memory, Validated};
use super::plan::Wanted;

/// What an object asks for, from memory where that has it.
pub fn wanted(cluster: &MiniCluster, memory: &mut Memory) -> Validated {
    let generation = cluster.metadata.generation.unwrap_or_default();
    match &memory.validated {
        Some((read, result)) if *read == generation => result.clone(),
        _ => {
            let result =
                validated(cluster).map(|cluster| Arc::new(Wanted::of(&cluster))).map_err(Arc::new);
            memory.validated = Some((generation, result.clone()));
            result
        }
    }
}

/// The sole input of the plan.
pub fn validated(cluster: &MiniCluster) -> Result<ValidatedMiniCluster, Vec<Finding>> {
    quorate_api::validate(cluster, Target::Kubernetes)
}
