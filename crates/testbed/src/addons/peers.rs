//! Operators that benchmarks measure beside ours, as their projects ship them: mpi-operator and
//! Kubeflow Trainer. Pure.
//!
//! "Stock" means their own defaults; the raised limits of mpi-operator are those under which it was
//! quickest.

use crate::component::Recipe;
use crate::layout::Folder;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The namespace of mpi-operator's lease.
pub(super) const MPI_NAMESPACE: &str = "mpi-operator";
/// The namespace of Trainer.
pub(super) const TRAINER_NAMESPACE: &str = "kubeflow-system";

const TRAINER_WEBHOOKS: u16 = 9445;
const TRAINER_HEALTH: u16 = 8083;

/// How mpi-operator is started; `tuned` raises the limits that otherwise bound it.
pub(super) fn mpi_operator(folder: &Folder, output: &Path, tuned: bool) -> Recipe {
    let mut arguments = vec![format!("--kubeConfig={}", folder.kubeconfig("addons").display())];
    if tuned {
        let raised = [
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            "--controller-queue-rate-limit=1000",
            "--controller-queue-burst=2000",
            "--threadiness=8",
        ];
        arguments.extend(raised.map(str::to_owned));
    }
    Recipe {
        name: "mpi-operator",
        program: output.join("bin/mpi-operator"),
        arguments,
        environment: Vec::new(),
        // The port is not a matter of flags.
        ready: "http://127.0.0.1:8080/healthz".into(),
    }
}

/// How Trainer is started.
pub(super) fn trainer(folder: &Folder, output: &Path) -> Recipe {
    Recipe {
        name: "trainer",
        program: output.join("bin/trainer"),
        arguments: vec![format!("--config={}", folder.path("trainer.json").display())],
        environment: vec![
            ("KUBECONFIG", folder.kubeconfig("addons").display().to_string()),
            // Its certificates are always looked for below the folder of temporary files.
            ("TMPDIR", folder.path("trainer").display().to_string()),
        ],
        ready: format!("http://127.0.0.1:{TRAINER_HEALTH}/readyz"),
    }
}

/// Where Trainer looks for the certificate of its webhooks.
pub(super) fn trainer_certificates(folder: &Folder) -> PathBuf {
    folder.path("trainer/k8s-webhook-server/serving-certs")
}

/// Trainer's configuration (`config.trainer.kubeflow.org/v1alpha1`): its own but for addresses,
/// certificates and the lease.
pub(super) fn trainer_configuration() -> String {
    json!({
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "health": { "healthProbeBindAddress": format!("127.0.0.1:{TRAINER_HEALTH}") },
        "metrics": { "bindAddress": "127.0.0.1:8445", "secureServing": true },
        "webhook": { "host": "127.0.0.1", "port": TRAINER_WEBHOOKS },
        "leaderElection": { "leaderElect": false },
        "certManagement": { "enable": false },
        "controller": { "groupKindConcurrency": {
            "TrainJob.trainer.kubeflow.org": 5,
            "TrainingRuntime.trainer.kubeflow.org": 1,
            "ClusterTrainingRuntime.trainer.kubeflow.org": 1,
        } },
        "clientConnection": { "qps": 50, "burst": 100 },
    })
    .to_string()
}

/// Trainer's webhooks, on the API server's loopback.
pub(super) fn trainer_webhooks(authority: &str) -> [(&'static str, Value); 2] {
    let hook = |verb: &str, role: &str, kind: &str| {
        let path = format!("{verb}-trainer-kubeflow-org-v1alpha1-{kind}");
        json!({
            "name": format!("{role}.{kind}.trainer.kubeflow.org"),
            "clientConfig": {
                "url": format!("https://127.0.0.1:{TRAINER_WEBHOOKS}/{path}"),
                "caBundle": authority,
            },
            "rules": [{
                "apiGroups": ["trainer.kubeflow.org"],
                "apiVersions": ["v1alpha1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": [format!("{kind}s")],
            }],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        })
    };
    let object = |kind: &str, hooks: Vec<Value>| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": { "name": "trainer" },
            "webhooks": hooks,
        })
    };
    let validated = ["clustertrainingruntime", "trainingruntime", "trainjob"];
    let validating = validated.map(|kind| hook("validate", "validator", kind)).to_vec();
    let mutating = vec![hook("mutate", "defaulter", "trainjob")];
    [
        ("mutatingwebhookconfigurations", object("MutatingWebhookConfiguration", mutating)),
        ("validatingwebhookconfigurations", object("ValidatingWebhookConfiguration", validating)),
    ]
}
