//! The components of the control plane and their flags. Pure.

use crate::component::Recipe;
use crate::layout::{API_PORT, CONTROL_PLANE, Folder, SERVICES};
use crate::plan::Plan;
use std::path::{Path, PathBuf};

/// All components of a cluster, in the order of their start.
pub fn recipes(folder: &Folder, plan: &Plan) -> Vec<Recipe> {
    let mut all = vec![
        etcd(folder, plan),
        apiserver(folder, plan),
        controller_manager(folder, plan),
        scheduler(folder, plan),
        coredns(folder, plan),
        jobset(folder, plan),
    ];
    all.extend(plan.addons.iter().filter_map(|(addon, output)| addon.recipe(folder, output)));
    all.extend(plan.kwok.as_ref().map(|kwok| kwok_controller(folder, kwok)));
    all
}

fn etcd(folder: &Folder, plan: &Plan) -> Recipe {
    let (clients, peers) = ("http://127.0.0.1:2379", "http://127.0.0.1:2380");
    Recipe {
        name: "etcd",
        program: plan.etcd.join("bin/etcd"),
        arguments: flags(&[
            ("name", "e".into()),
            ("data-dir", show(&folder.path("etcd"))),
            // What is lost with the machine need not be on its disk.
            ("unsafe-no-fsync", "true".into()),
            ("listen-client-urls", clients.into()),
            ("advertise-client-urls", clients.into()),
            ("listen-peer-urls", peers.into()),
            ("initial-advertise-peer-urls", peers.into()),
            ("initial-cluster", format!("e={peers}")),
            ("log-level", "warn".into()),
        ]),
        environment: Vec::new(),
        ready: format!("{clients}/health"),
    }
}

fn apiserver(folder: &Folder, plan: &Plan) -> Recipe {
    let pki = |name: &str| show(&folder.pki(name));
    let mut arguments = flags(&[
        ("etcd-servers", "http://127.0.0.1:2379".into()),
        ("bind-address", CONTROL_PLANE.to_string()),
        ("advertise-address", CONTROL_PLANE.to_string()),
        ("secure-port", API_PORT.to_string()),
        ("service-cluster-ip-range", SERVICES.into()),
        ("authorization-mode", "Node,RBAC".into()),
        ("enable-admission-plugins", "NodeRestriction".into()),
        ("token-auth-file", pki("tokens.csv")),
        ("client-ca-file", pki("ca.crt")),
        ("tls-cert-file", pki("apiserver.crt")),
        ("tls-private-key-file", pki("apiserver.key")),
        (
            "service-account-issuer",
            format!("https://kubernetes.default.svc.{}", plan.shape.cluster_domain),
        ),
        ("service-account-key-file", pki("service-accounts.pub")),
        ("service-account-signing-key-file", pki("service-accounts.key")),
        ("kubelet-client-certificate", pki("kubelet-client.crt")),
        ("kubelet-client-key", pki("kubelet-client.key")),
        ("kubelet-certificate-authority", pki("ca.crt")),
        ("kubelet-preferred-address-types", "InternalIP".into()),
        ("requestheader-client-ca-file", pki("ca.crt")),
        ("requestheader-username-headers", "X-Remote-User".into()),
        ("requestheader-group-headers", "X-Remote-Group".into()),
        ("requestheader-extra-headers-prefix", "X-Remote-Extra-".into()),
        ("requestheader-allowed-names", "front-proxy-client".into()),
        ("proxy-client-cert-file", pki("front-proxy.crt")),
        ("proxy-client-key-file", pki("front-proxy.key")),
        ("allow-privileged", "true".into()),
        ("endpoint-reconciler-type", "lease".into()),
        // No proxy runs beside it: it reaches webhooks behind services by their endpoints.
        ("enable-aggregator-routing", "true".into()),
        ("audit-policy-file", show(&folder.path("audit-policy.json"))),
        ("audit-log-path", show(&folder.audit_log())),
    ]);
    if plan.shape.fast_eviction {
        arguments.extend(flags(&[
            ("default-not-ready-toleration-seconds", "3".into()),
            ("default-unreachable-toleration-seconds", "3".into()),
        ]));
    }
    Recipe {
        name: "apiserver",
        program: plan.core("kube-apiserver"),
        arguments,
        environment: Vec::new(),
        ready: format!("https://{CONTROL_PLANE}:{API_PORT}/readyz"),
    }
}

fn controller_manager(folder: &Folder, plan: &Plan) -> Recipe {
    let mut arguments = logins(folder, "controller-manager");
    arguments.extend(flags(&[
        ("service-account-private-key-file", show(&folder.pki("service-accounts.key"))),
        ("root-ca-file", show(&folder.pki("ca.crt"))),
        ("use-service-account-credentials", "true".into()),
        ("cluster-signing-cert-file", show(&folder.pki("ca.crt"))),
        ("cluster-signing-key-file", show(&folder.pki("ca.key"))),
        ("flex-volume-plugin-dir", show(&folder.path("volume-plugins"))),
        ("secure-port", "10257".into()),
        // The limits for an idle cluster would make a thousand pods wait for a minute.
        ("kube-api-qps", "500".into()),
        ("kube-api-burst", "1000".into()),
        ("concurrent-job-syncs", "20".into()),
    ]));
    if plan.shape.fast_eviction {
        arguments.extend(flags(&[
            ("node-monitor-grace-period", "9s".into()),
            ("node-monitor-period", "1s".into()),
        ]));
    }
    Recipe {
        name: "kcm",
        program: plan.core("kube-controller-manager"),
        arguments,
        environment: Vec::new(),
        ready: "https://127.0.0.1:10257/healthz".into(),
    }
}

fn scheduler(folder: &Folder, plan: &Plan) -> Recipe {
    let mut arguments = logins(folder, "scheduler");
    arguments.extend(flags(&[
        ("secure-port", "10259".into()),
        ("kube-api-qps", "500".into()),
        ("kube-api-burst", "1000".into()),
    ]));
    Recipe {
        name: "scheduler",
        program: plan.core("kube-scheduler"),
        arguments,
        environment: Vec::new(),
        ready: "https://127.0.0.1:10259/readyz".into(),
    }
}

/// What controller manager and scheduler have in common.
fn logins(folder: &Folder, user: &str) -> Vec<String> {
    let login = show(&folder.kubeconfig(user));
    flags(&[
        ("kubeconfig", login.clone()),
        ("authentication-kubeconfig", login.clone()),
        ("authorization-kubeconfig", login),
        ("leader-elect", "false".into()),
        ("bind-address", "127.0.0.1".into()),
    ])
}

fn coredns(folder: &Folder, plan: &Plan) -> Recipe {
    Recipe {
        name: "coredns",
        program: plan.core("coredns"),
        arguments: vec!["-conf".into(), show(&folder.path("Corefile"))],
        environment: Vec::new(),
        ready: format!("http://{CONTROL_PLANE}:8181/ready"),
    }
}

fn jobset(folder: &Folder, plan: &Plan) -> Recipe {
    Recipe {
        name: "jobset",
        program: plan.core("jobset"),
        arguments: flags(&[
            ("config", show(&folder.path("jobset.json"))),
            ("kubeconfig", show(&folder.kubeconfig("addons"))),
        ]),
        environment: Vec::new(),
        ready: "http://127.0.0.1:8081/readyz".into(),
    }
}

fn kwok_controller(folder: &Folder, kwok: &Path) -> Recipe {
    Recipe {
        name: "kwok",
        program: kwok.join("bin/kwok"),
        arguments: flags(&[
            ("config", show(&folder.path("kwok.yaml"))),
            ("kubeconfig", show(&folder.kubeconfig("addons"))),
            ("manage-all-nodes", "false".into()),
            ("manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake".into()),
            ("node-lease-duration-seconds", "40".into()),
            ("cidr", "10.245.0.0/16".into()),
            ("node-ip", CONTROL_PLANE.to_string()),
            ("server-address", "127.0.0.1:10247".into()),
        ]),
        // It keeps files below its home folder.
        environment: vec![("HOME", show(folder.root()))],
        ready: "http://127.0.0.1:10247/healthz".into(),
    }
}

fn flags(flags: &[(&str, String)]) -> Vec<String> {
    flags.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

fn show(path: &(impl AsRef<Path> + ?Sized)) -> String {
    PathBuf::from(path.as_ref()).display().to_string()
}

#[cfg(test)]
mod tests;
