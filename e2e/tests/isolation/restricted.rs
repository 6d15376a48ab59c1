//! Pods of MiniClusters and of the controller under Pod Security `restricted`: any uid, nothing
//! writable, no token.

use crate::{DOMAIN, LAB, SPACES, launcher, name_of, objects, state};
use quorate_e2e::restricted;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

const SPACE: &str = "locked";

/// An example as it is checked in, under another name, with an image and what `restricted` wants.
fn example(folder: &str, name: &str, uid: u32, change: impl Fn(&mut Value)) {
    LazyLock::force(&SPACES);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(folder);
    let path = path.join("minicluster.yaml").display().to_string();
    let arguments = ["create", "--dry-run=client", "--validate=false", "-o", "json", "-f", &path];
    let mut object: Value = serde_json::from_str(&LAB.kubectl(&arguments).unwrap()).unwrap();
    object["metadata"] = json!({ "name": name, "namespace": SPACE });
    object["spec"]["image"] = "localhost/mpi-debian:v1".into();
    object["spec"]["template"] = restricted(uid);
    change(&mut object["spec"]);
    LAB.create(&object.to_string()).unwrap();
}

#[test]
fn examples_run_mpi_in_a_restricted_namespace_as_any_user() {
    // The examples' program is built on the reader's machine; here it comes with the image.
    let from_image = |program: &'static str| {
        move |spec: &mut Value| spec["program"]["parallel"]["command"][0] = program.into()
    };
    example("quickstart", "locked-mpich", 12_345, from_image("/opt/tests/mpich/hello"));
    example("groups", "locked-ompi", 4_000_000, from_image("/opt/tests/openmpi/hello"));
    for (name, ranks, hosts) in [("locked-mpich", 8, 4), ("locked-ompi", 5, 3)] {
        let object = state(SPACE, name, "Succeeded");
        assert_eq!(object["status"]["exitCode"], 0);
        let pod = launcher(SPACE, name);
        let output = LAB.kubectl(&["-n", SPACE, "logs", name_of(&pod)]).unwrap();
        let lines: Vec<&str> = output.lines().filter(|line| line.starts_with("rank ")).collect();
        let pods: BTreeSet<&str> =
            lines.iter().filter_map(|line| line.rsplit(' ').next()).collect();
        assert_eq!((lines.len(), pods.len()), (ranks, hosts), "{output}");
    }
}

#[test]
fn pods_have_no_token_and_nothing_to_write_to_but_memory() {
    let (name, uid) = ("locked-queue", 31_337);
    let queue_mode = |spec: &mut Value| {
        spec.as_object_mut().unwrap().remove("program");
        spec["size"] = 2.into();
    };
    example("quickstart", name, uid, queue_mode);
    let object = state(SPACE, name, "Ready");
    assert_eq!(object["status"]["online"], 2);
    for pod in objects(SPACE, "pods", name) {
        assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
        let volumes = pod["spec"]["volumes"].as_array().unwrap();
        assert!(volumes.iter().all(|volume| volume["projected"].is_null()), "{volumes:?}");
        let ask = |script: &str| {
            let exec = ["-n", SPACE, "exec", name_of(&pod), "-c", "main", "--", "sh", "-c", script];
            LAB.kubectl(&exec)
        };
        assert_eq!(ask("id -u").unwrap(), uid.to_string());
        assert!(ask("ls /var/run/secrets/kubernetes.io").is_err(), "there is a token");
        assert!(ask("touch /probe").is_err(), "the root file system is writable");
        assert!(ask("test -s /quorate/config/seed").is_ok(), "the seed is elsewhere");
        assert!(ask("touch /quorate/config/probe").is_err(), "the seed's folder is writable");
        // What can be written to is memory, which goes with the pod.
        let script = "awk '$1 != \"proc\" && $4 ~ /^rw/ {print $2, $3}' /proc/mounts";
        for line in ask(script).unwrap().lines() {
            let (path, kind) = line.split_once(' ').unwrap();
            let theirs = ["/dev", "/sys", "/proc"].iter().any(|top| path.starts_with(top));
            let small = ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"].contains(&path);
            assert!(kind == "tmpfs" || theirs || small, "{line}");
        }
        assert!(ask("cat /etc/resolv.conf").unwrap().contains(DOMAIN));
        let rights = ask("grep -E '^(CapEff|CapPrm|NoNewPrivs)' /proc/1/status").unwrap();
        let rights: Vec<&str> = rights.split_whitespace().collect();
        assert_eq!(
            rights,
            ["CapPrm:", "0000000000000000", "CapEff:", "0000000000000000", "NoNewPrivs:", "1"]
        );
    }
    // The account that the pods name may do nothing but what everybody may.
    let account = format!("--as=system:serviceaccount:{SPACE}:default");
    for (verb, resource) in
        [("get", "secrets"), ("list", "pods"), ("create", "pods"), ("get", "mc")]
    {
        let asked = LAB.kubectl(&["-n", SPACE, "auth", "can-i", verb, resource, &account]);
        assert!(asked.is_err(), "{verb} {resource}: {asked:?}");
    }
    LAB.kubectl(&["-n", SPACE, "delete", "mc", name]).unwrap();
}

#[test]
fn a_template_without_what_restricted_wants_is_told_which_fields() {
    LazyLock::force(&SPACES);
    let name = "too-free";
    let spec = json!({ "image": "localhost/mpi-debian:v1" });
    let object = json!({
        "apiVersion": "quorate.dev/v1alpha1", "kind": "MiniCluster",
        "metadata": { "name": name, "namespace": SPACE }, "spec": spec,
    });
    LAB.create(&object.to_string()).unwrap();
    let ask = || {
        let message = ["-n", SPACE, "get", "mc", name, "-o", "jsonpath={.status.message}"];
        LAB.kubectl(&message).unwrap()
    };
    LAB.eventually("it is told", ask, |text| {
        text.contains("restricted") && text.contains("allowPrivilegeEscalation")
    });
    assert!(objects(SPACE, "pods", name).is_empty());
    LAB.kubectl(&["-n", SPACE, "delete", "mc", name]).unwrap();
}

/// The controller's pod is put to the same admission.
#[test]
fn the_controllers_pod_passes_restricted() {
    LazyLock::force(&SPACES);
    let selector = "app.kubernetes.io/name=quorate-controller";
    let arguments = ["-n", "quorate-system", "get", "pods", "-l", selector, "-o", "json"];
    let list: Value = serde_json::from_str(&LAB.kubectl(&arguments).unwrap()).unwrap();
    let pods = list["items"].as_array().unwrap();
    assert!(!pods.is_empty());
    for pod in pods {
        let container = &pod["spec"]["containers"][0]["securityContext"];
        assert_eq!(container["readOnlyRootFilesystem"], true);
        assert!(container["runAsUser"].is_null(), "any uid that the cluster chooses");
        let mut spec = pod["spec"].clone();
        for taken in ["nodeName", "serviceAccountName", "serviceAccount"] {
            spec.as_object_mut().unwrap().remove(taken);
        }
        let object = |spec: &Value| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": "trial", "namespace": SPACE }, "spec": spec,
            })
        };
        let arguments = ["create", "--dry-run=server", "-o", "name", "-f", "-"];
        LAB.kubectl_with(&arguments, &object(&spec).to_string()).unwrap();
        // That it passes says something only where another does not.
        spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = true.into();
        let refused = LAB.kubectl_with(&arguments, &object(&spec).to_string()).unwrap_err();
        assert!(refused.contains("restricted"), "{refused}");
    }
}
