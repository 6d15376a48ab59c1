//! The configuration files of all parts of a cluster. Pure: text from names and addresses.
//!
//! Most are JSON, which every reader of YAML takes, so that no library is needed to write them.

use crate::layout::{CONTROL_PLANE, Folder, Node, PODS, Runtime, Shape};
use serde_json::{Value, json};

/// containerd's (containerd-config.toml(5)). In the node's namespaces its default folders are private
/// already; what has no place there lies in the cluster's folder.
pub fn containerd(folder: &Folder, runtime: Runtime, node: Node) -> String {
    match runtime {
        Runtime::Distribution => containerd_1(folder, node),
        Runtime::Containerd2 => containerd_2(folder, node),
    }
}

/// Version 2 of the format, for containerd 1.6.
fn containerd_1(folder: &Folder, node: Node) -> String {
    let path = |name| folder.node(node, name).display().to_string();
    format!(
        r#"version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[plugins."io.containerd.internal.v1.opt"]
path = "{opt}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
# Without CAP_SYS_RESOURCE no process may ask for a better score than its parent's: runc would fail.
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{cni}"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"#,
        opt = path("opt"),
        pause = crate::pause::NAME,
        cni = path("cni"),
    )
}

/// Version 3 of the format, which containerd takes from 2.0 on: what was one plug-in are two.
fn containerd_2(folder: &Folder, node: Node) -> String {
    let path = |name| folder.node(node, name).display().to_string();
    format!(
        r#"version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[plugins."io.containerd.internal.v1.opt"]
path = "{opt}"

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"

[plugins."io.containerd.cri.v1.runtime"]
# Without CAP_SYS_RESOURCE no process may ask for a better score than its parent's: runc would fail.
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "{cni}"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
"#,
        opt = path("opt"),
        pause = crate::pause::NAME,
        cni = path("cni"),
    )
}

/// The pod network of a node (CNI 0.4.0 network configuration list). Its addresses are kept in
/// `/var/lib/cni`, which is the node's own.
pub fn cni(node: Node) -> String {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "hairpinMode": true,
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{ "subnet": node.pods() }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    })
    .to_string()
}

/// kubelet's (`kubelet.config.k8s.io/v1beta1`).
pub fn kubelet(folder: &Folder, shape: &Shape, node: Node) -> String {
    let certificate = format!("kubelet-{}", node.name());
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address(),
        "healthzBindAddress": "127.0.0.1",
        "readOnlyPort": 0,
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": folder.pki("ca.crt") },
        },
        "authorization": { "mode": "Webhook" },
        "tlsCertFile": folder.pki(&format!("{certificate}.crt")),
        "tlsPrivateKeyFile": folder.pki(&format!("{certificate}.key")),
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        "clusterDNS": [CONTROL_PLANE],
        "clusterDomain": shape.cluster_domain,
        "resolvConf": folder.node(node, "resolv.conf"),
        "podLogsDir": "/var/log/pods",
        "volumePluginDir": folder.node(node, "volume-plugins"),
        // The disk is the machine's: neither images nor pods may go because others fill it.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "50Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1%",
        },
        // Otherwise it tries to better its own score, which it may not.
        "oomScoreAdj": 0,
        "maxPods": 110,
    })
    .to_string()
}

/// kube-proxy's (`kubeproxy.config.k8s.io/v1alpha1`).
pub fn proxy(folder: &Folder, node: Node) -> String {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": { "kubeconfig": folder.kubeconfig("proxy") },
        "hostnameOverride": node.name(),
        "nodeIPOverride": [node.address()],
        "clusterCIDR": PODS,
        "oomScoreAdj": 0,
        // These are settings of the whole machine: zero leaves them alone.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
    })
    .to_string()
}

/// CoreDNS's (Corefile).
pub fn corefile(folder: &Folder, shape: &Shape) -> String {
    format!(
        ".:53 {{
    bind {CONTROL_PLANE}
    errors
    ready {CONTROL_PLANE}:8181
    kubernetes {domain} in-addr.arpa {{
        kubeconfig {kubeconfig} quorate-{name}
        pods insecure
        ttl 1
    }}
    cache 5 {{
        denial 9984 1
    }}
}}
",
        domain = shape.cluster_domain,
        kubeconfig = folder.kubeconfig("addons").display(),
        name = folder.name(),
    )
}

/// The JobSet controller's (`config.jobset.x-k8s.io/v1alpha1`).
pub fn jobset(folder: &Folder) -> String {
    json!({
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": { "leaderElect": false },
        "internalCertManagement": { "enable": false },
        "webhook": { "host": "127.0.0.1", "port": 9443, "certDir": folder.path("webhook") },
        "metrics": { "bindAddress": "127.0.0.1:8443", "certDir": folder.path("webhook") },
        "health": { "healthProbeBindAddress": "127.0.0.1:8081" },
    })
    .to_string()
}

/// The API server's audit policy: who did what to which object, without contents.
pub fn audit_policy() -> String {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{ "level": "Metadata" }],
    })
    .to_string()
}

/// resolv.conf(5) of nodes, and of what runs beside the control plane.
pub fn resolv_conf(shape: &Shape) -> String {
    let domain = &shape.cluster_domain;
    format!(
        "nameserver {CONTROL_PLANE}\nsearch default.svc.{domain} svc.{domain} {domain}\noptions ndots:5\n"
    )
}

/// resolv.conf(5) from which kubelet makes those of pods: it adds the searches of the cluster.
pub fn node_resolv_conf() -> String {
    format!("nameserver {CONTROL_PLANE}\n")
}

/// hosts(5) of every member of the cluster.
pub fn hosts(shape: &Shape) -> String {
    let nodes = shape.nodes().map(|node| format!("{} {}\n", node.address(), node.name()));
    format!("127.0.0.1 localhost\n{CONTROL_PLANE} control-plane\n{}", nodes.collect::<String>())
}

/// The webhooks of JobSet, which the API server reaches on its own loopback.
pub fn jobset_webhooks(authority: &str) -> [(&'static str, Value); 2] {
    let hook =
        |name: &str, path: &str, group: &str, version: &str, resource: &str, verbs: Value| {
            let mut hook = json!({
                "name": name,
                "clientConfig": {
                    "url": format!("https://127.0.0.1:9443{path}"),
                    "caBundle": authority,
                },
                "rules": [{
                    "apiGroups": [group],
                    "apiVersions": [version],
                    "operations": verbs,
                    "resources": [resource],
                }],
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            });
            if resource == "pods" {
                let of_a_jobset =
                    json!({ "key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists" });
                hook["objectSelector"] = json!({ "matchExpressions": [of_a_jobset] });
            }
            hook
        };
    let (group, version) = ("jobset.x-k8s.io", "v1alpha2");
    let create = || json!(["CREATE"]);
    let kind = |kind: &str, hooks: Value| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": { "name": "jobset" },
            "webhooks": hooks,
        })
    };
    let mutating = json!([
        hook(
            "mjobset.kb.io",
            "/mutate-jobset-x-k8s-io-v1alpha2-jobset",
            group,
            version,
            "jobsets",
            create()
        ),
        hook("mpod.kb.io", "/mutate--v1-pod", "", "v1", "pods", create()),
    ]);
    let validating = json!([
        hook(
            "vjobset.kb.io",
            "/validate-jobset-x-k8s-io-v1alpha2-jobset",
            group,
            version,
            "jobsets",
            json!(["CREATE", "UPDATE"]),
        ),
        hook("vpod.kb.io", "/validate--v1-pod", "", "v1", "pods", create()),
    ]);
    [
        ("mutatingwebhookconfigurations", kind("MutatingWebhookConfiguration", mutating)),
        ("validatingwebhookconfigurations", kind("ValidatingWebhookConfiguration", validating)),
    ]
}

#[cfg(test)]
mod tests;
