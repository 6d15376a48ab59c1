//! What the API server, its quotas and policies refuse.

use super::{Case, IMAGE, explained, kubectl, patch};
use crate::LAB;

/// Namespaces in which something is refused.
const NAMESPACES: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: why-few-pods}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: small, namespace: why-few-pods}
spec: {hard: {pods: '1'}}
---
apiVersion: v1
kind: Namespace
metadata: {name: why-few-jobs}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: jobs, namespace: why-few-jobs}
spec: {hard: {count/jobs.batch: '1'}}
---
apiVersion: v1
kind: Namespace
metadata: {name: why-no-secrets}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: secrets, namespace: why-no-secrets}
spec: {hard: {count/secrets: '0'}}
---
apiVersion: v1
kind: Namespace
metadata: {name: why-restricted, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: v1
kind: Namespace
metadata: {name: why-policy}
";

/// Policies that refuse pods of one name, and JobSets of another, in their own namespace.
fn policy(name: &str, group: &str, resource: &str, prefix: &str, message: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {name}}}
spec:
  matchConstraints:
    resourceRules: [{{apiGroups: ['{group}'], apiVersions: ['*'], resources: [{resource}], operations: [CREATE]}}]
  validations: [{{expression: \"!object.metadata.name.startsWith('{prefix}')\", message: {message}}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {name}}}
spec:
  policyName: {name}
  validationActions: [Deny]
  matchResources: {{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: why-policy}}}}}}
---
"
    )
}

/// A policy takes effect some time after it was made.
fn in_force(refused: &str) {
    let ask = || {
        LAB.kubectl_with(&["-n", "why-policy", "create", "--dry-run=server", "-f", "-"], refused)
    };
    let _refusal = LAB.eventually("the policy is in force", ask, Result::is_err);
}

fn raise(namespace: &str, quota: &str, what: &str) {
    let patch = format!("{{\"spec\":{{\"hard\":{{\"{what}\":\"50\"}}}}}}");
    kubectl(&["-n", namespace, "patch", "resourcequota", quota, "--type=merge", "-p", &patch]);
}

#[test]
fn what_quotas_and_policies_refuse_is_explained_in_their_words() {
    LAB.create(NAMESPACES).unwrap();
    LAB.create(
        &(policy("why-pods", "", "pods", "why-denied-", "pods need a cost centre")
            + &policy(
                "why-jobsets",
                "jobset.x-k8s.io",
                "jobsets",
                "why-refused",
                "JobSets need a project",
            )),
    )
    .unwrap();
    in_force(
        "{apiVersion: v1, kind: Pod, metadata: {name: why-denied-x}, \
          spec: {containers: [{name: a, image: a}]}}",
    );
    in_force(
        "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: why-refused}, spec: {}}",
    );
    let two = format!("size: 2\n{IMAGE}");
    let privileged =
        "template: {spec: {containers: [{name: main, securityContext: {privileged: true}}]}}";
    let volume = "template: {spec: {containers: [{name: main, volumeMounts: [{name: nope, mountPath: /x}]}]}}";
    explained(&[
        Case::new("why-pods", format!("size: 3\n{IMAGE}"), "QuotaExceeded")
            .within("why-few-pods")
            .says(&[
                "2 of 3 pods cannot be made: the ResourceQuota small leaves no room",
                "requested: pods=1, used: pods=1, limited: pods=1",
            ])
            .healed(|| raise("why-few-pods", "small", "pods"), "Ready"),
        Case::new("why-jobs", two.clone(), "QuotaExceeded")
            .within("why-few-jobs")
            .says(&["JobSet cannot make the Job of group worker: the ResourceQuota jobs leaves no room"])
            .healed(|| raise("why-few-jobs", "jobs", "count/jobs.batch"), "Ready"),
        Case::new("why-secrets", two.clone(), "QuotaExceeded")
            .within("why-no-secrets")
            .says(&["the Secret why-secrets-agent-", "is refused: the ResourceQuota secrets leaves no room"])
            .healed(|| raise("why-no-secrets", "secrets", "count/secrets"), "Ready"),
        Case::new("why-privileged", format!("{two}\n{privileged}"), "PodsRefused")
            .within("why-restricted")
            .says(&["no pod can be made: the namespace wants Pod Security \"restricted:latest\": privileged"])
            .healed(
                || {
                    let label = "pod-security.kubernetes.io/enforce=privileged";
                    kubectl(&["label", "namespace", "why-restricted", label, "--overwrite"]);
                },
                "Ready",
            ),
        Case::new("why-denied", two.clone(), "PodsRefused")
            .within("why-policy")
            .says(&["no pod can be made: the admission policy why-pods says: pods need a cost centre"])
            .healed(
                || kubectl(&["delete", "validatingadmissionpolicybinding", "why-pods"]),
                "Ready",
            ),
        Case::new("why-refused", two.clone(), "AdmissionRefused")
            .within("why-policy")
            .says(&["the JobSet why-refused is refused: the admission policy why-jobsets says: JobSets need a project"]),
        Case::new(
            "why-priority",
            format!("{two}\ntemplate: {{spec: {{priorityClassName: absent}}}}"),
            "PodsRefused",
        )
        .says(&["no pod can be made: no PriorityClass with name absent was found"]),
        Case::new("why-invalid", format!("{two}\n{volume}"), "Invalid")
            .says(&[
                "spec.template.spec.containers[0].volumeMounts[0].name: there is no volume `nope`",
            ])
            .healed(|| patch("default", "why-invalid", r#"{"template":null}"#), "Ready"),
    ]);
    kubectl(&["delete", "validatingadmissionpolicybinding", "why-jobsets"]);
}

#[test]
fn a_name_that_is_taken_is_explained_until_it_is_free() {
    LAB.create(
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: why-taken}, \
          spec: {podSelector: {matchLabels: {mine: 'yes'}}}}",
    )
    .unwrap();
    explained(&[Case::new("why-taken", format!("size: 2\n{IMAGE}"), "NameTaken")
        .says(&["there is a NetworkPolicy why-taken already, which was made by someone else"])
        .healed(|| kubectl(&["delete", "networkpolicy", "why-taken"]), "Ready")]);
}
