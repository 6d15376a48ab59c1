//! Pod templates: how those of a MiniCluster are laid over each other, and their schema.

pub mod merge;
pub mod schema;

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};

/// The main container's preferred name.
pub const MAIN: &str = "main";

/// The index of the main container: the one named `main`, else the first; `None` without any.
pub fn main_container(containers: &[Container]) -> Option<usize> {
    containers.iter().position(|c| c.name == MAIN).or((!containers.is_empty()).then_some(0))
}

/// The main container of a template.
pub fn main_of(template: &PodTemplateSpec) -> Option<&Container> {
    let containers = &template.spec.as_ref()?.containers;
    main_container(containers).map(|at| &containers[at])
}
