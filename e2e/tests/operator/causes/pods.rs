//! Pods that cannot be placed, or cannot start.

use super::{Case, IMAGE, explained, kubectl};
use crate::LAB;

/// A volume of the main container.
fn mount(volume: &str) -> String {
    format!(
        "{IMAGE}\ntemplate:\n  spec:\n    volumes: [{{name: data, {volume}}}]\n    containers:\n    \
         - name: main\n      volumeMounts: [{{name: data, mountPath: /data, readOnly: true}}]"
    )
}

/// A launcher that keeps a queue would be tried again; that of a program fails for good.
const PROGRAM: &str = "program: {command: ['true']}";

/// The claim that is missing, and a volume of the node's own files for it.
const CLAIM: &str = "
apiVersion: v1
kind: PersistentVolume
metadata: {name: why-volume}
spec:
  capacity: {storage: 1Mi}
  accessModes: [ReadOnlyMany]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ''
  hostPath: {path: /usr/share}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: absent-claim}
spec:
  accessModes: [ReadOnlyMany]
  storageClassName: ''
  volumeName: why-volume
  resources: {requests: {storage: 1Mi}}
";

#[test]
fn pods_that_no_node_takes_are_explained_by_what_is_short_or_does_not_match() {
    let requests = |what: &str| format!("size: 2\n{IMAGE}\nresources: {{requests: {{{what}}}}}");
    let unschedulable = |name, spec| Case::new(name, spec, "Unschedulable");
    explained(&[
        unschedulable("why-cpu", requests("cpu: '1000'"))
            .says(&["both pods cannot be scheduled: no node has 1000 free CPUs"]),
        unschedulable("why-memory", requests("memory: 5Ti"))
            .says(&["both pods cannot be scheduled: no node has 5Ti of free memory"]),
        unschedulable(
            "why-gpu",
            format!("size: 2\n{IMAGE}\nresources: {{limits: {{example.com/gpu: 2}}}}"),
        )
        .says(&["both pods cannot be scheduled: no node has 2 free example.com/gpu"]),
        unschedulable(
            "why-selector",
            format!("size: 2\n{IMAGE}\ntemplate: {{spec: {{nodeSelector: {{why-disk: tape}}}}}}"),
        )
        .says(&["both pods cannot be scheduled: no node matches the pods' node selector"])
        .healed(|| kubectl(&["label", "node", "n2", "why-disk=tape"]), "Ready"),
        unschedulable("why-claim", mount("persistentVolumeClaim: {claimName: absent-claim}"))
            .says(&["pod launcher-0-0 cannot be scheduled: there is no PersistentVolumeClaim absent-claim"])
            .healed(|| drop(LAB.create(CLAIM).unwrap()), "Ready"),
        Case::new(
            "why-gate",
            format!(
                "size: 1\n{IMAGE}\ntemplate: {{spec: {{schedulingGates: [{{name: example.com/wait}}]}}}}"
            ),
            "SchedulingGated",
        )
        .says(&["pod launcher-0-0 is held back by a scheduling gate"])
        .healed(
            || {
                let pod = &LAB.of("pods", "why-gate")[0]["metadata"]["name"];
                let open = r#"[{"op":"remove","path":"/spec/schedulingGates"}]"#;
                kubectl(&["patch", "pod", pod.as_str().unwrap(), "--type=json", "-p", open]);
            },
            "Ready",
        ),
    ]);
    kubectl(&["label", "node", "n2", "why-disk-"]);
}

#[test]
fn pods_that_cannot_start_are_explained_by_what_is_missing_or_fails() {
    let stage = "template:\n  spec:\n    initContainers:\n    - {name: stage, image: 'localhost/busybox:v1', \
                 command: [sh, -c, 'echo no input deck > /dev/termination-log; exit 3']}";
    let environment = "template: {spec: {containers: [{name: main, envFrom: [{configMapRef: {name: why-absent-map}}]}]}}";
    explained(&[
        Case::new("why-image", "size: 2\nimage: localhost/absent:v1".into(), "ImagePull")
            .says(&["both pods cannot pull image localhost/absent:v1: "]),
        Case::new("why-image-name", "image: 'localhost/UPPER:v1'".into(), "ImagePull").says(&[
            "pod launcher-0-0 cannot pull image localhost/UPPER:v1: invalid reference format: \
             repository name (UPPER) must be lowercase",
        ]),
        Case::new("why-init", format!("{IMAGE}\n{PROGRAM}\n{stage}"), "InitFailed")
            .says(&["init container stage of launcher-0-0 ended with code 3: no input deck"])
            .and(|status| {
                let failure = &status["failure"];
                assert_eq!((&failure["exitCode"], &failure["pod"]), (&3.into(), &"launcher-0-0".into()));
                assert!(failure["node"].as_str().unwrap().starts_with('n'), "{status}");
            }),
        Case::new("why-config-map", format!("{IMAGE}\n{environment}"), "ConfigMissing")
            .says(&["pod launcher-0-0 cannot be configured", "\"why-absent-map\" not found"])
            .healed(|| kubectl(&["create", "configmap", "why-absent-map"]), "Ready"),
        Case::new("why-secret", mount("secret: {secretName: why-absent-secret}"), "MountFailed")
            .says(&["pod launcher-0-0 cannot mount", "\"why-absent-secret\" not found"])
            .healed(|| kubectl(&["create", "secret", "generic", "why-absent-secret"]), "Ready"),
        Case::new("why-folder", mount("hostPath: {path: /no/such, type: Directory}"), "MountFailed")
            .says(&["pod launcher-0-0 cannot mount", "/no/such is not a directory"]),
        Case::new(
            "why-start",
            format!("{IMAGE}\n{PROGRAM}\ntemplate: {{spec: {{containers: [{{name: main, workingDir: /etc/passwd}}]}}}}"),
            "CannotRun",
        )
        .says(&["the main container of launcher-0-0 cannot run", "/etc/passwd: not a directory"]),
    ]);
}
