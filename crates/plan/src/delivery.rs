//! How the agent comes into a pod. Both ways put it at the same path, from the same image, read-only
//! for the containers that run it; a cluster keeps the way that it was made with.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, EmptyDirVolumeSource, ImageVolumeSource, PodSpec,
    ResourceRequirements, SeccompProfile, SecurityContext, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use quorate_contract::paths;

use crate::Context;
use crate::names::pod as name;
use crate::pod::mount;

/// How the agent comes into a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// An init container copies it into an empty volume. Works on every node. The main container
    /// waits until the kubelet notices the init container's end, which it looks for once a second.
    #[default]
    Copy,
    /// The agent's image itself is the volume (KEP-4639). Needs a kubelet and a container runtime
    /// that can do so; no container runs before the user's.
    Image,
}

/// The volume that has the agent in it, at `quorate_contract::paths::BIN_DIR` in the containers.
pub(crate) fn volume(context: &Context) -> Volume {
    let mut volume = Volume { name: name::BIN.to_owned(), ..Volume::default() };
    match context.agent_delivery {
        Delivery::Copy => volume.empty_dir = Some(EmptyDirVolumeSource::default()),
        // No pull policy: the default is by the tag, as for the init container.
        Delivery::Image => {
            volume.image = Some(ImageVolumeSource {
                reference: Some(context.agent_image.clone()),
                pull_policy: None,
            });
        }
    }
    volume
}

/// The init container that copies the agent, if that is how it comes. It passes the restricted Pod
/// Security Standard, and its limits equal its requests so that a Guaranteed pod (exclusive CPUs)
/// stays one.
pub(crate) fn install(pod: &PodSpec, context: &Context) -> Option<Container> {
    if context.agent_delivery != Delivery::Copy {
        return None;
    }
    let resources: BTreeMap<String, Quantity> = [("cpu", "50m"), ("memory", "32Mi")]
        .map(|(k, v)| (k.to_owned(), Quantity(v.into())))
        .into();
    // The image names a numeric user of its own; a pod that is told to be root must not reach here.
    let root = pod.security_context.as_ref().and_then(|context| context.run_as_user) == Some(0);
    Some(Container {
        name: name::INSTALL.to_owned(),
        image: Some(context.agent_image.clone()),
        command: Some([paths::IMAGE_AGENT, "install", paths::BIN_DIR].map(str::to_owned).into()),
        resources: Some(ResourceRequirements {
            limits: Some(resources.clone()),
            requests: Some(resources),
            claims: None,
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
            read_only_root_filesystem: Some(true),
            run_as_non_root: Some(true),
            run_as_user: root.then_some(65_532),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                localhost_profile: None,
            }),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(vec![mount(name::BIN, paths::BIN_DIR, false)]),
        ..Container::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The image is a volume as it is, so the agent must lie where the containers look for it.
    #[test]
    fn the_agent_lies_at_the_same_path_either_way() {
        assert_eq!(format!("{}{}", paths::BIN_DIR, paths::IMAGE_AGENT), paths::AGENT);
    }
}
