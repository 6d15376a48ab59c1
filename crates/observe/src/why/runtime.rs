//! Words of kubelets and container runtimes about containers that do not come to run: without the frames of
//! their layers, and what to do about them.

use super::words::quote;

/// How a runtime ends that takes an image volume for a folder of the node, whose path is empty then:
/// containerd before 2.1, CRI-O before 1.31.
const NO_PATH: [&str; 2] = ["failed to mkdir \"\"", "mount.hostpath is empty"];
/// The sentence for it.
const NO_IMAGE_VOLUMES: &str = "the node's container runtime knows no image volumes";
/// How containerd says that it knows them, and has no use for this one.
const NOT_MOUNTED: &str = "failed to mount image volume";
/// How a kubelet says so whose feature gate `ImageVolume` is off: it knows no kind of volume that this one
/// could be.
const NO_PLUGIN: &str = "no volume plugin matched";

/// A refusal to start a container.
pub(crate) fn refusal(message: &str) -> String {
    let lower = message.to_ascii_lowercase();
    if let Some(at) = NO_PATH.iter().find_map(|words| lower.find(words)) {
        return format!("{NO_IMAGE_VOLUMES} ({})", quote(&message[at..]));
    }
    let mut words = message;
    for frame in ["unable to start container process: ", "error during container init: "] {
        if let Some((_, rest)) = words.split_once(frame) {
            words = rest;
        }
    }
    quote(words)
}

/// What to do about a refusal.
pub(super) fn remedy(refusal: &str) -> &'static str {
    if refusal.contains(NO_IMAGE_VOLUMES) {
        return "have the agent copied (agent.delivery: copy in the chart's values) and create the \
                cluster again, or run containerd 2.1 or CRI-O 1.31 on all nodes";
    }
    if refusal.contains(NOT_MOUNTED) {
        return "see what that node's container runtime has of the agent's image, or have the agent copied \
                (agent.delivery: copy in the chart's values) and create the cluster again";
    }
    if refusal.contains(&*agent_not_executable()) {
        return "let the node's volumes be executed (mount option noexec), or have the agent come the \
                other way (agent.delivery in the chart's values) and create the cluster again";
    }
    "check that the image is built for the nodes' processors"
}

/// What to do about a volume that cannot be mounted.
pub(super) fn mount_remedy(words: &str) -> &'static str {
    if words.contains(NO_PLUGIN) && words.contains(quorate_plan::names::pod::BIN) {
        return "have the agent copied (agent.delivery: copy in the chart's values) and create the \
                cluster again, or run Kubernetes 1.35 on all nodes: this one's kubelet knows no image \
                volumes";
    }
    "make the volume, Secret or ConfigMap that is named"
}

fn agent_not_executable() -> String {
    format!("\"{}\": permission denied", quorate_contract::paths::AGENT)
}

/// The image that could not be had and the registry's words, without the runtime's frame. The kubelet
/// repeats them while it backs off, so that both states give one sentence. `own` is the container's
/// image; what is missing may also be one of its volumes.
pub(super) fn pull(message: &str, own: &str) -> String {
    let mut image = own;
    let mut words = message;
    if let Some((frame, rest)) = words.split_once("ErrImagePull: ") {
        (image, words) = (quoted(frame).unwrap_or(image), rest);
    }
    if words.starts_with("rpc error: ")
        && let Some((_, rest)) = words.split_once(" desc = ")
    {
        words = rest;
    }
    for frame in [
        "failed to pull and unpack image ",
        "failed to resolve image ",
        "failed to resolve reference ",
        "Failed to apply default image tag ",
        "couldn't parse image name ",
    ] {
        if let Some(rest) = words.strip_prefix(frame)
            && let Some((name, rest)) = rest.split_once("\": ")
        {
            // A runtime completes names: that of the container is told as it was written.
            let name = name.trim_start_matches('"');
            if !completes(name, image) {
                image = name;
            }
            words = rest;
        }
    }
    let words = match quote(words) {
        empty if empty.is_empty() => "the registry gave no reason".to_owned(),
        words => words,
    };
    format!("{image}: {words}")
}

/// Whether a name is another, or what a runtime makes of it: `docker.io/library/app:latest` of `app`.
fn completes(full: &str, short: &str) -> bool {
    let full = if short.contains([':', '@']) { full } else { full.trim_end_matches(":latest") };
    full.strip_suffix(short).is_some_and(|host| host.is_empty() || host.ends_with('/'))
}

/// What stands between the first quotation marks.
fn quoted(text: &str) -> Option<&str> {
    text.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_without_image_volumes_are_told_as_such() {
        let containerd = "failed to generate container \"6a93\" spec: failed to generate spec: failed to \
                          mkdir \"\": mkdir : no such file or directory";
        assert_eq!(
            refusal(containerd),
            "the node's container runtime knows no image volumes (failed to mkdir \"\": mkdir : no such \
             file or directory)"
        );
        assert!(refusal("Mount.HostPath is empty").starts_with(NO_IMAGE_VOLUMES));
        assert!(remedy(&refusal(containerd)).contains("agent.delivery: copy"));
        let lost = refusal("failed to mount image volume: ImageVolumeMountFailed: not found");
        assert!(remedy(&lost).starts_with("see what that node's"), "{lost}");
        assert_eq!(refusal("failed to mkdir \"/data\": full"), "failed to mkdir \"/data\": full");
    }

    #[test]
    fn kubelets_without_image_volumes_are_told_as_such() {
        let kubelet = "MountVolume.SetUp failed: failed to get Plugin from volumeSpec for volume \
                       \"quorate-bin\" err=no volume plugin matched";
        assert!(mount_remedy(kubelet).contains("agent.delivery: copy"));
        for other in [&*kubelet.replace("quorate-bin", "data"), "secret \"quorate-bin\" not found"]
        {
            assert!(mount_remedy(other).starts_with("make the volume"), "{other}");
        }
    }

    #[test]
    fn a_volume_that_cannot_be_executed_is_no_matter_of_processors() {
        let message = "runc create failed: unable to start container process: exec: \
                       \"/quorate/bin/quorate-agent\": permission denied";
        assert!(remedy(&refusal(message)).contains("noexec"));
        let other = "exec: \"/app\": permission denied";
        assert!(remedy(&refusal(other)).contains("processors"));
    }

    #[test]
    fn the_image_that_is_missing_is_named_and_not_the_containers() {
        let refused = "failed to pull and unpack image \"localhost/agent:v1\": failed to resolve reference \
                       \"localhost/agent:v1\": connection refused";
        let backs_off =
            format!("Back-off pulling image \"localhost/agent:v1\": ErrImagePull: {refused}");
        for message in [refused, &backs_off] {
            assert_eq!(pull(message, "app"), "localhost/agent:v1: connection refused");
        }
        let own = "failed to pull and unpack image \"docker.io/library/app:latest\": no such host";
        assert_eq!(pull(own, "app"), "app: no such host");
        let own = "failed to pull and unpack image \"docker.io/example/app:1\": no such host";
        assert_eq!(pull(own, "example/app:1"), "example/app:1: no such host");
        assert_eq!(pull("", "app"), "app: the registry gave no reason");
    }
}
