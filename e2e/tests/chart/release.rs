//! The life of a release: an older version, its upgrade, the way back, the end, and a new beginning.
//! What runs is not touched by any of it.

use crate::older::{self, FIELD};
use crate::{IMAGE, documented, stand};
use quorate_e2e::{Lab, SYSTEM};
use serde_json::Value;
use std::collections::BTreeSet;

const DEFINITION: &str = "miniclusters.quorate.dev";
/// A queue that may grow, and a program.
const IDLE: &str = "long-idle";
const BUSY: &str = "long-busy";

#[test]
fn upgrade_rollback_uninstall_and_reinstall_leave_running_clusters_alone() {
    let images = documented::images();
    assert_eq!(images.len(), 2, "{images:?}");
    assert!(images.iter().all(|archive| archive.is_file()), "{images:?}");
    let mut stand = stand();
    // Until the end, releases come and go.
    let begin = crate::trail::end(&stand.lab.cluster);
    let (first, older) = {
        let lab = &stand.lab;
        documented::run(&stand, "helm uninstall", &[]);
        documented::run(&stand, "kubectl delete crd", &[]);
        let older = older::chart(lab).display().to_string();
        stand.helm(&[
            "install",
            "quorate",
            &older,
            "--set=replicas=1",
            "--set=controller.log.filter=debug",
        ]);
        lab.rolled_out();
        assert!(!knows_the_field(lab));
        let refused = lab.create(&with_the_field()).unwrap_err();
        assert!(refused.contains(FIELD), "{refused}");
        lab.minicluster(IDLE, &format!("size: 2\nminSize: 1\nmaxSize: 3\n{IMAGE}"));
        let program = "program: {parallel: {command: [sleep, '3600'], tasks: 2}}";
        lab.minicluster(BUSY, &format!("size: 2\nslots: 1\n{IMAGE}\n{program}"));
        lab.state(IDLE, "Ready");
        lab.state(BUSY, "Running");
        ((life(lab, IDLE), life(lab, BUSY)), older)
    };
    let same = |lab: &Lab, when: &str| {
        for (name, before) in [(IDLE, &first.0), (BUSY, &first.1)] {
            let now = life(lab, name);
            assert!(now.is_superset(before), "{name} {when}: {before:#?} became {now:#?}");
        }
    };

    // The upgrade brings a new definition, keeps the user's values, and another agent for new
    // clusters only.
    let lab = &stand.lab;
    documented::run(&stand, "helm upgrade", &["--set=agent.image.tag=next"]);
    lab.rolled_out();
    assert!(knows_the_field(lab));
    lab.kubectl_with(&["create", "--dry-run=server", "-f", "-"], &with_the_field()).unwrap();
    let deployment = lab.list("deployments", SYSTEM).remove(0);
    assert_eq!(deployment["spec"]["replicas"], 1);
    let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
    for kept in ["--log-filter=debug", "--agent-image=localhost/quorate-agent:next"] {
        assert!(arguments.contains(kept), "{arguments}");
    }
    lab.kubectl(&["scale", "mc", IDLE, "--replicas=3"]).unwrap();
    let grown = lab.until(IDLE, "grown", |object| object["status"]["online"] == 3);
    assert_eq!(accepted(&grown), "True", "{}", grown["status"]);
    same(lab, "after the upgrade");

    // The way back takes the definition along.
    documented::run(&stand, "helm rollback", &[]);
    lab.rolled_out();
    assert!(!knows_the_field(lab));
    lab.kubectl(&["scale", "mc", IDLE, "--replicas=2"]).unwrap();
    lab.until(IDLE, "two again", |object| object["status"]["online"] == 2);
    same(lab, "after the rollback");

    // Without a controller everything runs on.
    documented::run(&stand, "helm uninstall", &[]);
    nothing_is_left(lab);
    lab.kubectl(&["scale", "mc", IDLE, "--replicas=3"]).unwrap();
    same(lab, "without a controller");

    // The bases are the same release, and adopt what runs.
    // The definition that is there was Helm's.
    let force = "--force-conflicts";
    documented::run(&stand, "kubectl apply --server-side -k", &[force, "--dry-run=server"]);
    documented::run(&stand, "kubectl apply --server-side -k", &[force]);
    lab.rolled_out();
    assert!(knows_the_field(lab));
    lab.until(IDLE, "grown again", |object| object["status"]["online"] == 3);
    same(lab, "after the bases");
    let bases = objects(lab);
    for base in ["config/manager", "config/rbac"] {
        lab.kubectl(&["delete", "-k", &crate::path(base).display().to_string()]).unwrap();
    }
    nothing_is_left(lab);

    documented::run(&stand, "helm install", &[]);
    lab.rolled_out();
    assert_eq!(bases, objects(lab));
    stand.helm(&["upgrade", "quorate", &crate::chart()]);
    lab.rolled_out();
    same(lab, "after the last release");
    let samples = crate::path("config/samples").display().to_string();
    lab.kubectl(&["apply", "--dry-run=server", "-k", &samples]).unwrap();
    let name = "new";
    lab.minicluster(name, &format!("{IMAGE}\nprogram: {{command: ['true']}}"));
    lab.state(name, "Succeeded");
    lab.kubectl(&["delete", "mc", name, IDLE, BUSY]).unwrap();
    std::fs::remove_dir_all(older).unwrap();
    let end = crate::trail::end(&stand.lab.cluster);
    stand.changing.push(begin..end);
}

/// What would change if anything of a cluster were made anew: its JobSet and the state of its pods.
fn life(lab: &Lab, name: &str) -> BTreeSet<String> {
    let jobset = lab.get("jobset", name).unwrap();
    let mut life = BTreeSet::from([format!("jobset {}", jobset["metadata"]["uid"])]);
    for pod in lab.of("pods", name) {
        let (meta, status) = (&pod["metadata"], &pod["status"]);
        let restarts = &status["containerStatuses"][0]["restartCount"];
        life.insert(format!("{} {} {} {restarts}", meta["name"], meta["uid"], status["phase"]));
    }
    life
}

fn accepted(object: &Value) -> &Value {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    &conditions.iter().find(|condition| condition["type"] == "Accepted").unwrap()["status"]
}

fn knows_the_field(lab: &Lab) -> bool {
    let text = lab.kubectl(&["get", "crd", DEFINITION, "-o", "json"]).unwrap();
    let definition: Value = serde_json::from_str(&text).unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"][FIELD].is_object()
}

fn with_the_field() -> String {
    format!(
        "apiVersion: quorate.dev/v1alpha1\nkind: MiniCluster\nmetadata: {{name: later}}
spec: {{{FIELD}: 60, image: 'localhost/busybox:v1'}}"
    )
}

/// Nothing of a release but the definition, its namespace, and in that the controller's own lease.
fn nothing_is_left(lab: &Lab) {
    let all = |namespaced: &str| {
        let kinds = ["api-resources", "--verbs=list", "-o", "name", namespaced];
        let kinds = lab.kubectl(&kinds).unwrap();
        kinds.lines().filter(|kind| !kind.starts_with("events")).collect::<Vec<_>>().join(",")
    };
    let (inside, outside) = (all("--namespaced=true"), all("--namespaced=false"));
    let ours = ["-l", "app.kubernetes.io/part-of=quorate"];
    let left = || {
        let mut left = lab.kubectl(&["get", &outside, ours[0], ours[1], "-o", "name"]).unwrap();
        left.push('\n');
        left += &lab.kubectl(&["-n", SYSTEM, "get", &inside, "-o", "name"]).unwrap();
        let mut left: Vec<String> = left.lines().map(str::to_owned).collect();
        left.sort();
        left
    };
    let expected = [
        "configmap/kube-root-ca.crt",
        "customresourcedefinition.apiextensions.k8s.io/miniclusters.quorate.dev",
        "lease.coordination.k8s.io/quorate",
        "serviceaccount/default",
    ];
    lab.eventually("only what is documented is left", left, |left| {
        let left: Vec<_> = left.iter().filter(|name| !name.starts_with("namespace/")).collect();
        left == expected
    });
}

/// All objects of the release without what the API server and Helm add.
fn objects(lab: &Lab) -> Vec<Value> {
    let kinds = "clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,deployments,\
                 poddisruptionbudgets,networkpolicies,services";
    let ours = ["-l", "app.kubernetes.io/part-of=quorate", "-o", "json"];
    let mut arguments = vec!["-n", SYSTEM, "get", kinds];
    arguments.extend(ours);
    let list: Value = serde_json::from_str(&lab.kubectl(&arguments).unwrap()).unwrap();
    let items = list["items"].as_array().unwrap();
    let mut objects: Vec<Value> = items
        .iter()
        .map(|object| {
            let mut object = object.clone();
            let mut meta = serde_json::Map::new();
            for kept in ["name", "namespace", "labels"] {
                meta.insert(kept.into(), object["metadata"][kept].clone());
            }
            object["metadata"] = meta.into();
            object.as_object_mut().unwrap().remove("status");
            strip(&mut object);
            object
        })
        .collect();
    objects.sort_by_key(|object| format!("{}{}", object["kind"], object["metadata"]["name"]));
    assert_eq!(objects.len(), 11, "{objects:#?}");
    objects
}

/// Takes out what Helm writes into labels, and addresses that the API server gives.
fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for of in ["app.kubernetes.io/managed-by", "helm.sh/chart"] {
                map.remove(of);
            }
            map.values_mut().for_each(strip);
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}
