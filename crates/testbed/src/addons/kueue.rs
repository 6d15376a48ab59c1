//! Kueue: its configuration, its webhooks, and what it wants to find when it starts. Pure.
//!
//! Format: `config.kueue.x-k8s.io/v1beta2`, `admissionregistration.k8s.io/v1`.

use crate::component::Recipe;
use crate::layout::Folder;
use serde_json::{Value, json};
use std::path::Path;

/// The namespace that it expects to be in.
pub const NAMESPACE: &str = "kueue-system";
/// With certificates from outside it reads those of its metrics here, whatever it is told.
pub const CERTIFICATES: &str = "/etc/kueue/metrics/certs";
/// It ends at once if one of these is not served when it starts.
pub const SERVED: &[&str] = &[
    "/apis/kueue.x-k8s.io/v1beta2/workloads?limit=1",
    "/apis/kueue.x-k8s.io/v1beta2/clusterqueues?limit=1",
    "/apis/kueue.x-k8s.io/v1beta2/localqueues?limit=1",
    "/apis/kueue.x-k8s.io/v1beta2/resourceflavors?limit=1",
    "/apis/jobset.x-k8s.io/v1alpha2/jobsets?limit=1",
];

/// Ports beside those of JobSet, on the same loopback.
const WEBHOOKS: u16 = 9444;
const METRICS: u16 = 8444;
const HEALTH: u16 = 8082;

/// How it is started.
pub(super) fn recipe(folder: &Folder, output: &Path) -> Recipe {
    Recipe {
        name: "kueue",
        program: output.join("bin/kueue"),
        arguments: vec![format!("--config={}", folder.path("kueue.json").display())],
        environment: vec![("KUBECONFIG", folder.kubeconfig("addons").display().to_string())],
        ready: format!("http://127.0.0.1:{HEALTH}/readyz"),
    }
}

/// Its configuration: one replica, our certificates, JobSets only.
pub(super) fn configuration(folder: &Folder) -> String {
    json!({
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "leaderElection": { "leaderElect": false },
        "internalCertManagement": { "enable": false },
        "webhook": { "host": "127.0.0.1", "port": WEBHOOKS, "certDir": folder.path("webhook") },
        "metrics": { "bindAddress": format!("127.0.0.1:{METRICS}") },
        "health": { "healthProbeBindAddress": format!("127.0.0.1:{HEALTH}") },
        "integrations": { "frameworks": ["jobset.x-k8s.io/jobset"] },
        // A server of its own behind the API server, which no test asks.
        "featureGates": { "VisibilityOnDemand": false },
    })
    .to_string()
}

/// Its webhooks for JobSets and for its own kinds, on the API server's loopback.
pub(super) fn webhooks(authority: &str) -> [(&'static str, Value); 2] {
    let own = ("kueue.x-k8s.io", "v1beta2");
    let jobset = ("jobset.x-k8s.io", "v1alpha2");
    let hooks = |verb: &str, kinds: &[((&str, &str), &str)], operations: &[&str]| -> Value {
        let hook = |((group, version), kind): &((&str, &str), &str)| {
            let path = format!("{verb}-{}-{version}-{kind}", group.replace('.', "-"));
            let mut resources = vec![format!("{kind}s")];
            if *kind == "workload" && verb == "validate" {
                resources.push("workloads/status".into());
            }
            json!({
                "name": format!("{}{kind}.kb.io", &verb[..1]),
                "clientConfig": {
                    "url": format!("https://127.0.0.1:{WEBHOOKS}/{path}"),
                    "caBundle": authority,
                },
                "rules": [{
                    "apiGroups": [group],
                    "apiVersions": [version],
                    "operations": operations,
                    "resources": resources,
                }],
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            })
        };
        kinds.iter().map(hook).collect()
    };
    let mutating =
        [(own, "clusterqueue"), (jobset, "jobset"), (own, "resourceflavor"), (own, "workload")];
    let validating = [
        (own, "clusterqueue"),
        (own, "cohort"),
        (jobset, "jobset"),
        (own, "resourceflavor"),
        (own, "workload"),
    ];
    let object = |kind: &str, hooks: Value| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": { "name": "kueue" },
            "webhooks": hooks,
        })
    };
    [
        (
            "mutatingwebhookconfigurations",
            object("MutatingWebhookConfiguration", hooks("mutate", &mutating, &["CREATE"])),
        ),
        (
            "validatingwebhookconfigurations",
            object(
                "ValidatingWebhookConfiguration",
                hooks("validate", &validating, &["CREATE", "UPDATE"]),
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_have_the_paths_and_names_that_kueue_serves() {
        let [(_, mutating), (_, validating)] = webhooks("CA");
        let first = &mutating["webhooks"][1];
        assert_eq!(first["name"], "mjobset.kb.io");
        assert_eq!(
            first["clientConfig"]["url"],
            "https://127.0.0.1:9444/mutate-jobset-x-k8s-io-v1alpha2-jobset"
        );
        let last = &validating["webhooks"][4];
        assert_eq!(last["rules"][0]["resources"], json!(["workloads", "workloads/status"]));
        assert_eq!(
            last["clientConfig"]["url"],
            "https://127.0.0.1:9444/validate-kueue-x-k8s-io-v1beta2-workload"
        );
    }

    #[test]
    fn no_port_is_jobsets() {
        let text = configuration(&Folder::new("x"));
        for port in ["9443", "8443", "8081"] {
            assert!(!text.contains(port), "{port}");
        }
    }
}
